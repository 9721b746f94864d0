"""TV layouts: evaluation over arrays, coordinates, and their split into thread and value parts."""

import numpy as np
import pytest
from tensor_layouts import ComposedLayout, Layout, Swizzle, compose, size

from lowtide.errors import ScheduleError
from lowtide.targets import TiledMma, copy_atom, ldmatrix_source, make_tiled_copy, mma_atom, split_coordinates
from lowtide.targets.tv import coordinates, neighbours, offsets, runs

K16 = mma_atom("mma.m16n8k16.f32.f16")
PIECES = Layout((16, 4), (4, 1))


@pytest.mark.parametrize(
    "layout",
    [
        Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))),
        Layout((3, (5, 2)), (7, (0, 100))),
        Layout(9, 4),
        compose(Swizzle(3, 3, 3), Layout((8, 64), (64, 1))),
        ComposedLayout(Swizzle(2, 3, 3), Layout((16, 32), (32, 1)), offset=40),
    ],
)
def test_offsets_over_an_array_equal_the_layout_called_on_each_index(layout):
    index = np.arange(size(layout))
    assert offsets(layout, index).tolist() == [layout(int(i)) for i in index]


def test_a_tv_layout_that_leaves_its_tile_is_refused():
    with pytest.raises(ScheduleError, match=r"index 63.*tile 8x4.*\[tv-inside\]"):
        coordinates(Layout((8, 8)), (8, 4))
    with pytest.raises(ScheduleError, match=r"two top modes.*\[tv-modes\]"):
        coordinates(Layout((4, 4, 2)), (8, 4))


def layouts_of_a_kernel():
    for warps in [(2, 2, 1), (4, 2, 1), (1, 4, 1), (2, 4, 1), (3, 1, 1), (1, 2, 2)]:
        tiled = TiledMma(K16, warps)
        for operand, shape in {"a": (96, 32), "b": (64, 32), "c": (192, 64)}.items():
            if shape[0] % (tiled.tile_mnk[0 if operand != "b" else 1]) == 0:
                yield tiled.tv(operand, shape), shape
        plan = ldmatrix_source(tiled, "b", (64, 64), False)
        yield plan.source, plan.shape
    yield TiledMma(K16, (1, 1, 1), (None, Layout((2, 4, 2), (1, 4, 2)), None)).tv("c", (32, 32)), (32, 32)
    copy = make_tiled_copy(copy_atom("cp.async.16"), Layout((32, 4), (4, 1)), Layout((1, 8)), (96, 64))
    yield copy.tv, copy.shape


@pytest.mark.parametrize("tv, shape", list(layouts_of_a_kernel()))
def test_thread_part_plus_value_part_is_the_coordinate(tv, shape):
    split = split_coordinates(tv, shape)
    held = coordinates(tv, shape)
    for thread in range(held.shape[0]):
        assert held[thread, :, 0].tolist() == [split.row_thread(thread) + value for value in split.row_values]
        assert held[thread, :, 1].tolist() == [split.col_thread(thread) + value for value in split.col_values]


def test_the_thread_part_is_coalesced():
    split = split_coordinates(TiledMma(K16, (2, 2, 1)).tv("a", (128, 32)), (128, 32))
    assert split.row_thread == Layout((4, 8, 2, 2), (0, 1, 16, 0))
    assert split.col_thread == Layout((4, 32), (2, 0))


def test_a_layout_whose_sum_carries_into_the_next_column_is_refused():
    with pytest.raises(ScheduleError, match=r"does not separate.*\[tv-separates\]"):
        split_coordinates(Layout((3, 2), (1, 2)), (3, 2))


def test_runs_put_neighbours_side_by_side_and_say_which_values_they_are():
    tiled = TiledMma(mma_atom("fma.m1n1k1.f32.f32"), (16, 16, 1), (PIECES, PIECES, 1))
    shape = (128, 64)
    tv = tiled.tv("c", shape)
    assert (neighbours(tv, shape), neighbours(tv, shape, transposed=True)) == (4, 4)
    for vector, transposed, in_order in ((4, False, False), (2, False, False), (4, True, True), (1, False, True)):
        found = runs(tv, shape, vector, transposed)
        held = coordinates(tv, shape)[:, list(found.values)]
        np.testing.assert_array_equal(coordinates(found.tv, shape), held)
        vectors = held.reshape(256, -1, vector, 2)
        step = np.arange(vector)[:, None] * ([1, 0] if transposed else [0, 1])
        np.testing.assert_array_equal(vectors, vectors[:, :, :1] + step)
        assert found.in_order == in_order and sorted(found.values) == list(range(32))


def test_runs_are_put_together_from_several_modes():
    """Two columns of an atom, and those of four atoms between them, by a permutation of N."""
    columns = Layout((2, 4, 2, 4), (4, 8, 32, 1))
    shape = (64, 64)
    tv = TiledMma(K16, (2, 2, 1), (32, columns, 16)).tv("c", shape)
    assert (neighbours(tv, shape), neighbours(tv, shape, transposed=True)) == (8, 1)
    for vector in (8, 4, 2):
        found = runs(tv, shape, vector)
        held = coordinates(tv, shape)[:, list(found.values)]
        np.testing.assert_array_equal(coordinates(found.tv, shape), held)
        vectors = held.reshape(128, -1, vector, 2)
        np.testing.assert_array_equal(vectors, vectors[:, :, :1] + np.arange(vector)[:, None] * [0, 1])
        assert sorted(found.values) == list(range(32))
    with pytest.raises(ScheduleError, match=r"hold 16.*\[tv-neighbours\]"):
        runs(tv, shape, 16)


def test_values_that_have_no_neighbours_are_no_runs():
    tv = TiledMma(mma_atom("fma.m1n1k1.f32.f32"), (16, 16, 1)).tv("c", (64, 64))
    assert neighbours(tv, (64, 64)) == 1
    with pytest.raises(ScheduleError, match=r"hold 2.*columns.*tile 64x64.*\[tv-neighbours\]"):
        runs(tv, (64, 64), 2)
