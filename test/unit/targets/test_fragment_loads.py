"""Loads of mma fragments without ldmatrix: every value once, in runs that lie side by side in memory."""

import numpy as np
import pytest
from tensor_layouts import Layout

from lowtide.errors import ScheduleError
from lowtide.targets import TiledMma, choose_swizzle, fragment_loads, loads_access, mma_atom, widest_loads
from lowtide.targets.tv import coordinates

NATURAL, TOGETHER = None, Layout((4, 2), (2, 1))


def tiled(shape: str, order_of_k: Layout | None = NATURAL) -> TiledMma:
    return TiledMma(mma_atom(f"mma.{shape}.f64.f64"), (2, 2, 1), (None, None, order_of_k))


@pytest.mark.parametrize(
    ("shape", "order", "trans", "vector"),
    [
        ("m16n8k8", TOGETHER, False, 2),
        ("m16n8k4", TOGETHER, False, 2),
        ("m8n8k4", TOGETHER, False, 2),
        ("m16n8k16", Layout((4, 4), (4, 1)), False, 2),
        ("m16n8k8", NATURAL, False, 1),
        ("m16n8k8", TOGETHER, True, 1),
        ("m8n8k4", NATURAL, True, 1),
    ],
)
@pytest.mark.parametrize("operand", ["a", "b"])
def test_every_value_is_loaded_once_in_runs_along_memory(shape, order, trans, vector, operand):
    mma = tiled(shape, order)
    tile = (64, mma.tile_mnk[2])
    tv = mma.tv(operand, tile)
    loads = widest_loads(tv, tile, trans, 64)
    assert loads.vector == vector
    assert sorted(loads.values.reshape(-1)) == list(range(loads.values.size))
    held = coordinates(tv, tile)[:, loads.values]  # [thread, load, element, (row, column)]
    along, across = (0, 1) if trans else (1, 0)
    assert np.array_equal(held[..., along], held[:, :, :1, along] + np.arange(vector))
    assert np.all(held[..., across] == held[:, :, :1, across]) and np.all(held[:, :, 0, along] % vector == 0)
    assert np.array_equal(coordinates(loads.starts, tile), held[:, :, 0])


def test_a_permutation_of_k_gives_a_thread_16_bytes_of_16_bit_elements():
    order = Layout((2, 4, 2, 2), (1, 8, 2, 4))
    mma = TiledMma(mma_atom("mma.m16n8k16.f32.bf16"), (2, 2, 1), (None, None, order))
    assert widest_loads(mma.tv("a", (64, 32)), (64, 32), False, 16).vector == 8
    plain = TiledMma(mma_atom("mma.m16n8k16.f32.bf16"), (2, 2, 1))
    assert widest_loads(plain.tv("a", (64, 32)), (64, 32), False, 16).vector == 2


def test_loads_wider_than_what_a_thread_holds_side_by_side_are_refused():
    with pytest.raises(ScheduleError, match=r"runs of 2 elements along the rows .*; take narrower loads.*\[no-runs\]"):
        fragment_loads(tiled("m16n8k8", TOGETHER).tv("a", (64, 8)), (64, 8), True, 2)


@pytest.mark.parametrize(("order", "trans"), [(TOGETHER, False), (NATURAL, True), (TOGETHER, True)])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_some_swizzle_leaves_the_loads_of_f64_without_a_conflict(order, trans, operand):
    """Stages of 16 along K: rows of 128 bytes with K contiguous, 16 rows of 128 elements without."""
    loads = widest_loads(tiled("m16n8k8", order).tv(operand, (128, 16)), (128, 16), trans, 64)
    choice = choose_swizzle((16, 128) if trans else (128, 16), [loads_access(loads, "load")], 8)
    assert choice.ways == 1
    assert choice.counts[(0, 1, 3)]["load"].ways > 1
