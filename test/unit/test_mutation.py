"""Faults planted by `lowtide mutate`: a sample of them is found, and each hole that a mutant has shown stays mended."""

import json
import random
import re
from dataclasses import replace

import pytest

from lowtide.compiler.driver import Lowered, lower
from lowtide.dialects.tile import RasterKind, SchedulerKind
from lowtide.interpreter import Loaded
from lowtide.verification.mutation import report
from lowtide.verification.mutation.detectors import Finding, find, run
from lowtide.verification.mutation.equivalents import argument_for
from lowtide.verification.mutation.every_shape import judged_on_every_shape
from lowtide.verification.mutation.kernels import KERNELS
from lowtide.verification.mutation.operators import OPERATORS
from lowtide.verification.mutation.operators.maxima import MAXIMA
from lowtide.verification.mutation.operators.places import PLACES
from lowtide.verification.mutation.run import Status, judge
from lowtide.verification.mutation.sites import COUNTS, Drawing, Mutant, sites

# Small and quick ones, with roles and without.
SAMPLED = ("sm80-persistent", "sm80-f64", "sm90-split-k")


@pytest.fixture(scope="module")
def lowered() -> dict[str, Lowered]:
    others = (
        "sm80-two-stages",
        "sm80-simt",
        "sm80, scatter",
        "sm80, packed",
        "sm80, batch",
        "sm80-groups",
        "sm80-pairs",
        "sm80-padded-groups",
        "sm90-taken-rows",
    )
    return {name: lower(KERNELS[name].problem()) for name in (*SAMPLED, *others, "sm90-tma-wgmma", "sm90-pingpong")}


def planted(kernel: str, level: str, operator: str, original: Lowered, at: int = 0) -> Mutant:
    """The mutant of an operator at its place number `at`."""
    text = original.levels[level]
    (one,) = (one for one in OPERATORS if one.name == operator and level in one.levels and sites(one, text))
    faulty = one.edit(text, sites(one, text)[at])
    assert faulty is not None
    return Mutant(operator, kernel, level, operator, one.kind.value, faulty)


def found_in(mutant: Mutant, original: Lowered) -> Finding:
    found = find(KERNELS[mutant.kernel], mutant.level, mutant.text, original)
    assert found is not None
    return found


def test_twenty_mutants_are_killed_or_equivalent_and_are_reported(lowered: dict[str, Lowered]) -> None:
    drawing = Drawing(1)
    drawn = [one for name in SAMPLED for one in drawing.draw(name, lowered[name].levels, COUNTS)]
    assert len({(one.level, one.text) for one in drawn}) == len(drawn)
    mutants = random.Random(1).sample(drawn, 20)
    results = [judge(KERNELS[one.kernel], one, lowered[one.kernel]) for one in mutants]
    assert [one.mutant.name for one in results if one.status in (Status.SURVIVED, Status.FAILED)] == []
    told = json.loads(report.as_json(results))["mutants"]
    assert {tuple(one) for one in told} == {("name", "level", "schedule", "status", "detector", "why")}
    assert report.summary(results).startswith("20 mutants: ")
    assert "| all | " in report.page(results, "today")


@pytest.mark.parametrize("word", [*RasterKind, *SchedulerKind], ids=str)
def test_each_order_and_scheduler_of_work_tiles_gets_a_fault(word: RasterKind | SchedulerKind) -> None:
    """The words are read off the enums, so that a new one is covered when it is added."""
    order = f"{word} 2" if isinstance(word, RasterKind) else RasterKind.row
    scheduler = word if isinstance(word, SchedulerKind) else SchedulerKind.one_shot
    line = f"tile.work_tiles (%m, %n) of (%dim, %dim_0) by [128, 128] order(<{order}>) {scheduler} {{"
    named = "another scheduler" if isinstance(word, SchedulerKind) else "work tiles in "
    faults = [
        one.edit(line, place)
        for one in OPERATORS
        if one.name.startswith(named) and "cta" in one.levels
        for place in one.pattern.finditer(line)
    ]
    assert len(faults) == 1 and faults[0] not in (None, line)
    assert re.search(rf"order\(<{'|'.join(map(str, RasterKind))}", faults[0] or "")


def test_the_same_seed_draws_the_same_mutants(lowered: dict[str, Lowered]) -> None:
    levels = lowered["sm80-f64"].levels
    first, second, other = (list(Drawing(seed).draw("sm80-f64", levels, COUNTS)) for seed in (4, 4, 5))
    assert first == second != other


# Holes that mutants have shown.


def test_copies_in_flight_at_the_end_of_a_thread_are_found(lowered: dict[str, Lowered]) -> None:
    original = lowered["sm80-two-stages"]
    at = len(re.findall("cp.async.wait.group", original.levels["nvvm"])) - 1
    mutant = planted("sm80-two-stages", "nvvm", "wait for cp.async dropped", original, at)
    assert re.search(r"ends with \d+ copies by cp\.async in flight", found_in(mutant, original).why)


@pytest.mark.parametrize(
    ("fault", "level", "found"),
    [
        ("dropped", "atoms", "verify-mbarriers"),
        ("dropped", "nvvm", "interpreter: deadlock"),
        ("first", "epilogue", "interpreter: race"),
        ("twice", "nvvm", "interpreter: mbarrier"),
    ],
)
def test_faults_in_arrivals_by_cp_async_are_found(
    lowered: dict[str, Lowered], fault: str, level: str, found: str
) -> None:
    original = lowered["sm90-taken-rows"]
    mutant = planted("sm90-taken-rows", level, f"arrival by cp.async {fault}", original)
    assert found_in(mutant, original).detector == found


def test_two_groups_of_warps_at_one_barrier_are_found(lowered: dict[str, Lowered]) -> None:
    original = lowered["sm90-pingpong"]
    mutant = planted("sm90-pingpong", "nvvm", "all warpgroups at one barrier", original)
    assert "barrier 7 of 4 warps is used by" in found_in(mutant, original).why


@pytest.mark.parametrize("level", ["nvvm", "llvm", "ptx"])  # the last two wait by a loop of loads
def test_an_arrival_too_many_at_a_semaphore_is_found(lowered: dict[str, Lowered], level: str) -> None:
    original = lowered["sm90-split-k"]
    mutant = planted("sm90-split-k", level, "semaphore arrival twice", original)
    assert "a wait is for 1 arrivals at a semaphore that gets more" in found_in(mutant, original).why


@pytest.mark.parametrize(("operator", "level"), [("assertion left out", "cta"), ("assertion of less", "llvm")])
def test_wrong_operands_that_a_host_function_takes_are_found(
    lowered: dict[str, Lowered], operator: str, level: str
) -> None:
    original, kernel = lowered["sm80-f64"], KERNELS["sm80-f64"]
    mutant = planted("sm80-f64", level, operator, original)
    found = find(replace(kernel, trials=kernel.trials[:1]), level, mutant.text, original)
    assert found is not None and found.detector == "wrong operands taken"
    assert "A and D must have the same M" in found.why


def test_elements_that_assembly_stores_may_vary() -> None:
    name = "sm90-streaming-stores"
    original = lower(KERNELS[name].problem())
    assert "st.global.cs" in original.levels["llvm"]
    found = find(replace(KERNELS[name], trials=KERNELS[name].trials[-1:]), "llvm", original.levels["llvm"], original)
    assert found is None


OF_PLACES = sorted({operator.name for operator in PLACES if {"problem", "cta"} & {*operator.levels}})


@pytest.mark.parametrize("operator", OF_PLACES)
def test_faults_of_packing_of_batches_and_of_groups_are_found(lowered: dict[str, Lowered], operator: str) -> None:
    """The last place of each in a kernel that packs, or of a batch: the output's, where inputs have one too."""
    for name in ("sm80, packed", "sm80, batch", "sm80-groups", "sm80-pairs", "sm80-padded-groups"):
        original = lowered[name]
        for own in (one for one in PLACES if one.name == operator):
            for level in {"problem", "cta"} & {*own.levels}:
                text = original.levels[level]
                if places := sites(own, text):
                    faulty = own.edit(text, places[-1])
                    assert faulty is not None and find(KERNELS[name], level, faulty, original) is not None, level


@pytest.mark.parametrize("operator", ["an end before the end before", "an end beyond the rows"])
def test_ends_of_groups_that_are_not_clamped_are_found(lowered: dict[str, Lowered], operator: str) -> None:
    original, kernel = lowered["sm80-groups"], KERNELS["sm80-groups"]
    trials = [one for one in kernel.trials if one.ends and (one.ends[0] < 0 or one.ends[-1] > one.shape[0])]
    (own,) = (one for one in PLACES if one.name == operator)
    (place,) = sites(own, original.levels["nvvm"])
    faulty = own.edit(original.levels["nvvm"], place)
    assert faulty is not None
    wrong, right = (Loaded(text) for text in (faulty, original.levels["nvvm"]))
    assert any(run(kernel, wrong, trial, timed=True) for trial in trials)
    assert not any(run(kernel, right, trial, timed=True) for trial in trials)


def test_faults_of_an_amax_are_found_at_every_place() -> None:
    kernel, found = KERNELS["sm90-amax"], 0
    original = lower(kernel.problem())
    for level, text in original.levels.items():
        for own in (one for one in MAXIMA if level in one.levels):
            for place in sites(own, text):
                faulty = own.edit(text, place)
                assert faulty is not None and find(kernel, level, faulty, original) is not None, (level, own.name)
                found += 1
    assert found >= 2 * len(MAXIMA)


# Arguments hold where their premises do, and not elsewhere.


def test_a_fence_of_wgmma_is_needed_before_the_loop_and_not_in_it(lowered: dict[str, Lowered]) -> None:
    original = lowered["sm90-tma-wgmma"]
    before, within = (planted("sm90-tma-wgmma", "nvvm", "fence of wgmma dropped", original, at) for at in (0, 1))
    assert found_in(before, original) is not None
    assert argument_for(before, original.levels["nvvm"]) is None
    assert judge(KERNELS["sm90-tma-wgmma"], within, original).detector == "sums in flight"
    first, later = (planted("sm90-tma-wgmma", "llvm", "fence of wgmma dropped", original, at) for at in (0, 1))
    assert argument_for(first, original.levels["llvm"]) is None
    assert argument_for(later, original.levels["llvm"]) is not None


def test_scale_d_may_be_set_where_sums_are_zero_and_nowhere_else(lowered: dict[str, Lowered]) -> None:
    original = lowered["sm90-tma-wgmma"]
    for level in ("nvvm", "llvm"):
        mutants = [planted("sm90-tma-wgmma", level, "scale-d inverted", original, at) for at in (0, 1)]
        arguments = [argument_for(one, original.levels[level]) for one in mutants]
        assert [one is not None for one in arguments] == [True, False]
    assert found_in(mutants[1], original).detector == "interpreter: wrong result"


def test_first_rows_taken_before_their_own_group_are_found() -> None:
    name = "sm_90a, first rows"
    original = lower(KERNELS[name].problem())
    for level, wait in (("epilogue", r"sm\.mma_wait(_rows)? (\d+)"), ("nvvm", r"wgmma[._]wait\S* (\d+)")):
        waits = [found[0] for found in re.finditer(wait, original.levels[level])]
        at = next(number for number, one in enumerate(waits) if one in ("sm.mma_wait_rows 1", "wgmma_wait 1"))
        mutant = planted(name, level, "one group of wgmma more in flight", original, at)
        assert re.search("(rows|accumulators) that .* may still write", found_in(mutant, original).why)
        assert argument_for(mutant, original.levels[level]) is None
    # K is fixed. A kernel compiled for another K would not have the fault.
    found, argument = judged_on_every_shape(KERNELS[name], mutant, original)
    assert found is not None and argument is None
    # Of the three K steps the first begins with zeros, the others with the sums of the step before.
    for at, is_needed in enumerate((True, False, False)):
        mutant = planted(name, "nvvm", "fence of wgmma dropped", original, at)
        assert (argument_for(mutant, original.levels["nvvm"]) is None) == is_needed


def test_a_wait_may_pass_a_barrier_only_where_another_one_follows(lowered: dict[str, Lowered]) -> None:
    original = lowered["sm80, scatter"]
    count = len(re.findall("cp.async.wait.group", original.levels["nvvm"]))
    waits = [planted("sm80, scatter", "nvvm", "wait for cp.async later", original, at) for at in range(count)]
    arguments = [argument_for(one, original.levels["nvvm"]) for one in waits]
    assert [one is not None and one.check == "a barrier follows" for one in arguments] == [False] * (count - 1) + [True]
    assert found_in(waits[0], original).detector == "interpreter: race"


def test_shared_memory_must_be_aligned_for_swizzles_by_address_alone(lowered: dict[str, Lowered]) -> None:
    arguments = []
    for name in ("sm80-two-stages", "sm90-tma-wgmma"):
        mutant = planted(name, "nvvm", "shared memory less aligned", lowered[name])
        arguments.append(argument_for(mutant, lowered[name].levels["nvvm"]))
    assert arguments[0] is not None and arguments[1] is None


def test_a_warp_more_clears_nothing_more_and_multiplies() -> None:
    original = lower(KERNELS["sm90-amax"].problem(), until="cta")
    clears, multiplies = (planted("sm90-amax", "cta", "a warp more", original, at) for at in (0, 1))
    argument = argument_for(clears, original.levels["cta"])
    assert argument is not None and argument.check == "one thread clears"
    assert argument_for(multiplies, original.levels["cta"]) is None


def test_an_extent_is_never_smaller_than_itself_rounded_down() -> None:
    name = "sm90, weights of e4m3"
    original = lower(KERNELS[name].problem(), until="smem")
    for level in ("cta", "smem"):
        of_k, of_n = (planted(name, level, "assertion of less", original, at) for at in (0, 1))
        argument = argument_for(of_k, original.levels[level])
        assert argument is not None and argument.check == "of a multiple"
        assert argument_for(of_n, original.levels[level]) is None
    assert found_in(of_n, original).detector == "wrong operands taken"


def test_a_moved_barrier_is_no_fault_only_if_every_shape_is_right_in_every_order(lowered: dict[str, Lowered]) -> None:
    original, kernel = lowered["sm80-simt"], KERNELS["sm80-simt"]
    # The ring has a slot between the one that is filled and the one that is read next.
    moved, dropped = (planted("sm80-simt", "nvvm", f"barrier {word}", original, 1) for word in ("later", "dropped"))
    found, argument = judged_on_every_shape(kernel, moved, original)
    assert found is None and argument is not None
    found, argument = judged_on_every_shape(kernel, dropped, original)
    assert found is not None and "race" in found.why and argument is None


def test_a_moved_proxy_fence_is_no_fault_if_it_stays_before_the_asynchronous_read(lowered: dict[str, Lowered]) -> None:
    original, name = lowered["sm90-pingpong"], "sm90-pingpong"
    later, dropped = (
        planted(name, "epilogue", f"fence of the async proxy {word}", original) for word in ("later", "dropped")
    )
    found, argument = judged_on_every_shape(KERNELS[name], later, original)
    assert found is None and argument is not None and argument.check == "fence on the path"
    assert found_in(dropped, original).detector == "interpreter: async proxy"


def test_a_barrier_orders_nothing_only_behind_the_last_access_to_shared_memory(lowered: dict[str, Lowered]) -> None:
    original = lowered["sm80-two-stages"]
    count = len(re.findall("nvvm.barrier0", original.levels["nvvm"]))
    arguments = [
        argument_for(planted("sm80-two-stages", "nvvm", "barrier dropped", original, at), original.levels["nvvm"])
        for at in range(count)
    ]
    assert [one is not None for one in arguments] == [False] * (count - 1) + [True]


def test_what_is_no_fault_in_a_kernel_of_known_extents() -> None:
    """Its K is whole steps, so that no copy is filled with zeros; and its one shape is every shape."""
    name = "sm80, tiles held"
    original = lower(KERNELS[name].problem())
    whole = planted(name, "llvm", "copy without zero fill", original)
    assert judge(KERNELS[name], whole, original).detector == "same machine code"
    later = planted(name, "nvvm", "barrier later", original)
    found, argument = judged_on_every_shape(KERNELS[name], later, original)
    assert found is None and argument is not None and argument.check == "ordered by others"
    assert found_in(planted(name, "nvvm", "barrier dropped", original), original).detector == "interpreter: race"


def test_scales_that_are_copied_since_they_lie_askew_are_in_the_runs() -> None:
    name = "sm90-fp8-staged-scales"
    original = lower(KERNELS[name].problem())
    for level, fault in (
        ("cta", "the row stride alone is tested"),
        ("epilogue", "the base alone is tested"),
        ("atoms", "copy of a matrix left out"),
    ):
        assert found_in(planted(name, level, fault, original), original).detector.startswith("interpreter")
