"""The kinds of arguments and results of a kernel, as words of its manifest, and the extents of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.elements import element_type, weight_types
from lowtide.reductions import REDUCTIONS
from lowtide.words import APART, ARRIVALS, SENDS

KINDS: dict[str, int] = {
    "matrix": 2,
    "full": 2,
    "per_row": 1,
    "per_column": 1,
    "scalar": 0,
    "group_scale": 2,
    "group_zero": 2,
    "ends": 1,
    "a_rows": 1,
    "d_rows": 1,
    "amax": 1,
    "arrived": 1,
    "turn": 1,
    "status": 1,
    "peers": 2,
    "sent": 1,
}
BLOCK_SCALES = ("row_scale", "column_scale", "row_block_scale", "column_block_scale")
KINDS |= dict.fromkeys(BLOCK_SCALES, 2)
KINDS |= dict.fromkeys((*REDUCTIONS, "target"), 1)
ABSENT = "absent"  # the kind of a D that is not stored, if all outputs are reductions: calls do not pass it
KINDS[ABSENT] = 2
IN_THE_SUM = ("group_scale", "group_zero", *BLOCK_SCALES)  # kinds of arguments that act in the sum
OF_COLUMNS = ("per_column", "group_scale", "group_zero", "column_scale", "column_block_scale")  # kinds of inputs with
# elements for the columns of D: with groups of rows they may have a part for each
ROW_INDICES = ("a_rows", "d_rows")  # kinds of arguments that are indices of rows, and the words of specs with them
NOT_OF_EPILOGUE = (
    *IN_THE_SUM,
    "ends",
    "target",
    *ROW_INDICES,
    *ARRIVALS,
    *SENDS,
)  # kinds of arguments that the epilogue does not read
STALE = 2.0**20  # the value of an amax before a check: larger than any result, like one left by a previous call
# Kinds that all products of a batch share, the ends of their rows, and what says when they arrive.
UNBATCHED = (
    "scalar",
    "amax",
    "ends",
    *ARRIVALS,
    *SENDS,
    *(word for word, reduction in REDUCTIONS.items() if not reduction.dims),
)
RESULTS = ("full", "amax", ABSENT, *REDUCTIONS)  # kinds of outputs
OPERAND_DIMS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "tn": (("m", "k"), ("n", "k")),
    "tt": (("m", "k"), ("k", "n")),
    "nn": (("k", "m"), ("n", "k")),
    "nt": (("k", "m"), ("k", "n")),
}
# D and its full operands, in memory order.
OUTPUT_DIMS: dict[str, tuple[str, str]] = {"row": ("m", "n"), "column": ("n", "m")}
ROW_GROUPS, K_GROUPS = "row_groups", "groups_of_k"
COUNTS = "counts"  # the word of specs whose products have numbers of rows of their own
HAS_ARRIVALS = "arrivals"  # the word of specs with shards of A that arrive
HAS_PEERS = "peers"  # the word of specs whose kernel can send this GPU's shard
BATCH, ONE = "batch", "one"  # dimensions of a batch, and of one element
TURN, STATUS = "three", "four"  # dimensions: of a turn; of a status, and of a row of peers
HALVES = "two"  # the dimension of the two matrices of B
KIND_DIMS: dict[str, tuple[str, ...]] = {
    "per_row": ("m",),
    "per_column": ("n",),
    "scalar": (),
    "group_scale": ("groups", "n"),
    "group_zero": ("groups", "n"),
    "ends": (ROW_GROUPS,),
    "amax": (ONE,),
    "target": ("m",),
    "arrived": (BATCH,),
    "turn": (TURN,),
    "status": (STATUS,),
    "peers": (BATCH, STATUS),
    "sent": (BATCH,),
    **dict.fromkeys(ROW_INDICES, ("m",)),
    **{word: tuple(reduction.dims) or (ONE,) for word, reduction in REDUCTIONS.items()},
    "row_scale": ("k/128", "m"),
    "column_scale": ("k/128", "n"),
    "row_block_scale": ("m/128", "k/128"),
    "column_block_scale": ("n/128", "k/128"),
}
PACKED_ROWS = "packed_rows"  # in place of n: rows of bytes; each holds the weights of two rows
ROWS_OF_A = "rows_of_a"  # in place of m: of an A whose rows are taken at an index
ROWS_OF_D = "rows_of_d"  # in place of m: of full outputs whose rows are stored at an index
PAIRED_ROWS = "paired_rows"  # in place of n: rows of B; two belong to each column of D
SHAPES = ("equal", "any")  # of the matrices of a list


def output_of(arguments: Sequence[Mapping[str, Any]]) -> int:
    """The position of D, the first full output, or the absent one, among the arguments."""
    return next(i for i, x in enumerate(arguments) if x["role"] == "output" and x["kind"] in ("full", ABSENT))


def is_full_operand(argument: Mapping[str, Any]) -> bool:
    """Whether an argument is an operand with an element for each of D's, so that D may replace it in memory."""
    return (argument["role"], argument["kind"]) == ("input", "full")


def is_block_scale(kind: str) -> bool:
    """Whether an argument of this kind scales blocks of A or B."""
    return kind in BLOCK_SCALES


def extent_of(dim: str, extents: Mapping[str, Any]) -> Any:
    """The extent of a dimension, from the problem's extents; for "k/128" the number of blocks of K, rounded up.

    None if the problem's extent is unknown, or the problem has no such dimension.
    """
    letter, _, block = dim.partition("/")
    whole = extents.get(letter)
    return whole if whole is None or not block else -(-whole // int(block))


def matrix_dims(spec: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The problem extents of the dimensions of A and of B, without the batch, with the groups of rows."""
    a, b = OPERAND_DIMS[spec["layout"]]
    a = (ROWS_OF_A, "k") if "a_rows" in spec else a
    groups = (ROW_GROUPS,) if ROW_GROUPS in spec else ()
    if spec.get("pairs") == APART:
        return a, (HALVES, *b)
    if "pairs" in spec:
        return a, (*groups, *(PAIRED_ROWS if dim == "n" else dim for dim in b))
    if is_mixed(spec) and element_type(spec["b"]).per_byte > 1:
        return a, (*groups, *(PACKED_ROWS if dim == "n" else dim for dim in b))
    return a, (*groups, *b)


def output_dims(spec: Mapping[str, Any]) -> tuple[str, str]:
    """The problem extents of the dimensions of D, in memory order, without the batch. Full operands have the rows of
    the product (`full_dims`)."""
    return (ROWS_OF_D, "n") if "d_rows" in spec else full_dims(spec)


def full_dims(spec: Mapping[str, Any]) -> tuple[str, str]:
    """The problem extents of the dimensions of full operands, in memory order, without the batch."""
    return OUTPUT_DIMS[spec.get("d_order", "row")]


def outer_extents(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the extents of a problem other than m, n and k: the batch, or the number of groups of rows."""
    return tuple(name for name in (BATCH, ROW_GROUPS, K_GROUPS) if name in spec)


def has_groups(spec: Mapping[str, Any]) -> bool:
    """Whether rows or K are grouped, or the products of a batch have numbers of rows of their own."""
    return ROW_GROUPS in spec or K_GROUPS in spec or COUNTS in spec


def is_mixed(spec: Mapping[str, Any]) -> bool:
    """Whether B is packed weights of type `b`, which are multiplied in the type of A."""
    return spec["b"] in weight_types(spec["a"])


def problem_dims(manifest: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """For each argument, the problem extents ("m", "n", "k", "batch", "row_groups", "groups", "packed_rows",
    "paired_rows", "rows_of_a", "rows_of_d") of its dimensions, in memory order. Scales may count blocks: "k/128"
    (`extent_of`)."""
    a_dims, b_dims = matrix_dims(manifest["spec"])
    matrices = iter((a_dims, b_dims))
    outer = (BATCH,) if BATCH in manifest["spec"] else ()
    of_groups = (K_GROUPS,) if K_GROUPS in manifest["spec"] else ()
    dims: dict[str, tuple[str, ...]] = {}
    for argument in manifest["arguments"]:
        if argument["kind"] in ("full", ABSENT):
            is_input = argument["role"] == "input"
            own: tuple[str, ...] = (*of_groups, *(full_dims if is_input else output_dims)(manifest["spec"]))
        elif argument["kind"] == "ends":
            own = of_groups or outer or KIND_DIMS["ends"]
        else:
            each = (ROW_GROUPS,) if argument.get("per_group") else ()
            own = next(matrices) if argument["kind"] == "matrix" else (*each, *KIND_DIMS[argument["kind"]])
        dims[argument["name"]] = own if argument["kind"] in UNBATCHED else (*outer, *own)
    return dims
