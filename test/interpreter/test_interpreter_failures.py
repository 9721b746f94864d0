"""A Python exception inside the interpreter is a fault of the interpreter: no tool blames a kernel or a pass."""

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import pytest
from compiled import inputs_of, spec
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.compiler.driver import lower
from lowtide.errors import InterpreterError, InterpreterFault
from lowtide.interpreter import Loaded, interpret
from lowtide.interpreter.machine import register_memory
from lowtide.verification.checking.trials import Finding, Trial
from lowtide.verification.fuzz.case import Case, Ended, run_case
from lowtide.verification.mutation.kernels import KERNELS
from lowtide.verification.mutation.run import Status, judge
from lowtide.verification.mutation.sites import Mutant
from lowtide.verification.reduction.failures import own_check

SCHEDULE = (
    "grid.tile = [32, 32], k = 16, atoms = [1, 2, 1], stages = 2, order = row, pack = none, epilogue.path = direct"
)
SHAPE = ("--m", "32", "--n", "32", "--k", "16", "--target", "sm_80")
STATUS = 3


def fails(*given: object) -> NoReturn:
    raise ValueError("shape mismatch")


@pytest.fixture
def broken_ptx_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interpreter itself fails at each store of PTX."""
    monkeypatch.setattr(register_memory, "store", fails)
    yield


@pytest.mark.usefixtures("broken_ptx_stores")
def test_an_exception_is_no_broken_rule_and_names_the_op() -> None:
    kernel = lt.compile_gemm(spec(), target="sm_80", schedule=SCHEDULE)
    with pytest.raises(
        InterpreterFault, match=r"`st\.global.*ValueError: shape mismatch.*says nothing.*\[interpreter-failed\]"
    ) as caught:
        interpret(Loaded(kernel.levels["llvm"], kernel.ptx), inputs_of(spec(), 32, 32, 16), domain="exact")
    assert not isinstance(caught.value, InterpreterError)


@pytest.mark.usefixtures("broken_ptx_stores")
def test_check_names_no_guilty_step_and_has_a_status_of_its_own() -> None:
    result = lt.check(lt.compile_gemm(spec(), target="sm_80", schedule=SCHEDULE), jobs=1, budget=1)
    assert not result.ok and result.failed and result.guilty is None
    assert {outcome.level for outcome in result.outcomes if outcome.finding is Finding.failed} == {"ptx"}
    assert result.verdict.startswith("THE INTERPRETER FAILED at ptx in ")
    done = CliRunner().invoke(app, ["check", *SHAPE, "--schedule", SCHEDULE, "--jobs", "1", "--budget", "1"])
    assert done.exit_code == STATUS, done.output


@pytest.mark.usefixtures("broken_ptx_stores")
def test_interpret_has_the_same_status() -> None:
    done = CliRunner().invoke(app, ["interpret", *SHAPE, "--schedule", SCHEDULE, "--level", "ptx"])
    assert done.exit_code == STATUS and "the interpreter failed" in done.stderr


@pytest.mark.usefixtures("broken_ptx_stores")
def test_mutate_counts_no_fault_as_found() -> None:
    name = "sm80-two-stages"
    original = lower(KERNELS[name].problem())
    assert original.ptx is not None
    found = judge(KERNELS[name], Mutant("one", name, "ptx", "", "", original.ptx), original)
    assert found.status is Status.FAILED and "shape mismatch" in found.why


@pytest.mark.usefixtures("broken_ptx_stores")
def test_reduce_says_that_the_interpreter_fails() -> None:
    text = lt.compile_gemm(spec(), target="sm_80", schedule=SCHEDULE).levels["llvm"]
    _, kind = own_check(text, spec(), Trial((16, 16, 16), 1, 0, "exact", 1))
    assert kind.startswith("level ptx: the interpreter failed: ")


@pytest.mark.usefixtures("broken_ptx_stores")
def test_fuzz_says_that_the_interpreter_fails() -> None:
    found = run_case(Case((("target", "sm_80"), ("dtype", "bf16"))))
    assert found.ended is Ended.interpreter_failed and found.test


def test_arithmetic_on_what_was_never_given_is_a_fault_of_the_program() -> None:
    kernel = lt.compile_gemm(spec(), target="sm_80", schedule=SCHEDULE)
    text = kernel.levels["nvvm"]
    with pytest.raises(InterpreterError, match=r"never written, or poison.*\[register-unset\]"):
        interpret(_with_poison(text), inputs_of(spec(), 32, 32, 16), domain="exact")
    assert np.all(interpret(text, inputs_of(spec(), 32, 32, 0), domain="exact") == 0)


def _with_poison(text: str) -> str:
    """The text of level nvvm, in which the first constant of an address is poison."""
    line = next(each for each in text.splitlines() if "arith.muli" in each and "i32" in each)
    operand = line.partition("arith.muli ")[2].partition(",")[0]
    return text.replace(line, f"%poison = ub.poison : i32\n{line.replace(operand, '%poison', 1)}", 1)
