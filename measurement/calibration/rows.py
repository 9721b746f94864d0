"""Files of the measurements that the cost model is fitted to, in benchmarks/results/calibration/.

A file has the measurements of one GPU. It has a table of schedules, with the numbers that the estimate reads, so no
MLIR is needed to read it. For each shape, it has the microseconds of torch and of some of these schedules in each
round.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowtide.errors import Error
from lowtide.passes.schedules.cost.grids import Grid

_FIELDS = Grid._fields
FEWEST_ROUNDS = 3  # of a schedule on a shape


@dataclass(frozen=True)
class Form:
    """A schedule. `text`: the fields that matter, as `Schedule.parse` takes them. `known`: the extents that are
    known when it is compiled, such as "mnk"; "" if there are none. `grid`: of the product as the kernel computes it."""

    text: str
    known: str
    grid: Grid

    @property
    def is_swapped(self) -> bool:
        """Whether A and B change places."""
        return "operands=swapped" in self.text

    @property
    def stores_columns(self) -> bool:
        """Whether threads store a D by columns element by element."""
        return self.is_swapped and "epilogue.path=direct" in self.text

    @property
    def stores_early(self) -> bool:
        """Whether the first rows of a tile are stored while its last K step multiplies."""
        return "epilogue.start=first_rows" in self.text


@dataclass(frozen=True)
class Shape:
    """A product of matrices of one type, and its times. `source`: the origin of N and K. `torch`, `microseconds`: a
    time for each round, of torch and of each schedule by its number in the table."""

    m: int
    n: int
    k: int
    layout: str
    dtype: str
    source: str
    torch: tuple[float, ...]
    microseconds: dict[int, tuple[float, ...]]


@dataclass(frozen=True)
class Rows:
    """One file. `date`: YYYY-MM-DD. `seed`: of the draw of shapes; "" if they were chosen. `weight`: of each
    shape in a fit; a chosen shape may represent several similar ones. `clipped`: whether the TMA boxes of its kernels
    have only the rows that exist; older kernels loaded whole boxes."""

    device: str
    date: str
    command: str
    software: str
    commit: str
    seed: str
    forms: tuple[Form, ...]
    shapes: tuple[Shape, ...]
    weight: int = 1
    clipped: bool = False

    def text(self) -> str:
        """The text of the file, with a line for each schedule and for each shape."""
        head = {name: value for name, value in asdict(self).items() if isinstance(value, str)}
        lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
        lines += [f'"weight": {self.weight}', f'"clipped": {json.dumps(self.clipped)}']
        lines.append(f'"grid": {json.dumps(_FIELDS)}')
        lines.append(_listed("schedules", [[one.text, one.known, [int(x) for x in one.grid]] for one in self.forms]))
        lines.append(_listed("shapes", [_to_json(one) for one in self.shapes]))
        return "{\n" + ",\n".join(lines) + "\n}\n"


def _listed(name: str, values: list[Any]) -> str:
    return f'"{name}": [\n' + ",\n".join(json.dumps(one, separators=(",", ":")) for one in values) + "\n]"


def _to_json(shape: Shape) -> list[Any]:
    timed = [[number, *times] for number, times in shape.microseconds.items()]
    extents = (shape.m, shape.n, shape.k)
    return [*extents, shape.layout, shape.dtype, shape.source, list(shape.torch), timed]


def _of_json(held: list[Any]) -> Shape:
    m, n, k, layout, dtype, source, torch, timed = held
    return Shape(m, n, k, layout, dtype, source, tuple(torch), {number: tuple(times) for number, *times in timed})


def load(path: Path) -> Rows:
    """Raises Error for a file that has no such rows."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if tuple(held.pop("grid")) != _FIELDS:
            raise ValueError(f"its grids are not of the fields {', '.join(_FIELDS)}")
        forms = tuple(Form(text, known, Grid._make(numbers)) for text, known, numbers in held.pop("schedules"))
        shapes = tuple(map(_of_json, held.pop("shapes")))
        if any(number not in range(len(forms)) for shape in shapes for number in shape.microseconds):
            raise ValueError("a shape names a schedule that is not in the table")
        if any(len(times) < FEWEST_ROUNDS for shape in shapes for times in shape.microseconds.values()):
            raise ValueError(f"a schedule has fewer than {FEWEST_ROUNDS} rounds")
        return Rows(**held, forms=forms, shapes=shapes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Error(
            f"{path} has no rows of a calibration: {error}; write one by `benchmarks/calibrate.py record` "
            "[calibration-rows]"
        ) from None
