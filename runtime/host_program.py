"""The host function of a kernel, from its serialised ops to one Python function that yields the launches.

The ops are compiled once into two straight-line functions. `early` holds what follows from shapes, strides and the
number of SMs, and runs once for each new signature; `late` holds what follows from base addresses and run-time scalars,
and runs at every call. Integers are exact (extents are at most 2³¹−1, so no 64-bit product of two wraps).

Ops: memref.dim (attribute index), memref.row_stride (elements), memref.base_address (bytes), each on an argument;
tile.sm_count; arith.constant (value), arith.cmpi (predicate), arith.select, arith.trunci (type, e.g. "i32"), integer
casts and the arithmetic of `host_ops`; cf.assert (message); sm.tensor_map on a rank-2 argument (box, swizzle or null,
l2_promotion, dtype, element_strides if not 1), which yields a `TensorMap` for launches alone; and tile.launch, all in
attributes: kernel, grid (three values or numbers), block, cluster or null, shared_memory in bytes, arguments (a list of
{"value", "type"}).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lowtide.elements import element_type
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
from lowtide.runtime.manifest import NAME
from lowtide.runtime.tensor_maps import (
    TENSOR_MAP,
    TENSOR_MAP_BYTES,
    BoxedTensor,
    Swizzle,
    TensorMap,
    boxed_matrix,
    check_box,
)

#: Bytes of each launch argument type.
ARGUMENT_BYTES: dict[str, int] = {
    "ptr": 8,
    **{name: element_type(name).bytes for name in ("i64", "i32", "f32", "f64", "f16", "bf16")},
    TENSOR_MAP: TENSOR_MAP_BYTES,
}
_TENSOR_MAP_ATTRIBUTES = {"box", "swizzle", "l2_promotion", "dtype", "element_strides"}


class HostMemRef(Protocol):
    """A memref argument as the host function sees it: base address in bytes, extents and row stride in elements."""

    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def row_stride(self) -> int: ...


@dataclass(frozen=True)
class LaunchShape:
    """What a launch says before any argument is known."""

    kernel: str
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_memory: int  # dynamic, bytes a CTA
    types: tuple[str, ...]  # of the kernel's arguments, keys of ARGUMENT_BYTES


@dataclass(frozen=True)
class LaunchRecord:
    """One launch with all its values: grid in CTAs, block in threads, arguments as (value, type).

    The value of a "tensor_map" is a `TensorMap`, not encoded; of the others a number.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_memory: int
    arguments: tuple[tuple[Any, str], ...]


@dataclass(frozen=True)
class HostProgram:
    """A compiled host function; call it with the arguments by name to get its launches."""

    name: str
    arguments: tuple[str, ...]
    scalars: frozenset[str]
    launches: tuple[LaunchShape, ...]
    uses_sm_count: bool
    early: Callable[[Mapping[str, Any], int], tuple[tuple[Any, ...], tuple[tuple[int, int, int], ...]]]
    late: Callable[[tuple[Any, ...], Sequence[Any]], tuple[tuple[Any, ...], ...]]
    source: str

    def __call__(self, arguments: Mapping[str, Any], *, sm_count: int | None = None) -> list[LaunchRecord]:
        """The launches, in order, for `arguments`: a `HostMemRef` for each memref, a number for each scalar.

        `sm_count` is what `tile.sm_count` yields. Raises LaunchError when an assertion of the host function fails, a
        grid is empty or past CUDA's limits, or `sm_count` is wanted and not given.
        """
        missing = [name for name in self.arguments if name not in arguments]
        if missing:
            raise LaunchError(
                f"{self.name}: operand {missing[0]} is missing; the operands are {', '.join(self.arguments)}"
            )
        if self.uses_sm_count and sm_count is None:
            raise LaunchError(f"{self.name}: the grid depends on the number of SMs, which is not given; pass sm_count=")
        kept, grids = self.early(arguments, sm_count or 0)
        calls = [arguments[name] if name in self.scalars else arguments[name].address for name in self.arguments]
        values = self.late(kept, calls)
        return [
            LaunchRecord(
                shape.kernel,
                grid,
                shape.block,
                shape.cluster,
                shape.shared_memory,
                tuple(zip(row, shape.types, strict=True)),
            )
            for shape, grid, row in zip(self.launches, grids, values, strict=True)
        ]


def compile_host(manifest: Mapping[str, Any]) -> HostProgram:
    """Compile `manifest["host"]`. Raises LoadError for an unknown op, an undefined value or an ill-formed launch."""
    return _Compiler(manifest).compile()


def _geometry(limits: tuple[int, int, int], name: str) -> Callable[..., tuple[int, int, int]]:
    def grid(extents: tuple[int, int, int], cluster: tuple[int, int, int]) -> tuple[int, int, int]:
        if not all(1 <= extent <= limit for extent, limit in zip(extents, limits, strict=True)):
            raise LaunchError(
                f"{name}: the grid would be {extents} CTAs, CUDA allows 1 to {limits} on each axis;"
                f" use a smaller problem or a bigger CTA tile"
            )
        if any(extent % side for extent, side in zip(extents, cluster, strict=True)):
            raise LaunchError(
                f"{name}: the grid would be {extents} CTAs, must be whole clusters of {cluster};"
                f" compile it with a smaller cluster, or with a grid that is rounded up to clusters"
            )
        return extents

    return grid


def _boxed_tensor(
    name: str, dtype: str, box: tuple[int, ...], swizzle: Swizzle | None, l2_promotion: int, steps: tuple[int, ...]
) -> Callable[[HostMemRef], BoxedTensor]:
    def tensor(memref: HostMemRef) -> BoxedTensor:
        return boxed_matrix(name, dtype, tuple(memref.shape), memref.row_stride, box, swizzle, l2_promotion, steps)

    return tensor


def _are_integers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(isinstance(x, int) for x in value)


class _Compiler:
    """Turns ops into lines of `early` and `late`. Values become locals v0, v1, …, so no text of the manifest runs."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.name: str = manifest["name"]
        self.ops: Sequence[Mapping[str, Any]] = manifest["host"]
        self.arguments = tuple(x["name"] for x in manifest["arguments"])
        self.ranks = {x["name"]: len(x["shape"]) for x in manifest["arguments"]}
        self.dtypes = {x["name"]: x["dtype"] for x in manifest["arguments"]}
        self.scalars = frozenset(x["name"] for x in manifest["arguments"] if x["kind"] == "scalar")
        self.locals: dict[str, str] = {}
        self.late_values: set[str] = set()
        self.i1_values: set[str] = set()
        self.map_values: set[str] = set()
        self.early_lines: list[str] = []
        self.late_lines: list[str] = []
        self.wanted_late: list[str] = []  # early locals that `late` reads
        self.constants: list[Any] = []
        self.messages: list[str] = []
        self.tensors: list[Callable[[HostMemRef], BoxedTensor]] = []
        self.launches: list[LaunchShape] = []
        self.grids: list[str] = []
        self.rows: list[str] = []
        self.uses_sm_count = False
        for index, argument in enumerate(self.arguments):
            if argument in self.scalars:
                self.locals[argument] = f"p{index}"
                self.late_values.add(f"p{index}")

    def compile(self) -> HostProgram:
        for position, op in enumerate(self.ops):
            self.at = f"{self.name}: host[{position}] ({op['op']})"
            self.visit(op)
        if not self.launches:
            raise LoadError(f"{self.name}: the host function launches nothing; compile and save the kernel again")
        source = self.source()
        scope: dict[str, Any] = {
            "M": MASK,
            "c": tuple(self.constants),
            "tensors": tuple(self.tensors),
            # TensorMap._make without its Python frame: one a map at every call
            "tensor_map": functools.partial(tuple.__new__, TensorMap),
            "divsi": divsi,
            "remsi": remsi,
            "wrap": wrap,
            "grid": _geometry((2**31 - 1, 65535, 65535), self.name),
            "fail": self.failure(tuple(self.messages)),
            "ZeroDivision": self.zero_division,
        }
        exec(compile(source, f"<host function of {self.name}>", "exec"), scope)
        return HostProgram(
            name=self.name,
            arguments=self.arguments,
            scalars=self.scalars,
            launches=tuple(self.launches),
            uses_sm_count=self.uses_sm_count,
            early=scope["early"],
            late=scope["late"],
            source=source,
        )

    def source(self) -> str:
        kept = "".join(f"{name}, " for name in self.wanted_late)
        inputs = "".join(f"p{index}, " for index in range(len(self.arguments)))
        early = ["def early(m, sms):", "  try:"]
        early += [f"    {line}" for line in self.early_lines]
        early += [f"    return ({kept}), ({''.join(f'{grid}, ' for grid in self.grids)})"]
        early += ["  except ZeroDivisionError:", "    raise ZeroDivision() from None"]
        late = ["def late(e, p):", f"  {inputs}= p"]
        late += [f"  {kept}= e"] if kept else []
        late += [f"  {line}" for line in self.late_lines]
        late += [f"  return ({''.join(f'{row}, ' for row in self.rows)})"]
        return "\n".join([*early, *late, ""])

    def failure(self, messages: tuple[str, ...]) -> Callable[[int], LaunchError]:
        return lambda index: LaunchError(f"{self.name}: {messages[index]}")

    def zero_division(self) -> LaunchError:
        return LaunchError(f"{self.name}: the host function divides by zero for these extents")

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
        elif name == "tile.sm_count":
            self.uses_sm_count = True
            self.define(op, [], "sms")
        elif name == "arith.constant":
            self.constants.append(self.constant(attributes.get("value")))
            local = self.define(op, [], f"c[{len(self.constants) - 1}]")
            if isinstance(attributes["value"], bool):
                self.i1_values.add(local)
        else:
            self.arithmetic(op)

    def memref_operand(self, op: Mapping[str, Any]) -> str:
        operands = op.get("operands", [])
        if len(operands) != 1 or operands[0] not in self.ranks or operands[0] in self.scalars:
            raise LoadError(f"{self.at}: its operand must be one memref argument")
        return str(operands[0])

    def memref(self, op: Mapping[str, Any]) -> None:
        argument = self.memref_operand(op)
        rank = self.ranks[argument]
        if op["op"] == "memref.dim":
            index = op.get("attributes", {}).get("index")
            if not isinstance(index, int) or not 0 <= index < rank:
                raise LoadError(f"{self.at}: index {index!r} is outside the {rank} dimensions of {argument}")
            self.define(op, [], f"m[{argument!r}].shape[{index}]")
        elif op["op"] == "memref.row_stride":
            self.define(op, [], f"m[{argument!r}].row_stride")
        elif op["op"] == "memref.base_address":
            local = f"p{self.arguments.index(argument)}"
            self.late_values.add(local)
            self.define(op, [local], local)
        else:
            raise LoadError(
                f"{self.at}: unknown op; the kernel was saved by another version, compile and save it again"
            )

    def tensor_map(self, op: Mapping[str, Any]) -> None:
        """All but the address follows from shape and strides, and is made in `early`."""
        argument, attributes = self.memref_operand(op), op.get("attributes", {})
        dtype, promotion = self.dtypes[argument], attributes.get("l2_promotion", 0)
        box, swizzle = attributes.get("box"), attributes.get("swizzle")
        if self.ranks[argument] != 2:
            raise LoadError(f"{self.at}: {argument} has rank {self.ranks[argument]}, must have rank 2")
        if attributes.get("dtype") != dtype:
            raise LoadError(f"{self.at}: dtype is {attributes.get('dtype')!r}, {argument} has {dtype!r}")
        if not isinstance(box, list) or not 2 <= len(box) <= 5 or not _are_integers(box, len(box)):
            raise LoadError(f"{self.at}: box is {box!r}, must be two to five integers, rows and columns last")
        if swizzle is not None and not _are_integers(swizzle, 3):
            raise LoadError(f"{self.at}: swizzle is {swizzle!r}, must be three integers or null")
        steps = attributes.get("element_strides")
        if steps is not None and not _are_integers(steps, len(box)):
            raise LoadError(f"{self.at}: element_strides is {steps!r}, must be {len(box)} integers or null")
        unknown = sorted(set(attributes) - _TENSOR_MAP_ATTRIBUTES)
        if unknown:
            raise LoadError(f"{self.at}: attribute {unknown[0]!r} is unknown; compile and save the kernel again")
        kept, steps = tuple(swizzle) if swizzle and swizzle[0] else None, tuple(steps or ())
        check_box(argument, dtype, box, kept, promotion, LoadError, steps)
        tensor = f"t{len(self.tensors)}"
        self.early_lines.append(f"{tensor} = tensors[{len(self.tensors)}](m[{argument!r}])")
        self.tensors.append(_boxed_tensor(argument, dtype, tuple(box), kept, promotion, steps))
        self.wanted_late.append(tensor)
        address = f"p{self.arguments.index(argument)}"
        self.late_values.add(address)
        self.map_values.add(self.define(op, [address], f"tensor_map(({address}, {tensor}))"))

    def arithmetic(self, op: Mapping[str, Any]) -> None:
        name, attributes = op["op"], op.get("attributes", {})
        if name in BINARY:
            values = self.operands(op, 2)
            local = self.define(op, values, BINARY[name].format(*values))
            if name in KEEPS_I1 and self.i1_values.issuperset(values):
                self.i1_values.add(local)
        elif name == "arith.cmpi":
            values = self.operands(op, 2)
            if attributes.get("predicate") not in PREDICATES:
                raise LoadError(
                    f"{self.at}: predicate {attributes.get('predicate')!r} must be one of {', '.join(PREDICATES)}"
                )
            self.i1_values.add(self.define(op, values, PREDICATES[attributes["predicate"]].format(*values)))
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
            kind = attributes.get("type")
            if kind not in WIDTHS:
                raise LoadError(f"{self.at}: attribute 'type' is {kind!r}, must be one of {', '.join(WIDTHS)}")
            text = f"bool({value} & 1)" if kind == "i1" else f"wrap({value}, {WIDTHS[kind]})"
            local = self.define(op, [value], text)
            if kind == "i1":
                self.i1_values.add(local)
        else:
            raise LoadError(
                f"{self.at}: unknown op; the kernel was saved by another version, compile and save it again"
            )

    def launch(self, attributes: Mapping[str, Any]) -> None:
        arguments = attributes.get("arguments")
        kernel, shared_memory = attributes.get("kernel"), attributes.get("shared_memory") or 0
        if not isinstance(kernel, str) or not isinstance(arguments, list) or not isinstance(shared_memory, int):
            raise LoadError(f"{self.at}: kernel, arguments or shared_memory is missing or ill-typed")
        values, types = [], []
        for argument in arguments:
            if not isinstance(argument, dict) or argument.get("type") not in ARGUMENT_BYTES or "value" not in argument:
                raise LoadError(
                    f"{self.at}: argument {argument!r} must have a value and a type of {', '.join(ARGUMENT_BYTES)}"
                )
            value = self.value(argument["value"])
            if (value in self.map_values) != (argument["type"] == TENSOR_MAP):
                raise LoadError(
                    f"{self.at}: argument {argument!r} must have type {TENSOR_MAP!r} just where its value is that of"
                    f" sm.tensor_map; compile and save the kernel again"
                )
            values.append(value)
            types.append(argument["type"])
        block, cluster = self.extents(attributes, "block"), attributes.get("cluster")
        if len(attributes.get("grid") or ()) != 3:
            raise LoadError(f"{self.at}: grid is {attributes.get('grid')!r}, must have three extents")
        grid = [self.value(x) for x in attributes["grid"]]
        if self.late_values.intersection(grid):
            raise LoadError(f"{self.at}: the grid depends on an address or a run-time scalar; compile the kernel again")
        self.read_late(values)
        sides = self.extents(attributes, "cluster") if cluster else None
        self.launches.append(LaunchShape(kernel, block, sides, shared_memory, tuple(types)))
        self.constants.append(sides or (1, 1, 1))
        self.grids.append(f"grid(({', '.join(grid)}), c[{len(self.constants) - 1}])")
        self.rows.append(f"({''.join(f'{value}, ' for value in values)})")

    def extents(self, attributes: Mapping[str, Any], key: str) -> tuple[int, int, int]:
        value = attributes.get(key)
        if not isinstance(value, list) or len(value) != 3 or not all(isinstance(x, int) and x >= 1 for x in value):
            raise LoadError(f"{self.at}: {key} is {value!r}, must be three integers ≥ 1")
        return (value[0], value[1], value[2])

    def constant(self, value: Any) -> Any:
        if not isinstance(value, int | float):
            raise LoadError(f"{self.at}: attribute 'value' is {value!r}, must be a number")
        return value

    def value(self, entry: Any) -> str:
        """A launch operand: a value's name, or a number in place."""
        if isinstance(entry, str):
            return self.lookup(entry)
        self.constants.append(self.constant(entry))
        return f"c[{len(self.constants) - 1}]"

    def lookup(self, name: str) -> str:
        if name not in self.locals:
            raise LoadError(
                f"{self.at}: value {name!r} is used before it is defined; compile and save the kernel again"
            )
        return self.locals[name]

    def operands(self, op: Mapping[str, Any], count: int) -> list[str]:
        names = op.get("operands", [])
        if len(names) != count:
            raise LoadError(f"{self.at}: has {len(names)} operands, must have {count}")
        values = [self.lookup(name) for name in names]
        if self.map_values.intersection(values):
            raise LoadError(f"{self.at}: has a tensor map for operand, which only a launch takes")
        return values

    def define(self, op: Mapping[str, Any], values: Sequence[str], text: str) -> str:
        results = op.get("results", [])
        if len(results) != 1 or not NAME.match(results[0]) or results[0] in self.locals:
            raise LoadError(f"{self.at}: must define one new value, has {results!r}")
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
