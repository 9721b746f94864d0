"""Number domains: what rounds, what stays exact, what is refused."""

import ml_dtypes
import numpy as np
import pytest

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import domain


def values(*numbers: float, name: str = "float") -> np.ndarray:
    return domain(name).from_array(np.array(numbers))


def test_each_float_operation_rounds_once_to_its_type() -> None:
    floats = domain("float")
    one, tiny = values(1.0), values(2.0**-24)
    assert floats.add(one, tiny, "f32") == 1.0
    assert floats.add(one, 2 * tiny, "f32") == 1.0 + 2.0**-23
    assert floats.add(one, values(2.0**-9), "bf16") == 1.0
    assert floats.fma(values(1 + 2.0**-23), values(1 + 2.0**-23), values(-1.0), "f32") == np.float32(
        2.0**-22 + 2.0**-46
    )


@pytest.mark.parametrize("dtype, numpy_type", [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)])
def test_rounding_is_that_of_the_numpy_type(dtype: str, numpy_type: type) -> None:
    numbers = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    rounded = domain("float").round(numbers.astype(np.float64), dtype)
    assert np.array_equal(rounded, numbers.astype(numpy_type).astype(np.float64))


def test_bits_of_floats_are_those_of_the_format() -> None:
    floats = domain("float")
    assert floats.to_bits(values(1.5), "bf16") == 0x3FC0
    assert floats.to_bits(values(1.5), "f32") == 0x3FC00000
    assert floats.from_bits(np.array([0x3E00]), "f16") == 1.5


def test_maximum_keeps_nan_and_max_number_drops_it() -> None:
    floats = domain("float")
    assert np.isnan(floats.maximum(values(np.nan), values(1.0)))
    assert floats.max_number(values(np.nan), values(1.0)) == 1.0


@pytest.mark.parametrize(
    "predicate, expected",
    [("olt", [True, False, False]), ("ult", [True, False, True]), ("uno", [False, False, True]), ("true", [True] * 3)],
)
def test_comparisons_say_what_holds_for_nan(predicate: str, expected: list[bool]) -> None:
    x, y = values(1.0, 2.0, np.nan), values(2.0, 2.0, 0.0)
    assert domain("float").compare(predicate, x, y).tolist() == expected


def test_exact_integers_do_not_round_where_floats_do() -> None:
    big = 2**24 + 1
    assert domain("exact").add(values(big, name="exact"), values(0, name="exact"), "f32") == big
    assert domain("float").add(values(big), values(0), "f32") != big
    assert domain("exact").round(values(big, name="exact"), "bf16") == big


@pytest.mark.parametrize("name", ["float", "exact", "field"])
def test_dot_agrees_with_integers(name: str) -> None:
    numbers, generator = domain(name), np.random.default_rng(1)
    a, b, c = (generator.integers(0, 9, shape) for shape in ((16, 24), (8, 24), (16, 8)))
    result = numbers.dot(*(numbers.from_array(matrix) for matrix in (a, b, c)), "f32")
    assert np.array_equal(result, a @ b.T + c)


def test_exact_dot_of_large_numbers_does_not_go_through_floats() -> None:
    exact = domain("exact")
    a = exact.from_array(np.full((1, 3), 2**28 + 1))
    assert exact.dot(a, a, np.zeros((1, 1), np.int64), "f32") == 3 * (2**28 + 1) ** 2


def test_exact_refuses_what_may_overflow() -> None:
    exact = domain("exact")
    with pytest.raises(InterpreterError, match=r"beyond 2\^62.*\[domain-lacks\]"):
        exact.multiply(values(2**40, name="exact"), values(2**40, name="exact"), "f32")


@pytest.mark.parametrize("call", ["constant", "exp", "input", "divide", "bits"])
def test_exact_refuses_what_has_no_integer_result(call: str) -> None:
    exact, three = domain("exact"), values(3, name="exact")
    calls = {
        "constant": lambda: exact.constant(0.5, "f32"),
        "exp": lambda: exact.apply("exp", "f32", three),
        "input": lambda: exact.from_array(np.array([0.5])),
        "divide": lambda: exact.divide(three, values(2, name="exact"), "f32"),
        "bits": lambda: exact.to_bits(three, "f32"),
    }
    with pytest.raises(InterpreterError, match=r"'exact'.*\[domain-lacks\]"):
        calls[call]()


def test_field_has_halves_and_inverses() -> None:
    field = domain("field")
    half = field.constant(0.5, "f32")
    assert field.multiply(half, values(6, name="field"), "f32") == 3
    assert field.divide(values(3, name="field"), values(7, name="field"), "f32") * 7 % field.prime == 3
    assert field.multiply(field.constant(-0.25, "f32"), values(8, name="field"), "f32") == field.prime - 2


def test_field_dot_of_large_residues_is_exact() -> None:
    field, generator = domain("field"), np.random.default_rng(2)
    a, b = (generator.integers(0, field.prime, (4, 5)) for _ in range(2))
    expected = (a.astype(object) @ b.T.astype(object)) % field.prime
    assert np.array_equal(field.dot(a, b, np.zeros((4, 4), np.int64), "f32"), expected.astype(np.int64))


def test_field_refuses_order() -> None:
    field, one = domain("field"), values(1, name="field")
    for refused in (lambda: field.maximum(one, one), lambda: field.compare("olt", one, one)):
        with pytest.raises(InterpreterError, match=r"order.*\[domain-lacks\]"):
            refused()


def test_unknown_domain_names_those_there_are() -> None:
    with pytest.raises(InterpreterError, match=r"float, hopper, exact, field.*\[unknown-domain\]"):
        domain("posit")
