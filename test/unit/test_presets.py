"""Presets: each names its target and what it adds, fits that target, and is refused where instructions are missing."""

import itertools
import re
from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.compiler.compile import resolve_schedule
from lowtide.compiler.contexts import make_context
from lowtide.compiler.presets import LADDERS, PRESETS, check_target, ladder_of
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.dialects.tile import GemmLayout, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

PROBLEM = Problem(4096, 4096, 4096, "bf16", "bf16", "f32", "bf16", GemmLayout.tn)
SPEC = lt.GemmSpec(m=256, n=256, k=256, a="bf16", b="bf16", d="bf16")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_legal_schedule_of_the_target_that_it_names(name: str) -> None:
    schedule, preset = lt.presets[name], LADDERS[name]
    assert schedule.target in ("sm_80", "sm_89", "sm_90a")
    for dtype in preset.dtypes:
        target = get(schedule.target)
        chosen = choose(seen_by_passes(preset.spec(dtype), target), target, schedule).schedule
        assert (chosen.mainloop.stages is None) == chosen.is_direct


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_printed_and_passed_back(name: str) -> None:
    schedule = lt.presets[name]
    assert Schedule.parse(str(schedule)) == schedule
    with make_context():
        assert Schedule.of(schedule.attribute()) == schedule


@pytest.mark.parametrize("text", ["#tile.schedule<>", "", " "])
def test_a_schedule_without_fields_leaves_all_to_be_chosen(text: str) -> None:
    assert resolve_schedule(text, "bf16") == Schedule()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_each_step_of_a_ladder_differs_from_the_one_before_and_says_how(target: str) -> None:
    steps = list(ladder_of(target).values())
    assert all(step.target == step.schedule.target == target and step.adds for step in steps)
    assert all(one.schedule != other.schedule for one, other in itertools.pairwise(steps))
    assert len({step.adds for step in steps}) == len(steps)


def test_each_preset_is_a_step_of_one_ladder_in_the_order_of_the_table() -> None:
    targets_ = dict.fromkeys(preset.target for preset in LADDERS.values())
    ladders = {
        (target, preset.dtypes[0])
        for target in targets_
        for preset in LADDERS.values()
        if preset.target == target and not preset.problem
    }
    steps = [name for name, preset in LADDERS.items() if not preset.problem]
    assert sorted(steps) == sorted(name for ladder in ladders for name in ladder_of(*ladder))
    forms = {name.partition("-")[2] for name in LADDERS if name not in steps}
    named = {"batch", "by-columns", "few-rows", "transposed", "weights"}
    named |= {"fp8-blocks", "fp8-staged-scales", "fp8-scatter-tail"}
    assert forms == named | {"f32-tf32x3", "f32-bf16x6"}
    assert list(LADDERS) == list(PRESETS)
    assert all(name.startswith(preset.target.rstrip("a").replace("_", "")) for name, preset in LADDERS.items())


@pytest.mark.parametrize(
    ("name", "dtype", "way_out"),
    [
        ("sm80-persistent", "f64", r"take sm90-f64-best, or leave.*\[preset-types\]"),
        ("sm90-f64", "bf16", "is for f64, not bf16; take sm90-best"),
    ],
)
def test_a_preset_is_refused_for_operands_that_it_does_not_serve(name: str, dtype: str, way_out: str) -> None:
    sums = "f64" if dtype == "f64" else "f32"
    with pytest.raises(lt.ScheduleError, match=way_out):
        lt.compile_gemm(lt.GemmSpec(a=dtype, b=dtype, d=dtype, acc=sums), target="sm_90a", schedule=name)


@pytest.mark.parametrize("layout", GemmLayout, ids=str)
def test_the_best_preset_leaves_everything_to_be_chosen_and_gets_roles(layout: GemmLayout) -> None:
    best = lt.presets["sm90-best"]
    assert best == Schedule() and best.target == "sm_90a"
    chosen = choose(replace(PROBLEM, layout=layout), get("sm_90a"), best).schedule
    assert chosen.agents.has_producer and chosen.epilogue.path is StorePath.tma
    assert (chosen.mainloop.a.copy, chosen.mainloop.b.copy) == ("tma", "tma")


@pytest.mark.parametrize(
    ("name", "dtype", "way_out"),
    [
        ("sm80-swizzled", "f32", "is for f16 and bf16, not f32; take sm80-simt-best"),
        ("sm80-simt", "bf16", "is for f32, not bf16; take sm90-"),
    ],
)
def test_a_preset_of_fma_atoms_serves_f32_alone(name: str, dtype: str, way_out: str) -> None:
    spec = lt.GemmSpec(m=256, n=256, k=256, a=dtype, b=dtype, d=dtype)
    with pytest.raises(ScheduleError, match=way_out):
        lt.compile_gemm(spec, target="sm_80", schedule=name)
    assert all("simt" in name for name in ladder_of("sm_80", "f32"))
    assert not any("simt" in name for name in ladder_of("sm_80", "bf16"))


@pytest.mark.parametrize(
    ("layout", "target"), [*itertools.product(("tn", "tt", "nn", "nt"), ("sm_80",)), ("tn", "sm_90a")]
)
@pytest.mark.parametrize("name", ladder_of("sm_80", "f32"))
def test_a_preset_of_fma_atoms_assembles_without_spills(name: str, layout: str, target: str) -> None:
    spec = lt.GemmSpec(m=None, n=None, k=None, a="f32", b="f32", d="f32", layout=layout)
    assembly = lt.compile_gemm(spec, target=target, schedule=name).assembly
    assert assembly is None or assembly.spill_stores == 0  # None: no ptxas


@pytest.mark.parametrize("layout", ["tn", "nn"])
def test_copies_that_end_within_a_tile_find_registers_too(layout: str) -> None:
    spec = lt.GemmSpec(m=999, n=1000, k=999, a="f32", b="f32", d="f32", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [128, 64]")
    assert kernel.schedule.grid.ctas_per_sm == 3
    for one in (kernel, lt.compile_gemm(spec, target="sm_80")):
        assert one.assembly is None or one.assembly.spill_stores == 0


def test_a_target_without_a_ladder_is_told_which_have_one() -> None:
    with pytest.raises(ScheduleError, match=r"sm_86 for bf16; .* sm_80, sm_90a.*\[no-ladder\]"):
        ladder_of("sm_86")
    with pytest.raises(TargetError, match=r"'sm_99'.*\[unknown-target\]"):
        ladder_of("sm_99")


def test_the_target_is_no_field_of_the_attribute_and_no_part_of_equality() -> None:
    schedule = lt.presets["sm90-best"]
    assert schedule.target == "sm_90a"
    assert not any("target" in path for path in Schedule.paths()) and "target" not in str(schedule)
    assert schedule == schedule.with_(target=None) and hash(schedule) == hash(schedule.with_(target=None))
    assert schedule.with_(stages=2).target == "sm_90a"


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_preset_is_refused_by_a_target_that_lacks_its_instructions(target: str) -> None:
    with pytest.raises(ScheduleError) as error:
        lt.compile_gemm(SPEC, target=target, schedule="sm90-best")
    expected = rf"meant for sm_90a, which has wgmma[^;]*; {target} does not: compile for sm_90a, or take"
    assert re.search(expected, str(error.value)), str(error.value)


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_90", "sm_90a"])
def test_presets_of_sm_80_may_go_wherever_its_instructions_are(target: str) -> None:
    check_target(lt.presets["sm80-persistent"], get(target))
    assert "grouped" in problem_text(SPEC, get(target), lt.presets["sm80-persistent"])


def test_without_its_target_a_schedule_is_judged_by_its_fields() -> None:
    check_target(lt.presets["sm90-best"].with_(target=None), get("sm_80"))
