"""The Python face of `#tile.schedule`: one field for each decision, None where it is still to be made."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from mlir import ir
from tensor_layouts import Layout, size

from lowtide.dialects._lowtide import LayoutAttr, ScheduleAttr, SwizzleAttr
from lowtide.dialects.tile.layouts import SwizzleBits, layout_of, swizzle_bits
from lowtide.errors import ScheduleError

Extents3 = tuple[int, int, int]
Extents2 = tuple[int, int]
Permutation = tuple[int | Layout, int | Layout, int | Layout]
Call = tuple[str, int] | tuple[str, int, int]
Hints = tuple[str, str, str]

# Fields that a complete schedule may leave out: no hints, one scratch buffer.
OPTIONAL_FIELDS = ("cache_hints", "epilogue_buffers")

# Fields whose value is a word, or a word with numbers: `row`, `grouped(8)`, `groups(16, 8)`.
_CALLS = ("raster", "roles")


@dataclass(frozen=True)
class Schedule:
    """Every decision that the passes read. The table of fields and values is `#tile.schedule`'s in docs/.

    `raster` is ("row", 0), ("column", 0), ("grouped", tile rows in a band) or ("groups", tile rows, tile columns);
    `roles` is ("single", 0) or ("cooperative", consumer warpgroups); swizzles are (B, M, S) in elements;
    `cache_hints` are those of A, B and D. `cache_hints` and `epilogue_buffers` may stay None: normal, and one.
    A field left None (`auto` in IR) is decided by `choose-schedule`.

    `target` is no decision and not in the attribute: the name of the target that the schedule is meant for, as presets
    say it. `compile_gemm` refuses a target that lacks what that one has; two schedules are equal whatever it says.
    """

    cta: Extents3 | None = None
    warps: Extents3 | None = None
    permutation: Permutation | None = None
    mma: str | None = None
    copy: str | None = None
    stages: int | None = None
    roles: Call | None = None
    registers: Extents2 | None = None
    fragment_buffers: int | None = None
    swizzle_a: SwizzleBits | None = None
    swizzle_b: SwizzleBits | None = None
    swizzle_d: SwizzleBits | None = None
    raster: Call | None = None
    scheduler: str | None = None
    cache_hints: Hints | None = None
    epilogue: str | None = None
    epilogue_math: str | None = None
    epilogue_tile: Extents2 | None = None
    epilogue_buffers: int | None = None
    target: str | None = field(default=None, compare=False)

    @property
    def tiled_mma_tile(self) -> Extents3:
        """Extents of one step of the tiled mma, from the permutation."""
        assert self.permutation is not None
        m, n, k = (size(entry) for entry in self.permutation)
        return m, n, k

    def with_(self, **changes: Any) -> "Schedule":
        """A copy with some fields changed. Raises ScheduleError for a field that is not one."""
        unknown = sorted(set(changes) - {*self.names(), "target"})
        if unknown:
            raise ScheduleError(f"unknown schedule field {unknown[0]!r}; the fields are {', '.join(self.names())}")
        return replace(self, **changes)

    @classmethod
    def names(cls) -> list[str]:
        """The fields of the attribute."""
        return [entry.name for entry in fields(cls) if entry.name != "target"]

    def __str__(self) -> str:
        """The attribute's text, which `Schedule.parse` reads."""
        given = ((name, getattr(self, name)) for name in self.names())
        return "#tile.schedule<" + ", ".join(f"{n} = {_text(n, v)}" for n, v in given if v is not None) + ">"

    def attribute(self) -> ScheduleAttr:
        """The attribute, in the current context. Raises ScheduleError for a value that its field does not take."""
        try:
            return ir.Attribute.parse(str(self))
        except ir.MLIRError as error:
            raise ScheduleError(f"{self} is not a schedule: {_first_message(error)}") from None

    @classmethod
    def of(cls, attribute: ScheduleAttr) -> "Schedule":
        """From the attribute; `auto` becomes None."""
        values = {entry.name: _value(entry.name, entry.attr) for entry in ir.DictAttr(attribute.fields)}
        return cls(**values)

    @classmethod
    def carried_by(cls, module: ir.Module) -> "Schedule | None":
        """The first schedule on an op of a module of any level: on the tile.gemm, later on the kernel."""
        found: list[Schedule] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if "schedule" not in op.attributes or not isinstance(op.attributes["schedule"], ScheduleAttr):
                return ir.WalkResult.ADVANCE
            found.append(cls.of(op.attributes["schedule"]))
            return ir.WalkResult.INTERRUPT

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found[0] if found else None

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """From `#tile.schedule<…>`, or from its fields alone: `stages = 4, raster = grouped(8)`."""
        whole = text if text.strip().startswith("#") else f"#tile.schedule<{text}>"
        with ir.Context():
            try:
                return cls.of(ScheduleAttr(ir.Attribute.parse(whole)))
            except ir.MLIRError as error:
                raise ScheduleError(f"{text!r} is not a schedule: {_first_message(error)}") from None


def _first_message(error: ir.MLIRError) -> str:
    diagnostics = error.error_diagnostics
    return diagnostics[0].message if diagnostics else str(error)


def _text(name: str, value: Any) -> str:
    if name.startswith("swizzle"):
        return "<{},{},{}>".format(*value)
    if name in _CALLS:
        word, *arguments = value
        return f"{word}({', '.join(map(str, arguments))})" if any(arguments) else word
    if name == "cache_hints":
        return f"[{', '.join(value)}]"
    if name == "permutation":
        return "[" + ", ".join(_permutation_text(entry) for entry in value) + "]"
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _permutation_text(entry: int | Layout) -> str:
    if isinstance(entry, int):
        return str(entry)
    return f"#tile.layout<{entry.shape}:{entry.stride}>".replace(" ", "")


def _value(name: str, attribute: ir.Attribute) -> Any:
    if name == "permutation":
        if isinstance(attribute, ir.DenseI64ArrayAttr):
            return tuple(attribute)
        return tuple(_permutation_entry(entry) for entry in ir.ArrayAttr(attribute))
    if isinstance(attribute, SwizzleAttr):
        return swizzle_bits(attribute)
    if isinstance(attribute, ir.StringAttr):
        if attribute.value == "auto":
            return None
        return (attribute.value, 0) if name in _CALLS else attribute.value
    if isinstance(attribute, ir.IntegerAttr):
        return int(attribute.value)
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return tuple(attribute)
    entries = list(ir.ArrayAttr(attribute))
    return tuple(e.value if isinstance(e, ir.StringAttr) else int(ir.IntegerAttr(e).value) for e in entries)


def _permutation_entry(attribute: ir.Attribute) -> int | Layout:
    return layout_of(attribute)[0] if isinstance(attribute, LayoutAttr) else int(ir.IntegerAttr(attribute).value)
