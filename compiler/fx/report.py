"""A table of the products of a graph, with the decision for each."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lowtide.compiler.fx.calls import Call
from lowtide.compiler.numerics_words import REPEATABLE
from lowtide.compiler.spec import GemmSpec

_TITLES = ("product", "shape", "taken with, or why it is left")


@dataclass(frozen=True)
class Row:
    """`product`: the node's name. `taken`: the names of the ops in its kernel, None if the product is left.

    `reason`: why the product is left, or why no more ops are taken; "" if none follow. `epilogue`: its text. `call`:
    the arguments of the kernel, None if sizes are unknown. `results`: what the kernel stores, if it is not one value.
    `collective`: the name of a collective that is taken too.
    """

    graph: str
    product: str
    op: str
    shape: str
    taken: tuple[str, ...] | None
    reason: str
    epilogue: str = ""
    call: Call | None = field(default=None, repr=False)
    results: str = ""
    collective: str = ""

    @property
    def is_taken(self) -> bool:
        return self.taken is not None

    @property
    def text(self) -> str:
        if self.taken is None:
            return f"left: {self.reason}"
        names = (self.collective, *self.taken) if self.collective else self.taken
        ops = f"taken with {', '.join(names)}" if names else "taken"
        ops = f"{ops}; gives {self.results}" if self.results else ops
        return f"{ops}; {self.reason}" if self.reason else ops


class Report(tuple[Row, ...]):
    """The rows, in the order of compilation. `str(report)` is a table per graph."""

    __slots__ = ()

    @property
    def taken(self) -> tuple[Row, ...]:
        return tuple(row for row in self if row.is_taken)

    @property
    def left(self) -> tuple[Row, ...]:
        return tuple(row for row in self if not row.is_taken)

    def specs(self, target: str, numerics: str = REPEATABLE) -> list[GemmSpec]:
        """The problems of the graphs' kernels, without duplicates. `lt.tune` finds faster schedules for them."""
        calls = dict.fromkeys(row.call for row in self if row.call is not None)
        return [call.spec(numerics, target) for call in calls]

    def __str__(self) -> str:
        if not self:
            return "no graph with products was compiled"
        names = dict.fromkeys(row.graph for row in self)
        return "\n\n".join(_table(name, [row for row in self if row.graph == name]) for name in names)


def _table(name: str, rows: Iterable[Row]) -> str:
    rows = list(rows)
    cells = [_TITLES, *((row.product, row.shape, row.text) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_TITLES) - 1)]
    lines = ["  ".join((*(x.ljust(w) for x, w in zip(line, widths, strict=False)), line[-1])) for line in cells]
    taken = sum(row.is_taken for row in rows)
    return "\n".join([f"{name}: {taken} of {len(rows)} products taken", *lines])
