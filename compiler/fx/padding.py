"""Ranks with different numbers of rows: DTensor pads the rows of each rank to the largest number.

    %p = constant_pad_nd(%x, [0, 0, 0, 1], 0.0); %w = wait_tensor(all_gather_into_tensor(%p, 2, "0"))
    %g = slice(%w, 0, 0, 13)
    %s = split(%mm, 7); %p = constant_pad_nd(%s[1], [0, 0, 0, 1], 0.0)
    %r = reduce_scatter_tensor(cat([%s[0], %p]), "sum", 2, "0")

The first graph is that of a rank with 6 of 13 rows; the rank with 7 rows does not pad. The second graph is the same on
all ranks. The number of rows of each rank is read only from nodes that are the same on all ranks, such as the slice and
the split, so all ranks decide alike.
"""

from math import prod
from typing import Any, NamedTuple

from lowtide.compiler.fx.values import value_of

PAD, SLICE = "aten.constant_pad_nd.default", "aten.slice.Tensor"
_CLONE = "aten.clone.default"


class Padded(NamedTuple):
    """A tensor is split into parts along a dimension; the smaller parts are padded, and all are joined along the same
    dimension. `nodes`: from the split to the join. `ranks`: the number of parts. `outer`, `rows`: as in
    `Collective`."""

    nodes: tuple[Any, ...]
    ranks: int
    outer: int
    rows: tuple[int, ...]


def rows_before(cut: Any, wait: Any, ranks: int) -> tuple[int, tuple[int, ...]] | None:
    """`outer` and `rows` of a gather whose padding the slice `cut` removes. None if the slice does not take the first
    rows, or if sizes are not known."""
    value, gathered = value_of(cut), value_of(wait)
    given: list[Any] = [*cut.args[1:], *(0, None, None, 1)[len(cut.args) - 1 :]]
    dim, start, _, step = given
    if value is None or gathered is None or (start, step) != (0, 1):
        return None
    extents = (*value.shape[:-1], *gathered.shape[:-1])
    if not 0 <= dim < len(value.shape) - 1 or not all(isinstance(each, int) for each in extents):
        return None
    share, total, outer = prod(gathered.shape[:-1]) // ranks, prod(value.shape[:-1]), prod(value.shape[:dim])
    return outer, tuple(min(share, max(total - rank * share, 0)) for rank in range(ranks))


def padded_parts(split: Any) -> Padded | None:
    """The parts of a split, padded with zeros and joined. None if this is not what follows the split."""
    value, join, dim = value_of(split.args[0]), _join_of(split), split.args[2] if len(split.args) > 2 else 0
    if value is None or join is None or not 0 <= dim < len(value.shape) - 1:
        return None
    if dim != (join.args[1] if len(join.args) > 1 else 0):
        return None
    parts = [_behind_padding(each, dim) for each in join.args[0]]
    shapes = [None if (found := value_of(part)) is None else found.shape[:-1] for part, _ in parts]
    known = [shape for shape in shapes if shape is not None and all(isinstance(each, int) for each in shape)]
    if len(known) < len(parts):
        return None
    rows, total = tuple(map(prod, known)), prod(value.shape[:-1])
    given = [(number, part, found) for number, (part, found) in enumerate(parts) if rows[number]]
    are_parts = all(part.args[:2] == (split, number) for number, part, _ in given) and len(split.users) == len(given)
    nodes = [node for _, part, found in given for node in (part, *found)]
    padded = {str(value_of(each).shape) for each in join.args[0]}  # type: ignore[union-attr]
    most = prod(value_of(join).shape[:-1]) // len(rows)  # type: ignore[union-attr]
    is_alone = are_parts and all(len(node.users) == 1 for node in nodes)
    if not is_alone or min(rows) == max(rows) or sum(rows) != total or len(padded) > 1 or max(rows) != most:
        return None
    return Padded((split, *nodes, join), len(rows), prod(value.shape[:dim]), rows)


def _join_of(split: Any) -> Any:
    """The node that joins the parts of a split; None if there is none."""
    node = split
    for _ in range(4):  # to a part, perhaps to a copy, perhaps to padding, and to the join
        node = next(iter(node.users), None)
        if node is None or str(node.target) == "aten.cat.default":
            return node
    return None


def without_padding(shard: Any) -> Any:
    """The shard without padding after its rows; the node itself if it does not pad in this way."""
    value = value_of(shard)
    for dim in range(0 if value is None else len(value.shape) - 1):
        if _pads_end(shard, dim) and all(extent == 1 for extent in value.shape[:dim]):  # type: ignore[union-attr]
            return shard.args[0]
    return shard


def _behind_padding(node: Any, dim: int) -> tuple[Any, list[Any]]:
    """Goes back from `node`, if it pads the end of a dimension, and then if it is a copy. Returns the node before
    these, and the copy and the padding, in this order."""
    found = []
    if _pads_end(node, dim):
        found, node = [node], node.args[0]
    if str(node.target) == _CLONE:
        found, node = [node, *found], node.args[0]
    return node, found


def _pads_end(node: Any, dim: int) -> bool:
    """Whether a node pads with zeros, at the end of a dimension and nowhere else."""
    value = value_of(node)
    if str(node.target) != PAD or value is None or (node.args[2] if len(node.args) > 2 else 0) != 0:
        return False
    widths = node.args[1]  # from the last dimension on, before and after
    at = 2 * (len(value.shape) - 1 - dim) + 1
    return at < len(widths) and not any(each for i, each in enumerate(widths) if i != at) and widths[at] > 0
