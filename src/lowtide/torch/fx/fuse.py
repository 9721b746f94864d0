"""The pass: each product that is taken becomes one `lowtide::gemm`, with the ops that follow in its epilogue.

    %mm = aten.mm(%x, %w); %view = aten.view(%mm, [4, 512, 1024]); %add = aten.add(%residual, %view)
    %gemm = lowtide.gemm(%x, %w, [%reshape], [], "(acc: f32, %x0: full bf16) -> bf16 { … }", "repeatable", None, None)

A product of groups becomes one `lowtide::grouped_gemm`. The pass runs on graphs of aten ops that hold forward and
backward together, before they are partitioned, so that a kernel writes the tensors kept for the backward pass. Views
before operands stay: kernels read any strides.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_leaves

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.choosing import choose
from lowtide.compiler.fx.fusion import Fusion, Leaf
from lowtide.compiler.fx.products import Product, product_of
from lowtide.compiler.fx.report import Row
from lowtide.compiler.fx.rule import Rule
from lowtide.compiler.fx.values import same_shape, sizes_for_reshape, value_of
from lowtide.torch.calls import OF_PRECISIONS, How
from lowtide.torch.grouped import grouped_gemm

_reshape = torch.ops.aten.reshape.default
_permute = torch.ops.aten.permute.default
_OF_VALUES = frozenset({"val", "tensor_meta", "unbacked_bindings"})  # metadata that the new node gets anew


def fuse(graph: torch.fx.Graph, name: str, rule: Rule, how: How) -> list[Row]:
    """Rewrite a graph; one row for each product. `how`: its numerics, and the precision of products of f32."""
    rows = []
    for node in list(graph.nodes):
        product = product_of(node)
        if product is None:
            continue
        position = {other: number for number, other in enumerate(graph.nodes)}
        choice = choose(product, name, position, _is_backward(graph), rule)
        rows.append(choice.row)
        if choice.fusion is not None and choice.epilogue is not None:
            _replace(graph, choice.fusion, how._replace(epilogue=choice.epilogue))
        elif choice.row.is_taken:
            _replace_groups(graph, product)
    graph.eliminate_dead_code()
    return rows


def _is_backward(graph: torch.fx.Graph) -> Callable[[Any], bool]:
    """Whether a node belongs to the backward pass: it depends on a tangent, by the names that AOTAutograd gives."""
    found: set[Any] = set()
    for node in graph.nodes:
        is_tangent = node.op == "placeholder" and node.name.startswith("tangents")
        if is_tangent or any(other in found for other in node.all_input_nodes):
            found.add(node)
    return found.__contains__


def _replace(graph: torch.fx.Graph, fusion: Fusion, how: How) -> None:
    exit, product = fusion.region.exit, fusion.product
    how = how if product.a_value.dtype == OF_PRECISIONS else how._replace(precision=None)
    with graph.inserting_before(exit):
        b = product.b
        if product.form.transposes_b:
            b = _call(graph, _permute, (b, [1, 0]), exit)
        operands = [_operand(graph, leaf, fusion) for leaf in fusion.leaves]
        arguments: tuple[Any, ...] = (product.a, b, operands, [*how.scalars], *how[1:])
        made = _call(graph, torch.ops.lowtide.gemm.default, arguments, exit)
        if fusion.size is not None:
            made = _call(graph, _reshape, (made, fusion.size), exit)
    exit.replace_all_uses_with(made)
    for node in reversed(fusion.region.nodes):
        graph.erase_node(node)


def _replace_groups(graph: torch.fx.Graph, product: Product) -> None:
    """Replace a product of groups by a call of `lowtide::grouped_gemm`."""
    node, given = product.node, product.of_groups
    with graph.inserting_before(node):
        arguments = (product.a, product.b, given["offs"], given["out_dtype"])
        made = _call(graph, grouped_gemm, arguments, node)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _operand(graph: torch.fx.Graph, leaf: Leaf, fusion: Fusion) -> Any:
    """The leaf in the form that the op takes: D's shape, (…, M) or (N,)."""
    shape = fusion.product.value.shape
    wanted = {OperandKind.FULL: shape, OperandKind.PER_ROW: shape[:-1], OperandKind.PER_COLUMN: shape[-1:]}[leaf.kind]
    value = value_of(leaf.node)
    assert value is not None
    sizes = sizes_for_reshape(wanted)
    if same_shape(value.shape, wanted):
        return leaf.node
    assert sizes is not None
    return _call(graph, _reshape, (leaf.node, sizes), fusion.region.exit)


def _call(graph: torch.fx.Graph, target: Any, arguments: tuple[Any, ...], like: Any) -> Any:
    """A node in the place of `like`, with the metadata of a traced one."""
    node = graph.call_function(target, arguments)
    node.meta = {name: entry for name, entry in like.meta.items() if name not in _OF_VALUES}
    values = torch.fx.map_arg(arguments, lambda other: other.meta["val"])
    with detect_fake_mode([value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]):
        node.meta["val"] = target(*values)
    return node
