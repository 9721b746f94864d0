"""The row of a cell in the file of results. Reports and verdicts are made from rows."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.measurement.bench.any_shape.rows import CUBLASLT, OWN, ratios_of, short, with_best_peer
from lowtide.measurement.bench.any_shape.statistics import Interval
from lowtide.measurement.bench.corners.precision import RATIO

COLUMNS = (
    "type",
    "layout",
    "M×N×K",
    "µs",
    "TFLOP/s",
    "the better peer",
    "ratio",
    "rounds",
    "GPU",
    "commit",
    "date",
    "failed",
    "schedule",
)
NO_PEER = "none"


@dataclass(frozen=True)
class Corner:
    """`microseconds`, `teraflops`: of Lowtide's kernel; None if it failed. `peer`: the faster peer; "none" if no peer
    multiplies the cell. `ratio`: the time of the peer, divided by that of Lowtide's kernel; the median with its
    interval. `failed`: why contenders have no time."""

    kind: str
    layout: str
    shape: str
    microseconds: float | None
    teraflops: float | None
    peer: str
    ratio: Interval | None
    rounds: int
    card: str
    commit: str
    date: str
    failed: str
    schedule: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.layout, self.shape

    @property
    def name(self) -> str:
        """As `Cell.name`."""
        return "-".join(self.key).replace(" ", "-").replace("×", "x")

    @property
    def counts(self) -> bool:
        """Whether verdicts include this cell: it has a peer, or it failed."""
        return self.ratio is not None or self.peer != NO_PEER or self.microseconds is None


def corner_of(line: Mapping[str, Any]) -> Corner:
    """The row of a line of the journal."""
    seconds: Mapping[str, Sequence[float]] = line["seconds"]
    own, peers = seconds.get(OWN), {name: times for name, times in seconds.items() if name != OWN}
    peer = min(peers, key=lambda name: statistics.median(peers[name])) if peers else NO_PEER
    time = statistics.median(own) if own else None
    return Corner(
        kind=line["population"],
        layout=line["layout"],
        shape=line["shape"],
        microseconds=1e6 * time if time else None,
        teraflops=2.0 * line["m"] * line["n"] * line["k"] / time / 1e12 if time else None,
        peer=f"{peer}: {line['cublaslt']}" if peer == CUBLASLT else peer,
        ratio=ratios_of(with_best_peer(seconds)).get(RATIO) if own else None,
        rounds=max(map(len, seconds.values()), default=0),
        card=line["card"],
        commit=line["commit"],
        date=line["date"],
        failed="; ".join(f"{name or 'all'}: {why.strip().splitlines()[0]}" for name, why in line["failed"].items()),
        schedule=short(line["schedules"].get(OWN, "")),
    )


def texts_of(row: Corner) -> tuple[str, ...]:
    """The cells under COLUMNS, as benchmarks/record.py reads them."""
    time = "" if row.microseconds is None else f"{row.microseconds:.1f}"
    rate = "" if row.teraflops is None else f"{row.teraflops:.1f}"
    ratio = "" if row.ratio is None else "{:.3f} ({:.3f} … {:.3f})".format(*row.ratio)
    about = (row.card, row.commit, row.date, row.failed, row.schedule)
    return (*row.key, time, rate, row.peer, ratio, str(row.rounds), *about)


def corner_from(cells: Sequence[Any]) -> Corner:
    """The inverse of `texts_of`, from cells that benchmarks/record.py has read."""
    kind, layout, shape, time, rate, peer, ratio, rounds, *about = cells
    median = tuple(map(float, ratio)) if isinstance(ratio, list) else None
    numbers = (None if time == "" else float(time), None if rate == "" else float(rate))
    head = (str(kind), str(layout), str(shape), *numbers, str(peer))
    return Corner(*head, median, int(rounds), *map(str, about))  # type: ignore[arg-type]
