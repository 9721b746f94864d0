"""Arrays and numbers, each checked against the type of its argument."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import ResultKind
from lowtide.elements import ELEMENTS
from lowtide.errors import InterpreterError
from lowtide.interpreter.inputs.extents import BATCH, GROUP
from lowtide.interpreter.numbers.domains import FLOAT_DTYPES, NUMPY_DTYPES, Domain
from lowtide.interpreter.program.types import MemRef, Scalar, Type

Array = NDArray[Any]

# The names of types in numpy, by MLIR name.
_NUMPY_NAMES: Mapping[str, str] = MappingProxyType(
    {row.ir: f"{'ml_dtypes' if row.typestr is None else 'np'}.{row.library}" for row in ELEMENTS.values()}
)
_NAMES: Mapping[str, str] = MappingProxyType({row.ir: row.name for row in ELEMENTS.values()})
_MOST_BYTES = 1 << 28  # of an operand: memory keeps some 40 bytes for each of them
ROW_BYTES = 16  # the alignment of rows if nothing says their layout


class Parameter(NamedTuple):
    """What the host function says of an argument: its type, the extents of its dimensions, and its kind if a result."""

    type: Type
    dims: Sequence[str]
    result: ResultKind | None


def checked(name: str, value: Any, parameter: Parameter, domain: Domain | None) -> Array | float | int:
    """The value as an array or a number of the argument's type. Raises InterpreterError if it does not fit."""
    type = parameter.type
    if isinstance(type, MemRef):
        return checked_matrix(name, value, type, parameter, domain)
    if not isinstance(type, Scalar):
        raise InterpreterError(
            f"{name}: an argument of type {type} is not interpreted; pass memrefs and scalars [argument-type]"
        )
    if not isinstance(value, int | float | np.integer | np.floating):
        kind = value.__class__.__name__
        raise InterpreterError(
            f"operand {name}: {kind} is not a number; a scalar goes by value: use .item() [scalar-number]"
        )
    if type.is_float:
        try:
            return float(value)
        except OverflowError:
            bits = int(value).bit_length()
            raise InterpreterError(
                f"operand {name}: an integer of {bits} bits is beyond every float; scale it down [scalar-beyond-floats]"
            ) from None
    if not -np.inf < value < np.inf or int(value) != value:
        raise InterpreterError(
            f"operand {name}: {value} is not an integer as {type.name} needs; round it [scalar-integer]"
        )
    return int(value)


def checked_matrix(name: str, value: Any, type: MemRef, parameter: Parameter, domain: Domain | None) -> Array:
    """A matrix or vector as an array of the module's shape and dtype; without a domain, of any dtype. In a batch, a
    shared input has one dimension less."""
    array, (_, dims, result) = _array(name, value), parameter
    if domain is not None:
        _check_dtype(name, array, type.element, domain, result is ResultKind.full)
    shape = array.shape
    of_groups = {GROUP} < {*dims} and "k" not in dims  # groups cannot share B
    may_be_shared = (BATCH in dims or of_groups) and result is None  # among products, or groups
    if len(shape) != len(type.shape) and not (may_be_shared and len(shape) == len(type.shape) - 1):
        shared = (
            f", or {len(type.shape) - 1} if {'groups share' if of_groups else 'the batch shares'} it"
            if may_be_shared
            else ""
        )
        raise InterpreterError(
            f"operand {name}: shape {shape} has rank {len(shape)}, must have rank {len(type.shape)}{shared}: reshape it"
            " [matrix-rank]"
        )
    for axis, (extent, wanted) in enumerate(zip(shape, type.shape_as_it_lies[-len(shape) :], strict=True)):
        if wanted is not None and extent != wanted:
            raise InterpreterError(
                f"operand {name}: extent {axis} of shape {shape} is {extent}, the kernel was compiled for {wanted}; "
                "compile it with that extent None to give it at run time [matrix-extent]"
            )
    steps = (abs(stride) // array.itemsize for stride in array.strides)
    span = sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True)) + 1
    check_size(name, shape, max(span, array.size), type.element)
    return array


def check_size(name: str, shape: Sequence[int], elements: int, element: Scalar) -> None:
    """Raises InterpreterError for an operand with more elements, including gaps between rows, than can be simulated."""
    if 0 not in shape and elements * element.bytes > _MOST_BYTES:
        raise InterpreterError(
            f"operand {name}: shape {tuple(shape)} spans {elements * element.bytes} bytes, the interpreter's memory "
            f"has {_MOST_BYTES} for an operand: pass a smaller or denser one, or run the kernel on a GPU"
            " [operand-spans]"
        )


def _array(name: str, value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise InterpreterError(
            f"operand {name}: masked arrays are not read; pass the data without its mask [masked-array]"
        )
    if isinstance(value, np.ndarray):
        return value
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}".removeprefix("builtins.")
    if not any(hasattr(value, way) for way in ("__array__", "__array_interface__")) or isinstance(value, np.generic):
        raise InterpreterError(f"operand {name}: {kind} is not an array; pass a numpy array [numpy-array]")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InterpreterError(
            f"operand {name}: this {kind} gives no numpy array ({error}); copy it to the CPU, or pass one"
            " [array-to-cpu]"
        ) from None


def _check_dtype(name: str, array: Array, element: Scalar, domain: Domain, is_full_result: bool) -> None:
    """Domains of integers accept integers of any type in place of floats, and for full results."""
    wanted = np.dtype(NUMPY_DTYPES[element.name])
    is_open = (element.is_float or is_full_result) and not domain.is_float
    if array.dtype == wanted or (is_open and array.dtype.kind in "iu"):
        return
    names = {np.dtype(dtype): name for name, dtype in FLOAT_DTYPES.items()}
    raise InterpreterError(
        f"operand {name}: dtype is {names.get(array.dtype, array.dtype)}, the kernel was compiled for "
        f"{_NAMES[element.name]}: cast it by .astype({_NUMPY_NAMES[element.name]}) [array-dtype]"
    )


def padded(shape: Sequence[int], dtype: np.dtype[Any], element: Scalar) -> Array:
    """Zeros whose rows begin at multiples of 16 bytes of the element type in memory."""
    unit, (*outer, columns) = ROW_BYTES // element.bytes, shape
    return np.zeros((*outer, -(-columns // unit) * unit), dtype)[..., :columns]
