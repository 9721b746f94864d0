"""An operand with one column is read as its transpose, which is one row: at every level, wherever it lies."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled import expected, level_of, spec

import lowtide as lt
from lowtide import targets
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS

CHIP = targets.get("sm_90a")
LEVELS = ("problem", "cta", "pipelined", "epilogue", "nvvm", "llvm", "ptx")
#: Elements behind each element of the column, and bytes by which its base is off 256
CONTIGUOUS, STRIDED, UNALIGNED = (0, 0), (2, 0), (0, 4)


@cache
def kernel(layout: str, m: int, n: int, dtype: str = "bf16", target: str = "sm_90a", **more: Any) -> CompiledKernel:
    acc = "s32" if dtype == "s8" else "f32"
    return lt.compile_gemm(spec(layout, dtype, d=acc, acc=acc, m=m, n=n, k=45, **more), target=target)


def columns_of(layout: str, m: int, n: int) -> list[str]:
    """The operands with one column."""
    found = {"a": layout[0] == "n" and m == 1, "b": layout[1] == "t" and n == 1}
    return [name for name, is_one in found.items() if is_one]


def inputs(layout: str, m: int, n: int, gap: int, *batch: int) -> dict[str, Any]:
    rng = np.random.default_rng(m + n)
    shapes = {"a": (m, 45) if layout[0] == "t" else (45, m), "b": (n, 45) if layout[1] == "n" else (45, n)}
    columns = columns_of(layout, m, n)
    return {
        name: rng.integers(0, 3, (*batch, rows, length + (gap if name in columns else 0))).astype("i1")[..., :length]
        for name, (rows, length) in shapes.items()
    }


def run(source: Any, given: dict[str, Any], offset: int, column: str = "a") -> Any:
    return interpret(source, given, sms=2, domain="exact", offsets={column: offset})


@pytest.mark.parametrize(
    ("layout", "m", "n", "dtype", "target"),
    [
        ("nt", 1, 40, "bf16", "sm_90a"),
        ("tt", 70, 1, "bf16", "sm_90a"),
        ("nn", 1, 40, "s8", "sm_90a"),
        ("nt", 1, 1, "f16", "sm_80"),
    ],
)
def test_every_level_reads_the_column_as_a_row(layout: str, m: int, n: int, dtype: str, target: str) -> None:
    compiled, columns = kernel(layout, m, n, dtype, target), columns_of(layout, m, n)
    swapped = str(compiled.schedule.grid.operands) == "swapped"
    of_kernel = {"a": "b", "b": "a"} if swapped else {"a": "a", "b": "b"}
    assert {str(compiled.schedule.get(PACK_FIELDS[of_kernel[name]])) for name in columns} == {"transposed"}
    for number, level in enumerate(LEVELS):
        gap, offset = (CONTIGUOUS, STRIDED, UNALIGNED)[number % 3]
        given = inputs(layout, m, n, gap)
        got = run(level_of(compiled, level), given, offset, columns[0])
        np.testing.assert_array_equal(got, expected(spec(layout, dtype), given), err_msg=level)


def test_the_kernel_is_that_of_the_transpose() -> None:
    assert kernel_code(kernel("nt", 1, 40)) == kernel_code(kernel("tt", 1, 40))
    assert kernel_code(kernel("tt", 70, 1)) == kernel_code(kernel("tn", 70, 1))


def kernel_code(compiled: CompiledKernel) -> str:
    """The PTX of the product's kernel."""
    (code,) = (part for part in compiled.ptx.split(".visible .entry ") if part.startswith(f"{compiled.entry}("))
    return code.split("\n\t// .globl")[0]


def test_only_a_column_that_is_strided_or_unaligned_is_copied() -> None:
    """A kernel that would transpose nothing right is never run."""
    broken = kernel("nt", 1, 40).levels["cta"].replace("tile.prepare", "// tile.prepare")
    given = inputs("nt", 1, 40, CONTIGUOUS[0])
    np.testing.assert_array_equal(run(broken, given, 0), expected(spec("nt"), given))
    for gap, offset in (STRIDED, UNALIGNED):
        with pytest.raises(InterpreterError, match=r"uninitialised|never written"):
            run(broken, inputs("nt", 1, 40, gap), offset)


def test_a_strided_column_that_is_taken_for_a_row_is_found() -> None:
    text = kernel("nt", 1, 40).levels["cta"]
    broken = re.sub(r"arith\.xori %\S+, (%\S+) :", r"arith.xori \1, \1 :", text)
    given = inputs("nt", 1, 40, STRIDED[0])
    assert (run(text, given, 0) == expected(spec("nt"), given)).all()
    with pytest.raises(InterpreterError, match=r"\[outside-matrices\]"):
        run(broken, given, 0)


def test_columns_of_a_batch_lie_anywhere() -> None:
    compiled = kernel("nt", 1, 40, batch=3)
    for number, level in enumerate(("problem", "cta", "nvvm", "ptx")):
        given = inputs("nt", 1, 40, (0, 2)[number // 2], 3)
        if number % 2:
            given["a"] = np.broadcast_to(given["a"][1], given["a"].shape)
        wanted = expected(spec("nt", batch=3), given | {"d": np.zeros((3, 1, 40))})
        np.testing.assert_array_equal(run(level_of(compiled, level), given, 0), wanted, err_msg=level)


def test_a_field_that_says_how_the_operand_is_moved_is_kept() -> None:
    compiled = lt.compile_gemm(spec("nt", "bf16", m=1, n=40, k=48), "sm_80", "a.pack = rows")
    assert str(compiled.schedule.mainloop.a.pack) == "rows"
    moved = lt.compile_gemm(spec("nt", "bf16", m=1, n=40, k=48), "sm_80", "a.copy = staged.2")
    assert moved.schedule.mainloop.a.pack is None


def test_run_time_extents_have_rows() -> None:
    """If M may be another one, A is no row."""
    problem = seen_by_passes(spec("nt", m=None, n=40, k=48), CHIP)
    schedule = choose(problem.expecting({"m": 1}), CHIP, lt.Schedule()).schedule
    assert "transposed" not in {str(schedule.get(path)) for path in PACK_FIELDS.values()}
