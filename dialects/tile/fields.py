"""Values of a schedule's fields: their types in Python, and how each kind of field is checked, written and read.

Words are the enums of ODS. A `Kind` converts a user's value to the typed value, and the typed value to the form that
the attribute of a part uses: in `get`, and in the property of the field's name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from tensor_layouts import Layout

from lowtide.dialects._lowtide import KDivisionAttr, LayoutAttr, RasterAttr, SwizzleAttr, numbers_of_order
from lowtide.dialects._tile_enum_gen import KDivisionKind, RasterKind
from lowtide.dialects.tile.division import AXES, Cut, KDivision
from lowtide.dialects.tile.layouts import layout_attr, layout_of, swizzle_bits

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
        """The form of a value, for messages."""

    def check(self, value: Any) -> Any:
        """The typed value. Raises ValueError or TypeError for a value of another form."""

    def encode(self, value: Any) -> Any:
        """The argument of `get` for a checked value, in the current context."""

    def decode(self, held: Any) -> Any:
        """The value that an attribute holds."""

    def text(self, value: Any) -> str:
        """The value as the attribute prints it."""


class _Plain:
    """Kinds whose values are printed, and held by attributes, without a conversion."""

    def text(self, value: Any) -> str:
        return str(value)

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, held: Any) -> Any:
        return held


@dataclass(frozen=True)
class Integer(_Plain):
    form: str = "an integer"

    def check(self, value: Any) -> int:
        return _integer(value)


@dataclass(frozen=True)
class Integers(_Plain):
    """A fixed number of integers."""

    count: int
    form: str

    def text(self, value: tuple[int, ...]) -> str:
        return str(list(value))

    def check(self, value: Any) -> tuple[int, ...]:
        numbers = tuple(_integer(number) for number in _sequence(value))
        if len(numbers) != self.count:
            raise ValueError(f"{len(numbers)} numbers")
        return numbers


@dataclass(frozen=True)
class Swizzle(Integers):
    """The numbers of a swizzle."""

    count: int = 3
    form: str = "<B,M,S>"

    def text(self, value: tuple[int, ...]) -> str:
        return "<" + ",".join(map(str, value)) + ">"

    def encode(self, value: tuple[int, ...]) -> SwizzleAttr:
        return SwizzleAttr.get(*value)

    def decode(self, held: SwizzleAttr) -> tuple[int, ...]:
        return swizzle_bits(held)


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

    def decode(self, held: str) -> IntEnum:
        return self.enum[held]


@dataclass(frozen=True)
class Call(_Plain):
    """A word with numbers: an `Order` or a `KDivision`; text such as `grouped(8)` is accepted too."""

    value: type[Order] | type[KDivision]
    enum: type[IntEnum]
    attribute: type[RasterAttr] | type[KDivisionAttr]
    numbers: tuple[str, ...]  # the fields of the attribute that hold the numbers
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
            if len(numbers) > len(self.numbers):
                raise ValueError(f"{len(numbers)} numbers")
            value = self.value(kind, *numbers)  # type: ignore[arg-type]
        if not isinstance(value, self.value) or not isinstance(value.kind, self.enum):
            raise TypeError
        for number in astuple(value)[1:]:
            _integer(number)
        return value

    def encode(self, value: Order | KDivision) -> RasterAttr | KDivisionAttr:
        return self.attribute.get(*astuple(value))

    def decode(self, held: RasterAttr | KDivisionAttr) -> Order | KDivision:
        return self.value(self.enum[held.kind], *(getattr(held, name) for name in self.numbers))  # type: ignore[arg-type]


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

    def encode(self, value: tuple[Mode, ...]) -> list[int | LayoutAttr]:
        return [layout_attr(mode) if isinstance(mode, Layout) else mode for mode in value]

    def decode(self, held: tuple[int | LayoutAttr, ...]) -> tuple[Mode, ...]:
        return tuple(mode if isinstance(mode, int) else layout_of(mode)[0] for mode in held)


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

    def encode(self, value: Layout) -> LayoutAttr:
        return layout_attr(value)

    def decode(self, held: LayoutAttr) -> Layout:
        return layout_of(held)[0]


ORDER = Call(
    Order,
    RasterKind,
    RasterAttr,
    ("group", "columns"),
    MappingProxyType({kind: ("", "(n)", "(m, n)")[numbers_of_order(kind)] for kind in RasterKind}),
)
K_DIVISION = Call(
    KDivision,
    KDivisionKind,
    KDivisionAttr,
    ("parts",),
    MappingProxyType({kind: "(n)" for kind, axes in AXES.items() if axes.cut is Cut.parts}),
)
SWIZZLE = Swizzle()


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
