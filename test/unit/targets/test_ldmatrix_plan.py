"""ldmatrix plans: the instruction, simulated by the ISA's rules, delivers the fragment that mma wants."""

import numpy as np
import pytest
from ptx_fragments import ldmatrix
from tensor_layouts import Layout

from lowtide.errors import ScheduleError
from lowtide.targets import TiledMma, ldmatrix_source, mma_atom
from lowtide.targets.tv import coordinates, extents

K16 = mma_atom("mma.m16n8k16.f32.bf16")
K8 = mma_atom("mma.m16n8k8.f32.bf16")


def load_fragment(plan, tiled):
    """The fragment [thread, value] that the plan's instructions fill, from a tile whose element is its own index."""
    rows, columns = plan.shape
    tile = np.arange(rows * columns).reshape(rows, columns)
    stored = (tile.T if plan.trans else tile).ravel()
    starts = coordinates(plan.source, plan.shape)
    address = starts[..., 1] * rows + starts[..., 0] if plan.trans else starts[..., 0] * columns + starts[..., 1]
    fragment = np.full((tiled.threads, plan.values.size), -1)
    for warp in range(tiled.warps):
        lanes = slice(32 * warp, 32 * warp + 32)
        for instruction in range(plan.instructions):
            registers = ldmatrix(stored, address[lanes, instruction], plan.matrices, plan.trans)
            fragment[lanes, plan.values[instruction]] = registers.reshape(32, -1)
    return fragment


def wanted_fragment(plan, tiled):
    held = coordinates(tiled.tv(plan.operand, plan.shape), plan.shape)
    return held[..., 0] * plan.shape[1] + held[..., 1]


@pytest.mark.parametrize("trans", [False, True], ids=["plain", "trans"])
@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize(
    "atom, warps, shape",
    [
        (K16, (2, 2, 1), (128, 32)),
        (K16, (2, 4, 1), (64, 16)),
        (K16, (1, 4, 1), (32, 64)),  # one n-atom a warp: x4 pairs two k-slices
        (K16, (1, 1, 1), (48, 16)),
        (K16, (3, 1, 1), (96, 32)),
        (K8, (2, 2, 1), (128, 32)),
        (K8, (1, 2, 1), (16, 8)),
    ],
)
def test_the_simulated_instructions_deliver_the_fragment(atom, warps, shape, operand, trans):
    tiled = TiledMma(atom, warps)
    plan = ldmatrix_source(tiled, operand, shape, trans)
    np.testing.assert_array_equal(load_fragment(plan, tiled), wanted_fragment(plan, tiled))


@pytest.mark.parametrize(
    "operand, shape, atom, name",
    [
        ("a", (32, 16), K16, "ldmatrix.x4"),
        ("b", (32, 16), K16, "ldmatrix.x4"),  # two n-atoms
        ("b", (16, 32), K16, "ldmatrix.x4"),  # two k-atoms
        ("b", (48, 16), K16, "ldmatrix.x2"),  # three n-atoms: six registers
        ("b", (16, 16), K16, "ldmatrix.x2"),
        ("b", (16, 8), K8, "ldmatrix.x1"),
        ("a", (64, 8), K8, "ldmatrix.x4"),
    ],
)
def test_the_widest_instruction_that_divides_the_registers_is_taken(operand, shape, atom, name):
    plan = ldmatrix_source(TiledMma(atom, (2, 2, 1)), operand, shape, False)
    assert plan.atom_name == name
    assert plan.instructions * plan.matrices * 2 == extents(TiledMma(atom, (2, 2, 1)).tv(operand, shape))[1]


def test_a_permuted_n_loads_plainly_but_not_transposed():
    tiled = TiledMma(K16, (1, 1, 1), (None, Layout((2, 4, 2), (1, 4, 2)), None))
    plan = ldmatrix_source(tiled, "b", (32, 16), False)
    np.testing.assert_array_equal(load_fragment(plan, tiled), wanted_fragment(plan, tiled))
    with pytest.raises(ScheduleError, match=r"operand b.*\.trans.*eight.*\[ldmatrix-rows\]"):
        ldmatrix_source(tiled, "b", (32, 16), True)


def test_a_permuted_k_is_refused_plainly_and_loads_transposed():
    tiled = TiledMma(K16, (1, 1, 1), (None, None, Layout((4, 4), (4, 1))))
    with pytest.raises(ScheduleError, match=r"operand a.*eight.*columns.*\[ldmatrix-rows\]"):
        ldmatrix_source(tiled, "a", (32, 16), False)
    plan = ldmatrix_source(tiled, "a", (32, 16), True)
    np.testing.assert_array_equal(load_fragment(plan, tiled), wanted_fragment(plan, tiled))


def test_accumulators_are_not_loaded_by_ldmatrix():
    with pytest.raises(
        ScheduleError, match=r"ldmatrix loads 8-bit and 16-bit operands a and b, not c of f32.*\[ldmatrix-operand\]"
    ):
        ldmatrix_source(TiledMma(K16), "c", (16, 8), False)


def test_plans_compare_and_hash_by_value():
    tiled = TiledMma(K16, (2, 2, 1))
    one, two = (ldmatrix_source(tiled, "a", (64, 32), False) for _ in range(2))
    assert one == two and hash(one) == hash(two)
