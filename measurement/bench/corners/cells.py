"""The table of corners. A cell is one type, one layout and one shape. Its race is that of a drawn shape."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Drawn

SHAPES = (
    (1024, 1024, 1024),
    (3000, 3000, 3000),
    (4096, 4096, 4096),
    (4104, 4104, 4104),
    (8192, 8192, 8192),
    (512, 512, 16384),
    (4096, 24576, 1536),
    (128, 28672, 4096),
)
_AS_TORCH = ("tn",)  # the layout of torch._scaled_mm and torch._int_mm


@dataclass(frozen=True)
class Kind:
    """The types of A and B, of the sums, and of D. `step`: torch and cuBLASLt take only multiples of it for N and K."""

    name: str
    dtype: str
    sums: str
    d: str
    layouts: tuple[str, ...] = LAYOUTS
    step: int = 8


KINDS = (
    Kind("bf16", "bf16", "f32", "bf16"),
    Kind("f16", "f16", "f32", "f16"),
    Kind("f16 sums", "f16", "f16", "f16"),
    Kind("tf32", "tf32", "f32", "f32"),
    Kind("f32", "f32", "f32", "f32"),
    Kind("f64", "f64", "f64", "f64"),
    Kind("e4m3 fast", "e4m3", "fast", "bf16", _AS_TORCH, 16),
    Kind("e4m3 two-level", "e4m3", "f32", "bf16", _AS_TORCH, 16),
    Kind("s8", "s8", "s32", "s32", _AS_TORCH),
)


@dataclass(frozen=True)
class Cell(Drawn):
    """A shape with the types of its sums and of D. The population is the name of its kind. `step`: see `Kind`."""

    sums: str
    d: str
    step: int

    @property
    def name(self) -> str:
        """For instance `f16-sums-tn-4096x4096x4096`."""
        return f"{self.population.replace(' ', '-')}-{self.layout}-{self.m}x{self.n}x{self.k}"

    @property
    def is_scaled(self) -> bool:
        """False: 8-bit floats have no scales here."""
        return False

    @property
    def has_peers(self) -> bool:
        return self.n % self.step == 0 and self.k % self.step == 0

    @property
    def spec(self) -> GemmSpec:
        """The problem with known extents."""
        types = {"a": self.dtype, "b": self.dtype, "d": self.d, "acc": self.sums}
        return GemmSpec(m=self.m, n=self.n, k=self.k, layout=self.layout, **types)  # type: ignore[arg-type]


def cells() -> list[Cell]:
    """All cells, in the order of the table."""
    return [
        Cell(*shape, None, kind.dtype, layout, "the corners", kind.name, kind.sums, kind.d, kind.step)
        for kind in KINDS
        for layout in kind.layouts
        for shape in SHAPES
    ]


def in_drawn_order(seed: int) -> list[Cell]:
    """All cells in a random order. Each part of the list has about the same share of each kind's cells, so a run that
    is cut short covers all kinds."""
    chance, placed = random.Random(seed), []
    for kind in KINDS:
        own = [cell for cell in cells() if cell.population == kind.name]
        chance.shuffle(own)
        placed += [((number + chance.random()) / len(own), cell.name, cell) for number, cell in enumerate(own)]
    return [cell for _, _, cell in sorted(placed, key=lambda one: one[:2])]


def matching(patterns: Sequence[str], of: Sequence[Cell]) -> list[Cell]:
    """The cells whose names match one of the patterns, with `*` for any text; all cells without patterns. Raises Error
    for a pattern that matches no name."""
    for pattern in patterns:
        if not any(fnmatchcase(cell.name, pattern) for cell in of):
            raise Error(
                f"no cell matches {pattern!r}; names are such as {of[0].name}, try *{pattern}* [corner-pattern]"
            )
    return [cell for cell in of if not patterns or any(fnmatchcase(cell.name, pattern) for pattern in patterns)]
