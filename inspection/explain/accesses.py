"""All memory accesses of a kernel at level `epilogue`, and their cost: bank conflicts, sectors, boxes.

Everything is computed from the ops, their thread-value layouts, atoms and memref layouts, so an edited dump is
explained with its edits. Addresses are bytes from the start of the buffer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide import targets
from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kind
from lowtide.dialects.locations import place_of, where
from lowtide.dialects.tile import OperandKind
from lowtide.dialects.tile.layouts import SwizzleBits, layout_of, tv_of
from lowtide.errors import IRError, ScheduleError
from lowtide.inspection.explain.executions import executions, summed
from lowtide.inspection.explain.footprints import Footprint, footprint_of, joined
from lowtide.inspection.explain.hopper import (
    Product,
    TmaAccess,
    Transaction,
    boxes_of,
    operand_conflicts,
    products_of,
    transactions_of,
)
from lowtide.inspection.explain.names import SCRATCH, UNKNOWN, Names, cache_hint
from lowtide.passes.base import walk
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.matrix_layouts import is_column_major
from lowtide.passes.support.problem.operand_kinds import SCALES
from lowtide.passes.support.streams.buffers import is_shared, is_transposed_buffer
from lowtide.passes.support.streams.operand_loads import is_operand_load
from lowtide.targets import Conflict, Sectors, WarpAccess, sectors_per_request, worst_request
from lowtide.targets.banks import LINE_BYTES
from lowtide.targets.ldmatrix import elements_per_register, row_addresses
from lowtide.targets.tv import coordinates

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SharedAccess:
    """One access to shared memory by all warps. `what` is the copied matrix; `place` the op's location in a file."""

    op: str
    what: str
    atom: str
    direction: str
    buffer: str
    swizzle: SwizzleBits
    conflict: Conflict
    place: str | None
    count: int = 1
    """The number of ops that do the same."""
    executions: int | None = None
    """How often these ops run for one work tile in total; None if it is known only at run time."""
    footprint: Footprint | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class GlobalAccess:
    """One access to global memory by all warps, with rows `row_stride` bytes apart (None for a vector) from a base that
    is aligned to a sector. `sectors` are those of the worst request of a warp."""

    op: str
    what: str
    atom: str
    direction: str
    sectors: Sectors
    requests: int
    """Requests of all warps, for one execution."""
    total_sectors: int
    """Sectors of all requests."""
    row_stride: int | None
    stride_known: bool
    place: str | None
    count: int = 1
    cache: str = "normal"
    executions: int | None = None


class _Move(NamedTuple):
    """The first fields of an access: op, matrix, atom and direction."""

    op: str
    what: str
    atom: str
    direction: str


def _move(op: ir.OpView, what: str, direction: str, atom: str | None = None) -> _Move:
    """The first fields of an access by `op`, with the op's own atom unless another name is given."""
    return _Move(op.operation.name, what, ir.StringAttr(op.atom).value if atom is None else atom, direction)


Access: TypeAlias = "SharedAccess | GlobalAccess | TmaAccess"


@dataclass(frozen=True)
class Accesses:
    """The memory accesses of a kernel, in program order; ops that do the same appear once."""

    shared: tuple[SharedAccess, ...]
    global_: tuple[GlobalAccess, ...]
    tma: tuple[TmaAccess, ...]
    transactions: tuple[Transaction, ...]
    products: tuple[Product, ...]


def accesses_of(module: ir.Module, *, in_file: bool, apart: bool = False) -> Accesses:
    """The accesses of a module of level `epilogue`; `in_file`: its locations are useful. `apart`: ops that do the same
    are not merged.

    Raises IRError for an op with layouts that no instruction can follow.
    """
    names = Names(module)
    ops: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _READERS:
            ops.append(op)
        return ir.WalkResult.ADVANCE

    kernels = walk(module, tile.KernelOp)
    for kernel in kernels:
        kernel.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    found: list[Access] = []
    for op in ops:
        place = where(op) if in_file and place_of(op.location) is not None else None
        try:
            accesses = _READERS[op.name](op.opview, names)
            found += (replace(access, place=place, executions=_runs(op.opview, access)) for access in accesses)
        except ScheduleError as error:
            raise IRError(f"{where(op)}: {op.name}: {error}") from None
    merged = found if apart else _merged(found)
    return Accesses(
        tuple(access for access in merged if isinstance(access, SharedAccess)),
        tuple(access for access in merged if isinstance(access, GlobalAccess)),
        tuple(access for access in merged if isinstance(access, TmaAccess)),
        tuple(found for kernel in kernels for found in transactions_of(kernel, names, in_file=in_file, apart=apart)),
        tuple(found for kernel in kernels for found in products_of(kernel, in_file=in_file, apart=apart)),
    )


def _runs(op: ir.OpView, access: Access) -> int | None:
    """How often an op runs for a work tile; for global memory, only if it touches the matrix."""
    if not isinstance(access, GlobalAccess):
        return executions(op)
    window = op.destination if access.direction == "write" else op.source
    view = None if isinstance(window.owner, ir.Block) else window.owner.opview
    return executions(op, view if isinstance(view, tile.ViewOp) else None)


def _merged(accesses: list[Access]) -> list[Access]:
    """Accesses that differ only in place and witness, merged to the first, with their count."""
    groups: dict[Access, list[Access]] = {}
    for access in accesses:
        key: Access = replace(access, place=None, executions=None)
        if isinstance(key, SharedAccess):
            key = replace(key, conflict=replace(key.conflict, bank=0, lanes=(), addresses=()))
        groups.setdefault(key, []).append(access)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[Access]) -> Access:
    one: Access = replace(group[0], count=len(group), executions=summed(access.executions for access in group))
    if isinstance(one, SharedAccess):
        footprints = [access.footprint for access in group if isinstance(access, SharedAccess)]
        one = replace(one, footprint=joined(found for found in footprints if found is not None))
    return one


def _cp_async(op: ir.OpView, names: Names) -> list[Access]:
    what, _, matrix = names.of_window(op.source)
    buffer = ir.MemRefType(op.destination.type)
    atom, bytes_of = op.copy.atom, element_bits(buffer.element_type) // 8
    access = targets.fragment_access(atom, tv_of(op.copy.tv), tuple(buffer.shape), _bytes(atom) // bytes_of)
    in_stage = replace(access, transposed=is_transposed_buffer(buffer))
    written = _shared(_move(op, what, "write", atom), buffer, in_stage)
    # Data is written line by line as it arrives: a wavefront holds bytes of one 128-byte line of global memory.
    footprint = footprint_of(atom, buffer, in_stage.stored_coordinates(), access.vector, access.kind)
    places = access.stored_coordinates()
    lines = (places[..., 0] * names.row_stride(what, matrix)[0] + places[..., 1] * bytes_of) // LINE_BYTES
    wavefronts = targets.wavefronts_by_group(footprint.starts, lines, access.vector * bytes_of)
    return [
        replace(written, conflict=replace(written.conflict, wavefronts=wavefronts)),
        _matrix_access(_move(op, what, "read", atom), names, matrix, access),
    ]


def _ldmatrix(op: ir.OpView, names: Names) -> list[Access]:
    return [_matrices(op, names.of_fragment(op.result.type), tuple(op.offsets))]


def _matrices(op: ir.OpView, what: str, offsets: tuple[int, ...]) -> SharedAccess:
    """The rows of 8x8 matrices that lanes address, of A, B, or an operand of the epilogue."""
    fragment, atom, trans = op.result.type, ir.StringAttr(op.atom).value, bool(op.trans)
    matrices = int(atom.split(".")[1][1:])
    per_register = elements_per_register(element_bits(fragment.element_type))
    starts = row_addresses(tv_of(fragment.tv), matrices, trans, per_register)
    access = WarpAccess(atom, starts, tuple(fragment.shape), 4 * per_register, "ldmatrix", trans, 8 * matrices)
    name = atom + (".trans" if trans and not atom.endswith(".trans") else "")
    buffer = ir.MemRefType(op.source.type)
    return _shared(_move(op, what, "read", name), buffer, access, offsets)


def _wgmma(op: ir.OpView, names: Names) -> list[Access]:
    found: list[Access] = []
    for what, conflict in operand_conflicts(op).items():
        memref = ir.MemRefType({"a": op.a, "b": op.b}[what].type)
        element_bytes = element_bits(memref.element_type) // 8
        stored = targets.core_matrix_rows(what, tuple(memref.shape), element_bytes)
        family = ".".join(str(op.mma.atom).split(".")[:2])  # wgmma.m64n256k16: without its types
        footprint = footprint_of(family, memref, stored, 16 // element_bytes, "ldmatrix")
        found.append(_access(_move(op, what, "read", family), memref, conflict, footprint))
    return found


def _store_shared(op: ir.OpView, names: Names) -> list[Access]:
    if targets.family_of(ir.StringAttr(op.atom).value) == "stmatrix":
        return [_stmatrix(op)]
    return [_of_threads(op, names.of_buffer(op.destination), op.value.type, op.destination, "write")]


def _stmatrix(op: ir.OpView) -> SharedAccess:
    """Rows of 8x8 matrices, addressed as in ldmatrix (PTX ISA, "stmatrix")."""
    atom, fragment = ir.StringAttr(op.atom).value, op.value.type
    matrices, trans = targets.copy_atom(atom).matrices, is_transposed_buffer(op.destination.type)
    access = targets.stmatrix_access(tv_of(fragment.tv), tuple(fragment.shape), matrices, trans)
    move = _move(op, SCRATCH, "write", atom + (".trans" if trans else ""))
    return _shared(move, ir.MemRefType(op.destination.type), access)


def _load_shared(op: ir.OpView, names: Names) -> list[Access]:
    if targets.family_of(ir.StringAttr(op.atom).value) == "ldmatrix":
        return [_matrices(op, names.of_buffer(op.source), (0, 0))]
    if not is_operand_load(op):
        return [_of_threads(op, names.of_buffer(op.source), op.result.type, op.source, "read")]
    fragment, atom, trans = op.result.type, ir.StringAttr(op.atom).value, bool(op.trans)
    vector = _bytes(atom) * 8 // element_bits(fragment.element_type)
    along_rows = trans != is_transposed_buffer(op.source.type)
    loads = targets.fragment_loads(tv_of(fragment.tv), tuple(fragment.shape), along_rows, vector)
    access, name = targets.loads_access(loads, atom), atom + (" transposed" if trans else "")
    buffer = ir.MemRefType(op.source.type)
    what = names.of_fragment(fragment)
    what = SCRATCH if what == "?" else what
    return [_shared(_move(op, what, "read", name), buffer, access, tuple(op.offsets))]


def _of_threads(op: ir.OpView, what: str, fragment: ir.Type, buffer: ir.Value, direction: str) -> SharedAccess:
    """Vector loads or stores of a fragment, along the contiguous dimension of the buffer."""
    atom = ir.StringAttr(op.atom).value
    access = _of_fragment(atom, fragment, is_transposed_buffer(buffer.type))
    return _shared(_move(op, what, direction), ir.MemRefType(buffer.type), access)


def _load_global(op: ir.OpView, names: Names) -> list[Access]:
    what, kind, matrix = names.of_window(op.source)
    if kind is OperandKind.full:
        fragment, atom, trans = op.result.type, ir.StringAttr(op.atom).value, bool(op.trans) or is_column_major(matrix)
        vector = _bytes(atom) * 8 // element_bits(fragment.element_type)
        loads = targets.fragment_loads(tv_of(fragment.tv), tuple(fragment.shape), trans, vector)
        return [_matrix_access(_move(op, what, "read"), names, matrix, targets.loads_access(loads, atom))]
    return [_window_access(op, op.result.type, op.source, "read", names)]


def _load_scales(op: ir.OpView, names: Names) -> list[Access]:
    """From global memory, one at a time; those of a slot are few."""
    if is_shared(op.source.type):
        return []
    matrix, scales = ir.MemRefType(op.source.type), SCALES[operand_kind(op)]
    what, axis = names.arguments.get(op.source, UNKNOWN), 1 - scales.of_rows
    return [_vector_access(_move(op, what, "read", ""), matrix, op.result.type, axis, scales.rows)]


def _store_global(op: ir.OpView, names: Names) -> list[Access]:
    access = _window_access(op, op.value.type, op.destination, "write", names)
    return [replace(access, cache=cache_hint(op))]


def _window_access(op: ir.OpView, fragment: ir.Type, window: ir.Value, direction: str, names: Names) -> GlobalAccess:
    what, kind, matrix = names.of_window(window)
    move = _move(op, what, direction)
    if kind is OperandKind.full:
        return _matrix_access(move, names, matrix, _of_fragment(move.atom, fragment, is_column_major(matrix)))
    return _vector_access(move, matrix, fragment, axis=0 if kind is OperandKind.per_row else 1)


def _of_fragment(atom: str, fragment: ir.Type, transposed: bool = False) -> WarpAccess:
    vector = _bytes(atom) * 8 // element_bits(fragment.element_type)
    return targets.fragment_access(atom, tv_of(fragment.tv), tuple(fragment.shape), vector, transposed)


def _bytes(atom: str) -> int:
    """The bytes that one thread moves: the number at the end of the atom's name."""
    return targets.copy_atom(atom).bytes_per_thread


def _shared(move: _Move, buffer: ir.MemRefType, access: WarpAccess, origin: tuple[int, ...] = (0, 0)) -> SharedAccess:
    if is_transposed_buffer(buffer):  # as stored, its columns are the rows
        origin = origin[::-1]
    stored = access.stored_coordinates() + np.array(origin)
    footprint = footprint_of(move.atom, buffer, stored, access.vector, access.kind)
    return _access(move, buffer, footprint.conflict(), footprint)


def _access(move: _Move, buffer: ir.MemRefType, conflict: Conflict, footprint: Footprint) -> SharedAccess:
    _, swizzle = layout_of(buffer.layout)
    text = f"{'x'.join(map(str, buffer.shape))}x{buffer.element_type}"
    return SharedAccess(*move, text, swizzle, conflict, None, footprint=footprint)


def _matrix_access(move: _Move, names: Names, matrix: ir.MemRefType, access: WarpAccess) -> GlobalAccess:
    stride, known = names.row_stride(move.what, matrix)
    requests = targets.global_access_requests(access, stride, element_bits(matrix.element_type) // 8)
    return _global(move, requests, (stride, known))


def _vector_access(move: _Move, vector: ir.MemRefType, fragment: ir.Type, axis: int, block: int = 1) -> GlobalAccess:
    """A vector repeated over a tile: one load of an element per distinct row (or column, or block) of a thread."""
    bytes_of = element_bits(vector.element_type) // 8
    held: Ints = coordinates(tv_of(fragment.tv), tuple(fragment.shape))[..., axis] // block
    by_warp = held.reshape(-1, 32, held.shape[1]).swapaxes(1, 2) * bytes_of
    requests = [sectors_per_request(lanes, bytes_of) for warp in by_warp for lanes in np.unique(warp, axis=0)]
    return _global(move._replace(atom=f"ld.global.{bytes_of}"), requests, (None, True))


def _global(move: _Move, requests: Sequence[Sectors], stride: tuple[int | None, bool]) -> GlobalAccess:
    total, worst = sum(request.touched for request in requests), worst_request(requests)
    return GlobalAccess(*move, worst, len(requests), total, *stride, None)


_READERS: Mapping[str, Callable[[ir.OpView, Names], list[Access]]] = MappingProxyType(
    {
        sm.CpAsyncOp.OPERATION_NAME: _cp_async,
        sm.LdmatrixOp.OPERATION_NAME: _ldmatrix,
        sm.TmaLoadOp.OPERATION_NAME: lambda op, names: [boxes_of(op, names, op.destination, "read")],
        sm.TmaStoreOp.OPERATION_NAME: lambda op, names: [boxes_of(op, names, op.source, "write")],
        sm.WgmmaOp.OPERATION_NAME: _wgmma,
        sm.StoreSharedOp.OPERATION_NAME: _store_shared,
        sm.LoadSharedOp.OPERATION_NAME: _load_shared,
        sm.LoadGlobalOp.OPERATION_NAME: _load_global,
        sm.LoadScalesOp.OPERATION_NAME: _load_scales,
        sm.StoreGlobalOp.OPERATION_NAME: _store_global,
    }
)
