"""Groups of rows of other types, in order and at an index: block scales, packed weights and integers."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.runtime import verify
from lowtide.runtime.expected import expected
from lowtide.runtime.row_indices import places_in
from lowtide.verification.checking.splits import SPLITS, ends_of

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
GROUPS = 4
FP8: dict[str, Any] = {"a": "e4m3", "b": "e4m3", "d": "f32"}
BLOCKS, COLUMNS = lt.BlockScales(), lt.BlockScales(b=(1, 128))
S4: dict[str, Any] = {"a": "bf16", "b": "s4", "d": "f32", "group": 64}


def routed(acc, bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (acc + bias)


def residual(acc, c: lt.Full):
    return acc + c


_WGMMA = "grid.tile = [64, 64], k = 128, stages = 2"
_MMA = "grid.tile = [16, 64], k = 64, atoms = [1, 4, 1], stages = 3"
_ENDS_OF_LEVELS = ("cta", "nvvm", "ptx")
# By name: target, schedule, fields, N and K, levels.
CASES: dict[str, tuple[str, str | None, dict[str, Any], tuple[int, int], tuple[str, ...]]] = {
    "a scale for 128 columns, through the ring": (
        "sm_90a",
        f"{_WGMMA}, scales = staged",
        FP8 | {"block_scales": BLOCKS},
        (152, 272),
        LEVELS,
    ),
    "a scale for 128 columns, read by consumers": (
        "sm_90a",
        f"{_WGMMA}, scales = direct",
        FP8 | {"block_scales": BLOCKS, "d": "bf16", "epilogue": routed},
        (152, 272),
        ("cta", "atoms", "ptx"),
    ),
    "a scale for each column, through the ring": (
        "sm_90a",
        f"{_WGMMA}, scales = staged",
        FP8 | {"block_scales": COLUMNS},
        (40, 272),
        _ENDS_OF_LEVELS,
    ),
    "a scale for each column, in turn": (
        "sm_90a",
        "grid.tile = [64, 32], k = 64, stages = 3, roles = pingpong(2), scales = direct",
        FP8 | {"block_scales": COLUMNS, "a": "e5m2"},
        (40, 400),
        _ENDS_OF_LEVELS,
    ),
    "block scales, stored at an index": (
        "sm_90a",
        f"{_WGMMA}, scales = staged",
        FP8 | {"block_scales": BLOCKS, "d_rows": True},
        (152, 272),
        _ENDS_OF_LEVELS,
    ),
    "block scales, gathered and scattered": (
        "sm_90a",
        "grid.tile = [64, 64], k = 128, stages = 2",
        FP8 | {"block_scales": COLUMNS, "a_rows": True, "d_rows": True},
        (40, 272),
        _ENDS_OF_LEVELS,
    ),
    "products of pieces": (
        "sm_90a",
        "grid.tile = [64, 32], stages = 2",
        {"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"},
        (40, 48),
        _ENDS_OF_LEVELS,
    ),
    "products of pieces, B as (K, N), mma.sync": (
        "sm_80",
        "grid.tile = [32, 32], stages = 2",
        {"a": "f32", "b": "f32", "d": "f32", "precision": "bf16x6", "layout": "tt"},
        (40, 48),
        ("cta", "nvvm"),
    ),
    "A as (K, M), transposed first": (
        "sm_80",
        "grid.tile = [32, 32], k = 32, stages = 2",
        {"a": "bf16", "b": "bf16", "d": "bf16", "layout": "nn"},
        (24, 40),
        LEVELS,
    ),
    "weights of 4 bits": ("sm_80", _MMA, S4, (80, 192), LEVELS),
    "weights of 4 bits with zero points, by defaults": (
        "sm_90a",
        None,
        S4 | {"b": "u4", "zero_points": True, "d": "bf16", "epilogue": routed},
        (80, 128),
        ("cta", "nvvm"),
    ),
    "weights of 4 bits, gathered and scattered": (
        "sm_80",
        _MMA,
        S4 | {"a_rows": True, "d_rows": True},
        (80, 192),
        _ENDS_OF_LEVELS,
    ),
    "weights of 8 bits": ("sm_80", None, {"a": "f16", "b": "s8", "d": "f16"}, (40, 96), ("cta", "nvvm")),
    "integers": ("sm_90a", None, {"a": "s8", "b": "u8", "d": "s32"}, (40, 96), ("cta", "ptx")),
    "full operands, stored at an index": (
        "sm_80",
        "grid.tile = [32, 32], k = 32, stages = 2",
        {"a": "bf16", "b": "bf16", "d": "bf16", "d_rows": True, "epilogue": residual},
        (24, 40),
        LEVELS,
    ),
    "full operands, gathered and scattered, by wgmma": (
        "sm_90a",
        "grid.tile = [64, 32], stages = 2",
        {"a": "bf16", "b": "bf16", "d": "bf16", "a_rows": True, "d_rows": True, "epilogue": residual},
        (24, 40),
        ("cta", "ptx"),
    ),
}
ROWS = 90
OF_D = ROWS + ROWS // 4 + 1


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    """For any extents and any number of groups."""
    target, schedule, fields, *_ = CASES[name]
    spec = lt.GemmSpec(**({"groups": None} | fields))
    return lt.compile_gemm(spec, target, schedule), spec


def agrees(name: str, level: str, ends: Any, seed: int) -> None:
    """The kernel's result at a level is within the bound of the reference, and other rows are not written."""
    (kernel, spec), (n, k) = compiled(name), CASES[name][3]
    given = lt.random_inputs(spec, ROWS, n, k, np.random.default_rng(seed), row_padding=16, groups=GROUPS)
    given["ends"] = np.array(ends, np.int32)
    out = np.full((OF_D if spec.d_rows else ROWS, n), 7, numpy_dtype(spec.d))
    before = {"out": out.copy()} if spec.d_rows else {}
    found = kernel.interpret(**given, out=out, level=level, seed=seed, sms=2)
    verdict = lt.compare(spec, found, *lt.reference_with_bound(spec, **given, **before))
    last = min(max(*ends, 0), ROWS)
    assert verdict.ok or not last, (level, ends, verdict.message)
    assert spec.d_rows or (np.asarray(found[last:], np.float32) == 7).all(), level


@pytest.mark.parametrize("name", CASES)
def test_levels_are_within_the_bound_at_several_splits(name: str) -> None:
    splits = ([0, 37, 37, 70], [60, 20, -(2**31), 999])
    for seed, level in enumerate(CASES[name][4]):
        agrees(name, level, splits[seed % 2], seed)


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_is_right_with_scales_through_the_ring(split: str) -> None:
    agrees("a scale for 128 columns, through the ring", "nvvm", ends_of(split, ROWS, 64, GROUPS), len(split))


FAULTS = {
    "the scales of the first group": (
        "cta",
        r"(%\S+ = memref\.subview %\S+\[)%group, 0, 0",
        r"%first = arith.subi %group, %group : index\n\1%first, 0, 0",
        "",
    ),
    "the scales of the rows of another place": ("smem", r"arith\.remui %m, %c4\w*", "arith.subi %m, %m", ""),
    "a box at any row": (
        "atoms",
        r"(arith\.divui %m, %c4\w* : index\n +%\w+ = )arith\.muli %\w+, %c4\w*",
        r"\1arith.minui %m, %m",
        r"\[box-corner\]",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_scales_of_another_group_or_of_other_rows_show(name: str) -> None:
    (kernel, spec), (level, old, new, code) = compiled("a scale for 128 columns, through the ring"), FAULTS[name]
    given = lt.random_inputs(spec, ROWS, 152, 272, np.random.default_rng(0), row_padding=16, groups=GROUPS)
    given |= {"ends": np.array([0, 37, 37, 70], np.int32), "d": np.zeros((ROWS, 152), np.float32)}
    wanted = lt.reference_with_bound(spec, **{each: value for each, value in given.items() if each != "d"})
    text = kernel.levels[level]
    faulty, count = re.subn(old, new, text)
    assert count == 1 and lt.compare(spec, interpret(text, given), *wanted).ok
    if code:
        with pytest.raises(InterpreterError, match=code):
            interpret(faulty, given)
    else:
        assert not lt.compare(spec, interpret(faulty, given), *wanted).ok


@pytest.mark.parametrize(
    "name",
    [
        "a scale for 128 columns, read by consumers",
        "a scale for each column, through the ring",
        "weights of 4 bits with zero points, by defaults",
        "full operands, stored at an index",
    ],
)
def test_the_check_of_saved_kernels_agrees(name: str) -> None:
    """That of `lowtide.runtime verify`, on its own operands."""
    (kernel, spec), (n, k) = compiled(name), CASES[name][3]
    saved = {**kernel.manifest, "example": {**kernel.manifest["example"], "row_groups": GROUPS}}
    manifest = verify.at_size(saved, (ROWS, n, k))
    operands, exact = verify.random_operands(manifest, np.random.default_rng(0))
    types = {each["name"]: numpy_dtype(each["dtype"]) for each in manifest["arguments"]}
    given = {each: operands[each].values().astype(types[each]) for each in operands}
    out = np.zeros((OF_D if spec.d_rows else ROWS, n), numpy_dtype(spec.d))
    found = np.asarray(kernel.interpret(**given, out=out, level="nvvm"), np.float64)
    places = places_in(given["d_rows"], OF_D) if spec.d_rows else np.arange(ROWS)
    rows = np.flatnonzero(places >= 0)
    wanted = expected(manifest, operands, exact, rows)
    assert verify.compare(found[places[rows]], *wanted, rows)[1] == ""
    (value, _, _), bound = wanted
    assert "out of bound" in verify.compare(value + 2 * bound + 1, *wanted, rows)[1]
