"""Conflicts of a kernel's own accesses under swizzles, and the choice among them."""

import pytest
from tensor_layouts import Layout

from lowtide.errors import ScheduleError
from lowtide.targets import (
    TiledMma,
    choose_swizzle,
    copy_access,
    copy_atom,
    default_copy_threads,
    fragment_access,
    global_access_sectors,
    ldmatrix_access,
    ldmatrix_source,
    make_tiled_copy,
    mma_atom,
    shared_access_conflicts,
    swizzled,
)

K16 = mma_atom("mma.m16n8k16.f32.bf16")
TILED = TiledMma(K16, (2, 4, 1))


def tile_copy(shape, threads=256, vector=8):
    layout = default_copy_threads(threads, *shape, vector)
    return make_tiled_copy(copy_atom("cp.async.16"), layout, Layout((1, vector)), shape)


def ways(shape, access, bits, element_bytes=2):
    return shared_access_conflicts(swizzled(shape, bits), access, element_bytes).ways


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize(
    "columns, bits, expected",
    [
        (32, (0, 3, 3), 4),
        (32, (2, 3, 3), 1),
        (32, (3, 3, 3), 1),
        (64, (0, 3, 3), 8),
        (64, (2, 3, 3), 2),
        (64, (3, 3, 3), 1),
    ],
)
def test_ldmatrix_of_16_bit_rows_has_the_known_ways(operand, columns, bits, expected):
    shape = (128, columns)
    assert ways(shape, ldmatrix_access(ldmatrix_source(TILED, operand, shape, False)), bits) == expected


@pytest.mark.parametrize("columns", [32, 64])
@pytest.mark.parametrize("bits", [(0, 3, 3), (2, 3, 3), (3, 3, 3)])
def test_16_byte_writes_of_whole_rows_never_conflict(columns, bits):
    assert ways((128, columns), copy_access(tile_copy((128, columns))), bits) == 1


@pytest.mark.parametrize("columns, expected", [(16, (1, 3, 3)), (32, (2, 3, 3)), (64, (3, 3, 3)), (128, (3, 3, 4))])
def test_the_smallest_swizzle_without_conflicts_is_chosen(columns, expected):
    shape = (128, columns)
    accesses = [ldmatrix_access(ldmatrix_source(TILED, "a", shape, False)), copy_access(tile_copy(shape))]
    choice = choose_swizzle(shape, accesses, 2)
    assert (choice.swizzle, choice.ways) == (expected, 1)
    assert choice.counts[(0, 3, 3)]["cp.async.16"].ways == 1
    assert f"swizzle<{expected[0]},{expected[1]},{expected[2]}>" in choice.explain()


@pytest.mark.parametrize(
    "columns, apart, between, expected", [(64, 4, 1, (3, 3, 5)), (32, 1, 2, (2, 3, 5)), (64, 2, 1, (3, 3, 4))]
)
def test_rows_that_a_permutation_brings_together_have_a_swizzle(columns, apart, between, expected):
    """Columns of an atom of B: two `apart`, four pairs a run of 16 or 8 bytes apart, `between` those of other atoms."""
    run = max(apart, between * 2) * 2
    by_n = Layout((2, 4, 2, run // 2), (apart, run, 4 * run, between))
    tiled, shape = TiledMma(K16, (1, 2, 1), (16, by_n, 16)), (128, columns)
    accesses = [ldmatrix_access(ldmatrix_source(tiled, "b", shape, False)), copy_access(tile_copy(shape))]
    choice = choose_swizzle(shape, accesses, 2)
    assert (choice.swizzle, choice.ways) == (expected, 1)


def test_a_transposed_operand_is_counted_in_its_stored_shape():
    plan = ldmatrix_source(TILED, "a", (64, 32), True)
    choice = choose_swizzle((32, 64), [ldmatrix_access(plan)], 2)
    assert choice.swizzle == (3, 3, 3)
    assert choice.counts[(0, 3, 3)]["ldmatrix.x4.trans a"].ways == 8
    with pytest.raises(ScheduleError, match=r"\[access-layout\]"):
        shared_access_conflicts(swizzled((64, 32), (0, 3, 3)), ldmatrix_access(plan), 2)


@pytest.mark.parametrize(
    "shape, element_bytes, expected", [((32, 32), 2, (2, 3, 3)), ((128, 128), 2, (3, 3, 4)), ((128, 128), 4, (2, 3, 4))]
)
def test_the_epilogues_scratch_is_written_and_read_without_conflicts(shape, element_bytes, expected):
    tiled = TiledMma(K16, (2, 2, 1))
    vector = 16 // element_bytes
    store = fragment_access("fragment store", tiled.tv("c", shape), shape, 2)
    load = copy_access(tile_copy(shape, threads=128, vector=vector), "wide load")
    choice = choose_swizzle(shape, [store, load], element_bytes)
    assert (choice.swizzle, choice.ways) == (expected, 1)
    assert choice.counts[(0, vector.bit_length() - 1, 3)]["fragment store"].ways > 1


def test_candidates_stay_within_the_buffer():
    plan = ldmatrix_source(TiledMma(K16), "a", (16, 16), False)
    choice = choose_swizzle((16, 16), [ldmatrix_access(plan)], 2)
    # 256 elements: bits 3+3+3 would leave the tile.
    assert (3, 3, 3) not in choice.counts and (2, 3, 3) in choice.counts


def test_a_swizzle_that_parts_a_vector_is_refused():
    with pytest.raises(ScheduleError, match=r"\[vector-parted\]"):
        ways((128, 32), copy_access(tile_copy((128, 32))), (2, 2, 3))


def test_fragment_values_that_do_not_lie_side_by_side_are_refused():
    with pytest.raises(ScheduleError, match=r"does not hold 4 neighbours along the columns.*\[tv-neighbours\]"):
        fragment_access("store", TILED.tv("c", (64, 64)), (64, 64), 4)


def test_accesses_of_one_name_are_refused():
    access = copy_access(tile_copy((128, 32)))
    with pytest.raises(ScheduleError, match=r"share a name.*\[access-names\]"):
        choose_swizzle((128, 32), [access, access], 2)


@pytest.mark.parametrize(
    "columns, base, touched, ideal", [(32, 0, 16, 16), (64, 0, 16, 16), (64, 16, 20, 16), (8, 0, 32, 16)]
)
def test_global_rows_are_read_in_whole_sectors(columns, base, touched, ideal):
    sectors = global_access_sectors(copy_access(tile_copy((256, columns))), 8192, 2, base)
    assert (sectors.touched, sectors.ideal) == (touched, ideal)
