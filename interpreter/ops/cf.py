"""The cf dialect: assertions. Branches between blocks are not interpreted."""

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()


@OPS.implements("cf.assert")
def assert_(state: AgentState, op: DecodedOp) -> None:
    condition = np.asarray(state.values[op.operands[0]])
    if state.mask is not None:
        condition = condition | ~state.mask
    if not condition.all():
        raise InterpreterError(
            f"{op.source.location}: {op.attributes['msg']} (assertion of the {state.who()}) [assertion-failed]"
        )
