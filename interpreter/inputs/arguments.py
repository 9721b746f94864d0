"""The arguments of a host function, from the inputs of a run. Results that are not given are allocated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from mlir import ir

from lowtide.dialects.tile import ResultKind
from lowtide.errors import InterpreterError
from lowtide.interpreter.inputs.extents import (
    BATCH,
    D_ROWS,
    FACTORS,
    GROUP,
    PACKED_ROWS,
    PAIRED_ROWS,
    STATUS,
    dims_of_arguments,
    extents_of,
    operand_kinds_of,
    results_of,
    types_of,
    with_batch,
)
from lowtide.interpreter.inputs.lists import Shapes, check_shapes, filled_up, shapes_of_product
from lowtide.interpreter.inputs.values import Array, Parameter, check_size, checked, checked_matrix, padded
from lowtide.interpreter.numbers.domains import NUMPY_DTYPES, Domain
from lowtide.interpreter.program.types import MemRef, Type

_K_OF_ZEROS = 128  # replaces K = 0: a multiple of every panel of an operand's tensor map


@dataclass(frozen=True)
class Argument:
    """An argument of the host function.

    `is_batch`: whether its first dimension is the batch. `is_stand_in`: whether it is zeros with a small K in place of
    a matrix with K = 0; these are aligned, as in a launch. `result`: its kind, if it is a result. `is_ends`: whether it
    has the ends of groups, or the counts of padded groups. `is_places`: whether it is the index of rows of D.
    `is_status`: whether it is the status, which the kernel writes if a shard of A is late. `shapes`: the shapes of the
    matrices of a list, if they may differ; `value` then has all of them, filled up with zeros.
    """

    name: str
    value: Array | float | int
    type: Type
    is_batch: bool
    is_stand_in: bool = False
    result: ResultKind | None = None
    is_ends: bool = False
    is_places: bool = False
    is_status: bool = False
    shapes: Shapes | None = None

    @property
    def rows(self) -> int:
        """The number of rows of a matrix, or of elements of a vector; in a batch, of each."""
        assert isinstance(self.type, MemRef)
        return np.shape(self.value)[-1 if self.type.is_column_major else int(self.is_batch)]


def arguments_of(function: ir.Operation, inputs: Mapping[str, Any], domain: Domain) -> list[Argument]:
    """The arguments of the host function. Full results, such as D, and reductions are allocated if they are not given.

    If K is 0, A and B are zeros with a small K, so that D = epilogue(0), and no level needs a case for empty matrices.
    Raises InterpreterError for a value that is not an array or number, has another shape or dtype than the module's, or
    disagrees with another operand on an extent. In a batch, an operand without that dimension is shared by all.
    """
    results = results_of(function)
    dims = with_batch(function, dims_of_arguments(function, results))
    types = types_of(function, dims)
    kinds = [*[None] * FACTORS, *results, *[None] * (len(types) - FACTORS - len(results))]
    full = [place for place, kind in enumerate(kinds) if kind is not None and kind is not ResultKind.amax]
    if len(types) <= full[-1] or not isinstance(types[full[0]], MemRef):
        raise InterpreterError(
            "the host function's arguments are a, b, results and the epilogue's operands [argument-kinds]"
        )
    allowed = dims or [()] * len(types)
    parameters = [Parameter(*each) for each in zip(types, allowed, kinds, strict=False)]
    given, shapes = filled_up(_in_order(function, inputs))
    check_shapes(shapes, dict(zip(_names(function), types, strict=False)))
    missing = _missing(function, given, full)
    given = _with_outputs(given, parameters, missing, domain) if missing else given
    if len(given) != len(types):
        raise InterpreterError(
            f"the host function takes {len(types)} arguments, {len(given)} are given: {', '.join(given)}"
            " [argument-count]"
        )
    values = [
        checked(name, value, parameter, None if place in (full[0], *missing) else domain)
        for place, ((name, value), parameter) in enumerate(zip(given.items(), parameters, strict=True))
    ]
    names = list(given)
    if {*names[:FACTORS]} <= {*shapes}:
        of_d = shapes_of_product(
            [dict(zip(dims[at][1:], one, strict=True)) for one in shapes[names[at]]] for at in (0, 1)
        )
        shapes |= {names[place]: of_d for place in full}
    extents = extents_of(names, values, dims) if dims else {}
    if extents.get("k") == 0 and any("g" in letters or PACKED_ROWS in letters for letters in dims):
        raise InterpreterError(
            "K of packed weights is 0, must be a positive multiple of their group; pad them with zeros"
            " [weights-of-no-k]"
        )
    for outer in {BATCH, GROUP} & {*extents}:
        values = [_with_parts(*each, outer, extents[outer]) for each in zip(values, dims, strict=True)]
    if extents.get("k") == 0:
        values = [_without_k(*each) for each in zip(values, types, dims, strict=True)]
    operands = operand_kinds_of(function)
    places = FACTORS + len(results) + operands.index("d_rows") if "d_rows" in operands else None
    return [
        Argument(
            name,
            value,
            type,
            BATCH in letters or np.ndim(value) == 3 or (len(letters) > 1 and letters[:-1] == (GROUP,)),
            extents.get("k") == 0 and any(dim[0] == "k" for dim in letters),
            kind,
            letters == (GROUP,),
            place == places,
            letters == (STATUS,),
            shapes.get(name),
        )
        for place, (name, value, (type, letters, kind)) in enumerate(zip(names, values, parameters, strict=True))
    ]


def is_returned(kind: ResultKind | None) -> bool:
    """Whether runs return an argument of this kind: a full result, or a reduction."""
    return kind is not None and kind not in (ResultKind.amax, ResultKind.absent)


def output_of(arguments: Sequence[Argument]) -> int:
    """The position of D, the first full result; of the first reduction if there is none."""
    found = [position for position, each in enumerate(arguments) if is_returned(each.result)]
    return next((at for at in found if arguments[at].result is ResultKind.full), found[0])


def rows_written(arguments: Sequence[Argument]) -> Array | None:
    """Which rows of D a kernel writes: (rows,), or (batch, rows) with padded groups. None if it writes all of D.

    With groups, the product has the rows before the last end. They are also the rows of D, unless there is an index of
    rows of D: then these are the rows that the index names for them. With padded groups, they are the first rows of
    each matrix, as many as its count. Raises InterpreterError if two rows of the product are stored into one row of D.
    """
    ends, places = _rows_of(arguments)
    d = arguments[output_of(arguments)]
    if ends is not None and arguments[0].is_batch:
        return np.arange(d.rows) < ends[:, None]
    if (ends is None and places is None) or d.is_batch:
        return None
    places = np.arange(d.rows) if places is None else places
    counted = places[: len(places) if ends is None else max([0, *ends.tolist()])]
    named, counts = np.unique(counted[(counted >= 0) & (counted < d.rows)], return_counts=True)
    if (counts > 1).any():
        row = int(named[counts > 1][0])
        first, second, *_ = np.flatnonzero(places == row).tolist()
        raise InterpreterError(
            f"rows {first} and {second} of the product are both stored into row {row} of D, which is a race; name "
            "different rows in the index [row-stored-twice]"
        )
    return np.isin(np.arange(d.rows), named)


def rows_computed(arguments: Sequence[Argument]) -> Array | None:
    """Which elements of a reduction of rows a kernel writes, like `rows_written`. The reduction has an element for each
    row of the product, in their order, also if there is an index of rows of D."""
    ends, places = _rows_of(arguments)
    if places is None:
        return rows_written(arguments)
    return None if ends is None else np.arange(len(places)) < max([0, *ends.tolist()])


def _rows_of(arguments: Sequence[Argument]) -> tuple[Array | None, Array | None]:
    """The ends of groups (or counts of padded groups), and the index of rows of D; None for what there is not."""
    ends, places = (
        next((np.asarray(each.value) for each in arguments if getattr(each, which)), None)
        for which in ("is_ends", "is_places")
    )
    return ends, places


def _in_order(function: ir.Operation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in the order of the function's arguments. Unchanged if an input has a name that no argument has."""
    names = _names(function)
    return {name: inputs[name] for name in names if name in inputs} if {*names} >= {*inputs} else dict(inputs)


def _names(function: ir.Operation) -> list[str]:
    """The names of those arguments of the function that have one."""
    attributes = ir.ArrayAttr(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else ()
    entries = [ir.DictAttr(entry) for entry in attributes]
    return [ir.StringAttr(entry["tile.name"]).value for entry in entries if "tile.name" in entry]


def _missing(function: ir.Operation, given: Mapping[str, Any], full: Sequence[int]) -> dict[int, str]:
    """The indices and names of full results and reductions that are not given. If arguments have no names, only D may
    be missing."""
    names = _names(function)
    if len(names) > full[-1] and {*names} >= {*given}:
        return {place: names[place] for place in full if names[place] not in given}
    return {} if "d" in given else {full[0]: "d"}


def _with_outputs(
    given: dict[str, Any], parameters: list[Parameter], missing: Mapping[int, str], domain: Domain
) -> dict[str, Any]:
    """The inputs with arrays for the missing results. The rows of these begin at multiples of 16 bytes."""
    names = list(given)
    if len(names) < FACTORS:
        raise InterpreterError("the first two inputs are the matrices a and b [first-two-matrices]")
    found: dict[str, int] = {}  # from the first operand that has it, A and B before others
    others = (parameter for place, parameter in enumerate(parameters) if place not in missing)
    for name, each in zip(names, others, strict=False):
        if isinstance(each.type, MemRef) and each.dims:
            shape = checked_matrix(name, given[name], each.type, each, domain).shape
            found = dict(zip(each.dims[-len(shape) :], shape, strict=True)) | found
    if PAIRED_ROWS in found:
        found.setdefault("n", found[PAIRED_ROWS] // 2)
    for place, name in sorted(missing.items()):
        names.insert(place, name)
        given = given | {name: _output(name, parameters[place], found)}
    return {name: given[name] for name in names}


def _output(name: str, parameter: Parameter, found: Mapping[str, int]) -> Array:
    """An array for a missing result. `found`: the problem's extents. Raises InterpreterError for an unknown extent."""
    type, letters, _ = parameter
    assert isinstance(type, MemRef)
    letters = letters or ("m", "n")
    known = zip(letters, type.shape_as_it_lies, strict=True)
    extents = [found.get(dim) if extent is None else extent for dim, extent in known]
    shown = "D" if name == "d" else name
    if extents[0] is None and letters[0] == BATCH:
        raise InterpreterError(
            f"the number of products is unknown, because all share A and B; give {shown} among the inputs, as "
            f'"{name}" [batch-unsaid]'
        )
    if extents[0] is None and letters[0] == D_ROWS:
        raise InterpreterError(
            f"the number of rows of {shown} is unknown, because rows are stored at an index; give {shown}, as "
            f'"{name}" among the inputs, or as out= of a kernel [rows-of-d-unsaid]'
        )
    if None in extents:
        raise InterpreterError(
            f"the shape of {shown} is unknown, because the module has no layout of A and B; give {shown} among the "
            f'inputs, as "{name}" [layout-unsaid]'
        )
    of_result = [extent or 0 for extent in extents]
    check_size(name, of_result, prod(of_result), type.element)
    return padded(of_result, np.dtype(NUMPY_DTYPES[type.element.name]), type.element)


def _with_parts(value: Any, dims: Sequence[str], outer: str, count: int) -> Any:
    """An operand that lacks the dimension `outer`, such as one that the products of a batch share, gets it, with stride
    0. Any other operand is returned unchanged."""
    if outer not in dims or value.ndim == len(dims):
        return value
    return np.broadcast_to(value, (count, *value.shape))


def _without_k(value: Any, type: Type, dims: Sequence[str]) -> Any:
    """Zeros with a small K in place of an operand with K = 0; an operand without K unchanged."""
    if not any(dim[0] == "k" for dim in dims) or not isinstance(type, MemRef):
        return value
    of_zeros = {"k": _K_OF_ZEROS, "k/128": 1}
    extents = zip(dims, value.shape, strict=True)
    return padded([extent or of_zeros.get(dim, extent) for dim, extent in extents], value.dtype, type.element)
