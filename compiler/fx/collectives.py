"""Collectives beside a product: the all-gather whose rows it reads, and the sum over ranks of its result.

    %g = all_gather_into_tensor(%shard, 4, "0"); %w = wait_tensor(%g); %mm = aten.mm(view(%w), %b)
    %mm = aten.mm(%a, %b); %r = reduce_scatter_tensor(view(%mm), "sum", 4, "0"); %w = wait_tensor(%r)

DTensor and the plans of tensor parallelism make such graphs. A collective works along the first dimension. For another
dimension, the graph also splits a tensor into one part for each rank along one dimension, and joins the parts along the
other. If ranks have different numbers of rows, the graph pads them to the largest number, and a slice after a gather
removes the padding (`padding.py`).
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from lowtide.compiler.fx.padding import PAD, SLICE, padded_parts, rows_before
from lowtide.compiler.fx.pointwise import RESHAPES, VIEWS
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.values import same_extent, value_of

GATHER, WAIT = "_c10d_functional.all_gather_into_tensor.default", "_c10d_functional.wait_tensor.default"
SCATTER, REDUCE = "_c10d_functional.reduce_scatter_tensor.default", "_c10d_functional.all_reduce.default"
_SPLIT, _CAT = "aten.split.Tensor", "aten.cat.default"
_OF_PARTS = frozenset({*RESHAPES, *VIEWS, _SPLIT, _CAT, PAD})


@dataclass(frozen=True, eq=False)
class Collective:
    """`node`: the collective. `wait`: the node of its result. `chain`: the nodes between it and the product. `ranks`:
    the number of ranks; 0 for an all-reduce, whose node does not have it. `group`: the name of the process group.
    `outer`: the product of the extents before the dimension that is divided among the ranks. If it is not 1, the rows
    of A or D are not in the order of the ranks. `rows`: the number of flattened rows of each rank if these differ,
    otherwise (). `whole`: for a gather, the node that has the rows of all ranks, without padding."""

    node: Any
    wait: Any
    chain: tuple[Any, ...]
    ranks: int
    group: str
    outer: int = 1
    rows: tuple[int, ...] = ()
    whole: Any = None

    @property
    def name(self) -> str:
        return str(self.node.target).split(".")[1]


class _Joined(NamedTuple):
    """The tensor `whole` is split into `ranks` equal parts along dimension `divided`. The parts are joined in their
    order along dimension `along`. `nodes`: the join, the parts, and the split. `outer`: as in `Collective`."""

    nodes: tuple[Any, ...]
    whole: Any
    divided: int
    along: int
    ranks: int
    outer: int


def gather_before(product: Product) -> Collective | None:
    """The all-gather along rows whose result is A, or has A's rows; None if there is none."""
    chain: list[Any] = []
    node, cut, joined = _behind_reshapes(product.a, chain), None, None
    if str(node.target) == SLICE:
        cut = node
        chain.append(cut)
        node = _behind_reshapes(cut.args[0], chain)
    if str(node.target) == _CAT:
        joined = _joined(node)
        if joined is None or joined.divided != 0:
            return None
        chain += joined.nodes
        node = joined.whole
    if str(node.target) != WAIT or str(node.args[0].target) != GATHER:
        return None
    shard, ranks, group = node.args[0].args
    value = value_of(shard)
    if value is None or len(value.shape) < 2 or not _have_same_rows(shard, product.a):
        return None
    if joined is not None and joined.ranks != ranks:
        return None
    outer: int = 1 if joined is None else joined.outer
    found = Collective(node.args[0], node, tuple(chain), ranks, group, outer, (), node)
    if cut is None:
        return found
    shares, between = rows_before(cut, node, ranks), [node, *chain[chain.index(cut) + 1 :]]
    if shares is None or (joined is None and any(len(each.users) > 1 for each in between)):
        return None
    if joined is not None and shares[0] != outer:  # the slice is along another dimension than the ranks
        return None
    return replace(found, outer=shares[0], rows=shares[1], whole=cut)


def _behind_reshapes(node: Any, chain: list[Any]) -> Any:
    """The node that `node` is a view of, through views that keep the columns. The views are added to `chain`."""
    while str(node.target) in RESHAPES and _have_same_rows(node, node.args[0]):
        chain.append(node)
        node = node.args[0]
    return node


def sum_after(exit: Any) -> Collective | None:
    """The reduce-scatter along rows, or the all-reduce, that is the only reader of a node, directly or through views
    and joined parts. None if there is none."""
    chain, node, joined = [], exit, None
    while len(node.users) == 1 and str(_user(node).target) in RESHAPES and _have_same_rows(_user(node), node):
        node = _user(node)
        chain.append(node)
    padded = padded_parts(_user(node)) if _is_split_alone(node) else None
    if padded is not None:
        chain += padded.nodes
        node = padded.nodes[-1]
    if _is_split_alone(node):
        part = _user(_user(node)) if _user(node).users else None
        joined = _joined(_user(part)) if part is not None and part.users else None
        if joined is None or joined.along != 0 or joined.whole is not node:
            return None
        chain += reversed(joined.nodes)
        node = joined.nodes[0]
    collective = _user(node) if len(node.users) == 1 else None
    if collective is None or str(collective.target) not in (SCATTER, REDUCE) or collective.args[1] != "sum":
        return None
    value, wait = value_of(node), _user(collective) if len(collective.users) == 1 else None
    if wait is None or str(wait.target) != WAIT or value is None or len(value.shape) < 2:
        return None
    ranks = collective.args[2] if str(collective.target) == SCATTER else 0
    if any(each is not None and each.ranks != ranks for each in (joined, padded)):
        return None
    if joined is not None and padded is not None and joined.outer != padded.outer:  # along two dimensions
        return None
    outer, rows = (1 if joined is None else joined.outer, ()) if padded is None else padded[2:]
    return Collective(collective, wait, tuple(chain), ranks, collective.args[-1], outer, rows)


def _is_split_alone(node: Any) -> bool:
    return len(node.users) == 1 and str(_user(node).target) == _SPLIT


def readers_of(node: Any) -> list[Any]:
    """The ops that read a tensor, or parts and views of it."""
    seen: dict[Any, bool] = {}  # whether a node is an op that reads
    waiting = [*node.users]
    while waiting:
        user = waiting.pop(0)
        if user not in seen:
            seen[user] = not (str(user.target) in _OF_PARTS or _is_part(user))
            waiting += () if seen[user] else user.users
    return [user for user, reads in seen.items() if reads]


def _joined(cat: Any) -> _Joined | None:
    """The tensor whose parts a node joins. None if the node does not join all parts of one tensor."""
    if str(cat.target) != _CAT:
        return None
    parts = cat.args[0]
    if not all(_is_part(part) and part.args[1] == i for i, part in enumerate(parts)):
        return None
    split, part = parts[0].args[0], value_of(parts[0])
    is_whole = len(split.users) == len(parts) and all(len(each.users) == 1 for each in parts)
    if any(each.args[0] is not split for each in parts) or not is_whole or part is None:
        return None
    along, divided = (node.args[at] if len(node.args) > at else 0 for node, at in ((cat, 1), (split, 2)))
    last = max(along, divided)
    outer = part.shape[:last]
    are_rows = 0 in (along, divided) and min(along, divided) >= 0 and last < len(part.shape) - 1
    if not are_rows or not all(isinstance(extent, int) for extent in outer) or not _are_equal(parts):
        return None
    return _Joined((cat, *parts, split), split.args[0], divided, along, len(parts), prod(outer))


def _is_part(node: Any) -> bool:
    return bool(node.args) and str(getattr(node.args[0], "target", "")) == _SPLIT


def _are_equal(parts: Any) -> bool:
    shapes = {str(part.meta["val"].shape) for part in parts}
    return len(shapes) == 1


def _user(node: Any) -> Any:
    return next(iter(node.users))


def _have_same_rows(node: Any, other: Any) -> bool:
    """Whether the last dimensions of both tensors have the same extent."""
    one, two = value_of(node), value_of(other)
    return one is not None and two is not None and bool(one.shape) and same_extent(one.shape[-1], two.shape[-1])
