"""setmaxnreg: registers move between the warps of a CTA."""

from lowtide.interpreter.machine.agents import AgentState, Steps, Wait, registers_that_fit
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.warpgroups import meet
from lowtide.interpreter.numbers.cells import Described


def set_registers(state: AgentState, op: Described, wanted: int, is_increase: bool) -> Steps:
    """Take registers from those that the CTA's other warps gave back; an increase waits for them.

    PTX ISA, "setmaxnreg". At entry each thread has the number that the kernel gives, else the largest multiple of
    eight that fits.
    """
    meet(state, op)
    cta = state.cta
    held = cta.registers.get(state.warp, state.machine.registers or registers_that_fit(state.machine.threads))
    if (wanted < held) if is_increase else (wanted > held):
        action = "increase" if is_increase else "decrease"
        raise state.violation(
            op, f"asks for {wanted} registers per thread, but each has {held}: that is no {action} [setmaxnreg-action]"
        )
    needed = (wanted - held) * WARP
    if needed > 0:
        yield Wait(
            lambda: cta.free_registers >= needed,
            lambda: f"for {needed} registers of the CTA's, of which {cta.free_registers} are free",
        )
    cta.free_registers -= needed
    cta.registers[state.warp] = wanted
