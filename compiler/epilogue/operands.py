"""The epilogue: a Python function of the accumulator and named operands, each as one element.

    def epilogue(acc, c: lt.Full, bias: lt.PerColumn, alpha: lt.Scalar):
        return lt.relu(alpha * acc + 0.5 * c + bias)

The kind of an operand says which of its elements belongs to d[m, n]. `lt.Full["f32"]` sets the element type; by default
it is D's (f32 for a scalar). A function that returns a dict gives several results (`epilogue.results`). Everything is
computed in f32, whatever the types of the accumulator and the operands, and rounded to D's type once. With f64
accumulators, operands, scalars and D are f64, and everything is computed in f64.

Integers are s32: an s32 accumulator, and elements of s8, u8 and s32 operands. Sums, differences, products, maxima and
minima of integers alone, including constants, are computed in s32 and wrap around. Any other operation first converts
them to f32, which is exact up to 2²⁴ and rounds to nearest beyond. An s8 or u8 D is rounded to nearest, ties to even,
and saturated; NaN becomes 0.
"""

import enum
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from lowtide.compiler.epilogue.trace import Traced
from lowtide.elements import SCALE_BLOCK

# Names of parameters of a kernel's call, of its interpretation, and of the reference.
RESERVED_NAMES = frozenset(
    {"a", "b", "d", "m", "n", "k"}
    | {"domain", "level", "max_steps", "out", "seed", "self", "sms", "spec", "stream", "workspace"}
)


def name_error(name: Any, what: str = "epilogue operand") -> str | None:
    """Why an operand, or a `what` such as a result, cannot have this name; None if it can."""
    if name in RESERVED_NAMES:
        return (
            f"the {what}'s name {name!r} is reserved; kernels and the tools that check them use "
            f"{', '.join(sorted(RESERVED_NAMES))}: rename it"
        )
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier()) or iskeyword(name):
        return (
            f"the {what}'s name {name!r} cannot be passed or saved; names consist of ASCII letters, "
            "digits and _, and are not keywords of Python: rename it"
        )
    return None


class OperandKind(enum.Enum):
    """Which elements of an operand belong to d[m, n]. The value is the word that `tile.gemm` prints."""

    FULL = "full"
    PER_ROW = "per_row"
    PER_COLUMN = "per_column"
    SCALAR = "scalar"
    GROUP_SCALE = "group_scale"
    GROUP_ZERO = "group_zero"
    ROW_SCALE = "row_scale"
    COLUMN_SCALE = "column_scale"
    ROW_BLOCK_SCALE = "row_block_scale"
    COLUMN_BLOCK_SCALE = "column_block_scale"
    ENDS = "ends"
    TARGET = "target"
    A_ROWS = "a_rows"
    D_ROWS = "d_rows"
    ARRIVED = "arrived"
    TURN = "turn"
    STATUS = "status"
    PEERS = "peers"
    SENT = "sent"

    @property
    def is_of_epilogue(self) -> bool:
        """Whether the region reads it. Other operands act in the sum, or are the ends of groups, the columns of
        lt.gather, indices of rows of A or D, or those for shards that arrive or are sent."""
        return self in (OperandKind.FULL, OperandKind.PER_ROW, OperandKind.PER_COLUMN, OperandKind.SCALAR)

    @property
    def is_block_scale(self) -> bool:
        """Whether it scales sums of blocks of K. The epilogue does not see it."""
        return self.value.startswith(("row_", "column_"))

    @property
    def is_of_columns(self) -> bool:
        """Whether it has elements for the columns of D, as B has. With groups of rows it has a part for each group, or
        one that all groups share."""
        return self in _OF_COLUMNS


_OF_COLUMNS = (
    OperandKind.PER_COLUMN,
    OperandKind.GROUP_SCALE,
    OperandKind.GROUP_ZERO,
    OperandKind.COLUMN_SCALE,
    OperandKind.COLUMN_BLOCK_SCALE,
)


_NUMBERS_OF_PEER = 4  # two addresses of 64 bits
_COUNTED = (OperandKind.ENDS, OperandKind.ARRIVED, OperandKind.TURN, OperandKind.STATUS, OperandKind.SENT)


@dataclass(frozen=True)
class OperandType:
    """A kind and an element type (`None`: D's), from an annotation."""

    kind: OperandKind
    dtype: str | None = None


class Kind(Traced):
    """Base of the kinds. Type checkers see them as traced values; they are never instantiated."""

    __slots__ = ()
    kind: OperandKind

    def __class_getitem__(cls, dtype: str) -> OperandType:
        return OperandType(cls.kind, dtype)


class Full(Kind):
    """An operand of shape (M, N): element (m, n) for d[m, n]. Rows may be padded; the last dimension is contiguous."""

    __slots__ = ()
    kind = OperandKind.FULL


class PerRow(Kind):
    """An operand of shape (M,): element m for d[m, n]."""

    __slots__ = ()
    kind = OperandKind.PER_ROW


class PerColumn(Kind):
    """An operand of shape (N,): element n for d[m, n]."""

    __slots__ = ()
    kind = OperandKind.PER_COLUMN


class Scalar(Kind):
    """One f32, passed by value at each call; one f64 with f64 accumulators."""

    __slots__ = ()
    kind = OperandKind.SCALAR


@dataclass(frozen=True)
class Operand:
    """A named operand beside A and B: its kind and element type. The types are f16, bf16, f32, s8, u8, s32, from sm_89
    on e4m3 and e5m2, and only f64 with f64 accumulators."""

    name: str
    kind: OperandKind
    dtype: str
    group: int | None = None
    """The number of elements of K that share a GROUP_SCALE or GROUP_ZERO, which act in the sum, not in the epilogue."""
    count: int | None = None
    """For ENDS, and for the operands for shards that arrive: the number of elements. For PEERS and SENT: the number of
    shards. `None`: known at run time."""

    @property
    def has_count(self) -> bool:
        """Whether it is a vector with a number of elements of its own."""
        return self.kind in _COUNTED

    def shape(self, m: int | None, n: int | None, k: int | None = None) -> tuple[int | None, ...]:
        """The shape if D has m rows and n columns and sums have k products (`None`: known at run time)."""
        if self.group is not None:
            return (None if k is None else k // self.group, n)
        shapes = {
            OperandKind.FULL: (m, n),
            OperandKind.PER_ROW: (m,),
            OperandKind.TARGET: (m,),
            OperandKind.A_ROWS: (m,),
            OperandKind.D_ROWS: (m,),
            OperandKind.PER_COLUMN: (n,),
            **dict.fromkeys(_COUNTED, (self.count,)),
            OperandKind.PEERS: (self.count, _NUMBERS_OF_PEER),
            OperandKind.ROW_SCALE: (_blocks(k), m),
            OperandKind.COLUMN_SCALE: (_blocks(k), n),
            OperandKind.ROW_BLOCK_SCALE: (_blocks(m), _blocks(k)),
            OperandKind.COLUMN_BLOCK_SCALE: (_blocks(n), _blocks(k)),
        }
        return shapes.get(self.kind, ())


def _blocks(extent: int | None) -> int | None:
    """The number of blocks with scales of their own along an extent."""
    return None if extent is None else -(-extent // SCALE_BLOCK)
