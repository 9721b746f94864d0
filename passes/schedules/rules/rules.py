"""The rules of a complete schedule on a target, one per function. Messages give the rule, the limit and a way out.

The rules of each part are in its own file. `verify-schedule` runs them on IR; `choose-schedule` keeps only candidates
that pass them.
"""

from collections.abc import Callable, Iterator
from functools import cache

from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type, kernel_types, types_of_d
from lowtide.passes.schedules.facts.alignment import multiplied
from lowtide.passes.schedules.facts.resources import ring_bytes
from lowtide.passes.schedules.rules import arrivals as arrival_rules
from lowtide.passes.schedules.rules import copies as copy_rules
from lowtide.passes.schedules.rules import epilogue as epilogue_rules
from lowtide.passes.schedules.rules import grid as grid_rules
from lowtide.passes.schedules.rules import groups as group_rules
from lowtide.passes.schedules.rules import lists as list_rules
from lowtide.passes.schedules.rules import mainloop as mainloop_rules
from lowtide.passes.schedules.rules import multiply as multiply_rules
from lowtide.passes.schedules.rules import pairs as pair_rules
from lowtide.passes.schedules.rules import placed_rows as placed_row_rules
from lowtide.passes.schedules.rules import reductions as reduction_rules
from lowtide.passes.schedules.rules import taken_rows as taken_row_rules
from lowtide.passes.schedules.rules import weights as weight_rules
from lowtide.passes.schedules.rules.tma import boxes
from lowtide.passes.support.problem.operand_kinds import INTEGERS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target, operand_types

Rule = Callable[[Schedule, Problem, Target], Iterator[str]]

# Fields that a complete schedule may leave out: clusters of one CTA, one CTA per SM, launches in order, a whole tail, K
# undivided, stages as loaded, no hints, nothing packed, atoms in order, one scratch buffer.
OPTIONAL = (
    "grid.cluster",
    "grid.ctas_per_sm",
    "grid.launch",
    "grid.tail",
    "grid.k_division",
    "grid.waves",
    "grid.operands",
    "grid.sender",
    "mainloop.prologue",
    "mainloop.unroll",
    "mainloop.scales",
    "mainloop.k_order",
    "mainloop.a.stage",
    "mainloop.a.padding",
    "mainloop.a.cache",
    "mainloop.a.load",
    "mainloop.a.pack",
    "mainloop.b.stage",
    "mainloop.b.padding",
    "mainloop.b.cache",
    "mainloop.b.load",
    "mainloop.b.pack",
    "multiply.atom_order",
    "multiply.promote",
    "epilogue.store",
    "epilogue.cache",
    "epilogue.buffers",
    "epilogue.pack",
    "epilogue.prefetch",
    "epilogue.start",
)

# Fields of stages in shared memory.
_OF_THE_RING = ("mainloop.stages", "mainloop.a.swizzle", "mainloop.b.swizzle")


@cache
def _required(*, has_producer: bool, is_direct: bool) -> tuple[str, ...]:
    """The fields that a complete schedule has."""
    names = ("producer.warps", "consumer.", "producer.registers") if has_producer else ("single.instances",)
    own = tuple(f"mainloop.agents.{name}" for name in names)
    others = (path for path in Schedule.paths() if path.startswith("mainloop.agents.") and not path.startswith(own))
    optional = {*OPTIONAL, *others, *(_OF_THE_RING if is_direct else ())}
    return tuple(path for path in Schedule.paths() if path not in optional)


def _complete(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    decided = schedule.decided()
    required = _required(has_producer=schedule.agents.has_producer, is_direct=schedule.is_direct)
    missing = [path for path in required if path not in decided]
    if missing:
        yield f"field {missing[0]} is not decided; run choose-schedule first, or write it [field-undecided]"


def _elements(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    multiplied, summed = operand_types(), kernel_types()
    of_each = ("A", problem.a, multiplied), ("B", problem.b, multiplied), ("the accumulator", problem.acc, summed)
    for name, element, known in (*of_each, *(("D", stored, types_of_d()) for stored in problem.stored)):
        if element not in known:
            yield f"{name} of {element}: elements are one of {', '.join(known)} [elements-of-problem]"
            return
    computed = element_type(problem.acc).computes_in
    kinds = zip(problem.kinds, problem.operands, strict=True)
    stored = (("D", each) for each in problem.stored)
    for name, element in (*stored, *(("an operand", x) for kind, x in kinds if kind not in INTEGERS)):
        if element_type(element).computes_in != computed:
            taken = ", ".join(types_of_d(computed))
            yield (
                f"{name} of {element} with {problem.acc} accumulators, whose epilogue takes {taken}: convert it"
                " [elements-converted]"
            )
        elif target.compute_capability < element_type(element).converts_on:
            first = "sm_{}{}".format(*element_type(element).converts_on)
            yield (
                f"{name} of {element}: {target.name} has no conversions of it, {first} is the first; take it, or f16"
                " [elements-conversion]"
            )


_VALUE_RULES: tuple[Rule, ...] = (
    _elements,
    group_rules.groups,
    pair_rules.pairs,
    taken_row_rules.taken_rows,
    placed_row_rules.placed_rows,
    list_rules.lists,
    arrival_rules.arrivals,
    grid_rules.operands,
    grid_rules.extents,
    grid_rules.order,
    grid_rules.tile,
    grid_rules.launch,
    grid_rules.k_parts,
    grid_rules.ctas,
    grid_rules.cluster,
    mainloop_rules.fields,
    multiply_rules.fields,
    epilogue_rules.fields,
)

# Each checks one field by itself, so that an incomplete schedule can be checked too.
_FIELD_RULES: tuple[Rule, ...] = (*_VALUE_RULES, grid_rules.accumulators)

# In this order; a later rule may rely on an earlier one, so the first that fails ends the check.
_RULES: tuple[Rule, ...] = (
    _complete,
    *_VALUE_RULES,
    grid_rules.k_division,
    multiply_rules.threads,
    mainloop_rules.roles,
    grid_rules.cluster_shares,
    grid_rules.tail,
    grid_rules.waves,
    mainloop_rules.prologue,
    mainloop_rules.loaded_once,
    mainloop_rules.unroll,
    multiply_rules.atom,
    weight_rules.conversions,
    weight_rules.weights,
    multiply_rules.promotion,
    copy_rules.copies,
    grid_rules.accumulators,
    multiply_rules.wgmma,
    multiply_rules.accumulators,
    epilogue_rules.columns,
    epilogue_rules.parts,
    epilogue_rules.start,
    copy_rules.packing,
    copy_rules.swizzles,
    epilogue_rules.swizzle,
    mainloop_rules.shared_memory,
    grid_rules.occupancy,
    reduction_rules.reductions,
)


# Rules of schedules with a producer that a search can apply before a schedule is complete. They read fields that the
# search decides early. Of the fields that it decides later, they refuse only values that were given.
_EARLY_RULES: tuple[Rule, ...] = (mainloop_rules.roles, mainloop_rules.prologue, mainloop_rules.unroll, boxes)


def broken_rule(schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """The first rule that the schedule breaks, as a message; None for a legal schedule."""
    return _first(_RULES, schedule, problem, target)


def broken_field(schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """As `broken_rule`, for the fields that are given: each by itself."""
    return _first(_FIELD_RULES, schedule, problem, target)


def breaks_early_rule(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether an incomplete schedule with a producer breaks a rule, whatever values its open fields will have."""
    own = multiplied(schedule, problem.compiled)
    if schedule.mainloop.stages is not None and ring_bytes(schedule, own) > target.smem_bytes_per_cta:
        return True
    return any(True for rule in _EARLY_RULES for _ in rule(schedule, own, target))


def _first(rules: tuple[Rule, ...], schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """The rules see the product as the kernel multiplies it; only the rule of transposed operands sees it as passed.
    They see the kernel's own extents, not those that the schedule is chosen for."""
    for message in copy_rules.transposing(schedule, problem.compiled):
        return message
    own = multiplied(schedule, problem.compiled)
    return next((message for rule in rules for message in rule(schedule, own, target)), None)
