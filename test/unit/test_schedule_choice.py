"""The choice of a schedule: what is given stays, everything else is decided, and each field has its reason."""

import pytest

from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice import choose
from lowtide.passes.schedules.facts import shared_memory_bytes
from lowtide.passes.schedules.rules import broken_rule
from lowtide.passes.support.problem import Problem
from lowtide.targets import get

LARGE = Problem(4096, 4096, 4096, "bf16", "f32", "bf16", "tn", ())


def test_every_field_has_a_reason() -> None:
    choice = choose(LARGE, get("sm_80"), Schedule())
    assert all(choice.reasons[name] for name in Schedule.names() if getattr(choice.schedule, name) is not None)


def test_the_reason_of_a_given_field_is_that_it_was_given() -> None:
    choice = choose(LARGE, get("sm_80"), Schedule(cta=(128, 128, 32), swizzle_a=(0, 3, 3), raster=("row", 0)))
    given = {name for name, reason in choice.reasons.items() if reason == "given"}
    assert given == {"cta", "swizzle_a", "raster"}
    assert (choice.schedule.cta, choice.schedule.swizzle_a, choice.schedule.raster) == (
        (128, 128, 32),
        (0, 3, 3),
        ("row", 0),
    )


def test_the_reason_of_a_swizzle_holds_the_ways_of_each_candidate() -> None:
    choice = choose(LARGE, get("sm_80"), Schedule(cta=(128, 128, 32)))
    reason = choice.reasons["swizzle_a"]
    assert "<0,3,3>" in reason and "ldmatrix.x4 1-way" in reason and "cp.async.16" in reason
    # Without a swizzle, rows of 64 bytes put every other row of a matrix on the same banks.
    assert "<0,3,3> cp.async.16 1-way, ldmatrix.x4 4-way" in reason


def test_the_reason_of_the_tile_holds_the_cost_of_each_candidate() -> None:
    reason = choose(LARGE, get("sm_80"), Schedule()).reasons["cta"]
    assert "128×128" in reason and "64×64" in reason


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"])
@pytest.mark.parametrize("letters", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("size", [(1, 1, 1), (300, 520, 264), (8192, 8192, 8192), (None, None, None)])
def test_a_choice_is_legal_on_its_target(
    target: str, letters: str, size: tuple[int | None, int | None, int | None]
) -> None:
    problem = Problem(*size, "f16", "f32", "f16", letters, ())
    schedule = choose(problem, get(target), Schedule()).schedule
    assert broken_rule(schedule, problem, get(target)) is None


def test_a_field_that_fits_no_candidate_is_refused_with_the_rule() -> None:
    with pytest.raises(ScheduleError, match=r"no schedule fits: needs .* bytes of shared memory .* take stages = \d+"):
        choose(LARGE, get("sm_80"), Schedule(cta=(128, 128, 64), stages=20))


@pytest.mark.parametrize(
    "fields",
    [
        "cta = [128, 128, 128]",  # two stages of it fit
        "cta = [64, 16, 64]",
        "cta = [16, 64, 64]",
        "cta = [96, 48, 32]",
        "permutation = [16, 16, 16]",
    ],
)
def test_a_tile_or_permutation_that_common_warps_do_not_divide_takes_others(fields: str) -> None:
    given = Schedule.parse(fields)
    schedule = choose(LARGE, get("sm_80"), given).schedule
    assert (given.cta or schedule.cta, given.permutation or schedule.permutation) == (
        schedule.cta,
        schedule.permutation,
    )
    assert broken_rule(schedule, LARGE, get("sm_80")) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "epilogue_tile = [24, 256], cta = [128, 256, 32]",
            "multiple of 32, .* divide the CTA tile's 128; nearest is 32",
        ),
        ("raster = grouped(2147483648)", r"at least 1 tile row, at most 2147483647; nearest is grouped\(2147483647\)"),
        ("mma = foo", r"unknown mma atom 'foo\.f32\.bf16'; take mma\.m16n8k8, mma\.m16n8k16$"),
        ("cache_hints = [streaming, normal, normal]", "^cache_hints: A = streaming is not one of normal, evict_first"),
    ],
)
def test_the_way_out_is_a_value_that_the_field_takes(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        choose(LARGE, get("sm_80"), Schedule.parse(fields))


def test_shared_memory_counts_the_gap_in_front_of_each_buffer() -> None:
    schedule = Schedule(cta=(16, 48, 16), stages=3, epilogue="direct")
    # A: 3 stages of 512 bytes, up to the next multiple of 1024; B: 3 of 1536.
    assert shared_memory_bytes(schedule, LARGE) == 2048 + 4608


def test_a_scratch_that_is_larger_than_the_ring_lies_behind_it() -> None:
    small = Schedule(cta=(64, 64, 16), stages=2, epilogue="smem", epilogue_math="rows", epilogue_tile=(64, 64))
    assert shared_memory_bytes(small, LARGE) == 8192 + 64 * 64 * 4
    assert shared_memory_bytes(small.with_(epilogue_tile=(16, 64)), LARGE) == 8192
