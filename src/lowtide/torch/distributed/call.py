"""A call on one rank: what the kernels and the plain ops take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import copysign
from typing import Any

import torch

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.torch.calls import How, d_type, read
from lowtide.torch.dtypes import name_of

GATHER, SCATTER, REDUCE = "all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"
_PLAIN = How()


@dataclass(frozen=True, eq=False)
class Call:
    """`op`: GATHER, SCATTER or REDUCE. A is (rows, K) and B (K, N). `operands`, `how`: of the epilogue.

    `rows`: the number of rows of each rank: of A for GATHER, of D otherwise; () for the default of `shares`.
    `of_parts`: whether the epilogue of a sum over ranks is applied to each rank's part, before the sum; otherwise it is
    applied to the sum. `inner`: the number of these rows for each index of the first dimension, if the caller's A was
    (rows, …, K). `gathered`: the index of an operand that has this rank's rows, as A has, and is gathered too; None if
    there is none. `keeps`: whether the call also returns the gathered rows of A. `sender`: who sends this rank's rows
    of A, a word of `grid.sender`; None: the one that is expected to take less time.
    """

    op: str
    a: torch.Tensor
    b: torch.Tensor
    operands: Sequence[torch.Tensor] = ()
    how: How = _PLAIN
    out: torch.Tensor | None = None
    rows: tuple[int, ...] = ()
    of_parts: bool = False
    gathered: int | None = None
    keeps: bool = False
    sender: str | None = None
    inner: int = 1

    def shares(self, size: int) -> tuple[int, ...]:
        """The number of rows of each of `size` ranks: `rows` if given. Otherwise, all ranks have as many as this rank
        for GATHER; for other ops, A's rows are divided as by torch.chunk: the last ranks have fewer, or none."""
        if self.rows:
            return self.rows
        m = self.a.shape[0]
        return (m,) * size if self.op == GATHER else chunks(m, size)

    def with_operand(self, x: torch.Tensor) -> "Call":
        """The call with all rows of the operand that is gathered."""
        return replace(self, operands=[x if i == self.gathered else each for i, each in enumerate(self.operands)])

    @property
    def d(self) -> torch.dtype:
        """D's dtype. Raises LaunchError for types that are not multiplied."""
        return d_type(self.a, self.b, self.how)

    @property
    def part(self) -> tuple[Sequence[torch.Tensor], How]:
        """The operands and the epilogue of each rank's part of a sum; for GATHER, those of the product."""
        if self.of_parts or self.op == GATHER:
            return self.operands, self.how._replace(out_dtype=self.d)
        return [], How((), "", self.how.numerics, self.how.precision, self.d)

    @property
    def sum(self) -> tuple[Sequence[torch.Tensor], How]:
        """The operands and the epilogue of a sum over ranks."""
        return ([], How((), "", self.how.numerics, None, self.d)) if self.of_parts else (self.operands, self.how)

    def place(self, out: torch.Tensor) -> tuple[Any, ...]:
        """A key of all that the launches of this call, with D in `out`, depend on."""
        how, tensors = self.how, (self.a, self.b, out, *self.operands)
        lie = [(x.data_ptr(), x.shape, x.stride(), x.dtype) for x in tensors]
        scalars = [(value, copysign(1.0, value)) for value in how.scalars]  # 0.0 and -0.0 are equal but different
        words = how.epilogue, how.numerics, how.precision, how.out_dtype
        return self.op, *lie, *scalars, *words, self.rows, self.of_parts, self.sender

    @property
    def types(self) -> dict[str, Any]:
        """The element types of A, B and D, and the precision of the product if one is given, as fields of a spec."""
        found = {"a": name_of(self.a.dtype), "b": name_of(self.b.dtype), "d": name_of(self.d)}
        return found if self.how.precision is None else found | {"precision": self.how.precision}


def chunks(rows: int, size: int) -> tuple[int, ...]:
    """The number of rows of each of `size` parts, as torch.chunk divides them, with parts of no rows at the end."""
    most = -(-rows // size)
    return tuple(min(most, max(rows - part * most, 0)) for part in range(size))


def slice_of(rows: Sequence[int], rank: int) -> slice:
    """The rows of a rank among those of all ranks."""
    first = sum(rows[:rank])
    return slice(first, first + rows[rank])


def rows_of(operands: Sequence[torch.Tensor], how: How, rows: slice) -> list[torch.Tensor]:
    """The operands of an epilogue for some rows of D."""
    asked = read(how.epilogue)
    kinds = [each.kind for each in asked.tensors()] if asked else []
    return [each if kind is OperandKind.PER_COLUMN else each[rows] for each, kind in zip(operands, kinds, strict=True)]
