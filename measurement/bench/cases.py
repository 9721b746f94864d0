"""Cases of a table: one problem each, with kernels that race against torch.matmul and cuBLASLt's best algorithm.

A kernel that is refused, wrong or fails is a row with the reason; so is a case that cannot run at all.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.errors import Error
from lowtide.measurement.bench.contest import Contest, Standings, interval, rates
from lowtide.measurement.bench.gpu_timing import KINDS, Contender, ratio, spread
from lowtide.measurement.bench.parallel import Compilers

Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """A kernel: its name in tables, its target, and its schedule as text, or None for the chosen one."""

    name: str
    target: str
    schedule: str | None = None


@dataclass(frozen=True)
class Case:
    """One problem and its kernels."""

    spec: GemmSpec
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """`4096×4096×4096 bf16`, for a batch `4 × 4096×4096×4096 bf16`; with accumulators and layout if they are not
        the usual ones."""
        spec = self.spec
        shape = (f"{spec.batch} × " if spec.is_batched else "") + "×".join(map(str, (spec.m, spec.n, spec.k)))
        usual = spec.acc == element_type(spec.a).computes_in or not element_type(spec.a).is_float
        sums = "" if usual else f", {spec.acc} sums"
        return f"{shape} {types_text(spec)}{sums}" + (f" {spec.layout}" if spec.layout != "tn" else "")


def types_text(spec: GemmSpec) -> str:
    """`bf16`, `e4m3 to bf16`, `f32 by tf32x3`."""
    text = spec.a if spec.d == spec.a else f"{spec.a} to {spec.d}"
    return text if spec.precision is None else f"{text} by {spec.precision}"


@dataclass(frozen=True)
class Outcome:
    """The result of a case: the standings, or None; and the reasons for missing rows, by name, or "" for all rows."""

    case: Case
    standings: Standings | None
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def request(cases: Iterable[Case], compilers: Compilers) -> None:
    """Start compiling the kernels of the cases."""
    for case in cases:
        for entry in case.entries:
            compilers.request(case.spec, entry.target, entry.schedule)


def run_case(
    case: Case, compilers: Compilers, rounds: int, seed: int, algorithms: int, finalists: int, say: Say
) -> Outcome:
    """Time a case, with `finalists` of at most `algorithms` of cuBLASLt's."""
    reasons: dict[str, str] = {}
    try:
        with Contest(case.spec, seed, say) as contest:
            for entry in case.entries:
                try:
                    kernel = compilers.kernel(case.spec, entry.target, entry.schedule)
                except Error as error:
                    reasons[entry.name] = _first_line(f"refused: {error}")
                    say(f"{entry.name}: {reasons[entry.name]}")
                    continue
                say(f"{entry.name}: {' '.join(kernel.manifest['schedule'].split())}")
                contest.add_kernel(entry.name, kernel)
            standings = contest.run(rounds, algorithms, finalists)
            reasons |= {name: _first_line(f"wrong: {found}") for name, found in standings.left_out.items()}
    # Errors of torch and CUDA are not lowtide.Errors; the other cases still run.
    except Exception as error:
        say(f"{case.title}: not run: {error}")
        return Outcome(case, None, {"": _first_line(f"not run: {error}")})
    return Outcome(case, standings, reasons)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


SPEED_HEADINGS = (
    "case",
    "contender",
    "sustained µs",
    *(f"{kind} {column}" for kind in KINDS for column in ("TFLOP/s", "to torch", "to the better")),
)


def speed_rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Rows under SPEED_HEADINGS, one per contender of each case: medians, with (least … greatest)."""
    rows = []
    for outcome in outcomes:
        title, standings = outcome.case.title, outcome.standings
        blank = [""] * (len(SPEED_HEADINGS) - 3)
        if standings is None:
            rows.append((title, "all", outcome.reasons[""], *blank))
            continue
        peers = [(standings.torch.name, dict.fromkeys(KINDS, standings.torch))]
        bests = {kind: best for kind in KINDS if (best := standings.best_cublaslt(kind)) is not None}
        if bests:
            name = f"cuBLASLt best of {standings.offered} ({short_name(bests[KINDS[0]].name)})"
            peers.append((name, bests))
        ours = {one.name: dict.fromkeys(KINDS, one) for one in standings.others}
        for name, by_kind in peers:
            rows.append((title, name, *_figures(by_kind, standings)))
        for entry in outcome.case.entries:
            cells = (
                _figures(ours[entry.name], standings) if entry.name in ours else [outcome.reasons[entry.name], *blank]
            )
            rows.append((title, entry.name, *cells))
    return rows


def _figures(by_kind: Mapping[str, Contender], standings: Standings) -> list[str]:
    cells = [f"{1e6 * statistics.median(by_kind[KINDS[0]].seconds(KINDS[0])):.1f}"]
    for kind in KINDS:
        one = by_kind[kind]
        cells += [
            rates(spread(one.seconds(kind), standings.flops)),
            interval(ratio(one, standings.torch, kind), 3),
            interval(ratio(one, standings.better_peer(kind), kind), 3),
        ]
    return cells


def short_name(algorithm: str) -> str:
    """The tile, cluster and split-K of a cuBLASLt algorithm."""
    return ", ".join(part for part in algorithm.split(", ") if part.startswith(("tile", "cluster", "split")))
