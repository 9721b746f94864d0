"""Makes a kernel that requires alignment accept unaligned matrices: launches before and after it copy them.

The code of the kernel itself does not change, nor does the order of its sums. The copying launches have no CTAs if
every matrix is aligned. If TMA loads full operands of the epilogue, which are not copied, the kernel has another
epilogue and another tile, with the same order of sums; its threads load these operands from wherever they lie.
"""

from lowtide.compiler import attempts
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import KOrderKind, PackKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import Error
from lowtide.passes.schedules.facts.alignment import MATRICES, PACK_FIELDS
from lowtide.passes.schedules.facts.staged_operands import staged_operands
from lowtide.passes.support.problem.problem import problem_in
from lowtide.targets import Target

# Fields that determine the order of sums, and that wgmma computes them.
_OF_SUMS = ("mainloop.k", "mainloop.a.copy", "mainloop.b.copy", "multiply.promote", "grid.operands", "grid.k_division")
_OF_OTHER_STORES = ("epilogue.tile", "epilogue.buffers", "epilogue.swizzle")


def packing(lowered: Lowered) -> Lowered | None:
    """Compile again with the same schedule and `pack = rows` for each of A, B and D whose packing is not set.

    If TMA loads full operands, threads load them in the new kernel, and its tile is chosen again. The tile is also
    chosen again if ptxas spills. `pack = none` stays. If D cannot be packed, threads store its elements, which may lie
    anywhere. If the rules allow neither, only A and B, or only D, are packed. None if no more can be packed, or if the
    levels at hand do not define what the kernel computes.
    """
    text = lowered.levels.get(str(Level.PROBLEM))
    if text is None:
        return None
    with make_context() as context:
        module = parse_text(text, context, "<problem>")
        schedule, found, problem = Schedule.carried_by(module), spec_of(module), problem_in(module)
        is_staged = schedule is not None and problem is not None and bool(staged_operands(schedule, problem))
    if schedule is None or not found.whole:
        return None
    if is_staged:
        return _with_operands_anywhere(found.spec, lowered.target, schedule)
    left = [name for name in MATRICES if schedule.get(PACK_FIELDS[name]) is None]
    if not left:
        return None
    operands, d = [name for name in left if name != "d"], [name for name in left if name == "d"]
    by_elements = _by_elements(_packed(schedule, operands), found.spec)
    choices = [_packed(schedule, left), *([by_elements] if d else [])]
    choices += [_packed(schedule, names) for names in (operands, d) if names]
    for wanted in choices:
        if (made := _lowered(found.spec, lowered.target, wanted)) is not None:
            return made if attempts.is_good(made, wanted) else _chosen_again(found.spec, lowered.target, wanted)
    return None


def _with_operands_anywhere(spec: GemmSpec, target: Target, schedule: Schedule) -> Lowered | None:
    packs = {path: schedule.get(path) or PackKind.rows for path in PACK_FIELDS.values()}
    return _chosen_again(spec, target, schedule.set({**packs, "epilogue.path": StorePath.smem, "epilogue.store": None}))


def _chosen_again(spec: GemmSpec, target: Target, schedule: Schedule) -> Lowered | None:
    """The kernel with the copies, stores and order of sums of this schedule; its other fields are chosen again."""
    kept = (*_OF_SUMS, *PACK_FIELDS.values(), "epilogue.path", "epilogue.store")
    wanted = Schedule().set({path: schedule.get(path) for path in kept})
    order = schedule.mainloop.k_order or KOrderKind.forward
    try:
        return attempts.compile_ir(problem_text(spec, target, wanted.set({"mainloop.k_order": order})))
    except Error:
        return None


def _packed(schedule: Schedule, names: list[str]) -> Schedule:
    return schedule.set({PACK_FIELDS[name]: PackKind.rows for name in names})


def _by_elements(schedule: Schedule, spec: GemmSpec) -> Schedule:
    """The schedule in which threads store D from their fragments. If rows are grouped, counted or stored at an index,
    each store has one element: D lies by rows, and a fragment has several columns of a row."""
    by_elements = spec.ends is not None or spec.d_rows
    store = {"epilogue.store": element_type(spec.d).bytes} if by_elements else {}
    return schedule.set({**dict.fromkeys(_OF_OTHER_STORES), "epilogue.path": StorePath.direct, **store})


def _lowered(spec: GemmSpec, target: Target, wanted: Schedule) -> Lowered | None:
    try:
        return lower(problem_text(spec, target, wanted))
    except Error:
        return None
