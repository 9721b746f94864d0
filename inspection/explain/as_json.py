"""The accesses of an explanation as plain data, with the names that docs/explain.md lists."""

from dataclasses import asdict
from typing import Any

from lowtide.inspection.explain.accesses import Accesses, GlobalAccess, SharedAccess
from lowtide.inspection.explain.composition import Composition
from lowtide.inspection.explain.hopper import TmaAccess
from lowtide.inspection.timeline.shares import Predicted

# The keys of each kind of access, in order.
_SHARED = "op what atom direction buffer swizzle ways wavefronts ideal_wavefronts witness place count executions"
_GLOBAL = (
    "op what atom direction sectors ideal_sectors requests total_sectors row_stride_bytes row_stride_known cache place "
    "count executions"
)
_TMA = (
    "op what direction box swizzle boxes bytes sectors ideal_sectors lines multicast parties row_stride_bytes "
    "row_stride_known l2_promotion cache place count executions"
)
_PRODUCT = (
    "atom layout warpgroups slices instructions a_bytes b_bytes cycles wavefronts bytes_per_cycle place count "
    "executions"
)


def accesses_json(accesses: Accesses) -> dict[str, Any]:
    """Five lists, in program order."""
    return {
        "shared_accesses": [_shared(access) for access in accesses.shared],
        "global_accesses": [_plain(access, _GLOBAL, **_of_matrix(access)) for access in accesses.global_],
        "tma_accesses": [_plain(access, _TMA, **_of_matrix(access)) for access in accesses.tma],
        "transactions": [asdict(found) for found in accesses.transactions],
        "wgmma": [_plain(found, _PRODUCT, layout=str(found.layout)) for found in accesses.products],
    }


def shares_json(predicted: Predicted) -> dict[str, Any]:
    """The time, and the resources in the order of `shares.FIELDS`."""
    shares = [asdict(share) | {"fields": share.fields} for share in predicted.shares]
    return {
        "microseconds": predicted.microseconds,
        "clock": predicted.clock,
        "binds": predicted.binds.resource,
        "resources": shares,
        "parts": list(predicted.parts),
    }


def composition_json(composition: Composition) -> dict[str, Any]:
    """The fields unchanged; the grid's tile and cluster as lists."""
    whole = asdict(composition)
    whole["roles"] = list(whole["roles"])
    whole["grid"] |= {"tile": list(composition.grid.tile), "cluster": list(composition.grid.cluster)}
    return whole


def _plain(found: Any, keys: str, **own: Any) -> dict[str, Any]:
    """The fields of these names, with tuples as lists. Values in `own` replace those of `found`."""
    values = {key: own[key] if key in own else getattr(found, key) for key in keys.split()}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _shared(access: SharedAccess) -> dict[str, Any]:
    conflict = access.conflict
    witness = {"bank": conflict.bank, "lanes": list(conflict.lanes), "addresses": list(conflict.addresses)}
    return _plain(
        access,
        _SHARED,
        ways=conflict.ways,
        wavefronts=conflict.wavefronts,
        ideal_wavefronts=conflict.ideal,
        witness=witness if conflict.ways > 1 else None,
    )


def _of_matrix(access: GlobalAccess | TmaAccess) -> dict[str, Any]:
    return {
        "sectors": access.sectors.touched,
        "ideal_sectors": access.sectors.ideal,
        "row_stride_bytes": access.row_stride,
        "row_stride_known": access.stride_known,
    }
