"""What a module says about how its schedules are chosen, beside the fields that it gives.

    module attributes {tile.expected = {m = 4096, n = 2880, k = 2880},
                       tile.passed_over = [{schedule = #tile.schedule<…>, why = "the kernel spills 12 bytes …"}], …}

`tile.expected`: the extents that the schedule is chosen for, by name. The kernel also serves others, so the rules treat
them as run-time extents. `tile.passed_over`: schedules that are not chosen, because their kernels were not good.
Later levels keep both, as a record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import IRError
from lowtide.passes.schedules.choice.choice import Choice, choose
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

EXPECTED = "tile.expected"
PASSED_OVER = "tile.passed_over"
_EXTENTS = ("m", "n", "k", "batch")


@dataclass(frozen=True)
class PassedOver:
    """A schedule that is not chosen, and why."""

    schedule: Schedule
    why: str

    def __str__(self) -> str:
        return f"{self.why}: {self.schedule.shorthand()}"


def choice_for(gemm: tile.GemmOp, module: ir.Module, target: Target) -> Choice:
    """The choice of the fields that a tile.gemm leaves open. Raises ScheduleError, and IRError for malformed attributes
    of the module."""
    given = Schedule() if gemm.schedule is None else Schedule.of(gemm.schedule)
    problem = Problem.of(gemm).expecting(expected_in(module))
    return choose(problem, target, given, [passed.schedule for passed in passed_over_in(module)])


def expected_in(module: ir.Module) -> dict[str, int]:
    """The extents that the schedules of a module are chosen for, by name. Raises IRError."""
    attributes = module.operation.attributes
    if EXPECTED not in attributes:
        return {}
    try:
        found = {entry.name: int(ir.IntegerAttr(entry.attr).value) for entry in ir.DictAttr(attributes[EXPECTED])}
    except ValueError:
        found = {"": 0}
    if not set(found) <= set(_EXTENTS) or min(found.values(), default=1) < 1:
        raise IRError(
            f"{EXPECTED} = {attributes[EXPECTED]}: it names extents of at least 1, each {', '.join(_EXTENTS)} or left "
            "out, e.g. {m = 4096, n = 2880} [expected-extents]"
        )
    return found


def passed_over_in(module: ir.Module) -> tuple[PassedOver, ...]:
    """The schedules that are not chosen in a module. Raises IRError."""
    attributes = module.operation.attributes
    if PASSED_OVER not in attributes:
        return ()
    try:
        entries = [ir.DictAttr(entry) for entry in ir.ArrayAttr(attributes[PASSED_OVER])]
        return tuple(
            PassedOver(Schedule.of(tile.ScheduleAttr(entry["schedule"])), ir.StringAttr(entry["why"]).value)
            for entry in entries
        )
    except (ValueError, KeyError):
        raise IRError(
            f'{PASSED_OVER} lists what is not chosen as {{schedule = #tile.schedule<…>, why = "…"}}; leave it out to '
            "choose among all [passed-over-list]"
        ) from None


def set_expected(module: ir.Module, extents: Mapping[str, int]) -> None:
    """Choose schedules for these extents; if there are none, for the problem's own."""
    if not extents:
        return
    integer = ir.IntegerType.get_signless(64, module.context)
    entries: dict[str, ir.Attribute] = {name: ir.IntegerAttr.get(integer, extent) for name, extent in extents.items()}
    module.operation.attributes[EXPECTED] = ir.DictAttr.get(entries, module.context)


def set_passed_over(module: ir.Module, passed: Sequence[PassedOver]) -> None:
    """Choose none of these schedules."""
    with module.context:
        module.operation.attributes[PASSED_OVER] = ir.ArrayAttr.get(
            [
                ir.DictAttr.get({"schedule": one.schedule.attribute(), "why": ir.StringAttr.get(one.why)})
                for one in passed
            ]
        )
