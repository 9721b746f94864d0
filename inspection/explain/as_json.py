"""The accesses of an explanation as plain data, with the names that docs/explain.md lists."""

from dataclasses import asdict
from typing import Any

from lowtide.inspection.explain.accesses import Accesses, GlobalAccess, SharedAccess
from lowtide.inspection.explain.composition import Composition
from lowtide.inspection.explain.hopper import Product, TmaAccess, Transaction


def accesses_json(accesses: Accesses) -> dict[str, Any]:
    """Five lists, in program order."""
    return {
        "shared_accesses": [_shared(access) for access in accesses.shared],
        "global_accesses": [_global(access) for access in accesses.global_],
        "tma_accesses": [_tma(access) for access in accesses.tma],
        "transactions": [_transaction(found) for found in accesses.transactions],
        "wgmma": [_product(found) for found in accesses.products],
    }


def composition_json(composition: Composition) -> dict[str, Any]:
    """The fields unchanged; the grid's tile and cluster as lists."""
    whole = asdict(composition)
    whole["roles"] = list(whole["roles"])
    whole["grid"] |= {"tile": list(composition.grid.tile), "cluster": list(composition.grid.cluster)}
    return whole


def _shared(access: SharedAccess) -> dict[str, Any]:
    conflict = access.conflict
    witness = {"bank": conflict.bank, "lanes": list(conflict.lanes), "addresses": list(conflict.addresses)}
    return {
        "op": access.op,
        "what": access.what,
        "atom": access.atom,
        "direction": access.direction,
        "buffer": access.buffer,
        "swizzle": list(access.swizzle),
        "ways": conflict.ways,
        "wavefronts": conflict.wavefronts,
        "ideal_wavefronts": conflict.ideal,
        "witness": witness if conflict.ways > 1 else None,
        "place": access.place,
        "count": access.count,
        "executions": access.executions,
    }


def _global(access: GlobalAccess) -> dict[str, Any]:
    return {
        "op": access.op,
        "what": access.what,
        "atom": access.atom,
        "direction": access.direction,
        "sectors": access.sectors.touched,
        "ideal_sectors": access.sectors.ideal,
        "requests": access.requests,
        "total_sectors": access.total_sectors,
        "row_stride_bytes": access.row_stride,
        "row_stride_known": access.stride_known,
        "cache": access.cache,
        "place": access.place,
        "count": access.count,
        "executions": access.executions,
    }


def _tma(access: TmaAccess) -> dict[str, Any]:
    return {
        "op": access.op,
        "what": access.what,
        "direction": access.direction,
        "box": list(access.box),
        "swizzle": list(access.swizzle),
        "boxes": access.boxes,
        "bytes": access.bytes,
        "sectors": access.sectors.touched,
        "ideal_sectors": access.sectors.ideal,
        "lines": access.lines,
        "multicast": access.multicast,
        "parties": access.parties,
        "row_stride_bytes": access.row_stride,
        "row_stride_known": access.stride_known,
        "l2_promotion": access.l2_promotion,
        "cache": access.cache,
        "place": access.place,
        "count": access.count,
        "executions": access.executions,
    }


def _transaction(found: Transaction) -> dict[str, Any]:
    return {
        "what": found.what,
        "expects": found.expects,
        "copied": found.copied,
        "place": found.place,
        "count": found.count,
    }


def _product(found: Product) -> dict[str, Any]:
    return {
        "atom": found.atom,
        "layout": str(found.layout),
        "warpgroups": found.warpgroups,
        "slices": found.slices,
        "instructions": found.instructions,
        "a_bytes": found.a_bytes,
        "b_bytes": found.b_bytes,
        "cycles": found.cycles,
        "wavefronts": found.wavefronts,
        "bytes_per_cycle": found.bytes_per_cycle,
        "place": found.place,
        "count": found.count,
        "executions": found.executions,
    }
