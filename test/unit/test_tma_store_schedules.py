"""Schedules whose epilogue is by TMA stores: what is chosen, what is refused and how, what ptxas makes of them."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from schedule_edits import with_schedule

from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile import EpilogueMath, GemmLayout, OperandKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import PassError, ScheduleError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.facts.resources import scratch_buffers, scratch_bytes, shared_memory_bytes
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

SM_90A = get("sm_90a")
THREE = "grid.tile = [192, 128], k = 64, roles = cooperative(3), epilogue.path = tma"
BEST = "grid.tile = [128, 256], k = 64, roles = cooperative(2), epilogue.path = tma"


def problem(d: str = "bf16", *kinds: OperandKind) -> Problem:
    return Problem(4096, 4096, 4096, "bf16", "bf16", "f32", d, GemmLayout.tn, kinds, (d,) * len(kinds))


def chosen(fields: str, d: str = "bf16") -> Schedule:
    return choose(problem(d), SM_90A, Schedule.parse(fields)).schedule


@pytest.mark.parametrize(
    ("fields", "d", "expected"),
    [
        (BEST, "bf16", ((128, 64), (3, 3, 3))),
        (BEST, "f32", ((128, 32), (3, 2, 3))),
        (BEST + ", epilogue.tile = [128, 128]", "f16", ((128, 128), (3, 3, 3))),
        (BEST + ", epilogue.tile = [128, 32]", "bf16", ((128, 32), (2, 3, 3))),
        (BEST.replace("256", "192"), "bf16", ((128, 64), (3, 3, 3))),
        (BEST.replace("128, 256", "256, 192"), "bf16", ((128, 64), (3, 3, 3))),
        (BEST.replace("256", "24"), "bf16", ((128, 16), (1, 3, 3))),
        (BEST.replace("128, 256", "256, 184"), "bf16", ((128, 64), (3, 3, 3))),
        (BEST.replace("128, 256", "256, 184"), "f32", ((128, 32), (3, 2, 3))),
        (THREE, "bf16", ((192, 64), (3, 3, 3))),
    ],
)
def test_parts_are_as_wide_as_the_widest_swizzle_and_buffers_come_out_even(
    fields: str, d: str, expected: tuple[object, ...]
) -> None:
    schedule = chosen(fields, d)
    epilogue = schedule.epilogue
    assert (epilogue.tile, epilogue.swizzle, epilogue.math) == (*expected, EpilogueMath.registers)
    assert epilogue.tile is not None
    (m, n, _), (rows, columns) = schedule.tile_mnk, epilogue.tile
    assert (m // rows) * (n // columns) % scratch_buffers(schedule) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("epilogue.path = tmas", "path = tmas is not smem, direct or tma"),
        ("epilogue.path = tma, epilogue.math = rows", r"tma.*\[math-path\]"),
        ("epilogue.path = tma, epilogue.buffers = 0", r"at least 1 buffer; nearest is 1.*\[buffers-least\]"),
        (
            "epilogue.path = smem, epilogue.buffers = 2",
            r"epilogue.buffers = 2 goes with epilogue.path = tma, not smem.*\[buffers-path\]",
        ),
        (
            "epilogue.path = tma, epilogue.cache = often",
            "cache = often is not normal, evict_",
        ),
        (
            "epilogue.path = tma, epilogue.cache = streaming",
            r"whose stores take normal, evict_first, evict_l.*\[store-cache\]",
        ),
        ("epilogue.path = smem, epilogue.cache = evict_first", "whose stores take normal, streaming, write_"),
        (
            "epilogue.path = direct, epilogue.cache = evict_last",
            "whose stores take normal, streaming, write_",
        ),
        (f"{BEST}, epilogue.tile = [128, 512]", r"epilogue\.tile N = 512.*of 8.*256.*\[part-extent\]"),
        (
            f"{BEST}, epilogue.tile = [128, 32], epilogue.swizzle = <3,3,3>",
            r"take a multiple of 64, or epilogue.swizzle = <2,3,3>.*\[tma-store-boxes\]",
        ),
        (f"{BEST}, epilogue.swizzle = <3,2,3>", r"TMA swizzles units of 16 bytes; take <3,3,3>.*\[tma-store-swizzle\]"),
        (f"{BEST}, epilogue.swizzle = <4,3,4>", "TMA swizzles units of 16 bytes; take <3,3,3>"),
        (f"{BEST}, epilogue.buffers = 3", "take turns with 4 parts of the tile, evenly; nearest is 2"),
        (
            f"{BEST.replace('128, 256', '256, 128')}, epilogue.tile = [256, 64]",
            r"epilogue.tile M = 256: TMA stores take 64 rows of each warpgroup; take 128.*\[tma-store-rows\]",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_way_out(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        chosen(fields)


TURNED = "operands = swapped, k = 64, epilogue.path ="


@pytest.mark.parametrize(
    ("fields", "d", "expected"),
    [
        (f"{TURNED} tma, grid.tile = [64, 8], roles = cooperative(1)", "bf16", ((64, 8), (3, 3, 3), None)),
        (f"{TURNED} tma, grid.tile = [128, 24], roles = cooperative(2)", "bf16", ((128, 24), (3, 3, 3), None)),
        (f"{TURNED} tma, grid.tile = [128, 72], roles = cooperative(2)", "f16", ((128, 40), (3, 3, 3), None)),
        (f"{TURNED} tma, grid.tile = [128, 256], roles = cooperative(2)", "bf16", ((128, 64), (3, 3, 3), None)),
        (f"{TURNED} tma, grid.tile = [128, 200], roles = cooperative(2)", "f32", ((128, 56), (3, 2, 3), None)),
        (f"{TURNED} smem, grid.tile = [64, 8], roles = cooperative(1)", "bf16", ((64, 8), (3, 3, 3), 8)),
        (f"{TURNED} smem, grid.tile = [128, 72], roles = cooperative(2)", "bf16", ((128, 72), (3, 3, 4), 8)),
        (f"{TURNED} smem, grid.tile = [128, 96], roles = cooperative(2)", "bf16", ((128, 96), (3, 3, 4), None)),
        (f"{TURNED} smem, grid.tile = [64, 40], roles = cooperative(1)", "f32", ((64, 40), (3, 2, 4), None)),
    ],
)
def test_parts_of_a_d_by_columns_have_any_multiple_of_8_columns(
    fields: str, d: str, expected: tuple[object, ...]
) -> None:
    epilogue = chosen(fields, d).epilogue
    assert (epilogue.tile, epilogue.swizzle, epilogue.store) == expected


def test_a_box_of_a_d_by_columns_has_the_rows_of_one_warpgroup() -> None:
    fields = f"{TURNED} tma, epilogue.swizzle = <0,3,3>, grid.tile ="
    assert chosen(f"{fields} [64, 40]").epilogue.swizzle == (0, 3, 3)
    message = r"M = 128: a box of D by columns .* take epilogue\.swizzle = <3,3,3>.*\[tma-store-box-rows\]"
    with pytest.raises(ScheduleError, match=message):
        chosen(f"{fields} [128, 40], roles = cooperative(2)")


def test_the_rows_of_a_d_by_columns_are_whole_16_bytes() -> None:
    fields = Schedule.parse(f"{TURNED} tma, grid.tile = [128, 72]")
    with pytest.raises(ScheduleError, match=r"rows of 4100 .* take epilogue\.path = smem, or M = 4104 \["):
        choose(replace(problem(), n=4100), SM_90A, fields)
    assert choose(replace(problem(), m=4100), SM_90A, fields).schedule.grid.tile == (128, 72)


def test_a_row_of_an_unswizzled_box_has_at_most_256_elements() -> None:
    fields = "grid.tile = [64, 256], k = 64, stages = 2, roles = cooperative(1)"
    fields += ", epilogue.path = tma, epilogue.tile = [64, 256], epilogue.swizzle = <0,3,3>"
    assert chosen(fields).epilogue.tile == (64, 256)


def test_a_row_of_the_last_part_has_whole_16_bytes_too() -> None:
    fields = "roles = cooperative(2), k = 64, epilogue.path = tma, epilogue.tile = [128, 128], grid.tile = "
    with pytest.raises(ScheduleError, match=r"last part of 40 columns; take 160 \[tma-store-last-part\]"):
        chosen(fields + "[128, 168]", "u8")
    assert chosen(fields + "[128, 168]").grid.tile == (128, 168)
    assert chosen(fields + "[128, 160]", "u8").grid.tile == (128, 160)


@pytest.mark.parametrize(
    ("changes", "fields", "why"),
    [
        ({"n": 4100}, "", "whose rows are multiples of 16 bytes, not of 4100 elements"),
        ({}, "operands = swapped", "by rows, and they lie by columns"),
        ({"operands": ("e4m3",)}, "", "of 16 bits or more, not e4m3"),
        ({}, "k_division = split(2)", "that one CTA computes, not with k_division"),
        ({}, "epilogue.start = first_rows", "not with epilogue.start = first_rows"),
    ],
)
def test_full_operands_that_tma_cannot_load(changes: dict[str, Any], fields: str, why: str) -> None:
    """By default, threads then load them, and store the results."""
    own = replace(problem("bf16", OperandKind.full), **changes)
    given = Schedule.parse(", ".join(filter(None, (BEST.replace("128, 256", "256, 128"), fields))))
    with pytest.raises(ScheduleError, match=rf"{why}; take epilogue.path = smem.*\[tma-store-operand\]"):
        choose(own, SM_90A, given)
    if given.epilogue.start is None:
        assert choose(own, SM_90A, given.set({"epilogue.path": None})).schedule.epilogue.path is not StorePath.tma


@pytest.mark.parametrize(("operand", "slots", "bytes_of"), [("bf16", 1, 2), ("f32", 1, 4), ("bf16", 2, 2)])
def test_shared_memory_counts_the_slots_of_full_operands(operand: str, slots: int, bytes_of: int) -> None:
    fields = "grid.tile = [128, 128], k = 64, stages = 3, roles = pingpong(2), epilogue.buffers = 1"
    schedule = chosen(f"{fields}, epilogue.path = tma, epilogue.tile = [64, 64]")
    with_operand = schedule.with_(prefetch=slots)
    own = replace(problem("bf16", OperandKind.full), operands=(operand,))
    more = shared_memory_bytes(with_operand, own) - shared_memory_bytes(schedule, problem())
    assert more == 2 * slots * (64 * 64 * bytes_of + 8)  # of each consumer: buffers and mbarriers


def test_half_tiles_have_the_buffers_of_operands_of_whole_ones_and_mbarriers_of_their_own() -> None:
    fields = "grid.tile = [256, 64], k = 64, stages = 2, roles = cooperative(2), epilogue.path = tma, prefetch = 2"
    whole, halves = (chosen(f"{fields}, tail = {tail}") for tail in ("whole", "halves"))
    own = problem("bf16", OperandKind.full)
    assert shared_memory_bytes(halves, own) - shared_memory_bytes(whole, own) == 2 * 8


def test_warps_without_roles_do_not_store_by_tma() -> None:
    with pytest.raises(
        ScheduleError, match=r"take roles = cooperative\(2\) with wgmma, or epilogue.path = smem.*\[tma-store-roles\]"
    ):
        choose(problem(), SM_90A, Schedule.parse("roles = single, epilogue.path = tma"))
    with pytest.raises(
        ScheduleError,
        match=r"stores the rows of wgmmas; take epilogue.path = smem: sm_80 has no wgmma \[tma-store-roles\]$",
    ):
        choose(problem(), get("sm_80"), Schedule.parse("epilogue.path = tma"))


@pytest.mark.parametrize("buffers", [1, 2, 4])
def test_shared_memory_counts_every_buffer(buffers: int) -> None:
    schedule = chosen(f"{BEST}, stages = 3, epilogue.buffers = {buffers}")
    ring, mbarriers = 3 * (128 + 256) * 64 * 2, 2 * 3 * 8
    assert scratch_bytes(schedule, problem()) == buffers * 128 * 64 * 2
    assert shared_memory_bytes(schedule, problem()) == ring + buffers * 128 * 64 * 2 + mbarriers


# Kernels --------------------------------------------------------------------------------------------------------------


def kernel_of(fields: str, d: str = "bf16") -> CompiledKernel:
    return compile_gemm(GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d=d), target="sm_90a", schedule=fields)


@pytest.mark.parametrize("parts", ["stages = 4, epilogue.tile = [128, 64]", "stages = 3, epilogue.tile = [128, 128]"])
def test_tma_stores_cost_no_registers(parts: str) -> None:
    kernel = kernel_of(f"{BEST}, {parts}, epilogue.buffers = 2")
    assembly = kernel.assembly
    assert assembly is not None
    assert (assembly.registers, assembly.spill_stores, assembly.spill_loads, assembly.warnings) == (168, 0, 0, ())
    assert kernel.manifest["host"][-1]["attributes"]["shared_memory"] == shared_memory_bytes(kernel.schedule, problem())


def test_a_tile_is_sixteen_stmatrix_and_four_boxes() -> None:
    ptx = kernel_of(f"{BEST}, stages = 3, epilogue.tile = [128, 64], epilogue.buffers = 2").ptx
    counts = {
        "stmatrix.sync.aligned.m8n8.x4.shared.b16": 16,
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [": 4,
        "cp.async.bulk.commit_group": 4,
        "cp.async.bulk.wait_group.read \t1;": 4,
        "cp.async.bulk.wait_group.read \t0;": 1,
        "fence.proxy.async.shared::cta": 4,
        "st.global": 0,
        "st.shared": 0,
    }
    assert {name: ptx.count(name) for name in counts} == counts


@pytest.mark.parametrize(
    ("epilogue", "hint", "expected"),
    [
        ("direct", "streaming", {"st.global.cs.b32"}),
        ("smem", "write_through", {"st.global.wt.v4.b32"}),
    ],
)
def test_a_hint_is_the_cache_operator_of_every_store(epilogue: str, hint: str, expected: set[str]) -> None:
    fields = BEST.replace("tma", f"{epilogue}, epilogue.cache = {hint}")
    words = Counter(word for word in kernel_of(fields).ptx.split() if word.startswith("st.global"))
    assert set(words) == expected


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("epilogue.buffers = 1", "alternates between 2 buffers, but.*epilogue.buffers = 1"),
        ("epilogue.swizzle = <2,3,3>", "keeps the scratch with swizzle<3,3,3>, but.*<2,3,3>; write the"),
        # Its narrower last part would be as wide as the parts that were built.
        ("epilogue.tile = [128, 128]", "writes parts of .128, 64., but.*.128, 128."),
    ],
)
def test_a_dump_with_other_parts_than_its_schedule_says_is_refused(edit: str, message: str) -> None:
    fields = BEST.replace("256", "192" if "128, 128" in edit else "256")
    buffers = 1 if "128, 128" in edit else 2
    text = kernel_of(f"{fields}, stages = 3, epilogue.buffers = {buffers}").levels["epilogue"]
    with pytest.raises(PassError, match=message):
        lower(with_schedule(text, edit))


@pytest.mark.parametrize("fields", ["[256, 184], epilogue.buffers = 2", "[128, 256], epilogue.buffers = 4"])
def test_a_dump_goes_on_with_narrower_parts_and_several_buffers(fields: str) -> None:
    kernel = kernel_of(f"k = 64, roles = cooperative(2), epilogue.path = tma, grid.tile = {fields}")
    assert lower(kernel.levels["epilogue"]).ptx == kernel.ptx


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            "epilogue.path = smem, epilogue.cache = normal",
            r"stores by TMA.*epilogue\.path = smem.*\[not-as-scheduled\]",
        ),
        ("epilogue.cache = evict_last", "'sm.tma_store': .*has cache.evict_first., but"),
    ],
)
def test_a_dump_that_stores_otherwise_than_its_schedule_says_is_refused(edit: str, message: str) -> None:
    text = kernel_of(f"{BEST}, epilogue.buffers = 1, epilogue.cache = evict_first").levels["epilogue"]
    edited = with_schedule(text, edit)
    if "smem" in edit:
        assert " cache(evict_first)" in edited
        edited = edited.replace(" cache(evict_first)", "")
    with pytest.raises(PassError, match=message):
        lower(edited)
