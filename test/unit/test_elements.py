"""The rows of element types agree with what numpy, ml_dtypes, MLIR and the CUDA driver know of these types."""

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver, runtime
from mlir import ir

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.elements import ELEMENTS, element_of_ir, element_type
from lowtide.runtime.dtypes import from_bits, half_unit, round_to, stored_dtype, to_bits

CUT = [name for name, row in ELEMENTS.items() if row.storage is not None]
FLOATS = [name for name, row in ELEMENTS.items() if row.is_float and name not in CUT]
INTEGERS = [name for name in ELEMENTS if name not in (*FLOATS, *CUT)]
NARROW = [name for name in FLOATS if element_type(name).bits <= 16]


@pytest.mark.parametrize("name", FLOATS)
def test_the_range_of_a_float_is_that_of_finfo(name):
    row, info = element_type(name), ml_dtypes.finfo(numpy_dtype(name))
    assert (row.bits, row.precision) == (info.bits, info.nmant + 1)
    assert (row.largest, row.lowest) == (float(info.max), float(info.min))
    assert (row.spacing, row.smallest) == (float(info.eps), float(info.smallest_subnormal))
    assert 2.0**row.min_exponent == float(info.smallest_normal)
    assert row.has_infinity == bool(np.isinf(np.array(np.inf).astype(numpy_dtype(name)).astype(np.float64)))


@pytest.mark.parametrize("name", FLOATS)
def test_integers_are_exact_up_to_the_limit_that_the_row_names_and_no_further(name):
    limit, dtype = element_type(name).exact_integers, numpy_dtype(name)
    assert float(np.array(limit).astype(dtype)) == limit
    if name != "f64":
        assert float(np.array(limit + 1).astype(dtype)) != limit + 1


@pytest.mark.parametrize("name", INTEGERS)
def test_the_range_of_an_integer_is_that_of_iinfo(name):
    row, info = element_type(name), ml_dtypes.iinfo(numpy_dtype(name))
    assert (row.bits, row.largest, row.lowest) == (info.bits, info.max, info.min)


@pytest.mark.parametrize("name", ELEMENTS)
def test_sizes_agree_with_numpy_and_mlir(name):
    row = element_type(name)
    assert numpy_dtype(name).itemsize == stored_dtype(name).itemsize == row.bytes
    assert row.typestr is None or np.dtype(row.typestr) == numpy_dtype(name)
    with ir.Context():
        type_ = ir.Type.parse(row.ir)
        assert type_.width == row.bits or row.storage is not None
        assert element_of_ir(type_) is row


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_driver_has_the_data_type_of_its_tensor_maps(name):
    assert hasattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{element_type(name).tensor_map}")


def test_cudas_numbers_of_the_types_are_those_of_its_bindings():
    named = {f"CUDA_R_{row.bits}{letters}": row for row in ELEMENTS.values() for letters in [_cuda_letters(row)]}
    known = {name: int(value) for name, value in runtime.cudaDataType.__members__.items()}
    assert {name: row.cuda for name, row in named.items()} == {name: known[name] for name in named}


def _cuda_letters(row):
    if row.bits == 8 and row.is_float:
        return f"F_{row.ptx.upper()}"
    return {"float": "BF" if row.name == "bf16" else "F", "signed": "I", "unsigned": "U"}[row.kind]


@pytest.mark.parametrize("name", NARROW)
def test_every_bit_pattern_has_the_value_that_ml_dtypes_gives_it(name):
    bits = np.arange(1 << element_type(name).bits).astype(f"u{element_type(name).bytes}")
    values = from_bits(bits.view(stored_dtype(name)), name)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(values, bits.view(numpy_dtype(name)).astype(np.float64), equal_nan=True)
    back = to_bits(values, name).view(bits.dtype)
    assert np.array_equal(back[~np.isnan(values)], bits[~np.isnan(values)])
    assert np.isnan(from_bits(to_bits(values[np.isnan(values)], name), name)).all()


@pytest.mark.parametrize("name", FLOATS)
def test_rounding_is_that_of_numpy_and_ml_dtypes(name):
    """Over the type's whole range and past both ends, on f32 values: from float64 ml_dtypes rounds twice."""
    row, rng = element_type(name), np.random.default_rng(7)
    exponents = rng.uniform(max(np.log2(row.smallest) - 3, -148), min(np.log2(row.largest) + 2, 127), 5000)
    drawn = (np.exp2(exponents) * rng.choice([-1.0, 1.0], 5000)).astype(np.float32)
    ties = from_bits(np.arange(200).astype(stored_dtype(name)), name) + row.smallest / 2
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, row.largest, row.lowest])
    with np.errstate(all="ignore"):
        values = np.concatenate([drawn, ties, special]).astype(np.float32).astype(np.float64)
        expected = values.astype(np.float32).astype(numpy_dtype(name)).astype(np.float64)
    rounded = round_to(values, name)
    assert np.array_equal(rounded, expected, equal_nan=True)
    is_number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(rounded)[is_number], np.signbit(expected)[is_number])


def test_float64_is_rounded_once():
    value = 1 + 2.0**-8 + 2.0**-40  # above the middle between two bf16, which is where f32 would put it
    assert float(round_to(value, "bf16")) == 1 + 2.0**-7


@pytest.mark.parametrize("name", FLOATS)
def test_rounding_moves_no_number_by_more_than_half_a_unit(name):
    row = element_type(name)
    values = np.random.default_rng(3).standard_normal(1000) * min(row.largest / 8, 1.0)
    assert np.all(np.abs(round_to(values, name) - values) <= half_unit(values, name))
    assert float(half_unit(0.0, name)) == row.smallest / 2


def test_an_unknown_name_says_what_is_known():
    with pytest.raises(
        lt.SpecError, match=r"unknown element type 'f12'; known are f16, bf16, tf32, f32, f64.*\[unknown-element\]"
    ):
        element_type("f12")


def test_of_tf32_the_bits_below_its_precision_are_not_multiplied():
    assert {name for name in ELEMENTS if element_type(name).bits_cut} == {"tf32"}
    value = np.float32(1 + 2.0**-10 + 2.0**-11)
    kept = value.view(np.int32) & -(1 << element_type("tf32").bits_cut)
    assert kept.view(np.float32) == np.float32(1 + 2.0**-10)
