"""The math dialect: functions of the number domain, rounded once to their type."""

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.ops.arith import element_of
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp

OPS = OpTable(acts=False)

FUNCTIONS = (
    "absf", "ceil", "copysign", "cos", "erf", "exp", "exp2", "expm1", "floor", "log", "log1p", "log2", "powf",
    "roundeven", "rsqrt", "sin", "sqrt", "tanh", "trunc",
)  # fmt: skip


@OPS.implements(*(f"math.{name}" for name in FUNCTIONS))
def function(state: AgentState, op: DecodedOp) -> None:
    operands = [state.values[slot] for slot in op.operands]
    dtype = element_of(op.result_types[0]).name
    state.values[op.results[0]] = state.machine.domain.apply(op.name[len("math.") :], dtype, *operands)


@OPS.implements("math.fma")
def fma(state: AgentState, op: DecodedOp) -> None:
    x, y, z = (state.values[slot] for slot in op.operands)
    state.values[op.results[0]] = state.machine.domain.fma(x, y, z, element_of(op.result_types[0]).name)
