"""The ub dialect: poison, a value that may be passed on and inserted into, but not computed with."""

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable(acts=False)


@OPS.implements("ub.poison")
def poison(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = None
