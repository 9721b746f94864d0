"""Atoms: the TV layouts against the PTX ISA's formulas, names and sizes."""

import re

import numpy as np
import pytest
from ptx_fragments import byte_element, f64_element, mma_element

from lowtide import targets
from lowtide.errors import TargetError
from lowtide.targets.tv import coordinates

WARP_ATOMS = [name for name in targets.MMA_ATOMS if name.startswith("mma.")]
F64_ATOMS = [name for name in WARP_ATOMS if name.endswith(".f64.f64")]
TF32_ATOMS = [name for name in WARP_ATOMS if name.endswith(".f32.tf32")]
BYTE_ATOMS = [name for name in WARP_ATOMS if ".s32." in name]
FP8_ATOMS = [name for name in WARP_ATOMS if ".e4m3" in name or ".e5m2" in name]


@pytest.mark.parametrize("name", WARP_ATOMS)
@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_every_layout_is_the_isas_fragment(name, operand):
    atom = targets.mma_atom(name)
    held = coordinates(atom.layout(operand), atom.tile_shape(operand))
    assert held.shape[:2] == (32, atom.values(operand))
    for lane, value in np.ndindex(held.shape[:2]):
        if name in (*BYTE_ATOMS, *FP8_ATOMS):
            assert tuple(held[lane, value]) == byte_element(operand, atom.shape_mnk[2], lane, value)
        elif name in (*F64_ATOMS, *TF32_ATOMS):  # one element in a register
            assert tuple(held[lane, value]) == f64_element(operand, lane, value)
        else:
            assert tuple(held[lane, value]) == mma_element(operand, atom.shape_mnk[2], lane, value)


def test_shapes_dtypes_and_registers_follow_from_the_name():
    atom = targets.mma_atom("mma.m16n8k16.f32.bf16")
    assert (atom.shape_mnk, atom.a_dtype, atom.b_dtype, atom.c_dtype) == ((16, 8, 16), "bf16", "bf16", "f32")
    assert [atom.registers(operand) for operand in ("a", "b", "c")] == [4, 2, 4]
    half = targets.mma_atom("mma.m16n8k8.f16.f16")
    assert [half.registers(operand) for operand in ("a", "b", "c")] == [2, 1, 2]
    assert half.accumulators == 4
    assert half.ptx == "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"


def test_the_fma_atom_is_one_threads_one_element_of_each_operand():
    # PTX ISA, "fma": d = a * b + c, by each thread.
    atom = targets.mma_atom("fma.m1n1k1.f32.f32")
    assert (atom.threads, atom.shape_mnk, atom.ptx) == (1, (1, 1, 1), "fma.rn.f32")
    for operand in ("a", "b", "c"):
        assert coordinates(atom.layout(operand), atom.tile_shape(operand)).tolist() == [[[0, 0]]]
    assert targets.atoms.threads_of_atom("fma.m1n1k1") == 1
    assert targets.atoms.threads_of_atom("wgmma.m64n8k16") == 128


def test_both_shapes_come_with_each_allowed_pair_of_dtypes():
    pairs = {"f32.f16", "f32.bf16", "f16.f16"}
    narrow = {name for name in WARP_ATOMS if name not in (*F64_ATOMS, *TF32_ATOMS, *BYTE_ATOMS, *FP8_ATOMS)}
    assert TF32_ATOMS == ["mma.m16n8k4.f32.tf32", "mma.m16n8k8.f32.tf32"]
    assert narrow == {f"mma.m16n8k{k}.{pair}" for k in (8, 16) for pair in pairs}


def test_bytes_of_both_signs_are_multiplied_by_bytes_of_both():
    pairs = {"s8", "u8", "s8.u8", "u8.s8"}
    assert set(BYTE_ATOMS) == {f"mma.m16n8k{k}.s32.{pair}" for k in (16, 32) for pair in pairs}
    atom = targets.mma_atom("mma.m16n8k32.s32.u8.s8")
    assert atom.ptx == "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"
    assert [atom.registers(operand) for operand in ("a", "b", "c")] == [4, 2, 4]


def test_8_bit_floats_are_multiplied_from_sm_89_on_in_any_pair():
    pairs = {"e4m3", "e5m2", "e4m3.e5m2", "e5m2.e4m3"}
    assert set(FP8_ATOMS) == {f"mma.m16n8k32.f32.{pair}" for pair in pairs}
    atom = targets.mma_atom("mma.m16n8k32.f32.e4m3.e5m2")
    assert atom.ptx == "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"
    assert (atom.compute_capability, atom.ptx_version) == ((8, 9), 84)
    have = [one.name for one in targets.KNOWN if atom.name in one.mma_atoms]
    assert have == ["sm_89", "sm_90", "sm_90a"]


def test_wgmma_of_bytes_of_both_signs_is_of_a_later_ptx_version():
    versions = {name: targets.mma_atom(f"wgmma.m64n64k32.s32.{name}").ptx_version for name in ("s8", "s8.u8", "u8.s8")}
    assert versions == {"s8": 80, "s8.u8": 84, "u8.s8": 84}


def test_wgmma_of_bytes_has_the_widths_of_the_isa():
    """PTX ISA, "wgmma.mma_async", "Shape": .s8 and .u8 have N of 8, 16, 24, 32, and multiples of 16 from there on."""
    assert targets.atoms.wgmma_widths("s8", "s8", "s32") == (8, 16, 24, *range(32, 257, 16))
    assert targets.mma_atom("wgmma.m64n256k32.s32.u8").ptx == "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8"


def test_f64_has_one_shape_on_every_target_and_three_more_from_sm_90_on():
    """PTX ISA, "mma", "Target ISA Notes": m8n8k4 needs sm_80, m16n8k4, m16n8k8 and m16n8k16 need sm_90 and PTX 7.8."""
    first, *larger = (f"mma.m{m}n8k{k}.f64.f64" for m, k in ((8, 4), (16, 4), (16, 8), (16, 16)))
    for target in targets.KNOWN:
        expected = [first, *larger] if target.compute_capability >= (9, 0) else [first]
        assert [name for name in target.mma_atoms if name in F64_ATOMS] == expected
    assert [targets.mma_atom(name).ptx_version for name in (first, *larger)] == [70, 78, 78, 78]
    with pytest.raises(TargetError, match=r"sm_89.*mma\.m16n8k8\.f64\.f64.*\[target-mma\]"):
        targets.get("sm_89").mma(larger[1])


@pytest.mark.parametrize("target", targets.KNOWN, ids=lambda target: target.name)
def test_a_target_has_no_atoms_of_later_ones(target):
    assert all(targets.mma_atom(name).compute_capability <= target.compute_capability for name in target.mma_atoms)


@pytest.mark.parametrize("n", [8, 64, 136, 256])
def test_the_accumulator_of_wgmma_is_the_isas_fragment(n):
    # PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16": the matrix fragment of D.
    atom = targets.mma_atom(f"wgmma.m64n{n}k16.f32.bf16")
    held = coordinates(atom.layout("c"), (64, n))
    assert held.shape[:2] == (128, n // 2)
    for thread, value in np.ndindex(held.shape[:2]):
        warp, lane = divmod(thread, 32)
        row = 16 * warp + lane // 4 + 8 * (value // 2 % 2)
        column = 8 * (value // 4) + 2 * (lane % 4) + value % 2
        assert tuple(held[thread, value]) == (row, column)


def test_only_architecture_specific_targets_have_wgmma():
    name = "wgmma.m64n256k16.f32.bf16"
    assert targets.get("sm_90a").mma(name).threads == 128
    for target in ("sm_80", "sm_90"):
        with pytest.raises(TargetError, match=r"wgmma.*\[target-mma\]"):
            targets.get(target).mma(name)


def test_copy_atoms_say_where_from_where_to_and_how_much():
    async_copy = targets.copy_atom("cp.async.16")
    assert (async_copy.source, async_copy.destination, async_copy.bytes_per_thread) == ("gmem", "smem", 16)
    matrix = targets.copy_atom("ldmatrix.x4.trans")
    assert (matrix.threads, matrix.matrices, matrix.transposed, matrix.bytes_per_thread) == (32, 4, True, 16)
    assert targets.copy_atom("st.global.8").destination == "gmem"


def test_an_unknown_atom_is_refused_with_the_nearest():
    with pytest.raises(TargetError, match=r"'mma\.m16n8k16\.f32\.bf16'.*\[unknown-atom\]"):
        targets.mma_atom("mma.m16n8k16.f32.bf61")
    with pytest.raises(TargetError, match=r"copy.*'cp\.async\.32'.*\[unknown-atom\]"):
        targets.copy_atom("cp.async.32")


@pytest.mark.parametrize("name", [name for name in targets.COPY_ATOMS if re.search(r"\.\d+$", name)])
def test_a_copy_atom_moves_the_bytes_that_its_name_says(name):
    """PTX ISA: cp.async copies 4, 8 or 16 bytes; ld and st up to 16."""
    atom = targets.copy_atom(name)
    assert atom.bytes_per_thread == int(name.rpartition(".")[2])
    assert atom.bytes_per_thread in ((4, 8, 16) if atom.is_cp_async else (1, 2, 4, 8, 16))


def test_a_tma_copy_has_a_tensor_map_of_the_rank_that_its_name_says_and_others_have_none():
    ranks = {name: atom.tensor_rank for name, atom in targets.COPY_ATOMS.items() if atom.tensor_rank}
    assert ranks == {"tma": 2, "tma.3d": 3, "tma.4d": 4, "tma.5d": 5}
