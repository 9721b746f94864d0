"""Random problems. A seed always draws the same shapes.

Half of the shapes take N and K from layers of models, which are read from a file. For the others, N and K are
log-uniform from LEAST to MOST, in multiples of STEP or of a larger step that torch needs. M is log-uniform from 1, and
can be odd. If A, B and D of a shape together exceed a number of bytes, or if the shape was drawn before, it is drawn
again.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import LAYOUTS, UNBATCHED
from lowtide.elements import element_type
from lowtide.errors import Error
from lowtide.measurement.bench import scaled

LEAST, MOST, STEP = 256, 32768, 8  # of N and K
MOST_ROWS = 16384
DTYPES = ("bf16", "f16", "e4m3")
PUBLIC = "public"  # the population of shapes that are given, not drawn
_BY_ROWS = "e4m3"  # with a scale for each row of A and each column of B, to bf16, as torch._scaled_mm takes it
_STEP_BY_ROWS = 16  # of torch._scaled_mm
_TRIES = 10_000

Layer = tuple[int, int, str]
"""N, K, and what the layer is."""


@dataclass(frozen=True)
class Drawn:
    """One product. `source`: the origin of N and K. `population`: the kind of draw; speed lines refer to it."""

    m: int
    n: int
    k: int
    batch: int | None
    dtype: str
    layout: str
    source: str
    population: str

    @property
    def shape(self) -> str:
        """`65×14336×4096`; of a batch, `8 of 65×14336×4096`."""
        of = "" if self.batch is None else f"{self.batch} of "
        return f"{of}{self.m}×{self.n}×{self.k}"

    @property
    def name(self) -> str:
        """A name for files, without spaces: `bf16-tn-65x14336x4096`."""
        return f"{self.dtype}-{self.layout}-{self.shape.replace(' ', '').replace('×', 'x')}"

    @property
    def is_scaled(self) -> bool:
        """Whether its A and B have scales by rows and columns."""
        return self.dtype == _BY_ROWS

    @property
    def has_peers(self) -> bool:
        """Whether torch and cuBLASLt multiply it."""
        return True

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * (self.batch or 1)

    @property
    def spec(self) -> GemmSpec:
        """The problem with known extents. 8-bit floats are summed in f32."""
        if self.is_scaled:
            return scaled.problem((self.m, self.n, self.k), "f32", "rows")
        batch = UNBATCHED if self.batch is None else self.batch
        types = {name: self.dtype for name in "abd"}
        return GemmSpec(m=self.m, n=self.n, k=self.k, batch=batch, layout=self.layout, **types)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Draw:
    """`count`: the number of shapes for each type and layout. `most_rows`: the largest M. `most_batch`: the largest
    batch, at least 2; 0 for single products. `most_bytes`: of A, B and D. `public`: whether the shapes are given, not
    drawn.

    Raises Error for values that cannot be drawn.
    """

    seed: int
    count: int = 100
    layouts: tuple[str, ...] = ("tn",)
    dtypes: tuple[str, ...] = ("bf16",)
    most_rows: int = MOST_ROWS
    most_batch: int = 0
    most_bytes: int = 2 << 30
    public: bool = False

    def __post_init__(self) -> None:
        unknown = [word for word in self.layouts if word not in LAYOUTS]
        unknown += [word for word in self.dtypes if word not in DTYPES]
        if unknown or not self.layouts or not self.dtypes:
            raise Error(
                f"a draw is of the layouts {', '.join(LAYOUTS)} and the types {', '.join(DTYPES)}; "
                f"{unknown[0] if unknown else 'none'} is not among them [draw-words]"
            )
        if self.count < 1 or self.most_rows < 1 or self.most_batch not in (0, *range(2, 1025)):
            raise Error(
                f"count = {self.count}, rows = {self.most_rows}, batch = {self.most_batch}: give a count and rows of"
                " at least 1, and a batch of 2 to 1024, or none [draw-numbers]"
            )
        if _BY_ROWS in self.dtypes and (self.layouts != ("tn",) or self.most_batch):
            raise Error(
                f"torch multiplies {_BY_ROWS} with scales by rows only in tn and without a batch; draw it alone in tn "
                "[draw-scaled]"
            )

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Draw":
        """The inverse of `to_json`. Raises TypeError for other fields, and Error."""
        fields: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in held.items()}
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def population(self, dtype: str, layout: str) -> str:
        """`bf16 tn`; `e4m3 tn by rows`; `bf16 tn, batches`; `bf16 tn, M to 256`."""
        scales = " by rows" if dtype == _BY_ROWS else ""
        batches = ", batches" if self.most_batch else ""
        rows = "" if self.most_rows == MOST_ROWS else f", M to {self.most_rows}"
        return f"{dtype} {layout}{scales}{batches}{rows}"

    def shapes(self, layers: Sequence[Layer]) -> list[Drawn]:
        """The shapes. Types and layouts alternate, so the beginning of the list has about as many of each. Raises Error
        if there are fewer shapes than that."""
        drawn = [list(self._of(dtype, layout, layers)) for dtype in self.dtypes for layout in self.layouts]
        return [shape for one_of_each in zip(*drawn, strict=True) for shape in one_of_each]

    def _of(self, dtype: str, layout: str, layers: Sequence[Layer]) -> Iterator[Drawn]:
        population = self.population(dtype, layout)
        chance = random.Random(f"{self.seed} {population}")
        names: set[str] = set()
        for number in range(self.count):
            for _ in range(_TRIES):
                n, k, source = _of_layers(chance, layers) if number % 2 == 0 else _log_uniform(chance, dtype)
                batch = _whole(chance, 2, self.most_batch) if self.most_batch else None
                found = Drawn(_whole(chance, 1, self.most_rows), n, k, batch, dtype, layout, source, population)
                if _bytes_of(found) <= self.most_bytes and found.name not in names:
                    break
            else:
                raise Error(
                    f"{population}: there are not {self.count} shapes of at most {self.most_bytes} bytes; draw fewer,"
                    " or allow more bytes [draw-exhausted]"
                )
            names.add(found.name)
            yield found


def _of_layers(chance: random.Random, layers: Sequence[Layer]) -> Layer:
    """A layer of a model. All models have the same chance, whatever the number of their layers."""
    model = chance.choice(list(dict.fromkeys(_model(what) for _, _, what in layers)))
    return chance.choice([layer for layer in layers if _model(layer[2]) == model])


def _model(what: str) -> str:
    return what.partition(",")[0]


def _log_uniform(chance: random.Random, dtype: str) -> Layer:
    step = _STEP_BY_ROWS if dtype == _BY_ROWS else STEP
    n, k = (step * round(math.exp(chance.uniform(math.log(LEAST), math.log(MOST))) / step) for _ in range(2))
    return n, k, "log-uniform"


def _whole(chance: random.Random, least: int, most: int) -> int:
    """Log-uniform among the integers from `least` to `most`."""
    return min(most, int(math.exp(chance.uniform(math.log(least), math.log(most + 1)))))


def _bytes_of(one: Drawn) -> int:
    inputs = element_type(one.dtype).bytes * (one.m * one.k + one.n * one.k)
    return (one.batch or 1) * (inputs + element_type("bf16" if one.is_scaled else one.dtype).bytes * one.m * one.n)


def read_layers(path: Path) -> list[Layer]:
    """The lines `N K model, layer` of a file. Raises Error."""
    return [(int(n), int(k), what) for n, k, what in _lines(path, 3)]


def read_public(path: Path) -> list[Drawn]:
    """The lines `M N K type what` of a file. Raises Error."""
    return [Drawn(int(m), int(n), int(k), None, dtype, "tn", what, PUBLIC) for m, n, k, dtype, what in _lines(path, 5)]


def _lines(path: Path, words: int) -> Iterator[list[str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror}; name a file of shapes [draw-file]") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(maxsplit=words - 1)
        if len(parts) != words or not all(part.isdecimal() for part in parts[: min(words - 1, 3)]):
            raise Error(f"{path}, line {number}: {line!r} is not {words} words that begin with extents [draw-line]")
        yield parts
