"""The dimensions of a host function's arguments as extents of the problem: m, n, k, the batch and the groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.tile import ResultKind
from lowtide.elements import element_of_ir
from lowtide.errors import InterpreterError
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.ir_types import decode_type
from lowtide.interpreter.program.types import MemRef, Type
from lowtide.reductions import REDUCTIONS

FACTORS = 2  # the number of matrices, A and B, before the results and the epilogue operands of a host function

# The names of extents. Dimensions of an operand are in memory order; in a batch, `BATCH` comes before them.
BATCH, GROUP = "batch", "group"
TURN, STATUS = "of a turn", "of a status"  # the lengths of the operands `turn` and `status`: 3 and 4
PEER = "of a peer"  # the length of a row of the operand `peers`: 4
_A_DIMS: Mapping[str, str] = MappingProxyType({"t": "mk", "n": "km"})
_B_DIMS: Mapping[str, str] = MappingProxyType({"n": "nk", "t": "kn"})
_KIND_DIMS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "per_row": "m",
        "per_column": "n",
        "scalar": "",
        "ends": (GROUP,),
        "target": "m",
        "a_rows": "m",
        "d_rows": "m",
        "arrived": (BATCH,),
        "turn": (TURN,),
        "status": (STATUS,),
        "peers": (BATCH, PEER),
        "sent": (BATCH,),
        "group_scale": "gn",
        "group_zero": "gn",
        "row_scale": ("k/128", "m"),
        "column_scale": ("k/128", "n"),
        "row_block_scale": ("m/128", "k/128"),
        "column_block_scale": ("n/128", "k/128"),
    }
)
A_ROWS = "rows of a"  # the number of rows of an A whose rows are taken at an index
D_ROWS = "rows of d"  # the number of rows of a D whose rows are stored at an index
PACKED_ROWS = "w"  # rows of weights, whose bytes hold the weights of two rows
PAIRED_ROWS = "n*2"  # rows of B; two belong to each column of D
HALVES = "two"  # the two matrices of B


def results_of(function: ir.Operation) -> list[ResultKind]:
    """The kinds of the function's results, from `tile.problem` or the tile.gemm; by default only D."""
    if "tile.problem" in function.attributes:
        return [ResultKind[kind] for kind in function.attributes["tile.problem"].result_kinds]
    gemm = _gemm_in(function)
    return [ResultKind.full] if gemm is None else [ResultKind(kind) for kind in decode_attribute(gemm["out_kinds"])]


def _gemm_in(function: ir.Operation) -> Any:
    """The attributes of the function's tile.gemm; None without one."""
    ops = function.regions[0].blocks[0].operations
    return next((op.operation.attributes for op in ops if op.operation.name == "tile.gemm"), None)


def operand_kinds_of(function: ir.Operation) -> list[str]:
    """The kinds of the operands that follow the function's results, from `tile.problem` or the tile.gemm; none without
    both."""
    if "tile.problem" in function.attributes:
        return list(function.attributes["tile.problem"].kinds)
    found = _gemm_in(function)
    kinds = decode_attribute(found["kinds"]) if found is not None and "kinds" in found else ()
    return [tile.OperandKind(kind).name for kind in kinds]


def dims_of_arguments(function: ir.Operation, results: list[ResultKind]) -> list[Sequence[str]]:
    """For each argument, the names of the extents of its dimensions, such as "m" and "k", in memory order.

    They follow from `tile.problem`, if the function has it, and otherwise from its tile.gemm. Empty without both.
    """
    by_group = _b_is_by_group(function, results)
    if "tile.problem" in function.attributes:
        problem = function.attributes["tile.problem"]
        dims = _dims_of(problem.layout, results, operand_kinds_of(function), problem.by_columns, by_group=by_group)
        return _of_pairs(dims, function) if problem.pairs else _of_packed(dims, problem.b)
    found = _gemm_in(function)
    if found is None:
        return []
    arguments = function.regions[0].blocks[0].arguments
    full = _first_whole(results)
    d_type = decode_type(arguments[full].type) if full < len(arguments) else None
    is_column_major = isinstance(d_type, MemRef) and d_type.is_column_major
    layout = tile.GemmLayout(decode_attribute(found["layout"])).name
    dims = _dims_of(layout, results, operand_kinds_of(function), is_column_major, by_group=by_group)
    if "pairs" in found:
        return _of_pairs(dims, function)
    return _of_packed(dims, ir.TypeAttr(found["weights"]).value) if "weights" in found else dims


def _first_whole(results: list[ResultKind]) -> int:
    """The position of the argument with D's extents: the first full result, or the absent one."""
    whole = (ResultKind.full, ResultKind.absent)
    return FACTORS + next(place for place, kind in enumerate(results) if kind in whole)


def _of_pairs(dims: list[Sequence[str]], function: ir.Operation) -> list[Sequence[str]]:
    """The extents if two rows of B belong to each column of D, or one row of each of two matrices."""
    _, b, *_ = (argument.type for argument in function.regions[0].blocks[0].arguments)
    is_of_groups = tile.OperandKind.ends.name in operand_kinds_of(function)  # then the first extent of B counts them
    if isinstance(b, ir.MemRefType) and b.rank > len(dims[1]) and not is_of_groups:
        dims[1] = (HALVES, *dims[1])
        return dims
    dims[1] = tuple(PAIRED_ROWS if dim == "n" else dim for dim in dims[1])
    return dims


def _b_is_by_group(function: ir.Operation, results: list[ResultKind]) -> bool:
    """Whether only B has a matrix for each group, if there are groups: A and D have two dimensions."""
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    full = _first_whole(results)
    ranks = [type.rank if isinstance(type, ir.MemRefType) else 0 for type in types]
    return 3 not in (ranks[0], *ranks[full : full + 1])


def _of_packed(dims: list[Sequence[str]], element: ir.Type) -> list[Sequence[str]]:
    """The extents if B is packed weights of a type: a row of bytes may hold two rows of weights."""
    row = element_of_ir(element)
    if row is not None and row.per_byte > 1:
        dims[1] = tuple(PACKED_ROWS if dim == "n" else dim for dim in dims[1])
    return dims


def _dims_of(
    layout: str, results: list[ResultKind], kinds: list[str], by_columns: bool, *, by_group: bool
) -> list[Sequence[str]]:
    """`dims_of_arguments` of a problem. `by_group`: see `_b_is_by_group`."""
    full = "nm" if by_columns else "mn"
    output: Sequence[str] = (D_ROWS, "n") if "d_rows" in kinds else full
    of_kind = {**_KIND_DIMS, "full": full}
    of_result: dict[ResultKind, Sequence[str]] = {ResultKind.full: output, ResultKind.amax: ("one",)}
    of_result |= {ResultKind.absent: output}
    of_result |= {ResultKind[word]: tuple(each.dims) or ("one",) for word, each in REDUCTIONS.items()}
    a, b = (A_ROWS, "k") if "a_rows" in kinds else _A_DIMS[layout[0]], _B_DIMS[layout[1]]
    factors: list[Sequence[str]] = [a, (GROUP, *b) if "ends" in kinds and by_group else b]
    return [*factors, *(of_result[kind] for kind in results), *(of_kind[kind] for kind in kinds)]


def with_batch(function: ir.Operation, dims: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The same names, with the batch first for each memref that has one dimension more than names."""
    types = (argument.type for argument in function.regions[0].blocks[0].arguments)
    found = [
        (BATCH, *letters) if isinstance(type, ir.MemRefType) and type.rank > len(letters) else tuple(letters)
        for letters, type in zip(dims, types, strict=False)
    ]
    if any(BATCH in letters for letters in found[:1]):  # padded groups are the products of a batch
        return found
    if (GROUP,) in found:  # D has a matrix for each group of K, or an operand has a vector for each of rows
        return [tuple(GROUP if dim == BATCH else dim for dim in letters) for letters in found]
    return found


def types_of(function: ir.Operation, dims: Sequence[Sequence[str]]) -> list[Type]:
    """The arguments' types. In IR, extents of 0 are dynamic, and `tile.problem` says that they are 0."""
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


def extents_of(names: Sequence[str], values: Sequence[Any], dims: Sequence[Sequence[str]]) -> dict[str, int]:
    """The problem's extents by name. Raises InterpreterError with the names of two operands that disagree."""
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
    if PAIRED_ROWS in found:
        rows, owner = found[PAIRED_ROWS]
        n = extents.setdefault("n", rows // 2)
        if rows != 2 * n:
            raise InterpreterError(
                f"operand {owner}: shape {shapes[owner]} has {rows} rows; pairs of columns need two for each column of "
                f"D, which has {n} [paired-rows]"
            )
    for (name, shape), letters in zip(shapes.items(), dims, strict=True):
        for dim, extent in zip(letters[len(letters) - len(shape) :], shape, strict=True):
            letter, _, block = dim.partition("/")
            if block and extent != (blocks := -(-extents[letter] // int(block))):
                raise InterpreterError(
                    f"operand {name}: shape {shape} has {extent} blocks of {block} along {letter.upper()}, but "
                    f"{letter} = {extents[letter]} has {blocks}; {name} must be ({', '.join(letters)}), rounded up"
                    " [scale-blocks-differ]"
                )
    return extents
