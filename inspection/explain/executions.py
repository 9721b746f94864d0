"""The number of runs of an op for one work tile: the iterations of the loops around it."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from types import MappingProxyType

from mlir import ir
from mlir.dialects import arith

from lowtide.dialects import tile
from lowtide.passes.support.ir.builder import constant_of

# The ops that compute offsets of windows.
_SUMS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {"arith.addi": int.__add__, "arith.subi": int.__sub__, "arith.muli": int.__mul__}
)

Trips = list[tuple[ir.Value, range]]
"""The variable of each loop around an op, and its values."""


def executions(op: ir.OpView, window: tile.ViewOp | None = None) -> int | None:
    """Runs of an op for one work tile, or of the kernel if it is outside of them; None if a loop's number of iterations
    is known only at run time, or the last wave has tiles of another size.

    If a ring stays filled from one work tile to the next, the first tile of a CTA, which fills it, is not counted.

    With `window`, only runs whose window overlaps its matrix, as far as that is known: copies that run ahead of a loop
    go past its end, and access nothing there.
    """
    loops = _loops(op)
    if loops is None:
        return None
    if window is None:
        return prod(len(values) for _, values in loops)
    once = window.result, range(1)  # in place of a loop
    longest = max(loops, key=lambda loop: len(loop[1]), default=once)
    others = [loop for loop in loops if loop is not longest]
    return sum(_inside(window, longest, values) for values in _trips(others))


def summed(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _loops(op: ir.OpView) -> Trips | None:
    found: Trips = []
    parent = op.operation.parent
    while parent is not None and parent.name not in (tile.WorkTilesOp.OPERATION_NAME, tile.KernelOp.OPERATION_NAME):
        if parent.name == "scf.for":
            lower, upper, step = (_in_later_tiles(bound) for bound in list(parent.operands)[:3])
            if lower is None or upper is None or step is None:
                return None
            found.append((parent.regions[0].blocks[0].arguments[0], range(lower, upper, step)))
        elif parent.name == "scf.if" and _is_false(parent.operands[0]):
            found.append((parent.operands[0], range(0)))
        parent = parent.parent
    if parent is not None and sum(other.operation.name == parent.name for other in parent.block) > 1:
        return None  # a loop over full waves and one over the tiles of the last
    return found


def _in_later_tiles(value: ir.Value) -> int | None:
    """A constant, or a value that work tiles carry as a constant from their first tile to the others."""
    owner = value.owner
    if isinstance(owner, ir.Block) and isinstance(owner.owner.opview, tile.WorkTilesOp):
        carried = list(owner.operations[len(owner.operations) - 1].operands)
        position = list(owner.arguments).index(value) - len(owner.arguments) + len(carried)
        return constant_of(carried[position]) if position >= 0 else None
    return constant_of(value)


def _is_false(condition: ir.Value) -> bool:
    """Whether a condition is known to be false after the first work tile of a CTA."""
    owner = condition.owner
    if isinstance(owner, ir.Block):
        return False
    if isinstance(owner.opview, arith.AndIOp):
        return any(_is_false(operand) for operand in owner.operands)
    if isinstance(owner.opview, arith.CmpIOp):
        left, right = (_in_later_tiles(operand) for operand in owner.operands)
        is_unequal = ir.IntegerAttr(owner.attributes["predicate"]).value == arith.CmpIPredicate.ne
        return is_unequal and left is not None and left == right
    return False


def _trips(loops: Trips) -> Iterator[dict[ir.Value, int]]:
    """Each combination of the loops' variables."""
    if not loops:
        yield {}
        return
    (variable, values), *others = loops
    for value in values:
        for rest in _trips(others):
            yield {variable: value, **rest}


def _inside(window: tile.ViewOp, loop: tuple[ir.Value, range], others: Mapping[ir.Value, int]) -> int:
    """The number of iterations of a loop in which the window overlaps its matrix. Offsets are sums of multiples of the
    loops' variables. So along each axis the window is outside from one iteration on, up to one, always, or never."""
    variable, values = loop
    matrix, begin, end = ir.MemRefType(window.source.type), 0, len(values)
    for axis, offset in enumerate(window.offsets):
        size = None if matrix.is_dynamic_dim(axis) else matrix.get_dim_size(axis)

        def is_outside(value: int, offset: ir.Value = offset, size: int | None = size) -> bool:
            start = None if size is None else _evaluated(offset, {variable: value, **others})
            return start is not None and size is not None and start >= size

        at_first, at_last = (bool(values) and is_outside(values[each]) for each in (0, -1))
        if at_first and at_last:
            return 0
        if at_last:
            end = min(end, bisect_left(values, True, key=is_outside))
        elif at_first:
            begin = max(begin, bisect_left(values, 0, key=lambda value: -is_outside(value)))
    return max(0, end - begin)


def _evaluated(value: ir.Value, values: Mapping[ir.Value, int]) -> int | None:
    """An index evaluated for the loops' variables; None if it depends on something else."""
    if value in values:
        return values[value]
    if isinstance(value.owner, ir.Block):
        return None
    if value.owner.name in _SUMS:
        left, right = (_evaluated(operand, values) for operand in value.owner.operands)
        return None if left is None or right is None else _SUMS[value.owner.name](left, right)
    return constant_of(value)
