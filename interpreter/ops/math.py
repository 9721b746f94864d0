"""The math dialect: functions of the number domain, rounded once to their type."""

from functools import partial
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.domains import FUNCTIONS
from lowtide.interpreter.ops.arith import element_of, flushing, is_approximate
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program

OPS = OpTable(acts=False)


def _prepare(op: DecodedOp, program: Program) -> Any:
    dtype = element_of(op.result_types[0]).name
    function = partial(program.domain.apply, op.name[len("math.") :], dtype)
    return flushing(program.domain, dtype, function) if op.name == "math.exp2" and is_approximate(op) else function


@OPS.effects(*(f"math.{name}" for name in FUNCTIONS), prepare=_prepare)
def function(state: AgentState, op: DecodedOp, *operands: Any) -> Any:
    return op.data(*operands)


def _fmas(state: AgentState, batch: Batch) -> None:
    """Those of vectors of all lanes, as one."""
    values = state.values
    sides = [[values[op.operands[at]] for op in batch.ops] for at in range(3)]
    shape = np.broadcast_shapes(*(side[0].shape for side in sides))
    if len(shape) < 2 or any(len(value) != len(side[0]) for side in sides for value in side):
        raise NotTogether
    x, y, z = (np.concatenate(side, axis=1) for side in sides)
    result = state.machine.domain.fma(x, y, z, element_of(batch.ops[0].result_types[0]).name)
    for at, op in enumerate(batch.ops):
        values[op.results[0]] = result[:, at * shape[1] : (at + 1) * shape[1]]


@OPS.effects("math.fma", "vector.fma", bulk=Bulk(_fmas, key=lambda op: op.result_types, accesses=False))
def fma(state: AgentState, op: DecodedOp, x: Any, y: Any, z: Any) -> Any:
    return state.machine.domain.fma(x, y, z, element_of(op.result_types[0]).name)
