"""Values of a schedule's fields: their types in Python, and how each kind of field is checked, written and read.

Words are the enums of ODS. A `Kind` converts what a user gives to the typed value, and that to the builtin attribute
that represents it in the dictionary of `#tile.schedule` (`lowtide::tile::fieldsOf`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from mlir import ir
from tensor_layouts import Layout

from lowtide.dialects._lowtide import RasterAttr
from lowtide.dialects._tile_enum_gen import KDivisionKind, RasterKind
from lowtide.dialects.tile.division import AXES, Cut, KDivision
from lowtide.dialects.tile.layouts import layout_attr, layout_of

Extents2: TypeAlias = tuple[int, int]
Extents3: TypeAlias = tuple[int, int, int]
Mode: TypeAlias = "int | Layout"
Permutation: TypeAlias = tuple[Mode, Mode, Mode]


@dataclass(frozen=True)
class Order:
    """Rasterization order, as `#tile.raster`: `rows` and `columns` of a band or group in tiles; 0 if it has none."""

    kind: RasterKind
    rows: int = 0
    columns: int = 0

    def __str__(self) -> str:
        return _call(str(self.kind), self.rows, self.columns)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")  # a bare identifier of MLIR
CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\))?\s*", re.ASCII)


def grouped(rows: int) -> Order:
    """Bands of `rows` tile rows."""
    return Order(RasterKind.grouped, rows)


def _call(word: str, *numbers: int) -> str:
    given = ", ".join(str(number) for number in numbers if number)
    return f"{word}({given})" if given else word


class Kind(Protocol):
    """A kind of field."""

    @property
    def form(self) -> str:
        """What a value looks like, for messages."""

    def check(self, value: Any) -> Any:
        """The typed value. Raises ValueError or TypeError for a value of another form."""

    def encode(self, value: Any) -> ir.Attribute:
        """The builtin attribute of a checked value, in the current context."""

    def decode(self, attribute: ir.Attribute) -> Any:
        """The value of such an attribute."""

    def text(self, value: Any) -> str:
        """The value as the attribute prints it."""


class _Plain:
    """Kinds whose values print as they are."""

    def text(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Integer(_Plain):
    form: str = "an integer"

    def check(self, value: Any) -> int:
        return _integer(value)

    def encode(self, value: int) -> ir.Attribute:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    def decode(self, attribute: ir.Attribute) -> int:
        return int(ir.IntegerAttr(attribute).value)


@dataclass(frozen=True)
class Integers:
    """A fixed number of integers."""

    count: int
    form: str

    def text(self, value: tuple[int, ...]) -> str:
        return "<" + ",".join(map(str, value)) + ">" if self.form.startswith("<") else str(list(value))

    def check(self, value: Any) -> tuple[int, ...]:
        numbers = tuple(_integer(number) for number in _sequence(value))
        if len(numbers) != self.count:
            raise ValueError(f"{len(numbers)} numbers")
        return numbers

    def encode(self, value: tuple[int, ...]) -> ir.Attribute:
        return ir.DenseI64ArrayAttr.get(value)

    def decode(self, attribute: ir.Attribute) -> tuple[int, ...]:
        return tuple(ir.DenseI64ArrayAttr(attribute))


@dataclass(frozen=True)
class Name(_Plain):
    """The name of an atom, as the tables in `targets/` have it."""

    form: str

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise TypeError
        return value

    def takes(self, value: Any) -> bool:
        """Whether a name that means several fields sets this one to the value."""
        return True

    def encode(self, value: str) -> ir.Attribute:
        return ir.StringAttr.get(value)

    def decode(self, attribute: ir.Attribute) -> str:
        return str(ir.StringAttr(attribute).value)


@dataclass(frozen=True)
class Word(_Plain):
    """A word of an enum of ODS; text is accepted too. `own`: the words that this field takes, if it takes not all."""

    enum: type[IntEnum]
    own: tuple[str, ...] = ()

    def takes(self, value: Any) -> bool:
        """Whether a name that means several fields sets this one to the value."""
        return not self.own or str(value).strip() in self.own

    @property
    def form(self) -> str:
        return _alternatives(self.enum.__members__)

    def check(self, value: Any) -> IntEnum:
        return _word(self.enum, value)

    def encode(self, value: IntEnum) -> ir.Attribute:
        return ir.StringAttr.get(str(value))

    def decode(self, attribute: ir.Attribute) -> IntEnum:
        return self.enum[ir.StringAttr(attribute).value]


@dataclass(frozen=True)
class Call(_Plain):
    """A word with numbers: an `Order` or a `KDivision`; text such as `grouped(8)` is accepted too."""

    value: type[Order] | type[KDivision]
    enum: type[IntEnum]
    numbers: Callable[[Any], tuple[int, ...]]
    takes: Mapping[IntEnum, str]  # the numbers of the words that take any, for messages

    @property
    def form(self) -> str:
        return _alternatives(f"{kind}{self.takes.get(kind, '')}" for kind in self.enum)

    def check(self, value: Any) -> Order | KDivision:
        if isinstance(value, str):
            call = CALL.fullmatch(value)
            if call is None:
                raise TypeError
            numbers = [int(number) for number in call[2].split(",")] if call[2] else []
            kind = _word(self.enum, call[1])
            if len(numbers) > len(self.numbers(self.value(kind))):  # type: ignore[arg-type]
                raise ValueError(f"{len(numbers)} numbers")
            value = self.value(kind, *numbers)  # type: ignore[arg-type]
        if not isinstance(value, self.value) or not isinstance(value.kind, self.enum):
            raise TypeError
        for number in self.numbers(value):
            _integer(number)
        return value

    def encode(self, value: Order | KDivision) -> ir.Attribute:
        numbers = ir.DenseI64ArrayAttr.get(self.numbers(value))
        return ir.ArrayAttr.get([ir.StringAttr.get(str(value.kind)), numbers])

    def decode(self, attribute: ir.Attribute) -> Order | KDivision:
        word, numbers = ir.ArrayAttr(attribute)
        kind = self.enum[ir.StringAttr(word).value]
        return self.value(kind, *ir.DenseI64ArrayAttr(numbers))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Modes:
    """A permutation: an extent or a layout each for M, N and K."""

    form: str = "[M, N, K], each an extent or a layout"

    def text(self, value: tuple[Mode, ...]) -> str:
        return f"[{', '.join(_mode_text(mode) for mode in value)}]"

    def check(self, value: Any) -> tuple[Mode, ...]:
        modes = tuple(mode if isinstance(mode, Layout) else _integer(mode) for mode in _sequence(value))
        if len(modes) != 3:
            raise ValueError(f"{len(modes)} modes")
        return modes

    def encode(self, value: tuple[Mode, ...]) -> ir.Attribute:
        return ir.ArrayAttr.get(
            [layout_attr(mode) if isinstance(mode, Layout) else Integer().encode(mode) for mode in value]
        )

    def decode(self, attribute: ir.Attribute) -> tuple[Mode, ...]:
        modes = ir.ArrayAttr(attribute)
        return tuple(int(m.value) if isinstance(m, ir.IntegerAttr) else layout_of(m)[0] for m in modes)


@dataclass(frozen=True)
class OneLayout:
    """A layout by itself."""

    form: str

    def text(self, value: Layout) -> str:
        return _mode_text(value)

    def check(self, value: Any) -> Layout:
        if not isinstance(value, Layout):
            raise TypeError
        return value

    def encode(self, value: Layout) -> ir.Attribute:
        return layout_attr(value)

    def decode(self, attribute: ir.Attribute) -> Layout:
        return layout_of(attribute)[0]


ORDER = Call(
    Order,
    RasterKind,
    lambda order: (order.rows, order.columns),
    MappingProxyType({kind: ("", "(n)", "(m, n)")[RasterAttr.numbers_of(kind)] for kind in RasterKind}),
)
K_DIVISION = Call(
    KDivision,
    KDivisionKind,
    lambda division: (division.parts,),
    MappingProxyType({kind: "(n)" for kind, axes in AXES.items() if axes.cut is Cut.parts}),
)
SWIZZLE = Integers(3, "<B,M,S>")


def _mode_text(mode: Mode) -> str:
    if isinstance(mode, Layout):
        return f"#tile.layout<{mode.shape}:{mode.stride}>".replace(" ", "")
    return str(mode)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    if not -(2**63) <= value < 2**63:
        raise ValueError("more than 64 bits")
    return int(value)


def _sequence(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)):
        raise TypeError
    return tuple(value)


def _word(enum: type[IntEnum], value: Any) -> IntEnum:
    if isinstance(value, enum):
        return value
    if not isinstance(value, str):
        raise TypeError
    if value not in enum.__members__:
        raise ValueError(f"not {_alternatives(enum.__members__)}")
    return enum[value]


def _alternatives(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"
