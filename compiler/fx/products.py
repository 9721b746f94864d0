"""The aten ops that are products, and which of their arguments are A, B, and an added matrix or bias.

mm(a, b), bmm(a, b)                       D = A · B
addmm(c, a, b, beta, alpha), baddbmm      D = beta · c + alpha · A · B
linear(a, w, bias)                        D = A · Wᵀ + bias
_grouped_mm(a, b, offs)                   D = A · B by groups, of rows if b is (groups, K, N), of K if b is (K, N)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lowtide.compiler.fx.values import Value, value_of


@dataclass(frozen=True)
class Form:
    """Positions of A, B and the added tensor among the arguments of an op. `transposes_b`: its B is (N, K). `grouped`:
    groups of rows or of K are multiplied, and the arguments after A and B are those of torch._grouped_mm."""

    a: int
    b: int
    added: int | None = None
    transposes_b: bool = False
    grouped: bool = False


# The arguments of torch._grouped_mm after A and B.
_OF_GROUPS = ("offs", "bias", "out_dtype")
FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "aten.mm.default": Form(0, 1),
        "aten.bmm.default": Form(0, 1),
        "aten.addmm.default": Form(1, 2, 0),
        "aten.baddbmm.default": Form(1, 2, 0),
        "aten.linear.default": Form(0, 1, 2, transposes_b=True),
        "aten._grouped_mm.default": Form(0, 1, grouped=True),
    }
)


@dataclass(frozen=True, eq=False)
class Product:
    """A product of a graph. `a`, `b`, `added`: nodes. D's element is beta · added + alpha · (A · B). `of_groups`: the
    arguments of a product of groups, by name."""

    node: Any
    form: Form
    a: Any
    b: Any
    added: Any
    alpha: float
    beta: float
    value: Value
    a_value: Value
    b_value: Value
    of_groups: Mapping[str, Any]

    @property
    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The number of matrices, M, N and K. If B is one matrix, M counts the rows of all matrices of A. For a product
        of groups, M or K is the sum over all groups."""
        *batch, m, n = self.value.shape
        if self.form.grouped:
            batch = []
        elif len(self.b_value.shape) == 2:
            for extent in batch:
                m = m * extent
            batch = []
        count: Any = 1
        for extent in batch:
            count = count * extent
        return count, m, n, self.a_value.shape[-1]


def product_of(node: Any) -> Product | None:
    """The product that a node computes; None for another op."""
    form = FORMS.get(str(node.target)) if node.op == "call_function" else None
    if form is None:
        return None
    a, b = node.args[form.a], node.args[form.b]
    is_added = form.added is not None and len(node.args) > form.added
    values = value_of(node), value_of(a), value_of(b)
    if values[0] is None or values[1] is None or values[2] is None:
        return None
    return Product(
        node,
        form,
        a,
        b,
        node.args[form.added] if is_added else None,
        node.kwargs.get("alpha", 1),
        node.kwargs.get("beta", 1),
        values[0],
        values[1],
        values[2],
        _of_groups(node) if form.grouped else MappingProxyType({}),
    )


def _of_groups(node: Any) -> Mapping[str, Any]:
    """The arguments of torch._grouped_mm after A and B, by name; None for those that are not given."""
    given = dict(zip(_OF_GROUPS, node.args[2:], strict=False)) | dict(node.kwargs)
    return {name: given.get(name) for name in _OF_GROUPS}
