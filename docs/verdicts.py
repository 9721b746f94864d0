"""The tables of measurements on the pages: from the files of benchmarks/results/, into marked blocks.

A block begins with `<!-- results: NAME -->` and ends with `<!-- end of results -->`. NAME is

- that of a file: its table, as it stands;
- `area NAME`: the verdicts of all files of that area, a row for each kernel;
- `cases NAME`: the same, of files that hold only some of the cases that were measured;
- `summary`: a row for each `area` of the page.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from record import Cell, Result, printed

OURS = "Lowtide"
# The peers that a ratio names; their own rows are not shown.
_REFERENCES = ("torch", "cuBLASLt")
# Medians of sustained speeds differ by 1 to 2 % between processes.
FASTER, SLOWER = Decimal("1.02"), Decimal("0.98")
_RATIO = re.compile(r"(sustained|burst) (?:to|µs of) (.*)")
_BLOCK = re.compile(r"(?s)(<!-- results: ([^\n]*) -->\n).*?(<!-- end of results -->)")


@dataclass(frozen=True)
class Verdict:
    """A contender in one case of a run. `ratios`: by peer, sustained and in bursts, as text; "" if not measured."""

    case: str
    contender: str
    microseconds: str
    ratios: Mapping[str, tuple[str, str]]

    @property
    def ratio(self) -> Decimal | None:
        """Sustained, to the peer that was the fastest; None where only bursts were measured, or for a peer."""
        found = [Decimal(sustained) for sustained, _ in self.ratios.values() if sustained]
        return min(found, default=None) if self.contender.startswith(OURS) else None

    @property
    def word(self) -> str:
        ratio = self.ratio
        if ratio is None:
            return ""
        return "faster" if ratio >= FASTER else "**slower**" if ratio < SLOWER else "level"


def verdicts(result: Result) -> Iterator[Verdict]:
    """The rows of a run, without those of the peers to which the ratios are."""
    peers = dict.fromkeys(found[2] for column in result.columns if (found := _RATIO.fullmatch(column)))
    for row in result.rows:
        cells = dict(zip(result.columns, row, strict=True))
        contender = str(cells["contender"])
        if not contender.startswith(_REFERENCES):
            ratios = {peer: (_ratio(cells, "sustained", peer), _ratio(cells, "burst", peer)) for peer in peers}
            time = printed(cells.get("sustained µs", ""), intervals=False)
            yield Verdict(str(cells["case"]), contender, time, ratios)


def _ratio(cells: Mapping[str, Cell], kind: str, peer: str) -> str:
    """The median as it was measured, else that of two times."""
    if found := printed(cells.get(f"{kind} to {peer}", ""), intervals=False):
        return found
    times = [_median(cells.get(column, "")) for column in (f"{kind} µs of {peer}", f"{kind} µs")]
    return "" if None in times else f"{times[0] / times[1]:.2f}"  # type: ignore[operator]


def _median(cell: Cell) -> Decimal | None:
    value = cell[0] if isinstance(cell, list) else cell
    return value if isinstance(value, Decimal) else None


def area_table(results: Mapping[str, Result], area: str) -> str:
    """The verdicts of an area, then its runs: device, date, rounds, command and file of each."""
    runs = {name: list(verdicts(result)) for name, result in _of_area(results, area).items()}
    every = [one for run in runs.values() for one in run]
    peers = sorted(dict.fromkeys(peer for one in every for peer in one.ratios), key=lambda peer: peer != "torch")
    timed = any(one.microseconds for one in every)
    columns = ["case", "kernel", *(["µs"] if timed else []), *(f"to {peer}" for peer in peers), "verdict", "run"]
    rows = []
    for number, (name, run) in enumerate(runs.items(), 1):
        gpu = results[name].device.removeprefix("NVIDIA ")
        for one in run:
            cells = [" / ".join(filter(None, one.ratios.get(peer, ()))) for peer in peers]
            time = [one.microseconds] if timed else []
            kernel = one.contender.removeprefix(f"{OURS}, ")
            rows.append([one.case, kernel, *time, *cells, one.word, f"{gpu}, {number}"])
    notes = [f"{number}. {caption(name, results[name])}" for number, name in enumerate(runs, 1)]
    return markdown(columns, rows) + "\n\n" + "\n".join(notes) + "\n"


def _of_area(results: Mapping[str, Result], area: str) -> dict[str, Result]:
    """The newest first."""
    found = {name: result for name, result in sorted(results.items()) if result.area == area}
    if not found:
        raise ValueError(f"no file of benchmarks/results/ is of the area {area!r}")
    return dict(sorted(found.items(), key=lambda item: item[1].date, reverse=True))


def caption(name: str, result: Result) -> str:
    """Where, when and how a run was made, with its file."""
    rounds = f"{result.rounds} rounds" if result.rounds else ""
    lost = result.command.startswith("not recorded")
    command = f"the command is {result.command}" if lost else f"`{result.command}`"
    commit, seed = (f"{name} {of}" if of else "" for name, of in (("commit", result.commit), ("seed", result.seed)))
    parts = [result.device, result.date.replace("/", " to "), rounds, result.software, commit, seed, command]
    about = f"; {result.about}" if result.about else ""
    return ", ".join(filter(None, parts)) + f" ([data](../benchmarks/results/{name}.json){about})."


def summary_table(results: Mapping[str, Result], page: str) -> str:
    """For each area of a page: how many kernels are faster, level or slower than the fastest peer, and by how much."""
    rows = []
    for heading, area in re.findall(r"(?m)^### (.*)\n(?:(?!### ).*\n)*?<!-- results: area (\S+) -->$", page):
        every = _newest(_of_area(results, area).values())
        # Kernels on mma.sync beside others on wgmma are there for comparison.
        every = [one for one in every if one.contender.startswith(f"{OURS},")] or every
        ours = [(one.ratio, one) for one in every if one.ratio is not None]
        mean = math.exp(sum(math.log(ratio) for ratio, _ in ours) / len(ours))
        words = [one.word.strip("*") for _, one in ours]
        least, worst = min(ours, key=lambda pair: pair[0])
        counts = [str(words.count(word)) for word in ("faster", "level", "slower")]
        link = f"[{heading}](#{anchor(heading)})"
        rows.append([link, f"{mean:.3f}", *counts, f"{least}: {worst.case}"])
    return markdown(["kernels", "geometric mean", "faster", "level", "slower", "the slowest"], rows) + "\n"


def _newest(runs: Iterable[Result]) -> list[Verdict]:
    """Of runs, the newest first: all rows, but none of a case that was measured again on a later day on such a GPU."""
    found, dates = [], {}
    for run in runs:
        for one in verdicts(run):
            if dates.setdefault((one.case, one.contender, run.device), run.date) == run.date:
                found.append(one)
    return found


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def file_table(name: str, result: Result) -> str:
    """A run as it stands: its caption, then all columns."""
    rows = [[printed(cell) for cell in row] for row in result.rows]
    return f"{caption(name, result)}\n\n{markdown(result.columns, rows)}\n"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def with_results(page: str, results: Mapping[str, Result]) -> str:
    """A page whose blocks hold what the files say. Raises ValueError for a block whose file is not there."""

    def filled(block: re.Match[str]) -> str:
        kind, _, rest = block[2].partition(" ")
        if kind == "summary":
            table = summary_table(results, page)
        elif kind in ("area", "cases"):
            table = area_table(results, rest)
        elif kind in results:
            table = file_table(kind, results[kind])
        else:
            raise ValueError(f"benchmarks/results/{kind}.json, which a page asks for, is not there")
        return f"{block[1]}{table}{block[3]}"

    return _BLOCK.sub(filled, page)
