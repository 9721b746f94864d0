"""The default on sm_90a: which CTA tile is chosen, which road what is given leads to, and what holds of any choice."""

import random
from dataclasses import replace
from math import ceil

import pytest

from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice import Choice, choose
from lowtide.passes.schedules.facts import shared_memory_bytes
from lowtide.passes.schedules.rules import broken_rule
from lowtide.passes.support.problem import Problem
from lowtide.targets import get

LAYOUTS = tuple(map(str, GemmLayout))

SM_90A = get("sm_90a")
Size = tuple[int | None, int | None, int | None]


def problem(*size: int | None, layout: str = "tn", d: str = "bf16", kinds: tuple[str, ...] = ()) -> Problem:
    """One extent for all three, or M, N, K."""
    m, n, k = size if len(size) == 3 else size * 3
    return Problem(m, n, k, "bf16", "f32", d, layout, kinds)


def chosen(of: Problem, fields: str = "") -> Schedule:
    return choose(of, SM_90A, Schedule.parse(fields)).schedule


LARGE = problem(4096)


# Tiles ----------------------------------------------------------------------------------------------------------------

TILES = [
    ((8192, 8192, 8192), (256, 184), 2),
    ((4096, 28672, 4096), (256, 184), 2),
    ((4096, 4096, 4096), (128, 256), 2),
    ((3072, 3072, 3072), (128, 192), 2),
    ((1536, 1536, 1536), (128, 144), 2),
]


@pytest.mark.parametrize(("size", "tile", "consumers"), [*TILES, ((512, 512, 512), (64, 64), 1)])
def test_the_tile_of_least_cost_is_chosen(size: Size, tile: tuple[int, int], consumers: int) -> None:
    schedule = chosen(problem(*size))
    assert schedule.cta == (*tile, 64)
    assert schedule.roles == ("cooperative", consumers)
    assert (schedule.mma, schedule.copy, schedule.epilogue) == (f"wgmma.m64n{tile[1]}k16", "tma", "tma")


@pytest.mark.parametrize("size", [size for size, _, _ in TILES])
def test_the_last_wave_is_nearly_full(size: tuple[int, int, int]) -> None:
    cta = chosen(problem(*size)).cta
    assert cta is not None
    tiles = ceil(size[0] / cta[0]) * ceil(size[1] / cta[1])
    assert tiles / (ceil(tiles / SM_90A.sm_count) * SM_90A.sm_count) > 0.96


@pytest.mark.parametrize("size", [1536, 2048, 3000, 4096, 6000, 8192])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_panels_of_n_contiguous_b_are_whole(layout: str, size: int) -> None:
    cta = chosen(problem(size, layout=layout)).cta
    assert cta is not None
    assert cta[1] % (8 if layout[1] == "n" else 64) == 0


def test_an_n_contiguous_b_takes_another_tile_where_the_best_has_no_whole_panels() -> None:
    assert chosen(problem(1536, layout="nt")).cta == chosen(problem(1536, layout="tt")).cta == (128, 192, 64)


@pytest.mark.parametrize(("n", "widest"), [(8, 16), (16, 16), (24, 32), (40, 64), (56, 64)])
def test_a_narrow_problem_takes_no_wider_tile_than_it_fills(n: int, widest: int) -> None:
    cta = chosen(problem(100_000, n, 512)).cta
    assert cta is not None
    assert cta[1] == widest


def test_extents_known_at_run_time_are_taken_to_be_4096() -> None:
    known, unknown = chosen(problem(4096), "epilogue = smem"), chosen(problem(None), "epilogue = smem")
    assert unknown == known
    assert chosen(problem(None, 4096, None)) == chosen(LARGE)


# Epilogues ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "n", "epilogue"), [("bf16", 4096, "tma"), ("bf16", 4088, "tma"), ("f32", 4092, "tma")])
def test_rows_of_whole_16_bytes_are_stored_by_tma(d: str, n: int, epilogue: str) -> None:
    assert chosen(problem(4096, n, 4096, d=d)).epilogue == epilogue


@pytest.mark.parametrize(("d", "n"), [("bf16", 4092), ("bf16", 4095), ("f32", 4094), ("bf16", None), ("f32", None)])
def test_rows_that_may_end_within_16_bytes_go_through_shared_memory(d: str, n: int | None) -> None:
    schedule = chosen(problem(4096, n, 4096, d=d))
    assert (schedule.epilogue, schedule.epilogue_math) == ("smem", "registers")


def test_tma_stores_that_would_write_behind_a_row_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"behind D's rows of 4092 elements; take epilogue = smem, or N = 4096"):
        chosen(problem(4096, 4092, 4096), "roles = cooperative(2), epilogue = tma")


@pytest.mark.parametrize("size", [512, 1536, 4096, 8192, None])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_full_operand_is_read_in_rows_beside_few_accumulators(layout: str, size: int | None) -> None:
    schedule = chosen(problem(size, layout=layout, kinds=("full", "per_column")))
    assert (schedule.epilogue, schedule.epilogue_math) == ("smem", "rows")
    assert schedule.cta is not None and schedule.roles is not None
    assert schedule.cta[0] * schedule.cta[1] // (128 * schedule.roles[1]) <= 128


@pytest.mark.parametrize(
    ("size", "part", "buffers"),
    [
        ((8192, 8192, 8192), (128, 64), 2),  # 64, 64 and 56 columns, twice: four whole parts
        ((4096, 4096, 4096), (128, 64), 4),
        ((3072, 3072, 3072), (128, 64), 3),
        ((1536, 1536, 1536), (128, 64), 2),  # 64, 64 and 16 columns
        ((512, 512, 512), (64, 64), 1),
    ],
)
def test_every_whole_part_has_a_buffer_where_they_fit(size: Size, part: tuple[int, int], buffers: int) -> None:
    schedule = chosen(problem(*size))
    assert (schedule.epilogue_tile, schedule.epilogue_buffers) == (part, buffers)


@pytest.mark.parametrize("size", [(20000, 4172, 500), (65, None, 16), (None, None, None)])
@pytest.mark.parametrize("d", ["bf16", "f32"])
def test_functions_without_tma_stores_have_room_beside_the_accumulators(size: Size, d: str) -> None:
    schedule = chosen(replace(problem(*size, d=d, kinds=("full",)), has_math=True))
    assert schedule.cta is not None and schedule.roles is not None
    (m, n, _), consumers = schedule.cta, schedule.roles[1]
    assert schedule.epilogue == "smem" and m == 64 * consumers
    assert n // 2 <= (64 if consumers == 1 or d == "f32" else 128)


def test_functions_change_nothing_where_stores_are_by_tma() -> None:
    assert chosen(replace(problem(8192), has_math=True)) == chosen(problem(8192))


# What is given --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        "roles = single",
        "warps = [2, 2, 1]",
        "mma = mma.m16n8k16",
        "copy = cp.async.16",
        "scheduler = one_shot",
        "fragment_buffers = 2",
        "permutation = [32, 32, 16]",
        "stages = 20",
        "cta = [32, 32, 32]",
    ],
)
def test_what_only_a_schedule_without_roles_has_leads_to_one(fields: str) -> None:
    schedule = chosen(LARGE, fields)
    assert schedule.roles == ("single", 0)
    assert schedule.mma == "mma.m16n8k16" and schedule.copy == "cp.async.16"
    assert_kept(schedule, fields)


@pytest.mark.parametrize(
    "fields",
    [
        "epilogue = direct",
        "epilogue = smem",
        "epilogue = tma",
        "epilogue_math = rows",
        "epilogue_tile = [128, 32]",
        "epilogue_buffers = 2",
        "stages = 2",
        "stages = 5",
        "registers = [24, 240]",
        "cta = [128, 128, 32]",
        "cta = [256, 128, 64]",
        "cta = [192, 128, 64]",
        "cta = [64, 256, 128]",
        "roles = cooperative(1)",
        "roles = cooperative(2)",
        "roles = cooperative(3)",
        "mma = wgmma.m64n128k16",
        "copy = tma.3d",
        "scheduler = persistent",
        "scheduler = even_split",
        "raster = groups(16, 8)",
        "swizzle_a = <2,3,3>, cta = [128, 128, 32]",
        "cache_hints = [evict_first, evict_last, normal]",
        "mma = wgmma.m64n72k16",
        "registers = [32, 160]",
        "warps = [3, 1, 1]",
        "epilogue_tile = [192, 64]",
        "epilogue_tile = [256, 64]",
        "swizzle_d = <3,4,3>",
        "roles = cooperative(4)",
    ],
)
def test_what_roles_go_with_stays_and_leads_to_them(fields: str) -> None:
    schedule = chosen(LARGE, fields)
    assert schedule.roles is not None and schedule.roles[0] == "cooperative"
    assert_kept(schedule, fields)
    assert broken_rule(schedule, LARGE, SM_90A) is None


def assert_kept(schedule: Schedule, fields: str) -> None:
    """What was given is in the schedule as it was given."""
    given = Schedule.parse(fields)
    names = [name for name in Schedule.names() if getattr(given, name) is not None]
    assert names
    assert {name: getattr(schedule, name) for name in names} == {name: getattr(given, name) for name in names}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_given_wgmma_is_the_width_of_the_tile(layout: str) -> None:
    """A width between the candidates', too, where B's panels allow it."""
    schedule = chosen(problem(4096, layout=layout), "mma = wgmma.m64n80k16")
    assert schedule.cta is not None and schedule.cta[1] == 80
    assert broken_rule(schedule, problem(4096, layout=layout), SM_90A) is None


@pytest.mark.parametrize("fields", ["epilogue_buffers = 2", "cache_hints = [normal, normal, evict_first]"])
def test_what_only_tma_stores_have_leads_to_them_where_n_comes_at_run_time(fields: str) -> None:
    schedule = chosen(problem(None), fields)
    assert schedule.epilogue == "tma"
    assert_kept(schedule, fields)
    assert broken_rule(schedule, problem(None), SM_90A) is None


@pytest.mark.parametrize(
    ("fields", "of", "message"),
    [
        # More consumers than a tile is made for by itself: a rule, and no fault.
        (
            "roles = cooperative(5)",
            LARGE,
            r"a TMA box of 320 rows; at most 256: take a smaller CTA tile, of at most cooperative\(4\)",
        ),
        ("roles = cooperative(8)", LARGE, r"1152 threads.*take at most cooperative\(7\)"),
        ("mma = wgmma.m64n264k16", LARGE, r"nearest is wgmma\.m64n256k16, with cta N = 256$"),
        ("cta = [128, 100, 64], roles = cooperative(2)", LARGE, r"nearest is wgmma\.m64n96k16, with cta N = 96$"),
        ("mma = wgmma.m64n256k16, cta = [128, 200, 64]", LARGE, r"cta N = 200 is not a multiple of 256"),
        # The kind of schedule that is asked for says what is wrong, or both do.
        ("registers = [0, 240]", LARGE, r"^no schedule fits: registers = \[0, 240\]: both roles ask .*$"),
        ("epilogue = tma", problem(4096, kinds=("full",)), r"^no schedule fits: .*no room for a full operand.*smem$"),
        (
            "copy = tma.3d",
            problem(4096, 4096, 72),
            r"^no schedule fits: copy = tma.3d sees .* take copy = tma, or pad K",
        ),
        ("scheduler = one_shot, stages = 60", LARGE, r"^no schedule fits: needs [^;]*; take stages = \d+$"),
        ("swizzle_a = <8,3,8>", LARGE, r"take <3,3,3>; nor with roles = single: .* take B \+ M \+ S ≤ \d+$"),
        ("warps = [2, 2, 2]", LARGE, r"^no schedule fits: warps = [^;]*; take 1 along K$"),
    ],
)
def test_what_fits_neither_kind_of_schedule_is_refused_with_its_way_out(fields: str, of: Problem, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        chosen(of, fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("mma = wgmma.m64n128k16", r"needs a producer and consumers; take mma = mma\.m16n8k16: sm_80 has no wgmma$"),
        ("copy = tma", r"needs a producer and consumers; take copy = cp\.async\.16: sm_80 has no wgmma$"),
        ("registers = [40, 232]", r"are those of roles; take \[0, 0\]$"),
    ],
)
def test_no_way_out_leads_to_roles_that_the_target_lacks(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        choose(LARGE, get("sm_80"), Schedule.parse(fields))


@pytest.mark.parametrize(("rows", "consumers"), [(64, 1), (128, 2), (256, 2), (192, 3)])
def test_the_rows_of_a_given_tile_decide_the_consumers(rows: int, consumers: int) -> None:
    assert chosen(LARGE, f"cta = [{rows}, 128, 64]").roles == ("cooperative", consumers)


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90"])
def test_wgmma_named_where_there_is_none_is_an_error(target: str) -> None:
    with pytest.raises(ScheduleError, match=r"mma = wgmma\.m64n128k16"):
        choose(LARGE, get(target), Schedule.parse("mma = wgmma.m64n128k16"))
    with pytest.raises(ScheduleError, match=rf"{target} has no wgmma"):
        choose(LARGE, get(target), Schedule.parse("mma = wgmma.m64n128k16, roles = cooperative(2)"))


def test_roles_that_no_tile_allows_are_refused_with_the_rule_of_the_cheapest() -> None:
    with pytest.raises(ScheduleError, match=r"needs \d+ bytes of shared memory .*take stages = \d"):
        chosen(LARGE, "roles = cooperative(2), stages = 40")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("cta = [128, 184, 64], epilogue_buffers = 4", "take turns with 2 parts of the tile, evenly; nearest is 2"),
        ("cta = [256, 136, 64], epilogue_buffers = 3", "take turns with 4 parts of the tile, evenly; nearest is 2"),
        ("cta = [128, 88, 64], epilogue_tile = [128, 60]", "epilogue_tile N = 60 must be a multiple of 8"),
        ("cta = [128, 88, 64], epilogue_tile = [128, 96]", "epilogue_tile N = 96 .*divide the CTA tile's 88"),
        ("cta = [128, 84, 64]", "84"),
    ],
)
def test_parts_that_leave_no_whole_rest_are_refused(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        chosen(LARGE, f"roles = cooperative(2), epilogue = tma, {fields}")


# Other targets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "size", "expected"),
    [
        ("sm_80", 4096, "cta = [128, 256, 64], warps = [2, 4, 1], stages = 3"),
        ("sm_80", 512, "cta = [64, 64, 64], warps = [2, 2, 1], stages = 4"),
        ("sm_86", 4096, "cta = [128, 128, 64], warps = [2, 2, 1], stages = 3"),
        ("sm_89", 4096, "cta = [128, 256, 32], warps = [2, 4, 1], stages = 4"),
        ("sm_90", 4096, "cta = [128, 256, 64], warps = [2, 4, 1], stages = 3"),
        ("sm_90", None, "cta = [128, 256, 64], warps = [2, 4, 1], stages = 3"),
    ],
)
def test_targets_without_wgmma_choose_cp_async_and_mma_sync(target: str, size: int | None, expected: str) -> None:
    schedule = choose(problem(size), get(target), Schedule()).schedule
    assert_kept(schedule, expected)
    assert (schedule.roles, schedule.mma, schedule.copy, schedule.epilogue, schedule.scheduler) == (
        ("single", 0),
        "mma.m16n8k16",
        "cp.async.16",
        "smem",
        "one_shot",
    )


# Any choice -----------------------------------------------------------------------------------------------------------


def reasons_of(choice: Choice) -> dict[str, str]:
    return {name: choice.reasons[name] for name in Schedule.names() if getattr(choice.schedule, name) is not None}


@pytest.mark.parametrize("kinds", [(), ("full",), ("per_column",)])
@pytest.mark.parametrize("size", [512, 8192, None])
def test_every_field_has_a_reason_and_none_is_said_to_be_given(size: int | None, kinds: tuple[str, ...]) -> None:
    reasons = reasons_of(choose(problem(size, kinds=kinds), SM_90A, Schedule()))
    assert all(reasons.values())
    assert "given" not in reasons.values()


def test_what_is_given_has_that_as_its_reason() -> None:
    fields = "cta = [128, 128, 64], stages = 3, swizzle_b = <3,3,3>, epilogue = smem, swizzle_d = <0,3,3>"
    reasons = reasons_of(choose(LARGE, SM_90A, Schedule.parse(fields)))
    given = {name for name, reason in reasons.items() if reason == "given"}
    assert given == {"cta", "stages", "swizzle_b", "epilogue", "swizzle_d"}


def test_the_reason_of_the_tile_begins_with_its_own_cost() -> None:
    reason = choose(LARGE, SM_90A, Schedule()).reasons["cta"]
    assert " tiles: 128×256×64: " in reason and reason.count("×64: ") == 6


def random_problem(rng: random.Random) -> Problem:
    """Any extents, types, layout and epilogue operands."""
    kind = rng.choice((None, 1, 64, 1024, 16384))
    size = [None if rng.random() < 0.1 or kind is None else rng.randint(1, 4 * kind) for _ in range(3)]
    dtype = rng.choice(("bf16", "f16"))
    kinds = tuple(rng.choice(("full", "per_row", "per_column", "scalar")) for _ in range(rng.choice((0, 0, 1, 2))))
    return Problem(*size, dtype, "f32", rng.choice((dtype, "f32")), rng.choice(LAYOUTS), kinds)


@pytest.mark.parametrize("number", range(4))
def test_a_choice_for_any_problem_is_legal_and_has_roles(number: int) -> None:
    rng = random.Random(number)
    for _ in range(30):
        of = random_problem(rng)
        choice = choose(of, SM_90A, Schedule())
        assert broken_rule(choice.schedule, of, SM_90A) is None, of
        assert choice.schedule.roles is not None and choice.schedule.roles[0] == "cooperative", of
        assert shared_memory_bytes(choice.schedule, of) <= SM_90A.smem_bytes_per_cta, of
        assert all(reasons_of(choice).values()), of
