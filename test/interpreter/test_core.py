"""Each level computes the GEMM that it says, under every order of agents; inputs that do not fit are refused."""

import re

import ml_dtypes
import numpy as np
import pytest
from gemm_programs import LEVELS, program
from mlir import ir
from support import assert_same, gemm_inputs, integer_matrix

from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, interpret

# (M, N, K): one tile; ragged everywhere; trip counts 1, 2 (stages - 1), 3, 7 (2 · stages + 1); more tiles than CTAs
SHAPES = [(32, 32, 32), (33, 70, 100), (1, 1, 1), (40, 8, 64), (16, 33, 96), (20, 40, 224), (100, 72, 8)]


def inputs_of(m, n, k, seed=0):
    """Rows padded, their strides multiples of 16 bytes."""
    rng = np.random.default_rng(seed)
    bias = rng.integers(-5, 6, n)
    return gemm_inputs(m, n, k, padding=-max(m, n, k) % 8 + 8, seed=seed, bias=bias) | {
        "a": integer_matrix(rng, m, k, 8 - k % 8),
        "b": integer_matrix(rng, n, k, 16 - k % 8),
        "d": integer_matrix(rng, m, n, 8 - n % 8),
        "bias": bias,
    }


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_computes_the_gemm_exactly(level, shape):
    inputs = inputs_of(*shape)
    d = assert_same(program("problem"), program(level), inputs)
    np.testing.assert_array_equal(d, inputs["a"] @ inputs["b"].T + inputs["bias"])


@pytest.mark.parametrize("level", ["cta", "atoms", "epilogue"])
@pytest.mark.parametrize("sms", [1, 3, 50])
def test_the_number_of_sms_changes_nothing(level, sms):
    inputs = inputs_of(100, 90, 40)
    d = interpret(program(level), inputs, sms=sms, domain="exact")
    np.testing.assert_array_equal(d, inputs["a"] @ inputs["b"].T + inputs["bias"])


@pytest.mark.parametrize("level", LEVELS)
def test_float_results_are_rounded_as_the_hardware_rounds(level):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((r, 64)).astype(ml_dtypes.bfloat16) for r in (33, 40))
    bias = rng.standard_normal(40).astype(ml_dtypes.bfloat16)
    d = interpret(program(level), {"a": a, "b": b, "bias": bias})
    assert d.dtype == ml_dtypes.bfloat16
    exact = a.astype(np.float64) @ b.T.astype(np.float64) + bias.astype(np.float64)
    half_ulp = np.abs(exact) * 2.0**-8 + 1e-5
    assert (np.abs(d.astype(np.float64) - exact) <= half_ulp).all()


@pytest.mark.parametrize("level", ["problem", "pipelined", "epilogue"])
def test_the_prime_field_gives_the_product_modulo_its_prime(level):
    rng = np.random.default_rng(4)
    a, b, bias = rng.integers(0, 2**31, (8, 40)), rng.integers(0, 2**31, (16, 40)), rng.integers(0, 2**31, 16)
    d = interpret(program(level), {"a": a, "b": b, "bias": bias}, domain="field")
    expected = (a.astype(object) @ b.T.astype(object) + bias) % (2**31 - 1)
    assert (d.astype(object) == expected).all()


def test_two_seeds_give_different_orders_and_the_same_numbers():
    inputs = inputs_of(64, 64, 64)
    results = [interpret(program("atoms"), inputs, seed=seed, domain="exact") for seed in range(4)]
    assert all((result == results[0]).all() for result in results)


# Input that does not fit ----------------------------------------------------------------------------------------------


def refused(text, inputs, message, **options):
    with pytest.raises(InterpreterError, match=message):
        interpret(text, inputs, **options)


def test_an_unknown_level_is_refused():
    refused(
        'module attributes {tile.level = "sass"} {}', {}, r"level 'sass' is not interpreted.*\[level-not-interpreted\]"
    )


def test_a_module_without_a_level_is_refused():
    refused("module {}", {}, r"\[level-unsaid\]")


def test_an_unknown_domain_is_refused():
    refused(program("cta"), inputs_of(8, 8, 8), r"unknown number domain 'real'.*\[unknown-domain\]", domain="real")


def test_sms_below_one_are_refused():
    refused(program("cta"), inputs_of(8, 8, 8), r"at least one SM.*\[sms-least\]", sms=0)


def test_a_missing_operand_is_refused():
    inputs = inputs_of(8, 8, 8)
    del inputs["bias"]
    refused(program("cta"), inputs, r"takes 4 arguments, 3 are given.*\[argument-count\]")


def test_a_matrix_of_the_wrong_rank_is_refused():
    refused(
        program("cta"),
        inputs_of(8, 8, 8) | {"bias": np.zeros((1, 8), np.int64)},
        r"bias.*\(1, 8\).*rank 2.*rank 1.*\[matrix-rank\]",
        domain="exact",
    )


def test_a_column_major_matrix_is_refused():
    refused(program("cta"), inputs_of(8, 8, 8) | {"a": np.zeros((8, 8), int).T}, r"\[columns-strided\]", domain="exact")


def test_overlapping_rows_are_refused():
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(16, np.int64), (8, 8), (8, 8))
    refused(program("cta"), inputs_of(8, 8, 8) | {"a": overlapping}, "overlap", domain="exact")


def test_operands_that_disagree_are_refused():
    given = inputs_of(8, 8, 8) | {"b": integer_matrix(np.random.default_rng(0), 8, 16)}
    refused(
        program("cta"),
        given,
        r"operand b.*\(8, 16\) makes k = 16, but a.*\(8, 8\).*it 8; b.*\[dims-differ\]",
        domain="exact",
    )


def test_operands_that_disagree_fail_the_host_functions_assertion():
    """Where the module does not say how they lie, its own assertions do."""
    given = inputs_of(8, 8, 8) | {"b": integer_matrix(np.random.default_rng(0), 8, 16)}
    text = re.sub(r"attributes {tile\.problem =\s.*>} {", "{", program("cta"))
    refused(text, given, r"K differs in A and B.*\[assertion-failed\]", domain="exact")
    del given["d"]
    refused(text, given, r"\[layout-unsaid\]", domain="exact")


def test_a_fraction_has_no_place_in_the_exact_domain():
    refused(
        program("cta"),
        inputs_of(8, 8, 8) | {"a": np.full((8, 8), 0.5, ml_dtypes.bfloat16)},
        "no an input that is not integer|not integer",
        domain="exact",
    )


def test_an_op_without_meaning_is_named_with_its_place():
    text = program("cta").replace("%zero = tile.splat", "%u = memref.alloc() : memref<4xf32>\n      %zero = tile.splat")
    refused(
        text,
        inputs_of(8, 8, 8),
        r"memref\.alloc .* level cta.*\[op-without-meaning\]",
        domain="exact",
    )


# The rest of what one call may say ------------------------------------------------------------------------------------

_ALL_KINDS = """
module attributes {tile.level = "LEVEL", tile.target = "sm_80"} {
  func.func @gemm(%a: !m, %b: !m, %d: memref<?x?xf32, strided<[?, 1]>>, %c: !m, %row: !v, %column: !v, %s: f32)
      FACTS {
    BODY
    return
  }
  KERNEL
}"""
_KINDS = "operands(full %c : !m, per_row %row : !v, per_column %column : !v, scalar %s : f32)"
_REGION = """{
    ^bb0(%x: f32, %c_mn: bf16, %row_m: bf16, %column_n: bf16, %alpha: f32):
      %0 = arith.extf %c_mn : bf16 to f32
      %1 = arith.extf %row_m : bf16 to f32
      %2 = arith.extf %column_n : bf16 to f32
      %3 = arith.mulf %x, %alpha : f32
      %4 = arith.addf %3, %0 : f32
      %5 = arith.mulf %4, %1 : f32
      %6 = arith.addf %5, %2 : f32
      tile.yield %6 : f32
    }"""
_TYPES = """
!m = memref<?x?xbf16, strided<[?, 1]>>
!v = memref<?xbf16>
!out = memref<?x?xf32, strided<[?, 1]>>
!t = !tile.tile<32x32xf32>
"""


def _facts(layout):
    """What a host function says of its GEMM once tile.gemm is lowered."""
    kinds = "full bf16, per_row bf16, per_column bf16, scalar f32"
    problem = f"#tile.problem<{layout}, a = bf16, b = bf16, acc = f32, results = [full f32], operands = [{kinds}]>"
    return f"attributes {{tile.problem = {problem}}}"


def all_kinds(level, layout):
    gemm = f"tile.gemm {layout} %a, %b into %d acc(f32) {_KINDS} {_REGION} : !m, !m, !out"
    if level == "problem":
        return _TYPES + _ALL_KINDS.replace("LEVEL", level).replace("BODY", gemm).replace("KERNEL", "").replace(
            "FACTS", ""
        )
    a_at, b_at = ("%m, %k" if layout[0] == "t" else "%k, %m"), ("%n, %k" if layout[1] == "n" else "%k, %n")
    k_of = 1 if layout[0] == "t" else 0
    launch = """%one = arith.constant 1 : index
    tile.launch @kernel grid(%one) threads(128) args(%a, %b, %d, %c, %row, %column, %s)
        : !m, !m, !out, !m, !v, !v, f32"""
    kernel = f"""
  tile.kernel @kernel(%a: !m, %b: !m, %d: !out, %c: !m, %row: !v, %column: !v, %s: f32) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %ck = arith.constant {k_of} : index
    %M = memref.dim %d, %c0 : !out
    %N = memref.dim %d, %c1 : !out
    %K = memref.dim %a, %ck : !m
    tile.work_tiles (%m, %n) of (%M, %N) by [32, 32] order(<column>) persistent {{
      %zero = tile.splat 0.0 : !t
      %sum = scf.for %k = %c0 to %K step %c32 iter_args(%acc = %zero) -> (!t) {{
        %at = tile.view %a[{a_at}] : !m to !tile.view<32x32xbf16>
        %bt = tile.view %b[{b_at}] : !m to !tile.view<32x32xbf16>
        %next = tile.mma {layout} %at, %bt, %acc : !tile.view<32x32xbf16>, !tile.view<32x32xbf16>, !t
        scf.yield %next : !t
      }}
      tile.store %sum into %d[%m, %n] {_KINDS} {_REGION} : !t, !out
    }}
    tile.return
  }}"""
    return _TYPES + _ALL_KINDS.replace("LEVEL", level).replace("BODY", launch).replace("KERNEL", kernel).replace(
        "FACTS", _facts(layout)
    )


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("level", ["problem", "cta"])
def test_every_layout_and_every_kind_of_epilogue_operand(level, layout):
    rng = np.random.default_rng(1)
    m, n, k = 45, 70, 50
    a = integer_matrix(rng, *((m, k) if layout[0] == "t" else (k, m)))
    b = integer_matrix(rng, *((n, k) if layout[1] == "n" else (k, n)))
    c, row, column = integer_matrix(rng, m, n, 3), rng.integers(-3, 4, m), rng.integers(-3, 4, n)
    inputs = {"a": a, "b": b, "c": c, "row": row, "column": column, "alpha": 3}
    d = interpret(all_kinds(level, layout), inputs, domain="exact")
    product = (a if layout[0] == "t" else a.T) @ (b.T if layout[1] == "n" else b)
    np.testing.assert_array_equal(d, (3 * product + c) * row[:, None] + column)


def test_a_parsed_module_is_interpreted_too():
    inputs = inputs_of(8, 8, 8)
    with ir.Context():
        module = ir.Module.parse(program("atoms"))
    d = interpret(module, inputs, domain="exact")
    np.testing.assert_array_equal(d, inputs["a"] @ inputs["b"].T + inputs["bias"])


def test_progress_is_told_as_ctas_end():
    told = []
    inputs = inputs_of(100, 100, 8)
    interpret(program("cta"), inputs, sms=5, domain="exact", on_progress=lambda ended, ctas: told.append((ended, ctas)))
    assert told == [(ended, 5) for ended in range(1, 6)]


def test_the_shape_and_strides_of_a_given_d_are_kept_and_its_padding_is_out_of_reach():
    inputs = inputs_of(33, 40, 16) | {"d": np.zeros((33, 64), np.int64)[:, :40]}
    d = interpret(program("epilogue"), inputs, domain="exact")
    np.testing.assert_array_equal(d, inputs["a"] @ inputs["b"].T + inputs["bias"])


def test_a_loaded_module_runs_several_times():
    inputs, other = inputs_of(8, 8, 8), inputs_of(9, 7, 8)
    loaded = Loaded(program("cta"))
    for given, domain in ((inputs, "exact"), (other, "exact"), (inputs, "field")):
        assert np.array_equal(interpret(loaded, given, domain=domain), interpret(program("cta"), given, domain=domain))
