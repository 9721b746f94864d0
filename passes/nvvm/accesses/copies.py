"""cp.async, and loads and stores of fragments in shared memory: one thread's instructions for each tiled copy."""

from mlir import ir
from mlir.dialects import llvm, nvvm

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import layout_of, tv_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.accesses.matrices import lower_ldmatrix, lower_stmatrix
from lowtide.passes.nvvm.accesses.runs import (
    check_runs,
    has_whole_runs,
    in_halves,
    in_runs_of,
    loaded_values,
    run_of,
    thread_origin,
)
from lowtide.passes.nvvm.accesses.taken_rows import taken_rows
from lowtide.passes.nvvm.thread.context import Context, atom_of
from lowtide.passes.nvvm.thread.hoisting import before_loop
from lowtide.passes.nvvm.thread.memory import (
    SharedAccess,
    both,
    global_pointer,
    is_before_edge,
    pointer_beyond,
    shared_access,
)
from lowtide.passes.nvvm.thread.values import Window, gathered, in_value_order, vector_type
from lowtide.passes.support.ir.builder import Scalar
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.targets import SplitCoordinates, family_of, split_coordinates


def lower_cp_async(context: Context, op: sm.CpAsyncOp) -> None:
    """One cp.async per run of the thread's values; a shorter source size zero-fills what lies past the edge."""
    window, buffer = context.window(op.source), context.buffer(op.destination)
    size = atom_of(op, op.copy.atom, "cp.async").bytes_per_thread
    element_bytes = element_bits(window.matrix.element) // 8
    run = size // element_bytes
    split = split_coordinates(tv_of(op.copy.tv), window.shape)
    check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    if run > 1 and is_transposed_buffer(buffer.type):
        raise Refusal(
            op, f"moves {run} elements at once, but its buffer is contiguous along the other dimension [cp-async-run]"
        )
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    if window.matrix.index is not None:
        _copy_taken_rows(context, window, split, access, (size, run))
        return
    windows, places, (row0, column0) = in_halves(context, op, window, split)
    moves = _moves_here(window)
    starts = {each: global_pointer(context, each, row0, column0) for each in dict.fromkeys(windows)} if moves else {}
    for value in range(0, len(split.row_values), run):
        own, row_step, column_step = windows[value], places.row_values[value], places.col_values[value]
        row = context.build.add(row0, row_step)
        column = context.build.add(column0, column_step)
        source = (
            pointer_beyond(context, own, starts[own], row_step, column_step)
            if moves
            else global_pointer(context, own, row, column)
        )
        target = access.pointer(context, split.row_values[value], split.col_values[value])
        row_exists = is_before_edge(context, own, 0, row)
        length = _source_bytes(context, own, row_exists, column, run)
        _cp_async(target, source, size, length)


def _copy_taken_rows(
    context: Context, window: Window, split: SplitCoordinates, access: SharedAccess, each: tuple[int, int]
) -> None:
    """As `lower_cp_async`, for a window with rows at an index. `each`: the bytes and the elements of a run."""
    size, run = each
    with before_loop(window.offsets[0].value):
        rows = taken_rows(context, window, split)
    _, column0 = thread_origin(context, window, split)
    for value in range(0, len(split.row_values), run):
        row, exists = rows[split.row_values[value]]
        column = context.build.add(column0, split.col_values[value])
        target = access.pointer(context, split.row_values[value], split.col_values[value])
        length = _source_bytes(context, window, exists, column, run)
        _cp_async(target, global_pointer(context, window, row, column), size, length)


def _moves_here(window: Window) -> bool:
    """Whether the window's first row is worked out where its elements are addressed.

    Else what an address owes to its row is the same in every round of a loop: LLVM keeps it in registers of its own.
    """
    row = window.offsets[0].value.owner
    return not isinstance(row, ir.Block) and row.operation.block == ir.InsertionPoint.current.block


def _source_bytes(
    context: Context, window: Window, row_exists: ir.Value | None, column: ir.Value, run: int
) -> ir.Value | None:
    """Bytes of a run of columns that are inside the matrix; None if the run is always whole. `row_exists`: whether the
    matrix has the row; None if it always does."""
    build, element_bytes = context.build, element_bits(window.matrix.element) // 8
    whole_runs = has_whole_runs(window, run)
    column_exists = is_before_edge(context, window, 1, column)
    exists = both(context, row_exists, column_exists)
    if exists is None:
        return None
    length: Scalar = run * element_bytes
    if not whole_runs:
        length = build.umin(build.mul(build.sub(window.matrix.extents[1], column), element_bytes), length)
    return build.select(exists, length, 0)


def _cp_async(target: ir.Value, source: ir.Value, size: int, length: ir.Value | None) -> None:
    # cp.async.cg (L2 only) exists for 16 bytes alone.
    cache = nvvm.LoadCacheModifierKind.CG if size == 16 else nvvm.LoadCacheModifierKind.CA
    nvvm.CpAsyncOp(target, source, size, cache, cpSize=length)


def lower_store_shared(context: Context, op: sm.StoreSharedOp) -> None:
    """Runs of a fragment's values as vector stores, or matrices by stmatrix."""
    if family_of(op.atom.value) == "stmatrix":
        lower_stmatrix(context, op)
        return
    buffer = context.buffer(op.destination)
    fragment = context.fragment(op.value)
    run, in_runs = in_runs_of(op, "st.shared", fragment.type)
    if run > 1 and is_transposed_buffer(buffer.type):
        raise Refusal(
            op,
            f"moves {run} elements at once, but its buffer is contiguous along the other dimension [store-shared-run]",
        )
    split = split_coordinates(in_runs.tv, fragment.type.shape)
    check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    size = run * element_bits(fragment.type.element_type) // 8
    for index, register in enumerate(gathered(fragment, in_runs, run)):
        pointer = access.pointer(context, split.row_values[index * run], split.col_values[index * run])
        llvm.StoreOp(register, pointer, alignment=size)


def lower_load_shared(context: Context, op: sm.LoadSharedOp) -> None:
    """Vector loads of what a thread holds side by side in memory, or matrices by ldmatrix."""
    if family_of(op.atom.value) == "ldmatrix":
        lower_ldmatrix(context, op)
        return
    buffer, fragment = context.buffer(op.source), op.result.type
    run, trans = run_of(op, "ld.shared", fragment), bool(op.trans)
    tv = tv_of(fragment.tv)
    split = split_coordinates(tv, fragment.shape)
    values = loaded_values(op, fragment, run, trans != is_transposed_buffer(buffer.type))
    bits, base, _ = layout_of(buffer.type.layout)[1]
    if bits and run > 1 << base:
        raise Refusal(
            op, f"moves {run} elements at once, but the swizzle permutes units of {1 << base} [load-shared-swizzle]"
        )
    threads, places = (split.row_thread, split.col_thread), (split.row_values, split.col_values)
    if trans:
        threads, places = threads[::-1], places[::-1]
    access = shared_access(context, buffer, *threads)
    row0, column0 = op.offsets or (0, 0)
    size = run * element_bits(fragment.element_type) // 8
    type_ = vector_type(run, fragment.element_type)
    loaded = [
        llvm.LoadOp(type_, access.pointer(context, row0 + places[0][first], column0 + places[1][first]), alignment=size)
        for first in values[:, 0].tolist()
    ]
    context.values[op.result] = in_value_order([load.result for load in loaded], values, fragment)
