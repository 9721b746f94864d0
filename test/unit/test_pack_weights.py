"""Packed weights: the order of their bytes; what `pack_weights`, specs and schedules refuse."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import lowtide as lt
from lowtide.interpreter.machine.weights import order_of_k, unpacked
from lowtide.interpreter.numbers.domains import domain
from lowtide.runtime.weights import weight_order

RANGES = {"s4": (-8, 7), "u4": (0, 15), "s8": (-128, 127), "u8": (0, 255)}
MIR = {"s4": "si4", "u4": "ui4", "s8": "si8", "u8": "ui8"}


def random_weights(dtype, n=32, k=96):
    low, high = RANGES[dtype]
    return np.random.default_rng(0).integers(low, high, (n, k), endpoint=True)


@pytest.mark.parametrize("dtype", RANGES)
def test_what_is_packed_is_unpacked_by_the_runtime_and_by_the_interpreter(dtype):
    weights = random_weights(dtype)
    packed = lt.pack_weights(weights, dtype)
    assert packed.dtype == np.uint8 and packed.shape == (32 * (8 if dtype[1] == "8" else 4) // 8, 96)
    np.testing.assert_array_equal(lt.unpack_weights(packed, dtype), weights)
    np.testing.assert_array_equal(unpacked(packed, MIR[dtype], domain("exact"), "bf16"), weights)


def test_floats_are_packed_as_their_bits():
    """Every byte: the numbers that ml_dtypes has, and for NaN those that its bits would be."""
    bytes_ = np.arange(256, dtype=np.uint8)
    packed = np.repeat(bytes_[:, None], 32, axis=1)
    weights, own = lt.unpack_weights(packed, "e4m3"), bytes_.view(ml_dtypes.float8_e4m3fn).astype(float)
    are_finite = np.isfinite(own)
    np.testing.assert_array_equal(weights[are_finite, 0], own[are_finite])
    assert weights[~are_finite, 0].tolist() == [480.0, -480.0]
    np.testing.assert_array_equal(lt.pack_weights(weights[are_finite], "e4m3"), packed[are_finite])
    np.testing.assert_array_equal(unpacked(packed, "f8E4M3FN", domain("float"), "f16"), weights)
    of_field = unpacked(packed, "f8E4M3FN", domain("field"), "f16")
    np.testing.assert_array_equal(of_field * 512 % domain("field").prime, weights * 512 % domain("field").prime)


def test_the_order_in_a_block_is_that_of_the_fragments():
    np.testing.assert_array_equal(weight_order(), order_of_k())
    assert weight_order()[:8].tolist() == [0, 8, 1, 9, 16, 24, 17, 25]


def test_rows_and_blocks_may_be_packed_apart():
    weights = random_weights("s4")
    parts = [[lt.pack_weights(weights[r : r + 16, c : c + 32], "s4") for c in (0, 32, 64)] for r in (0, 16)]
    np.testing.assert_array_equal(np.block(parts), lt.pack_weights(weights, "s4"))


@pytest.mark.parametrize(
    ("weights", "dtype", "message"),
    [
        (
            np.zeros((16, 33), int),
            "s4",
            r"K of the weights is 33, must be a multiple of 32: pad .* to 64.*\[weight-k\]",
        ),
        (
            np.zeros((24, 32), int),
            "u4",
            r"N of the weights is 24, of u4 it must be a multiple of 16: pad them to 32 rows.*\[weight-n\]",
        ),
        (np.full((16, 32), 8), "s4", r"8 to 8 .*s4, -8 to 7.*\[weight-range\]"),
        (np.zeros((16, 32)), "s8", r"not float64 .*: quantize them.*\[weight-values\]"),
        (np.zeros((16, 32), int), "bf16", r"weights of 'bf16': they are one of e4m3, s4, u4, s8, u8.*\[weight-type\]"),
        (np.zeros((16, 32), int), "e4m3", r"e4m3.*floats.*int64.*\[weight-values\]"),
        (
            np.full((16, 32), 1.1),
            "e4m3",
            r"1\.1 .*e4m3, .* 448 .* 4 bits.*\[weight-float\]",
        ),
        (np.full((16, 32), 480.0), "e4m3", r"480\.0.*e4m3.*\[weight-float\]"),
        (np.full((16, 32), np.nan), "e4m3", r"nan.*e4m3.*\[weight-float\]"),
    ],
)
def test_weights_that_cannot_be_packed_are_refused(weights, dtype, message):
    with pytest.raises(lt.SpecError, match=message):
        lt.pack_weights(weights, dtype)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"b": "s4"}, r"weights of s4 need groups.*\[weights-need-group\]"),
        ({"b": "s8", "group": 48}, r"group is 48; it must be 32, 64, 128.*\[group-size\]"),
        ({"b": "s8", "scales": "f32"}, r"with scales.*\[weights-need-group\]"),
        ({"b": "s8", "zero_points": True}, r"\[zero-points-group\]"),
        (
            {"b": "e4m3", "group": 128, "zero_points": True},
            r"\[zero-points-type\]",
        ),
        ({"b": "e5m2"}, r"bf16.*e5m2.*\[types-differ\]"),
        ({"b": "s4", "group": 128, "k": 200}, r"k is 200; .* multiple of 128: pad .* to 256.*\[weights-k\]"),
        ({"b": "s8", "k": 0}, r"is 0.*of 32.*\[weights-k\]"),
        (
            {"b": "s4", "group": 64, "n": 40},
            r"n is 40; .* 16 rows at a time: pad them to 48.*\[weights-n\]",
        ),
        ({"b": "s8", "layout": "tt"}, r"\[weights-layout\]"),
        ({"b": "s8", "batch": 2}, r"\[weights-layout\]"),
        ({"b": "s8", "d_order": "column"}, r"\[weights-by-rows\]"),
        ({"b": "bf16", "group": 128}, r"\[weights-beside\]"),
        ({"b": "s4", "group": 128, "scales": "s8"}, r"dtype 's8' for scales.*\[unknown-word\]"),
        ({"a": "f32", "b": "s8"}, r"\[types-differ\]"),
    ],
)
def test_specs_that_weights_do_not_fit_are_refused(fields, message):
    with pytest.raises(lt.SpecError, match=message):
        lt.GemmSpec(**{"a": "bf16", "d": "bf16", **fields})


def test_an_operand_of_the_epilogue_is_not_named_like_the_scales():
    def scaled(acc, scales: lt.PerColumn):
        return acc * scales

    with pytest.raises(lt.SpecError, match=r"the name of the weights' scales: rename it.*\[weights-operand-name\]"):
        lt.GemmSpec(a="bf16", b="s4", d="bf16", group=128, epilogue=scaled)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("roles = cooperative(1), operands = as_given", r"take swapped, or roles = single.*\[weights-order\]"),
        ("roles = pingpong(2)", r"take roles = cooperative.*\[weights-turns\]"),
        ("roles = cooperative(2), a.copy = cp.async.16", r"they stay packed in stages; take tma.*\[weights-copy-a\]"),
        ("roles = cooperative(2), grid.tile = [256, 64], tail = halves", r"take whole.*\[weights-tail\]"),
        ("roles = cooperative(2), promote = none", "take promote = per_step"),
        ("roles = cooperative(2), k = 256", r"take k = 128.*\[weights-group\]"),
        ("operands = swapped, roles = single", r"take as_given, or roles = cooperative.*\[weights-swapped\]"),
        ("atom = mma.m16n8k8", r"take that.*\[weights-atom\]"),
        ("b.copy = staged.16", r"they stay packed in stages; take cp.async.16 \[weights-copy-direct\]"),
        ("prologue = once, scheduler = persistent", r"take per_tile.*\[weights-prologue\]"),
        ("fragment_buffers = 2", r"take 1.*\[converted-buffers\]"),
        ("k = 48", r"take k = 32.*\[weights-block\]"),
        ("k = 256", "take k = 128"),
        ("atoms = [1, 4, 2], grid.tile = [16, 64], epilogue.math = rows", r"take 1 along K.*\[weights-warps\]"),
        (
            "grid.tile = [16, 64], atoms = [1, 4, 1], permutation = [16, 32, 16]",
            r"take a permutation of N such as.*\[weight-rows\]",
        ),
        ("promote = none", "take promote = per_step"),
    ],
)
def test_schedules_that_cannot_take_weights_are_refused_with_a_way_out(schedule, message):
    with pytest.raises(lt.ScheduleError, match=message):
        lt.compile_gemm(lt.GemmSpec(a="bf16", b="s4", d="bf16", group=128), target="sm_90a", schedule=schedule)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_weights_with_sums_in_f16_are_multiplied_by_mma_sync_without_groups_alone(target):
    fields = {"a": "f16", "d": "f16", "acc": "f16"}
    whole, groups = lt.GemmSpec(**fields, b="s8"), lt.GemmSpec(**fields, b="s4", group=128)
    kernel = lt.compile_gemm(whole, target=target)
    assert kernel.schedule.agents.is_single and "f16.f16.f16.f16" in kernel.ptx
    with pytest.raises(lt.ScheduleError, match=r"added in f32; take that acc \[weights-acc-of-groups\]"):
        lt.compile_gemm(groups, target=target)
    lt.compile_gemm(replace(groups, acc="f32"), target=target)


def test_weights_with_sums_in_f16_are_refused_for_wgmma():
    spec = lt.GemmSpec(a="f16", b="s8", d="f16", acc="f16")
    with pytest.raises(lt.ScheduleError, match=r"added in f32; take that acc, or roles = single \[weights-acc\]"):
        lt.compile_gemm(spec, target="sm_90a", schedule="roles = cooperative(2)")
    for other, roles in ((replace(spec, acc="f32"), "cooperative(2)"), (spec, "single")):
        lt.compile_gemm(other, target="sm_90a", schedule=f"roles = {roles}")


def test_an_unpacked_matrix_is_refused():
    kernel = lt.compile_gemm(lt.GemmSpec(m=None, n=32, k=128, a="f16", b="s4", d="f16", group=128), target="sm_80")
    weights = random_weights("s4", 32, 128)
    with pytest.raises(lt.InterpreterError, match=r"operand b.*\[array-dtype\]"):
        kernel.interpret(np.ones((2, 128), np.float16), weights.astype(np.int8), scales=np.ones((1, 32), np.float16))
    with pytest.raises(lt.InterpreterError, match=r"extent 0.*\[matrix-extent\]"):
        packed = lt.pack_weights(weights, "s8")
        kernel.interpret(np.ones((2, 128), np.float16), packed, scales=np.ones((1, 32), np.float16))


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("m", [5, 30, 64, None])
def test_a_schedule_is_chosen_for_every_group_and_number_of_rows(group, m):
    spec = lt.GemmSpec(m=m, n=512, k=256, a="bf16", b="s4", d="bf16", group=group)
    operands = lt.compile_gemm(spec, target="sm_90a").schedule.grid.operands
    assert (operands is not None) == (m is None or m > 32)  # wgmma takes them as A of the swapped product


@pytest.mark.parametrize(("b", "group"), [("s8", 128), ("s4", 32), ("e4m3", None)])
def test_schedules_for_any_number_of_rows_leave_enough_registers(b, group):
    zeros = group is not None
    spec = lt.GemmSpec(a="bf16", b=b, d="bf16", group=group, zero_points=zeros, scales="f32" if group else None)
    assembly = lt.compile_gemm(spec, target="sm_80").assembly
    assert assembly is not None and assembly.registers < 255
