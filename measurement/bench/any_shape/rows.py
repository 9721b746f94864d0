"""The row of a shape in a file of results. Reports and verdicts are made from rows.

A line of the journal has the seconds of all rounds. A row has the ratio of each pair of contenders: the median over
the rounds, with its interval.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.measurement.bench.any_shape.statistics import Interval, median_interval

# Names of contenders.
TORCH, CUBLASLT, BEST_PEER = "torch", "cuBLASLt", "the best peer"
OWN, MATMUL = "own", "lt.matmul"
OLD, NEW = "old", "new"  # own kernels of two commits
_OURS = (OWN, MATMUL, OLD, NEW)
# Pairs of contenders. If a ratio is above 1, the first is faster.
PAIRS = (
    (OWN, TORCH),
    (MATMUL, TORCH),
    (MATMUL, OWN),
    (CUBLASLT, TORCH),
    (OWN, CUBLASLT),
    (OWN, BEST_PEER),
    (NEW, OLD),
    (NEW, TORCH),
)
_FIRST, _LAST = ("shapes", "M×N×K", "N and K from", "torch µs"), ("failed", "reason")
_SCHEDULE = "schedule of "
# Fields of the grid, the ring, the consumers and the stores, without those that nearly all kernels have.
_SHOWN = (r"grid = <(.*?)>", r"mainloop = <(k = .*?, stages = \d+)", r"(consumer = <.*?>)", r"epilogue = <(path = \w+)")
_NOT_SHOWN = re.compile(r", (?:launch|registers) = \w+|, scheduler = persistent")
_PACKED = re.compile(r"\b(a|b|epilogue) = <(?:[^<>]|<[^<>]*>)*pack = (?!none)(\w+)")

Pair = tuple[str, str]


@dataclass(frozen=True)
class Row:
    """`population`: the kind of draw. `ratios`: of the pairs that raced. `failed`: why contenders have no time, by
    name; "" stands for all. `reason`: why the own kernel has its tile."""

    population: str
    shape: str
    source: str
    microseconds: float | None
    ratios: Mapping[Pair, Interval]
    failed: Mapping[str, str]
    schedules: Mapping[str, str]
    reason: str

    def lacks(self, pair: Pair) -> bool:
        """Whether a ratio is missing because one of the two contenders, or the whole shape, failed."""
        return pair not in self.ratios and any(name in ("", *pair) for name in self.failed)


def row_of(line: Mapping[str, Any]) -> Row:
    """The row of a journal's line."""
    seconds: Mapping[str, Sequence[float]] = line["seconds"]
    has_several_peers = sum(name not in _OURS for name in seconds) > 1
    ratios = ratios_of(with_best_peer(seconds) if has_several_peers else seconds)
    if line.get("equal"):
        ratios[NEW, OLD] = (1.0, 1.0, 1.0)
    torch = 1e6 * statistics.median(seconds[TORCH]) if TORCH in seconds else None
    shape = (line["population"], line["shape"], line["source"])
    schedules = {name: short(text) for name, text in line["schedules"].items()}
    return Row(*shape, torch, ratios, line["failed"], schedules, line["reason"])


def short(schedule: str) -> str:
    """The fields of a schedule that affect its speed most. A text without such fields is not changed."""
    parts = (re.search(rf"\b{part}", _NOT_SHOWN.sub("", schedule)) for part in _SHOWN)
    packed = [f"{name}.pack = {how}" for name, how in _PACKED.findall(schedule)]
    return "; ".join([*(found[1] for found in parts if found), *packed]) or schedule


def with_best_peer(seconds: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """The times by contender. If there is a peer, `BEST_PEER` has the times of the peer with the least median, too."""
    peers = [times for name, times in seconds.items() if name not in _OURS]
    return {**seconds, BEST_PEER: min(peers, key=statistics.median)} if peers else dict(seconds)


def ratios_of(seconds: Mapping[str, Sequence[float]]) -> dict[Pair, Interval]:
    """The ratio of each pair of `PAIRS` whose contenders both raced: the median over the rounds, with its interval.
    `seconds`: by contender, one entry for each round."""
    raced = [(one, other) for one, other in PAIRS if one in seconds and other in seconds]
    of_rounds = ([y / x for x, y in zip(seconds[one], seconds[other], strict=True)] for one, other in raced)
    return dict(zip(raced, map(median_interval, of_rounds), strict=True))


def columns_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of a file with these rows, without pairs and schedules that no row has."""
    pairs = [pair for pair in PAIRS if any(pair in row.ratios for row in rows)]
    schedules = dict.fromkeys(name for row in rows for name in row.schedules)
    return (*_FIRST, *map(_column, pairs), *(f"{_SCHEDULE}{name}" for name in schedules), *_LAST)


def cells_of(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """The cells as benchmarks/record.py reads them."""
    ratios = {_column(pair): "{:.3f} ({:.3f} … {:.3f})".format(*ratio) for pair, ratio in row.ratios.items()}
    time = "" if row.microseconds is None else f"{row.microseconds:.1f}"
    failed = "; ".join(f"{name or 'all'}: {_first_clause(why)}" for name, why in row.failed.items())
    named = dict(zip(_FIRST, (row.population, row.shape, row.source, time), strict=True)) | ratios
    named |= {f"{_SCHEDULE}{name}": text for name, text in row.schedules.items()}
    named |= {"failed": failed, "reason": row.reason}
    return tuple(named.get(column, "") for column in columns)


def row_from(columns: Sequence[str], cells: Sequence[Any]) -> Row:
    """The inverse of `cells_of`, from cells that benchmarks/record.py has read."""
    named = dict(zip(columns, cells, strict=True))
    found = {pair: named[column] for pair in PAIRS if isinstance(named.get(column := _column(pair)), list)}
    ratios: dict[Pair, Interval] = {pair: (float(x), float(y), float(z)) for pair, (x, y, z) in found.items()}
    parts = [part.partition(": ") for part in str(named["failed"]).split("; ") if part]
    failed = {"" if name == "all" else name: why for name, _, why in parts}
    schedules = {
        column.removeprefix(_SCHEDULE): str(named[column]) for column in columns if column.startswith(_SCHEDULE)
    }
    time = named[_FIRST[3]]
    population, shape, source = (str(named[column]) for column in _FIRST[:3])
    microseconds = None if time == "" else float(time)
    return Row(population, shape, source, microseconds, ratios, failed, schedules, str(named["reason"]))


def _column(pair: Pair) -> str:
    return "{} to {}".format(*pair)


def _first_clause(text: str) -> str:
    return text.strip().partition("\n")[0].partition("; ")[0]
