"""Fields that are given on sm_90a: which road they lead to, what they leave to be chosen, and what is refused."""

import pytest
from role_problems import LARGE, SM_90A, assert_kept, chosen, problem

from lowtide.dialects.tile import (
    GemmLayout,
    StorePath,
)
from lowtide.dialects.tile.agents import SINGLE, cooperative
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.candidates import whole
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.choice.parts import SWIZZLES, follow_agents, follow_mainloop
from lowtide.passes.schedules.rules.rules import breaks_early_rule, broken_rule
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get


@pytest.mark.parametrize(
    "fields",
    [
        "roles = single",
        "atoms = [2, 2, 1]",
        "atom = mma.m16n8k16",
        "a.copy = cp.async.16, b.copy = cp.async.16",
        "a.copy = cp.async.16",
        "b.copy = cp.async.16",
        "scheduler = one_shot",
        "fragment_buffers = 2",
        "permutation = [32, 32, 16]",
        "stages = 20",
        "grid.tile = [32, 32], k = 32",
    ],
)
def test_what_only_a_schedule_without_roles_has_leads_to_one(fields: str) -> None:
    schedule = chosen(LARGE, fields)
    assert schedule.agents == SINGLE
    assert schedule.multiply.atom == "mma.m16n8k16"
    assert (schedule.mainloop.a.copy, schedule.mainloop.b.copy) == ("cp.async.16", "cp.async.16")
    assert_kept(schedule, fields)


@pytest.mark.parametrize(
    "fields",
    [
        "epilogue.path = direct",
        "epilogue.path = smem",
        "epilogue.path = tma",
        "epilogue.math = rows",
        "epilogue.tile = [128, 32]",
        "epilogue.buffers = 2",
        "stages = 2",
        "stages = 5",
        "registers = [24, 240]",
        "grid.tile = [128, 128], k = 32",
        "grid.tile = [256, 128], k = 64",
        "grid.tile = [192, 128], k = 64",
        "grid.tile = [64, 256], k = 128",
        "roles = cooperative(1)",
        "roles = cooperative(2)",
        "roles = cooperative(3)",
        "atom = wgmma.m64n128k16",
        "a.copy = tma.3d, b.copy = tma.3d",
        "a.copy = tma.3d",
        "b.copy = tma.3d",
        "scheduler = persistent",
        "scheduler = even_split",
        "order = groups(16, 8)",
        "grid.tile = [128, 128], k = 32, a.swizzle = <2,3,3>",
        "a.cache = evict_first, b.cache = evict_last",
        "atom = wgmma.m64n72k16",
        "registers = [32, 160]",
        "atoms = [3, 1, 1]",
        "epilogue.tile = [192, 64]",
        "epilogue.tile = [256, 64]",
        "epilogue.swizzle = <3,4,3>",
        "roles = cooperative(4)",
    ],
)
def test_what_roles_go_with_stays_and_leads_to_them(fields: str) -> None:
    schedule = chosen(LARGE, fields)
    assert schedule.agents.has_producer
    assert_kept(schedule, fields)
    assert broken_rule(schedule, LARGE, SM_90A) is None


@pytest.mark.parametrize("layout", GemmLayout, ids=str)
def test_a_given_wgmma_is_the_width_of_the_tile(layout: GemmLayout) -> None:
    """A width between the candidates', too, where B's panels allow it."""
    schedule = chosen(problem(4096, layout=layout), "atom = wgmma.m64n80k16")
    assert schedule.tile_mnk[1] == 80
    assert broken_rule(schedule, problem(4096, layout=layout), SM_90A) is None


@pytest.mark.parametrize("fields", ["epilogue.buffers = 2", "epilogue.cache = evict_first"])
def test_what_only_tma_stores_have_leads_to_them_where_n_comes_at_run_time(fields: str) -> None:
    schedule = chosen(problem(None), fields)
    assert schedule.epilogue.path is StorePath.tma
    assert_kept(schedule, fields)
    assert broken_rule(schedule, problem(None), SM_90A) is None


@pytest.mark.parametrize(
    ("fields", "of", "message"),
    [
        # More consumers than a tile is made for by itself: a rule, and no fault.
        (
            "roles = cooperative(5), cluster = [1, 1]",
            LARGE,
            r"a TMA box of 320 rows; at most 256: take a smaller CTA tile, of at most cooperative\(4\)",
        ),
        ("roles = cooperative(8)", LARGE, r"1152 threads.*take at most roles = cooperative\(4\)"),
        ("roles = cooperative(8)", problem(4096, layout=GemmLayout.nt), r"take at most roles = cooperative\(7\)"),
        (
            "atom = wgmma.m64n264k16",
            LARGE,
            r"nearest is wgmma\.m64n256k16, with N = 256 in grid\.tile \[atom-of-types\]$",
        ),
        (
            "grid.tile = [128, 100], k = 64, roles = cooperative(2)",
            LARGE,
            r"nearest is wgmma\.m64n96k16, with N = 96 in grid\.tile \[atom-of-types\]$",
        ),
        (
            "grid.tile = [128, 200], k = 64, atom = wgmma.m64n256k16",
            LARGE,
            r"grid\.tile N = 200.*256.*\[tile-steps\]",
        ),
        # The kind of schedule that is asked for says what is wrong, or both do.
        (
            "registers = [0, 240]",
            LARGE,
            r"^no schedule fits: registers = \[0, 240\]: both roles ask .* \[registers-both\]$",
        ),
        (
            "a.copy = tma.3d, b.copy = tma.3d",
            problem(4096, 4096, 72),
            r"no schedule fits: a.*tma\.3d.*operand a.*of 64.*divide K = 72; take a.*pad K.*\[panels-divide\]",
        ),
        (
            "scheduler = one_shot, stages = 60",
            LARGE,
            r"^no schedule fits: needs [^;]*; take stages = \d+ \[ring-too-large\]$",
        ),
        (
            "roles = cooperative(2), grid.tile = [256, 8], tail = halves, epilogue.path = smem, "
            "epilogue.tile = [256, 8]",
            LARGE,
            r"256.*128x8.*\[copy-threads\]",
        ),
        (
            "a.swizzle = <8,3,8>",
            LARGE,
            r"take <3,3,3>; nor with roles = single: .* take B \+ M \+ S ≤ \d+ \[swizzle-span\]$",
        ),
        (
            "atoms = [2, 2, 16]",
            LARGE,
            r"^no schedule fits: atoms = [^;]* are 2048 threads, [^;]*; take at most 32 warps \[atoms-threads\]$",
        ),
    ],
)
def test_what_fits_neither_kind_of_schedule_is_refused_with_its_way_out(fields: str, of: Problem, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        chosen(of, fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "atom = wgmma.m64n128k16",
            r"needs a producer and consumers; take atom = mma\.m16n8k16: sm_80 has no wgmma \[atom-roles\]$",
        ),
        (
            "a.copy = tma, b.copy = tma",
            r"needs a producer and consumers; take a\.copy = cp\.async\.16: sm_80 has no wgmma \[atom-roles\]$",
        ),
        ("registers = [40, 232]", r"are those of roles; take \[0, 0\]: sm_80 has no wgmma \[registers-roles\]$"),
    ],
)
def test_no_way_out_leads_to_roles_that_the_target_lacks(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        choose(LARGE, get("sm_80"), Schedule.parse(fields))


@pytest.mark.parametrize(("rows", "consumers"), [(64, 1), (128, 2), (256, 2), (192, 3)])
def test_the_rows_of_a_given_tile_decide_the_consumers(rows: int, consumers: int) -> None:
    assert chosen(LARGE, f"grid.tile = [{rows}, 128], k = 64").agents.values() == cooperative(consumers).values()


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90"])
def test_wgmma_named_where_there_is_none_is_an_error(target: str) -> None:
    with pytest.raises(ScheduleError, match=r"atom = wgmma\.m64n128k16.*\[atom-roles\]"):
        choose(LARGE, get(target), Schedule.parse("atom = wgmma.m64n128k16"))
    with pytest.raises(ScheduleError, match=rf"that {target} does not have.*\[roles-target\]"):
        choose(LARGE, get(target), Schedule.parse("roles = cooperative(2), atom = wgmma.m64n128k16"))


def test_roles_that_no_tile_allows_are_refused_with_the_rule_of_the_cheapest() -> None:
    with pytest.raises(ScheduleError, match=r"needs \d+ bytes of shared memory .*take stages = \d.*\[ring-too-large\]"):
        chosen(LARGE, "stages = 40, roles = cooperative(2)")


@pytest.mark.parametrize(
    "fields", ["atoms = [2, 2, 1]", "prologue = once", "unroll = full", "stages = 20", "a.swizzle = <3,3,3>"]
)
def test_a_rule_that_is_broken_early_is_broken_in_the_complete_schedule(fields: str) -> None:
    given = Schedule.parse(fields)
    group, early = next(whole(given, LARGE, SM_90A, with_producer=True)), 0
    for candidate in group.candidates[::40]:
        begun = follow_agents(given.filled(candidate), LARGE, SM_90A)
        if breaks_early_rule(begun, LARGE, SM_90A):
            complete = follow_mainloop(begun, LARGE, SM_90A).filled(dict.fromkeys(SWIZZLES, NO_SWIZZLE))
            assert broken_rule(complete, LARGE, SM_90A) is not None
            early += 1
    assert (early > 0) == (fields != "a.swizzle = <3,3,3>")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "grid.tile = [128, 184], k = 64, epilogue.buffers = 4",
            "take turns with 2 parts of the tile, evenly; nearest is 2",
        ),
        (
            "grid.tile = [256, 136], k = 64, epilogue.buffers = 3",
            "take turns with 4 parts of the tile, evenly; nearest is 2",
        ),
        ("grid.tile = [128, 88], k = 64, epilogue.tile = [128, 60]", r"epilogue\.tile N = 60.*of 8.*\[part-extent\]"),
        (
            "grid.tile = [128, 88], k = 64, epilogue.tile = [128, 96]",
            r"epilogue\.tile N = 96.*of 8.*tile's 88.*\[part-extent\]",
        ),
        ("grid.tile = [128, 84], k = 64", "84"),
    ],
)
def test_parts_that_leave_no_whole_rest_are_refused(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        chosen(LARGE, f"roles = cooperative(2), epilogue.path = tma, {fields}")
