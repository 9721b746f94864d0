"""Compiles IR to PTX with a schedule whose code is good: if ptxas spills, the next choice is tried.

The module of the next attempt lists the schedules passed over and the reasons (`passes/schedules/choice/asked.py`). So
a dump shows the successful attempt and compiles to the same kernel again. If the schedule is given in full, or there is
no ptxas, there is one attempt, and its code is not assembled here.
"""

from collections.abc import Callable
from dataclasses import replace

from lowtide.compiler.contexts import Source, make_context, parse_text
from lowtide.compiler.driver import Lowered, Progress, lower
from lowtide.compiler.ptxas import Assembly, BadCode, assemble, confirm_registers
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, before_code, without_codes
from lowtide.passes.schedules.choice.asked import PassedOver, passed_over_in, set_passed_over

_MOST = 12  # attempts

Check = Callable[[Lowered], None]
"""Raises ScheduleError if a kernel breaks a promise."""


def compile_ir(
    source: Source,
    *,
    target: str | None = None,
    dump_dir: Source | None = None,
    on_progress: Progress | None = None,
    check: Check = lambda lowered: None,
) -> Lowered:
    """Compile IR of any level to PTX, dumped and edited or written by hand. See `driver.lower` for the arguments.

    If `check` refuses the kernel of a choice other than the first, that choice is passed over too. Raises what
    `driver.lower` and `check` raise, and CompileError if no choice has good code.
    """
    refused: list[ScheduleError | BadCode] = []
    while len(refused) < _MOST:
        try:
            lowered = lower(source, target=target, dump_dir=dump_dir, on_progress=on_progress)
        except ScheduleError:
            if not refused:
                raise
            break  # no schedule is left
        try:
            check(lowered)
            return lowered if lowered.chosen is None else replace(lowered, assembly=_good_code(lowered))
        except (ScheduleError, BadCode) as error:
            if not refused and (lowered.chosen is None or isinstance(error, ScheduleError)):
                raise
            refused.append(error)
            source = _passing_over(lowered, without_codes(str(error)))
    first, others = refused[0], len(refused) - 1
    tried = f"; the next choices do no better ({others} tried)" if others else ""
    raise type(first)(before_code(str(first), tried)) from None


def is_good(lowered: Lowered, schedule: Schedule) -> bool:
    """Whether the machine code of a kernel with this schedule has no fault that ptxas reports; True without ptxas."""
    try:
        _good_code(replace(lowered, chosen=schedule))
    except BadCode:
        return False
    return True


def _good_code(lowered: Lowered) -> Assembly | None:
    """The machine code; None if there is no ptxas. Raises CompileError."""
    if lowered.chosen is None or find_ptxas() is None or lowered.ptx is None:
        return None
    assembly = assemble(lowered.ptx, lowered.target)
    confirm_registers(assembly, lowered.chosen, lowered.target)
    return assembly


def _passing_over(lowered: Lowered, why: str) -> str:
    """The module as it was entered, with the chosen schedule added to those passed over."""
    assert lowered.chosen is not None
    with make_context() as context:
        module = parse_text(lowered.entered, context, "<problem>")
        reason = why.partition("; ")[0].partition("\n")[0]
        set_passed_over(module, [*passed_over_in(module), PassedOver(lowered.chosen, reason)])
        return str(module)


def passed_over(lowered: Lowered) -> tuple[PassedOver, ...]:
    """The choices that were passed over before the compilation succeeded."""
    text = lowered.levels.get(str(Level.PROBLEM))
    if text is None:
        return ()
    with make_context() as context:
        return passed_over_in(parse_text(text, context, "<problem>"))
