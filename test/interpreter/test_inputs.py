"""What `kernel.interpret` is given is checked as a launch's operands are: dtypes, shapes, scalars, empty extents."""

import math
import re

import ml_dtypes
import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError, LaunchError
from lowtide.interpreter import interpret
from lowtide.interpreter.host import LEVELS
from lowtide.runtime.checks import check_scalar


def scaled(acc, bias: lt.PerColumn, alpha: lt.Scalar):
    return alpha * acc + bias + 1.0


SPEC = lt.GemmSpec(a="f16", b="f16", d="f16", epilogue=scaled)
M, N, K = 40, 24, 16


@pytest.fixture(scope="module", params=["sm_80", "sm_90a"])
def kernel(request):
    return lt.compile_gemm(SPEC, target=request.param)


@pytest.fixture(scope="module")
def sm_80_kernel():
    return lt.compile_gemm(SPEC, target="sm_80")


def given(m=M, n=N, k=K, **changes):
    operands = {
        "a": np.ones((m, k), np.float16),
        "b": np.ones((n, k), np.float16),
        "bias": np.arange(n).astype(np.float16),
        "alpha": 2.0,
    }
    return operands | changes


def refused(kernel, message, **changes):
    with pytest.raises(lt.Error, match=re.escape(message)):
        kernel.interpret(**given(**changes))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool", "complex128", ">f2"])
def test_another_dtype_is_refused_and_not_rounded(sm_80_kernel, dtype):
    known = {"float64": "f64", "float32": "f32"}
    refused(
        sm_80_kernel,
        f"operand a: dtype is {known.get(dtype, dtype)}, the kernel was compiled for f16: cast it by "
        ".astype(np.float16)",
        a=np.ones((M, K), dtype),
    )


def test_the_cast_to_bf16_is_by_ml_dtypes():
    kernel = lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16"), target="sm_80")
    a, b = np.ones((M, K), np.float32), np.ones((N, K), ml_dtypes.bfloat16)
    with pytest.raises(lt.Error, match=r"bf16.*ml_dtypes\.bfloat16.*\[array-dtype\]"):
        kernel.interpret(a, b)
    assert (kernel.interpret(a.astype(ml_dtypes.bfloat16), b) == K).all()


def test_an_epilogue_operand_of_another_dtype_is_refused(sm_80_kernel):
    refused(sm_80_kernel, "operand bias: dtype is f32, the kernel was compiled for f16", bias=np.ones(N, np.float32))


def test_domains_of_integers_take_integers_of_any_dtype(sm_80_kernel):
    integers = given(a=np.ones((M, K), np.int8), b=np.ones((N, K), np.int64), bias=np.ones(N, np.int32))
    assert (sm_80_kernel.interpret(**integers, domain="exact") == 2 * K + 2).all()
    with pytest.raises(lt.Error, match=r"operand a.*f32.*\[array-dtype\]"):
        sm_80_kernel.interpret(**integers | {"a": np.ones((M, K), np.float32)}, domain="exact")


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (None, "operand a: NoneType is not an array; pass a numpy array"),
        ([[1, 2], [3]], "operand a: list is not an array"),
        (1.0, "operand a: float is not an array"),
        (np.full((M, K), None), "operand a: dtype is object"),
        (np.ma.array(np.ones((M, K), np.float16)), "operand a: masked arrays are not read"),
        (np.ones(K, np.float16), "operand a: shape (16,) has rank 1, must have rank 2: reshape it"),
        (np.ones((K, M), np.float16).T, "operand a: the last dimension has stride 80 bytes, must have 2"),
        (np.ones((M, K), np.float16)[::-1], "operand a: rows of 16 elements overlap at -32 bytes apart; pass a copy"),
    ],
)
def test_what_is_no_matrix_that_fits_is_refused(sm_80_kernel, a, message):
    refused(sm_80_kernel, message, a=a)


def test_operands_that_disagree_on_an_extent_are_refused(sm_80_kernel):
    message = "operand b: shape (24, 8) makes k = 8, but a of shape (40, 16) makes it 16; b must be (n, k)"
    refused(sm_80_kernel, message, b=np.ones((N, 8), np.float16))


class OnGpu:
    """Like a torch tensor on a GPU."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def test_an_array_that_numpy_cannot_read_is_refused_with_the_reason(sm_80_kernel):
    refused(sm_80_kernel, "gives no numpy array (can't convert cuda:0 device type tensor to numpy); copy it", a=OnGpu())


@pytest.mark.parametrize("alpha", ["x", None, [1.0], 1j, np.array(2.0)])
def test_a_scalar_that_is_no_number_is_refused(sm_80_kernel, alpha):
    refused(sm_80_kernel, f"operand alpha: {type(alpha).__name__} is not a number; a scalar goes by value", alpha=alpha)


@pytest.mark.parametrize("alpha", [10**400, -(10**5000)], ids=["long", "too long to print"])
def test_a_scalar_that_no_float_holds_is_refused(sm_80_kernel, alpha):
    bits = alpha.bit_length()
    beyond = f"alpha: an integer of {bits} bits is beyond every float; scale it down [scalar-beyond-floats]"
    refused(sm_80_kernel, beyond, alpha=alpha)
    with pytest.raises(LaunchError, match=rf"alpha: an integer of {bits} bits .*\[scalar-beyond\]"):
        check_scalar({"name": "alpha", "dtype": "f32"}, alpha)


@pytest.mark.parametrize("number", [math.nan, math.inf, 0.5])
def test_an_integer_argument_takes_integers_alone(number):
    with pytest.raises(
        LaunchError,
        match=r"operand m: .* is not an integer in \[-2147483648, 2147483647\] as s32 needs.*\[scalar-range\]",
    ):
        check_scalar({"name": "m", "dtype": "s32"}, number)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sms": 1.5}, "sms = 1.5 is not an integer"),
        ({"sms": "2"}, "sms = '2' is not an integer"),
        ({"sms": True}, "sms = True is not an integer"),
        ({"sms": 0}, "sms = 0: a launch needs at least one SM"),
        ({"seed": "x"}, "seed = 'x' is not an integer"),
        ({"seed": None}, "seed = None is not an integer"),
        ({"domain": []}, "unknown number domain []"),
        ({"level": 3}, "level 3 is not available"),
    ],
)
def test_options_of_another_type_are_refused(sm_80_kernel, options, message):
    with pytest.raises(lt.Error, match=re.escape(message)):
        sm_80_kernel.interpret(**given(), **options)


def test_numpys_integers_are_integers(sm_80_kernel):
    assert (sm_80_kernel.interpret(**given(), sms=np.int64(3), seed=np.int32(1))[:, 0] == 2 * K + 1).all()


@pytest.mark.parametrize("level", LEVELS)
def test_where_k_is_0_d_is_the_epilogue_of_0(kernel, level):
    operands = given(k=0)
    d = kernel.interpret(**operands, level=level)
    np.testing.assert_array_equal(d, np.broadcast_to(operands["bias"] + np.float16(1), (M, N)))


@pytest.mark.parametrize("layout", ["tt", "nn", "nt"])
def test_k_is_found_as_the_layout_says(layout):
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    a = np.ones((M, 0) if layout[0] == "t" else (0, M), np.float16)
    b = np.ones((N, 0) if layout[1] == "n" else (0, N), np.float16)
    for level in ("pipelined", "nvvm"):
        np.testing.assert_array_equal(kernel.interpret(a, b, level=level), np.zeros((M, N)))


@pytest.mark.parametrize("extents", [(0, N, K), (M, 0, K), (0, 0, 0)])
@pytest.mark.parametrize("level", ["problem", "cta", "nvvm"])
def test_where_m_or_n_is_0_d_is_empty(kernel, level, extents):
    d = kernel.interpret(**given(*extents), level=level)
    assert d.shape == extents[:2] and d.dtype == np.float16


def test_empty_operands_must_agree_too(kernel):
    with pytest.raises(lt.Error, match=r"operand b.*\(0, 8\) makes k = 8, but a.*\(40, 16\).*it 16.*\[dims-differ\]"):
        kernel.interpret(**given(n=0, b=np.ones((0, 8), np.float16)))


def view(shape, strides):
    """A view of few elements, strides in elements."""
    return np.lib.stride_tricks.as_strided(np.ones(4096, np.float32), shape, [4 * stride for stride in strides])


UNPACKED = "a.pack = none, b.pack = none, epilogue.pack = none"


@pytest.fixture(scope="module")
def unpacked():
    """A batch whose matrices must be aligned."""
    return lt.compile_gemm(lt.GemmSpec(batch=None, a="f32", b="f32", d="f32"), target="sm_80", schedule=UNPACKED)


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (
            view((3, 5, 7), (0, 7, 1)),
            "a: rows are 28 bytes apart, must be a multiple of 16; pad each row to 8 elements",
        ),
        (view((3, 5, 7), (42, 8, 1)), "a: matrices are 168 bytes apart, must be a multiple of 16; put 44 elements"),
        (
            view((3, 5, 7), (0, -8, 1)),
            r"a: rows of 7 elements overlap at -32 bytes apart; pass a copy.*\[rows-overlap\]",
        ),
        (view((3, 5, 7), (-40, 8, 1)), "a: matrices -160 bytes apart; .* pass a copy"),
        (view((3, 5, 7), (40, 8, 0)), "a: the last dimension has stride 0 bytes, must have 4"),
        (view((3, 5, 7), (40, 0, 1)), "a: rows of 7 elements overlap at 0 bytes apart; pass a copy"),
    ],
)
def test_matrices_that_lie_as_no_kernel_reads_them_are_refused(unpacked, a, message):
    with pytest.raises(InterpreterError, match=f"^operand {message}"):
        unpacked.interpret(a, view((3, 6, 7), (0, 8, 1)))


def test_misaligned_rows_are_refused_with_packing_as_a_way_out(unpacked):
    with pytest.raises(
        InterpreterError,
        match=r"pad each row to 8 elements, or compile the kernel with pack = rows for d \[rows-misaligned\]$",
    ):
        unpacked.interpret(view((3, 5, 8), (40, 8, 1)), view((3, 7, 8), (0, 8, 1)), out=np.zeros((3, 5, 7), np.float32))


def test_a_byte_of_a_matrix_that_a_batch_shares_is_named(unpacked):
    """The interpreter itself, which checks no alignment first."""
    given = {"a": view((3, 5, 7), (0, 7, 1)), "b": view((3, 6, 7), (0, 8, 1))}
    with pytest.raises(
        InterpreterError, match=r"misaligned: 16 bytes .* of a: matrix 0, row 1, byte 0 of 28\).*\[misaligned-access\]"
    ):
        interpret(unpacked.levels["nvvm"], given)


def test_strides_over_an_extent_of_1_say_nothing(unpacked):
    d = unpacked.interpret(view((1, 5, 1), (-3, 8, 77)), view((1, 1, 1), (5, -3, -9)))
    np.testing.assert_array_equal(d, np.ones((1, 5, 1)))


@pytest.mark.parametrize(
    ("a", "b", "name", "size"),
    [
        (((1, 1 << 16, 1 << 16), (0, 0, 1)), ((1, 1, 1 << 16), (0, 0, 1)), "a", 1 << 34),
        (((2, 8, 8), (1 << 32, 8, 1)), ((2, 8, 8), (64, 8, 1)), "a", (1 << 34) + 256),
        (((1, 1 << 20, 4), (0, 4, 1)), ((1, 1 << 20, 4), (0, 4, 1)), "d", 1 << 42),
    ],
)
def test_operands_that_the_interpreter_s_memory_does_not_hold_are_refused(unpacked, a, b, name, size):
    """Their elements are never read: there are none behind most of their addresses."""
    said = f"operand {name}: shape .* spans {size} bytes, the interpreter's memory has 268435456"
    with pytest.raises(InterpreterError, match=rf"^{said}.*\[operand-spans\]"):
        unpacked.interpret(view(*a), view(*b))


def test_the_operand_that_disagrees_is_named_and_not_a_d_that_is_not_passed():
    def biased(acc, bias: lt.PerColumn):
        return acc + bias

    kernel = lt.compile_gemm(lt.GemmSpec(a="f32", b="f32", d="f32", epilogue=biased), target="sm_80")
    a, b = np.ones((16, 8), np.float32), np.ones((16, 8), np.float32)
    with pytest.raises(
        InterpreterError, match=r"^operand bias: shape \(15,\) makes n = 15, but b of shape \(16, 8\).*\[dims-differ\]"
    ):
        kernel.interpret(a, b, bias=np.ones(15, np.float32))
