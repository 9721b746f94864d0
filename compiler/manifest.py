"""Makes the manifest of a kernel from its host-side IR (levels nvvm and llvm). The runtime evaluates it.

Each op of the host function becomes one entry; see `lowtide.runtime.manifest` for the format.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from math import prod
from types import MappingProxyType
from typing import Any

from mlir import ir

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.spec_of_ir import argument_names, epilogue_ops, host_function, shape_as_it_lies
from lowtide.dialects import sm, tile
from lowtide.dialects.enums import result_kinds
from lowtide.dialects.levels import target_of
from lowtide.dialects.tile import OperandKind, ResultKind
from lowtide.dialects.tile.layouts import swizzle_bits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import IRError, SpecError
from lowtide.passes.base import walk
from lowtide.passes.schedules.facts.alignment import alignment_of, alignments_of, is_packed, moved_alignment
from lowtide.passes.support.ir.rewriting import defining_op, memory_of, uses
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.kernels import cluster_shape
from lowtide.passes.support.problem.matrix_layouts import is_column_major
from lowtide.passes.support.problem.operand_kinds import is_of_epilogue
from lowtide.passes.support.problem.problem import Problem, problem_in
from lowtide.runtime.epilogue import check_program
from lowtide.runtime.manifest import (
    BATCH,
    FORMAT,
    KIND_DIMS,
    OUTPUT_DIMS,
    PACKED_ROWS,
    ROW_GROUPS,
    is_mixed,
    matrix_dims,
)

# The least number of bytes that a miss of a TMA load brings to L2.
L2_PROMOTION = 256
# Ops on a workspace that need no entry: its length and its address are known.
_OF_WORKSPACES = ("memref.dim", "memref.extract_aligned_pointer_as_index")
# The longest input IR that is saved with a kernel, in characters; only dumps of the last levels are longer.
_MOST_ORIGIN = 1 << 16
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_BATCH_RANK = 3  # the rank of a batch of matrices
_EXAMPLE = {"m": 300, "n": 520, "k": 264, BATCH: 3, ROW_GROUPS: 5}
_EXAMPLE_OF_WEIGHTS = {"m": 100, "n": 528, "k": 384}
# Predicates of arith.cmpi and arith.cmpf, by their numbers in IR.
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = tuple(
    ["false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"]
)


def manifest_of(lowered_text: str, origin_text: str, schedule: str) -> dict[str, Any]:
    """From the text of level nvvm or llvm, and of the input's level, which has the epilogue.

    Below level atoms the epilogue is in pieces; then `epilogue_program` is None, and results cannot be checked by it.

    `schedule`: its text, which determines how operands are moved and so how they must be aligned; "" if unknown. Raises
    IRError for a host function that the runtime cannot evaluate.
    """
    with make_context() as context:
        module = parse_text(lowered_text, context, "<host>")
        function = host_function(module)
        facts, problem = _facts(function), problem_in(module)
        if facts is None or problem is None:
            raise IRError(
                "the host function lacks tile.problem = #tile.problem<…>, or the kernel problem; tile-to-ctas writes"
                " both [problem-of-host]"
            )
        dims = _dims(facts)
        names = argument_names(function)
        chosen = Schedule.parse(schedule) if schedule else Schedule()
        arguments = _arguments(function, names, facts, alignments_of(chosen, problem))
        for result in (x for x in arguments if (x["role"], x["kind"]) == ("output", "full")):
            own = problem.of_result(result["dtype"])
            aligned = alignment_of("d", chosen, own)
            result |= {"base_alignment": aligned, "row_stride_alignment": aligned}
            if is_packed("d", chosen):  # the runtime's own output is not packed
                result["allocated_alignment"] = moved_alignment("d", chosen, own)
        spec = _spec(arguments, facts, dims)
        pairs = zip(names[2 + len(facts["results"]) :], facts["kinds"], strict=True)
        operands = [name for name, kind in pairs if is_of_epilogue(OperandKind[kind])]
        epilogue_text, epilogue_program = _epilogue(origin_text, operands)
        return {
            "format": FORMAT,
            "lowtide": version("lowtide"),
            "name": ir.StringAttr(function.attributes["sym_name"]).value,
            "target": target_of(module).name,
            "spec": spec,
            "schedule": schedule,
            "epilogue": epilogue_text,
            "epilogue_program": epilogue_program,
            "origin": origin_text if len(origin_text) <= _MOST_ORIGIN else None,
            "example": {
                key: value if spec[key] is None else spec[key] for key, value in _example(spec).items() if key in spec
            },
            "arguments": arguments,
            "host": _HostOps(module, function, names).entries,
        }


def _example(spec: dict[str, Any]) -> Mapping[str, int]:
    """Extents to verify a kernel with; multiples of the groups for packed weights."""
    return _EXAMPLE_OF_WEIGHTS if is_mixed(spec) else _EXAMPLE


def _facts(function: ir.OpView) -> dict[str, Any] | None:
    """The facts in `#tile.problem` of the host function: types, accumulator, layout and kinds; None without it."""
    if "tile.problem" not in function.attributes:
        return None
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    attribute = function.attributes["tile.problem"]
    asked = Problem.of_attribute(attribute, types)
    return {
        "empty": "".join(attribute.empty),
        "types": {**dict(zip("ab", asked.given_types, strict=True)), "d": asked.d},
        "group": asked.group,
        "acc": asked.acc,
        "fast": asked.is_fast,
        "precision": asked.precision,
        "layout": str(asked.layout),
        "d_order": "column" if asked.d_is_column_major else "row",
        "results": [str(kind) for kind in asked.results],
        "kinds": [str(kind) for kind in asked.kinds],
    }


def _dims(facts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The extents of A, B and each result by dimension, after that of a batch. B has the groups of rows first."""
    of_kind = KIND_DIMS | {"full": OUTPUT_DIMS[facts["d_order"]]}
    grouped = {ROW_GROUPS: None} if "ends" in facts["kinds"] else {}
    a, b = matrix_dims({**facts["types"], "layout": facts["layout"], **grouped})
    return [a, b, *(of_kind[kind] for kind in facts["results"])]


def _arguments(
    function: ir.OpView, names: list[str], facts: Mapping[str, Any], alignments: Mapping[str, int]
) -> list[dict[str, Any]]:
    entries = []
    roles = ["input"] * 2 + ["output"] * len(facts["results"]) + ["input"] * len(facts["kinds"])
    kinds = ["matrix"] * 2 + facts["results"] + facts["kinds"]
    of_kind = KIND_DIMS | {"full": OUTPUT_DIMS[facts["d_order"]]}
    letters = [*_dims(facts), *(of_kind[kind] for kind in facts["kinds"])]
    values = function.regions[0].blocks[0].arguments
    for name, role, kind, value, dims in zip(names, roles, kinds, values, letters, strict=True):
        type_ = value.type
        is_memref = isinstance(type_, ir.MemRefType)
        dtype = element_type(element_name(type_.element_type if is_memref else type_)).stored_as
        alignment = alignments.get(name if kind == "matrix" else kind, element_type(dtype).bytes)
        extents = shape_as_it_lies(type_) if is_memref else []
        whole = (*[BATCH] * (len(extents) - len(dims)), *dims)
        shape = [
            0 if letter.partition("/")[0] in facts["empty"] else x for letter, x in zip(whole, extents, strict=True)
        ]
        entry = {
            "name": name,
            "role": role,
            "kind": kind,
            "dtype": dtype,
            "shape": shape,
            "base_alignment": alignment,
            "row_stride_alignment": alignment,
        }
        is_per_group = kind == "matrix" and ROW_GROUPS in dims
        entries.append(entry | ({"per_group": True} if is_per_group else {}))
    return entries


def _spec(arguments: list[dict[str, Any]], facts: Mapping[str, Any], dims: list[tuple[str, ...]]) -> dict[str, Any]:
    extents: dict[str, int | None] = {"m": None, "n": None, "k": None}
    for argument, letters in zip(arguments, dims, strict=False):
        if argument["kind"] not in ("matrix", "full"):
            continue
        shape = argument["shape"]
        for letter, extent in zip((*[BATCH] * (len(shape) - len(letters)), *letters), shape, strict=True):
            extents[letter] = extent if extents.get(letter) is None else extents[letter]
    order = {} if facts["d_order"] == "row" else {"d_order": facts["d_order"]}
    sums = {"acc": facts["acc"]} | ({"fast": True} if facts["fast"] else {})
    sums |= {"precision": facts["precision"]} if facts["precision"] else {}
    extents = {letter: extent for letter, extent in extents.items() if letter != PACKED_ROWS}
    group = {"group": facts["group"]} if facts["group"] else {}
    return {**extents, **facts["types"], **sums, "layout": facts["layout"], **order, **group}


@dataclass(frozen=True)
class _Made:
    """A matrix or batch that the host function makes. Address and strides are names; strides lack the last dimension.
    Extents are names or numbers. `argument`: the argument that it replaces, for messages."""

    address: str
    shape: tuple[str | int, ...]
    strides: tuple[str, ...]
    argument: str = ""


class _HostOps:
    """The host function's ops as manifest entries."""

    def __init__(self, module: ir.Module, function: ir.OpView, argument_names: list[str]) -> None:
        block = function.regions[0].blocks[0]
        self.module = module
        self.names: dict[ir.Value, str] = dict(zip(block.arguments, argument_names, strict=True))
        self.made: dict[ir.Value, _Made] = {}
        self.asked: dict[tuple[str, str, int], str] = {}  # queries of an argument, each made once
        self.constants: dict[ir.Value, int] = {}
        self.unused = _unused_names("v", argument_names, first=len(argument_names))
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
            self._entry(op, name, list(op.operands), _arith_attributes(op))
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
        """The argument that a launch copies into this workspace; "" if there is none."""
        sources = [memory_of(launch.args[0]) for launch in _launches_with(memory)]
        return next((self.names[source] for source in sources if isinstance(source.owner, ir.Block)), "")

    def _selected(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> _Made:
        """A select of two matrices with the same extents."""
        address, *strides = (
            self._append("arith.select", [self.names[condition], *either])
            for either in zip(*((self._address(x), *self._strides(x)) for x in (yes, no)), strict=True)
        )
        named = next((self.names[value] for value in (yes, no) if value in self.names), "")
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
    }


def _arith_attributes(op: ir.OpView) -> dict[str, Any]:
    if op.operation.name == "arith.cmpi":
        return {"predicate": _CMPI[int(ir.IntegerAttr(op.attributes["predicate"]).value)]}
    if op.operation.name in ("arith.trunci", "arith.index_cast", "arith.extsi", "arith.extui"):
        return {"type": str(op.results[0].type)}
    return {}


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


def _epilogue(origin_text: str, operands: list[str]) -> tuple[str | None, dict[str, Any] | None]:
    """The epilogue region as text (None for a plain conversion of the accumulator), and as a program.

    `operands`: the names of the operands that it takes. Both are None if no op has the region any more, or if it reads
    other values. Only the program is None if the runtime cannot check an op of the region.
    """
    with make_context() as context:
        module = parse_text(origin_text, context, "<origin>")  # owns the ops: must outlive them
        found = [*walk(module, tile.GemmOp), *walk(module, tile.StoreOp)]
        if len(found) != 1:
            return None, None
        block = found[0].epilogue.blocks[0]
        try:
            region = epilogue_ops(block)
        except SpecError:
            return None, None
        conversions = ("arith.truncf", "tile.yield", "arith.extf", "arith.sitofp")
        is_plain = not operands and all(op.operation.name in conversions for op in region)
        text = None if is_plain else "\n".join(map(str, region))
        accumulator = "x" if "x" not in operands else next(_unused_names("x", operands))
        values: dict[ir.Value, str] = dict(zip(block.arguments, [accumulator, *operands], strict=True))
        full = [place for place, kind in enumerate(result_kinds(found[0])) if kind is ResultKind.full]
        program = _epilogue_program(region, values, full)
    try:
        check_program(program, operands)
    except ValueError:  # written by hand, with an op that `verify` has no bound for
        return text, None
    return text, program


def _epilogue_program(region: list[ir.OpView], values: dict[ir.Value, str], full: list[int]) -> dict[str, Any]:
    """The ops of a region as entries, for `lowtide.runtime verify`. `values`: the names of its arguments, the
    accumulator first. `full`: which of the yielded values are those of full results, D first."""
    *body, terminator = region
    accumulator, *operands = values.values()
    unused = _unused_names("e", (accumulator, *operands))
    ops: list[dict[str, Any]] = []
    for op in body:
        inputs = [values[operand] for operand in op.operands]
        values[op.results[0]] = next(unused)
        ops.append(
            {
                "op": op.operation.name,
                "results": [values[op.results[0]]],
                "operands": inputs,
                "attributes": _region_attributes(op),
            }
        )
    result, *others = (values[terminator.operands[place]] for place in full)
    return {"accumulator": accumulator, "ops": ops, "result": result} | ({"others": others} if others else {})


def _unused_names(prefix: str, taken: Collection[str], first: int = 0) -> Iterator[str]:
    """The prefix with a number, counting from `first`, except for names of arguments, which users choose."""
    return (name for number in count(first) if (name := f"{prefix}{number}") not in taken)


def _region_attributes(op: ir.OpView) -> dict[str, Any]:
    name = op.operation.name
    if name == "arith.constant":
        return {"value": op.attributes["value"].value, "type": str(op.results[0].type)}
    if name in ("arith.truncf", "arith.extf"):
        return {"type": str(op.results[0].type)}
    if name in ("arith.cmpf", "arith.cmpi"):
        names = _CMPF if name == "arith.cmpf" else _CMPI
        return {"predicate": names[int(ir.IntegerAttr(op.attributes["predicate"]).value)]}
    return {}
