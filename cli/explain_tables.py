"""The tables of `lowtide explain`: the cost of each access to memory."""

import typer

from lowtide.cli.output import counted, line, table
from lowtide.inspection.explain.accesses import Accesses, GlobalAccess, SharedAccess
from lowtide.inspection.explain.hopper import (
    MULTIPLY_BITS_A_CYCLE,
    SHARED_BYTES_A_CYCLE,
    Product,
    TmaAccess,
    Transaction,
)


def print_accesses(accesses: Accesses) -> None:
    """Print a table for each kind of access in the kernel."""
    if accesses.products:
        typer.echo(
            "\nwgmma, a K step of all warpgroups (m64nNk16 takes N/2 cycles at full rate: "
            f"{MULTIPLY_BITS_A_CYCLE // 16} multiply-adds of 16-bit operands per cycle and SM)"
        )
        table(
            ("access", "instructions", "a k-slice of a warpgroup reads", "of the CTA", "cycles", "shared memory"),
            [_product_row(found) for found in accesses.products],
            numbers=(4,),
        )
    if accesses.shared:
        typer.echo("\nshared memory, all warps together (a wavefront is one trip to the banks)")
        table(
            ("what", "access", "buffer", "conflict", "wavefronts", "ideal", "witness"),
            [_shared_row(access) for access in accesses.shared],
            numbers=(4, 5),
        )
    if accesses.tma:
        typer.echo("\nTMA, boxes of a matrix; 32-byte sectors and 128-byte lines that a box touches")
        table(
            ("what", "access", "box", "boxes", "bytes", "sectors", "ideal", "lines", "row stride", "L2"),
            [_tma_row(access) for access in accesses.tma],
            numbers=(3, 4, 5, 6, 7),
        )
        for found in accesses.transactions:
            line("mbarrier", _transaction_text(found))
    if accesses.global_:
        typer.echo("\nglobal memory, 32-byte sectors in the worst request of a warp")
        table(
            ("what", "access", "sectors", "ideal", "row stride"),
            [_global_row(access) for access in accesses.global_],
            numbers=(2, 3),
        )


def _times(count: int, place: str | None) -> str:
    line_number = "" if place is None else f", line {place.rsplit(':', 2)[1]}"
    return line_number + (f" and {count - 1} more" if count > 1 else "")


def _product_row(found: Product) -> tuple[str, ...]:
    each = found.a_bytes + found.b_bytes
    return (
        f"{found.atom} {found.layout}{_times(found.count, found.place)}",
        f"{found.instructions} each of {counted(found.warpgroups, 'warpgroup')}",
        f"{found.a_bytes} bytes of A, {found.b_bytes} of B",
        f"{found.warpgroups * each} bytes",
        str(found.cycles),
        f"busy {found.wavefronts} cycles: {found.bytes_per_cycle:.1f} bytes per cycle of {SHARED_BYTES_A_CYCLE}",
    )


def _shared_row(access: SharedAccess) -> tuple[str, ...]:
    conflict = access.conflict
    witness = ""
    if conflict.ways > 1:
        unit = "row" if access.op == "sm.wgmma" else "lane"
        pairs = zip(conflict.lanes, conflict.addresses, strict=True)
        witness = f"bank {conflict.bank}: " + ", ".join(f"{unit} {lane} at byte {address}" for lane, address in pairs)
    return (
        access.what,
        f"{access.atom} {access.direction}s{_times(access.count, access.place)}",
        f"{access.buffer} {_swizzle_text(access.swizzle)}",
        "none" if conflict.ways == 1 else f"{conflict.ways}-way",
        str(conflict.wavefronts),
        str(conflict.ideal),
        witness,
    )


def _swizzle_text(swizzle: tuple[int, int, int]) -> str:
    return f"swizzle<{','.join(map(str, swizzle))}>"


def _tma_row(access: TmaAccess) -> tuple[str, ...]:
    return (
        access.what,
        f"{access.op.removeprefix('sm.')} {access.direction}s{_times(access.count, access.place)}{_sharing(access)}",
        f"{'x'.join(map(str, access.box))} {_swizzle_text(access.swizzle)}",
        str(access.boxes),
        str(access.bytes),
        str(access.sectors.touched),
        str(access.sectors.ideal),
        str(access.lines),
        _stride_text(access.row_stride, access.stride_known),
        access.cache + (f", promotion {access.l2_promotion} bytes" if access.direction == "read" else ""),
    )


def _sharing(access: TmaAccess) -> str:
    """For a multicast, boxes and bytes count one CTA's share."""
    return f", a share for {access.parties} CTAs of a {access.multicast}" if access.multicast else ""


def _transaction_text(found: Transaction) -> str:
    text = f"{found.what or 'no copy'}: expects {found.expects} bytes, the copies bring {found.copied}"
    if found.expects == found.copied:
        return text
    outcome = "never completes" if found.expects > found.copied else "completes too early, or never"
    return f"{text}{_times(found.count, found.place)}: its phase {outcome}; expect {found.copied}"


def _global_row(access: GlobalAccess) -> tuple[str, ...]:
    hint = "" if access.cache == "normal" else f" {access.cache}"
    return (
        access.what,
        f"{access.atom}{hint} {access.direction}s{_times(access.count, access.place)}",
        str(access.sectors.touched),
        str(access.sectors.ideal),
        _stride_text(access.row_stride, access.stride_known),
    )


def _stride_text(stride: int | None, known: bool) -> str:
    if stride is None:
        return "a vector"
    return f"{stride} bytes" + ("" if known else ", assumed")
