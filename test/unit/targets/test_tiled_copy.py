"""Tiled copy: thread layout x value layout over a tile."""

import numpy as np
import pytest
from tensor_layouts import Layout

from lowtide.errors import ScheduleError
from lowtide.targets import copy_atom, default_copy_threads, make_tiled_copy
from lowtide.targets.tv import coordinates

CP_ASYNC = copy_atom("cp.async.16")


def test_32x4_threads_of_eight_values_copy_a_32x32_block_row_by_row():
    copy = make_tiled_copy(CP_ASYNC, Layout((32, 4), (4, 1)), Layout((1, 8)), (128, 32))
    held = coordinates(copy.tv, copy.shape)
    assert (copy.threads, copy.vector, copy.repeats) == (128, 8, 4)
    for thread in range(128):
        for repeat in range(4):
            for value in range(8):
                expected = (32 * repeat + thread // 4, 8 * (thread % 4) + value)
                assert tuple(held[thread, 8 * repeat + value]) == expected


def test_rest_rows_come_before_rest_columns():
    copy = make_tiled_copy(CP_ASYNC, Layout((32, 4), (4, 1)), Layout((1, 8)), (64, 64))
    starts = coordinates(copy.starts, copy.shape)
    assert starts[0].tolist() == [[0, 0], [32, 0], [0, 32], [32, 32]]


@pytest.mark.parametrize(
    "threads, rows, columns, vector, expected",
    [
        (128, 128, 32, 8, Layout((32, 4), (4, 1))),
        (256, 128, 64, 8, Layout((32, 8), (8, 1))),
        (256, 256, 16, 8, Layout((128, 2), (2, 1))),
        (128, 64, 96, 8, Layout((32, 4), (4, 1))),
        (32, 16, 512, 8, Layout((1, 32), (32, 1))),
    ],
)
def test_default_threads_fill_a_row_first_and_cover_the_tile_once(threads, rows, columns, vector, expected):
    layout = default_copy_threads(threads, rows, columns, vector)
    assert layout == expected
    copy = make_tiled_copy(CP_ASYNC, layout, Layout((1, vector)), (rows, columns))
    held = coordinates(copy.tv, copy.shape).reshape(-1, 2)
    assert len(np.unique(held, axis=0)) == len(held) == rows * columns


def test_a_value_layout_of_two_rows_keeps_its_order():
    copy = make_tiled_copy(copy_atom("ld.shared.4"), Layout((4, 2), (2, 1)), Layout((2, 2), (2, 1)), (8, 4))
    assert coordinates(copy.tv, (8, 4))[3].tolist() == [[2, 2], [2, 3], [3, 2], [3, 3]]


def test_a_tile_that_does_not_divide_is_refused():
    with pytest.raises(ScheduleError, match=r"cover 32x32, which does not divide the tile 48x32.*\[copy-covers\]"):
        make_tiled_copy(CP_ASYNC, Layout((32, 4), (4, 1)), Layout((1, 8)), (48, 32))
    with pytest.raises(ScheduleError, match=r"256.*tile 64x16.*of 8.*\[copy-threads\]"):
        default_copy_threads(256, 64, 16, 8)
    with pytest.raises(ScheduleError, match=r"tile 64x20.*\[copy-threads\]"):
        default_copy_threads(32, 64, 20, 8)


def test_a_thread_layout_that_numbers_two_places_alike_is_refused():
    with pytest.raises(ScheduleError, match=r"thread layout .* does not number 16 threads once each.*\[copy-numbers\]"):
        make_tiled_copy(CP_ASYNC, Layout((8, 2), (1, 1)), Layout((1, 8)), (8, 16))
