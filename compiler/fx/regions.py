"""Regions: a product and the ops after it that compute each element of a result from one of D and from operands.

A region begins with the product. Only its last node, the exit, is used outside it. So one kernel can replace the exit.
A region with results (`fx.results`) replaces several nodes, and may begin with the halves of a product.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.arguments import is_constant, is_node
from lowtide.compiler.fx.operands import can_absorb, kind_beside
from lowtide.compiler.fx.pointwise import CASTS, OPS, RESHAPES, VIEWS
from lowtide.compiler.fx.products import FORMS, Product
from lowtide.compiler.fx.reductions import Results
from lowtide.compiler.fx.values import same_extent, same_shape, value_of
from lowtide.elements import element_type

_MOST_NODES = 64
CHECKPOINTING = "recompute"  # metadata of a node: the decision of selective activation checkpointing
# Ops that Inductor does not compute in its own kernels.
_CALLED = (*FORMS, "lowtide.", "_c10d_functional.", "aten._scaled_dot_product", "aten.convolution")


@dataclass(frozen=True, eq=False)
class Region:
    """`nodes` in the order of the graph, the product first, the exit last. `halves`: the halves of the product, which
    then are in `nodes` in its place; or two products. `results`: what the kernel stores, if it is not the exit alone.
    `other`: the second of two products."""

    nodes: tuple[Any, ...]
    halves: tuple[Any, ...] = ()
    results: Results | None = None
    other: Product | None = None

    @property
    def roots(self) -> tuple[Any, ...]:
        """The nodes that are sums of products."""
        return self.halves or self.nodes[:1]

    @property
    def exit(self) -> Any:
        return self.nodes[-1]

    @property
    def is_read_by_no_kernel(self) -> bool:
        """Whether only results of the graph, products and attention read the exit."""
        return all(map(is_called, readers(self.exit)))


def readers(node: Any) -> Iterator[Any]:
    """The ops that read a node, or a view of it."""
    for user in node.users:
        if str(user.target) in RESHAPES or str(user.target) in VIEWS:
            yield from readers(user)
        else:
            yield user


def is_called(node: Any) -> bool:
    """Whether no kernel can compute it together with its inputs: a result, or an op on whole tensors."""
    return node.op == "output" or str(node.target).startswith(_CALLED)


@dataclass(frozen=True, eq=False)
class Growth:
    """The possible regions of a product. `regions`: largest first. `reached`: the ops that can be in one. `stops`: ops
    that read intermediate values and are in no region, each with the reason, in the order of the graph."""

    regions: tuple[Region, ...]
    reached: tuple[Any, ...]
    stops: tuple[tuple[Any, str], ...]

    def reason(self, region: Region) -> str:
        """Why a region has no more ops; "" if none follow."""
        outside = {node for node in self.reached if node not in region.nodes}
        is_last = all(str(node.target) in RESHAPES or str(node.target) in CASTS for node in outside)
        stops = [stop for stop in self.stops if any(x in outside or x is region.exit for x in stop[0].all_input_nodes)]
        if all(is_called(node) for node, _ in stops):
            return ""
        if is_last:
            return f"before {stops[0][0].name}: {stops[0][1]}"
        names = " and ".join(node.name for node, _ in stops[-2:])
        return f"ops that follow are left, because {names} read{'s' * (len(stops) == 1)} intermediate values"


def grow(
    product: Any, position: Mapping[Any, int], is_backward: Callable[[Any], bool], halves: tuple[Any, ...] = ()
) -> Growth:
    """The regions that begin with a product, or the ops that can follow its halves. `position`: the order of the
    graph's nodes."""
    reached = [*halves] or [product]
    stops: dict[Any, str] = {}
    waiting = {user for root in reached for user in root.users}
    while waiting and len(reached) < _MOST_NODES:
        node = min(waiting, key=lambda other: position[other])
        waiting.discard(node)
        reason = _refusal(node, reached, reached[0])
        if reason is None and is_backward(node) != is_backward(product):
            reason = "it is part of the backward pass, but the product of the forward pass"
        if reason is None and node.meta.get(CHECKPOINTING) != product.meta.get(CHECKPOINTING):
            reason = "activation checkpointing treats it differently from the product"
        if reason is not None:
            stops[node] = reason
            continue
        reached.append(node)
        waiting |= {user for user in node.users if user not in stops and user not in reached}
    found = [] if halves else [Region(tuple(nodes)) for nodes in _closed(reached)]
    found = [region for region in found if not _is_trailing(region)]
    return Growth(tuple(reversed(found)), tuple(reached), tuple(stops.items()))


def _refusal(node: Any, reached: list[Any], product: Any) -> str | None:
    """Why a node that reads the region cannot be part of it."""
    target = str(node.target)
    if node.op != "call_function":
        return "it is not an op"
    if target not in OPS:
        return f"{target} is not computed in an epilogue"
    value, columns = value_of(node), value_of(product)
    if value is None or columns is None or not value.shape:
        return "it is not a tensor of known shape"
    if target in RESHAPES:
        kept = same_extent(value.shape[-1], columns.shape[-1])
        return None if kept else f"{target} to rows of {value.shape[-1]} elements, from {columns.shape[-1]}"
    if target in CASTS and value.dtype is None:
        return f"{target} to a type that kernels do not have"
    for argument in (*node.args, *node.kwargs.values()):
        if not is_node(argument) or is_constant(argument):
            continue
        other = value_of(argument)
        if other is None:
            return f"{target} reads {argument.name}, which is not a tensor"
        if argument in reached:
            if not same_shape(other.shape, value.shape):
                return f"{target} broadcasts the product"
            continue
        kind = kind_beside(other, value.shape)
        if not isinstance(kind, OperandKind) and not can_absorb(argument, columns.shape):
            return f"{target} reads {argument.name}: {kind}"
    return None


def _closed(reached: list[Any]) -> Iterator[list[Any]]:
    """The closed regions, one for each node that can be an exit, smallest first."""
    within: dict[Any, set[Any]] = {}
    for node in reached:
        inputs = [other for other in node.all_input_nodes if other in within]
        within[node] = {node}.union(*(within[other] for other in inputs))
        inner = within[node] - {node}
        value = value_of(node)
        if (
            value is not None
            and value.dtype is not None
            and all(user in within[node] for x in inner for user in x.users)
        ):
            yield [other for other in reached if other in within[node]]


def _is_trailing(region: Region) -> bool:
    """Whether the last op only reshapes, or only widens elements, which the kernel that reads them could do."""
    product, node = region.nodes[0], region.exit
    if node is product:
        return False
    if str(node.target) in RESHAPES:
        return True
    before, after = value_of(product), value_of(node)
    assert before is not None and after is not None and before.dtype is not None and after.dtype is not None
    is_wider = element_type(after.dtype).bits > element_type(before.dtype).bits
    return is_wider and not all(user.op == "output" for user in node.users)
