"""Tiled MMA: TV layouts of CTA tiles against the ISA's formulas, and a whole tile multiplied from its fragments."""

import numpy as np
import pytest
from ptx_fragments import mma, mma_element
from tensor_layouts import Layout

from lowtide.errors import ScheduleError
from lowtide.targets import TiledMma, mma_atom
from lowtide.targets.tv import coordinates, extents

K16 = mma_atom("mma.m16n8k16.f32.bf16")
K8 = mma_atom("mma.m16n8k8.f32.f16")
TILES = [(128, 128, 32), (64, 96, 16), (128, 256, 32)]
WARPS = [(2, 2), (4, 2), (1, 4), (2, 4)]


def operand_shapes(cta_tile):
    m, n, k = cta_tile
    return {"a": (m, k), "b": (n, k), "c": (m, n)}


@pytest.mark.parametrize("cta_tile", TILES)
@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("atom", [K8, K16], ids=["k8", "k16"])
def test_every_thread_holds_what_the_isa_says_of_its_warp_and_atom(cta_tile, warps, atom):
    warps_m, warps_n = warps
    m, n, k = atom.shape_mnk
    tiled = TiledMma(atom, (warps_m, warps_n, 1))
    for operand, shape in operand_shapes(cta_tile).items():
        held = coordinates(tiled.tv(operand, shape), shape)
        atoms = tiled.atom_values(operand, shape)
        step = {"a": (m * warps_m, k), "b": (n * warps_n, k), "c": (m * warps_m, n * warps_n)}[operand]
        expected = np.empty_like(held)
        fragment = np.array(
            [[mma_element(operand, k, lane, value) for value in range(atoms.shape[2])] for lane in range(32)]
        )
        for warp in range(warps_m * warps_n):
            m0, n0 = warp % warps_m * m, warp // warps_m * n
            origin = {"a": (m0, 0), "b": (n0, 0), "c": (m0, n0)}[operand]
            for i, j in np.ndindex(atoms.shape[:2]):
                corner = np.array(origin) + np.array(step) * (i, j)
                expected[32 * warp : 32 * warp + 32, atoms[i, j]] = fragment + corner
        np.testing.assert_array_equal(held, expected)


@pytest.mark.parametrize("cta_tile", TILES)
@pytest.mark.parametrize("warps", WARPS)
def test_each_element_is_held_once_by_each_warp_that_shares_it(cta_tile, warps):
    tiled = TiledMma(K16, (*warps, 1))
    copies = {"a": warps[1], "b": warps[0], "c": 1}
    for operand, (rows, columns) in operand_shapes(cta_tile).items():
        tv = tiled.tv(operand, (rows, columns))
        held = coordinates(tv, (rows, columns)).reshape(-1, 2)
        count = np.zeros((rows, columns), int)
        np.add.at(count, (held[:, 0], held[:, 1]), 1)
        assert (count == copies[operand]).all()
        assert extents(tv)[0] == tiled.threads


def multiply_from_fragments(tiled, cta_tile, atom_k, seed=0):
    """The CTA tile's product, through fragments, mma by the ISA's formulas, and fragments back."""
    m, n, k = cta_tile
    rng = np.random.default_rng(seed)
    matrices = {"a": rng.integers(-9, 9, (m, k)), "b": rng.integers(-9, 9, (n, k)), "c": rng.integers(-9, 9, (m, n))}
    held, fragments, atoms = {}, {}, {}
    for operand, matrix in matrices.items():
        held[operand] = coordinates(tiled.tv(operand, matrix.shape), matrix.shape)
        fragments[operand] = matrix[held[operand][..., 0], held[operand][..., 1]]
        atoms[operand] = tiled.atom_values(operand, matrix.shape)
    for warp in range(tiled.warps):
        a, b, c = (fragments[operand][32 * warp : 32 * warp + 32] for operand in "abc")
        for i, j in np.ndindex(atoms["c"].shape[:2]):
            for slice_k in range(atoms["a"].shape[1]):
                at = atoms["c"][i, j]
                c[:, at] = mma(atom_k, a[:, atoms["a"][i, slice_k]], b[:, atoms["b"][j, slice_k]], c[:, at])
    result = np.zeros((m, n), int)
    result[held["c"][..., 0], held["c"][..., 1]] = fragments["c"]
    return result, matrices["c"] + matrices["a"] @ matrices["b"].T


@pytest.mark.parametrize(
    "atom, atom_layout, permutation",
    [
        (K16, (2, 2, 1), (32, 32, 16)),
        (K16, (1, 4, 1), (None, None, None)),
        (K8, (2, 1, 1), (None, None, None)),
        (K16, (2, 1, 1), (None, Layout((2, 4, 2), (1, 4, 2)), None)),
        (K8, (1, 2, 1), (Layout((8, 2, 2), (1, 16, 8)), None, Layout((2, 4), (4, 1)))),
    ],
)
def test_a_tile_multiplied_from_its_fragments_is_the_product(atom, atom_layout, permutation):
    tiled = TiledMma(atom, atom_layout, permutation)
    result, expected = multiply_from_fragments(tiled, (64, 64, 32), atom.shape_mnk[2])
    np.testing.assert_array_equal(result, expected)


def test_two_by_two_warps_and_a_value_repeat_make_a_32x32x16_tile_of_128_threads():
    tiled = TiledMma(K16, (2, 2, 1), (32, 32, 16))
    assert (tiled.threads, tiled.tile_mnk) == (128, (32, 32, 16))
    assert TiledMma(K16, (2, 2, 1)).tile_mnk == (32, 16, 16)
    assert extents(tiled.tv("c", (32, 32))) == (128, 8)


def test_a_permuted_n_gives_each_thread_four_neighbouring_columns():
    tiled = TiledMma(K16, (1, 1, 1), (None, Layout((2, 4, 2), (1, 4, 2)), None))
    assert tiled.tile_mnk == (16, 16, 16)
    held = coordinates(tiled.tv("c", (16, 16)), (16, 16))
    for lane in range(32):
        first_row = sorted(held[lane, held[lane, :, 0] == lane // 4, 1])
        assert first_row == [4 * (lane % 4) + i for i in range(4)]


def test_warps_along_k_share_the_accumulator():
    tiled = TiledMma(K16, (1, 1, 2))
    held = {op: coordinates(tiled.tv(op, shape), shape) for op, shape in {"a": (16, 32), "c": (16, 8)}.items()}
    np.testing.assert_array_equal(held["c"][:32], held["c"][32:])
    np.testing.assert_array_equal(held["a"][:32] + np.array([0, 16]), held["a"][32:])


def test_the_value_mode_nests_atom_values_rest_rows_and_rest_columns():
    tv = TiledMma(K16, (2, 2, 1)).tv("a", (128, 32))
    assert tv.shape[1] == ((2, 2, 2), 4, 2)


def test_extents_that_do_not_divide_are_refused_with_the_nearest():
    tiled = TiledMma(K16, (2, 2, 1))
    with pytest.raises(
        ScheduleError,
        match=r"operand a: the tile's m = 100 is not a multiple .* 32; nearest is 96.*\[tiled-mma-divides\]",
    ):
        tiled.tv("a", (100, 32))
    with pytest.raises(ScheduleError, match=r"operand b: the tile's k = 8 .* nearest is 16.*\[tiled-mma-divides\]"):
        tiled.atom_values("b", (32, 8))
    with pytest.raises(ScheduleError, match=r"of n.*extent 24.*\[permutation-divides\]"):
        TiledMma(K16, (2, 2, 1), (None, 24, None))
    with pytest.raises(ScheduleError, match=r"permutation of n .* does not permute.*\[permutation-permutes\]"):
        TiledMma(K16, (1, 1, 1), (None, Layout((2, 4), (1, 1)), None))
    with pytest.raises(ScheduleError, match=r"\[atom-layout-count\]"):
        TiledMma(K16, (1, 0, 1))


FMA = mma_atom("fma.m1n1k1.f32.f32")
PIECES = Layout((16, 4), (4, 1))  # of 64: each of 16 threads holds four neighbours


def test_the_fma_atom_makes_the_tiled_mma_of_16_by_16_threads():
    """S4.2: 256 threads, one element of C each, M fastest."""
    tiled = TiledMma(FMA, (16, 16, 1))
    assert (tiled.threads, tiled.tile_mnk) == (256, (16, 16, 1))
    thread = np.arange(256)
    held = coordinates(tiled.tv("c", (16, 16)), (16, 16))
    np.testing.assert_array_equal(held[:, 0], np.stack([thread % 16, thread // 16], axis=1))


def test_operands_are_partitioned_by_the_projection_of_the_threads():
    """S1.2: of A (M, K) every thread of a row of threads holds the same rows, interleaved; of B those of its column."""
    tiled = TiledMma(FMA, (16, 16, 1), (PIECES, PIECES, 1))
    thread, piece = np.arange(256), np.arange(4)
    for operand, position in (("a", thread % 16), ("b", thread // 16)):
        rows = coordinates(tiled.tv(operand, (128, 1)), (128, 1))[:, :, 0]
        first = 4 * position[:, None] + piece
        np.testing.assert_array_equal(rows, np.concatenate([first, first + 64], axis=1))


def test_an_order_of_atoms_makes_tiles_of_warps():
    order = Layout(((8, 2), (2, 2, 4), 1), ((2, 32), (1, 16, 64), 0))
    tiled = TiledMma(FMA, (16, 16, 1), (PIECES, PIECES, 1), order)
    rows = coordinates(tiled.tv("a", (64, 1)), (64, 1))[:, 0, 0] // 4
    columns = coordinates(tiled.tv("b", (64, 1)), (64, 1))[:, 0, 0] // 4
    by_warp = rows.reshape(8, 32), columns.reshape(8, 32)
    assert [(len(set(r)), len(set(c))) for r, c in zip(*by_warp, strict=True)] == [(8, 4)] * 8
    # Lanes that differ in bit 0 read the same rows, lanes that differ in bit 1 the same columns.
    assert (by_warp[0][:, ::2] == by_warp[0][:, 1::2]).all()
    assert (by_warp[1].reshape(8, 8, 2, 2)[:, :, 0] == by_warp[1].reshape(8, 8, 2, 2)[:, :, 1]).all()
    assert len(set(zip(rows, columns, strict=True))) == 256


def test_an_order_that_is_none_is_refused():
    with pytest.raises(
        ScheduleError,
        match=r"atom_order .* has extents \[8, 16, 1\] and atoms are \[16, 16, 1\].*\[atom-order-extents\]",
    ):
        TiledMma(FMA, (16, 16, 1), order=Layout((8, 16, 1), (1, 8, 0)))
    with pytest.raises(
        ScheduleError, match=r"atom_order .* does not number 256 atoms once each.*\[atom-order-numbers\]"
    ):
        TiledMma(FMA, (16, 16, 1), order=Layout((16, 16, 1), (1, 8, 0)))
