"""A choice whose machine code is bad is passed over for the next one, whoever compiles; a given schedule is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lowtide as lt
from lowtide import targets
from lowtide.cli.main import app
from lowtide.compiler import attempts
from lowtide.compiler.cache import sources
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.kernel import CachedKernel
from lowtide.compiler.matmul.compilation import compile_planned
from lowtide.compiler.numerics import promise
from lowtide.compiler.numerics_words import BATCH_INVARIANT, REPEATABLE
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.compiler.ptxas import Assembly, BadCode, assemble
from lowtide.dialects.levels import Level
from lowtide.errors import CompileError, IRError, ScheduleError
from lowtide.inspection.explain.explanation import explain_spec
from lowtide.measurement.tuning.candidates import candidates
from lowtide.passes.schedules.choice.asked import PassedOver, passed_over_in, set_passed_over
from lowtide.passes.schedules.choice.choice import choose, ranked
from lowtide.passes.schedules.cost.cost import cost

pytestmark = pytest.mark.code_at_once

SMALL = lt.GemmSpec(m=72, n=136, k=64, a="f16", b="f16", d="f16")
SPILLS = "the kernel spills 8 bytes per thread; take another"
Spilling = Callable[[int], list[str]]


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> Spilling:
    """Has ptxas spill the kernels of the first so many attempts; gives the PTX of each attempt."""

    def begin(count: int) -> list[str]:
        seen: list[str] = []

        def spill(ptx: str, *rest: Any, **more: Any) -> Assembly:
            seen.append(ptx)
            if len(seen) <= count:
                raise BadCode(SPILLS)
            return assemble(ptx, *rest, **more)

        monkeypatch.setattr(attempts, "assemble", spill)
        return seen

    return begin


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", "off")


def scaled(acc, c: lt.Full):
    return acc + 3 * c


def scaled_and_added(acc, s: lt.Scalar, c: lt.Full["f32"]):  # noqa: F821
    return s * acc + c


def biased(acc, bias: lt.PerColumn):
    return lt.gelu(acc + bias)


F16, BF16, F32, S8 = ({"a": name, "b": name, "d": name} for name in ("f16", "bf16", "f32", "s8"))


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ("sm_90a", {"m": 4001, "n": 4003, "k": 101, "layout": "nt", "epilogue": scaled, **F16}),
        ("sm_90a", {"m": 4090, "n": 4094, "k": 70, "layout": "nt", "d_order": "column", "epilogue": scaled, **F16}),
        ("sm_90a", {"m": 6152, "n": 2736, "k": 512, "layout": "nt", **F16}),  # the producer in a cluster spilled
        ("sm_90a", {"n": 4379, "k": 256, **BF16, "d": "f32", "d_order": "column", "epilogue": scaled_and_added}),
        ("sm_90a", {"m": 4568, "n": 4508, "k": 7, "batch": 3, "layout": "nt", **F16, "d": "f32", "epilogue": scaled}),
        ("sm_80", {"n": 1216, "k": 7696, "a": "tf32", "b": "tf32", "d": "f32", "epilogue": biased}),
        ("sm_80", {"n": 1024, "k": 4096, **S8}),
        ("sm_89", {"m": 128, "k": 10, **F32}),
        ("sm_80", {"m": 1024, "n": 6816, "k": 2672, "layout": "nn", "epilogue": biased, **F16}),
    ],
)
def test_what_is_chosen_spills_nothing(target: str, fields: dict[str, Any]) -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(**fields), target=target)
    assembly = kernel.assembly
    assert assembly is not None and (assembly.spill_stores, assembly.spill_loads) == (0, 0)


def test_the_next_choice_is_taken_and_the_first_ones_are_named(spilling: Spilling, tmp_path: Path) -> None:
    own = lt.compile_gemm(SMALL).schedule
    seen = spilling(2)
    kernel = lt.compile_gemm(SMALL, dump_ir=tmp_path)
    assert len(seen) == 3 and kernel.ptx == seen[-1]
    assert [passed.why for passed in kernel.passed_over] == ["the kernel spills 8 bytes per thread"] * 2
    assert kernel.passed_over[0].schedule == own
    assert kernel.schedule not in [passed.schedule for passed in kernel.passed_over]
    (ptx,), (entered,) = tmp_path.glob("*/kernel.ptx"), tmp_path.glob("*-problem/00-input.mlir")
    assert ptx.read_text() == kernel.ptx
    assert lt.compile_ir(entered).ptx == kernel.ptx
    assert len(seen) == 4


def test_what_is_passed_over_has_a_choice_with_the_same_tile_behind_it() -> None:
    problem, chip = seen_by_passes(SMALL, targets.get("sm_80")), targets.get("sm_80")
    given = lt.Schedule()
    first = choose(problem, chip, given)
    narrower = choose(problem, chip, given, [first.schedule])
    unbuffered = choose(problem, chip, given, [first.schedule, narrower.schedule])
    part = first.schedule.epilogue.tile
    assert part is not None and narrower.schedule.epilogue.tile == (part[0], part[1] // 2)
    assert (first.schedule.multiply.fragment_buffers, unbuffered.schedule.multiply.fragment_buffers) == (2, 1)
    assert narrower.schedule.tile_mnk == unbuffered.schedule.tile_mnk == first.schedule.tile_mnk
    assert "fewer registers" in narrower.reasons["epilogue.tile"]
    assert narrower.reasons["grid.tile"] == first.reasons["grid.tile"]
    others = [first.schedule, narrower.schedule, unbuffered.schedule]
    second = list(zip(range(2), ranked(problem, chip, given), strict=False))[1][1]
    assert choose(problem, chip, given, others).schedule == second.schedule


def test_a_tile_without_its_cluster_comes_after_choices_with_lower_estimates() -> None:
    chip, given = targets.get("sm_90a"), lt.Schedule()
    problem = seen_by_passes(lt.GemmSpec(m=936, n=1552, k=488, **BF16), chip)
    found: list[lt.Schedule] = []
    while not found or found[-1].cluster != (1, 1):
        found.append(choose(problem, chip, given, found).schedule)
    assert found[0].cluster == (2, 2) and found[0].grid.tile == found[1].grid.tile != found[2].grid.tile
    estimated = [cost(each, problem if each.grid.operands is None else problem.swap(), chip) for each in found]
    assert max(estimated[2:-1]) < 1.05 * estimated[0] < estimated[-1]


def test_a_producer_that_spills_takes_registers_of_three_consumers() -> None:
    """The producer needs registers for many loads, run-time extents and parts of K."""
    schedule = (
        "grid.tile = [192, 96], grid.order = column, grid.scheduler = persistent, grid.k_division = scatter(2), k = 64,"
        " stages = 6, agents.producer.warps = 4, agents.consumer.warps = 12, agents.consumer.instances = 1,"
        " epilogue.path = direct"
    )
    kernel = compile_planned(lt.GemmSpec(**BF16), "sm_90a", schedule)
    assert [passed.schedule.agents.registers for passed in kernel.passed_over] == [(32, 160)]
    assert kernel.schedule.agents.registers == (40, 152)
    assert kernel.assembly is not None and kernel.assembly.spill_stores == 0


def test_a_consumer_adds_the_parts_of_many_sums_without_spills() -> None:
    """It holds 112 sums, and loads one part after the other."""
    schedule = (
        "grid.tile = [256, 112], grid.order = row, grid.scheduler = persistent, grid.k_division = split(3),"
        " grid.operands = swapped, k = 64, stages = 4, agents.producer.warps = 4, agents.consumer.warps = 8,"
        " agents.consumer.instances = 1, epilogue.path = tma"
    )
    kernel = compile_planned(lt.GemmSpec(layout="tt", **BF16), "sm_90a", schedule)
    assert kernel.passed_over == ()
    assert kernel.assembly is not None and kernel.assembly.spill_stores == 0


def test_given_fields_stay(spilling: Spilling) -> None:
    spilling(2)
    kernel = lt.compile_gemm(SMALL, target="sm_80", schedule="grid.tile = [64, 64], epilogue.tile = [64, 64]")
    assert len(kernel.passed_over) == 2
    assert (kernel.schedule.grid.tile, kernel.schedule.epilogue.tile) == ((64, 64), (64, 64))


def test_a_complete_schedule_is_compiled_and_its_code_refused_when_it_is_asked_for(
    spilling: Spilling, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lt.compile_gemm(SMALL).schedule
    seen = spilling(100)
    monkeypatch.setattr("lowtide.compiler.kernel.assemble", attempts.assemble)
    kernel = lt.compile_gemm(SMALL, schedule=whole)
    assert seen == [] and kernel.passed_over == ()
    with pytest.raises(CompileError, match="spills 8 bytes"):
        _ = kernel.assembly


def test_without_ptxas_the_first_choice_is_taken(spilling: Spilling, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spilling(100)
    monkeypatch.setattr(attempts, "find_ptxas", lambda: None)
    assert lt.compile_gemm(SMALL).passed_over == () and seen == []


def test_where_all_choices_spill_the_first_is_shown(spilling: Spilling) -> None:
    seen = spilling(100)
    with pytest.raises(CompileError, match=r"spills 8 bytes.*the next choices do no better \(\d+ tried\)"):
        lt.compile_gemm(SMALL, schedule="grid.tile = [64, 64], k = 32")
    assert 1 < len(seen) == len(set(seen)) <= attempts._MOST


def test_the_cache_keeps_the_choice_that_was_taken(
    spilling: Spilling, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(sources, "_STARTED", float("inf"))
    seen = spilling(1)
    first, second = lt.compile_gemm(SMALL), lt.compile_gemm(SMALL)
    assert isinstance(second, CachedKernel) and len(seen) == 2
    assert (second.schedule, second.ptx, second.cubin) == (first.schedule, first.ptx, first.cubin)
    assert first.schedule != first.passed_over[0].schedule


def test_explain_and_compile_say_what_was_dropped(spilling: Spilling) -> None:
    spilling(1)
    found = explain_spec(SMALL, "sm_80")
    (passed,) = found.passed_over
    assert found.choice is not None and found.choice.schedule == found.schedule != passed.schedule
    assert found.to_json()["passed_over"] == [{"schedule": str(passed.schedule), "why": passed.why}]
    for command in ("explain", "compile"):
        spilling(1)
        output = CliRunner().invoke(app, [command, "--m", "72", "--n", "136", "--k", "64", "--target", "sm_80"]).output
        assert "dropped    the kernel spills 8 bytes per thread: grid.tile = " in output


def test_a_choice_that_breaks_a_promise_is_passed_over_unless_it_is_the_first(spilling: Spilling) -> None:
    spilling(1)
    calls: list[Lowered] = []

    def check(lowered: Lowered) -> None:
        calls.append(lowered)
        if len(calls) == 2:
            raise ScheduleError("sums in another order; take it")

    problem = problem_text(SMALL, targets.get("sm_80"))
    lowered = attempts.compile_ir(problem, check=check)
    assert [passed.why for passed in attempts.passed_over(lowered)][1] == "sums in another order"
    calls.insert(0, lowered)
    calls[1:] = []
    with pytest.raises(ScheduleError, match="sums in another order"):
        attempts.compile_ir(problem, check=check)


def test_kernels_that_are_tried_for_batch_invariance_sum_in_one_order() -> None:
    whole, split = (
        lower(problem_text(SMALL, targets.get("sm_80"), lt.Schedule.parse(text)), until=Level.ATOMS)
        for text in ("atoms = [2, 2, 1]", "atoms = [1, 2, 2], k = 32, grid.tile = [64, 64]")
    )
    check = promise(BATCH_INVARIANT)
    check(whole)
    check(whole)
    with pytest.raises(ScheduleError):
        check(split)
    promise(REPEATABLE)(split)


def test_what_is_tuned_begins_with_the_choice_that_is_taken() -> None:
    own = candidates(SMALL, targets.get("sm_80"), most=2)
    assert candidates(SMALL, targets.get("sm_80"), most=2, passed_over=own[:1])[0] != own[0]
    assert own[0] not in candidates(SMALL, targets.get("sm_80"), most=4, passed_over=own[:1])


def test_what_is_passed_over_is_read_back_and_nothing_else_is_taken_for_it() -> None:
    with make_context() as context:
        module = parse_text(problem_text(SMALL, targets.get("sm_80")), context, "<test>")
        passed = [PassedOver(lt.Schedule.parse("stages = 3"), "it spills")]
        set_passed_over(module, passed)
        assert list(passed_over_in(module)) == passed
        text = str(module)
    with pytest.raises(IRError, match=r"tile.passed_over lists what is not chosen as \{schedule.*\[passed-over-list\]"):
        lower(text.replace('why = "it spills"', "why = 3"), until=Level.PROBLEM)
