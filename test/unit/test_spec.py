"""A GemmSpec that cannot be is refused with the reason and the way out."""

import dataclasses

import numpy as np
import pytest

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.functions import relu
from lowtide.compiler.epilogue.operands import Full, OperandKind, PerColumn, Scalar
from lowtide.compiler.epilogue.reductions import sum as sum_of
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import Groups
from lowtide.errors import Error, SpecError

FP8 = {"a": "e4m3", "b": "e4m3"}
GOOD = {"m": 300, "n": 520, "k": 264, "a": "bf16", "b": "bf16", "d": "bf16"}


def adds_ends(acc, ends: PerColumn):
    return acc + ends


def adds_counts(acc, counts: PerColumn):
    return acc + counts


def sums_rows(acc):
    return {"d": acc, "sums": sum_of(acc, dim=1)}


def scaled(acc, c: Full, bias: PerColumn["f32"], alpha: Scalar):  # noqa: F821
    return relu(alpha * acc + 0.5 * c + bias)


@pytest.mark.parametrize(
    ("layout", "a", "b"),
    [
        ("tn", (300, 264), (520, 264)),
        ("tt", (300, 264), (264, 520)),
        ("nn", (264, 300), (520, 264)),
        ("nt", (264, 300), (264, 520)),
    ],
)
def test_shapes_are_those_in_memory(layout, a, b):
    spec = GemmSpec(**GOOD, layout=layout)
    assert (spec.a_shape, spec.b_shape, spec.d_shape) == (a, b, (300, 520))


def test_extents_left_out_are_run_time_arguments():
    spec = GemmSpec(**(GOOD | {"m": None, "k": None}))
    assert (spec.a_shape, spec.b_shape, spec.d_shape) == ((None, None), (520, None), (None, 520))


def test_numpy_integers_become_ints():
    spec = GemmSpec(**(GOOD | {"m": np.int64(7)}))
    assert type(spec.m) is int


def test_operands_take_their_types_from_annotation_or_d():
    spec = GemmSpec(**GOOD, epilogue=scaled)
    assert [(operand.name, operand.kind, operand.dtype) for operand in spec.operands] == [
        ("c", OperandKind.FULL, "bf16"),
        ("bias", OperandKind.PER_COLUMN, "f32"),
        ("alpha", OperandKind.SCALAR, "f32"),
    ]
    assert [operand.shape(3, 5) for operand in spec.operands] == [(3, 5), (5,), ()]


def test_a_spec_is_frozen_and_compares_by_what_it_says():
    spec = GemmSpec(**GOOD, epilogue=scaled)
    assert spec == GemmSpec(**GOOD, epilogue=scaled)
    assert spec != GemmSpec(**GOOD)
    assert hash(spec) == hash(GemmSpec(**GOOD, epilogue=scaled))
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.m = 3


def test_8_bit_floats_go_with_each_other_and_fast_sums_are_in_f32():
    spec = GemmSpec(**(GOOD | {"a": "e4m3", "b": "e5m2", "acc": "fast"}))
    assert (spec.acc, spec.sums, spec.is_fast) == ("fast", "f32", True)
    assert GemmSpec(**GOOD).sums == "f32"
    assert dataclasses.replace(spec, acc="f32") != spec


@pytest.mark.parametrize(
    ("a", "b", "d", "acc"),
    [
        ("bf16", "bf16", "f32", "f32"),
        ("f16", "f16", "f16", "f32"),
        ("f64", "f64", "f64", "f64"),
        ("s8", "u8", "s8", "s32"),
    ],
)
def test_accumulators_are_those_of_the_inputs_where_none_are_given(a: str, b: str, d: str, acc: str) -> None:
    spec = GemmSpec(m=16, n=16, k=16, a=a, b=b, d=d)
    assert (spec.acc, spec.sums) == (acc, acc)
    assert spec == GemmSpec(m=16, n=16, k=16, a=a, b=b, d=d, acc=acc)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"a": "float16"},
            r"unknown dtype 'float16' for a: valid are f16, bf16, tf32, f32, f64, s8, u8, e4m3, e5m2; did you mean",
        ),
        ({"b": "bf61"}, r"did you mean 'bf16'\?"),
        ({"b": "c64"}, r"unknown dtype 'c64' for b: valid are f16, .*, u4 \[unknown-word\]$"),
        ({"d": "f64"}, r"d='f64' with f32 accumulators: valid are f16, bf16, f32, e4m3, e5m2, s8, u8"),
        ({"a": "f64", "b": "f64", "acc": "f32"}, "acc='f32' with f64 inputs: .*; use acc='f64'"),
        ({"a": "f64", "b": "f64", "acc": "f64"}, r"'bf16'.*f64.*valid are f64.*\[d-of-sums\]"),
        ({"a": "f64"}, r"f64.*bf16.*f64.*f64.*\[types-differ\]"),
        ({"acc": "f64"}, "f64 accumulators take f64 inputs only; use acc='f32'"),
        ({"a": np.float16}, "unknown dtype .* for a: valid are f16, bf16"),
        ({"a": ["f16"]}, r"dtype.*\[unknown-word\]"),
        ({"acc": "bf16"}, r"accumulator 'bf16' for acc: valid are f32, f16.*\[unknown-word\]"),
        ({"acc": "f16"}, "f16 accumulators take f16 inputs only; use acc='f32'"),
        ({"a": "f16"}, r"f16.*bf16.*\[types-differ\]"),
        ({"a": "e4m3"}, r"e4m3.*bf16.*e4m3.*e4m3 or e5m2.*\[types-differ\]"),
        ({"a": "f64", "b": "f64", "acc": "fast"}, "f32 accumulators take .* inputs only; use acc='f64'"),
        ({"layout": "nnt"}, r"unknown layout 'nnt': valid are tn, tt, nn, nt; did you mean"),
        ({"layout": "TN"}, r"did you mean 'tn'\?.*\[unknown-word\]"),
        ({"n": -4}, r"n is -4; it must be at least 0, or None for a run-time argument.*\[extent-least\]"),
        ({"batch": 0}, "batch is 0; it must be at least 1"),
        ({"groups": 0}, "groups is 0; it must be at least 1"),
        ({"groups": 2, "batch": 3}, r"groups with a batch are not supported.*\[groups-beside\]"),
        ({"groups": Groups(2, "k"), "d_order": "column"}, r"groups with d_order='column'.*\[groups-beside\]"),
        ({"groups": 2, "d_order": "column", "d": "e4m3"}, r"e4m3 by columns.*\[groups-columns-result\]"),
        (FP8 | {"groups": 2, "block_scales": BlockScales(a=(128, 128))}, r"use a=\(1, 128\) \[scales-groups\]"),
        (
            {"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3", "groups": Groups(2, "k"), "layout": "nt"},
            r"groups with precision='tf32x3' are not supported.*\[groups-beside\]",
        ),
        ({"groups": Groups(0, "k"), "layout": "nt"}, "groups is 0; it must be at least 1"),
        ({"groups": Groups(2, "n"), "layout": "nt"}, r"unknown axis 'n' for groups.*\[unknown-word\]"),
        ({"groups": Groups(2, "k")}, r"groups of K with layout='tn'.*use layout='nt' \[k-groups-layout\]"),
        ({"groups": Groups(2, "k"), "layout": "nt", "k": 2**30 + 1}, r"k is 1073741825;.*\[k-groups-k\]"),
        ({"groups": 2, "epilogue": adds_ends}, r"operand 'ends' has the name of the ends.*\[ends-operand-name\]"),
        ({"counts": True}, r"counts=True without a batch.*give batch=.*\[counts-batch\]"),
        ({"counts": 1, "batch": 2}, r"counts is 1 \(int\); it must be True or False \[rows-word\]"),
        (
            {"counts": True, "batch": 2, "precision": "tf32x3", "a": "f32", "b": "f32"},
            r"counts of rows with precision.*\[counts-beside\]",
        ),
        (
            {"counts": True, "batch": 2, "d_order": "column", "d": "e5m2"},
            r"e5m2 by columns with groups of rows.*use d_order='row'.*\[groups-columns-result\]",
        ),
        *(
            (fields | {"d_order": "column"}, rf"with d_order='column' are not.*\[{code}\]")
            for fields, code in (
                ({"groups": 2, "lists": "b"}, "lists-beside"),
                ({"groups": 2, "a_rows": True}, "a-rows-beside"),
                ({"groups": 2, "d_rows": True}, "d-rows-beside"),
                ({"batch": 2, "counts": True, "pairs": "stacked"}, "pairs-beside"),
            )
        ),
        ({"counts": True, "batch": 2, "a_rows": True}, r"rows of A at an index with a batch.*\[a-rows-beside\]"),
        (
            {"counts": True, "batch": 2, "epilogue": sums_rows},
            r"other groups none.*\[reduction-groups\]",
        ),
        ({"counts": True, "batch": 2, "epilogue": adds_counts}, r"operand 'counts' has.*\[ends-operand-name\]"),
        ({"amax": 3}, r"amax is 3 \(int\); it must be True or False.*\[amax-word\]"),
        ({"k": 2**31}, r"k is 2147483648; .* split the problem.*\[extent-most\]"),
        ({"m": 1.0}, r"m is 1.0 \(float\); it must be an integer"),
        ({"m": True}, r"m is True \(bool\)"),
        ({"m": "128"}, r"m is '128' \(str\)"),
        ({"epilogue": 3}, "epilogue is int 3; it must be a function"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(change, message):
    with pytest.raises(SpecError, match=message) as caught:
        GemmSpec(**(GOOD | change))
    assert isinstance(caught.value, Error)


@pytest.mark.parametrize("extent", [0, 2**31 - 1])
def test_the_smallest_and_the_largest_extent_are_allowed(extent):
    assert GemmSpec(**(GOOD | {"m": extent})).m == extent
