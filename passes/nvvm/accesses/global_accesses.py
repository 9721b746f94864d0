"""Loads and stores of fragments in global memory: vectors inside of the matrix, elements at its edges."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mlir import ir
from mlir.dialects import llvm, scf, vector

from lowtide.dialects import sm
from lowtide.dialects.enums import cache_hint_of
from lowtide.dialects.tile import CacheHint, OperandKind
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.accesses.realigned_loads import RealignedLoads
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
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import (
    both,
    element_pointer,
    global_pointer,
    is_before_edge,
    load_element,
    pointer_beyond,
    where,
)
from lowtide.passes.nvvm.thread.thread_offsets import layout_offset
from lowtide.passes.nvvm.thread.values import Fragment, Window, gathered, in_value_order, regroup, vector_type
from lowtide.passes.support.ir.arithmetic import number
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.targets import SplitCoordinates, split_coordinates

Store = Callable[[ir.Value, ir.Value, int], None]


def lower_store_global(context: Context, op: sm.StoreGlobalOp) -> None:
    """Vector stores of the runs of a fragment's values that are inside the matrix, else stores of single elements."""
    window, fragment = context.window(op.destination), context.fragment(op.value)
    run, in_runs = in_runs_of(op, "st.global", fragment.type, along_rows=window.turned)
    split = split_coordinates(in_runs.tv, fragment.type.shape)
    split = split.turned if window.turned else split
    check_runs(op, split, run, (0, 0, 0))
    if window.matrix.index is not None:
        _store_at_index(context, op, window, split, gathered(fragment, in_runs, run))
        return
    row0, column0 = thread_origin(context, window, split)
    start = global_pointer(context, window, row0, column0)
    if window.turned and run == 1:
        fragment = _kept_in_pairs(context, fragment)
    for index, register in enumerate(gathered(fragment, in_runs, run)):
        rows, columns = split.row_values[index * run], split.col_values[index * run]
        row, column = context.build.add(row0, rows), context.build.add(column0, columns)
        pointer = pointer_beyond(context, window, start, rows, columns)
        row_exists = is_before_edge(context, window, 0, row)
        _store_run(context, window, (row_exists, column, pointer), register, _cached_store(op))


def _store_at_index(
    context: Context,
    op: sm.StoreGlobalOp,
    window: Window,
    split: SplitCoordinates,
    registers: Sequence[ir.Value],
) -> None:
    """As `lower_store_global`, for a window with rows at an index. Rows that the matrix lacks are not stored."""
    run = len(split.row_values) // len(registers)
    rows, (_, column0) = taken_rows(context, window, split), thread_origin(context, window, split)
    starts = {step: global_pointer(context, window, row, column0) for step, (row, _) in rows.items()}
    for index, register in enumerate(registers):
        step, columns = split.row_values[index * run], split.col_values[index * run]
        column = context.build.add(column0, columns)
        pointer = pointer_beyond(context, window, starts[step], 0, columns)
        _, row_exists = rows[step]
        _store_run(context, window, (row_exists, column, pointer), register, _cached_store(op))


def _kept_in_pairs(context: Context, fragment: Fragment) -> Fragment:
    """The fragment with neighbours in pairs to the end, where they are of 16 bits and held so."""
    if fragment.width % 2 or element_bits(fragment.type.element_type) != 16:
        return fragment
    pair, pairs = vector_type(2, fragment.type.element_type), regroup(fragment, 2)
    words = (llvm.BitcastOp(context.build.i32, register).result for register in pairs.registers)
    kept = tuple(llvm.BitcastOp(pair, sm.PtxKeepPairOp(word).result).result for word in words)
    return replace(pairs, registers=kept)


def _cached_store(op: sm.StoreGlobalOp) -> Store:
    """Stores a value of `size` bytes through a pointer, with the op's cache operator."""
    hint = cache_hint_of(op)
    if hint is CacheHint.normal:
        return _store_plain
    if hint not in (CacheHint.streaming, CacheHint.write_through):
        raise Refusal(
            op, f"has cache({hint}), which is for TMA; st.global takes streaming, write_through [st-global-hint]"
        )

    def store(value: ir.Value, pointer: ir.Value, size: int) -> None:
        sm.PtxStoreOp(op.cache, value, pointer)

    return store


def _store_plain(value: ir.Value, pointer: ir.Value, size: int) -> None:
    llvm.StoreOp(value, pointer, alignment=size)


def _store_run(
    context: Context,
    window: Window,
    place: tuple[ir.Value | None, ir.Value, ir.Value],
    register: ir.Value,
    store: Store,
) -> None:
    """Stores a run of elements, a vector. `place`: whether its row exists (None: it does), the column of its first
    element, and the address of that."""
    build, element = context.build, window.matrix.element
    (row_exists, column, pointer), (run,) = place, ir.VectorType(register.type).shape
    size = run * element_bits(element) // 8
    whole_runs = has_whole_runs(window, run)
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
    fragment, trans = op.result.type, bool(op.trans) or window.turned
    run = run_of(op, "ld.global", fragment)
    values = loaded_values(op, fragment, run, trans)
    if trans:  # rows of the window are the fragment's columns
        split = split.turned
    windows, split, (row0, column0) = in_halves(context, op, window, split)
    parts = dict.fromkeys(windows)
    if op.realigned:
        firsts: list[int] = values[:, 0].tolist()
        found: dict[int, ir.Value] = {}
        for each in parts:
            own = [first for first in firsts if windows[first] == each]
            realigned = RealignedLoads(context, each, split, (row0, column0), run)
            found.update(zip(own, realigned.load(own), strict=True))
        return in_value_order([found[first] for first in firsts], values, fragment)
    of_elements = window.turned and run == 1  # an element is aligned wherever it lies
    by_vectors = op.aligned or of_elements
    aligned = {each: None if by_vectors else _is_aligned(context, each, run) for each in parts}
    loaded = []
    for first in values[:, 0].tolist():
        row = context.build.add(row0, split.row_values[first])
        column = context.build.add(column0, split.col_values[first])
        own = windows[first]
        loaded.append(_load_run(context, own, row, column, run, aligned[own]))
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

    def otherwise() -> ir.Value:
        if aligned is None and has_whole_runs(window, run):
            return vector.BroadcastOp(type_, number(element, 0)).result
        elements = []
        for i in range(run):
            place = context.build.add(column, i)
            exists = both(context, row_exists, is_before_edge(context, window, 1, place))
            elements.append(_load_element(context, window, (row, place), exists))
        return vector.FromElementsOp(type_, elements).result

    return where(whole, type_, load, otherwise)


def _load_element(
    context: Context, window: Window, index: tuple[ir.Value, ir.Value], exists: ir.Value | None
) -> ir.Value:
    element = window.matrix.element

    return where(exists, element, lambda: load_element(element, global_pointer(context, window, *index)))


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
            loaded[place] = where(exists, matrix.element, partial(_load_at, context, window, index))
    run = run_of(op, "ld.global", op.result.type)
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
