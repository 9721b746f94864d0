"""Operands that are transposed for the kernel: at every level, wherever they lie, and faults that must show."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled import expected, level_of, spec, steps_of
from support import assert_same

import lowtide as lt
from lowtide import targets
from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.tile import PackKind
from lowtide.elements import element_type
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

BOTH = "a.pack = transposed, b.pack = transposed"
SMALL = "grid.tile = [64, 16], stages = 2, roles = cooperative(1)"
WARPS = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3"
FMAS = "grid.tile = [32, 32], k = 8, atoms = [4, 8, 1], stages = 2"
LEVELS = ("problem", "cta", "pipelined", "epilogue", "nvvm", "llvm", "ptx")
#: Elements behind the rows of a and b, and bytes by which their bases are off 256
PLACES = {"aligned": ((0, 16), (0, 0)), "apart": ((1, 3), (4, 8))}


@cache
def kernel(
    dtype: str, layout: str, acc: str = "f32", schedule: str = SMALL, batch: Any = "one", **more: Any
) -> CompiledKernel:
    batches = {} if batch == "one" else {"batch": batch}
    problem = spec(layout, dtype, d=acc, acc=acc, **more, **batches)
    return lt.compile_gemm(problem, target="sm_90a", schedule=schedule)


def inputs(layout: str, shape: tuple[int, int, int], padding: tuple[int, int], *batch: int) -> dict[str, Any]:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    shapes = ((m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n))
    return {
        name: rng.integers(0, 3, (*batch, rows, columns + more))[..., :columns]
        for name, (rows, columns), more in zip("ab", shapes, padding, strict=True)
    }


def of_type(dtype: str, given: dict[str, Any]) -> dict[str, Any]:
    """Integers as they are passed: of the type where it is one."""
    row = element_type(dtype)
    return given if row.is_float else {name: x.astype(row.library) for name, x in given.items()}


def run(source: Any, given: dict[str, Any], offsets: tuple[int, int] = (0, 0), seed: int = 0) -> Any:
    return interpret(source, given, sms=2, seed=seed, domain="exact", offsets=dict(zip("ab", offsets, strict=True)))


def product(layout: str, given: dict[str, Any]) -> Any:
    return expected(spec(layout), given)


@pytest.mark.parametrize(
    ("dtype", "layout", "acc", "schedule"),
    [
        ("e4m3", "nt", "f32", SMALL),
        ("s8", "nn", "s32", SMALL),
        ("tf32", "tt", "f32", SMALL),
        ("bf16", "nt", "f32", f"{SMALL}, {BOTH}"),
        ("bf16", "nn", "f32", f"{WARPS}, a.pack = transposed, b.pack = rows"),
        ("f32", "tn", "f32", f"{FMAS}, {BOTH}"),
    ],
)
def test_every_level_multiplies_the_transposes(dtype: str, layout: str, acc: str, schedule: str) -> None:
    """One tile and parts of others along both sides of the transposes, whole and cut, aligned and not."""
    compiled = kernel(dtype, layout, acc, schedule)
    packs = {name: compiled.schedule.mainloop.operand(name).pack for name in "ab"}
    wanted = {
        name: (letter != other) != (dtype == "f32") for name, letter, other in zip("ab", layout, "tn", strict=True)
    }
    assert {name: pack is PackKind.transposed for name, pack in packs.items()} == wanted
    for number, level in enumerate(LEVELS):
        padding, offsets = list(PLACES.values())[number % 2]
        given = inputs(layout, (128, 144, 128) if number == 4 else (131, 20, 45), padding)
        np.testing.assert_array_equal(
            run(level_of(compiled, level), of_type(dtype, given), offsets, number),
            product(layout, given),
            err_msg=level,
        )


def test_matrices_of_a_batch_are_transposed_and_one_of_all_products_once() -> None:
    compiled = kernel("u8", "nt", "s32", f"{SMALL}, {BOTH}", batch=None)
    for number, level in enumerate(("problem", "cta", "nvvm", "ptx")):
        given = of_type("u8", inputs("nt", (70, 20, 45), (1, 3), 3))
        if number % 2:
            given["a"] = np.broadcast_to(given["a"][1], given["a"].shape)
        np.testing.assert_array_equal(
            run(level_of(compiled, level), given, (5, 0)),
            expected(spec("nt", batch=None), given | {"d": np.zeros((3, 70, 20))}),
            err_msg=level,
        )


def test_bytes_of_both_signs_are_multiplied_by_wgmma() -> None:
    compiled = kernel("s8", "tt", "s32", b="u8")
    given = inputs("tt", (70, 20, 45), (1, 3))
    given = {"a": given["a"].astype(np.int8) - np.int8(2), "b": given["b"].astype(np.uint8) + np.uint8(200)}
    wanted = given["a"].astype(np.int64) @ given["b"].astype(np.int64)
    assert ".version 8.4" in compiled.ptx
    for level in ("problem", "atoms", "nvvm", "ptx"):
        np.testing.assert_array_equal(run(level_of(compiled, level), given), wanted, err_msg=level)


def test_a_product_may_be_swapped_and_then_transposed() -> None:
    compiled = kernel("e5m2", "tt", d_order="column")
    given = inputs("tt", (35, 70, 40), (1, 3))
    for level in ("problem", "cta", "ptx"):
        np.testing.assert_array_equal(run(level_of(compiled, level), given), product("tt", given).T, err_msg=level)


@pytest.mark.parametrize("name", ["pack-operands", "launch-preparations", "convert-sm-to-nvvm"])
def test_a_pass_keeps_the_numbers(name: str) -> None:
    problem = spec("nt", "e4m3", d="f32")
    step = next(s for s in steps_of(problem, SMALL, targets.get("sm_90a")) if s.name == name and s.before != s.after)
    given = inputs("nt", (131, 40, 150), (1, 3))
    np.testing.assert_array_equal(assert_same(step.before, step.after, given, orders=(0, 1)), product("nt", given))


def test_a_problem_that_is_packed_already_is_left_alone() -> None:
    text = kernel("e4m3", "nt").levels["problem"]
    assert len(re.findall(r"tile\.pack %\w+ transposed ", text)) == 2
    assert lt.compile_ir(text, target="sm_90a").ptx == kernel("e4m3", "nt").ptx


def test_a_copy_in_place_of_a_transpose_is_found() -> None:
    text = kernel("e4m3", "nt").levels["cta"]
    broken = re.sub(r"(tile\.prepare %\w+ from %\w+) transposed", r"\1", text)
    with pytest.raises(InterpreterError, match=r"\[prepared-extents\]"):
        run(broken, inputs("nt", (70, 20, 45), (0, 0)))


def test_a_product_before_its_transposes_is_found() -> None:
    lines = kernel("e4m3", "nt").levels["epilogue"].splitlines()
    transposes = [line for line in lines if "tile.launch @gemm_transpose_e4m3" in line]
    lines = [line for line in lines if line not in transposes]
    behind = 1 + next(i for i, line in enumerate(lines) if "tile.launch @gemm_kernel" in line)
    lines[behind:behind] = transposes
    with pytest.raises(InterpreterError, match=r"uninitialised.*\[global-uninitialised\]"):
        run("\n".join(lines), inputs("nt", (70, 20, 45), (0, 0)))


#: For each fault: the padding of rows of A and B, a pattern in the transposing kernel at level nvvm, the text in its
#: place, and the expected message
FAULTS = {
    "no barrier between stores to shared memory and loads": ((1, 3), r"nvvm.barrier0", "", r"race|uninitialised"),
    "units past a row's end are read": (
        (1, 3),
        r"cmpi sle, (%\d+), (%\d+) : i32",
        "cmpi eq, %c0_i32, %c0_i32 : i32",
        r"\[outside-matrices\]",
    ),
    "units past the matrix's end are read": (
        (0, 0),
        r"cmpi sle, (%\d+), (%\d+) : i64",
        "cmpi eq, %c0_i32, %c0_i32 : i32",
        r"\[outside-matrices\]",
    ),
    "columns past the last are stored": (
        (1, 3),
        r"cmpi slt, (%\d+), (%\d+) :",
        "cmpi eq, %c0_i32, %c0_i32 :",
        r"\[uninitialised-read\]",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_the_transpose_is_found(fault: str) -> None:
    padding, pattern, instead, said = FAULTS[fault]
    text = kernel("e4m3", "nt").levels["nvvm"]
    start = text.index("gpu.func @gemm_transpose_e4m3")
    planted, count = re.subn(pattern, instead, text[start:])
    assert count
    with pytest.raises(InterpreterError, match=said):
        run(text[:start] + planted, inputs("nt", (70, 20, 45), padding), (4, 8))
