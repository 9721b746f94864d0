"""cp.async, and the loads and stores of fragments: the instructions of one thread for each tiled copy."""

from collections.abc import Callable
from functools import partial

import numpy as np
from mlir import ir
from mlir.dialects import arith, llvm, nvvm, scf, vector
from numpy.typing import NDArray

from lowtide.dialects import sm
from lowtide.dialects.enums import cache_hint_of
from lowtide.dialects.tile import CacheHint, OperandKind
from lowtide.dialects.tile.layouts import layout_of, tv_of
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.context import Context, atom_of
from lowtide.passes.nvvm.matrices import lower_stmatrix
from lowtide.passes.nvvm.memory import (
    Inside,
    both,
    element_pointer,
    global_pointer,
    inside,
    is_before_edge,
    pointer_beyond,
    shared_access,
)
from lowtide.passes.nvvm.thread_offsets import layout_offset
from lowtide.passes.nvvm.values import Fragment, Window, gathered, in_value_order, vector_type
from lowtide.passes.support.buffers import is_transposed_buffer
from lowtide.passes.support.builder import Scalar
from lowtide.passes.support.problem import element_bits
from lowtide.targets import SplitCoordinates, fragment_loads, split_coordinates
from lowtide.targets.tv import Runs, extents, runs

Store = Callable[[ir.Value, ir.Value, int], None]


def lower_cp_async(context: Context, op: sm.CpAsyncOp) -> None:
    """One cp.async per run of the thread's values; a shorter source size zero-fills what lies past the edge."""
    window, buffer = context.window(op.source), context.buffer(op.destination)
    size = atom_of(op, op.copy.atom, "cp.async.").bytes_per_thread
    element_bytes = element_bits(window.matrix.element) // 8
    run = size // element_bytes
    split = split_coordinates(tv_of(op.copy.tv), window.shape)
    _check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    if run > 1 and is_transposed_buffer(buffer.type):
        raise Refusal(op, f"moves {run} elements at once, but its buffer is contiguous along the other dimension")
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    row0, column0 = _thread_origin(context, window, split)
    start = global_pointer(context, window, row0, column0) if _moves_here(window) else None
    for value in range(0, len(split.row_values), run):
        row = context.build.add(row0, split.row_values[value])
        column = context.build.add(column0, split.col_values[value])
        source = (
            global_pointer(context, window, row, column)
            if start is None
            else pointer_beyond(context, window, start, split.row_values[value], split.col_values[value])
        )
        target = access.pointer(context, split.row_values[value], split.col_values[value])
        length = _source_bytes(context, window, row, column, run, element_bytes)
        _cp_async(target, source, size, length)


def _moves_here(window: Window) -> bool:
    """Whether the window's first row is worked out where its elements are addressed.

    Else what an address owes to its row is the same in every round of a loop: LLVM keeps it in registers of its own.
    """
    row = window.offsets[0].value.owner
    return not isinstance(row, ir.Block) and row.operation.block == ir.InsertionPoint.current.block


def _thread_origin(context: Context, window: Window, split: SplitCoordinates) -> tuple[ir.Value, ir.Value]:
    """Row and column in the matrix of the thread's first element in the window."""
    origin = []
    for offset, layout in zip(window.offsets, (split.row_thread, split.col_thread), strict=True):
        origin.append(context.build.add(offset.value, layout_offset(context.build, layout, context.tid)))
    return origin[0], origin[1]


def _source_bytes(
    context: Context, window: Window, row: ir.Value, column: ir.Value, run: int, element_bytes: int
) -> ir.Value | None:
    """Bytes of a run of columns inside the matrix; None if the run is always whole."""
    build = context.build
    row_exists = is_before_edge(context, window, 0, row)
    whole_runs = _has_whole_runs(window, run)
    column_exists = is_before_edge(context, window, 1, column)
    exists = both(context, row_exists, column_exists)
    if exists is None:
        return None
    length: Scalar = run * element_bytes
    if not whole_runs:
        length = build.umin(build.mul(build.sub(window.matrix.extents[1], column), element_bytes), length)
    return build.select(exists, length, 0)


def _has_whole_runs(window: Window, run: int) -> bool:
    """Whether each run of columns, `run` long, is known to be inside the matrix as a whole or not at all."""
    columns = window.matrix.extents[1]
    return inside(window, 1) is not Inside.PARTLY or (isinstance(columns, int) and columns % run == 0)


def _cp_async(target: ir.Value, source: ir.Value, size: int, length: ir.Value | None) -> None:
    # cp.async.cg (L2 only) exists for 16 bytes alone.
    cache = nvvm.LoadCacheModifierKind.CG if size == 16 else nvvm.LoadCacheModifierKind.CA
    nvvm.CpAsyncOp(target, source, size, cache, cpSize=length)


def _check_runs(op: ir.OpView, split: SplitCoordinates, run: int, swizzle: tuple[int, int, int]) -> None:
    """Checks that each run of values is contiguous in a row, aligned to its size, and not split by the swizzle."""
    if run < 1 or len(split.row_values) % run:
        raise Refusal(op, f"moves {run} elements at once, but a thread has {len(split.row_values)}")
    rows = np.array(split.row_values).reshape(-1, run)
    columns = np.array(split.col_values).reshape(-1, run)
    if np.any(rows != rows[:, :1]) or np.any(columns != columns[:, :1] + np.arange(run)) or np.any(columns[:, 0] % run):
        raise Refusal(op, f"moves {run} elements at once, but its thread-value layout does not keep them in one row")
    if swizzle[0] and run > 1 << swizzle[1]:
        raise Refusal(op, f"moves {run} elements at once, but the swizzle permutes units of {1 << swizzle[1]}")


def lower_store_shared(context: Context, op: sm.StoreSharedOp) -> None:
    """Runs of a fragment's values as vector stores, or matrices by stmatrix."""
    if op.atom.value.startswith("stmatrix."):
        lower_stmatrix(context, op)
        return
    buffer = context.buffer(op.destination)
    fragment = context.fragment(op.value)
    run, in_runs = _in_runs(op, "st.shared.", fragment.type)
    if run > 1 and is_transposed_buffer(buffer.type):
        raise Refusal(op, f"moves {run} elements at once, but its buffer is contiguous along the other dimension")
    split = split_coordinates(in_runs.tv, fragment.type.shape)
    _check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    size = run * element_bits(fragment.type.element_type) // 8
    for index, register in enumerate(gathered(fragment, in_runs, run)):
        pointer = access.pointer(context, split.row_values[index * run], split.col_values[index * run])
        llvm.StoreOp(register, pointer, alignment=size)


def lower_load_shared(context: Context, op: sm.LoadSharedOp) -> None:
    """Vector loads of what a thread holds side by side in memory."""
    buffer, fragment = context.buffer(op.source), op.result.type
    run, trans = _run(op, "ld.shared.", fragment), bool(op.trans)
    tv = tv_of(fragment.tv)
    split = split_coordinates(tv, fragment.shape)
    values = _loaded_values(op, fragment, run, trans != is_transposed_buffer(buffer.type))
    bits, base, _ = layout_of(buffer.type.layout)[1]
    if bits and run > 1 << base:
        raise Refusal(op, f"moves {run} elements at once, but the swizzle permutes units of {1 << base}")
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


def _loaded_values(op: ir.OpView, fragment: sm.FragmentType, run: int, along_rows: bool) -> NDArray[np.int64]:
    """The values that each load fills, along the columns or the rows of the fragment: array (loads, run)."""
    tv = tv_of(fragment.tv)
    _, held = extents(tv)
    if run < 1 or held % run:
        raise Refusal(op, f"moves {run} elements at once, but a thread has {held}")
    try:
        return fragment_loads(tv, fragment.shape, along_rows, run).values
    except ScheduleError as error:
        along = "column" if along_rows else "row"
        rule = f"moves {run} elements at once, but its thread-value layout does not keep them in one {along}"
        raise Refusal(op, rule) from error


def _in_runs(op: ir.OpView, family: str, fragment: sm.FragmentType) -> tuple[int, Runs]:
    """Elements that an access by the op's atom moves, and the fragment's values in runs of as many.

    Values that are no such runs stay in their order, and `_check_runs` refuses them.
    """
    run, tv = _run(op, family, fragment), tv_of(fragment.tv)
    try:
        return run, runs(tv, tuple(fragment.shape), max(run, 1))
    except ScheduleError:
        return run, Runs(tv, tuple(range(extents(tv)[1])))


def _run(op: ir.OpView, family: str, fragment: sm.FragmentType) -> int:
    """Elements that an access by the op's atom moves."""
    return atom_of(op, op.atom.value, family).bytes_per_thread * 8 // element_bits(fragment.element_type)


def lower_store_global(context: Context, op: sm.StoreGlobalOp) -> None:
    """Vector stores of the runs of a fragment's values that are inside the matrix, else stores of single elements."""
    window, fragment = context.window(op.destination), context.fragment(op.value)
    run, in_runs = _in_runs(op, "st.global.", fragment.type)
    split = split_coordinates(in_runs.tv, fragment.type.shape)
    _check_runs(op, split, run, (0, 0, 0))
    row0, column0 = _thread_origin(context, window, split)
    start = global_pointer(context, window, row0, column0)
    for index, register in enumerate(gathered(fragment, in_runs, run)):
        rows, columns = split.row_values[index * run], split.col_values[index * run]
        place = context.build.add(row0, rows), context.build.add(column0, columns)
        pointer = pointer_beyond(context, window, start, rows, columns)
        _store_run(context, window, place, pointer, register, run, _cached_store(op))


def _cached_store(op: sm.StoreGlobalOp) -> Store:
    """Stores a value of `size` bytes through a pointer, with the op's cache operator."""
    hint = cache_hint_of(op)
    if hint is CacheHint.normal:
        return _store_plain
    if hint not in (CacheHint.streaming, CacheHint.write_through):
        raise Refusal(op, f"has cache({hint}), which is for TMA; st.global takes streaming, write_through")

    def store(value: ir.Value, pointer: ir.Value, size: int) -> None:
        sm.PtxStoreOp(op.cache, value, pointer)

    return store


def _store_plain(value: ir.Value, pointer: ir.Value, size: int) -> None:
    llvm.StoreOp(value, pointer, alignment=size)


def _store_run(
    context: Context,
    window: Window,
    place: tuple[ir.Value, ir.Value],
    pointer: ir.Value,
    register: ir.Value,
    run: int,
    store: Store,
) -> None:
    """Stores a run whose first element lies at `place`, in memory at `pointer`."""
    build, element = context.build, window.matrix.element
    row, column = place
    size = run * element_bits(element) // 8
    row_exists = is_before_edge(context, window, 0, row)
    whole_runs = _has_whole_runs(window, run)
    last = column if whole_runs else build.add(column, run - 1)
    whole = both(context, row_exists, is_before_edge(context, window, 1, last))
    if whole is None:
        store(register, pointer, size)
        return
    branch = scf.IfOp(whole, has_else=not whole_runs)
    with ir.InsertionPoint(branch.then_block):
        store(register, pointer, size)
        scf.YieldOp([])
    if whole_runs:
        return
    with ir.InsertionPoint(branch.else_block):
        for i in range(run):
            exists = both(context, row_exists, is_before_edge(context, window, 1, build.add(column, i)))
            single = scf.IfOp(exists)
            with ir.InsertionPoint(single.then_block):
                value = vector.ExtractOp(register, [], [i]).result
                store(value, element_pointer(pointer, i, element), element_bits(element) // 8)
                scf.YieldOp([])
        scf.YieldOp([])


def lower_load_global(context: Context, op: sm.LoadGlobalOp) -> None:
    """Loads a fragment from global memory. Values that repeat along a broadcast vector are loaded once."""
    window, fragment = context.window(op.source), op.result.type
    split = split_coordinates(tv_of(fragment.tv), fragment.shape)
    if window.kind is OperandKind.full:
        context.values[op.result] = _load_full(context, op, window, split)
        return
    registers, run = _load_vector(context, op, window, split)
    context.values[op.result] = Fragment(tuple(registers), run, fragment)


def _load_full(context: Context, op: sm.LoadGlobalOp, window: Window, split: SplitCoordinates) -> Fragment:
    fragment, trans = op.result.type, bool(op.trans)
    run = _run(op, "ld.global.", fragment)
    values = _loaded_values(op, fragment, run, trans)
    if trans:  # rows of the window are the fragment's columns
        split = SplitCoordinates(split.col_thread, split.row_thread, split.col_values, split.row_values)
    row0, column0 = _thread_origin(context, window, split)
    aligned = None if op.aligned else _is_aligned(context, window, run)
    loaded = []
    for first in values[:, 0].tolist():
        row = context.build.add(row0, split.row_values[first])
        column = context.build.add(column0, split.col_values[first])
        loaded.append(_load_run(context, window, row, column, run, aligned))
    return in_value_order(loaded, values, fragment)


def _is_aligned(context: Context, window: Window, run: int) -> ir.Value:
    """Whether runs of the matrix are aligned for vector loads: base and row stride are multiples of the run's bytes."""
    matrix, build = window.matrix, context.build
    element_bytes = element_bits(matrix.element) // 8
    base = llvm.PtrToIntOp(build.i64, matrix.pointer).result
    stride = build.mul(matrix.row_stride, element_bytes)
    return build.eq(build.and_(build.or_(base, stride), run * element_bytes - 1), 0)


def _load_run(
    context: Context, window: Window, row: ir.Value, column: ir.Value, run: int, aligned: ir.Value | None
) -> ir.Value:
    """A vector load where the run is aligned (None: it always is) and whole, else a load for each element that exists,
    else zero."""
    element = window.matrix.element
    type_ = vector_type(run, element)
    row_exists = is_before_edge(context, window, 0, row)
    last = is_before_edge(context, window, 1, context.build.add(column, run - 1))
    whole = both(context, aligned, both(context, row_exists, last))

    def load() -> ir.Value:
        pointer = global_pointer(context, window, row, column)
        return llvm.LoadOp(type_, pointer, alignment=run * element_bits(element) // 8).result

    if whole is None:
        return load()
    branch = scf.IfOp(whole, [type_], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([load()])
    with ir.InsertionPoint(branch.else_block):
        if aligned is None and _has_whole_runs(window, run):
            zero = vector.BroadcastOp(type_, arith.constant(element, 0.0)).result
            scf.YieldOp([zero])
            return branch.results[0]
        elements = []
        for i in range(run):
            place = context.build.add(column, i)
            exists = both(context, row_exists, is_before_edge(context, window, 1, place))
            elements.append(_load_element(context, window, (row, place), exists))
        scf.YieldOp([vector.FromElementsOp(type_, elements).result])
    return branch.results[0]


def _load_element(
    context: Context, window: Window, index: tuple[ir.Value, ir.Value], exists: ir.Value | None
) -> ir.Value:
    element = window.matrix.element

    def load() -> ir.Value:
        pointer = global_pointer(context, window, *index)
        return llvm.LoadOp(element, pointer, alignment=element_bits(element) // 8).result

    return _where(exists, element, load)


def _where(exists: ir.Value | None, element: ir.Type, load: Callable[[], ir.Value]) -> ir.Value:
    """The element if it is inside the matrix, else zero; nothing is loaded outside."""
    if exists is None:
        return load()
    branch = scf.IfOp(exists, [element], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([load()])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([arith.constant(element, 0.0)])
    return branch.results[0]


def _load_vector(
    context: Context, op: sm.LoadGlobalOp, window: Window, split: SplitCoordinates
) -> tuple[list[ir.Value], int]:
    """One load for each distinct row (or column) of the thread's values."""
    matrix = window.matrix
    by_row = window.kind is OperandKind.per_row
    layout, places = (split.row_thread, split.row_values) if by_row else (split.col_thread, split.col_values)
    start = context.build.add(window.offsets[0].value, layout_offset(context.build, layout, context.tid))
    loaded: dict[int, ir.Value] = {}
    for place in places:
        if place not in loaded:
            index = context.build.add(start, place)
            exists = _vector_exists(context, window, index)
            loaded[place] = _where(exists, matrix.element, partial(_load_at, context, window, index))
    run = _run(op, "ld.global.", op.result.type)
    type_ = vector_type(run, matrix.element)
    groups: dict[tuple[int, ...], ir.Value] = {}
    registers = []
    for value in range(0, len(places), run):
        group = tuple(places[value : value + run])
        if group not in groups:
            groups[group] = vector.FromElementsOp(type_, [loaded[place] for place in group]).result
        registers.append(groups[group])
    return registers, run


def _vector_exists(context: Context, window: Window, index: ir.Value) -> ir.Value | None:
    extent, offset = window.matrix.extents[0], window.offsets[0]
    shape = window.shape[0 if window.kind is OperandKind.per_row else 1]
    if isinstance(extent, int) and extent % offset.span == 0 and offset.room is not None and shape <= offset.room:
        return None
    return context.build.ult(index, extent)


def _load_at(context: Context, window: Window, index: ir.Value) -> ir.Value:
    element = window.matrix.element
    pointer = element_pointer(window.matrix.pointer, context.build.zext(index, context.build.i64), element)
    return llvm.LoadOp(element, pointer, alignment=element_bits(element) // 8).result
