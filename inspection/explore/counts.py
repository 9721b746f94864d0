"""What `explain` counts for each op, by the line of the op at level `epilogue`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.inspection.draw.banks import title_of
from lowtide.inspection.explain.accesses import Accesses, GlobalAccess, SharedAccess, accesses_of
from lowtide.inspection.explain.explanation import Explanation
from lowtide.inspection.explain.hopper import Product, TmaAccess, Transaction

_NAME = "epilogue"  # of the file in locations

Counted = dict[str, Any]


def counts_of(text: str, found: Explanation | None) -> list[Counted]:
    """The counts of a kernel of level `epilogue`, as plain data: `line`, from 1, a `short` text, `is_bad`, and `rows`
    of a label and a value. The value of `picture` is how the title of the panel of the banks begins. `found`: its
    explanation, if there is one. Raises the errors of parsing and explaining."""
    with make_context() as context:
        accesses = accesses_of(parse_text(text, context, _NAME), in_file=True, apart=True)
    by_line = list(_of_accesses(accesses))
    if found is not None:
        by_line += _of_kernel(text, found)
    return [{"line": line, "short": short, "is_bad": is_bad, "rows": rows} for line, short, is_bad, rows in by_line]


_Words = tuple[str, bool, list[list[str]]]  # the short text, whether it is bad, and the rows
_Row = tuple[int, str, bool, list[list[str]]]


def _of_accesses(accesses: Accesses) -> Iterator[_Row]:
    kinds: tuple[tuple[Sequence[Any], Callable[[Any], _Words]], ...] = (
        (accesses.shared, _shared),
        (accesses.global_, _global),
        (accesses.tma, _tma),
        (accesses.transactions, _transaction),
        (accesses.products, _product),
    )
    for found, words in kinds:
        for access in found:
            if access.place is not None:
                yield int(access.place.rsplit(":", 2)[1]), *words(access)


def _shared(access: SharedAccess) -> _Words:
    conflict = access.conflict
    is_bad = conflict.ways > 1
    rows = [
        [f"{access.what}, {access.direction}", access.atom],
        ["buffer", f"{access.buffer} {_swizzle(access.swizzle)}"],
        ["bank conflicts", f"{conflict.ways}-way" if is_bad else "none"],
        ["wavefronts", f"{conflict.wavefronts} of all warps; {conflict.ideal} without conflicts"],
    ]
    if is_bad:
        unit = "row" if access.op == "sm.wgmma" else "lane"
        pairs = zip(conflict.lanes, conflict.addresses, strict=True)
        lanes = ", ".join(f"{unit} {lane} at byte {address}" for lane, address in pairs)
        rows.append(["worst phase", f"bank {conflict.bank}: {lanes}"])
    rows += [*_runs(access.executions), ["picture", title_of(access)]]
    return f"{conflict.ways}-way conflict" if is_bad else f"{conflict.wavefronts} wavefronts", is_bad, rows


def _global(access: GlobalAccess) -> _Words:
    sectors = access.sectors
    is_bad = sectors.touched > sectors.ideal
    rows = [
        [f"{access.what}, {access.direction}", access.atom],
        ["sectors", f"{sectors.touched} in the worst request of a warp; {sectors.ideal} are the fewest"],
        ["all warps", f"{access.requests} requests, {access.total_sectors} sectors"],
        ["row stride", _stride(access.row_stride, access.stride_known)],
        ["cache", access.cache],
        *_runs(access.executions),
    ]
    return f"{sectors.touched} sectors" + (f", ideal {sectors.ideal}" if is_bad else ""), is_bad, rows


def _tma(access: TmaAccess) -> _Words:
    sectors = access.sectors
    rows = [
        [
            f"{access.what}, {access.direction}",
            f"{access.boxes} × box of {_extents(access.box)}, {_swizzle(access.swizzle)}",
        ],
        ["bytes", f"{access.bytes:,}"],
        ["a box", f"{sectors.touched} sectors ({sectors.ideal} are the fewest), {access.lines} lines of 128 bytes"],
        ["row stride", _stride(access.row_stride, access.stride_known)],
        ["cache", access.cache],
        *_runs(access.executions),
    ]
    if access.multicast:
        rows.append(["multicast", f"a share for {access.parties} CTAs of a {access.multicast} of the cluster"])
    return f"{access.bytes:,} bytes", sectors.touched > sectors.ideal, rows


def _transaction(found: Transaction) -> _Words:
    is_bad = found.expects != found.copied
    rows = [["expects", f"{found.expects:,} bytes"], ["the copies bring", f"{found.copied:,} bytes of {found.what}"]]
    return f"{found.expects:,} bytes" + (f", copied {found.copied:,}" if is_bad else ""), is_bad, rows


def _product(found: Product) -> _Words:
    rows = [
        ["multiply", f"{found.atom} {found.layout}, {found.instructions} of each of {found.warpgroups} warpgroups"],
        ["a K step", f"{found.cycles} cycles at full rate"],
        [
            "its reads of shared memory",
            f"busy for {found.wavefronts} cycles: {found.bytes_per_cycle:.1f} of 128 bytes per cycle",
        ],
        ["a warpgroup reads", f"{found.a_bytes} bytes of A and {found.b_bytes} of B in a k-slice"],
        *_runs(found.executions),
    ]
    return f"{found.cycles} cycles", False, rows


def _of_kernel(text: str, found: Explanation) -> Iterator[_Row]:
    """The registers and the shared memory of a CTA, on the kernel and on its roles."""
    resources, composition = found.resources, found.composition
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        if words.startswith("tile.kernel "):
            registers = "not known" if resources.registers is None else f"{resources.registers} per thread"
            spills = (resources.spill_stores or 0) + (resources.spill_loads or 0)
            rows = [
                ["threads", str(resources.threads)],
                ["registers", registers + (f", {spills} bytes of spills" if spills else "")],
                ["shared memory", f"{resources.shared_memory:,} bytes"],
                ["CTAs per SM", str(resources.ctas_per_sm)],
            ]
            yield number, f"{registers.removesuffix(' per thread')} registers", spills > 0, rows
        for role in composition.roles:
            if words.startswith(f"{role.name} warps(") and role.registers:
                entry = f"{composition.entry_registers} at entry"
                rows = [["registers", f"{role.registers} per thread, {entry}"], ["warps", str(role.warps)]]
                yield number, f"{role.registers} registers", False, rows


def _runs(executions: int | None) -> list[list[str]]:
    return [["runs for a work tile", "known at run time" if executions is None else str(executions)]]


def _swizzle(bits: tuple[int, int, int]) -> str:
    return f"swizzle<{','.join(map(str, bits))}>" if bits[0] else "no swizzle"


def _extents(box: tuple[int, ...]) -> str:
    return "×".join(map(str, box))


def _stride(stride: int | None, known: bool) -> str:
    return "a vector" if stride is None else f"{stride:,} bytes" + ("" if known else ", assumed")
