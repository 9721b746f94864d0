"""Litmus tests of the memory model (benchmarks/litmus/memory_model.py): each kernel has its verdict in each order."""

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from ptx_kernels import run

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.exploration import explore
from lowtide.interpreter.machine.interleavings import Report
from lowtide.interpreter.ptx.parsing import parse

_LITMUS = str(Path(__file__).resolve().parents[2] / "benchmarks" / "litmus")
if _LITMUS not in sys.path:
    sys.path.append(_LITMUS)
from memory_model import ALL, OK, RACE, WARP, A, B, C, Litmus  # noqa: E402


def judge(litmus, seed):
    """The verdict of one order of threads."""
    buffers = {name: ("i32", np.zeros(1)) for name in "xyfg"}
    try:
        run(litmus.ptx(), buffers, grid=litmus.grid, threads=64, seed=seed, resident=3)
    except InterpreterError as error:
        assert "race" in str(error), error
        return RACE
    return OK


@pytest.mark.parametrize("litmus", ALL, ids=lambda litmus: litmus.name)
def test_a_litmus_kernel_has_its_verdict_in_each_order(litmus):
    assert {judge(litmus, seed) for seed in range(2)} == {litmus.verdict}


def test_the_kernels_that_a_gpu_measures_are_ptx():
    names = {litmus.name: parse(litmus.ptx(measured=True), litmus.name).entries for litmus in ALL}
    assert len(names) == len(ALL) and all(list(entries) == ["test"] for entries in names.values())


@pytest.mark.parametrize(
    ("litmus", "message"),
    [
        (
            Litmus("", RACE, {A: "red.relaxed.cta f", B: "red.relaxed.gpu f"}),
            r"`red\.relaxed.* scopes of the two do not include .*widen them to \.gpu.*\[global-race\]",
        ),
        (
            Litmus("", RACE, {A: "red f", B: "st f"}),
            r"race \((strong access\).*by `(red|st)\.|(read|write) after write\)).*\[global-race\]",
        ),
        (
            Litmus("", RACE, {A: "red s", WARP: "ld s"}),
            r"by a strong operation.*\[shared-word-race\]|\[race-with-read\]",
        ),
    ],
)
def test_a_race_of_strong_operations_is_named(litmus, message):
    with pytest.raises(InterpreterError, match=f"(?s){message}"):
        run(litmus.ptx(), {name: ("i32", np.zeros(1)) for name in "xyfg"}, grid=litmus.grid, threads=64, resident=3)


def test_further_orders_find_the_store_that_ends_the_other_ones_release():
    """The verdict of one order depends on the last store to the flag, so it is not said of all."""
    litmus = Litmus("", RACE, {A: "st x; st.release.gpu f", B: "st.release.gpu f", C: "await ld.acquire.gpu f; ld x"})
    buffers = {name: ("i32", np.zeros(1)) for name in "xyfg"}

    def once(explorer=None, report=None):
        run(litmus.ptx(), buffers, grid=3, threads=64, resident=3, report=report or Report(), explorer=explorer)

    report = Report()
    with suppress(InterpreterError):
        once(report=report)
    assert not report.holds and "the effect of `st.release.gpu" in str(report)
    found = explore(once, 50)
    assert found.fault is not None and "[global-race]" in str(found.fault)
