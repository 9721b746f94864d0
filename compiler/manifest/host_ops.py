"""The ops of a host function as entries of a manifest, which the runtime evaluates at each launch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from mlir import ir

from lowtide.compiler.manifest.entries import host_attributes, unused_names
from lowtide.dialects import sm, tile
from lowtide.dialects.tile.layouts import swizzle_bits
from lowtide.elements import element_type
from lowtide.errors import IRError
from lowtide.passes.support.ir.rewriting import defining_op, memory_of, uses
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.kernels import cluster_shape
from lowtide.passes.support.problem.matrix_layouts import is_column_major
from lowtide.passes.support.streams.ragged import is_ragged

# The least number of bytes that a TMA load brings to L2 if it misses: those of a row of a box. With 256, default
# kernels took 1.013 of the time with 128 for 25 products in tt, 1.015 for nine in nt, 1.002 for nine in tn, and 0.998
# for six in nn (geometric means; single products 0.97 to 1.15; bf16, H200).
L2_PROMOTION = 128
# Ops on a workspace that need no entry: its length and its address are known.
_OF_WORKSPACES = ("memref.dim", "memref.extract_aligned_pointer_as_index")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_BATCH_RANK = 3  # the rank of a batch of matrices


@dataclass(frozen=True)
class _Made:
    """A matrix or batch that the host function makes. Address and strides are names; strides lack the last dimension.
    Extents are names or numbers. `argument`: the argument that it replaces, for messages."""

    address: str
    shape: tuple[str | int, ...]
    strides: tuple[str, ...]
    argument: str = ""


class HostOps:
    """The host function's ops as manifest entries."""

    def __init__(self, module: ir.Module, function: ir.OpView, argument_names: list[str]) -> None:
        block = function.regions[0].blocks[0]
        self.module = module
        self.names: dict[ir.Value, str] = dict(zip(block.arguments, argument_names, strict=True))
        self.made: dict[ir.Value, _Made] = {}
        self.asked: dict[tuple[str, str, int], str] = {}  # queries of an argument, each made once
        self.constants: dict[ir.Value, int] = {}
        self.unused = unused_names("v", argument_names, first=len(argument_names))
        self.entries: list[dict[str, Any]] = []
        for op in list(block.operations)[:-1]:
            self._add(op)

    def _add(self, op: ir.OpView) -> None:
        name = op.operation.name
        workspace = defining_op(op.operands[0]) if name in _OF_WORKSPACES else None
        if isinstance(workspace, tile.WorkspaceOp):
            self.names[op.results[0]] = self.names[workspace.size if name == "memref.dim" else workspace.result]
        elif name == "tile.workspace":
            attributes = {"dtype": element_name(op.result.type.element_type), "zeroed": bool(op.zeroed)}
            self._entry(op, name, [op.size], attributes)
        elif name.startswith("memref.") or (name == "arith.select" and isinstance(op.results[0].type, ir.MemRefType)):
            self._matrix(op, name)
        elif name == "arith.constant":
            attribute = op.attributes["value"]
            value = int(attribute.value)
            self.constants[op.results[0]] = value
            self._entry(op, name, [], {"value": value})
        elif name == "sm.tensor_map":
            self._tensor_map(op)
        elif name == "cf.assert":
            self._entry(op, name, list(op.operands), {"message": ir.StringAttr(op.attributes["msg"]).value})
        elif name == "tile.launch":
            self._entry(op, name, [], self._launch(op))
        elif name == "tile.cluster_count":
            self._entry(op, name, [], {"kernel": ir.FlatSymbolRefAttr(op.kernel).value})
        elif name.startswith("arith.") or name == "tile.sm_count":
            self._entry(op, name, list(op.operands), host_attributes(op))
        else:
            raise IRError(
                f"the runtime cannot evaluate {name} on the host side; use only arith, memref and cf.assert"
                " [host-arithmetic]"
            )

    def _matrix(self, op: ir.OpView, name: str) -> None:
        """An op that makes a matrix, or queries one."""
        if name == "memref.dim":
            self.names[op.results[0]] = self._extent(op.operands[0], self.constants[op.operands[1]])
        elif name == "memref.extract_strided_metadata":
            rank = ir.MemRefType(op.operands[0].type).rank
            # A batch of vectors is a matrix here.
            strides = list(op.results)[2 + rank :]
            del strides[-2 if is_column_major(op.operands[0].type) else -1]
            self.names.update(zip(strides, self._strides(op.operands[0]), strict=True))
        elif name == "memref.extract_aligned_pointer_as_index":
            self.names[op.results[0]] = self._address(op.operands[0])
        elif name == "memref.cast":
            source, result = op.operands[0], op.results[0]
            known: dict[ir.Value, Any] = self.made if source in self.made else self.names
            known[result] = known[source]
        elif name == "memref.reinterpret_cast":
            self.made[op.results[0]] = self._reinterpreted(op)
        elif name == "arith.select":
            self.made[op.results[0]] = self._selected(*op.operands)
        else:
            raise IRError(
                f"the runtime cannot evaluate {name} on the host side; use only the ops that launches need"
                " [host-matrix]"
            )

    def _reinterpreted(self, op: ir.OpView) -> _Made:
        given = iter([self.names[value] for value in list(op.operands)[1:]])
        dynamic = ir.ShapedType.get_dynamic_size()

        def values(name: str) -> list[str | int]:
            return [next(given) if value == dynamic else value for value in ir.DenseI64ArrayAttr(op.attributes[name])]

        offsets, sizes, strides = (values(f"static_{name}") for name in ("offsets", "sizes", "strides"))
        if offsets != [0] or strides[-1] != 1:
            raise IRError(
                "memref.reinterpret_cast on the host side requires offset 0 and a last stride of 1 [host-cast]"
            )
        address, shape = self._address(op.operands[0]), tuple(sizes)
        return _Made(address, shape, tuple(map(self._named, strides[:-1])), self._made_of(op.operands[0]))

    def _made_of(self, memory: ir.Value) -> str:
        """The argument that this memory is, or is a view of, or that a launch copies into this workspace; "" if there
        is none."""
        if isinstance(memory.owner, ir.Block):
            return self.names[memory]
        if memory in self.made:
            return self.made[memory].argument
        sources = [memory_of(launch.args[0]) for launch in _launches_with(memory)]
        return next((self.names[source] for source in sources if isinstance(source.owner, ir.Block)), "")

    def _selected(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> _Made:
        """A select of two matrices with the same extents."""
        address, *strides = (
            self._append("arith.select", [self.names[condition], *either])
            for either in zip(*((self._address(x), *self._strides(x)) for x in (yes, no)), strict=True)
        )
        named = next(filter(None, map(self._made_of, (yes, no))), "")
        shape = self.made[yes].shape if yes in self.made else self._shape(yes)
        return _Made(address, shape, tuple(strides), named)

    def _tensor_map(self, op: sm.TensorMapOp) -> None:
        matrix, attributes = op.source, _tensor_map_attributes(op)
        if op.rows is not None:
            attributes["rows"] = self.names[op.rows]
        if matrix not in self.made:
            self._entry(op, "sm.tensor_map", [matrix], attributes)
            return
        made = self.made[matrix]
        operands = [made.address, *map(self._named, made.shape), *made.strides]
        self.names[op.result] = self._append("sm.tensor_map", operands, {**attributes, "name": made.argument})

    def _shape(self, matrix: ir.Value) -> tuple[str | int, ...]:
        type_ = ir.MemRefType(matrix.type)
        return tuple(
            self._extent(matrix, dim) if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim)
            for dim in range(type_.rank)
        )

    def _extent(self, matrix: ir.Value, dim: int) -> str:
        if matrix in self.made:
            return self._named(self.made[matrix].shape[dim])
        if is_column_major(matrix.type):  # the array has the other order
            *batch, rows, columns = range(ir.MemRefType(matrix.type).rank)
            dim = (*batch, columns, rows)[dim]
        return self._ask("memref.dim", matrix, dim, {"index": dim})

    def _strides(self, matrix: ir.Value) -> tuple[str, ...]:
        """All strides but the last; for a column-major matrix, the stride between columns."""
        if matrix in self.made:
            return self.made[matrix].strides
        is_batch = ir.MemRefType(matrix.type).rank == _BATCH_RANK
        asked = ("memref.batch_stride", "memref.row_stride") if is_batch else ("memref.row_stride",)
        return tuple(self._ask(op, matrix) for op in asked)

    def _address(self, value: ir.Value) -> str:
        """The address of a matrix; for a workspace, its name."""
        if value in self.made:
            return self.made[value].address
        if isinstance(defining_op(value), tile.WorkspaceOp):
            return self.names[value]
        return self._ask("memref.base_address", value)

    def _ask(self, op: str, matrix: ir.Value, number: int = 0, attributes: Mapping[str, Any] = _NOTHING) -> str:
        key = op, self.names[matrix], number
        if key not in self.asked:
            self.asked[key] = self._append(op, [self.names[matrix]], attributes)
        return self.asked[key]

    def _named(self, value: str | int) -> str:
        return self._append("arith.constant", [], {"value": value}) if isinstance(value, int) else value

    def _append(self, name: str, operands: list[str], attributes: Mapping[str, Any] = _NOTHING) -> str:
        """Append an entry with one result. Returns the result's name."""
        result = next(self.unused)
        self.entries.append({"op": name, "results": [result], "operands": operands, "attributes": {**attributes}})
        return result

    def _entry(self, op: ir.OpView, name: str, operands: list[ir.Value], attributes: dict[str, Any]) -> None:
        names = [self.names[operand] for operand in operands]
        if len(op.results):
            self.names[op.results[0]] = self._append(name, names, attributes)
        else:
            self.entries.append({"op": name, "results": [], "operands": names, "attributes": attributes})

    def _launch(self, op: tile.LaunchOp) -> dict[str, Any]:
        kernel = ir.FlatSymbolRefAttr(op.kernel).value
        types = _kernel_argument_types(self.module, kernel)
        arguments = [{"value": self.names[arg], "type": type_} for arg, type_ in zip(op.args, types, strict=True)]
        size = prod(cluster_shape(op.cluster))
        entry = {
            "kernel": kernel,
            "grid": [self.names[op.grid], 1, 1],
            "block": [int(ir.IntegerAttr(op.threads).value), 1, 1],
            "cluster": [size, 1, 1] if size > 1 else None,
            "shared_memory": int(ir.IntegerAttr(op.shared_memory).value),
            "arguments": arguments,
        }
        flags = {"programmatic": bool(op.programmatic), "cooperative": bool(op.cooperative)}
        return entry | {name: True for name, is_set in flags.items() if is_set}


def _launches_with(matrix: ir.Value) -> Iterator[tile.LaunchOp]:
    """The launches that take a matrix or memory, or a cast or view of it."""
    for op in uses(matrix):
        if isinstance(op, tile.LaunchOp):
            yield op
        elif op.operation.name.startswith("memref."):
            for result in op.operation.results:
                yield from _launches_with(result)


def _tensor_map_attributes(op: sm.TensorMapOp) -> dict[str, Any]:
    type_ = op.result.type
    swizzle = None if type_.swizzle is None else list(swizzle_bits(type_.swizzle))
    return {
        "box": list(type_.shape),
        "swizzle": swizzle,
        "l2_promotion": L2_PROMOTION,
        "dtype": element_type(element_name(type_.element_type)).stored_as,
    } | ({"ragged": True} if is_ragged(op) else {})


def _kernel_argument_types(module: ir.Module, name: str) -> list[str]:
    """`ptr`, `tensor_map`, `i64`, `i32`, `f32`, … of each kernel argument."""
    for top in module.body.operations:
        if top.operation.name != "gpu.module":
            continue
        for op in top.operation.regions[0].blocks[0].operations:
            if "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == name:
                return [
                    _kernel_argument_type(argument.type) for argument in op.operation.regions[0].blocks[0].arguments
                ]
    raise IRError(f"the launched kernel @{name} is not in a gpu.module; lower to level nvvm first [kernel-module]")


def _kernel_argument_type(type_: ir.Type) -> str:
    """Base addresses are pointers to global memory; a generic pointer is the address of a tensor map."""
    text = str(type_)
    if text == "!llvm.ptr":
        return "tensor_map"
    return "ptr" if text.startswith("!llvm.ptr") else text
