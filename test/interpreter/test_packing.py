"""Matrices that lie anywhere: copied to aligned rows where they are not aligned, at every level and on both roads."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled import Step, expected, level_of, spec, steps_of
from support import assert_same

import lowtide as lt
from lowtide import targets
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

PACKED = "a.pack = rows, b.pack = rows, epilogue.pack = rows"
SMALL = f"grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3, {PACKED}"
BY_TMA = f"grid.tile = [128, 128], stages = 3, epilogue.path = tma, {PACKED}"
BATCH_BY_TMA = f"grid.tile = [64, 16], k = 64, stages = 2, roles = cooperative(1), path = tma, {PACKED}"
ROLES = f"grid.tile = [128, 128], stages = 3, epilogue.path = smem, {PACKED}"

#: Elements of padding behind the rows of a, b, d, and bytes by which their bases are off 256
APART = ((1, 3, 5), (2, 6, 10))
TIGHT = ((0, 0, 0), (0, 0, 0))


@cache
def kernel(layout: str, target: str, schedule: str, m: int | None = None, **more: int | None) -> CompiledKernel:
    problem = lt.GemmSpec(m=m, n=None, k=None, a="bf16", b="bf16", d="bf16", layout=layout, **more)
    return lt.compile_gemm(problem, target=target, schedule=schedule)


def inputs(layout: str, m: int, n: int, k: int, padding: tuple[int, int, int]) -> dict[str, Any]:
    """Small integers, rows apart by their length and that many elements."""
    rng = np.random.default_rng(m + n + k)
    shapes = ((m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n), (m, n))
    return {
        name: rng.integers(-3, 4, (rows, columns + more))[:, :columns]
        for name, (rows, columns), more in zip("abd", shapes, padding, strict=True)
    }


def batches(layout: str, batch: int, shape: tuple[int, int, int], gaps: tuple[int, int, int]) -> dict[str, Any]:
    """`inputs` whose rows are apart by 1, 3 and 5, and whose matrices by that many elements more."""
    given = {}
    for (name, matrix), gap in zip(inputs(layout, *shape, (1, 3, 5)).items(), gaps, strict=True):
        rows, columns = matrix.shape
        stride = matrix.strides[0] // matrix.itemsize
        whole = np.random.default_rng(batch).integers(-3, 4, batch * (rows * stride + gap))
        strides = (rows * stride + gap, stride, 1)
        given[name] = np.lib.stride_tricks.as_strided(
            whole, (batch, rows, columns), tuple(x * whole.itemsize for x in strides)
        )
    return given


def run(source: Any, given: dict[str, Any], offsets: tuple[int, ...], seed: int = 0) -> Any:
    return interpret(source, given, sms=2, seed=seed, domain="exact", offsets=dict(zip("abd", offsets, strict=True)))


@pytest.mark.parametrize("level", ["problem", "cta", "epilogue", "nvvm", "ptx"])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_matrices_lie_anywhere(layout: str, level: str) -> None:
    compiled = kernel(layout, "sm_80", SMALL)
    for padding, offsets in (APART, TIGHT):
        given = inputs(layout, 45, 37, 41, padding)
        np.testing.assert_array_equal(
            run(level_of(compiled, level), given, offsets), expected(spec(layout), given), f"{padding} {offsets}"
        )


@pytest.mark.parametrize("schedule", [BY_TMA, ROLES])
@pytest.mark.parametrize("level", ["cta", "atoms", "epilogue", "ptx"])
def test_on_the_road_with_roles(schedule: str, level: str) -> None:
    """TMA stores write whole units, behind rows of an odd length too: these go to the workspace."""
    compiled = kernel("tn", "sm_90a", schedule, m=131)
    given = inputs("tn", 131, 139, 70, APART[0])
    np.testing.assert_array_equal(run(level_of(compiled, level), given, APART[1]), expected(spec("tn"), given))


def test_rows_of_an_odd_length_are_packed_for_tma_alone() -> None:
    """D's base and row stride are aligned, its rows end within a unit: a store through threads needs no copy."""
    given = inputs("tn", 131, 139, 70, (2, 2, 5))
    names = {}
    for schedule in (BY_TMA, ROLES):
        source = kernel("tn", "sm_90a", schedule, m=131).levels["cta"].replace("tile.prepare", "// tile.prepare")
        names[schedule] = source
    np.testing.assert_array_equal(run(names[ROLES], given, (0, 0, 0)), expected(spec("tn"), given))
    with pytest.raises(InterpreterError, match=r"\[d-unwritten\]"):
        run(names[BY_TMA], given, (0, 0, 0))


@cache
def steps(schedule: str, target: str) -> list[Step]:
    return steps_of(spec("nt"), schedule, targets.get(target))


@pytest.mark.parametrize("name", ["pack-operands", "launch-preparations", "convert-sm-to-nvvm"])
def test_a_pass_keeps_the_numbers(name: str) -> None:
    step = next(step for step in steps(SMALL, "sm_80") if step.name == name)
    assert step.before != step.after
    # Work tiles are compared by stores into D, which at level nvvm a kernel that copies makes too.
    more = 5 if name == "pack-operands" else 3
    given = inputs("nt", 70, 45, 41, (1, 3, more))
    np.testing.assert_array_equal(
        assert_same(step.before, step.after, given, orders=(0, 1)), expected(spec("nt"), given)
    )


@pytest.mark.parametrize(
    ("target", "schedule", "layout"),
    [("sm_80", SMALL, "tt"), ("sm_80", SMALL, "nn"), ("sm_90a", BATCH_BY_TMA, "tn"), ("sm_90a", BATCH_BY_TMA, "nt")],
)
def test_matrices_of_a_batch_lie_anywhere(target: str, schedule: str, layout: str) -> None:
    """Each operand of its own, at odd strides, or one that all products share; B is copied once then."""
    compiled = kernel(layout, target, schedule, batch=None)
    problem = spec(layout, batch=None)
    for number, level in enumerate(["problem", "cta", "pipelined", "epilogue", "nvvm", "ptx"]):
        given = batches(layout, 1 + number % 3, (45, 37, 41), (1, 3, 5))
        if number % 2:
            given["b"] = np.broadcast_to(given["b"][0], given["b"].shape)
        np.testing.assert_array_equal(
            run(level_of(compiled, level), given, APART[1], number), expected(problem, given), err_msg=level
        )


def test_matrices_of_a_batch_that_are_not_aligned_to_each_other_are_copied() -> None:
    """Their bases and rows are aligned, but for the step from matrix to matrix; one that is shared has none."""
    compiled = kernel("tn", "sm_80", SMALL, batch=None)
    broken = compiled.levels["cta"].replace("tile.prepare", "// tile.prepare")
    ones = np.ones((3, 48, 48), np.int64)
    given = {name: ones.copy()[:, :40, :40] for name in "abd"}
    shared = np.broadcast_to(ones[0, :40, :40], (3, 40, 40))
    apart = np.lib.stride_tricks.as_strided(ones, (3, 40, 40), (8 * (48 * 48 - 4), 8 * 48, 8))
    for b in (given["b"], shared):
        np.testing.assert_array_equal(run(broken, {**given, "b": b}, (0, 0, 0)), np.full((3, 40, 40), 40))
    for name in "ab":
        with pytest.raises(InterpreterError, match=r"\[uninitialised-read\]"):
            run(broken, {**given, name: apart}, (0, 0, 0))


#: By what they do: an edit of the copying kernel of a batch at level nvvm, and what is said of it
BATCH_FAULTS = {
    "all matrices are taken for the first": (r"arith.extui (%\d+) : i32", "arith.extui %c0_i32 : i32", "race"),
    "matrices past the last are copied": (
        r"cmpi ult, (%\d+), %arg3 ",
        r"cmpi uge, \1, %c0_i32 ",
        r"\[outside-matrices\]",
    ),
}


@pytest.mark.parametrize("fault", BATCH_FAULTS)
def test_a_planted_fault_of_the_copy_of_a_batch_is_found(fault: str) -> None:
    pattern, instead, said = BATCH_FAULTS[fault]
    text = kernel("tt", "sm_80", SMALL, batch=None).levels["nvvm"]
    start = text.index("gpu.func @gemm_copy_bf16")
    planted, count = re.subn(pattern, instead, text[start:])
    assert count
    with pytest.raises(InterpreterError, match=said):
        run(text[:start] + planted, batches("tt", 3, (45, 37, 41), (1, 3, 5)), APART[1])


def test_a_workspace_that_products_share_by_mistake_gives_other_numbers() -> None:
    """What is planted is the step of 0 from matrix to matrix that one of all products has."""
    text, given = kernel("tt", "sm_80", SMALL, batch=None).levels["cta"], batches("tt", 3, (45, 37, 41), (1, 3, 5))
    planted, count = re.subn(r"arith.select (%\d+), %c0, (%\d+) : index", r"arith.select \1, %c0, %c0 : index", text)
    assert count
    with pytest.raises(InterpreterError, match=r"(race|never written|uninitialised).*\[global-race\]"):
        run(planted, given, APART[1])


def aligned_inputs() -> dict[str, Any]:
    return inputs("tn", 45, 40, 48, (8, 0, 16))


def test_nothing_is_launched_or_taken_where_all_is_aligned() -> None:
    """A kernel that would copy nothing right is never run."""
    broken = kernel("tn", "sm_80", SMALL).levels["cta"].replace("tile.prepare", "// tile.prepare")
    given = aligned_inputs()
    np.testing.assert_array_equal(run(broken, given, (0, 16, 32)), expected(spec("tn"), given))
    for offsets in ((2, 0, 0), (0, 8, 0), (0, 0, 4)):
        with pytest.raises(InterpreterError, match=r"uninitialised|never written"):
            run(broken, given, offsets)


@pytest.mark.parametrize(
    ("place", "said"),
    [("before the copies", r"\[global-uninitialised\]"), ("behind the copies", r"\[uninitialised-read\]")],
    ids=["before the copies", "behind the copies"],
)
def test_a_product_before_its_operands_or_behind_its_output_is_found(place: str, said: str) -> None:
    lines = kernel("tn", "sm_80", SMALL).levels["epilogue"].splitlines()
    product = lines.pop(next(i for i, line in enumerate(lines) if "tile.launch @gemm_kernel" in line))
    copies = [i for i, line in enumerate(lines) if "tile.launch @gemm_copy_bf16" in line]
    lines.insert(copies[0] if place.startswith("before") else copies[-1] + 1, product)
    with pytest.raises(InterpreterError, match=said):
        run("\n".join(lines), inputs("tn", 45, 37, 41, APART[0]), APART[1])


#: By what they do: an edit of the copying kernel of level nvvm, and what is said of it
FAULTS = {
    "units before a row's first are read": (
        r"arith.cmpi sge, (%\d+), %c0_i32",
        r"arith.cmpi sge, %c0_i32, %c0_i32",
        r"\[outside-matrices\]",
    ),
    "units past a row's last are read": (
        r"arith.cmpi sle, (%\d+), %arg3",
        r"arith.cmpi sle, %arg3, %arg3",
        r"\[outside-matrices\]",
    ),
    "elements past a row's last are copied": (
        r"arith.cmpi ult, (%\d+), %arg3 ",
        r"arith.cmpi uge, \1, %c0_i32 ",
        r"\[outside-matrices\]",
    ),
    "rows past the last are copied": (
        r"arith.cmpi ult, (%\d+), %arg2 ",
        r"arith.cmpi uge, \1, %c0_i32 ",
        r"\[outside-matrices\]",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_the_copy_is_found(fault: str) -> None:
    pattern, instead, said = FAULTS[fault]
    text = kernel("tn", "sm_80", SMALL).levels["nvvm"]
    start = text.index("gpu.func @gemm_copy_bf16")
    planted, count = re.subn(pattern, instead, text[start:])
    assert count
    with pytest.raises(InterpreterError, match=said):
        run(text[:start] + planted, inputs("tn", 45, 37, 41, APART[0]), APART[1])
