"""The PTX ISA's formulas: against plain matrix products, and against the tables that the passes use."""

import numpy as np
import pytest
from tensor_layouts import Layout, Swizzle, compose

from lowtide.elements import element_type
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware
from lowtide.interpreter.numbers.domains import domain
from lowtide.targets import MMA_ATOMS, MmaAtom

FRAGMENTS = list(hardware.MMA_FRAGMENTS.values())
NAMES = ["m{}n{}k{}".format(*shape) + f"-{bits}" for shape, bits in hardware.MMA_FRAGMENTS]


def table_of(layout: Layout, rows: int, values: int, threads: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of each thread's each value, by a thread-value layout."""
    index = np.array([[layout(thread, value) for value in range(values)] for thread in range(threads)])
    return index % rows, index // rows


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(np.float64)


WARP_ATOMS = {name: atom for name, atom in MMA_ATOMS.items() if name.startswith("mma.")}


@pytest.mark.parametrize("atom", WARP_ATOMS.values(), ids=WARP_ATOMS)
def test_mma_fragments_agree_with_the_thread_value_layouts_of_the_passes(atom: MmaAtom) -> None:
    fragments = hardware.fragments_of(atom.shape_mnk, element_type(atom.a_dtype).bits)
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


@pytest.mark.parametrize("fragments", FRAGMENTS, ids=NAMES)
def test_each_element_is_held_once(fragments: hardware.MmaFragments) -> None:
    m, n, k = fragments.shape
    for held, columns, size in ((fragments.a, k, m * k), (fragments.b, n, n * k), (fragments.c, n, m * n)):
        assert sorted((held[0] * columns + held[1]).reshape(-1)) == list(range(size))


@pytest.mark.parametrize("fragments", FRAGMENTS, ids=NAMES)
def test_mma_is_the_matrix_product(fragments: hardware.MmaFragments) -> None:
    m, n, k = fragments.shape
    a, b, c = integers(m, k), integers(k, n), integers(m, n)
    d = hardware.mma(
        fragments, a[fragments.a], b[fragments.b], c[fragments.c], domain("float"), ("bf16", "bf16"), "f32"
    )
    assert np.array_equal(d, (a @ b + c)[fragments.c])
    exchanged = np.roll(a[fragments.a], 1, axis=0)
    wrong = hardware.mma(fragments, exchanged, b[fragments.b], c[fragments.c], domain("float"), ("bf16", "bf16"), "f32")
    assert not np.array_equal(wrong, d)


def test_mma_with_f16_accumulators_rounds_to_f16() -> None:
    fragments = hardware.fragments_of((16, 8, 8), 16)
    a, b, c = np.full((16, 8), 1.0), np.full((8, 8), 2.0**-10), np.full((16, 8), 16.0)
    d = hardware.mma(fragments, a[fragments.a], b[fragments.b], c[fragments.c], domain("float"), ("f16", "f16"), "f16")
    assert np.all(d == np.float16(16.0 + 2.0**-7))
    assert np.all(d == 16.0)


def test_ldmatrix_x4_loads_the_a_fragment_of_m16n8k16() -> None:
    a = integers(16, 16)
    lane = np.arange(32)
    rows = np.stack([a[row, half * 8 : half * 8 + 8] for row, half in zip(lane % 16, lane // 16, strict=True)])
    received = hardware.ldmatrix(rows, 4, trans=False).reshape(32, 8)
    assert np.array_equal(received, a[hardware.fragments_of((16, 8, 16), 16).a])


def test_ldmatrix_x2_trans_loads_the_b_fragment_of_a_matrix_that_lies_k_by_n() -> None:
    b = integers(16, 8)  # (K, N), a row of N contiguous
    received = hardware.ldmatrix(b, 2, trans=True).reshape(32, 4)
    assert np.array_equal(received, b[hardware.fragments_of((16, 8, 16), 16).b])
    assert not np.array_equal(hardware.ldmatrix(b, 2, trans=False).reshape(32, 4), received)


def test_ldmatrix_x1_gives_lane_5_the_third_pair_of_the_second_row() -> None:
    matrix = np.arange(64.0).reshape(8, 8)
    assert hardware.ldmatrix(matrix, 1, trans=False)[5].tolist() == [[10.0, 11.0]]
    assert hardware.ldmatrix(matrix, 1, trans=True)[5].tolist() == [[17.0, 25.0]]


@pytest.mark.parametrize("n", [8, 64, 136, 256])
def test_wgmma_accumulators_agree_with_the_thread_value_layout_of_the_passes(n: int) -> None:
    row, column = np.broadcast_arrays(*hardware.wgmma_accumulator(n))
    atom = MMA_ATOMS[f"wgmma.m64n{n}k16.f32.bf16"]
    expected_row, expected_column = table_of(atom.c_layout, 64, n // 2, threads=128)
    assert np.array_equal(row, expected_row)
    assert np.array_equal(column, expected_column)
    assert sorted((row * n + column).reshape(-1)) == list(range(64 * n))


@pytest.mark.parametrize("n", [0, 4, 12, 264])
def test_a_wgmma_of_another_width_is_refused(n: int) -> None:
    with pytest.raises(InterpreterError, match=r"a multiple of 8 from 8 to 256.*\[wgmma-n\]"):
        hardware.wgmma_accumulator(n)


@pytest.mark.parametrize(("span", "bits"), [(32, 1), (64, 2), (128, 3)])
def test_tma_permutes_as_the_swizzle_on_16_bit_elements_does(span: int, bits: int) -> None:
    elements = np.arange(2048)
    swizzle = Swizzle(bits, 3, 3)
    assert np.array_equal(hardware.tma_swizzle(2 * elements, span), [2 * swizzle(int(x)) for x in elements])
    assert np.array_equal(hardware.tma_swizzle(2 * elements, 0), 2 * elements)


def descriptor(start: int, leading: int, stride: int, mode: int) -> hardware.MatrixDescriptor:
    bits = mode << 62 | (stride >> 4) << 32 | (leading >> 4) << 16 | start >> 4
    found = hardware.MatrixDescriptor.decode(bits)
    assert (found.start, found.leading, found.stride, found.base_offset) == (start, leading, stride, 0)
    return found


@pytest.mark.parametrize(("mode", "bits"), [(1, 3), (2, 2), (3, 1)])
def test_wgmma_reads_rows_with_k_contiguous_where_the_swizzled_layout_has_them(mode: int, bits: int) -> None:
    """For every k-slice of a buffer whose rows are as long as the swizzle's span."""
    columns, start = 8 << bits, 4096
    buffer = compose(Swizzle(bits, 3, 3), Layout((64, columns), (columns, 1)))
    for first in range(0, columns, 16):
        k_slice = descriptor(start + 2 * first, 16, 8 * 2 * columns, mode)
        found = k_slice.addresses(np.arange(64), np.arange(16), 2, k_major=True)
        expected = [[start + 2 * buffer(row, first + k) for k in range(16)] for row in range(64)]
        assert np.array_equal(found, expected)


def test_wgmma_reads_rows_of_m_or_n_contiguous_where_tma_has_put_them() -> None:
    """Boxes of 64 (k) x 64, each row of 64 in the 128-byte swizzle; the second box 8192 bytes further."""
    box = compose(Swizzle(3, 3, 3), Layout((64, 64), (64, 1)))
    for first in range(0, 64, 16):
        k_slice = descriptor(1024 + 128 * first, 8192, 1024, 1)
        found = k_slice.addresses(np.arange(128), np.arange(16), 2, k_major=False)
        expected = [[1024 + 8192 * (row // 64) + 2 * box(first + k, row % 64) for k in range(16)] for row in range(128)]
        assert np.array_equal(found, expected)


def test_wgmma_reads_core_matrices_without_a_swizzle() -> None:
    """Eight rows of 16 bytes each; the next along K 128 bytes further, the next eight rows 256."""
    found = descriptor(0, 128, 256, 0).addresses(np.arange(16), np.arange(16), 2, k_major=True)
    expected = [[256 * (r // 8) + 128 * (k // 8) + 16 * (r % 8) + 2 * (k % 8) for k in range(16)] for r in range(16)]
    assert np.array_equal(found, expected)


def test_an_mma_shape_that_is_not_modelled_is_refused_with_those_that_are() -> None:
    with pytest.raises(InterpreterError, match=r"m16n8k8 of 16 bits, m16n8k16 of 16 bits.*\[mma-shapes\]"):
        hardware.fragments_of((8, 8, 4), 16)
