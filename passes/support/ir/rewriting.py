"""Helpers for rewriting IR: loops with other carried values, moving blocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mlir import ir
from mlir.dialects import memref, scf

from lowtide.dialects import tile
from lowtide.dialects.sm.timing import keep_timing
from lowtide.dialects.tile.work import work_like
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.problem.matrix_layouts import is_column_major


def extent(memref_: ir.Value, dim: int) -> ir.Value:
    """The extent of a memref along a dimension: a constant if it is static. Dimension -1 is the last one."""
    type_, build = ir.MemRefType(memref_.type), Builder.index()
    dim %= type_.rank
    if type_.is_dynamic_dim(dim):
        return memref.dim(memref_, build.constant(dim))
    return build.constant(type_.get_dim_size(dim))


def size_of_view(view: memref.SubViewOp, dim: int) -> ir.Value:
    """The size of a view along a dimension in which it is known only at run time. Dimension -1 is the last one."""
    sizes = list(view.static_sizes)
    return view.sizes[sum(map(ir.ShapedType.is_dynamic_size, sizes[: dim % len(sizes)]))]


def outer_strides(memref_: ir.Value) -> list[ir.Value]:
    """The strides of a memref in elements, without the one of the contiguous dimension: the last dimension or, if the
    memref is column-major, the one before it."""
    type_, index = ir.MemRefType(memref_.type), ir.IndexType.get()
    if type_.rank == 1:
        return []
    results = [
        ir.MemRefType.get([], type_.element_type, memory_space=type_.memory_space),
        *[index] * (1 + 2 * type_.rank),
    ]
    metadata = ir.Operation.create("memref.extract_strided_metadata", results=results, operands=[memref_])
    strides = list(metadata.results)[2 + type_.rank :]
    del strides[-2 if is_column_major(type_) else -1]
    return strides


def before(op: ir.OpView | ir.Operation) -> ir.InsertionPoint:
    return ir.InsertionPoint(op)


def after(op: ir.OpView | ir.Operation) -> ir.InsertionPoint:
    """Right after an op that is not its block's last."""
    return ir.InsertionPoint(following(op))


def following(op: ir.OpView | ir.Operation) -> ir.OpView:
    """The op after one that is not its block's last."""
    ops = list(op.operation.block.operations)
    position = next(i for i, other in enumerate(ops) if other.operation == op.operation)
    return ops[position + 1]


def ops_in(block: ir.Block) -> list[ir.OpView]:
    """The block's ops without its terminator, as a list that stays valid while the block is edited."""
    return list(block.operations)[:-1]


def erase(op: ir.OpView | ir.Operation) -> None:
    op.operation.erase()


def erase_if_unused(op: ir.OpView | ir.Operation) -> None:
    """Erases an op if no op reads its results. (Erasing an op whose results are read would end the process.)"""
    if not any(list(result.uses) for result in op.operation.results):
        op.operation.erase()


def replace(op: ir.OpView, values: Sequence[ir.Value]) -> None:
    """Replaces the op's results by the values and erases it; the types may differ."""
    for result, value in zip(op.operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.operation.erase()


def move_body(source: ir.Block, target: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Moves every op except the terminator to the end of `target`. Replaces the block arguments by `arguments`.

    Returns the values that the terminator yields. The terminator stays in the old block.
    """
    for argument, value in zip(source.arguments, arguments, strict=True):
        argument.replace_all_uses_with(value)
    *moved, terminator = source.operations
    for op in moved:
        op.operation.detach_from_parent()
        target.append(op.operation)
    return list(terminator.operands)


def move_region(source: ir.Block, target: ir.Region) -> None:
    """Moves a region's only block, which ends in tile.yield, into a region without a block."""
    block = target.blocks.append(*[argument.type for argument in source.arguments])
    yielded = move_body(source, block, list(block.arguments))
    with ir.InsertionPoint(block):
        tile.YieldOp(yielded)


def carrying(
    work: tile.WorkTilesOp, inits: Sequence[ir.Value], *, in_turn: bool = False
) -> tuple[tile.WorkTilesOp, list[ir.Value]]:
    """Recreates work tiles at the insertion point so that they carry index values; also returns the body's arguments.

    The body does not yet yield these values for the next tile: `yield_from` adds that.
    """
    new = work_like(work, inits, in_turn=in_turn)
    move_region(work.body.blocks[0], new.body)
    erase(work)
    return new, [new.body.blocks[0].add_argument(init.type, ir.Location.unknown()) for init in inits]


def yield_from(work: tile.WorkTilesOp, values: Sequence[ir.Value]) -> None:
    """Makes the body of work tiles yield these values."""
    end = list(work.body.blocks[0].operations)[-1]
    with before(end):
        tile.YieldOp(values)
    erase(end)


def copy_region(source: ir.Block, target: ir.Region) -> None:
    """Copies a straight-line block, with its terminator, into a region without a block."""
    block = target.blocks.append(*[argument.type for argument in source.arguments])
    with ir.InsertionPoint(block):
        copy_ops(source.operations, dict(zip(source.arguments, block.arguments, strict=True)))


def copy_ops(ops: Iterable[ir.OpView], mapping: dict[ir.Value, ir.Value]) -> None:
    """Copies ops, with the ops nested in them, to the insertion point. Replaces their operands by the mapping, and adds
    their results to it."""
    for op in ops:
        clone = op.operation.clone()
        clone.walk(lambda inner: _replace_operands(inner, mapping))
        mapping.update(zip(op.results, clone.results, strict=True))


def computing(values: Iterable[ir.Value], root: ir.OpView) -> list[ir.OpView]:
    """The ops within `root` that compute the values, each after the ops whose results it reads."""
    found: list[ir.OpView] = []

    def visit(value: ir.Value) -> None:
        op = defining_op(value)
        if op is None or op in found or not _is_within(op, root):
            return
        for operand in op.operands:
            visit(operand)
        found.append(op)

    for value in values:
        visit(value)
    return found


def _is_within(op: ir.OpView, root: ir.OpView) -> bool:
    outer = op.operation.parent
    while outer is not None and outer != root.operation:
        outer = outer.parent
    return outer is not None


def _replace_operands(op: ir.Operation, mapping: Mapping[ir.Value, ir.Value]) -> ir.WalkResult:
    for position, operand in enumerate(op.operands):
        if operand in mapping:
            op.operands[position] = mapping[operand]
    return ir.WalkResult.ADVANCE


def rebuild_loop(
    loop: scf.ForOp,
    inits: Sequence[ir.Value],
    arguments: Callable[[list[ir.Value]], list[ir.Value]],
    yields: Callable[[list[ir.Value]], list[ir.Value]],
) -> scf.ForOp:
    """A loop of the same bounds that carries other values.

    The new loop has the timing of the old one. The body is moved into it: `arguments(new carried values)` stand for the
    old carried values; `yields(old yielded)` are the new yielded values. The caller replaces the results and erases the
    old loop.
    """
    with before(loop), loop.operation.location:
        new = scf.ForOp(loop.lowerBound, loop.upperBound, loop.step, list(inits))
        keep_timing(loop, new)
        carried = arguments(list(new.inner_iter_args))
        yielded = move_body(loop.body, new.body, [new.induction_variable, *carried])
        with ir.InsertionPoint(new.body):
            scf.YieldOp(yields(yielded))
    return new


def carry_more(
    loop: scf.ForOp,
    inits: Sequence[ir.Value],
    arguments: Callable[[list[ir.Value]], None],
    yields: Callable[[list[ir.Value]], list[ir.Value]],
) -> scf.ForOp:
    """Replaces the loop by one that carries more values. `arguments` gets them, and `yields(old yielded)` gives those
    of the next round."""
    count = len(loop.initArgs)

    def given(carried: list[ir.Value]) -> list[ir.Value]:
        arguments(carried[count:])
        return carried[:count]

    new = rebuild_loop(loop, [*loop.initArgs, *inits], given, lambda yielded: [*yielded, *yields(yielded)])
    replace(loop, list(new.results)[:count])
    return new


def uses(value: ir.Value) -> Iterator[ir.OpView]:
    """The ops that read a value, once for each operand that does. Make a list of the result before editing them."""
    for use in value.uses:
        yield use.owner.operation.opview


def memory_of(matrix: ir.Value) -> ir.Value:
    """The argument or workspace behind this value, which may be a cast, a view, or rows of it."""
    views = ("memref.", "tile.take_rows")
    while not isinstance(matrix.owner, ir.Block) and matrix.owner.name.startswith(views):
        matrix = matrix.owner.operands[0]
    return matrix


def defining_op(value: ir.Value) -> ir.OpView | None:
    """The op that defines the value; None for a block argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.opview


def values_from_outside(block: ir.Block) -> Iterator[tuple[ir.OpView, int, ir.Value]]:
    """Operands of ops in a block that are defined outside it: op, operand number, value. Ignores nested regions.

    Such values are, for example, constants that canonicalize hoists. Make a list of the result before editing the ops.
    """
    inside = {*block.arguments, *(result for op in block.operations for result in op.results)}
    for op in block.operations:
        for number, value in enumerate(op.operands):
            if value not in inside:
                yield op, number, value
