"""What a kernel with several results stores, and the reductions of a graph that it can compute.

%pow = aten.pow(%h, 2); %mean = aten.mean(%pow, [-1], True)         the statistics of RMSNorm: row sums
%sum = aten.sum(%dz, [0], True)                                     the gradient of a bias: column sums
%amax = aten.amax(%x, [1], True); %sub = aten.sub(%x, %amax); %exp = aten.exp(%sub)
%sum = aten.sum(%exp, [1], True); %log = aten.log(%sum); %sub_1 = aten.sub(%sub, %log)
%gather = aten.gather(%sub_1, 1, %target)                           a cross entropy: log-sum-exps and logits
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.fx.values import is_one, same_shape, value_of

ROW_SUM, COLUMN_SUM = "row_sum", "column_sum"
_SUM, _MEAN = "aten.sum.dim_IntList", "aten.mean.dim"
_MATRIX = 2  # its rank
_INTEGERS = ("torch.int64", "torch.int32")


@dataclass(frozen=True, eq=False)
class Reduced:
    """A sum of a value over rows or over columns. `node`: the op that computes it. `divisor`: of the mean, else 1."""

    node: Any
    source: Any
    kind: str
    divisor: int


@dataclass(frozen=True, eq=False)
class LogSoftmax:
    """The logarithm of softmax along rows of `source`: `node` is source − log-sum-exp. `inner`: the ops in between.
    `gathers`: ops that read one column of each row of it, each with its index."""

    node: Any
    source: Any
    inner: frozenset[Any]
    gathers: tuple[tuple[Any, Any], ...]

    @property
    def is_read_whole(self) -> bool:
        """Whether other ops than the gathers read it."""
        return any(user not in (node for node, _ in self.gathers) for user in self.node.users)


@dataclass(frozen=True, eq=False)
class Results:
    """The nodes that a kernel stores. `full`: those of D's shape. `joined`: a node whose halves are the two last of
    `full`, or None; `rounded`: the stored node that reductions see as it is stored, or None."""

    full: tuple[Any, ...]
    joined: Any = None
    reduced: tuple[Reduced, ...] = ()
    softmax: LogSoftmax | None = None
    rounded: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the results, in order."""
        softmax = () if self.softmax is None else ("lse", *(f"t{i}" for i in range(len(self.softmax.gathers))))
        return (*(f"y{i}" for i in range(len(self.full))), *(f"s{i}" for i in range(len(self.reduced))), *softmax)

    @property
    def replaced(self) -> tuple[Any, ...]:
        """The nodes of the graph that get other values."""
        softmax = () if self.softmax is None else (self.softmax.node, *(node for node, _ in self.softmax.gathers))
        joined = () if self.joined is None else (self.joined,)
        return (
            *self.full[: len(self.full) - 2 * len(joined)],
            *joined,
            *(each.node for each in self.reduced),
            *softmax,
        )

    @property
    def about(self) -> str:
        """The results in a report."""
        softmax = [] if self.softmax is None else [f"log-sum-exp of {self.softmax.source.name}"]
        softmax += [] if self.softmax is None else [f"column of {node.name}" for node, _ in self.softmax.gathers]
        sums = [f"{each.kind.replace('_', ' ')} of {each.source.name}" for each in self.reduced]
        joined = [] if self.joined is None else [f"halves of {self.joined.name}"]
        full = self.full if self.joined is None else self.full[:-2]
        return ", ".join([*(node.name for node in full), *joined, *sums, *softmax])


def sums_of(node: Any) -> Iterator[Reduced]:
    """The sums and means of a value over its rows or columns."""
    value = value_of(node)
    if value is None:
        return
    for user in node.users:
        target = str(user.target)
        if target not in (_SUM, _MEAN) or not user.args[1:] or user.args[0] is not node:
            continue
        rank, given = len(value.shape), user.args[1]
        if rank < _MATRIX or not isinstance(given, list | tuple) or not all(isinstance(dim, int) for dim in given):
            continue
        dims = sorted(dim % rank for dim in given)
        divisor = value.shape[-1] if target == _MEAN else 1
        made = value_of(user)
        if made is None or made.dtype is None or not isinstance(divisor, int):
            continue
        if dims == [rank - 1]:
            yield Reduced(user, node, ROW_SUM, divisor)
        elif dims == list(range(rank - 1)) and target == _SUM:
            yield Reduced(user, node, COLUMN_SUM, 1)


def log_softmax_of(node: Any) -> LogSoftmax | None:
    """The logarithm of softmax of the rows of a matrix, as torch decomposes it; None if there is none."""
    value = value_of(node)
    if value is None or len(value.shape) != _MATRIX or value.dtype != "f32":
        return None
    amax = _only(user for user in node.users if str(user.target) == "aten.amax.default" and _is_of_rows(user))
    sub = _only(user for user in _users(amax) if _is(user, "aten.sub.Tensor", node, amax))
    exp = _only(user for user in _users(sub) if _is(user, "aten.exp.default", sub))
    sum = _only(user for user in _users(exp) if str(user.target) == _SUM and _is_of_rows(user))
    log = _only(user for user in _users(sum) if _is(user, "aten.log.default", sum))
    last = _only(user for user in _users(log) if _is(user, "aten.sub.Tensor", sub, log))
    inner = (amax, sub, exp, sum, log)
    if last is None or any(user not in (*inner, last) for each in inner for user in each.users):
        return None
    gathers = tuple((user, user.args[2]) for user in last.users if _is_of_targets(user, last))
    return LogSoftmax(last, node, frozenset(inner), gathers[:1])


def _users(node: Any) -> Any:
    return () if node is None else node.users


def _only(nodes: Iterator[Any]) -> Any:
    found = list(nodes)
    return found[0] if len(found) == 1 else None


def _is(node: Any, target: str, *arguments: Any) -> bool:
    return str(node.target) == target and tuple(node.args) == arguments and not node.kwargs


def _is_of_rows(node: Any) -> bool:
    """Whether an op reduces the rows of a matrix and keeps their dimension."""
    return len(node.args) == 3 and list(node.args[1]) in ([1], [-1]) and node.args[2] is True


def _is_of_targets(node: Any, source: Any) -> bool:
    """Whether an op gathers one column of each row of a matrix."""
    if str(node.target) != "aten.gather.default" or len(node.args) != 3 or node.args[0] is not source:
        return False
    index, whole = getattr(node.args[2], "meta", {}).get("val"), value_of(source)
    if index is None or whole is None or str(index.dtype) not in _INTEGERS or node.args[1] not in (1, -1):
        return False
    return same_shape(tuple(index.shape)[:1], whole.shape[:1]) and is_one(tuple(index.shape)[-1])
