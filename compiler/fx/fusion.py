"""A region as one kernel call: its epilogue, and the tensors that it reads beside A and B.

If such a tensor is computed by pointwise ops, the epilogue may compute it from their inputs instead, so that it is not
written. This is done if nothing else reads the tensor, or if it does not increase the number of bytes read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.arguments import is_constant, is_node
from lowtide.compiler.fx.operands import can_absorb, is_full, kind_beside
from lowtide.compiler.fx.pointwise import OPS, RESHAPES
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.regions import Region
from lowtide.compiler.fx.values import same_shape, sizes_for_reshape, value_of
from lowtide.elements import element_type

_MOST_ABSORBED = 48


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor that the epilogue reads."""

    node: Any
    name: str
    kind: OperandKind
    dtype: str


@dataclass(frozen=True, eq=False)
class Fusion:
    """`nodes`: all nodes that the epilogue computes (the region's and absorbed ones), in the order of the graph.

    `size`: the shape of the node as its op was given it, None if it is D's.
    """

    product: Product
    region: Region
    nodes: tuple[Any, ...]
    leaves: tuple[Leaf, ...]
    d: str

    @property
    def shape(self) -> tuple[Any, ...]:
        """D's shape: that of the product, or of its halves."""
        return shape_of_d(self.product, self.region)

    @property
    def size(self) -> Any:
        """The argument of the reshape that shapes the exit; None if the exit has the product's shape."""
        wanted = value_of(self.region.exit)
        assert wanted is not None
        if same_shape(wanted.shape, self.product.value.shape):
            return None
        return sizes_in(self.product, self.region, wanted.shape)


def sizes_in(product: Product, region: Region, shape: tuple[Any, ...]) -> list[Any] | None:
    """The sizes for a reshape to a shape whose rows are those of a result, with nodes for extents of run time; None if
    no op of the region has them."""
    sizes = sizes_for_reshape(shape)
    if sizes is not None:
        return sizes
    for node in (*region.nodes, *product.node.users):
        made = value_of(node)
        if made is None or str(node.target) not in RESHAPES or not isinstance(node.args[-1], list):
            continue
        given = [*node.args[-1]]
        if same_shape(shape, made.shape):
            return given
        if same_shape(shape[:-1], made.shape[:-1]) and isinstance(shape[-1], int):
            return [*given[:-1], shape[-1]]
        if same_shape(shape, made.shape[:-1]):
            return given[:-1]
    return None


def shape_of_d(product: Product, region: Region) -> tuple[Any, ...]:
    """The shape of the full results of a region."""
    if not region.halves:
        return product.value.shape
    value = value_of(region.halves[0])
    assert value is not None
    return (*product.value.shape[:-1], value.shape[-1])


def fusion_of(product: Product, region: Region, position: Mapping[Any, int], most_full: int) -> Fusion | str:
    """The call, or why there is none. `most_full`: the most operands of D's size that it may have."""
    shape = shape_of_d(product, region)
    absorbed = _absorbed(region, shape, position, most_full)
    inside = {*region.nodes, *absorbed}
    nodes = tuple(sorted(inside, key=lambda node: position[node]))
    leaves: dict[Any, Leaf] = {}
    for node, beside in _reads(nodes, product, region.roots):
        if node in inside or node in leaves:
            continue
        value = value_of(node)
        if value is None:
            return f"{node.name} is not a tensor"
        kind = kind_beside(value, beside)
        if not isinstance(kind, OperandKind):
            return f"{node.name}: {kind}"
        assert value.dtype is not None
        leaves[node] = Leaf(node, f"x{len(leaves)}", kind, value.dtype)
    full = [leaf for leaf in leaves.values() if leaf.kind is OperandKind.FULL]
    if len(full) > most_full:
        names = " and ".join(leaf.node.name for leaf in full)
        return f"it reads {names}, of D's size; the rule allows {most_full or 'none'} here"
    d = value_of(region.exit if region.results is None else product.node)
    assert d is not None and d.dtype is not None
    for leaf in full:
        is_wide = element_type(leaf.dtype).bits > element_type(d.dtype).bits
        if is_wide and str(leaf.node.target) in OPS:
            return f"it reads {leaf.node.name}, which would have to be written as {leaf.dtype}"
    for node in (region.exit,) if region.results is None else region.results.replaced:
        made = value_of(node)
        is_as_product = made is not None and same_shape(made.shape, product.value.shape)
        if made is None or (not is_as_product and sizes_in(product, region, made.shape) is None):
            return f"{node.name} has sizes that are known at run time only"
    return Fusion(product, region, nodes, tuple(leaves.values()), d.dtype)


def _reads(nodes: tuple[Any, ...], product: Product, roots: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The tensors read beside A and B, each with the shape that it is broadcast to."""
    if product.added is not None and product.beta != 0:
        yield product.added, product.value.shape
    for node in nodes:
        if node in roots:
            continue
        value = value_of(node)
        assert value is not None
        for argument in (*node.args, *node.kwargs.values()):
            if is_node(argument) and not is_constant(argument):
                own = value_of(argument) if str(node.target) in RESHAPES else value
                yield argument, value.shape if own is None else own.shape


def _absorbed(region: Region, shape: tuple[Any, ...], position: Mapping[Any, int], most_full: int) -> set[Any]:
    """The pointwise ops that produce tensors which the region reads, and that the epilogue computes itself."""
    absorbed: set[Any] = set()
    inside = set(region.nodes)
    read = [
        argument
        for node in region.nodes
        if node not in region.roots
        for argument in node.all_input_nodes
        if argument not in inside and not is_constant(argument)
    ]
    roots = {node for node in read if not can_absorb(node, shape)}
    for node in sorted({*read} - roots, key=lambda other: position[other], reverse=True):
        if node in absorbed or node in roots:
            continue
        more, ends = _closure(node, shape)
        new = {end for end in ends - roots if is_full(end, shape)}
        is_own = all(user in inside or user in absorbed for user in node.users)
        is_less = sum(map(_bits, new)) <= _bits(node)
        full = {x for x in roots | new if is_full(x, shape)}
        fits = len(absorbed | more) <= _MOST_ABSORBED and len(full) <= most_full
        if fits and (is_less or is_own):
            absorbed |= more
            roots |= ends
        else:
            roots.add(node)
    return absorbed


def _closure(node: Any, shape: tuple[Any, ...]) -> tuple[set[Any], set[Any]]:
    """The pointwise ops that compute a node, and the nodes that they read."""
    more: set[Any] = set()
    ends: set[Any] = set()
    waiting = [node]
    while waiting and len(more) <= _MOST_ABSORBED:
        other = waiting.pop()
        if other in more:
            continue
        if not can_absorb(other, shape):
            ends.add(other)
            continue
        more.add(other)
        waiting += [x for x in other.all_input_nodes if not is_constant(x)]
    return more, ends | {x for x in waiting if x not in more}


def _bits(node: Any) -> int:
    value = value_of(node)
    return 1 if value is None or value.dtype is None else element_type(value.dtype).bits
