"""Groups of K with scales of blocks: every level, ends that are no multiples of 128, NaN beside groups, and faults."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError, ScheduleError
from lowtide.interpreter import interpret
from lowtide.interpreter.host import LEVELS

ROWS, COLUMNS, DEPTH = 40, 24, 300
FIELDS: dict[str, Any] = {"a": "e4m3", "b": "e4m3", "d": "f32", "layout": "nt"}
SCHEDULE = "grid.tile = [64, 32], k = 64, stages = 2"
ROUNDED, WRONG = [0, 256, DEPTH, DEPTH], [130, -5, 260, 999]
SCALES = {
    "of rows and columns": (lt.BlockScales(b=(1, 128)), LEVELS),
    "of rows and 128 columns": (lt.BlockScales(), ("atoms", "ptx")),
    "of 128 rows and columns": (lt.BlockScales(a=(128, 128)), ("cta", "nvvm")),
}


def adds(acc, c: lt.Full):
    return acc + c


@cache
def compiled(scales: str, epilogue: Any = None) -> tuple[CompiledKernel, lt.GemmSpec]:
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), block_scales=SCALES[scales][0], epilogue=epilogue, **FIELDS)
    return lt.compile_gemm(spec, "sm_90a", SCHEDULE), spec


def inputs(spec: lt.GemmSpec, ends: list[int]) -> dict[str, NDArray[Any]]:
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(0), groups=len(ends))
    return given | {"ends": np.array(ends, np.int32)}


def agrees(spec: lt.GemmSpec, found: Any, given: dict[str, NDArray[Any]]) -> bool:
    compared = lt.compare(spec, np.asarray(found), *lt.reference_with_bound(spec, **given))
    return compared.ok


@pytest.mark.parametrize("scales", SCALES)
def test_levels_agree_with_float64(scales: str) -> None:
    kernel, spec = compiled(scales)
    for seed, level in enumerate(SCALES[scales][1]):
        given = inputs(spec, (ROUNDED, WRONG)[seed % 2])
        assert agrees(spec, kernel.interpret(**given, level=level, seed=seed, sms=2), given), level


def test_ends_other_than_k_are_rounded_down_to_whole_blocks() -> None:
    kernel, spec = compiled("of rows and columns")
    one, other = inputs(spec, [127, 200, 255, DEPTH]), inputs(spec, [0, 128, 128, DEPTH])
    assert (lt.reference(spec, **one) == lt.reference(spec, **other)).all()
    for level in ("problem", "nvvm"):
        found = kernel.interpret(**one, level=level)
        assert (found == kernel.interpret(**other, level=level)).all()
        assert not found[[0, 2]].any() and found[[1, 3]].any(axis=(1, 2)).all()


def test_nan_in_blocks_of_other_groups_and_of_none_is_not_multiplied() -> None:
    """An empty group has a step of zeros past K, where there are no scales either."""
    kernel, spec = compiled("of rows and columns")
    given = inputs(spec, [0, 128, 128, 256])
    for name in "ab":
        given[name][256:] = np.nan
    for name in ("scale_a", "scale_b"):
        given[name][2:] = np.nan
        given[name][0, 3] = np.inf
    for level in ("cta", "ptx"):
        found = kernel.interpret(**given, level=level)
        assert not found[[0, 2]].any() and np.isfinite(found[3]).all() and not np.isfinite(found[1]).all(), level


def test_sums_are_added_to_d_which_an_empty_group_leaves_as_it_is() -> None:
    kernel, spec = compiled("of rows and 128 columns", adds)
    given, ends = inputs(spec, ROUNDED), len(ROUNDED)
    d = np.random.default_rng(1).standard_normal((ends, ROWS, COLUMNS)).astype(np.float32)
    found = kernel.interpret(**(given | {"c": d}), out=d.copy(), level="nvvm")
    assert agrees(spec, found, given | {"c": d}) and (found[0] == d[0]).all()


FAULTS = {
    "ends are not rounded": (r"arith.divui (%\w+), %c128", r"arith.divui \1, %c1"),
    "an empty group multiplies the block at its end": (r"arith.ceildivui (%\w+), %c128", r"arith.divui \1, %c128"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_level_cta_is_found(fault: str) -> None:
    kernel, spec = compiled("of rows and columns")
    text, (pattern, replacement) = kernel.levels["cta"], FAULTS[fault]
    faulty, given = re.sub(pattern, replacement, text), inputs(spec, [100, 130, 256, 256])
    assert faulty != text and agrees(spec, interpret(text, given), given)
    try:
        assert not agrees(spec, interpret(faulty, given), given)
    except InterpreterError as error:
        assert error.code


@pytest.mark.parametrize("given", ["scales = direct", "a.pack = none", "b.copy = cp.async.16"])
def test_a_field_that_scales_of_groups_do_not_support_is_refused(given: str) -> None:
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), block_scales=lt.BlockScales(), **FIELDS)
    with pytest.raises(ScheduleError, match=r"\[groups-field\]"):
        lt.compile_gemm(spec, "sm_90a", given)
