"""cp.async, ldmatrix, and the loads and stores of fragments: one thread's instructions of each tiled copy."""

from collections.abc import Callable
from functools import partial

import numpy as np
from mlir import ir
from mlir.dialects import arith, llvm, scf, vector

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import layout_of, tv_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.memory import (
    Inside,
    both,
    element_pointer,
    global_pointer,
    inside,
    is_before_edge,
    shared_access,
)
from lowtide.passes.nvvm.values import Fragment, Window, regroup, vector_type
from lowtide.passes.problem import element_bits
from lowtide.targets import CopyAtom, SplitCoordinates, copy_atom, split_coordinates
from lowtide.targets.ldmatrix import check_rows, row_addresses
from lowtide.targets.tv import extents


def lower_cp_async(context: Context, op: sm.CpAsyncOp) -> None:
    """One cp.async for each run of the thread's values; what lies past the edge is zero-filled by a shorter source."""
    window, buffer = context.window(op.source), context.buffer(op.destination)
    size = _atom(op, op.copy.atom, "cp.async.").bytes_per_thread
    element_bytes = element_bits(window.matrix.element) // 8
    run = size // element_bytes
    split = split_coordinates(tv_of(op.copy.tv), window.shape)
    _check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    row0, column0 = _thread_origin(context, window, split)
    for value in range(0, len(split.row_values), run):
        row = context.emit.add(row0, split.row_values[value])
        column = context.emit.add(column0, split.col_values[value])
        source = global_pointer(context, window, row, column)
        target = access.pointer(context, split.row_values[value], split.col_values[value])
        length = _source_bytes(context, window, row, column, run, element_bytes)
        _cp_async(target, source, size, length)


def _thread_origin(context: Context, window: Window, split: SplitCoordinates) -> tuple[ir.Value, ir.Value]:
    """Row and column, in the matrix, of the thread's own place in the window."""
    origin = []
    for offset, layout in zip(window.offsets, (split.row_thread, split.col_thread), strict=True):
        part = context.emit.layout(layout, context.tid)
        origin.append(offset.value if part is None else context.emit.add(offset.value, part))
    return origin[0], origin[1]


def _source_bytes(
    context: Context, window: Window, row: ir.Value, column: ir.Value, run: int, element_bytes: int
) -> ir.Value | None:
    """Bytes of a run of columns that exist; None where all always do."""
    emit = context.emit
    full, zero = emit.constant(run * element_bytes), emit.constant(0)
    row_exists = is_before_edge(context, window, 0, row)
    columns = window.matrix.extents[1]
    whole_runs = inside(window, 1) is not Inside.PARTLY or (isinstance(columns, int) and columns % run == 0)
    column_exists = is_before_edge(context, window, 1, column)
    exists = both(row_exists, column_exists)
    if exists is None:
        return None
    if not whole_runs:
        end = emit.constant(columns) if isinstance(columns, int) else columns
        left = emit.mul(arith.SubIOp(end, column).result, element_bytes)
        full = arith.MinUIOp(left, full).result
    return emit.select(exists, full, zero)


def _cp_async(target: ir.Value, source: ir.Value, size: int, length: ir.Value | None) -> None:
    # cp.async.cg (L2 only) exists for 16 bytes alone.
    cache = "cg" if size == 16 else "ca"
    ir.Operation.create(
        "nvvm.cp.async.shared.global",
        operands=[target, source, *([] if length is None else [length])],
        attributes={
            "size": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), size),
            "modifier": ir.Attribute.parse(f"#nvvm<load_cache_modifier {cache}>"),
        },
    )


def _check_runs(op: ir.OpView, split: SplitCoordinates, run: int, swizzle: tuple[int, int, int]) -> None:
    """Each run of values lies side by side in a row, starts at a multiple of itself, and no swizzle parts it."""
    if run < 1 or len(split.row_values) % run:
        raise Refusal(op, f"moves {run} elements at once, but a thread has {len(split.row_values)}")
    rows = np.array(split.row_values).reshape(-1, run)
    columns = np.array(split.col_values).reshape(-1, run)
    if np.any(rows != rows[:, :1]) or np.any(columns != columns[:, :1] + np.arange(run)) or np.any(columns[:, 0] % run):
        raise Refusal(op, f"moves {run} elements at once, but its thread-value layout does not keep them in one row")
    if swizzle[0] and run > 1 << swizzle[1]:
        raise Refusal(op, f"moves {run} elements at once, but the swizzle permutes units of {1 << swizzle[1]}")


def lower_ldmatrix(context: Context, op: sm.LdmatrixOp) -> None:
    """One ldmatrix for each group of registers; every lane supplies one row's address."""
    fragment, buffer = op.result.type, context.buffer(op.source)
    tv, shape = tv_of(fragment.tv), fragment.shape
    trans = bool(op.trans)
    matrices = _atom(op, op.atom.value, "ldmatrix.").matrices
    _, held = extents(tv)
    if held % (2 * matrices):
        raise Refusal(op, f"loads {2 * matrices} elements a thread at once, but a thread has {held}")
    source = row_addresses(tv, matrices, trans)
    check_rows(tv, source, shape, matrices, trans, "of an ldmatrix")
    split = split_coordinates(source, shape)
    threads, values = (split.row_thread, split.col_thread), (split.row_values, split.col_values)
    if trans:
        threads, values = threads[::-1], values[::-1]
    access = shared_access(context, buffer, *threads)
    row0, column0 = op.offsets
    registers: list[ir.Value] = []
    for row, column in zip(*values, strict=True):
        pointer = access.pointer(context, row0 + row, column0 + column)
        registers += _ldmatrix(context, pointer, matrices, trans)
    context.values[op.result] = Fragment(tuple(registers), 2, fragment, packed=True)


def _ldmatrix(context: Context, pointer: ir.Value, matrices: int, trans: bool) -> list[ir.Value]:
    i32 = context.emit.i32
    result = i32 if matrices == 1 else ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * matrices)})>")
    loaded = ir.Operation.create(
        "nvvm.ldmatrix",
        results=[result],
        operands=[pointer],
        attributes={
            "num": ir.IntegerAttr.get(i32, matrices),
            "layout": ir.Attribute.parse(f"#nvvm.mma_layout<{'col' if trans else 'row'}>"),
            "shape": ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
            "eltType": ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
        },
    ).result
    if matrices == 1:
        return [loaded]
    return [llvm.ExtractValueOp(i32, loaded, [i]).result for i in range(matrices)]


def lower_store_shared(context: Context, op: sm.StoreSharedOp) -> None:
    """Runs of a fragment's values as vector stores."""
    buffer = context.buffer(op.destination)
    fragment = context.fragment(op.value)
    run = _run(op, "st.shared.", fragment.type)
    split = split_coordinates(tv_of(fragment.type.tv), fragment.type.shape)
    _check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    size = run * element_bits(fragment.type.element_type) // 8
    for index, register in enumerate(regroup(fragment, run).registers):
        pointer = access.pointer(context, split.row_values[index * run], split.col_values[index * run])
        llvm.StoreOp(register, pointer, alignment=size)


def lower_load_shared(context: Context, op: sm.LoadSharedOp) -> None:
    """Runs of a fragment's values as vector loads."""
    buffer, fragment = context.buffer(op.source), op.result.type
    run = _run(op, "ld.shared.", fragment)
    split = split_coordinates(tv_of(fragment.tv), fragment.shape)
    _check_runs(op, split, run, layout_of(buffer.type.layout)[1])
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    size = run * element_bits(fragment.element_type) // 8
    type_ = vector_type(run, fragment.element_type)
    registers = [
        llvm.LoadOp(type_, access.pointer(context, row, column), alignment=size).result
        for row, column in zip(split.row_values[::run], split.col_values[::run], strict=True)
    ]
    context.values[op.result] = Fragment(tuple(registers), run, fragment)


def _run(op: ir.OpView, family: str, fragment: sm.FragmentType) -> int:
    """Elements that an access by the op's atom moves."""
    return _atom(op, op.atom.value, family).bytes_per_thread * 8 // element_bits(fragment.element_type)


def _atom(op: ir.OpView, name: str, family: str) -> CopyAtom:
    """The copy atom that an op names. Refuses one of another family than the op's."""
    if not name.startswith(family):
        raise Refusal(op, f"takes an atom {family}*, not {name}")
    return copy_atom(name)


def lower_store_global(context: Context, op: sm.StoreGlobalOp) -> None:
    """Runs of a fragment's values as vector stores where a run exists whole, else element by element."""
    window, fragment = context.window(op.destination), context.fragment(op.value)
    run = _run(op, "st.global.", fragment.type)
    split = split_coordinates(tv_of(fragment.type.tv), fragment.type.shape)
    _check_runs(op, split, run, (0, 0, 0))
    row0, column0 = _thread_origin(context, window, split)
    for index, register in enumerate(regroup(fragment, run).registers):
        row = context.emit.add(row0, split.row_values[index * run])
        column = context.emit.add(column0, split.col_values[index * run])
        _store_run(context, window, row, column, register, run)


def _store_run(context: Context, window: Window, row: ir.Value, column: ir.Value, register: ir.Value, run: int) -> None:
    emit, element = context.emit, window.matrix.element
    size = run * element_bits(element) // 8
    row_exists = is_before_edge(context, window, 0, row)
    columns = window.matrix.extents[1]
    whole_runs = inside(window, 1) is not Inside.PARTLY or (isinstance(columns, int) and columns % run == 0)
    last = column if whole_runs else emit.add(column, run - 1)
    whole = both(row_exists, is_before_edge(context, window, 1, last))
    pointer = global_pointer(context, window, row, column)
    if whole is None:
        llvm.StoreOp(register, pointer, alignment=size)
        return
    branch = scf.IfOp(whole, has_else=not whole_runs)
    with ir.InsertionPoint(branch.then_block):
        llvm.StoreOp(register, pointer, alignment=size)
        scf.YieldOp([])
    if whole_runs:
        return
    with ir.InsertionPoint(branch.else_block):
        for i in range(run):
            exists = both(row_exists, is_before_edge(context, window, 1, emit.add(column, i)))
            single = scf.IfOp(exists)
            with ir.InsertionPoint(single.then_block):
                value = vector.ExtractOp(register, [], [i]).result
                llvm.StoreOp(value, element_pointer(pointer, i, element), alignment=element_bits(element) // 8)
                scf.YieldOp([])
        scf.YieldOp([])


def lower_load_global(context: Context, op: sm.LoadGlobalOp) -> None:
    """A fragment from global memory. What repeats along a broadcast vector is loaded once."""
    window, fragment = context.window(op.source), op.result.type
    split = split_coordinates(tv_of(fragment.tv), fragment.shape)
    if window.kind == "full":
        registers, run = _load_full(context, op, window, split)
    else:
        registers, run = _load_vector(context, op, window, split)
    context.values[op.result] = Fragment(tuple(registers), run, fragment)


def _load_full(
    context: Context, op: sm.LoadGlobalOp, window: Window, split: SplitCoordinates
) -> tuple[list[ir.Value], int]:
    run = _run(op, "ld.global.", op.result.type)
    _check_runs(op, split, run, (0, 0, 0))
    row0, column0 = _thread_origin(context, window, split)
    aligned = _is_aligned(context, window, run)
    registers = []
    for value in range(0, len(split.row_values), run):
        row = context.emit.add(row0, split.row_values[value])
        column = context.emit.add(column0, split.col_values[value])
        registers.append(_load_run(context, window, row, column, run, aligned))
    return registers, run


def _is_aligned(context: Context, window: Window, run: int) -> ir.Value:
    """Whether every run of the matrix may be loaded at once: base and row stride are multiples of its bytes."""
    matrix, i64 = window.matrix, context.emit.i64
    element_bytes = element_bits(matrix.element) // 8
    base = llvm.PtrToIntOp(i64, matrix.pointer).result
    stride = arith.MulIOp(matrix.row_stride, context.emit.constant(element_bytes, i64)).result
    bits = arith.AndIOp(arith.OrIOp(base, stride).result, context.emit.constant(run * element_bytes - 1, i64)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, bits, context.emit.constant(0, i64)).result


def _load_run(
    context: Context, window: Window, row: ir.Value, column: ir.Value, run: int, aligned: ir.Value
) -> ir.Value:
    """A vector load where the run is aligned and whole, else a load for each element that exists, else zero."""
    element = window.matrix.element
    type_ = vector_type(run, element)
    row_exists = is_before_edge(context, window, 0, row)
    last = is_before_edge(context, window, 1, context.emit.add(column, run - 1))
    whole = both(aligned, both(row_exists, last))
    branch = scf.IfOp(whole, [type_], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        pointer = global_pointer(context, window, row, column)
        loaded = llvm.LoadOp(type_, pointer, alignment=run * element_bits(element) // 8).result
        scf.YieldOp([loaded])
    with ir.InsertionPoint(branch.else_block):
        elements = []
        for i in range(run):
            place = context.emit.add(column, i)
            exists = both(row_exists, is_before_edge(context, window, 1, place))
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
    """The loaded element where it exists, else zero; the load is not made elsewhere."""
    if exists is None:
        return load()
    branch = scf.IfOp(exists, [element], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([load()])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([arith.ConstantOp(element, 0.0).result])
    return branch.results[0]


def _load_vector(
    context: Context, op: sm.LoadGlobalOp, window: Window, split: SplitCoordinates
) -> tuple[list[ir.Value], int]:
    """One load for each different row (or column) that the thread's values have."""
    matrix = window.matrix
    by_row = window.kind == "per_row"
    layout, places = (split.row_thread, split.row_values) if by_row else (split.col_thread, split.col_values)
    part = context.emit.layout(layout, context.tid)
    start = window.offsets[0].value if part is None else context.emit.add(window.offsets[0].value, part)
    loaded: dict[int, ir.Value] = {}
    for place in places:
        if place not in loaded:
            index = context.emit.add(start, place)
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
    shape = window.shape[0 if window.kind == "per_row" else 1]
    if isinstance(extent, int) and extent % offset.multiple == 0 and offset.room is not None and shape <= offset.room:
        return None
    return context.emit.less(index, extent)


def _load_at(context: Context, window: Window, index: ir.Value) -> ir.Value:
    element = window.matrix.element
    wide = arith.ExtUIOp(context.emit.i64, index).result
    pointer = element_pointer(window.matrix.pointer, wide, element)
    return llvm.LoadOp(element, pointer, alignment=element_bits(element) // 8).result
