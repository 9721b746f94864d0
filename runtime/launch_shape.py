"""The parts of a launch that are known before its arguments, read from the manifest and checked against CUDA's
limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.elements import argument_type
from lowtide.errors import LaunchError
from lowtide.runtime.limits import (
    MAX_BLOCK,
    MAX_GRID,
    MAX_THREADS,
    max_cluster,
    max_shared_memory,
)
from lowtide.runtime.manifest import is_integer, shown
from lowtide.runtime.tensor_maps import TENSOR_MAP, TENSOR_MAP_BYTES

#: Bytes of each type of launch argument.
ARGUMENT_BYTES: dict[str, int] = {
    "ptr": 8,
    **{name: argument_type(name).bytes for name in ("i64", "i32", "f32", "f64", "f16", "bf16")},
    TENSOR_MAP: TENSOR_MAP_BYTES,
}
FLOAT_TYPES = ("f16", "bf16", "f32", "f64")
_KEYS = ("kernel", "grid", "block", "cluster", "shared_memory", "arguments")
_OPTIONAL_KEYS = ("programmatic", "cooperative")
Extents = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchShape:
    """The parts of a launch that are known before its arguments."""

    kernel: str
    block: Extents
    cluster: Extents | None
    shared_memory: int  # dynamic, bytes per CTA
    types: tuple[str, ...]  # of the kernel's arguments, keys of ARGUMENT_BYTES
    programmatic: bool = False  # may start before the kernels before it in the stream have ended
    cooperative: bool = False  # all CTAs run at the same time


def read_shape(attributes: Mapping[str, Any], capability: tuple[int, int]) -> LaunchShape:
    """The shape from the attributes of a tile.launch for `capability`. Raises ValueError with the entry and the
    limit."""
    for key in _KEYS:
        if key not in attributes:
            raise ValueError(f"{key} is missing; a launch has {', '.join(_KEYS)}")
    unknown = sorted(set(attributes) - {*_KEYS, *_OPTIONAL_KEYS})
    if unknown:
        known = ", ".join((*_KEYS, *_OPTIONAL_KEYS))
        raise ValueError(f"attribute {unknown[0]!r} is unknown; a launch has {known}")
    kernel, arguments = attributes["kernel"], attributes["arguments"]
    if not isinstance(kernel, str) or not kernel.isascii() or not kernel.isprintable() or not kernel:
        raise ValueError(f"kernel is {shown(kernel)}, must be the name of an entry of the PTX")
    if not isinstance(arguments, list):
        raise ValueError(f"arguments is {type(arguments).__name__}, must be a list")
    types = [argument.get("type") if isinstance(argument, dict) else None for argument in arguments]
    for argument, kind in zip(arguments, types, strict=True):
        if not isinstance(kind, str) or kind not in ARGUMENT_BYTES or "value" not in argument:
            raise ValueError(f"argument {shown(argument)} must have a value and a type of {', '.join(ARGUMENT_BYTES)}")
    block, cluster = _block(attributes["block"]), _cluster(attributes["cluster"], capability)
    _check_grid(attributes["grid"])
    memory, most = attributes["shared_memory"], max_shared_memory(capability)
    if not is_integer(memory) or not 0 <= memory <= most:
        raise ValueError(f"shared_memory is {shown(memory)}, must be 0 to {most} bytes, as on the target")
    programmatic, cooperative = (_flag(attributes, key) for key in _OPTIONAL_KEYS)
    if programmatic and capability < (9, 0):
        raise ValueError("programmatic is true, which needs a target of sm_90 or later")
    return LaunchShape(kernel, block, cluster, memory, tuple(map(str, types)), programmatic, cooperative)


def _flag(attributes: Mapping[str, Any], key: str) -> bool:
    value = attributes.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {shown(value)}, must be true or false")
    return value


def _block(value: Any) -> Extents:
    sides = _extents("block", value, MAX_BLOCK)
    if math.prod(sides) > MAX_THREADS:
        raise ValueError(f"block is {shown(value)}, {math.prod(sides)} threads; a CTA has at most {MAX_THREADS}")
    return sides


def _cluster(value: Any, capability: tuple[int, int]) -> Extents | None:
    if value is None:
        return None
    most = max_cluster(capability)
    sides = _extents("cluster", value, (most, most, most))
    if math.prod(sides) > most:
        raise ValueError(f"cluster is {shown(value)}, {math.prod(sides)} CTAs; on the target one has at most {most}")
    return sides


def _check_grid(value: Any) -> None:
    """Three extents, numbers in range or names of values."""
    if not isinstance(value, list) or len(value) != len(MAX_GRID):
        raise ValueError(f"grid is {shown(value)}, must have three extents")
    for extent, most in zip(value, MAX_GRID, strict=True):
        if not isinstance(extent, str) and not (is_integer(extent) and 1 <= extent <= most):
            raise ValueError(f"grid is {shown(value)}, must have values, or integers from 1 to {list(MAX_GRID)}")


def _extents(key: str, value: Any, most: Extents) -> Extents:
    if not isinstance(value, list) or len(value) != 3 or not all(map(is_integer, value)):
        raise ValueError(f"{key} is {shown(value)}, must be three integers ≥ 1")
    if not all(1 <= side <= limit for side, limit in zip(value, most, strict=True)):
        raise ValueError(f"{key} is {shown(value)}, must be three integers from 1 to {list(most)}")
    return (value[0], value[1], value[2])


def grid_within(limits: Extents, name: str) -> Callable[[Extents, Extents], Extents]:
    """A function that gives back the extents of a grid, in CTAs, of clusters of given sides. It raises LaunchError for
    extents outside of the limits, and for parts of clusters."""

    def grid(extents: Extents, cluster: Extents) -> Extents:
        if not extents[0]:  # nothing to do
            return extents
        if not all(1 <= extent <= limit for extent, limit in zip(extents, limits, strict=True)):
            raise LaunchError(
                f"{name}: the grid would be {extents} CTAs, CUDA allows 1 to {limits} on each axis;"
                f" use a smaller problem or a bigger CTA tile [grid-axes]"
            )
        if any(extent % side for extent, side in zip(extents, cluster, strict=True)):
            raise LaunchError(
                f"{name}: the grid would be {extents} CTAs, must be whole clusters of {cluster};"
                f" compile it with a smaller cluster, or with a grid that is rounded up to clusters [grid-clusters]"
            )
        return extents

    return grid
