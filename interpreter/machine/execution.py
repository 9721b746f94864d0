"""Runs decoded ops for one agent, and defines the contract of handlers.

A handler interprets one op (interpreter/ops/, one file per dialect or hardware family, one function per op):

    @OPS.implements("arith.addf")
    def addf(state: AgentState, op: DecodedOp) -> None:
        a, b = op.operands                      # slot numbers
        state.values[op.results[0]] = state.machine.domain.add(state.values[a], state.values[b], op.result_types[0])

- A handler that may wait, or that runs a region, is a generator function: it yields `agents.Wait` objects and runs a
  region by `yielded = yield from run_block(state, op.regions[0])`.
- Work that does not depend on the run goes into `prepare`: `@OPS.implements("x.y", prepare=f)` with
  `f(op: DecodedOp, program: Program)`; its result is `op.data`.
- `@OPS.effects` registers a function `f(state, op, x, y, …)` of the operands' values that returns those of the results.
- A terminator has no handler: `run_block` returns the values of its operands.
- `state.mask` is None while all lanes are active, else a bool array (32,) of the active ones. Handlers without side
  effects may ignore it; memory, barriers and other effects must not.
- A broken rule: `raise state.violation(op, "what, the limit, the way out")`.

Values in `state.values`: integers and index: a Python int if uniform (bool for i1), else an array (32,) of the type's
`Scalar.dtype`. Floats: payloads of the number domain, a scalar if uniform, else an array (32,). Vectors: arrays (32,
*shape), or (1, *shape) if uniform. Pointers: byte addresses as i64. Tiles (levels cta … pipelined): an array of the
tile's shape. Fragments: array (32, values).
"""

import time
from typing import Any

from lowtide.errors import InterpreterError, InterpreterFault, NotInterpreted
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.registers import RegisterError
from lowtide.interpreter.program.program import DecodedBlock

OF_PYTHON = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(NameError, RuntimeError, TypeError, ValueError),
)


class OutOfSteps(InterpreterError):
    """An agent has run more ops than allowed, or for too long; the scheduler adds the positions of the others."""


def run_block(state: AgentState, block: DecodedBlock) -> Steps:
    """Run a block's ops in order; returns the values of its terminator's operands."""
    count_steps(state, len(block.ops) + 1)
    for op in block.ops:
        state.op = op
        if op.resumable:
            yield from op.handler(state, op)
        else:
            op.handler(state, op)
    values = state.values
    return [values[slot] for slot in block.results]


def run_straight(state: AgentState, block: DecodedBlock) -> list[Any]:
    """As `run_block`, for a block whose ops may not wait."""
    count_steps(state, len(block.ops) + 1)
    for op in block.ops:
        state.op = op
        op.handler(state, op)
    values = state.values
    return [values[slot] for slot in block.results]


def count_steps(state: AgentState, count: int) -> None:
    """The agent is about to run `count` more ops. Raises OutOfSteps if it may not, or if the time is over."""
    state.steps += count
    most = state.machine.options.max_steps
    if state.steps > most:
        raise OutOfSteps(
            f"the {state.who()} has run {most} ops and has not ended: a loop may have no end; give max_steps more if it"
            " has [out-of-steps]"
        )
    if time.monotonic() > state.machine.observers.deadline:
        raise OutOfSteps(
            "the launches did not end within the time limit: raise the limit, or launch fewer CTAs [out-of-time]"
        )


UNSET = "reads a register that was never written, or poison [register-unset]"


def reads_unset(state: AgentState, op: Described) -> bool:
    """Whether an operand of the op has no value."""
    return any(state.values[slot] is None for slot in getattr(op, "operands", ()))


def violated_by(state: AgentState, op: Described, error: InterpreterError) -> InterpreterError:
    """The error of an op, with its text and location, of the same class."""
    if reads_unset(state, op):
        return state.violation(op, UNSET)
    return state.violation(op, str(error), NotInterpreted if isinstance(error, NotInterpreted) else InterpreterError)


def advance(state: AgentState, steps: Steps) -> Wait | None:
    """Run until the next wait; None at the end.

    Raises InterpreterFault for a Python exception, unless the op reads a value that was never given or a register of
    the wrong kind: these are faults of the program.
    """
    try:
        return next(steps)
    except StopIteration:
        return None
    except RegisterError as error:
        state = state.acting
        if state.op is None:
            raise
        raise violated_by(state, state.op, error) from error
    except OF_PYTHON as error:
        state = state.acting
        op, text = state.op, f"{type(error).__name__}: {error}"
        if op is not None and reads_unset(state, op):
            raise state.violation(op, UNSET) from error
        where = "" if op is None else f"{op.describe()}, level {state.machine.level}, {state.who()}: "
        raise InterpreterFault(
            f"{where}{text}: the interpreter failed, which says nothing about the kernel; please report it"
            " [interpreter-failed]"
        ) from error
