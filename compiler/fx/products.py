"""The aten ops that are products, and which of their arguments are A, B, and an added matrix or bias.

mm(a, b), bmm(a, b)                       D = A · B
addmm(c, a, b, beta, alpha), baddbmm      D = beta · c + alpha · A · B
linear(a, w, bias)                        D = A · Wᵀ + bias
_grouped_mm(a, b, offs)                   D = A · B by groups, of rows if b is (groups, K, N), of K if b is (K, N)

The layers of experts of transformers call `transformers::grouped_mm_fallback` instead of _grouped_mm for types that the
latter does not multiply. Its backward op has two results, dA = dD · Bᵀ and dB = Aᵀ · dD, each of them a product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lowtide.compiler.fx.values import Value, value_of


@dataclass(frozen=True)
class Form:
    """Positions of A, B and the added tensor among the arguments of an op. `transposes_a`, `transposes_b`: the argument
    is (K, M), or (N, K). `grouped`: groups of rows or of K are multiplied, and the third argument is the ends."""

    a: int
    b: int
    added: int | None = None
    transposes_b: bool = False
    grouped: bool = False
    transposes_a: bool = False


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
        "transformers.grouped_mm_fallback.default": Form(0, 1, grouped=True),
    }
)
_OF_TWO: Mapping[str, tuple[Form, Form]] = MappingProxyType(  # the results of ops that compute two products
    {
        "transformers.grouped_mm_fallback_backward.default": (
            Form(3, 1, grouped=True, transposes_b=True),
            Form(0, 3, grouped=True, transposes_a=True),
        )
    }
)


@dataclass(frozen=True, eq=False)
class Product:
    """A product of a graph. `a`, `b`, `added`: nodes. D's element is beta · added + alpha · (A · B). `a_value` and
    `b_value` are A (…, M, K) and B (…, K, N), if need be as transposes of the nodes. `of_groups`: the arguments of a
    product of groups, by name."""

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
    def op(self) -> str:
        """The op that computes it."""
        return str(_form_of(self.node)[0].target)

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
    op, form = _form_of(node)
    if form is None:
        return None
    a, b = op.args[form.a], op.args[form.b]
    is_added = form.added is not None and len(op.args) > form.added
    value, a_value, b_value = value_of(node), value_of(a), value_of(b)
    if value is None or a_value is None or b_value is None:
        return None
    return Product(
        node,
        form,
        a,
        b,
        op.args[form.added] if is_added else None,
        op.kwargs.get("alpha", 1),
        op.kwargs.get("beta", 1),
        value,
        a_value.transposed if form.transposes_a else a_value,
        b_value.transposed if form.transposes_b else b_value,
        _of_groups(op) if form.grouped else MappingProxyType({}),
    )


def _form_of(node: Any) -> tuple[Any, Form | None]:
    """The op that a node calls, or whose result it is, and the form of the product."""
    if node.op != "call_function":
        return node, None
    source = node.args[0] if node.args else None
    forms = _OF_TWO.get(str(getattr(source, "target", "")))
    return (node, FORMS.get(str(node.target))) if forms is None else (source, forms[node.args[1]])


def _of_groups(node: Any) -> Mapping[str, Any]:
    """The arguments of torch._grouped_mm after A and B, by name; None for those that are not given. Other ops have no
    argument but the ends."""
    names = _OF_GROUPS if str(node.target).startswith("aten.") else _OF_GROUPS[:1]
    given = dict(zip(names, node.args[2:], strict=False)) | dict(node.kwargs)
    return {name: given.get(name) for name in _OF_GROUPS}
