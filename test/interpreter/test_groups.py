"""Groups of rows whose ends only the device knows: a coordinate of work items, and the end of the rows that count."""

from functools import cache

import numpy as np
import pytest
from grouped_programs import grouped
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.interpreter.api import Loaded

ROWS, COLUMNS, DEPTH, GROUPS = 150, 40, 72, 3


def inputs(ends: list[int]) -> dict[str, NDArray[np.int64]]:
    """A, B, a D that is not written yet, and the ends of groups."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (ROWS, DEPTH)), rng.integers(-4, 5, (GROUPS, COLUMNS, DEPTH))
    return {"a": a, "b": b, "d": np.zeros((ROWS, COLUMNS)), "ends": np.array(ends, np.int32)}


def expected(given: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Each group's rows of A times its own B; zero after the last group."""
    d, first = np.zeros((ROWS, COLUMNS), np.int64), 0
    for end, b in zip(given["ends"].tolist(), given["b"], strict=True):
        last = min(max(end, first), ROWS)
        d[first:last] = given["a"][first:last] @ b.T
        first = last
    return d


@pytest.mark.parametrize("ends", [[37, 101, ROWS], [0, 0, ROWS], [64, 64, ROWS], [40, 20, 999]], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_at_level_cta_each_group_is_multiplied_by_its_own_b(target: str, ends: list[int]) -> None:
    given = inputs(ends)
    found = interpret(grouped(target), given, domain="exact", sms=2)
    np.testing.assert_array_equal(found, expected(given))


@cache
def compiled(target: str) -> CompiledKernel:
    return lt.compile_ir(grouped(target, "grouped(2)"))


@pytest.mark.parametrize("level", ["pipelined", "epilogue", "nvvm", "llvm", "ptx"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_each_level_below_does_the_same(target: str, level: str) -> None:
    kernel, given = compiled(target), inputs([37, 37, ROWS])
    module = Loaded(kernel.levels["llvm"], kernel.ptx) if level == "ptx" else kernel.levels[level]
    found = interpret(module, given, domain="exact", sms=2)
    np.testing.assert_array_equal(found, expected(given))


def test_groups_may_be_stored_by_tma() -> None:
    text = grouped("sm_90a").replace("path = direct", "path = tma").replace("<0,3,3>, pack", "<3,2,3>, pack")
    kernel, given = lt.compile_ir(text), inputs([64, 70, ROWS])
    assert "sm.tma_store" in kernel.levels["epilogue"]
    found = interpret(kernel.levels["nvvm"], given, domain="exact", sms=2)
    np.testing.assert_array_equal(found, expected(given))


def test_rows_after_the_last_end_are_loaded_and_not_stored() -> None:
    given = inputs([37, 101, ROWS - 10])
    with pytest.raises(InterpreterError, match=r"\[d-unwritten\]"):
        interpret(grouped("sm_80"), given, domain="exact")
    interpret(grouped("sm_80").replace("into %counted", "into %d"), given, domain="exact")  # the fault


def test_a_subview_is_of_the_first_rows_that_the_matrix_has() -> None:
    text = grouped("sm_80").replace("[%rows_end, %N]", "[%more, %N]")
    text = text.replace("%counted =", "%more = arith.addi %M, %c1 : index\n      %counted =")
    with pytest.raises(InterpreterError, match=r"\[first-rows-of\]"):
        interpret(text, inputs([37, 101, ROWS]), domain="exact", sms=2)
