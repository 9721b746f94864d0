"""Regions with several results: a product and ops that follow it. One kernel computes them, and stores several values.

A region with results is chosen in three steps. Values that products, attention or the graph's result read are stored,
and so are sums over rows or columns, and the log-sum-exps of a cross entropy. The region has the ops that compute
these. If ops outside the region read other values of it, the kernel stores one more value, from which these are
computed again: the product itself, such as the argument of an activation, or one that all of them depend on, such as a
residual sum.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lowtide.compiler.fx.arguments import is_constant
from lowtide.compiler.fx.halves import Halves
from lowtide.compiler.fx.operands import is_full
from lowtide.compiler.fx.pointwise import CASTS, OPS, POINTWISE, RESHAPES
from lowtide.compiler.fx.products import FORMS
from lowtide.compiler.fx.reductions import COLUMN_SUM, LogSoftmax, Reduced, Results, log_softmax_of, sums_of
from lowtide.compiler.fx.regions import Growth, Region, is_called, readers
from lowtide.compiler.fx.values import is_int, value_of
from lowtide.elements import element_type

_MOST_FULL = 3  # full results of a kernel
_CAT = "aten.cat.default"


def with_results(product: Any, growth: Growth, position: Mapping[Any, int], halves: Halves | None) -> Region | None:
    """The region of a product that stores several values, pairs of columns or reductions; None if there is none.
    `product`: its node. `growth`: of the product, or of its halves."""
    roots = (product,) if halves is None else (halves.first, halves.second)
    reached = _independent(growth.reached, product, roots, position)
    softmax = None if halves is not None else _first(log_softmax_of(node) for node in reached)
    joined = _joined(reached, roots)
    stored = [node for node in reached if node not in roots and _is_stored(node, joined)]
    stored = [node for node in stored if _is_computed(node, reached)]
    sums = [] if halves is not None else [each for node in reached for each in sums_of(node)]
    if softmax is not None:  # its own maximum and sum are none of these
        sums = [each for each in sums if each.node not in softmax.inner]
    sums = sums[:1]
    while True:
        found = _region(product, reached, (stored, joined, sums, softmax), halves)
        wrong = [] if found is None or found.results is None else [x for x in sums if not _is_wanted(x, found, stored)]
        if not wrong:
            return found
        sums = [each for each in sums if each not in wrong]


def _region(product: Any, reached: list[Any], wanted: Any, halves: Halves | None) -> Region | None:
    """The region that stores the wanted values: nodes, a node of two halves, sums, and a softmax."""
    stored, joined, sums, softmax = wanted
    roots = (product,) if halves is None else (halves.first, halves.second)
    parts = [] if joined is None else list(_parts(joined))
    sources = [*stored, *parts, *(each.source for each in sums), *([] if softmax is None else [softmax.source])]
    of_each = [_ancestors([source], set(reached)) for source in sources]
    if halves is not None and halves.other is not None and not any(inside.issuperset(roots) for inside in of_each):
        return None  # it computes nothing from both products
    inside = {*roots}.union(*of_each)
    nodes = tuple(node for node in reached if node in inside)
    replaced = {joined, *(each.node for each in sums)} | _of_softmax(softmax)
    kept = [
        node
        for node in nodes
        if node not in stored and any(user not in inside and user not in replaced for user in node.users)
    ]
    if softmax is not None and softmax.is_read_whole:
        kept.append(softmax.source)
    if halves is not None and (kept or halves.has_others):
        if joined is not None or len(stored) + len(roots) > _MOST_FULL:
            return None
        joined = product if halves.other is None else None
        return Region(nodes, roots, Results((*stored, *roots), joined), halves.other) if stored else None
    base = _base(nodes, kept, {*stored, *parts}) if kept else None
    if kept and base is None:
        return None
    full = (*([] if base is None or base in stored else [base]), *stored, *parts)
    is_one = halves is None and len(full) == 1 and not sums and softmax is None
    if (is_one and not _reads_a_product(nodes)) or len(full) > _MOST_FULL or not (stored or parts or sums or softmax):
        return None
    rounded = base if softmax is not None else None
    results = Results(full, joined, tuple(sums), softmax, rounded)
    return Region(nodes, () if halves is None else roots, results, None if halves is None else halves.other)


def _independent(
    reached: Iterable[Any], product: Any, roots: tuple[Any, ...], position: Mapping[Any, int]
) -> list[Any]:
    """The nodes whose other inputs do not depend on the product: a kernel reads inputs before it stores anything."""
    wanted, found, dependent = {*reached}, [*roots], {product, *roots}
    first, last = position[product], max(position[node] for node in wanted)
    for node in sorted((each for each in position if first < position[each] <= last), key=lambda each: position[each]):
        if node in dependent:
            continue
        inputs = [other for other in node.all_input_nodes if other in dependent]
        if not inputs:
            continue
        dependent.add(node)
        if node in wanted and all(other in found for other in inputs):
            found.append(node)
    return found


def _is_stored(node: Any, joined: Any) -> bool:
    """Whether a product, attention or the graph's result reads a value that an op computes."""
    if str(node.target) in RESHAPES or node in (() if joined is None else (*_parts(joined),)):
        return False
    value = value_of(node)
    return value is not None and value.dtype is not None and any(map(is_called, readers(node)))


def _is_computed(node: Any, reached: list[Any]) -> bool:
    """Whether a value is more than a cast of the product."""
    return any(str(other.target) in POINTWISE for other in _ancestors([node], {*reached}))


def _joined(reached: list[Any], roots: tuple[Any, ...]) -> Any:
    """An op that joins two values of the region as halves of a matrix, which products read; None if there is none."""
    inside = {*reached} - {*roots}
    for cat in dict.fromkeys(user for node in reached for user in node.users if str(user.target) == _CAT):
        value = value_of(cat)
        if value is None or len(cat.args[0]) != 2 or not any(map(is_called, readers(cat))):
            continue
        dim = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
        parts = list(_parts(cat))
        alone = all(_readers_of_part(part) == {cat} for part in parts)
        widths = [value_of(part) for part in parts]
        half = value.shape[-1] // 2 if isinstance(value.shape[-1], int) else None
        same = all(w is not None and w.dtype == value.dtype and is_int(w.shape[-1], half) for w in widths)
        if dim in (-1, len(value.shape) - 1) and alone and same and {*parts} <= inside and parts[0] is not parts[1]:
            return cat
    return None


def _parts(cat: Any) -> Iterable[Any]:
    """The two values that an op joins, without reshapes. For halves of a product that are stored: the halves."""
    for part in cat.args[0]:
        while str(part.target) in RESHAPES:
            part = part.args[0]
        yield part


def _readers_of_part(node: Any) -> set[Any]:
    found: set[Any] = set()
    for user in node.users:
        found |= _readers_of_part(user) if str(user.target) in RESHAPES else {user}
    return found


def _reads_a_product(nodes: tuple[Any, ...]) -> bool:
    """Whether an op reads another product of D's shape, or what pointwise ops compute from one, as in a gated MLP with
    two weights."""
    root = value_of(nodes[0])
    assert root is not None
    seen: set[Any] = set()
    waiting = [other for each in nodes[1:] for other in each.all_input_nodes if other not in nodes]
    while waiting:
        node = waiting.pop()
        if node in seen or not is_full(node, root.shape):
            continue
        seen.add(node)
        if str(node.target) in FORMS:
            return True
        waiting += node.all_input_nodes if str(node.target) in OPS else []
    return False


def _of_softmax(softmax: LogSoftmax | None) -> set[Any]:
    return set() if softmax is None else {*softmax.inner, softmax.node, *(node for node, _ in softmax.gathers)}


def _ancestors(nodes: Iterable[Any], within: set[Any]) -> set[Any]:
    """The nodes and all that they are computed from, as far as it is in `within`."""
    found: set[Any] = set()
    waiting = [node for node in nodes if node in within]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [other for other in node.all_input_nodes if other in within]
    return found


def _base(nodes: tuple[Any, ...], kept: list[Any], stored: set[Any]) -> Any:
    """The last value without which none of the kept ones can be computed; None if it would be stored as a wider type
    than the product's."""
    root = value_of(nodes[0])
    assert root is not None and root.dtype is not None
    for node in reversed(nodes):
        value = value_of(node)
        if str(node.target) in RESHAPES or value is None or value.dtype is None:
            continue
        if element_type(value.dtype).bits > element_type(root.dtype).bits:
            continue
        if nodes[0] not in _ancestors_without(kept, {*nodes}, {node, *stored}):
            return node
    return None


def _ancestors_without(nodes: Iterable[Any], within: set[Any], without: set[Any]) -> set[Any]:
    return _ancestors(nodes, within - without)


def _is_wanted(reduced: Reduced, region: Region, wanted: list[Any]) -> bool:
    """Whether a kernel should compute a sum: over a column of a value that products read, such as the gradient of a
    bias; or over a row of a value that is computed from the tensors that stored values are computed from, unless a
    kernel of Inductor's can add the row, too (`_is_normalized`)."""
    assert region.results is not None
    node = reduced.source
    if reduced.kind == COLUMN_SUM:
        while node not in wanted and (str(node.target) in RESHAPES or str(node.target) in CASTS):
            node = node.args[0]
        return node in wanted
    return _matrices([node], region) <= _matrices(region.results.full, region) and not _is_normalized(reduced, region)


def _is_normalized(reduced: Reduced, region: Region) -> bool:
    """Whether ops compute values of D's size from a sum over rows and from values of the region, such as a norm that
    is stored. Inductor has a kernel for them, which reads whole rows and so can add them, too."""
    root = value_of(region.nodes[0])
    assert root is not None
    seen, waiting = set(), [reduced.node]
    while waiting:
        for user in waiting.pop().users:
            if user in seen or str(user.target) not in OPS:
                continue
            seen.add(user)
            if not is_full(user, root.shape):
                waiting.append(user)
            elif _reads_pointwise(user, {*region.nodes}):
                return True
    return False


def _reads_pointwise(node: Any, wanted: set[Any]) -> bool:
    """Whether pointwise ops compute a node from one of the wanted ones."""
    seen, waiting = set(), [node]
    while waiting:
        other = waiting.pop()
        if other in wanted:
            return True
        if other not in seen and str(other.target) in OPS:
            seen.add(other)
            waiting += other.all_input_nodes
    return False


def _matrices(nodes: Iterable[Any], region: Region) -> set[Any]:
    """The tensors of D's size outside of the region that nodes are computed from."""
    inside, root = {*region.nodes}, value_of(region.nodes[0])
    assert root is not None
    read = {other for node in _ancestors(nodes, inside) - {*region.roots} for other in node.all_input_nodes}
    return {other for other in read - inside if not is_constant(other) and is_full(other, root.shape)}


def _first(found: Iterable[Any]) -> Any:
    return next((each for each in found if each is not None), None)
