"""Replaces a product and the collective beside it by one op: `lowtide::all_gather_matmul`, `matmul_reduce_scatter` or
`matmul_all_reduce`.

    %w = wait_tensor(all_gather_into_tensor(%x, 4, "0")); %mm = aten.mm(%w, %b); %relu = aten.relu(%mm)
    %made = lowtide.all_gather_matmul(%x, %b, [], [], "(acc: f32) -> bf16 { … }", …, "0", 4, False, [])
    %d = getitem(%made, 0)

If other ops read the gathered rows, as those of the backward pass do, the op returns them too.
"""

import operator
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch._inductor.pattern_matcher import stable_topological_sort

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.choosing import Choice, choose
from lowtide.compiler.fx.collectives import GATHER, WAIT, Collective, gather_before, readers_of, sum_after
from lowtide.compiler.fx.fusion import Fusion
from lowtide.compiler.fx.padding import without_padding
from lowtide.compiler.fx.products import Product, product_of
from lowtide.compiler.fx.regions import CHECKPOINTING
from lowtide.compiler.fx.report import Row
from lowtide.compiler.fx.rule import Rule
from lowtide.compiler.fx.values import expected, sizes_for_reshape
from lowtide.torch.calls import OF_PRECISIONS, How
from lowtide.torch.fx.nodes import PERMUTE, RESHAPE, call, operand_of, shaped

if dist.is_available():  # registers the ops: a graph from Inductor's cache calls them too
    from lowtide.torch.distributed import ops

_OF_MATRICES = 2  # dimensions of D
IsBackward = Callable[[Any], bool]


class Collecting:
    """The pass on one graph. The methods take `is_backward`: whether a node belongs to the backward pass."""

    def __init__(self, graph: torch.fx.Graph, name: str, rule: Rule, how: How) -> None:
        self._graph, self._name, self._how = graph, name, how
        self._rule = replace(rule, results=False)  # kernels with several results wait for no rank
        self._is_needed = rule.collectives and any(str(x.target).startswith("_c10d_functional.") for x in graph.nodes)

    def merge(self, is_backward: IsBackward) -> None:
        """Merge equal all-gathers within the forward pass, and within the backward pass. DTensor makes a gather for
        each layer that reads the rows."""
        first: dict[Any, Any] = {}
        for node in [*self._graph.nodes] if self._is_needed else []:
            if str(node.target) == WAIT and str(node.args[0].target) == GATHER:
                gather = node.args[0]
                kept = first.setdefault((*gather.args, is_backward(node)), node)
                if kept is not node:
                    node.replace_all_uses_with(kept)
                    self._erase_unused(node, gather)

    def take(self, product: Product, is_backward: IsBackward) -> tuple[Row | None, str]:
        """Replaces a product and its collective by one op. Returns the row of the report and "". If nothing is
        replaced, returns None, and why the collective is left, or "" if there is no collective or the rule leaves
        the product."""
        if not self._is_needed or product.form.grouped or len(product.value.shape) != _OF_MATRICES:
            return None, ""
        if self._rule.refusal(product) is not None:
            return None, ""
        gather = gather_before(product)
        if gather is not None and self._is_first(product, gather, is_backward):
            row, why = self._take_gather(product, gather, is_backward)
            if row is not None or why:
                return row, why
        return self._take_sum(product, is_backward)

    def _choose(self, product: Product, is_backward: IsBackward, is_alone: bool = False) -> Choice:
        position = {other: number for number, other in enumerate(self._graph.nodes)}
        return choose(product, self._name, position, is_backward, self._rule, is_alone)

    def _is_first(self, product: Product, gather: Collective, is_backward: IsBackward) -> bool:
        """Whether a product is the one that waits for the rows: of the products that read them in the same pass as the
        gather, it has the most columns."""
        phase = is_backward(gather.wait)
        if is_backward(product.node) != phase:
            return False
        found = dict.fromkeys(user for user in readers_of(gather.wait) if is_backward(user) == phase)
        products = [each for each in map(product_of, found) if each is not None and self._may_wait(each, gather)]
        first = max(products, key=lambda each: expected(each.value.shape[-1]) or 0)
        return first.node is product.node

    def _may_wait(self, product: Product, gather: Collective) -> bool:
        found = gather_before(product)
        is_matrix = not product.form.grouped and len(product.value.shape) == _OF_MATRICES
        return found is not None and found.wait is gather.wait and is_matrix and self._rule.refusal(product) is None

    def _take_gather(self, product: Product, gather: Collective, is_backward: IsBackward) -> tuple[Row | None, str]:
        phase = is_backward(gather.wait)
        others = [user for user in readers_of(gather.wait) if user is not product.node]
        is_read = any(is_backward(user) == phase for user in others)  # the epilogue may then depend on the rows
        if is_read and _depends(product, gather.wait):
            return None, f"{gather.name} is left: B depends on the gathered rows"
        choice = self._choose(product, is_backward, is_read or gather.outer > 1)
        fusion, text = choice.fusion, choice.epilogue
        if fusion is None or text is None:
            return None, ""
        if (why := _refusal(gather, product)) is not None:
            return None, why
        after, reason = sum_after(fusion.region.exit), choice.row.reason
        if after is not None:
            reason = f"{after.name} is left: the product already waits for gathered rows"
        with self._graph.inserting_before(fusion.region.exit):
            shard, like = gather.node.args[0], fusion.region.exit
            shard = without_padding(shard) if gather.rows else shard
            rows = shaped(self._graph, shard, (-1, product.a_value.shape[-1]), like, [-1, product.a_value.shape[-1]])
            more = (gather.group, gather.ranks, bool(others), [*gather.rows])
            made = self._made(ops.all_gather_matmul, (gather, fusion, text), rows, more)
            d = call(self._graph, operator.getitem, (made, 0), like)
            d = self._in_order(d, gather, (gather.ranks, gather.outer), like)
            if others:
                whole = call(self._graph, operator.getitem, (made, 1), like)
                shape = tuple(gather.whole.meta["val"].shape)
                gather.whole.replace_all_uses_with(shaped(self._graph, whole, shape, like))
            self._give(d, fusion)
        self._erase_unused(*gather.chain, gather.wait, gather.node)
        stable_topological_sort(self._graph)
        return replace(choice.row, collective=gather.name, reason=reason, call=None), ""

    def _take_sum(self, product: Product, is_backward: IsBackward) -> tuple[Row | None, str]:
        choice = self._choose(product, is_backward)
        fusion, text = choice.fusion, choice.epilogue
        found = None if fusion is None else sum_after(fusion.region.exit)
        if fusion is None or text is None or found is None:
            return None, ""
        if (why := _refusal(found, product)) is not None:
            return None, why
        with self._graph.inserting_before(found.wait):
            rows = self._in_order(product.a, found, (found.outer, found.ranks), found.wait)
            op = ops.matmul_reduce_scatter if found.ranks else ops.matmul_all_reduce
            more = (found.group, found.ranks, [*found.rows]) if found.ranks else (found.group,)
            made = self._made(op, (found, fusion, text), rows, more)
            shape = tuple(found.wait.meta["val"].shape)
            found.wait.replace_all_uses_with(shaped(self._graph, made, shape, found.wait))
        for node in (found.wait, found.node, *reversed(found.chain), *reversed(fusion.region.nodes)):
            self._graph.erase_node(node)
        return replace(choice.row, collective=found.name, reason="", call=None), ""

    def _made(self, op: Any, taken: tuple[Collective, Fusion, str], rows: Any, more: tuple[Any, ...]) -> Any:
        """The op of a fusion, for rows of A in the order of the ranks. Its operands get the same order."""
        found, fusion, text = taken
        how = self._how._replace(epilogue=text)
        how = how if fusion.product.a_value.dtype == OF_PRECISIONS else how._replace(precision=None)
        operands = []
        for leaf in fusion.leaves:
            operand = operand_of(self._graph, leaf, fusion)
            if leaf.kind is not OperandKind.PER_COLUMN:
                operand = self._in_order(operand, found, (found.outer, found.ranks), fusion.region.exit)
            operands.append(operand)
        arguments = (rows, fusion.product.b, operands, [*how.scalars], *how[1:], *more)
        return call(self._graph, op, arguments, fusion.region.exit)

    def _in_order(self, x: Any, found: Collective, outer: tuple[int, int], like: Any) -> Any:
        """Splits the rows of `x` into dimensions (outer[0], outer[1], …), exchanges these two, and flattens the rows
        again. Returns `x` itself if `found.outer` is 1."""
        if found.outer == 1:
            return x
        rows, *columns = x.meta["val"].shape
        split = call(self._graph, RESHAPE, (x, [*outer, rows // prod(outer), *columns]), like)
        order = [1, 0, *range(2, 3 + len(columns))]
        return call(self._graph, RESHAPE, (call(self._graph, PERMUTE, (split, order), like), [rows, *columns]), like)

    def _erase_unused(self, *nodes: Any) -> None:
        for node in nodes:
            if not node.users:
                self._graph.erase_node(node)

    def _give(self, d: Any, fusion: Fusion) -> None:
        exit = fusion.region.exit
        if fusion.size is not None:
            d = call(self._graph, RESHAPE, (d, fusion.size), exit)
        exit.replace_all_uses_with(d)
        for node in reversed(fusion.region.nodes):
            self._graph.erase_node(node)


def _refusal(found: Collective, product: Product) -> str | None:
    """Why a collective is left; None if it is taken with the product."""
    if found.node.meta.get(CHECKPOINTING) != product.node.meta.get(CHECKPOINTING):
        return f"{found.name} is left: activation checkpointing treats it differently from the product"
    if found.rows and found.outer > 1:
        return f"{found.name} is left: parts of different sizes, along a dimension that is not the first"
    extents = (*product.a_value.shape, *product.b_value.shape)
    shapes = [tuple(node.meta["val"].shape) for node in (found.wait, found.node.args[0])]
    is_known = all(isinstance(extent, int) for extent in extents)
    if is_known or (found.outer == 1 and all(sizes_for_reshape(shape) is not None for shape in shapes)):
        return None
    return f"{found.name} is left: its sizes are known at run time only"


def _depends(product: Product, wait: Any) -> bool:
    """Whether B or the added matrix depends on a node."""
    seen, waiting = set(), [x for x in (product.b, product.added) if x is not None]
    while waiting:
        node = waiting.pop()
        if node is wait:
            return True
        if node not in seen:
            seen.add(node)
            waiting += getattr(node, "all_input_nodes", [])
    return False
