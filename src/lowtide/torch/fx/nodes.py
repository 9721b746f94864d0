"""New nodes of a graph that the pass rewrites, with the metadata of traced ones."""

from collections.abc import Iterable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_leaves

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.fusion import Fusion, Leaf
from lowtide.compiler.fx.values import same_shape, sizes_for_reshape, value_of

RESHAPE = torch.ops.aten.reshape.default
PERMUTE = torch.ops.aten.permute.default
# Metadata that the new node gets anew, or that is about the arguments of the old one.
_OF_VALUES = frozenset({"val", "tensor_meta", "unbacked_bindings", "eager_input_vals"})


def operand_of(graph: torch.fx.Graph, leaf: Leaf, fusion: Fusion) -> Any:
    """The leaf in the form that the op takes: D's shape, (…, M) or (N,)."""
    shape = fusion.shape
    wanted = {OperandKind.FULL: shape, OperandKind.PER_ROW: shape[:-1], OperandKind.PER_COLUMN: shape[-1:]}[leaf.kind]
    return shaped(graph, leaf.node, wanted, fusion.region.exit)


def shaped(graph: torch.fx.Graph, node: Any, shape: tuple[Any, ...], like: Any, sizes: list[Any] | None = None) -> Any:
    """The node, reshaped if it does not have the shape. `sizes`: those for the reshape, if the shape does not give
    them."""
    value = value_of(node)
    assert value is not None
    sizes = sizes_for_reshape(shape) if sizes is None else sizes
    if same_shape(value.shape, shape):
        return node
    assert sizes is not None
    return call(graph, RESHAPE, (node, sizes), like)


def call(graph: torch.fx.Graph, target: Any, arguments: tuple[Any, ...], like: Any) -> Any:
    """A node in the place of `like`, with the metadata of a traced one."""
    node = graph.call_function(target, arguments)
    node.meta = {name: entry for name, entry in like.meta.items() if name not in _OF_VALUES}
    values = torch.fx.map_arg(arguments, lambda other: other.meta["val"])
    with detect_fake_mode([value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]):
        node.meta["val"] = target(*values)
    return node


def erase_unread(graph: torch.fx.Graph, nodes: Iterable[Any]) -> None:
    """Erase those of the nodes that have no reader, and then their inputs that have none any more. Unlike
    `eliminate_dead_code`, this does not walk the whole graph."""
    left = list(dict.fromkeys(nodes))
    while left:
        node = left.pop()
        if node.op == "call_function" and not node.users and not node._erased and not node.is_impure():
            inputs = node.all_input_nodes
            graph.erase_node(node)
            left += inputs
