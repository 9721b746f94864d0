"""Every access to memory of a kernel at level `epilogue`, and what it costs: bank conflicts, sectors.

All is computed from the ops themselves, their thread-value layouts, atoms and memref layouts, so that an edited dump is
explained as it is. Addresses are bytes from the start of the buffer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from mlir import ir
from numpy.typing import NDArray
from tensor_layouts import Swizzle, compose, mode, size

from lowtide import targets
from lowtide.compiler.spec_of_ir import argument_names
from lowtide.dialects import sm, tile
from lowtide.dialects.locations import place_of, where
from lowtide.dialects.tile.layouts import SwizzleBits, layout_of, tv_of
from lowtide.errors import IRError, ScheduleError
from lowtide.passes.base import walk
from lowtide.passes.problem import OPERAND_KINDS, element_bits
from lowtide.targets import Conflict, Sectors, WarpAccess, sectors_per_request, worst_conflict
from lowtide.targets.ldmatrix import row_addresses
from lowtide.targets.tv import coordinates, offsets

# Row strides known only at run time are taken to be this many bytes: a whole number of sectors.
ASSUMED_ROW_STRIDE = 8192

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SharedAccess:
    """One access to shared memory by all warps. `what` is the matrix that moves; `place` the op's place in a file."""

    op: str
    what: str
    atom: str
    direction: str
    buffer: str
    swizzle: SwizzleBits
    conflict: Conflict
    place: str | None
    count: int = 1
    """Ops that do the same."""


@dataclass(frozen=True)
class GlobalAccess:
    """One access to global memory by all warps, in the worst of its requests, with rows `row_stride` bytes apart
    (None for a vector) from a base that is aligned to a sector."""

    op: str
    what: str
    atom: str
    direction: str
    sectors: Sectors
    row_stride: int | None
    stride_known: bool
    place: str | None
    count: int = 1


Access: TypeAlias = "SharedAccess | GlobalAccess"


@dataclass(frozen=True)
class Accesses:
    """What a kernel does to memory, in program order; ops that do the same stand once."""

    shared: tuple[SharedAccess, ...]
    global_: tuple[GlobalAccess, ...]


def accesses_of(module: ir.Module, *, in_file: bool) -> Accesses:
    """The accesses of a module of level `epilogue`; `in_file`: its locations are worth telling.

    Raises IRError for an op whose layouts no instruction can follow.
    """
    names = _Names(module)
    ops: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _READERS:
            ops.append(op)
        return ir.WalkResult.ADVANCE

    for kernel in walk(module, tile.KernelOp):
        kernel.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    found: list[Access] = []
    for op in ops:
        place = where(op) if in_file and place_of(op.location) is not None else None
        try:
            found += (replace(access, place=place) for access in _READERS[op.name](op.opview, names))
        except ScheduleError as error:
            raise IRError(f"{where(op)}: {op.name}: {error}") from None
    merged = _merged(found)
    return Accesses(
        tuple(access for access in merged if isinstance(access, SharedAccess)),
        tuple(access for access in merged if isinstance(access, GlobalAccess)),
    )


def _merged(accesses: list[Access]) -> list[Access]:
    """Accesses that differ only in place and witness as one, the first, with their count."""
    groups: dict[Access, list[Access]] = {}
    for access in accesses:
        key: Access = replace(access, place=None)
        if isinstance(key, SharedAccess):
            key = replace(key, conflict=replace(key.conflict, bank=0, lanes=(), addresses=()))
        groups.setdefault(key, []).append(access)
    return [replace(group[0], count=len(group)) for group in groups.values()]


class _Names:
    """What the values of a kernel are called: the host's names for matrices, and which operand a fragment is of."""

    def __init__(self, module: ir.Module) -> None:
        self.arguments: dict[ir.Value, str] = {}
        self.operands: list[tuple[str, ir.Type]] = []
        kernels = {
            ir.StringAttr(kernel.attributes["sym_name"]).value: kernel.regions[0].blocks[0].arguments
            for kernel in walk(module, tile.KernelOp)
        }
        host: dict[ir.Value, str] = {}

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "func.func":
                host.update(zip(op.regions[0].blocks[0].arguments, argument_names(op), strict=True))
            elif op.name == "tile.launch":
                view = op.opview
                inner = kernels.get(ir.FlatSymbolRefAttr(view.kernel).value, [])
                self.arguments.update(
                    {argument: host.get(given, "?") for argument, given in zip(inner, view.args, strict=False)}
                )
            elif op.name == "sm.mma_sync":
                self.operands += [("a", op.operands[0].type), ("b", op.operands[1].type)]
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)

    def of_window(self, value: ir.Value) -> tuple[str, str, ir.MemRefType]:
        """Name, kind and type of the matrix or vector that a window shows."""
        view = value.owner.opview if not isinstance(value.owner, ir.Block) else None
        if not isinstance(view, tile.ViewOp):
            raise ScheduleError("the window is no tile.view, so its matrix is not known; take it from one")
        kind = "full" if view.kind is None else OPERAND_KINDS[ir.IntegerAttr(view.kind).value]
        return self.arguments.get(view.source, "?"), kind, ir.MemRefType(view.source.type)

    def of_fragment(self, type_: ir.Type) -> str:
        """Whether an mma takes fragments of this type as its a or its b."""
        found = sorted({name for name, other in self.operands if other == type_})
        return " or ".join(found) if found else "?"


def _cp_async(op: ir.OpView, names: _Names) -> list[Access]:
    what, _, matrix = names.of_window(op.source)
    buffer = ir.MemRefType(op.destination.type)
    atom, bytes_of = op.copy.atom, element_bits(buffer.element_type) // 8
    access = targets.fragment_access(atom, tv_of(op.copy.tv), tuple(buffer.shape), _bytes(atom) // bytes_of)
    return [
        _shared(op, what, atom, "write", buffer, access),
        _matrix_access(op, what, atom, "read", matrix, access),
    ]


def _ldmatrix(op: ir.OpView, names: _Names) -> list[Access]:
    fragment, atom, trans = op.result.type, ir.StringAttr(op.atom).value, bool(op.trans)
    matrices = int(atom.split(".")[1][1:])
    starts = row_addresses(tv_of(fragment.tv), matrices, trans)
    access = WarpAccess(atom, starts, tuple(fragment.shape), 8, "ldmatrix", trans, 8 * matrices)
    name = atom + (".trans" if trans and not atom.endswith(".trans") else "")
    buffer = ir.MemRefType(op.source.type)
    return [_shared(op, names.of_fragment(fragment), name, "read", buffer, access, tuple(op.offsets))]


def _store_shared(op: ir.OpView, names: _Names) -> list[Access]:
    return [_scratch(op, op.value.type, op.destination, "write")]


def _load_shared(op: ir.OpView, names: _Names) -> list[Access]:
    return [_scratch(op, op.result.type, op.source, "read")]


def _scratch(op: ir.OpView, fragment: ir.Type, buffer: ir.Value, direction: str) -> SharedAccess:
    atom = ir.StringAttr(op.atom).value
    access = _of_fragment(atom, fragment)
    return _shared(op, "epilogue scratch", atom, direction, ir.MemRefType(buffer.type), access)


def _load_global(op: ir.OpView, names: _Names) -> list[Access]:
    return [_window_access(op, op.result.type, op.source, "read", names)]


def _store_global(op: ir.OpView, names: _Names) -> list[Access]:
    return [_window_access(op, op.value.type, op.destination, "write", names)]


def _window_access(op: ir.OpView, fragment: ir.Type, window: ir.Value, direction: str, names: _Names) -> GlobalAccess:
    what, kind, matrix = names.of_window(window)
    atom = ir.StringAttr(op.atom).value
    if kind == "full":
        return _matrix_access(op, what, atom, direction, matrix, _of_fragment(atom, fragment))
    return _vector_access(op, what, direction, matrix, fragment, axis=0 if kind == "per_row" else 1)


def _of_fragment(atom: str, fragment: ir.Type) -> WarpAccess:
    vector = _bytes(atom) * 8 // element_bits(fragment.element_type)
    return targets.fragment_access(atom, tv_of(fragment.tv), tuple(fragment.shape), vector)


def _bytes(atom: str) -> int:
    """What one thread moves: the number that ends the atom's name."""
    return targets.copy_atom(atom).bytes_per_thread


def _shared(
    op: ir.OpView,
    what: str,
    atom: str,
    direction: str,
    buffer: ir.MemRefType,
    access: WarpAccess,
    origin: tuple[int, ...] = (0, 0),
) -> SharedAccess:
    plain, swizzle = layout_of(buffer.layout)
    layout = compose(Swizzle(*swizzle), plain)
    rows, columns = size(mode(plain, 0)), size(mode(plain, 1))
    stored = access.stored_coordinates() + np.array(origin)
    if stored[..., 0].max() >= rows or stored[..., 1].max() + access.vector > columns:
        raise ScheduleError(f"{atom} reaches past its buffer of {rows}x{columns}; correct its layouts or offsets")
    element = stored[..., 0] + rows * (stored[..., 1] + np.arange(access.vector)[:, None, None])
    place = offsets(layout, element)
    if np.any(place != place[0] + np.arange(access.vector)[:, None, None]):
        raise ScheduleError(
            f"the buffer's layout parts the {access.vector} elements that {atom} moves at once; take a swizzle with "
            f"M >= {(access.vector - 1).bit_length()}, or narrower accesses"
        )
    bytes_of = element_bits(buffer.element_type) // 8
    conflict = worst_conflict(place[0] * bytes_of, access.vector * bytes_of, access.kind)
    shape = "x".join(map(str, buffer.shape))
    return SharedAccess(
        op.operation.name, what, atom, direction, f"{shape}x{buffer.element_type}", swizzle, conflict, None
    )


def _matrix_access(
    op: ir.OpView, what: str, atom: str, direction: str, matrix: ir.MemRefType, access: WarpAccess
) -> GlobalAccess:
    bytes_of = element_bits(matrix.element_type) // 8
    known = not matrix.is_dynamic_dim(1)
    # The smallest row stride that the kernels take: rows begin at multiples of 16 bytes.
    stride = -(-matrix.get_dim_size(1) * bytes_of // 16) * 16 if known else ASSUMED_ROW_STRIDE
    sectors = targets.global_access_sectors(access, stride, bytes_of)
    return GlobalAccess(op.operation.name, what, atom, direction, sectors, stride, known, None)


def _vector_access(
    op: ir.OpView, what: str, direction: str, vector: ir.MemRefType, fragment: ir.Type, axis: int
) -> GlobalAccess:
    """A vector repeated over a tile: one load of an element for each different row (or column) of a thread."""
    bytes_of = element_bits(vector.element_type) // 8
    held: Ints = coordinates(tv_of(fragment.tv), tuple(fragment.shape))[..., axis]
    by_warp = held.reshape(-1, 32, held.shape[1]).swapaxes(1, 2).reshape(-1, 32) * bytes_of
    requests = [sectors_per_request(addresses, bytes_of) for addresses in np.unique(by_warp, axis=0)]
    worst = max(requests, key=lambda request: (request.touched, -request.ideal))
    return GlobalAccess(op.operation.name, what, f"ld.global.{bytes_of}", direction, worst, None, True, None)


_READERS: Mapping[str, Callable[[ir.OpView, _Names], list[Access]]] = MappingProxyType(
    {
        sm.CpAsyncOp.OPERATION_NAME: _cp_async,
        sm.LdmatrixOp.OPERATION_NAME: _ldmatrix,
        sm.StoreSharedOp.OPERATION_NAME: _store_shared,
        sm.LoadSharedOp.OPERATION_NAME: _load_shared,
        sm.LoadGlobalOp.OPERATION_NAME: _load_global,
        sm.StoreGlobalOp.OPERATION_NAME: _store_global,
    }
)
