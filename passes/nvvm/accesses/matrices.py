"""ldmatrix and stmatrix: fragments of 16-bit elements from and to shared memory, 8×8 matrices at a time.

ldmatrix also loads 8-bit elements, each pair as one of 16 bits.
"""

from mlir import ir
from mlir.dialects import llvm, nvvm
from tensor_layouts import Layout

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context, atom_of
from lowtide.passes.nvvm.thread.memory import shared_access
from lowtide.passes.nvvm.thread.values import Fragment, regroup
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.targets import split_coordinates
from lowtide.targets.ldmatrix import check_rows, elements_per_register, row_addresses
from lowtide.targets.tv import extents


def lower_ldmatrix(context: Context, op: sm.LdmatrixOp | sm.LoadSharedOp) -> None:
    """One ldmatrix per group of registers; every lane supplies the address of one row."""
    fragment, buffer = op.result.type, context.buffer(op.source)
    trans = bool(op.trans)
    matrices = atom_of(op, op.atom.value, "ldmatrix").matrices
    per_register = elements_per_register(element_bits(fragment.element_type))
    source = _rows(op, fragment, matrices, trans, "loads", "of an ldmatrix", per_register)
    split = split_coordinates(source, fragment.shape)
    threads, values = (split.row_thread, split.col_thread), (split.row_values, split.col_values)
    if trans:
        threads, values = threads[::-1], values[::-1]
    access = shared_access(context, buffer, *threads)
    row0, column0 = op.offsets or (0, 0)
    registers: list[ir.Value] = []
    for row, column in zip(*values, strict=True):
        pointer = access.pointer(context, row0 + row, column0 + column)
        registers += _ldmatrix(context, pointer, matrices, trans)
    context.values[op.result] = Fragment(tuple(registers), per_register, fragment, packed=True)


def _rows(
    op: ir.OpView, fragment: sm.FragmentType, matrices: int, trans: bool, verb: str, operand: str, per_register: int = 2
) -> Layout:
    """The row that each lane addresses in each instruction, from the fragment's thread-value layout alone."""
    tv = tv_of(fragment.tv)
    _, held = extents(tv)
    if held % (per_register * matrices):
        raise Refusal(
            op,
            f"{verb} {per_register * matrices} elements per thread at once, but a thread has {held} [matrix-elements]",
        )
    source = row_addresses(tv, matrices, trans, per_register)
    check_rows(tv, source, fragment.shape, matrices, trans, operand, per_register)
    return source


def _ldmatrix(context: Context, pointer: ir.Value, matrices: int, trans: bool) -> list[ir.Value]:
    i32 = context.build.i32
    result = i32 if matrices == 1 else llvm.StructType.get_literal([i32] * matrices)
    loaded = nvvm.LdMatrixOp(result, pointer, matrices, *_matrix_attributes(trans)).res
    if matrices == 1:
        return [loaded]
    return [llvm.ExtractValueOp(i32, loaded, [i]).result for i in range(matrices)]


def _matrix_attributes(trans: bool) -> tuple[nvvm.MMALayout, ir.Attribute, nvvm.LdStMatrixEltType]:
    """Layout, shape and elements of matrices of 8×8 elements of 16 bits."""
    layout = nvvm.MMALayout.col if trans else nvvm.MMALayout.row
    return layout, ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"), nvvm.LdStMatrixEltType.B16


def lower_stmatrix(context: Context, op: sm.StoreSharedOp) -> None:
    """One stmatrix per group of registers; lanes address the same rows as for ldmatrix.

    Matrices are transposed if the columns of the buffer are contiguous.
    """
    buffer, fragment = context.buffer(op.destination), context.fragment(op.value)
    if element_bits(fragment.type.element_type) != 16:
        raise Refusal(
            op,
            f"stores 16-bit elements by stmatrix, not {fragment.type.element_type}; take st.shared.8 [stmatrix-bits]",
        )
    matrices = atom_of(op, op.atom.value, "stmatrix").matrices
    trans = is_transposed_buffer(buffer.type)
    split = split_coordinates(
        _rows(op, fragment.type, matrices, trans, "stores", "of an stmatrix"), fragment.type.shape
    )
    access = shared_access(context, buffer, split.row_thread, split.col_thread)
    registers = [_packed(context, register) for register in regroup(fragment, 2).registers]
    for index, (row, column) in enumerate(zip(split.row_values, split.col_values, strict=True)):
        pointer = access.pointer(context, row, column)
        stored = registers[index * matrices : (index + 1) * matrices]
        nvvm.StMatrixOp(pointer, stored, *_matrix_attributes(trans))


def _packed(context: Context, register: ir.Value) -> ir.Value:
    """Two 16-bit elements as one i32."""
    return register if register.type == context.build.i32 else llvm.BitcastOp(context.build.i32, register).result
