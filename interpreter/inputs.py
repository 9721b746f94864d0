"""The inputs of a run: arrays and numbers, checked like the operands of a launch, and copied to memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects import tile
from lowtide.dialects.tile import ResultKind
from lowtide.elements import ELEMENTS, element_of_ir
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.numbers.domains import FLOAT_DTYPES, NUMPY_DTYPES, Domain
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.ir_types import decode_type
from lowtide.interpreter.program.types import MemRef, Scalar, Type

Array = NDArray[Any]

_FACTORS = 2  # the number of matrices, A and B, before the results and the epilogue operands of a host function

# The names of types in numpy, by MLIR name.
_NUMPY_NAMES: Mapping[str, str] = MappingProxyType(
    {row.ir: f"{'ml_dtypes' if row.typestr is None else 'np'}.{row.library}" for row in ELEMENTS.values()}
)
_NAMES: Mapping[str, str] = MappingProxyType({row.ir: row.name for row in ELEMENTS.values()})
_K_OF_ZEROS = 128  # replaces K = 0: a multiple of every panel of an operand's tensor map
_MOST_BYTES = 1 << 28  # of an operand: memory keeps some 40 bytes for each of them
_MOST_WORK: Any = 10_000  # of finding out whether two arrays have a byte in common
_ROW_BYTES = 16  # the alignment of rows if nothing says their layout

# The problem's extents of an operand's dimensions, in memory order; in a batch `_BATCH` comes before them.
_BATCH = "batch"
_A_DIMS: Mapping[str, str] = MappingProxyType({"t": "mk", "n": "km"})
_B_DIMS: Mapping[str, str] = MappingProxyType({"n": "nk", "t": "kn"})
_KIND_DIMS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "per_row": "m",
        "per_column": "n",
        "scalar": "",
        "ends": ("group",),
        "group_scale": "gn",
        "group_zero": "gn",
        "row_scale": ("k/128", "m"),
        "column_scale": ("k/128", "n"),
        "row_block_scale": ("m/128", "k/128"),
        "column_block_scale": ("n/128", "k/128"),
    }
)
_PACKED_ROWS = "w"  # rows of weights, whose bytes hold the weights of two rows


class _Parameter(NamedTuple):
    """What the host function says of an argument: its type, the extents of its dimensions, and its kind if a result."""

    type: Type
    dims: Sequence[str]
    result: ResultKind | None


@dataclass(frozen=True)
class Argument:
    """An argument of the host function, and whether its first dimension numbers matrices, or vectors, of a batch.

    `is_stand_in`: zeros with a small K that replace a matrix with K = 0; they are aligned, as in a launch. `result`:
    its kind if it is a result. `is_ends`: whether it says where groups of rows end.
    """

    name: str
    value: Array | float | int
    type: Type
    is_batch: bool
    is_stand_in: bool = False
    result: ResultKind | None = None
    is_ends: bool = False


def arguments_of(function: ir.Operation, inputs: Mapping[str, Any], domain: Domain) -> list[Argument]:
    """The arguments of the host function; full results, such as D, are made if they are not given.

    If K is 0, A and B are zeros with a small K, so that D = epilogue(0), and no level needs a case for empty matrices.
    Raises InterpreterError for a value that is not an array or number, has another shape or dtype than the module's, or
    disagrees with another operand on an extent. In a batch, an operand without that dimension is shared by all.
    """
    results = _results(function)
    dims = _with_batch(function, _dims(function, results))
    types = _types(function, dims)
    kinds = [*[None] * _FACTORS, *results, *[None] * (len(types) - _FACTORS - len(results))]
    full = [place for place, kind in enumerate(kinds) if kind is ResultKind.full]
    if len(types) <= full[-1] or not isinstance(types[full[0]], MemRef):
        raise InterpreterError(
            "the host function's arguments are a, b, results and the epilogue's operands [argument-kinds]"
        )
    allowed = dims or [()] * len(types)
    parameters = [_Parameter(*each) for each in zip(types, allowed, kinds, strict=False)]
    given = _in_order(function, inputs)
    missing = _missing(function, given, full)
    given = _with_outputs(given, parameters, missing, domain) if missing else given
    if len(given) != len(types):
        raise InterpreterError(
            f"the host function takes {len(types)} arguments, {len(given)} are given: {', '.join(given)}"
            " [argument-count]"
        )
    values = [
        _checked(name, value, parameter, None if place in (full[0], *missing) else domain)
        for place, ((name, value), parameter) in enumerate(zip(given.items(), parameters, strict=True))
    ]
    names = list(given)
    extents = _extents(names, values, dims) if dims else {}
    if extents.get("k") == 0 and any("g" in letters or _PACKED_ROWS in letters for letters in dims):
        raise InterpreterError(
            "K of packed weights is 0, must be a positive multiple of their group; pad them with zeros"
            " [weights-of-no-k]"
        )
    if _BATCH in extents:
        values = [_with_parts(*each, extents[_BATCH]) for each in zip(values, dims, strict=True)]
    if extents.get("k") == 0:
        values = [_without_k(*each) for each in zip(values, types, dims, strict=True)]
    return [
        Argument(
            name,
            value,
            type,
            _BATCH in letters or np.ndim(value) == 3,
            extents.get("k") == 0 and any(dim[0] == "k" for dim in letters),
            kind,
            letters == ("group",),
        )
        for name, value, (type, letters, kind) in zip(names, values, parameters, strict=True)
    ]


def _in_order(function: ir.Operation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in the order of the function's arguments, if they have its names."""
    names = _names(function)
    return {name: inputs[name] for name in names if name in inputs} if {*names} >= {*inputs} else dict(inputs)


def _names(function: ir.Operation) -> list[str]:
    """The names of the function's arguments that have one."""
    attributes = ir.ArrayAttr(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else ()
    entries = [ir.DictAttr(entry) for entry in attributes]
    return [ir.StringAttr(entry["tile.name"]).value for entry in entries if "tile.name" in entry]


def _missing(function: ir.Operation, given: Mapping[str, Any], full: Sequence[int]) -> dict[int, str]:
    """The full results that are not given: places and names. Without names of arguments, only D may be missing."""
    names = _names(function)
    if len(names) > full[-1] and {*names} >= {*given}:
        return {place: names[place] for place in full if names[place] not in given}
    return {} if "d" in given else {full[0]: "d"}


def _results(function: ir.Operation) -> list[ResultKind]:
    """The kinds of the function's results, from `tile.problem` or the tile.gemm; by default only D."""
    if "tile.problem" in function.attributes:
        return [ResultKind[kind] for kind in function.attributes["tile.problem"].result_kinds]
    gemm = _gemm_in(function)
    return [ResultKind.full] if gemm is None else [ResultKind(kind) for kind in decode_attribute(gemm["out_kinds"])]


def _gemm_in(function: ir.Operation) -> Any:
    """The attributes of the function's tile.gemm; None without one."""
    ops = function.regions[0].blocks[0].operations
    return next((op.operation.attributes for op in ops if op.operation.name == "tile.gemm"), None)


def output_of(arguments: Sequence[Argument]) -> int:
    """The position of D, the first full result."""
    return next(position for position, each in enumerate(arguments) if each.result is ResultKind.full)


def _with_batch(function: ir.Operation, dims: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """As `dims`, with the batch before the dimensions of a memref that has one more of them."""
    types = (argument.type for argument in function.regions[0].blocks[0].arguments)
    return [
        (_BATCH, *letters) if isinstance(type, ir.MemRefType) and type.rank > len(letters) else tuple(letters)
        for letters, type in zip(dims, types, strict=False)
    ]


def _with_parts(value: Any, dims: Sequence[str], batch: int) -> Any:
    """A shared operand as a batch with stride 0; any other operand unchanged."""
    if _BATCH not in dims or value.ndim == len(dims):
        return value
    return np.broadcast_to(value, (batch, *value.shape))


def _types(function: ir.Operation, dims: Sequence[Sequence[str]]) -> list[Type]:
    """The arguments' types. Extents of 0 are in `tile.problem`, and dynamic in the types."""
    types = [decode_type(argument.type) for argument in function.regions[0].blocks[0].arguments]
    if "tile.problem" not in function.attributes:
        return types
    problem = function.attributes["tile.problem"]
    return [
        _without_elements(type, letters, problem.empty) if isinstance(type, MemRef) and letters else type
        for type, letters in zip(types, dims, strict=True)
    ]


def _without_elements(type: MemRef, letters: Sequence[str], empty: Sequence[str]) -> MemRef:
    """The type with extents of 0 for the letter `empty`, in memory order."""
    extents = zip(letters, type.shape_as_it_lies, strict=True)
    shape = tuple(0 if letter[0] in empty else extent for letter, extent in extents)
    return replace(type, shape=type.turned(shape) if type.is_column_major else shape)


def _dims(function: ir.Operation, results: list[ResultKind]) -> list[Sequence[str]]:
    """For each argument, the problem's extents "m", "n" and "k" of its dimensions, in memory order.

    The host function has the problem of the spec if the product is another one; otherwise its tile.gemm gives it. They
    are unknown without both.
    """
    if "tile.problem" in function.attributes:
        problem = function.attributes["tile.problem"]
        return _of_packed(_dims_of(problem.layout, results, problem.kinds, problem.by_columns), problem.b)
    found = _gemm_in(function)
    if found is None:
        return []
    arguments = function.regions[0].blocks[0].arguments
    full = _FACTORS + results.index(ResultKind.full)
    d_type = decode_type(arguments[full].type) if full < len(arguments) else None
    is_column_major = isinstance(d_type, MemRef) and d_type.is_column_major
    kinds = decode_attribute(found["kinds"]) if "kinds" in found else ()
    words = [tile.OperandKind(kind).name for kind in kinds]
    dims = _dims_of(tile.GemmLayout(decode_attribute(found["layout"])).name, results, words, is_column_major)
    return _of_packed(dims, ir.TypeAttr(found["weights"]).value) if "weights" in found else dims


def _of_packed(dims: list[Sequence[str]], element: ir.Type) -> list[Sequence[str]]:
    """The extents if B is packed weights of a type: one row may hold the weights of two."""
    row = element_of_ir(element)
    if row is not None and row.per_byte > 1:
        dims[1] = "".join(dims[1]).replace("n", _PACKED_ROWS)
    return dims


def _dims_of(layout: str, results: list[ResultKind], kinds: list[str], by_columns: bool) -> list[Sequence[str]]:
    output = "nm" if by_columns else "mn"
    of_kind = {**_KIND_DIMS, "full": output}
    of_result: dict[ResultKind, Sequence[str]] = {ResultKind.full: output, ResultKind.amax: ("one",)}
    a, b = _A_DIMS[layout[0]], _B_DIMS[layout[1]]
    factors: list[Sequence[str]] = [a, ("group", *b) if "ends" in kinds else b]
    return [*factors, *(of_result[kind] for kind in results), *(of_kind[kind] for kind in kinds)]


def _with_outputs(
    given: dict[str, Any], parameters: list[_Parameter], missing: Mapping[int, str], domain: Domain
) -> dict[str, Any]:
    """The inputs with arrays for full results at their places, their rows at multiples of 16 bytes."""
    names = list(given)
    if len(names) < _FACTORS:
        raise InterpreterError("the first two inputs are the matrices a and b [first-two-matrices]")
    found: dict[str, int] = {}  # from the first operand that has it, A and B before others
    others = (parameter for place, parameter in enumerate(parameters) if place not in missing)
    for name, each in zip(names, others, strict=False):
        if isinstance(each.type, MemRef) and each.dims:
            shape = _matrix(name, given[name], each.type, each, domain).shape
            found = dict(zip(each.dims[-len(shape) :], shape, strict=True)) | found
    for place, name in sorted(missing.items()):
        names.insert(place, name)
        given = given | {name: _output(name, parameters[place], found)}
    return {name: given[name] for name in names}


def _output(name: str, parameter: _Parameter, found: Mapping[str, int]) -> Array:
    """An array for a full result. `found`: the problem's extents. Raises InterpreterError if one of them is unknown."""
    type, letters, _ = parameter
    assert isinstance(type, MemRef)
    letters = letters or ("m", "n")
    known = zip(letters, type.shape_as_it_lies, strict=True)
    extents = [found.get(dim) if extent is None else extent for dim, extent in known]
    shown = "D" if name == "d" else name
    if extents[0] is None and letters[0] == _BATCH:
        raise InterpreterError(
            f'A and B are shared by all products of the batch; give {shown} among the inputs, as "{name}"'
            " [batch-unsaid]"
        )
    if None in extents:
        raise InterpreterError(
            f'the module has no layout of A and B; give {shown} among the inputs, under the name "{name}"'
            " [layout-unsaid]"
        )
    of_result = [extent or 0 for extent in extents]
    _check_size(name, of_result, prod(of_result), type.element)
    return _padded(of_result, np.dtype(NUMPY_DTYPES[type.element.name]), type.element)


def _padded(shape: Sequence[int], dtype: np.dtype[Any], element: Scalar) -> Array:
    """Zeros whose rows begin at multiples of 16 bytes of the element type in memory."""
    unit, (*outer, columns) = _ROW_BYTES // element.bytes, shape
    return np.zeros((*outer, -(-columns // unit) * unit), dtype)[..., :columns]


def _checked(name: str, value: Any, parameter: _Parameter, domain: Domain | None) -> Array | float | int:
    type = parameter.type
    if isinstance(type, MemRef):
        return _matrix(name, value, type, parameter, domain)
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


def _matrix(name: str, value: Any, type: MemRef, parameter: _Parameter, domain: Domain | None) -> Array:
    """A matrix or vector as an array of the module's shape and dtype; without a domain, of any dtype. In a batch, a
    shared input has one dimension less."""
    array, (_, dims, result) = _array(name, value), parameter
    if domain is not None:
        _check_dtype(name, array, type.element, domain, result is ResultKind.full)
    shape = array.shape
    may_be_shared = _BATCH in dims and result is None
    if len(shape) != len(type.shape) and not (may_be_shared and len(shape) == len(type.shape) - 1):
        shared = f", or {len(type.shape) - 1} if the batch shares it" if may_be_shared else ""
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
    _check_size(name, shape, max(span, array.size), type.element)
    return array


def _check_size(name: str, shape: Sequence[int], elements: int, element: Scalar) -> None:
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


def _extents(names: Sequence[str], values: Sequence[Any], dims: Sequence[Sequence[str]]) -> dict[str, int]:
    """The problem's extents m, n, k and batch. Raises InterpreterError, which names two operands that disagree."""
    found: dict[str, tuple[int, str]] = {}
    shapes = {name: np.shape(value) for name, value in zip(names, values, strict=True)}
    for (name, shape), letters in zip(shapes.items(), dims, strict=True):
        for dim, extent in zip(letters[len(letters) - len(shape) :], shape, strict=True):
            if "/" in dim:  # in blocks, see below
                continue
            first, owner = found.setdefault(dim, (extent, name))
            if extent != first:
                raise InterpreterError(
                    f"operand {name}: shape {shape} makes {dim} = {extent}, but {owner} of shape {shapes[owner]} makes "
                    f"it {first}; {name} must be ({', '.join(letters)}) [dims-differ]"
                )
    extents = {dim: extent for dim, (extent, _) in found.items()}
    for (name, shape), letters in zip(shapes.items(), dims, strict=True):
        for dim, extent in zip(letters, shape, strict=False):
            letter, _, block = dim.partition("/")
            if block and extent != (blocks := -(-extents[letter] // int(block))):
                raise InterpreterError(
                    f"operand {name}: shape {shape} has {extent} blocks of {block} along {letter.upper()}, but "
                    f"{letter} = {extents[letter]} has {blocks}; {name} must be ({', '.join(letters)}), rounded up"
                    " [scale-blocks-differ]"
                )
    return extents


def _without_k(value: Any, type: Type, dims: Sequence[str]) -> Any:
    """Zeros with a small K in place of an operand with K = 0; an operand without K unchanged."""
    if not any(dim[0] == "k" for dim in dims) or not isinstance(type, MemRef):
        return value
    of_zeros = {"k": _K_OF_ZEROS, "k/128": 1}
    extents = zip(dims, value.shape, strict=True)
    return _padded([extent or of_zeros.get(dim, extent) for dim, extent in extents], value.dtype, type.element)


def rows_in_groups(arguments: Sequence[Argument]) -> int | None:
    """The rows of D that a kernel writes if rows are grouped: those before the last end. None if they are not."""
    ends = next((each.value for each in arguments if each.is_ends), None)
    if ends is None:
        return None
    rows: int = np.shape(arguments[output_of(arguments)].value)[0]
    return min(max([0, *np.asarray(ends).tolist()]), rows)


def in_place_of(arguments: Sequence[Argument]) -> int | None:
    """The position of the full operand that D replaces in memory; None if D is separate from all operands.

    Raises InterpreterError for any other overlap of a result with an input or another result.
    """
    output, found = output_of(arguments), None
    arrays = [(at, x, x.value) for at, x in enumerate(arguments) if isinstance(x.value, np.ndarray)]
    for (at, result, written), (position, other, value) in permutations(arrays, 2):
        if result.result is None or not _share_memory(written, value):
            continue
        same = at == output and (_place(written), result.type) == (_place(value), other.type)
        if not same or position < _FACTORS or other.result is not None:
            kind = "input" if other.result is None else "output"
            raise InterpreterError(
                f"operand {result.name}: the output overlaps {kind} {other.name}, which some CTAs access while others "
                "write the output; pass another output, or for D none to have it allocated, or a full operand itself: "
                "its base, strides and dtype [output-overlaps-input]"
            )
        found = position if found is None else found
    return found


def _share_memory(x: Array, y: Array) -> bool:
    """Whether two arrays have a byte in common. Halves of the columns of one matrix have none."""
    if not np.may_share_memory(x, y):
        return False
    try:
        return np.shares_memory(x, y, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def _place(array: Array) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def matrix_of(memory: GlobalMemory, domain: Domain, argument: Argument, filled: bool, offset: int = 0) -> Matrix:
    """A matrix, a vector or a batch of them, allocated with the strides of the array. D is not `filled`.

    It begins `offset` bytes past a multiple of 256. Raises InterpreterError for an array whose last dimension is not
    contiguous, or whose rows overlap; for D also if its matrices overlap.
    """
    name, array, type = argument.name, argument.value, argument.type
    assert isinstance(array, np.ndarray) and isinstance(type, MemRef)
    *count, rows, columns = (
        array.shape if array.ndim - argument.is_batch == 2 else (*array.shape[:-1], 1, array.shape[-1])
    )
    size = array.dtype.itemsize
    if columns > 1 and array.strides[-1] != size:
        raise InterpreterError(
            f"operand {name}: the last dimension has stride {array.strides[-1]} bytes, must have {size} (rows may be "
            "padded): pass a contiguous copy, or compile for its layout [columns-strided]"
        )
    row_stride = columns
    if array.ndim - argument.is_batch == 2:
        row_stride, rest = divmod(array.strides[-2], size)
        if rest or row_stride < columns:
            if rows > 1:
                raise InterpreterError(
                    f"operand {name}: rows of {columns} elements overlap at {array.strides[-2]} bytes apart; pass a "
                    "copy [rows-overlap]"
                )
            unit = _ROW_BYTES // type.element.bytes
            row_stride = -(-columns // unit) * unit  # a stride of one row means nothing
    batch = (count[0], _batch_stride(name, array, row_stride * rows, filled)) if count else (1, 0)
    payload = domain.of_matrix(array, type.element.name).reshape(-1, columns) if filled else None
    address = memory.allocate(name, rows, columns, row_stride, type.element.name, payload, offset, batch)
    strides = (*([batch[1]] if count else []), *([row_stride] if array.ndim - argument.is_batch == 2 else []))
    shape = type.turned(array.shape) if type.is_column_major else array.shape
    return Matrix(name, address, shape, strides, type.element, type.is_column_major)


def _batch_stride(name: str, array: Array, dense: int, is_input: bool) -> int:
    """Elements between matrices, or vectors, of a batch. Matrices of an input may overlap, or have a stride of 0."""
    stride, rest = divmod(array.strides[0], array.dtype.itemsize)
    if array.shape[0] == 1:
        return dense
    if rest or stride < 0:
        raise InterpreterError(
            f"operand {name}: matrices {array.strides[0]} bytes apart; take a multiple of the element's size, not "
            "negative: pass a copy [matrices-apart]"
        )
    apart = sorted((array.strides[axis], array.shape[axis]) for axis in range(array.ndim - 1) if array.shape[axis] > 1)
    end = array.shape[-1] * array.dtype.itemsize
    for step, extent in apart:
        if step < end and not is_input:
            raise InterpreterError(
                f"operand {name}: with the strides {array.strides} bytes its matrices overlap, but each element is "
                "written; pass a full array [matrices-overlap]"
            )
        end += (extent - 1) * step
    return stride
