"""The PTX ISA's formulas: against plain matrix products, and against the tables that the passes use."""

import numpy as np
import pytest
from tensor_layouts import Layout

from lowtide.errors import InterpreterError
from lowtide.interpreter import hardware
from lowtide.interpreter.domains import domain
from lowtide.targets import MMA_ATOMS, MmaAtom

SHAPES = list(hardware.MMA_FRAGMENTS)


def table_of(layout: Layout, rows: int, values: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of each lane's each value, by a thread-value layout."""
    index = np.array([[layout(lane, value) for value in range(values)] for lane in range(32)])
    return index % rows, index // rows


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(np.float64)


WARP_ATOMS = {name: atom for name, atom in MMA_ATOMS.items() if name.startswith("mma.")}


@pytest.mark.parametrize("atom", WARP_ATOMS.values(), ids=WARP_ATOMS)
def test_mma_fragments_agree_with_the_thread_value_layouts_of_the_passes(atom: MmaAtom) -> None:
    fragments = hardware.fragments_of(atom.shape_mnk)
    m, n, _ = atom.shape_mnk
    k_of_b, n_of_b = fragments.b
    for held, layout, rows in (
        (fragments.a, atom.a_layout, m),
        ((n_of_b, k_of_b), atom.b_layout, n),
        (fragments.c, atom.c_layout, m),
    ):
        row, column = np.broadcast_arrays(*held)
        expected_row, expected_column = table_of(layout, rows, row.shape[1])
        assert np.array_equal(row, expected_row)
        assert np.array_equal(column, expected_column)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_element_is_held_once(shape: tuple[int, int, int]) -> None:
    fragments, (m, n, k) = hardware.fragments_of(shape), shape
    for held, columns, size in ((fragments.a, k, m * k), (fragments.b, n, n * k), (fragments.c, n, m * n)):
        assert sorted((held[0] * columns + held[1]).reshape(-1)) == list(range(size))


@pytest.mark.parametrize("shape", SHAPES)
def test_mma_is_the_matrix_product(shape: tuple[int, int, int]) -> None:
    (m, n, k), fragments = shape, hardware.fragments_of(shape)
    a, b, c = integers(m, k), integers(k, n), integers(m, n)
    d = hardware.mma(shape, a[fragments.a], b[fragments.b], c[fragments.c], domain("float"), "f32")
    assert np.array_equal(d, (a @ b + c)[fragments.c])
    exchanged = a[fragments.a][:, [1, 0, *range(2, fragments.a[0].shape[1])]]
    wrong = hardware.mma(shape, exchanged, b[fragments.b], c[fragments.c], domain("float"), "f32")
    assert not np.array_equal(wrong, d)


def test_mma_with_f16_accumulators_rounds_to_f16() -> None:
    shape, fragments = (16, 8, 8), hardware.fragments_of((16, 8, 8))
    a, b, c = np.full((16, 8), 1.0), np.full((8, 8), 2.0**-10), np.full((16, 8), 16.0)
    d = hardware.mma(shape, a[fragments.a], b[fragments.b], c[fragments.c], domain("float"), "f16")
    assert np.all(d == np.float16(16.0 + 2.0**-7))
    assert np.all(d == 16.0)


def test_ldmatrix_x4_loads_the_a_fragment_of_m16n8k16() -> None:
    a = integers(16, 16)
    lane = np.arange(32)
    rows = np.stack([a[row, half * 8 : half * 8 + 8] for row, half in zip(lane % 16, lane // 16, strict=True)])
    received = hardware.ldmatrix(rows, 4, trans=False).reshape(32, 8)
    assert np.array_equal(received, a[hardware.fragments_of((16, 8, 16)).a])


def test_ldmatrix_x2_trans_loads_the_b_fragment_of_a_matrix_that_lies_k_by_n() -> None:
    b = integers(16, 8)  # (K, N), a row of N contiguous
    received = hardware.ldmatrix(b, 2, trans=True).reshape(32, 4)
    assert np.array_equal(received, b[hardware.fragments_of((16, 8, 16)).b])
    assert not np.array_equal(hardware.ldmatrix(b, 2, trans=False).reshape(32, 4), received)


def test_ldmatrix_x1_gives_lane_5_the_third_pair_of_the_second_row() -> None:
    matrix = np.arange(64.0).reshape(8, 8)
    assert hardware.ldmatrix(matrix, 1, trans=False)[5].tolist() == [[10.0, 11.0]]
    assert hardware.ldmatrix(matrix, 1, trans=True)[5].tolist() == [[17.0, 25.0]]


def test_an_mma_shape_that_is_not_modelled_is_refused_with_those_that_are() -> None:
    with pytest.raises(InterpreterError, match="m16n8k8, m16n8k16"):
        hardware.fragments_of((8, 8, 4))
