"""Named schedules, one for each measured step of a target. Fields that a preset leaves open are chosen.

A ladder is the presets of one target in the order of this table; each adds something to the one before. A preset lists
its element types of A and B. Presets for problems of another form, such as batches, are not steps of a ladder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lowtide import targets
from lowtide.compiler.presets import element_types, forms, hopper, mma_sync, simt
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.targets import Target, accumulator_types
from lowtide.targets.atoms import families


@dataclass(frozen=True)
class Preset:
    """A named schedule: its target, its addition to the step before, and its operand types. `problem`: fields of its
    `GemmSpec`, if it is not a step of a ladder."""

    schedule: Schedule
    target: str
    adds: str
    dtypes: tuple[str, ...] = ("f16", "bf16")
    problem: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def spec(self, dtype: str | None = None, **fields: Any) -> GemmSpec:
        """A problem for this preset, with A and B of `dtype`, by default the last of its types. Extents are dynamic,
        sums have the first type for these inputs, and D the type of the arrays, unless `fields` of the GemmSpec say
        otherwise.

        Raises SpecError.
        """
        own = dtype or self.dtypes[-1]
        given = {
            "b": own,
            "d": element_type(own).stored_as,
            "acc": accumulator_types(own, own)[0],
            **self.problem,
            **fields,
        }
        return GemmSpec(a=own, **given)


def _on(
    target: str,
    steps: Mapping[str, tuple[str, Schedule]],
    dtypes: tuple[str, ...] = Preset.dtypes,
    problem: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Preset]:
    """A table of presets for a target and types, or for one form of problem. Their schedules name the target."""
    return {
        name: Preset(schedule.with_(target=target), target, adds, dtypes, problem)
        for name, (adds, schedule) in steps.items()
    }


LADDERS: Mapping[str, Preset] = MappingProxyType(
    {
        **_on("sm_80", simt.SIMT, ("f32",)),
        **_on("sm_80", mma_sync.SM80),
        **_on("sm_80", element_types.SM80_F64, ("f64",)),
        **_on("sm_80", element_types.SM80_TF32, ("tf32",)),
        **_on("sm_80", element_types.SM80_INT8, element_types.BYTES),
        **_on("sm_89", element_types.SM89_FP8, ("e4m3", "e5m2")),
        **_on("sm_90a", hopper.SM90A),
        **_on("sm_90a", element_types.SM90A_F64, ("f64",)),
        **_on("sm_90a", element_types.SM90A_FP8, ("e4m3", "e5m2")),
        **_on("sm_90a", element_types.SM90A_FP8_BLOCKS, ("e4m3", "e5m2"), element_types.SCALED),
        **_on("sm_90a", element_types.SM90A_FP8_SCATTER_TAIL, ("e4m3", "e5m2"), element_types.SCALED_TO_BF16),
        **_on("sm_80", forms.SM80_BATCH, problem=forms.BATCH),
        **_on("sm_80", forms.SM80_BY_COLUMNS, problem=forms.BY_COLUMNS),
        **_on("sm_80", forms.SM80_FEW_ROWS, problem=forms.FEW_ROWS),
        **_on("sm_80", element_types.SM80_WEIGHTS, problem=element_types.WEIGHTS),
        **_on("sm_90a", forms.SM90A_BATCH, problem=forms.BATCH),
        **_on("sm_90a", forms.SM90A_BY_COLUMNS, problem=forms.BY_COLUMNS),
        **_on("sm_90a", forms.SM90A_FEW_ROWS, problem=forms.FEW_ROWS),
        **_on("sm_90a", element_types.SM90A_WEIGHTS, problem=element_types.WEIGHTS),
        **_on("sm_90a", element_types.SM90A_TF32, ("tf32",)),
        **_on("sm_90a", element_types.SM90A_TF32X3, ("f32",), problem=MappingProxyType({"precision": "tf32x3"})),
        **_on("sm_90a", element_types.SM90A_BF16X6, ("f32",), problem=MappingProxyType({"precision": "bf16x6"})),
        **_on("sm_90a", element_types.SM90A_INT8, element_types.BYTES),
        **_on(
            "sm_90a",
            forms.SM90A_TRANSPOSED,
            (*element_types.BYTES, "tf32", "e5m2", "e4m3"),
            problem=forms.TRANSPOSED,
        ),
    }
)

PRESETS: Mapping[str, Schedule] = MappingProxyType({name: preset.schedule for name, preset in LADDERS.items()})


def ladder_of(target: str, dtype: str = "bf16") -> dict[str, Preset]:
    """The presets that name a target, for operands of a type, in order.

    Raises ScheduleError if there are none, TargetError for an unknown target.
    """
    known = targets.get(target)
    serving = {name: one for name, one in LADDERS.items() if dtype in one.dtypes and not one.problem}
    found = {name: preset for name, preset in serving.items() if preset.target == known.name}
    if not found:
        named = ", ".join(dict.fromkeys(preset.target for preset in serving.values()))
        raise ScheduleError(
            f"no preset names {target} for {dtype}; there are ladders for {named or 'other types'}: take one of those"
            " [no-ladder]"
        )
    return found


def check_dtype(name: str, dtype: str) -> None:
    """Raise ScheduleError if a preset does not support the operand type."""
    preset = LADDERS[name]
    if dtype not in preset.dtypes:
        others = [other for other, one in LADDERS.items() if dtype in one.dtypes and not one.problem]
        way_out = f"{others[-1]}, or leave the schedule open" if others else "no preset: the schedule is chosen"
        raise ScheduleError(
            f"preset {name} is for {' and '.join(preset.dtypes)}, not {dtype}; take {way_out} [preset-types]"
        )


def check_target(schedule: Schedule, target: Target) -> None:
    """Raise ScheduleError if the schedule's target has instructions that this target lacks."""
    if schedule.target is None:
        return
    meant = targets.get(schedule.target)
    own = [*target.mma_atoms, *target.copy_atoms]
    missing = [atom for atom in (*meant.mma_atoms, *meant.copy_atoms) if atom not in own]
    if missing:
        instructions = {_instruction(atom) for atom in own}
        new = dict.fromkeys(_instruction(atom) for atom in missing if _instruction(atom) not in instructions)
        raise ScheduleError(
            f"the schedule is meant for {meant.name}, which has {', '.join(new) or families(missing)}; "
            f"{target.name} does not: compile for {meant.name}, or take a schedule for {target.name} [preset-target]"
        )


def _instruction(atom: str) -> str:
    """The first word of an atom's name."""
    return atom.partition(".")[0]
