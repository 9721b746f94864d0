"""The reference, its error bound, and the comparison: what they accept, and the planted faults that they do not."""

import math

import ml_dtypes
import numpy as np
import pytest

from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue import functions as lt
from lowtide.compiler.epilogue.operands import Full, PerColumn, PerRow, Scalar
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import Groups
from lowtide.errors import SpecError
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import padded_matrix, random_inputs
from lowtide.verification.checking.reference import error_bound, reference, reference_with_bound
from lowtide.verification.checking.verdicts import against_float64

M, N, K = 37, 29, 133


def fused(acc, c: Full, bias: PerColumn, row: PerRow, alpha: Scalar):
    return lt.gelu(alpha * acc + 0.5 * c + bias) - row


def spec_of(**change) -> GemmSpec:
    return GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": fused} | change))


def inputs_of(spec: GemmSpec, seed: int = 3, row_padding: int = 0) -> dict:
    return random_inputs(spec, M, N, K, np.random.default_rng(seed), row_padding)


def accumulate(spec: GemmSpec, inputs: dict) -> np.ndarray:
    """Σ a·b in the accumulator's type, rounded after each product: what the bound is for."""
    type = numpy_dtype(spec.acc)
    left = np.asarray(inputs["a"]) if spec.layout in ("tn", "tt") else np.asarray(inputs["a"]).T
    right = np.asarray(inputs["b"]).T if spec.layout in ("tn", "nn") else np.asarray(inputs["b"])
    acc = np.zeros((left.shape[0], right.shape[1]), dtype=type)
    for k in range(left.shape[1]):
        product = left[:, k, None].astype(np.float32) * right[None, k].astype(np.float32)
        acc = (acc.astype(np.float32) + product).astype(type)
    return acc


def simulate(spec: GemmSpec, inputs: dict, acc: np.ndarray | None = None) -> np.ndarray:
    """A kernel in numpy: accumulator, epilogue in f32, one rounding to D."""
    acc = (accumulate(spec, inputs) if acc is None else acc).astype(np.float32)
    values = {name: np.asarray(value).astype(np.float32) for name, value in inputs.items() if name not in "ab"}
    if "row" in values:
        values["row"] = values["row"][:, None]
    out = acc if spec.epilogue is None else spec.epilogue(acc, **values)
    return np.asarray(out).astype(np.float32).astype(numpy_dtype(spec.d))


SPECS = {
    "bf16": spec_of(),
    "f16": spec_of(a="f16", b="f16", d="f16"),
    "f16 accumulator": spec_of(a="f16", b="f16", d="f32", acc="f16"),
    "f32 out": spec_of(d="f32", layout="nt"),
    "plain": spec_of(epilogue=None, layout="tt"),
    "plain nn": spec_of(epilogue=None, layout="nn", d="f32"),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_right_kernel_is_within_bound(name):
    spec, inputs = SPECS[name], inputs_of(SPECS[name])
    ref, bound = reference_with_bound(spec, **inputs)
    result = compare(spec, simulate(spec, inputs), ref, bound)
    assert result.ok, result.message
    assert np.all(np.isfinite(bound))
    assert "within bound" in result.message


@pytest.mark.parametrize("name", SPECS)
def test_a_kernel_that_drops_products_is_out_of_bound(name):
    spec, inputs = SPECS[name], inputs_of(SPECS[name])
    dropped = 64 if spec.acc == "f16" else 1  # what n roundings of f16 may add up to hides a single product
    ref, bound = reference_with_bound(spec, **inputs)
    matrix = np.array(inputs["a"])
    along_k = matrix.T if spec.layout in ("tn", "tt") else matrix
    along_k[-dropped:] = 0
    result = compare(spec, simulate(spec, inputs | {"a": matrix}), ref, bound)
    assert not result.ok
    assert "out of bound" in result.message


def test_an_epilogue_in_the_wrong_order_is_out_of_bound():
    spec = spec_of(epilogue=lambda acc: lt.relu(acc) - 1.0)
    inputs = inputs_of(spec)
    ref, bound = reference_with_bound(spec, **inputs)
    wrong = np.maximum(accumulate(spec, inputs) - np.float32(1), 0).astype(numpy_dtype("bf16"))
    assert not compare(spec, wrong, ref, bound).ok


def test_one_wrong_element_is_named():
    spec, inputs = SPECS["bf16"], inputs_of(SPECS["bf16"])
    ref, bound = reference_with_bound(spec, **inputs)
    d = simulate(spec, inputs)
    d[5, 7] += 3
    result = compare(spec, d, ref, bound)
    assert result.worst_index == (5, 7)
    assert "1 of 1073 elements are out of bound" in result.message
    assert "d[5, 7] = " in result.message


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_the_reference_is_the_product_in_every_layout(layout):
    spec = spec_of(epilogue=None, layout=layout)
    inputs = inputs_of(spec)
    letters = {"tn": "mk,nk", "tt": "mk,kn", "nn": "km,nk", "nt": "km,kn"}[layout]
    exact = np.einsum(f"{letters}->mn", inputs["a"].astype(np.float64), inputs["b"].astype(np.float64))
    np.testing.assert_allclose(reference(spec, **inputs), exact, rtol=1e-12, atol=1e-12)


def test_reference_and_bound_are_the_same_apart_and_together():
    spec, inputs = SPECS["bf16"], inputs_of(SPECS["bf16"])
    ref, bound = reference_with_bound(spec, **inputs)
    np.testing.assert_array_equal(ref, reference(spec, **inputs))
    np.testing.assert_array_equal(bound, error_bound(spec, **inputs))


def test_the_accumulators_bound_is_below_gamma_and_close_to_it():
    spec = spec_of(epilogue=None, d="f32")
    inputs = inputs_of(spec)
    a, b = (np.abs(inputs[name].astype(np.float64)) for name in "ab")
    n = K + math.ceil(K / 16) + 2
    gamma = n * 2.0**-23 / (1 - n * 2.0**-23)
    limit = gamma * (a @ b.T)
    bound, ref = error_bound(spec, **inputs), reference(spec, **inputs)
    assert np.all(bound <= limit + np.abs(ref) * 2.0**-23)
    assert np.all(bound >= 0.98 * limit - np.abs(ref) * 2.0**-23)


def test_roundings_without_end_still_have_a_bound():
    spec = GemmSpec(a="f16", b="f16", d="f32", acc="f16")
    ones = np.full((2, 2048), 0.125, dtype=np.float16)
    bound = error_bound(spec, ones, ones)
    assert np.all(np.isfinite(bound))
    assert np.all(bound > 32)  # more than the sum itself: nu ≥ 1


def test_zeros_are_exact():
    spec = GemmSpec(a="f16", b="f16", d="f16")
    zeros = np.zeros((3, 16), dtype=np.float16)
    ref, bound = reference_with_bound(spec, zeros, zeros)
    assert compare(spec, np.zeros((3, 3), np.float16), ref, bound).max_ratio == 0
    assert not compare(spec, np.full((3, 3), 2.0**-10, np.float16), ref, bound).ok


def test_a_result_near_the_largest_may_be_infinite_or_not():
    spec = GemmSpec(a="f16", b="f16", d="f16")
    a = np.array([[256.0], [512.0]], dtype=np.float16)
    b = np.array([[255.9]], dtype=np.float16)  # the first is the largest f16, the second rounds to ∞
    ref, bound = reference_with_bound(spec, a, b)
    assert np.isfinite(bound[0, 0])
    assert np.isinf(bound[1, 0])
    for second in (np.inf, 65504.0):
        result = compare(spec, np.array([[65504.0], [second]], np.float16), ref, bound)
        assert result.ok, result.message
        assert result.judged == 1
        assert "1 of 2 elements cannot be judged (no finite bound" in result.message
    assert not compare(spec, np.array([[100.0], [np.inf]], np.float16), ref, bound).ok


def test_nan_passes_only_where_the_reference_has_it():
    spec = GemmSpec(a="bf16", b="bf16", d="bf16")
    a = np.ones((2, 8), dtype=ml_dtypes.bfloat16)
    ref, bound = reference_with_bound(spec, a, a)
    d = ref.astype(ml_dtypes.bfloat16)
    assert compare(spec, d, ref, bound).ok
    d[1, 0] = np.nan
    assert compare(spec, d, ref, bound).worst_index == (1, 0)
    a[1] = np.nan
    ref, bound = reference_with_bound(spec, a, np.ones_like(a))
    assert compare(spec, ref.astype(ml_dtypes.bfloat16), ref, bound).ok
    assert not compare(spec, np.zeros((2, 2), ml_dtypes.bfloat16), ref, bound).ok


def test_infinite_inputs_must_give_infinite_results():
    spec = GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=lambda acc: lt.relu(acc))
    a = np.ones((1, 8), dtype=ml_dtypes.bfloat16)
    a[0, 0] = np.inf
    ref, bound = reference_with_bound(spec, a, np.ones_like(a))
    assert ref[0, 0] == np.inf
    assert compare(spec, ref.astype(ml_dtypes.bfloat16), ref, bound).ok


def test_infinite_inputs_leave_nothing_open_unless_finite_ones_may_overflow():
    spec = GemmSpec(a="bf16", b="bf16", d="bf16")
    a = np.ones((3, 8), dtype=ml_dtypes.bfloat16)
    a[0, 0], a[1, :2], a[2, 0] = np.inf, [np.inf, -np.inf], -np.inf
    a[2, 1:3] = 3e38  # +∞ in one order of the sums: then NaN
    ref, bound = reference_with_bound(spec, a, np.ones((1, 8), dtype=ml_dtypes.bfloat16))
    assert bound.ravel().tolist() == [0.0, 0.0, np.inf]
    d = np.array([[np.inf], [np.nan], [-np.inf]])
    assert compare(spec, d, ref, bound).ok
    for index, wrong in ((0, -np.inf), (0, 3e38), (1, 1.0)):
        planted = d.copy()
        planted[index] = wrong
        assert compare(spec, planted, ref, bound).worst_index == (index, 0)


def overflowing(acc):
    e = lt.exp(2.0 * acc)
    return (e - 1.0) / (e + 1.0)


def sums(*values: float) -> dict[str, np.ndarray]:
    """Inputs whose product is the values, in one column."""
    a = np.zeros((len(values), 8), dtype=ml_dtypes.bfloat16)
    a[:, 0] = values
    b = np.zeros((1, 8), dtype=ml_dtypes.bfloat16)
    b[0, 0] = 1
    return {"a": a, "b": b}


def test_a_right_kernel_that_overflows_to_nan_passes_and_a_wrong_element_beside_it_does_not():
    """e²ˣ is infinite in f32 for 64, and ∞ / ∞ is NaN; float64 says 1."""
    spec = GemmSpec(a="bf16", b="bf16", d="f32", epilogue=overflowing)
    ref, bound = reference_with_bound(spec, **sums(0.5, 64.0, 1.0))
    assert np.isfinite(bound).ravel().tolist() == [True, False, True]
    d = ref.copy()
    d[1] = np.nan
    result = compare(spec, d, ref, bound)
    assert result.ok, result.message
    assert result.judged == 2
    assert "1 of 3 elements cannot be judged" in result.message
    for wrong in (ref[2, 0] + 0.01, np.nan, np.inf):
        planted = d.copy()
        planted[2] = wrong
        result = compare(spec, planted, ref, bound)
        assert not result.ok
        assert result.worst_index == (2, 0)
        assert "1 of 3 elements are out of bound" in result.message
        assert "1 of 3 elements cannot be judged" in result.message


def test_without_an_element_that_can_be_judged_there_is_no_verdict():
    spec = GemmSpec(a="bf16", b="bf16", d="f32", epilogue=overflowing)
    ref, bound = reference_with_bound(spec, **sums(64.0, 80.0))
    result = compare(spec, ref, ref, bound)
    assert not result.ok
    assert result.judged == 0
    assert "none of the 2 elements can be judged" in result.message
    assert against_float64(spec, sums(64.0, 80.0), ref).word == "NOT JUDGED"
    assert against_float64(spec, sums(0.5, 80.0), reference(spec, **sums(0.5, 80.0))).word == "ok"


@pytest.mark.parametrize("function", [lt.sqrt, lt.rsqrt, lt.log])
def test_a_function_of_what_may_be_negative_is_nan_for_certain_or_open(function):
    spec = GemmSpec(a="bf16", b="bf16", d="f32", epilogue=lambda acc: function(acc))
    inputs = sums(4.0, -4.0, 0.0)
    inputs["a"][2, 1:3], inputs["b"][0, 1:3] = [1, -1], 1  # 0 within the error of its sum
    ref, bound = reference_with_bound(spec, **inputs)
    assert bound[1, 0] == 0
    assert np.isnan(ref[1, 0])
    assert np.isinf(bound[2, 0])
    for open_ in (np.nan, 2.0**-12):
        assert compare(spec, np.array([ref[0], ref[1], [open_]]), ref, bound).ok
    assert not compare(spec, np.array([ref[0], [0.0], [0.0]]), ref, bound).ok
    assert not compare(spec, np.array([[np.nan], ref[1], [0.0]]), ref, bound).ok


def test_a_comparison_with_nan_takes_the_other_side():
    def chosen(acc):
        root = lt.sqrt(acc)
        return lt.where(root >= 0.0, root, -1.0) + lt.where(root != root, 8.0, 0.0)

    spec = GemmSpec(a="bf16", b="bf16", d="f32", epilogue=chosen)
    ref, bound = reference_with_bound(spec, **sums(4.0, -4.0))
    assert ref.ravel().tolist() == [2.0, 7.0]
    assert np.all(bound < 1e-3)
    assert compare(spec, ref, ref, bound).ok


def test_subnormal_results_are_rounded_by_their_spacing():
    spec = GemmSpec(a="f16", b="f16", d="f16")
    a = np.array([[2.0**-14]], dtype=np.float16)
    b = np.array([[2.0**-10 * 1.5]], dtype=np.float16)  # 1.5 · 2⁻²⁴: between the first two subnormals
    ref, bound = reference_with_bound(spec, a, b)
    assert bound[0, 0] == pytest.approx(2.0**-25, rel=1e-4)
    assert compare(spec, np.array([[2.0**-24]], np.float16), ref, bound).ok
    assert compare(spec, np.array([[2.0**-23]], np.float16), ref, bound).ok
    assert not compare(spec, np.array([[0.0]], np.float16), ref, bound).ok


def test_random_inputs_pad_rows_with_nan_and_align_those_of_a_and_b():
    spec = SPECS["bf16"]
    inputs = inputs_of(spec, row_padding=3)
    assert set(inputs) == {"a", "b", "c", "bias", "row", "alpha"}
    assert inputs["a"].shape == (M, K)
    assert inputs["a"].strides == (136 * 2, 2)
    assert inputs["c"].strides == ((N + 3) * 2, 2)
    assert isinstance(inputs["alpha"], float)
    assert np.all(np.isnan(inputs["a"].base.astype(np.float32).reshape(M, -1)[:, K:]))
    assert not np.any(np.isnan(inputs["a"].astype(np.float32)))


def test_random_inputs_depend_on_the_seed_alone():
    spec = SPECS["bf16"]
    np.testing.assert_array_equal(inputs_of(spec, 1)["a"], inputs_of(spec, 1)["a"])
    assert np.any(inputs_of(spec, 1)["a"] != inputs_of(spec, 2)["a"])


def test_padded_rows_hold_their_values():
    matrix = padded_matrix(np.arange(6.0).reshape(2, 3), "f32", 5)
    assert matrix.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert matrix.strides == (20, 4)


def test_large_outputs_are_evaluated_in_blocks(monkeypatch):
    spec, inputs = SPECS["bf16"], inputs_of(SPECS["bf16"])
    whole = reference_with_bound(spec, **inputs)
    monkeypatch.setattr("lowtide.verification.checking.parts._BLOCK", 64)
    np.testing.assert_array_equal(whole, reference_with_bound(spec, **inputs))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.zeros((M, K + 1))}, r"a says K = 134, b says 133.*\[reference-k\]"),
        ({"a": np.zeros(K)}, r"a has shape \(133,\); layout tn wants \(any, any\).*\[reference-shape\]"),
        (
            {"bias": np.zeros(N + 1)},
            r"operand 'bias' has shape \(30,\); per_column wants \(29,\).*\[reference-operand\]",
        ),
        ({"c": np.zeros((N, M))}, r"full.*\(37, 29\).*\[reference-operand\]"),
        ({"alpha": np.zeros(1)}, r"scalar wants \(\).*\[reference-operand\]"),
        ({"beta": 1.0}, r"given: \['alpha', 'beta', .*takes \['alpha', 'bias', 'c', 'row'\].*\[reference-operands\]"),
    ],
)
def test_what_does_not_fit_the_spec_is_refused(change, message):
    spec = SPECS["bf16"]
    with pytest.raises(SpecError, match=message):
        reference(spec, **(inputs_of(spec) | change))


def scaled(acc, c: Full, scale: Scalar):
    return scale * acc + c


@pytest.mark.parametrize(("n", "batch"), [(0, None), (6, 0)])
def test_a_d_without_elements_has_its_shape(n, batch):
    fields = {"a": "bf16", "b": "bf16", "d": "f32"} | ({} if batch is None else {"batch": None})
    spec = GemmSpec(**fields, epilogue=scaled)
    given = {} if batch is None else {"batch": batch}
    inputs = random_inputs(spec, 5, n, 8, np.random.default_rng(0), **given)
    values, bounds = reference_with_bound(spec, **inputs)
    assert values.shape == bounds.shape == reference(spec, **inputs).shape == ((5, 0) if n == 0 else (0, 5, 6))


def test_static_extents_are_checked():
    spec = spec_of(m=M + 1)
    with pytest.raises(SpecError, match=r"m = 37 contradicts the spec's 38.*\[reference-fixed\]"):
        inputs_of(spec)
    with pytest.raises(SpecError, match=r"layout tn.*\(38, any\).*\[reference-shape\]"):
        reference(spec, **inputs_of(SPECS["bf16"]))
    with pytest.raises(SpecError, match=r"n is a run-time argument.*\[reference-extent\]"):
        random_inputs(spec, None, None, K, np.random.default_rng(0))


def test_shapes_that_differ_are_not_compared():
    with pytest.raises(SpecError, match=r"all three must have D's shape.*\[compared-shapes\]"):
        compare(SPECS["bf16"], np.zeros((2, 3)), np.zeros((3, 2)), np.zeros((3, 2)))


def test_each_group_of_rows_has_a_matrix_of_its_own_in_the_reference():
    spec = spec_of(groups=3)
    inputs = inputs_of(spec)
    inputs["ends"] = np.array([20, 10, 30], np.int32)  # the second end counts as 20
    found, bound = reference_with_bound(spec, **inputs)
    one = spec_of()
    own = {"c", "row", "a"}
    for rows, group in ((slice(0, 20), 0), (slice(20, 30), 2)):
        part = {name: value[rows] if name in own else value for name, value in inputs.items() if name != "ends"}
        expected = reference(one, **part | {name: inputs[name][group] for name in ("b", "bias")})
        np.testing.assert_array_equal(found[rows], expected)
    assert np.isinf(bound[30:]).all()
    assert np.isfinite(bound[:30]).any()
    with pytest.raises(SpecError, match=r"\[reference-groups\]"):
        reference(spec, **inputs | {"ends": inputs["ends"][:2]})


def test_rows_that_do_not_count_are_not_judged():
    spec, one = spec_of(batch=3, counts=True), spec_of(m=None)
    inputs = random_inputs(spec, M, N, K, np.random.default_rng(0), batch=3, shared=["row"])
    inputs["counts"] = np.array([7, -3, 2**31 - 1], np.int32)
    found, bound = reference_with_bound(spec, **inputs)
    for group, rows in ((0, slice(0, 7)), (2, slice(0, M))):
        part = {name: value[group] for name, value in inputs.items() if name not in ("counts", "row", "alpha")}
        part |= {name: part[name][rows] for name in ("a", "c")} | {"row": inputs["row"][rows]}
        others = {"alpha": inputs["alpha"]} if "alpha" in inputs else {}
        np.testing.assert_array_equal(found[group, rows], reference(one, **part | others))
    assert np.isinf(bound[0, 7:]).all() and np.isinf(bound[1]).all() and np.isfinite(bound[2]).any()
    d = found.astype(np.float32).astype(numpy_dtype("bf16"))
    d[0, 7:], d[1] = 77, np.nan
    assert against_float64(spec, inputs, d).ok
    d[0, 6, 1] += 1 + abs(d[0, 6, 1])
    assert "[0, 6, 1]" in against_float64(spec, inputs, d).message
    assert against_float64(spec, inputs | {"counts": np.zeros(3, np.int32)}, d).message == "no row counts"


def test_each_group_of_k_has_a_matrix_of_d_of_its_own_in_the_reference():
    spec = spec_of(groups=Groups(3, "k"), layout="nt")
    inputs = inputs_of(spec)
    inputs["ends"] = np.array([20, -5, 2**31 - 1], np.int32)  # the second group is empty, and the third has all of K
    found, bound = reference_with_bound(spec, **inputs)
    one, others = spec_of(layout="nt", k=None), {name: x for name, x in inputs.items() if name not in ("c", "ends")}
    for group, rows in enumerate((slice(0, 20), slice(20, 20), slice(0, K))):
        own = {name: inputs[name][rows] for name in ("a", "b")} | {"c": inputs["c"][group]}
        expected, own_bound = reference_with_bound(one, **others | own)
        np.testing.assert_array_equal(found[group], expected)
        np.testing.assert_array_equal(bound[group], own_bound)
    d = found.astype(np.float32).astype(numpy_dtype("bf16"))
    assert against_float64(spec, inputs, d).ok
    d[2, 1, 0] += 1 + abs(d[2, 1, 0])
    assert "[2, 1, 0]" in against_float64(spec, inputs, d).message
    with pytest.raises(SpecError, match=r"\[reference-k-groups\]"):
        reference(spec, **inputs | {"ends": inputs["ends"][:2]})
