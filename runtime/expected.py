"""The results of a saved kernel in float64, with error bounds.

The accumulator's bound is γ_n·(|A|·|B|), γ_n = n·u/(1−n·u), with n = K + ⌈K/16⌉ + 2 roundings at u = 2⁻²³ (2⁻¹⁰ for f16
accumulators, 2⁻²⁴ for f32 inputs) after Higham, Accuracy and Stability of Numerical Algorithms, §3.1; it goes through
the epilogue as an interval (`epilogue.py`). If n·u ≥ 1 there is no such bound. For f64 accumulators the product is
computed to more than float64 (`wide_products.py`), and its own bound is added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowtide.decompositions import DECOMPOSITIONS
from lowtide.elements import element_type, exact_sums, stages_of_sum
from lowtide.errors import LoadError
from lowtide.runtime.dtypes import left_out, multiplied, wrapped
from lowtide.runtime.epilogue import Interval, evaluate, results_of
from lowtide.runtime.host_arrays import HostArray
from lowtide.runtime.kinds import (
    BATCH,
    IN_THE_SUM,
    K_GROUPS,
    NOT_OF_EPILOGUE,
    ROW_GROUPS,
    is_block_scale,
    is_mixed,
    problem_dims,
)
from lowtide.runtime.weights import unpack_weights, zero_points
from lowtide.runtime.wide_products import exact_product
from lowtide.words import APART

_SCALED_TOGETHER = 128  # the K of products that share a scale


def accumulator_growth(spec: Mapping[str, Any], k: int, is_scaled: bool = False) -> float:
    """γ_n for a sum over `k` products, n roundings by a relative error u; infinite if n·u ≥ 1.

    Subsequent roundings by another u multiply: (1 + γ)(1 + γ') − 1.
    """
    grown = 0.0
    row = DECOMPOSITIONS.get(spec.get("precision", ""))
    is_fast = spec.get("fast", False)
    if row is None:
        stages = stages_of_sum(spec["a"], spec["acc"], k, is_fast, is_scaled)
    else:
        stages = row.stages(spec["acc"], k, is_fast)
    for roundings, unit in stages:
        if roundings * unit >= 1:
            return math.inf
        growth = roundings * unit / (1 - roundings * unit)
        grown += growth + grown * growth
    return grown


def expected(
    manifest: Mapping[str, Any],
    operands: Mapping[str, Any],
    exact: bool,
    rows: np.ndarray,
    matrix: int = 0,
    number: int = 0,
) -> tuple[Interval, Any]:
    """(value, low, high) of the given rows of D, or of the full result of another `number`, in float64, and their error
    bound; in a batch, of matrix `matrix`."""
    names = [x["name"] for x in manifest["arguments"] if x["kind"] == "matrix"]
    types = (manifest["spec"][name] for name in ("a", "b"))
    parts = (_part_of(manifest, operands, name, matrix) for name in names)
    if is_mixed(manifest["spec"]):
        a, b = next(parts), _weights(manifest, operands, names[1])
    else:
        a, b = (multiplied(part, dtype) for part, dtype in zip(parts, types, strict=True))
    dims = problem_dims(manifest)
    if "a_rows" in manifest["spec"]:
        a = _taken(manifest, operands, a, rows)
    else:
        a = (a if dims[names[0]][-2:] == ("m", "k") else a.T)[rows]
    if manifest["spec"].get("pairs") == APART:
        b = b.reshape(2 * b.shape[1], b.shape[2])
    b = b if dims[names[1]][-2:] == ("k", "n") else b.swapaxes(-1, -2)
    a, b = _scaled(manifest, operands, (a, b), rows, matrix)
    if ROW_GROUPS in manifest["spec"]:
        product, own_error, size = _by_groups(manifest, operands, (a, b), rows)
    else:
        product, own_error = exact_product(a, b, manifest["spec"]["acc"])
        size = np.abs(a) @ np.abs(b)
    if not element_type(manifest["spec"]["acc"]).is_float:
        product, error = wrapped(product, manifest["spec"]["acc"]), np.zeros_like(product)
    elif exact:
        limit = exact_sums(manifest["spec"]["a"], manifest["spec"]["acc"])
        if float(size.max()) > limit:
            raise LoadError(
                f"manifest: k is too large for exact {manifest['spec']['acc']} sums; give a smaller example.k"
                " [example-k]"
            )
        error = np.zeros_like(product)
    else:
        row = DECOMPOSITIONS.get(manifest["spec"].get("precision", ""))
        is_scaled = any(is_block_scale(argument["kind"]) for argument in manifest["arguments"])
        error = accumulator_growth(manifest["spec"], a.shape[1], is_scaled) * size + own_error
        if row is not None:
            error += left_out(row, a, b, size)
    ends = (product, product - error, product + error)
    pairs = manifest["spec"].get("pairs")
    accumulator, *second = [ends] if pairs is None else _of_pairs(ends, pairs)
    program = manifest["epilogue_program"]
    full = [x for x in manifest["arguments"] if (x["role"], x["kind"]) == ("output", "full")]
    dtype = full[number]["dtype"] if number else manifest["spec"]["d"]
    own = {**program, "result": results_of(program)[number]}
    others = _epilogue_operands(manifest, operands, rows, matrix)
    return evaluate(own, accumulator, others, dtype, manifest["spec"]["acc"], *second)


def _epilogue_operands(
    manifest: Mapping[str, Any], operands: Mapping[str, Any], rows: np.ndarray, matrix: int
) -> dict[str, Any]:
    """The values of the epilogue's operands for these rows of D, by name; in a batch, of matrix `matrix`."""
    others = {}
    for argument in manifest["arguments"]:
        name, kind = argument["name"], argument["kind"]
        if argument["role"] == "input" and kind not in ("matrix", *NOT_OF_EPILOGUE):
            value = operands[name] if kind == "scalar" else _part_of(manifest, operands, name, matrix)
            if "per_group" in argument and value.ndim > 1:
                value = value[_groups_of(manifest, operands, rows)]
            others[name] = {"full": lambda x: in_rows(manifest, x)[rows], "per_row": lambda x: x[rows, None]}.get(
                kind, lambda x: x
            )(value)
    return others


def _of_pairs(sums: Interval, pairs: str) -> list[Interval]:
    """The intervals of the first and of the second column of each pair."""
    if pairs == "interleaved":
        halves = [slice(0, None, 2), slice(1, None, 2)]
    else:
        middle = sums[0].shape[1] // 2
        halves = [slice(0, middle), slice(middle, None)]
    return [(sums[0][:, half], sums[1][:, half], sums[2][:, half]) for half in halves]


def _by_groups(
    manifest: Mapping[str, Any], operands: Mapping[str, Any], factors: tuple[np.ndarray, np.ndarray], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The product of rows of A by the B (groups, K, N) of their groups, its own error, and that of magnitudes."""
    (a, b), acc = factors, manifest["spec"]["acc"]
    found, groups = np.zeros((3, len(a), b.shape[-1])), _groups_of(manifest, operands, rows)
    for group in np.unique(groups):
        own = groups == group
        product, error = exact_product(a[own], b[group], acc)
        found[:, own] = product, np.broadcast_to(error, product.shape), np.abs(a[own]) @ np.abs(b[group])
    return found[0], found[1], found[2]


def _taken(manifest: Mapping[str, Any], operands: Mapping[str, Any], a: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of A for these rows of the product, (rows, K). They are zeros where A has no such row."""
    index = next(operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "a_rows")
    at = index[rows].astype(np.int64)
    exists = (at >= 0) & (at < len(a))
    return np.where(exists[:, None], a[np.where(exists, at, 0)], 0)


def _groups_of(manifest: Mapping[str, Any], operands: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
    """The group of each of these rows of D."""
    ends = next(operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "ends")
    return np.searchsorted(ends, rows, side="right")


def _weights(manifest: Mapping[str, Any], operands: Mapping[str, HostArray], name: str) -> np.ndarray:
    """Packed weights as (N, K), times their scales; with groups of rows, as (groups, N, K)."""
    spec = manifest["spec"]
    weights = unpack_weights(operands[name].values().astype(np.uint8), spec["b"]).astype(np.float64)
    of_groups = {x["kind"]: operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] in IN_THE_SUM}
    if "group_zero" in of_groups:
        weights -= np.repeat(zero_points(of_groups["group_zero"], spec["b"]), spec["group"], axis=-2).swapaxes(-1, -2)
    if "group_scale" in of_groups:
        weights *= np.repeat(of_groups["group_scale"], spec["group"], axis=-2).swapaxes(-1, -2)
    return weights


def _scaled(
    manifest: Mapping[str, Any],
    operands: Mapping[str, Any],
    factors: tuple[np.ndarray, np.ndarray],
    rows: np.ndarray,
    matrix: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of A (M, K), and B (K, N) or of groups (groups, K, N), multiplied by the scales of their blocks, if there
    are any; in a batch, by those of `matrix`."""
    a, b = factors
    for argument in manifest["arguments"]:
        if not is_block_scale(argument["kind"]):
            continue
        dims = problem_dims(manifest)[argument["name"]][-2:]
        values = _part_of(manifest, operands, argument["name"], matrix)
        if dims[0].startswith("k"):
            values, dims = values.swapaxes(-1, -2), dims[::-1]
        if K_GROUPS in manifest["spec"]:
            values = values[:, _range_of_k(manifest, operands, matrix)[0] // _SCALED_TOGETHER :]
        block = int(dims[0].partition("/")[2] or 1)
        depth = np.repeat(values, _SCALED_TOGETHER, axis=-1)[..., : a.shape[1]]
        if dims[0].startswith("m"):
            a = a * depth[rows // block]
        else:
            b = b * np.repeat(depth, block, axis=-2)[..., : b.shape[-1], :].swapaxes(-1, -2)
    return a, b


def in_rows(manifest: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    """D, or a full operand, as (…, M, N), from its array in memory; and back."""
    return values if manifest["spec"].get("d_order", "row") == "row" else values.swapaxes(-1, -2)


def _part_of(manifest: Mapping[str, Any], operands: Mapping[str, HostArray], name: str, matrix: int) -> np.ndarray:
    """The values of an operand. In a batch, its part for one product, or all of it if products share it. With groups
    of K, its part for group number `matrix`."""
    dims, values = problem_dims(manifest)[name], operands[name].values()
    if K_GROUPS in manifest["spec"] and dims[0] == "k":
        return values[slice(*_range_of_k(manifest, operands, matrix))]
    return values[matrix] if dims[0] in (BATCH, K_GROUPS) and values.ndim == len(dims) else values


def _range_of_k(manifest: Mapping[str, Any], operands: Mapping[str, HostArray], group: int) -> tuple[int, int]:
    """The range of K of a group, whose ends increase up to K. With scales of blocks, other ends than K are rounded down
    to whole blocks."""
    ends = next(operands[x["name"]].values() for x in manifest["arguments"] if x["kind"] == "ends").astype(int)
    block = _SCALED_TOGETHER if any(is_block_scale(x["kind"]) for x in manifest["arguments"]) else 1
    whole = np.append(0, np.where(ends == ends.max(initial=0), ends, ends // block * block))
    return int(whole[group]), int(whole[group + 1])
