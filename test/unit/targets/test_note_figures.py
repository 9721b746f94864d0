"""The figures of three study notes on CuTe, stated: tiled mmas and copies, permutations, bank conflicts.

They are what CuTe prints, and what the notes count. docs/seeds.md says where each idea is; docs/explain.md compares
the counts with an H200's counters.
"""

import numpy as np
import pytest
from tensor_layouts import Layout

from lowtide.targets import (
    MmaAtom,
    TiledMma,
    conflicts,
    coordinates,
    copy_access,
    copy_atom,
    fragment_access,
    ldmatrix_access,
    ldmatrix_source,
    make_tiled_copy,
    mma_atom,
    shared_access_conflicts,
    swizzled,
)
from lowtide.targets.tv import extents, offsets

K8 = mma_atom("mma.m16n8k8.f32.f16")
K16 = mma_atom("mma.m16n8k16.f16.f16")
# The tiled mma of S0.1, and the CTA tile that it multiplies.
TILED = TiledMma(K16, (2, 2, 1), (32, 32, 16))
CTA = {"a": (128, 32), "b": (128, 32), "c": (128, 128)}


F64 = mma_atom("mma.m8n8k4.f64.f64")
FMA = MmaAtom("fma", (1, 1, 1), "f32", "f32", "f32", *3 * (Layout((1, 1), (0, 0)),), "fma.rn.f32", 1)


def same(layout: Layout, shape: object, stride: object) -> bool:
    """Whether a layout is that function, however it nests."""
    printed = Layout(shape, stride)
    index = np.arange(np.prod(extents(printed)))
    return extents(layout) == extents(printed) and bool((offsets(layout, index) == offsets(printed, index)).all())


# Tiled mmas.


def test_2x2_warps_of_m16n8k16_with_two_values_along_n_are_32x32x16_with_128_threads() -> None:
    """32 x 2 x 2 threads; M = 16 x 2 x 1, N = 8 x 2 x 2, K = 16."""
    assert (TILED.threads, TILED.tile_mnk) == (128, (32, 32, 16))
    assert {operand: extents(TILED.tv(operand, shape)) for operand, shape in CTA.items()} == {
        "a": (128, 4 * 2 * 8),  # MMA_M = 4, MMA_K = 2, eight values of an atom
        "b": (128, 4 * 2 * 2 * 4),  # MMA_N = 4, MMA_K = 2, two atoms of four
        "c": (128, 4 * 4 * 2 * 4),
    }


@pytest.mark.parametrize(
    "operand, shape, stride",
    [
        ("a", ((4, 8), (2, 2)), ((32, 1), (16, 8))),
        ("b", ((4, 8), 2), ((16, 1), 8)),
        ("c", ((4, 8), (2, 2)), ((32, 1), (16, 8))),
    ],
)
def test_m16n8k8_has_the_layouts_that_cute_prints(operand: str, shape: object, stride: object) -> None:
    assert (K8.threads, K8.shape_mnk) == (32, (16, 8, 8))
    assert same(K8.layout(operand), shape, stride)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "operand, shape, stride",
    [("a", ((4, 8), 1), ((8, 1), 0)), ("b", ((4, 8), 1), ((8, 1), 0)), ("c", ((4, 8), 2), ((16, 1), 8))],
)
def test_m8n8k4_of_f64_has_the_layouts_that_cute_prints(operand: str, shape: object, stride: object) -> None:
    assert F64.shape_mnk == (8, 8, 4)
    assert same(F64.layout(operand), shape, stride)  # type: ignore[arg-type]
    assert same(TiledMma(F64).tv(operand, F64.tile_shape(operand)), shape, stride)  # type: ignore[arg-type]


def test_a_permutation_by_extents_repeats_values_and_adds_no_threads() -> None:
    tiled = TiledMma(F64, (1, 1, 1), (8, 16, 8))
    assert (tiled.threads, tiled.tile_mnk) == (32, (8, 16, 8))
    assert extents(tiled.tv("c", (8, 16))) == (32, 4)
    held = coordinates(tiled.tv("c", (8, 16)), (8, 16))
    assert held[1].tolist() == [[0, 2], [0, 3], [0, 10], [0, 11]]  # the atom's two columns, and again eight further on


def test_the_permutation_2_4_2_by_1_4_2_gives_each_thread_four_columns_in_a_row() -> None:
    permutation = Layout((2, 4, 2), (1, 4, 2))
    assert [permutation(n) for n in range(16)] == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]
    tiled = TiledMma(F64, (1, 1, 1), (8, permutation, 8))
    assert (tiled.threads, tiled.tile_mnk) == (32, (8, 16, 8))
    held = coordinates(tiled.tv("c", (8, 16)), (8, 16))
    for lane in range(32):
        assert held[lane].tolist() == [[lane // 4, 4 * (lane % 4) + n] for n in range(4)]


def test_256_fma_atoms_are_a_16x16x1_tiled_mma_with_threads_along_m() -> None:
    """Its threads are (1,16,16,1):(0,1,16,0): thread m + 16 n multiplies row m by column n."""
    tiled = TiledMma(FMA, (16, 16, 1))
    assert (tiled.atom.shape_mnk, tiled.tile_mnk) == ((1, 1, 1), (16, 16, 1))
    held = {
        operand: coordinates(tiled.tv(operand, shape), shape) for operand, shape in (("c", (16, 16)), ("a", (16, 1)))
    }
    for thread in range(256):
        assert held["c"][thread].tolist() == [[thread % 16, thread // 16]]
        assert held["a"][thread].tolist() == [[thread % 16, 0]]


# Tiled copies.


def test_16x8_threads_with_8x1_values_are_the_tiled_copy_that_cute_prints() -> None:
    """Tiler_MN (128,8), TiledLayout_TV (128,8):(8,1), of 16-bit values in 16-byte copies of one thread."""
    copy = make_tiled_copy(copy_atom("cp.async.16"), Layout((16, 8), (1, 16)), Layout((8, 1), (1, 8)), (128, 8))
    assert (copy.shape, copy.threads, copy.vector) == ((128, 8), 128, 8)
    assert same(copy.tv, (128, 8), (8, 1))
    assert copy.atom.threads == 1
    assert copy.atom.bytes_per_thread == 8 * 2  # ValLayoutSrc and ValLayoutDst (1,8):(0,1)


def test_32x4_threads_with_1x8_values_load_128x32_in_four_steps() -> None:
    copy = make_tiled_copy(copy_atom("cp.async.16"), Layout((32, 4), (4, 1)), Layout((1, 8)), (128, 32))
    assert (copy.threads, copy.vector, copy.repeats) == (128, 8, 4)
    held = coordinates(copy.tv, copy.shape)
    for thread in range(128):
        assert held[thread, :8].tolist() == [[thread // 4, 8 * (thread % 4) + n] for n in range(8)]
        assert held[thread, ::8, 0].tolist() == [thread // 4 + 32 * step for step in range(4)]


@pytest.mark.parametrize("operand", ["a", "b"])
def test_ldmatrix_x4_loads_32x16_of_the_tiled_mma_at_once(operand: str) -> None:
    """CPY_M = 4 and CPY_K = 2 over 128x32."""
    plan = ldmatrix_source(TILED, operand, (128, 32), False)  # type: ignore[arg-type]
    assert (plan.atom_name, plan.instructions) == ("ldmatrix.x4", 4 * 2)


# Swizzles and bank conflicts.


def test_swizzle_1_1_2_exchanges_pairs_in_two_rows_of_four() -> None:
    places = offsets(swizzled((2, 8), (1, 1, 2)), np.arange(16)).reshape(8, 2).T
    assert places.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [10, 11, 8, 9, 14, 15, 12, 13]]


@pytest.mark.parametrize("columns, ways", [(32, {0: 4, 2: 1, 3: 1}), (64, {0: 8, 2: 2, 3: 1})], ids=["8x32", "8x64"])
def test_conflicts_of_ldmatrix_on_16_bit_rows(columns: int, ways: dict[int, int]) -> None:
    for bits, expected in ways.items():
        layout = swizzled((8, columns), (bits, 3, 3))
        for column in range(0, columns, 8):
            row_addresses = 2 * offsets(layout, np.arange(8) + 8 * column)
            assert conflicts(row_addresses, 16, "ldmatrix").ways == expected
        for operand in ("a", "b"):
            plan = ldmatrix_source(TILED, operand, (128, columns), False)  # type: ignore[arg-type]
            whole = shared_access_conflicts(swizzled((128, columns), (bits, 3, 3)), ldmatrix_access(plan), 2)
            assert whole.ways == expected


@pytest.mark.parametrize("bits", [0, 2, 3])
@pytest.mark.parametrize("columns", [32, 64])
def test_writes_of_16_bytes_never_conflict(columns: int, bits: int) -> None:
    threads = columns // 8
    copy = make_tiled_copy(
        copy_atom("cp.async.16"), Layout((128 // threads, threads), (threads, 1)), Layout((1, 8)), (128, columns)
    )
    assert shared_access_conflicts(swizzled((128, columns), (bits, 3, 3)), copy_access(copy), 2).ways == 1


def test_the_scratch_of_32x32_is_free_of_conflicts_under_swizzle_2_3_3() -> None:
    """Results go to it two at a time, and leave it 16 bytes at a time."""
    store = fragment_access("st.shared.4", TILED.tv("c", (32, 32)), (32, 32), 2)
    rows = make_tiled_copy(copy_atom("st.global.16"), Layout((32, 4), (4, 1)), Layout((1, 8)), (32, 32))
    for access, without in ((store, 4), (copy_access(rows), 1)):
        assert shared_access_conflicts(swizzled((32, 32), (0, 3, 3)), access, 2).ways == without
        assert shared_access_conflicts(swizzled((32, 32), (2, 3, 3)), access, 2).ways == 1
