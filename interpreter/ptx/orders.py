"""Memory fences, and the ordering and scope that modifiers give an instruction.

PTX ISA, "Memory Consistency Model: Operation types, Scope", "membar, fence".
"""

from lowtide.interpreter.machine import patterns
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_lane_numbers
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

SCOPES = "cta cluster gpu sys"
_SECTION = "Parallel Synchronization and Communication Instructions: membar, fence"
_BARS = {"cta": Scope.cta, "gl": Scope.gpu, "sys": Scope.sys}


def ordering_of(form: Form, default: Scope = Scope.gpu) -> Ordering:
    """Of an atomic operation, a load or a store; `default` is the scope of one without a scope."""
    names = form.words | {*form.row.name.split(".")}
    scope = next((Scope[name] for name in SCOPES.split() if name in names), default)
    return Ordering(scope, bool(names & {"acq_rel", "release"}), bool(names & {"acq_rel", "acquire"}))


def _fence(form: Form) -> Ordering:
    """Without an ordering, .acq_rel."""
    if not form.words & {*SCOPES.split()}:
        raise form.instruction.error(f"a fence has a scope: {', '.join(SCOPES.split())} [fence-scope]")
    kind = next((word for word in ("sc", "acquire", "release") if word in form.words), "acq_rel")
    return Ordering(ordering_of(form).scope, kind != "acquire", kind != "release", kind == "sc")


def _membar(form: Form) -> Ordering:
    """membar.level is fence.sc."""
    level = next((word for word in form.words if word in _BARS), None)
    if level is None:
        raise form.instruction.error(f"a membar has a level: {', '.join(_BARS)} [membar-level]")
    return Ordering(_BARS[level], releases=True, acquires=True, is_sc=True)


def fence(state: AgentState, op: Op) -> None:
    """By each active lane."""
    lanes = active_lane_numbers(state)
    patterns.fence(state.cta.shared.clocks, state.warp, lanes, op.data, len(lanes) == state.count)


TABLE.effects("fence", words=f"acq_rel sc acquire release {SCOPES}", section=_SECTION, acts=False, prepare=_fence)(
    fence
)
TABLE.effects("membar", words=" ".join(_BARS), section=_SECTION, acts=False, prepare=_membar)(fence)
