"""The default on sm_90a: which CTA tile is chosen, how D is stored, and what holds of any choice."""

import random
from dataclasses import replace
from itertools import islice
from math import ceil, floor
from typing import Any

import pytest
from role_problems import LARGE, SM_90A, Size, assert_kept, chosen, problem

import lowtide as lt
from lowtide.dialects.tile import (
    EpilogueMath,
    GemmLayout,
    KDivisionKind,
    OperandKind,
    OperandsKind,
    PackKind,
    PromoteKind,
    RasterKind,
    SchedulerKind,
    StorePath,
    TailKind,
    WavesKind,
)
from lowtide.dialects.tile.agents import SINGLE, pingpong
from lowtide.dialects.tile.fields import Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.choice import Choice, choose, estimated_cycles, ranked
from lowtide.passes.schedules.cost.cost import cost
from lowtide.passes.schedules.facts.resources import shared_memory_bytes
from lowtide.passes.schedules.rules.rules import broken_rule
from lowtide.passes.support.problem.operand_kinds import INTEGERS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

# Tiles ----------------------------------------------------------------------------------------------------------------

TILES = ((8192, 8192, 8192), (4096, 28672, 4096), (4096, 4096, 4096), (1536, 1536, 1536))


@pytest.mark.parametrize("size", [(8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 1024), (2048, 4096, 7168)])
def test_promoted_sums_are_shared_by_consumers_with_one_block_of_rows_each(size: Size) -> None:
    bytes_ = replace(problem(*size), a="e4m3", b="e4m3")
    schedule = chosen(bytes_)
    assert schedule.promotes and schedule.agents.consumer.turns == 1 and schedule.agents.consumer.warpgroups >= 2
    assert schedule.tile_mnk[0] == 64 * schedule.agents.consumer.warpgroups and schedule.tile_mnk[2] == 128
    fast = chosen(replace(bytes_, is_fast=True))
    assert not fast.promotes and fast.tile_mnk[2] == 128


SCALED_CHOICES = {
    "a scale of B for 128 columns": (OperandKind.column_block_scale, None, "wgmma.m64n192k32", PromoteKind.overlapped),
    "a scale for each column": (OperandKind.column_scale, (128, 160), "wgmma.m64n80k32", PromoteKind.per_step),
    "many parts of columns": (OperandKind.column_block_scale, (128, 184), "wgmma.m64n184k32", PromoteKind.per_step),
    "two blocks of rows": (OperandKind.column_block_scale, (256, 112), "wgmma.m64n112k32", PromoteKind.per_step),
}


@pytest.mark.parametrize("name", SCALED_CHOICES)
def test_staged_scales_are_read_early_where_they_are_few(name: str) -> None:
    columns, tile, atom, promote = SCALED_CHOICES[name]
    scales = {"kinds": (OperandKind.row_scale, columns), "operands": ("f32", "f32")}
    scaled = replace(problem(8192, 8192, 8192), a="e4m3", b="e4m3", **scales)
    choice = choose(scaled, SM_90A, Schedule().with_(grid_tile=tile))
    assert choice.schedule.stages_scales
    assert (choice.schedule.multiply.atom, choice.schedule.multiply.promote) == (atom, promote)
    assert ("next K step" in choice.reasons["multiply.promote"]) == (promote is PromoteKind.overlapped)


@pytest.mark.parametrize(
    "size", [(8192, 8192, 512), (8192, 8192, 2048), (4096, 24576, 1536), (3072, 3072, 3072), (16384, 4096, 768)]
)
def test_consumers_take_turns_where_epilogues_are_a_large_part_of_the_time(size: Size) -> None:
    schedule = chosen(problem(*size))
    assert schedule.tile_mnk == (128, 192, 64) and schedule.agents.values() == pingpong(2).values()
    assert (schedule.multiply.atoms, schedule.epilogue.tile) == ((1, 1, 1), (64, 64))


@pytest.mark.parametrize("changes", [{"n": None}, {"n": 8188}, {"functions": 2}])
def test_consumers_that_take_turns_keep_registers_for_the_epilogue(changes: dict[str, Any]) -> None:
    schedule = chosen(replace(problem(8192, 8192, 512), **changes))
    m, n, _ = schedule.tile_mnk
    assert m * n // (128 * schedule.agents.consumer.warpgroups) <= 128


@pytest.mark.parametrize("size", [*TILES, (512, 512, 512), (1000, 3000, 5000), (65536, 128, 4096)])
def test_the_schedule_of_least_cost_is_chosen(size: Size) -> None:
    first, *others = islice(ranked(problem(*size), SM_90A, Schedule()), 12)
    tail = first.schedule.grid.tail or TailKind.whole
    of_first = cost(first.schedule, problem(*size), SM_90A, first.schedule.k_division or tail)
    assert all(of_first <= 1.03 * cost(each.schedule, problem(*size), SM_90A) for each in others)
    schedule = first.schedule
    assert schedule.multiply.atom == f"wgmma.m64n{schedule.tile_mnk[1]}k16"
    assert (schedule.mainloop.a.copy, schedule.mainloop.b.copy) == ("tma", "tma")


@pytest.mark.parametrize("size", [(512, 512, 16384), (256, 256, 8192), (1024, 512, 8192)])
def test_k_is_divided_where_whole_tiles_are_too_few(size: Size) -> None:
    choice = choose(problem(*size), SM_90A, Schedule())
    division = choice.schedule.k_division
    assert division is not None and division.kind is KDivisionKind.scatter
    assert choice.reasons["grid.k_division"].startswith(f"{division.parts} CTAs share the K of each tile")
    tiles = problem(*size).tiles(choice.schedule.tile_mnk)
    assert tiles is not None and tiles * division.parts <= SM_90A.sm_count


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (1024, 2048, 2048), (None, 512, 16384)])
def test_k_is_not_divided_where_whole_tiles_are_enough_or_not_known(size: Size) -> None:
    assert choose(problem(*size), SM_90A, Schedule()).schedule.k_division is None


@pytest.mark.parametrize(
    ("size", "order"), [((65536, 128, 4096), RasterKind.row), ((64, 65536, 4096), RasterKind.column)]
)
def test_a_single_row_or_column_of_tiles_has_one_order(size: Size, order: RasterKind) -> None:
    assert chosen(problem(*size), "operands = as_given").grid.order == Order(order)


@pytest.mark.parametrize(
    "fields",
    ["grid.k_division = none", "grid.tile = [64, 64]", "epilogue.path = tma", "grid.order = row"],
)
def test_fields_of_whole_tiles_keep_them(fields: str) -> None:
    assert chosen(problem(512, 512, 16384), fields).k_division is None


@pytest.mark.parametrize("size", TILES)
def test_the_last_wave_is_nearly_full(size: tuple[int, int, int]) -> None:
    schedule = chosen(problem(*size))
    m, n, _ = schedule.tile_mnk
    waves = ceil(size[0] / m) * ceil(size[1] / n) / SM_90A.sm_count
    taken = floor(waves) + 0.5 if schedule.grid.tail is TailKind.halves else ceil(waves)
    assert waves / taken > 0.96


@pytest.mark.parametrize(
    ("size", "fields", "halves"),
    [
        ((8192, 8192, 8192), "", True),  # 10 waves and 56 tiles
        ((6144, 6144, 6144), "grid.tile = [256, 192]", False),  # 5 and 108
        ((4096, 4096, 4096), "grid.tile = [256, 192]", False),  # 2 and 88
        ((2048, 2048, 2048), "grid.tile = [256, 128]", False),  # no full wave: a lower tile is better
        ((8192, 8192, 8192), "grid.tile = [128, 192]", False),  # halves would leave a consumer without rows
        ((8192, 8192, 8192), "grid.tile = [256, 192], scheduler = even_split", False),
        ((8192, 8192, 8192), "grid.tile = [256, 192], tail = whole", False),
        ((None, 8192, 8192), "grid.tile = [256, 192]", False),
    ],
)
def test_a_last_wave_that_is_known_to_be_at_most_half_full_runs_in_halves(
    size: Size, fields: str, halves: bool
) -> None:
    assert (chosen(problem(*size), fields).grid.tail is TailKind.halves) == halves


@pytest.mark.parametrize(
    ("size", "fields", "in_step"),
    [
        ((16384, 16384, 16384), "", True),
        ((8192, 28672, 8192), "", True),
        ((8192, 8192, 8192), "", False),  # ten waves
        ((4096, 28672, 4096), "", False),  # L2 holds the operands of a wave
        ((None, 16384, 16384), "", False),
        ((16384, 16384, 16384), "waves = free", False),
        ((16384, 16384, 16384), "scheduler = even_split", False),
        ((16384, 16384, 16384), "k_division = split(2)", False),
    ],
)
def test_many_waves_that_each_read_more_than_l2_holds_are_kept_in_step(size: Size, fields: str, in_step: bool) -> None:
    assert (chosen(problem(*size), fields).grid.waves is WavesKind.synchronized) == in_step


def test_a_grid_of_one_wave_has_more_stages_and_fewer_scratch_buffers() -> None:
    one, several = chosen(problem(2048)), chosen(problem(4096))
    assert one.tile_mnk == several.tile_mnk
    assert (one.mainloop.stages, one.epilogue.buffers) == (4, 2)
    assert (several.mainloop.stages, several.epilogue.buffers) == (3, 4)
    narrow = chosen(problem(4096), "grid.tile = [256, 128], operands = as_given")
    assert (narrow.mainloop.stages, narrow.epilogue.buffers) == (4, 2)


def test_weights_that_are_read_once_take_as_many_stages_as_fit() -> None:
    """For tiles of 256 columns. If they read weights more than once, they have more buffers and a stage less."""
    for fields, stages in (("[128, 256], roles = cooperative(2)", 4), ("[64, 256], roles = cooperative(1)", 5)):
        fields = f"grid.tile = {fields}, operands = swapped"
        few, many = (chosen(problem(m, 32768, 4096), fields) for m in (256, 4096))
        assert (few.mainloop.stages, few.epilogue.buffers) == (stages, 2)
        assert (many.mainloop.stages, many.epilogue.buffers) == (stages - 1, 4)


def test_a_fourth_stage_may_leave_one_buffer_unless_tma_also_loads_operands() -> None:
    fields = "grid.tile = [128, 224], roles = cooperative(2), operands = as_given"
    plain, added = chosen(problem(4096), fields), chosen(problem(4096, kinds=(OperandKind.full,)), fields)
    assert (plain.mainloop.stages, plain.epilogue.buffers) == (4, 1)
    assert (added.mainloop.stages, added.epilogue.buffers) == (3, 3)


def test_consumers_that_share_a_tile_load_operands_ahead_rather_than_have_more_buffers() -> None:
    reads = problem(4096, kinds=(OperandKind.full,))
    wide = chosen(reads, "grid.tile = [128, 256], roles = cooperative(2), operands = as_given")
    assert (wide.mainloop.stages, wide.epilogue.buffers, wide.epilogue.prefetch) == (3, 2, 3)
    turns = chosen(reads, "grid.tile = [128, 128], roles = pingpong(2), operands = as_given")
    assert (turns.epilogue.buffers, turns.epilogue.prefetch) == (4, 1)


@pytest.mark.parametrize("size", [1536, 2048, 3000, 4096, 6000, 8192])
@pytest.mark.parametrize("layout", GemmLayout, ids=str)
def test_panels_of_n_contiguous_b_are_whole(layout: GemmLayout, size: int) -> None:
    _, n, _ = chosen(problem(size, layout=layout), "operands = as_given").tile_mnk
    assert n % (8 if layout in (GemmLayout.tn, GemmLayout.nn) else 64) == 0


def test_an_n_contiguous_b_takes_another_tile_where_the_best_has_no_whole_panels() -> None:
    for layout in (GemmLayout.nt, GemmLayout.tt):
        as_given = chosen(problem(2304, layout=layout), "operands = as_given")
        assert as_given.tile_mnk == (128, 192, 64)


@pytest.mark.parametrize(("n", "widest"), [(8, 16), (16, 16), (24, 32), (40, 64), (56, 64)])
def test_a_narrow_problem_takes_no_wider_tile_than_it_fills(n: int, widest: int) -> None:
    assert chosen(problem(100_000, n, 512)).tile_mnk[1] == widest


def test_extents_known_at_run_time_are_taken_to_be_4096() -> None:
    """But for what only known extents decide."""
    unpacked = f"{UNPACKED}, k_order = forward"
    given = f"epilogue.path = smem, {unpacked}"
    assert chosen(problem(None), given) == chosen(problem(4096), given)
    assert chosen(problem(None, 4096, None), unpacked) == chosen(LARGE, unpacked)


# Epilogues ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "n"), [("bf16", 4096), ("bf16", 4088), ("f32", 4092)])
def test_rows_of_whole_16_bytes_are_stored_by_tma(d: str, n: int) -> None:
    assert chosen(problem(4096, n, 4096, d=d)).epilogue.path is StorePath.tma


UNPACKED = "a.pack = none, b.pack = none, epilogue.pack = none"
ODD_ROWS = [("bf16", 4092), ("bf16", 4095), ("f32", 4094)]


@pytest.mark.parametrize(("d", "n"), [*ODD_ROWS, ("bf16", None), ("f32", None)])
def test_rows_that_may_end_within_16_bytes_go_through_shared_memory(d: str, n: int | None) -> None:
    epilogue = chosen(problem(4096, n, 512, d=d)).epilogue
    assert (epilogue.path, epilogue.math) == (StorePath.smem, EpilogueMath.registers)
    assert chosen(problem(4096, n, 4096, d=d), "epilogue.pack = none").epilogue.path is StorePath.smem


@pytest.mark.parametrize(("d", "n"), ODD_ROWS)
def test_beside_a_long_k_they_are_packed_for_tma_stores(d: str, n: int) -> None:
    epilogue = chosen(problem(4096, n, 4096, d=d)).epilogue
    assert (epilogue.path, epilogue.pack) == (StorePath.tma, PackKind.rows)


def test_tma_stores_that_would_write_behind_a_row_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"4092.*\[tma-store-overwrites\]"):
        chosen(problem(4096, 4092, 4096), "roles = cooperative(2), epilogue.path = tma, epilogue.pack = none")


def test_what_tma_copies_is_packed_and_so_is_d() -> None:
    schedule = chosen(problem(None))
    assert {schedule.mainloop.a.pack, schedule.mainloop.b.pack, schedule.epilogue.pack} == {PackKind.rows}
    assert chosen(problem(None), UNPACKED) == schedule.with_(a_pack="none", b_pack="none", epilogue_pack="none")


def test_what_threads_copy_is_packed_too_and_so_is_d() -> None:
    schedule = chosen(problem(None), "roles = single")
    assert {schedule.mainloop.a.pack, schedule.mainloop.b.pack, schedule.epilogue.pack} == {PackKind.rows}
    assert chosen(problem(4096), "roles = single").mainloop.a.pack is None


def test_rows_of_whole_16_bytes_are_packed_if_asked_for() -> None:
    schedule = chosen(LARGE)
    assert (schedule.mainloop.a.pack, schedule.mainloop.b.pack, schedule.epilogue.pack) == (None, None, None)
    assert chosen(LARGE, "a.pack = rows").mainloop.a.pack is PackKind.rows
    assert chosen(problem(4096, 4097, 512)).epilogue.pack is PackKind.rows


@pytest.mark.parametrize("size", [512, 1536, 4096, 8192, None])
@pytest.mark.parametrize("layout", GemmLayout, ids=str)
def test_a_full_operand_is_read_in_rows_beside_few_accumulators(layout: GemmLayout, size: int | None) -> None:
    fields = "" if size is None else "epilogue.path = smem"  # by default TMA loads an operand with known rows
    schedule = chosen(problem(size, layout=layout, kinds=(OperandKind.full, OperandKind.per_column)), fields)
    (m, n, _), (rows, columns) = schedule.tile_mnk, schedule.epilogue.tile
    assert (schedule.epilogue.path, schedule.epilogue.math) == (StorePath.smem, EpilogueMath.rows)
    consumer = schedule.agents.consumer
    sums = m * n // (128 * consumer.warpgroups)
    assert sums <= (192 if consumer.turns > 1 and size is not None else 128)
    elements = rows * columns // (128 * consumer.warpgroups)
    assert (schedule.epilogue.prefetch or 0) <= min(128 // (2 * elements), m // rows * (n // columns) - 1)
    assert elements <= 16 or sums <= 128


@pytest.mark.parametrize("size", [1536, 4096, 8192])
def test_tma_loads_a_full_operand_by_default(size: int) -> None:
    schedule = chosen(problem(size, kinds=(OperandKind.full, OperandKind.per_column)))
    assert (schedule.epilogue.path, schedule.epilogue.math) == (StorePath.tma, EpilogueMath.registers)
    assert schedule.epilogue.prefetch in (1, 2) and schedule.epilogue.start is None


@pytest.mark.parametrize(("tile", "columns", "slots"), [([256, 192], 32, 5), ([128, 256], 64, 3)])
def test_parts_are_narrow_if_few_slots_for_operands_fit(tile: list[int], columns: int, slots: int) -> None:
    fields = f"grid.tile = {tile}, roles = cooperative(2), tail = whole, cluster = [1, 1]"
    epilogue = chosen(problem(8192, kinds=(OperandKind.full,)), fields).epilogue
    assert (epilogue.tile, epilogue.buffers, epilogue.prefetch) == ((128, columns), 2, slots)


@pytest.mark.parametrize(("k", "slots"), [(1024, 2), (8192, 1)])
def test_operands_need_one_slot_if_another_consumer_hides_the_epilogue(k: int, slots: int) -> None:
    fields = "grid.tile = [128, 128], roles = pingpong(2)"
    assert chosen(problem(4096, 4096, k, kinds=(OperandKind.full,)), fields).epilogue.prefetch == slots


@pytest.mark.parametrize(
    ("size", "tile", "part", "buffers"),
    [
        ((8192, 8192, 8192), (256, 192), (128, 64), 3),
        ((4096, 28672, 4096), (256, 184), (128, 64), 2),  # 64, 64 and 56 columns, twice: four whole parts
        ((4096, 4096, 4096), (128, 256), (128, 64), 4),
        ((512, 512, 512), (64, 64), (64, 64), 1),
    ],
)
def test_every_whole_part_has_a_buffer_where_they_fit(
    size: Size, tile: tuple[int, int], part: tuple[int, int], buffers: int
) -> None:
    epilogue = chosen(problem(*size), f"grid.tile = {list(tile)}, operands = as_given").epilogue
    assert (epilogue.tile, epilogue.buffers) == (part, buffers)


@pytest.mark.parametrize("size", [(20000, 4174, 500), (2065, None, 16), (None, None, None)])
@pytest.mark.parametrize("d", ["bf16", "f32"])
def test_functions_without_tma_stores_have_room_beside_the_accumulators(size: Size, d: str) -> None:
    schedule = chosen(replace(problem(*size, d=d, kinds=(OperandKind.full,)), functions=1))
    (m, n, _), consumers = schedule.tile_mnk, schedule.agents.consumer.warpgroups
    assert schedule.epilogue.path is StorePath.smem and m == 64 * consumers
    is_alone = consumers == schedule.agents.consumer.turns == 1
    assert n // 2 <= (64 if is_alone or d == "f32" else 128)


@pytest.mark.parametrize("changes", [{"functions": 1}, {"kinds": (OperandKind.full,), "operands": ("bf16",)}], ids=str)
def test_consumers_take_turns_where_the_epilogue_takes_long(changes: dict[str, Any]) -> None:
    """So one multiplies while the other computes its epilogue. Without functions and operands, consumers share a
    larger tile."""
    schedule, plain = chosen(replace(problem(8192), **changes)), chosen(problem(8192))
    assert (schedule.tile_mnk[:2], schedule.agents.consumer.turns) == ((128, 192), 2)
    assert (plain.tile_mnk[:2], plain.agents.consumer.turns) == ((256, 192), 1)


@pytest.mark.parametrize(("layout", "columns"), [(GemmLayout.tn, 176), (GemmLayout.tt, 192)])
def test_tiles_in_turn_fill_the_last_wave_where_b_has_k_contiguous(layout: GemmLayout, columns: int) -> None:
    """With 192 columns, the last of 19 waves is almost empty; with 176, 20 waves are full."""
    of_two = {"kinds": (OperandKind.full,), "operands": ("bf16",), "functions": 1}
    schedule = chosen(replace(problem(4096, 14336, 4096, layout=layout), **of_two))
    assert (schedule.tile_mnk[:2], schedule.agents.consumer.turns) == ((128, columns), 2)


# Other targets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "size", "expected"),
    [
        ("sm_80", 4096, "grid.tile = [128, 256], k = 64, stages = 3, atoms = [2, 4, 1]"),
        ("sm_80", 512, "grid.tile = [64, 64], k = 64, stages = 4, atoms = [2, 2, 1]"),
        ("sm_86", 4096, "grid.tile = [128, 128], k = 64, stages = 3, atoms = [2, 2, 1]"),
        ("sm_89", 4096, "grid.tile = [128, 256], k = 32, stages = 4, atoms = [2, 4, 1]"),
        ("sm_90", 4096, "grid.tile = [128, 256], k = 64, stages = 3, atoms = [2, 4, 1]"),
        ("sm_90", None, "grid.tile = [128, 256], k = 64, stages = 3, atoms = [2, 4, 1]"),
    ],
)
def test_targets_without_wgmma_choose_cp_async_and_mma_sync(target: str, size: int | None, expected: str) -> None:
    schedule = choose(problem(size), get(target), Schedule()).schedule
    assert_kept(schedule, expected)
    assert schedule.agents == SINGLE
    assert schedule.multiply.atom == "mma.m16n8k16"
    assert (schedule.mainloop.a.copy, schedule.mainloop.b.copy) == ("cp.async.16", "cp.async.16")
    assert (schedule.epilogue.path, schedule.grid.scheduler) == (StorePath.smem, SchedulerKind.one_shot)


# Any choice -----------------------------------------------------------------------------------------------------------


def reasons_of(choice: Choice) -> dict[str, str]:
    return {path: choice.reasons[path] for path in choice.schedule.decided()}


@pytest.mark.parametrize("kinds", [(), (OperandKind.full,), (OperandKind.per_column,)])
@pytest.mark.parametrize("size", [512, 8192, None])
def test_every_field_has_a_reason_and_none_is_said_to_be_given(
    size: int | None, kinds: tuple[OperandKind, ...]
) -> None:
    reasons = reasons_of(choose(problem(size, kinds=kinds), SM_90A, Schedule()))
    assert all(reasons.values())
    assert "given" not in reasons.values()


def test_what_is_given_has_that_as_its_reason() -> None:
    fields = "grid.tile = [128, 128], k = 64, stages = 3, b.swizzle = <3,3,3>"
    fields += ", epilogue.path = smem, epilogue.swizzle = <0,3,3>"
    reasons = reasons_of(choose(LARGE, SM_90A, Schedule.parse(fields)))
    given = {path for path, reason in reasons.items() if reason == "given"}
    expected = {"grid.tile", "mainloop.k", "mainloop.stages", "mainloop.b.swizzle"}
    assert given == expected | {"epilogue.path", "epilogue.swizzle"}


def test_the_reason_of_the_tile_has_its_cost_and_those_of_the_next() -> None:
    choice = choose(LARGE, SM_90A, Schedule())
    own, _, others = choice.reasons["grid.tile"].partition("; next: ")
    assert f"({estimated_cycles(choice, LARGE, SM_90A):,.0f} cycles at the highest clock)" in own
    assert others.count("×64") == 5


def test_the_reason_of_k_is_that_of_the_tile_unless_the_tile_is_given() -> None:
    assert reasons_of(choose(LARGE, SM_90A, Schedule()))["mainloop.k"] == "see grid.tile"
    given = reasons_of(choose(LARGE, SM_90A, Schedule.parse("grid.tile = [128, 256]")))
    assert given["grid.tile"] == "given" and " by the cost model " in given["mainloop.k"]


def test_a_ring_that_has_the_most_stages_says_so() -> None:
    choice = choose(problem(512), SM_90A, Schedule.parse("grid.tile = [64, 64]"))
    assert choice.schedule.mainloop.stages == 8
    assert choice.reasons["mainloop.stages"].startswith("at most 8: ")


@pytest.mark.parametrize(
    ("extents", "most"),
    [
        ((28, 3528, 2160), 12),
        ((1, 856, 512), 8),  # eight K steps
        ((6, 5120, 5120), 12),  # 80 CTAs: two fit on an SM
        ((36, 5120, 4096), 8),  # with 10 stages, two do not fit
        ((20, 7168, 2048), 8),  # 112 CTAs, each with weights of its own
        ((132, 2560, 2560), 12),  # 120 CTAs, three with the same weights
        ((8, 2048, 4096), 8),  # K is divided
        ((1, 24576, 1536), 8),  # several tiles for each CTA
    ],
)
def test_rings_of_low_tiles_have_more_stages_if_each_cta_has_one_tile(extents: tuple[int, int, int], most: int) -> None:
    m, n, k = extents
    choice = choose(replace(LARGE, m=m, n=n, k=k, layout=GemmLayout.tt), SM_90A, Schedule())
    assert choice.schedule.tile_mnk[0] == 64 and choice.schedule.mainloop.stages == most
    assert choice.reasons["mainloop.stages"].startswith("more than 8: " if most > 8 else ("at most 8: "))


def random_problem(rng: random.Random) -> Problem:
    """Any extents, types, layout and epilogue operands."""
    kind = rng.choice((None, 1, 64, 1024, 16384))
    size = [None if rng.random() < 0.1 or kind is None else rng.randint(1, 4 * kind) for _ in range(3)]
    dtype = rng.choice(("bf16", "f16"))
    of_results = [kind for kind in OperandKind if kind not in INTEGERS]
    kinds = tuple(rng.choice(of_results) for _ in range(rng.choice((0, 0, 1, 2))))
    d, layout = rng.choice((dtype, "f32")), rng.choice(list(GemmLayout))
    return Problem(*size, dtype, dtype, "f32", d, layout, kinds, (dtype,) * len(kinds))


@pytest.mark.parametrize("number", range(4))
def test_a_choice_for_any_problem_is_legal_and_has_roles(number: int) -> None:
    rng = random.Random(number)
    for _ in range(30):
        of = random_problem(rng)
        choice = choose(of, SM_90A, Schedule())
        of = of.swap() if choice.schedule.grid.operands is OperandsKind.swapped else of  # as the kernel computes it
        assert broken_rule(choice.schedule, of, SM_90A) is None, of
        assert choice.schedule.agents.has_producer, of
        assert shared_memory_bytes(choice.schedule, of) <= SM_90A.smem_bytes_per_cta, of
        assert all(reasons_of(choice).values()), of


def test_roles_are_refused_for_types_that_no_wgmma_takes() -> None:
    """By the rule of the atom, before anything is asked of it."""
    spec = lt.GemmSpec(a="f64", b="f64", d="f64", acc="f64")
    with pytest.raises(
        lt.ScheduleError, match=r"none for these types with roles; take .*roles = single.*\[atom-of-types\]"
    ):
        lt.compile_gemm(spec, "sm_90a", "roles = cooperative(2)")
