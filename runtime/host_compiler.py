"""The compiler of host functions: from the serialised ops of a kernel to a `HostProgram`.

Ops: memref.dim (attribute index), memref.row_stride and, for rank 3, memref.batch_stride (elements),
memref.base_address (bytes), each on an argument; tile.sm_count; tile.cluster_count (kernel, one launched in clusters);
tile.workspace (dtype, zeroed) on its number of elements, which follows from shapes, with its address as result;
arith.constant (value), arith.cmpi (predicate), arith.select, arith.trunci (type, e.g. "i32"), integer casts and the
arithmetic of `host_ops`; cf.assert (message); sm.tensor_map on an argument of rank 2 or 3, or on address, rows, columns
and row stride of another matrix with the name of an argument (box, swizzle or null, l2_promotion, dtype,
element_strides if not 1, rows if boxes may have fewer), with a `TensorMap` for launches as result; and tile.launch,
entirely in attributes: kernel, grid (three values or numbers), block, cluster or null, shared_memory in bytes,
arguments (a list of {"value", "type"}), programmatic if it may start before the preceding kernels in the stream have
ended, and cooperative if all its CTAs run at the same time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowtide.elements import ELEMENTS
from lowtide.errors import LaunchError, LoadError
from lowtide.runtime.host_ops import (
    BINARY,
    KEEPS_I1,
    MASK,
    PREDICATES,
    SIGNED_CASTS,
    UNSIGNED_CASTS,
    WIDTHS,
    divsi,
    remsi,
    wrap,
)
from lowtide.runtime.host_program import HostProgram
from lowtide.runtime.launch_shape import FLOAT_TYPES, LaunchShape, grid_within, read_shape
from lowtide.runtime.limits import MAX_GRID, capability_of
from lowtide.runtime.manifest import NAME, is_integer, shown
from lowtide.runtime.tensor_maps import TENSOR_MAP, BoxedTensor, TensorMap, boxed_tensor, check_box
from lowtide.runtime.workspaces import WorkspaceShape
from lowtide.words import APART

_LONGEST = 500  # characters of a message, which may quote edited text
_TENSOR_MAP_ATTRIBUTES = {"box", "swizzle", "l2_promotion", "dtype", "element_strides", "rows", "name", "ragged"}
_UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # bytes; a signature may have the position of an address in such a unit


def compile_host(manifest: Mapping[str, Any]) -> HostProgram:
    """Compile `manifest["host"]`. Raises LoadError for an unknown op, an undefined value or an ill-formed launch."""
    return _Compiler(manifest).compile()


def _are_integers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(is_integer, value))


class _Compiler:
    """Turns ops into lines of `early` and `late`. Values become locals v0, v1, …, so text of the manifest never
    runs."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.name: str = manifest["name"]
        self.ops: Sequence[Mapping[str, Any]] = manifest["host"]
        self.arguments = tuple(x["name"] for x in manifest["arguments"])
        self.ranks = {x["name"]: len(x["shape"]) for x in manifest["arguments"]}
        of_two = [x["name"] for x in manifest["arguments"] if x["shape"][:1] == [2] and len(x["shape"]) == 3]
        self.of_two = of_two if manifest["spec"].get("pairs") == APART else []  # the two matrices of B
        self.dtypes = {x["name"]: x["dtype"] for x in manifest["arguments"]}
        self.scalars = frozenset(x["name"] for x in manifest["arguments"] if x["kind"] == "scalar")
        self.capability = capability_of(manifest["target"])[:2]
        self.locals: dict[str, str] = {}
        self.scalar_types: dict[str, str] = {}
        self.late_values: set[str] = set()
        self.i1_values: set[str] = set()
        self.map_values: set[str] = set()
        self.early_lines: list[str] = []
        self.late_lines: list[str] = []
        self.wanted_late: list[str] = []  # early locals that `late` reads
        self.constants: list[Any] = []
        self.messages: list[str] = []
        self.tensors: list[Callable[[Sequence[int], tuple[int, ...]], BoxedTensor]] = []
        self.addresses: dict[str, int] = {}  # the locals of base addresses, with the numbers of their arguments
        self.numbers: dict[str, Any] = {}  # the locals of constants
        self.placed: dict[int, int] = {}
        self.workspaces: list[WorkspaceShape] = []
        self.counts: list[str] = []  # the elements of the workspaces
        self.launches: list[LaunchShape] = []
        self.grids: list[str] = []
        self.rows: list[str] = []
        self.uses_sm_count = False
        self.counted: list[tuple[str, LoadError]] = []  # kernels whose resident clusters are counted
        for index, argument in enumerate(self.arguments):
            if argument in self.scalars:
                self.locals[argument] = f"p{index}"
                self.scalar_types[f"p{index}"] = self.dtypes[argument]
                self.late_values.add(f"p{index}")

    def compile(self) -> HostProgram:
        for position, op in enumerate(self.ops):
            self.at = f"{self.name}: host[{position}] ({op['op']})"
            self.visit(op)
        if not self.launches:
            raise LoadError(
                f"{self.name}: the host function launches nothing; compile and save the kernel again"
                " [host-launches-nothing]"
            )
        clustered = {shape.kernel for shape in self.launches if shape.cluster}
        for kernel, refusal in self.counted:
            if kernel not in clustered:
                raise refusal
        source = self.source()
        scope: dict[str, Any] = {
            "M": MASK,
            "c": tuple(self.constants),
            "tensors": tuple(self.tensors),
            # TensorMap._make without its Python frame, once per map and call
            "tensor_map": functools.partial(tuple.__new__, TensorMap),
            "divsi": divsi,
            "remsi": remsi,
            "wrap": wrap,
            "shift": self.shift,
            "grid": grid_within(MAX_GRID, self.name),
            "fail": self.failure(tuple(self.messages)),
            "ZeroDivision": self.zero_division,
        }
        exec(compile(source, f"<host function of {self.name}>", "exec"), scope)
        return HostProgram(
            name=self.name,
            arguments=self.arguments,
            scalars=self.scalars,
            launches=tuple(self.launches),
            workspaces=tuple(self.workspaces),
            uses_sm_count=self.uses_sm_count,
            uses_cluster_count=bool(self.counted),
            placed=tuple(self.placed.items()),
            early=scope["early"],
            late=scope["late"],
            source=source,
        )

    def source(self) -> str:
        kept = "".join(f"{name}, " for name in self.wanted_late)
        inputs = "".join(f"p{index}, " for index in range(len(self.arguments)))
        inputs += "".join(f"w{index}, " for index in range(len(self.workspaces)))
        grids, counts = ("".join(f"{value}, " for value in values) for values in (self.grids, self.counts))
        early = ["def early(m, sms, clusters):", "  try:"]
        early += [f"    {line}" for line in self.early_lines]
        early += [f"    return ({kept}), ({grids}), ({counts})"]
        early += ["  except ZeroDivisionError:", "    raise ZeroDivision() from None"]
        late = ["def late(e, p):", f"  {inputs}= p"]
        late += [f"  {kept}= e"] if kept else []
        late += [f"  {line}" for line in self.late_lines]
        late += [f"  return ({''.join(f'{row}, ' for row in self.rows)})"]
        return "\n".join([*early, *late, ""])

    def failure(self, messages: tuple[str, ...]) -> Callable[[int], LaunchError]:
        return lambda index: LaunchError(f"{self.name}: {messages[index]} [host-assertion]")

    def zero_division(self) -> LaunchError:
        return LaunchError(f"{self.name}: the host function divides by zero for these extents [host-divides-by-zero]")

    def shift(self, count: int) -> int:
        """The distance of a shift; a shift by 64 bits or more has no value."""
        if not 0 <= count < 64:
            raise LaunchError(
                f"{self.name}: the host function shifts 64 bits by {count}; compile and save it again [host-shift]"
            )
        return count

    def visit(self, op: Mapping[str, Any]) -> None:
        name, attributes = op["op"], op.get("attributes", {})
        if name == "tile.launch":
            self.launch(attributes)
        elif name == "cf.assert":
            (condition,) = self.operands(op, 1)
            self.messages.append(str(attributes.get("message", "an assertion of the host function failed")))
            self.emit([condition], f"if not {condition}: raise fail({len(self.messages) - 1})")
        elif name.startswith("memref."):
            self.memref(op)
        elif name == "sm.tensor_map":
            self.tensor_map(op)
        elif name == "tile.workspace":
            self.workspace(op)
        elif name == "tile.sm_count":
            self.uses_sm_count = True
            self.define(op, [], "sms")
        elif name == "tile.cluster_count":
            self.cluster_count(op)
        elif name == "arith.constant":
            self.constants.append(self.constant(attributes.get("value")))
            local = self.define(op, [], f"c[{len(self.constants) - 1}]")
            self.numbers[local] = attributes["value"]
            if isinstance(attributes["value"], bool):
                self.i1_values.add(local)
        elif name != "arith.remui" or not self.place(op):
            self.arithmetic(op)

    def cluster_count(self, op: Mapping[str, Any]) -> None:
        kernel = op.get("attributes", {}).get("kernel")
        if not isinstance(kernel, str):
            raise self.refuse(f"kernel is {kernel!r}, must be the kernel of a launch")
        self.counted.append((kernel, self.refuse(f"kernel {kernel!r} is not launched in clusters")))
        self.constants.append(kernel)
        self.define(op, [], f"clusters[c[{len(self.constants) - 1}]]")

    def memref_operand(self, op: Mapping[str, Any]) -> str:
        operands = op.get("operands", [])
        if len(operands) != 1 or operands[0] not in self.ranks or operands[0] in self.scalars:
            raise self.refuse("its operand must be one memref argument")
        return str(operands[0])

    def memref(self, op: Mapping[str, Any]) -> None:
        argument = self.memref_operand(op)
        rank = self.ranks[argument]
        if op["op"] == "memref.dim":
            index = op.get("attributes", {}).get("index")
            if not is_integer(index) or not 0 <= index < rank:
                raise self.refuse(f"index {index!r} is outside the {rank} dimensions of {argument}")
            self.define(op, [], f"m[{argument!r}].shape[{index}]")
        elif op["op"] == "memref.row_stride":
            self.define(op, [], f"m[{argument!r}].row_stride")
        elif op["op"] == "memref.batch_stride":
            if rank != 3:
                raise self.refuse(f"{argument} has rank {rank}; a batch of matrices has rank 3")
            self.define(op, [], f"m[{argument!r}].batch_stride")
        elif op["op"] == "memref.base_address":
            number = self.arguments.index(argument)
            self.late_values.add(f"p{number}")
            self.addresses[self.define(op, [f"p{number}"], f"p{number}")] = number
        else:
            raise self.refuse("unknown op, perhaps of another version")

    def place(self, op: Mapping[str, Any]) -> bool:
        """Whether the op computes the position of a base address in a unit, which `early` knows."""
        address, unit = self.operands(op, 2)
        size = self.numbers.get(unit)
        if address not in self.addresses or size not in _UNITS:
            return False
        number = self.addresses[address]
        self.placed[number] = max(size, self.placed.get(number, 1))
        self.define(op, [], f"m[{self.arguments[number]!r}].address % {unit}")
        return True

    def mapped(self, op: Mapping[str, Any]) -> tuple[str, str, str, str]:
        """The argument of a tensor map, or the one that its matrix replaces; address, shape, strides."""
        if len(op.get("operands", [])) == 1:
            argument = self.memref_operand(op)
            address, memref = f"p{self.arguments.index(argument)}", f"m[{argument!r}]"
            self.late_values.add(address)
            batch = f"{memref}.batch_stride, " if self.ranks[argument] == 3 else ""
            return argument, address, f"{memref}.shape", f"({batch}{memref}.row_stride,)"
        argument = self.word(op.get("attributes", {}), "name", self.ranks)
        rank = self.mapped_rank(op, argument)
        address, *parts = self.operands(op, 2 * rank)
        if self.late_values.intersection(parts):
            raise self.refuse("extents or strides depend on an address or a run-time scalar")
        return argument, address, f"({', '.join(parts[:rank])})", f"({', '.join(parts[rank:])},)"

    def mapped_rank(self, op: Mapping[str, Any], argument: str) -> int:
        """The dimensions of the matrix of a tensor map: those of its argument, or one more if it is viewed as two
        matrices, or as two for each group."""
        own, given = self.ranks[argument], len(op.get("operands", []))
        return own + 1 if own in (2, 3) and given == 2 * (own + 1) else own

    def tensor_map(self, op: Mapping[str, Any]) -> None:
        """All but the address follows from shape and strides, and is made in `early`."""
        argument, address, shape, strides = self.mapped(op)
        attributes = op.get("attributes", {})
        # A matrix made for an argument may have another type: pieces of its elements.
        is_own = len(op.get("operands", [])) == 1
        dtype = self.dtypes[argument] if is_own else self.word(attributes, "dtype", ELEMENTS)
        promotion = attributes.get("l2_promotion", 0)
        if not is_integer(promotion):
            raise self.refuse(f"l2_promotion is {promotion!r}, must be bytes")
        box, swizzle = attributes.get("box"), attributes.get("swizzle")
        if self.ranks[argument] not in (2, 3):
            raise self.refuse(f"{argument} has rank {self.ranks[argument]}, must have rank 2, or 3 in a batch")
        if attributes.get("dtype") != dtype:
            raise self.refuse(f"dtype is {attributes.get('dtype')!r}, {argument} has {dtype!r}")
        least = self.mapped_rank(op, argument)
        if not isinstance(box, list) or not least <= len(box) <= 5 or not _are_integers(box, len(box)):
            fewest = {2: "two", 3: "three"}[least]
            raise self.refuse(f"box is {box!r}, must be {fewest} to five integers, rows and columns last")
        is_whole = self.ranks[argument] == least and argument not in self.of_two
        if least == 3 and box[0] not in ((1,) if is_whole else (1, 2)):
            raise self.refuse(f"box is {box!r}, must begin with 1: a box is of one matrix of a batch")
        if swizzle is not None and not _are_integers(swizzle, 3):
            raise self.refuse(f"swizzle is {swizzle!r}, must be three integers or null")
        steps = attributes.get("element_strides")
        if steps is not None and not _are_integers(steps, len(box)):
            raise self.refuse(f"element_strides is {steps!r}, must be {len(box)} integers or null")
        unknown = sorted(set(attributes) - _TENSOR_MAP_ATTRIBUTES)
        if unknown:
            raise self.refuse(f"attribute {unknown[0]!r} is unknown")
        rows = attributes.get("rows")
        if rows is not None:
            if not isinstance(rows, str):
                raise self.refuse(f"rows is {rows!r}, must be the name of a value")
            if (rows := self.lookup(rows)) in self.late_values:
                raise self.refuse("rows depends on an address or a run-time scalar")
        kept, steps = tuple(swizzle) if swizzle and swizzle[0] else None, tuple(steps or ())
        check_box(argument, dtype, box, kept, promotion, LoadError, steps)
        tensor = f"t{len(self.tensors)}"
        given = "" if rows is None else f", {rows}"
        self.early_lines.append(f"{tensor} = tensors[{len(self.tensors)}]({shape}, {strides}{given})")
        ragged = attributes.get("ragged", False)
        if not isinstance(ragged, bool) or (ragged and (least != 2 or len(box) != 4)):
            raise self.refuse(
                f"ragged is {ragged!r}, must be true or false; true for a matrix with a box of four sides"
            )
        self.tensors.append(boxed_tensor(argument, dtype, tuple(box), kept, promotion, steps, ragged=ragged))
        self.wanted_late.append(tensor)
        self.map_values.add(self.define(op, [address], f"tensor_map(({address}, {tensor}))"))

    def workspace(self, op: Mapping[str, Any]) -> None:
        (count,) = self.operands(op, 1)
        attributes = op.get("attributes", {})
        dtype, zeroed = self.word(attributes, "dtype", ELEMENTS), attributes.get("zeroed", False)
        if not isinstance(zeroed, bool):
            raise self.refuse(f"zeroed is {zeroed!r}, must be true or false")
        if count in self.late_values:
            raise self.refuse("the size of a workspace depends on an address or a run-time scalar")
        local = f"w{len(self.workspaces)}"
        self.workspaces.append(WorkspaceShape(dtype, zeroed))
        self.counts.append(count)
        self.late_values.add(local)
        self.define(op, [local], local)

    def arithmetic(self, op: Mapping[str, Any]) -> None:
        name, attributes = op["op"], op.get("attributes", {})
        if name in BINARY:
            values = self.operands(op, 2)
            local = self.define(op, values, BINARY[name].format(*values))
            if name in KEEPS_I1 and self.i1_values.issuperset(values):
                self.i1_values.add(local)
        elif name == "arith.cmpi":
            values = self.operands(op, 2)
            predicate = PREDICATES[self.word(attributes, "predicate", PREDICATES)]
            self.i1_values.add(self.define(op, values, predicate.format(*values)))
        elif name == "arith.select":
            values = self.operands(op, 3)
            local = self.define(op, values, "{1} if {0} else {2}".format(*values))
            if self.i1_values.issuperset(values):
                self.i1_values.add(local)
        elif name in SIGNED_CASTS or name in UNSIGNED_CASTS:
            (value,) = self.operands(op, 1)
            sign = "-" if name in SIGNED_CASTS else ""
            self.define(op, [value], f"{sign}int({value})" if value in self.i1_values else value)
        elif name == "arith.trunci":
            (value,) = self.operands(op, 1)
            kind = self.word(attributes, "type", WIDTHS)
            text = f"bool({value} & 1)" if kind == "i1" else f"wrap({value}, {WIDTHS[kind]})"
            local = self.define(op, [value], text)
            if kind == "i1":
                self.i1_values.add(local)
        else:
            raise self.refuse("unknown op, perhaps of another version")

    def launch(self, attributes: Mapping[str, Any]) -> None:
        try:
            shape = read_shape(attributes, self.capability)
        except ValueError as error:
            raise self.refuse(str(error)) from None
        values = [
            self.launch_argument(argument["value"], kind)
            for argument, kind in zip(attributes["arguments"], shape.types, strict=True)
        ]
        grid = [self.value(extent) for extent in attributes["grid"]]
        if self.late_values.intersection(grid):
            raise self.refuse("the grid depends on an address or a run-time scalar")
        self.read_late(values)
        self.launches.append(shape)
        self.constants.append(shape.cluster or (1, 1, 1))
        self.grids.append(f"grid(({', '.join(grid)}), c[{len(self.constants) - 1}])")
        self.rows.append(f"({''.join(f'{value}, ' for value in values)})")

    def launch_argument(self, entry: Any, kind: str) -> str:
        """The local of a kernel's argument. Each type of parameter takes its own kind: map, float, integer or
        address."""
        if not isinstance(entry, str):
            numbers = (int, float) if kind in FLOAT_TYPES else int
            if isinstance(entry, bool) or not isinstance(entry, numbers) or kind == TENSOR_MAP:
                raise self.refuse(f"argument {entry!r} is not a value of type {kind!r}")
            return self.literal(entry)
        value = self.lookup(entry)
        scalar = self.scalar_types.get(value, "")
        if (value in self.map_values) != (kind == TENSOR_MAP):
            raise self.refuse(f"argument {entry!r} must have type {TENSOR_MAP!r} if and only if sm.tensor_map made it")
        if (kind in FLOAT_TYPES or scalar in FLOAT_TYPES) and kind != scalar:
            raise self.refuse(f"argument {entry!r} has type {kind!r}, must have {scalar or 'an integer type'!r}")
        return value

    def constant(self, value: Any) -> Any:
        if not is_integer(value) and not isinstance(value, bool):
            raise self.refuse(f"attribute 'value' is {value!r}, must be a number without a fraction")
        if not -(2**63) <= value < 2**64:
            raise self.refuse(f"attribute 'value' is {value!r}, must have at most 64 bits")
        return value

    def value(self, entry: Any) -> str:
        """An extent of the grid: the name of a value, or a number."""
        if not isinstance(entry, str):
            return self.literal(entry)
        value = self.lookup(entry)
        if value in self.map_values:
            raise self.refuse(f"the grid depends on the tensor map {entry!r}")
        return value

    def literal(self, number: float) -> str:
        self.constants.append(number)
        return f"c[{len(self.constants) - 1}]"

    def refuse(self, what: str) -> LoadError:
        """A LoadError at the op that is being visited."""
        return LoadError(f"{self.at}: {shown(what, str, _LONGEST)}; compile and save the kernel again [host-program]")

    def word(self, attributes: Mapping[str, Any], key: str, known: Mapping[str, Any]) -> str:
        """The value of an attribute, which must be one of the known words."""
        found = attributes.get(key)
        if not isinstance(found, str) or found not in known:
            raise self.refuse(f"attribute {key!r} is {found!r}, must be one of {', '.join(known)}")
        return found

    def lookup(self, name: str) -> str:
        if name not in self.locals:
            raise self.refuse(f"value {name!r} is used before it is defined")
        return self.locals[name]

    def operands(self, op: Mapping[str, Any], count: int) -> list[str]:
        names = op.get("operands", [])
        if len(names) != count:
            raise self.refuse(f"has {len(names)} operands, must have {count}")
        values = [self.lookup(name) for name in names]
        if self.map_values.intersection(values):
            raise self.refuse("has a tensor map as an operand, which only a launch takes")
        if any(self.scalar_types.get(value) in FLOAT_TYPES for value in values):
            raise self.refuse("has a float as an operand, which only a launch takes")
        return values

    def define(self, op: Mapping[str, Any], values: Sequence[str], text: str) -> str:
        results = op.get("results", [])
        if len(results) != 1 or not NAME.match(results[0]) or results[0] in self.locals:
            raise self.refuse(f"must define one new value, has {results!r}")
        local = f"v{len(self.locals)}"
        self.locals[results[0]] = local
        self.emit(values, f"{local} = {text}")
        if self.late_values.intersection(values):
            self.late_values.add(local)
        return local

    def emit(self, values: Sequence[str], line: str) -> None:
        if self.late_values.intersection(values):
            self.read_late(values)
            self.late_lines.append(line)
        else:
            self.early_lines.append(line)

    def read_late(self, values: Sequence[str]) -> None:
        for value in values:
            if value.startswith("v") and value not in self.late_values and value not in self.wanted_late:
                self.wanted_late.append(value)
