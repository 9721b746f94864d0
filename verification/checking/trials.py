"""A trial: one run of a kernel's levels on random inputs, and its outcome at each level.

D is compared with that of the problem, interpreted in the same number domain: bit for bit in `field` and `exact`, and
in `float` with float64, within the derived bound. The interpreter refuses every access outside of a matrix, including
the padding of its rows, and confirms after the run that nothing but D has changed.
"""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import Any

import numpy as np

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError, InterpreterFault, IRError, NotInterpreted
from lowtide.interpreter import Explored, Explorer, Loaded, Paths, Report, Trace, explore
from lowtide.interpreter.numbers.domains import ExactDomain, FieldDomain, FloatDomain
from lowtide.verification.checking.interpretation import Batch, Placement, before, inputs_for, run, unset
from lowtide.verification.checking.places import ALIGNED, Place
from lowtide.verification.checking.reference import reference
from lowtide.verification.checking.runnable import runnable
from lowtide.verification.checking.tile_order import TileOrder
from lowtide.verification.checking.verdicts import Element, Results, Verdict, against_exact, against_float64

Extents = tuple[int, int, int]
Array = np.ndarray[Any, Any]

MOST_ORDERS, MOST_SECONDS = 500, 30.0
"""The limits on orders of agents and seconds for one run that does not speak for all orders."""

_OF_PLACE = ("rows", "bases", "batch strides")
_DEGREES = {"acc": 2, "operand": 1, "const": 0}


@dataclass(frozen=True)
class Trial:
    """M, N, K, the number of SMs, elements of padding after each row, the number domain, and the seed of the inputs and
    of the order of agents. `place`: the alignment of bases and rows of A, B and D. `batch`: the number and layout of
    matrices, if the problem has a batch. `ends`: where groups of rows end, if rows are grouped, or the rows of each
    matrix that count; drawn if it is None."""

    extents: Extents
    sms: int = 2
    padding: int = 8
    domain: str = FieldDomain.name
    seed: int = 0
    place: Place = ALIGNED
    batch: Batch | None = None
    ends: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shape = "x".join(map(str, self.extents))
        plural = "" if self.sms == 1 else "s"
        text = f"{shape} on {self.sms} SM{plural}, rows padded by {self.padding}, {self.domain}, seed {self.seed}"
        if self.place.of_matrices != ALIGNED.of_matrices:
            text += ", aligned to bytes: " + "; ".join(
                f"{name} {','.join(map(str, each))}"
                for name, each in zip(_OF_PLACE, self.place.of_matrices, strict=True)
            )
        text += "" if self.ends is None else f", groups ending at {', '.join(map(str, self.ends))}"
        return text if self.batch is None else f"{text}, {self.batch}"

    @property
    def options(self) -> list[str]:
        """The trial as options of `lowtide interpret`."""
        named = dict(zip(("m", "n", "k"), self.extents, strict=True))
        named |= {"sms": self.sms, "padding": self.padding, "seed": self.seed}
        texts = {name: str(value) for name, value in named.items()} | {"domain": self.domain}
        if self.batch is not None:
            texts |= {"batch": str(self.batch.matrices), "rows-between": str(self.batch.rows_between)}
            texts |= {"shared": ",".join(self.batch.shared)} if self.batch.shared else {}
        texts |= {} if self.ends is None else {"ends": ",".join(map(str, self.ends))}
        if self.place.of_matrices != ALIGNED.of_matrices:
            texts["aligned"] = ";".join(",".join(map(str, each)) for each in self.place.of_matrices)
        return [word for name, text in texts.items() for word in (f"--{name}", text)]

    @property
    def placement(self) -> Placement:
        """The places of its matrices."""
        return Placement(self.padding, batch=self.batch, ends=self.ends, **self.place.named)

    @property
    def how(self) -> dict[str, Any]:
        """The options of `run`, without those that it fills."""
        return {"sms": self.sms, "seed": self.seed, "domain": self.domain, "placement": self.placement}

    def inputs(self, spec: GemmSpec) -> dict[str, Any]:
        """Its random inputs, by name."""
        return inputs_for(spec, self.extents, self.domain, self.seed, self.placement)


class Finding(Enum):
    """The finding of a trial at a level.

    `wrong`: another D, or another order of work tiles than that of level cta. `broken`: a rule of the hardware, in this
    order of agents or, as far as can be told, in another. `unknown`: the interpreter cannot run it. `failed`: the
    interpreter itself failed.
    """

    right = "right"
    wrong = "wrong"
    broken = "broken"
    unknown = "unknown"
    failed = "interpreter failed"

    @property
    def is_fault(self) -> bool:
        return self in (Finding.wrong, Finding.broken)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial at a level: a sentence, the first wrong element, the seconds it took, the paths taken."""

    level: str
    trial: Trial
    finding: Finding
    message: str
    seconds: float = 0.0
    element: Element | None = None
    paths: Paths | None = None
    in_order: bool | None = None  # whether work tiles were computed in the order of level cta; None: not compared
    report: Report | None = None  # at levels nvvm to ptx: whether the run speaks for every order of agents
    explored: Explored | None = None  # the orders that were run if it does not


@dataclass(frozen=True)
class Source:
    """The text of a level, or of a step within it, and its file, if there is one.

    `host` is the module of level llvm, for level ptx.
    """

    level: str
    text: str
    name: str = ""
    host: str = ""


@lru_cache(maxsize=32)
def loaded(source: Source) -> Loaded:
    """A source in the form of the interpreter: parsed and decoded once for all trials. Raises IRError,
    InterpreterError.

    A caller with many trials calls `forget` after them.
    """
    return runnable(source.level, source.text, source.host, make_context(), source.name).source


@lru_cache(maxsize=4)
def _asked(problem: str) -> tuple[Loaded, GemmSpec]:
    """A problem in the form of the interpreter, and its spec: parsed once for all trials. Raises IRError."""
    module = parse_text(problem, make_context(), "<problem>")
    found = spec_of(module)
    if not found.whole:
        raise IRError("the problem's module does not say its epilogue; give one of level problem [problem-epilogue]")
    return Loaded(module), found.spec


def forget() -> None:
    """Drop what is kept between trials: sources and problems."""
    loaded.cache_clear()
    _asked.cache_clear()


def outcomes(
    problem: str, sources: Iterable[Source], trial: Trial, observe: bool = False, ordering: Source | None = None
) -> Iterator[Outcome]:
    """The outcomes of a trial for each source. `problem` is the text of a module that D must solve.

    With `observe`, the branches and loops of levels nvvm to ptx are recorded. `ordering` is the level with the order of
    work tiles, which other levels must keep.
    """
    module, spec = _asked(problem)
    inputs = trial.inputs(spec)
    try:
        expected = _expected(module, spec, inputs, trial)
    except NotInterpreted as error:
        yield from (Outcome(source.level, trial, Finding.unknown, str(error)) for source in sources)
        return
    for source in sources:
        paths = Paths() if observe and Level.named(source.level) >= Level.NVVM else None
        order = None if ordering is None or source.level == str(Level.PROBLEM) else _order_of(ordering, spec, trial)
        yield _outcome(source, spec, inputs, expected, trial, _Observed(paths, order))


@dataclass(frozen=True)
class _Observed:
    """Observations of a run beside D: its paths, and whether it keeps the order of work tiles."""

    paths: Paths | None
    order: TileOrder | None


@lru_cache(maxsize=64)
def _order_of(source: Source, spec: GemmSpec, trial: Trial) -> TileOrder | None:
    """The order of work tiles by the level that defines it; None if the level does not run."""
    trace = Trace()
    try:
        run(loaded(source), spec, unset(spec, trial.inputs(spec)), trace=trace, **trial.how)
        return TileOrder.of(trace)
    except InterpreterError:
        return None


def _outcome(
    source: Source, spec: GemmSpec, inputs: dict[str, Any], expected: Results | None, trial: Trial, observed: _Observed
) -> Outcome:
    started = time.perf_counter()
    ended = partial(Outcome, source.level, trial)
    inputs, paths, order = unset(spec, inputs), observed.paths, observed.order
    trace = None if order is None else Trace()
    try:
        module = loaded(source)
        report = Report()
        d = run(module, spec, inputs, paths=paths, report=report, trace=trace, **trial.how)
        verdict = _verdict(spec, inputs, d, expected)
        in_order, difference = None, ""
        if order is not None and trace is not None and (trace.work or order.stored is not None):
            difference = order.difference(trace)
            in_order = not difference
        explored = None
        if verdict.ok and not report.holds and not report.timed:
            explored = _explored(module, spec, inputs, expected, trial)
    except NotInterpreted as error:
        return ended(Finding.unknown, str(error))
    except InterpreterFault as error:
        return ended(Finding.failed, str(error))
    except InterpreterError as error:
        return ended(Finding.broken, str(error), time.perf_counter() - started)
    if verdict.ok and difference:
        message = f"the order of work tiles is not that of level {Level.CTA}: {difference}"
        return ended(Finding.wrong, message, time.perf_counter() - started, in_order=in_order)
    if verdict.ok and not report.holds:
        holds, why = explored is not None and explored.holds, str(explored or report)
        finding = Finding.right if holds else Finding.broken
        return ended(finding, why, time.perf_counter() - started, None, paths, in_order, report, explored)
    finding = Finding.right if verdict.ok else Finding.wrong
    return ended(finding, verdict.message, time.perf_counter() - started, verdict.element, paths, in_order, report)


def _verdict(spec: GemmSpec, inputs: dict[str, Any], d: Results, expected: Results | None) -> Verdict:
    if expected is not None:
        return against_exact(spec, inputs, d, expected)
    return against_float64(spec, inputs, d)


def _explored(
    module: Loaded, spec: GemmSpec, inputs: dict[str, Any], expected: Results | None, trial: Trial
) -> Explored:
    """The trial in every order of agents that differs in the result of a poll, within the limits."""

    def once(explorer: Explorer) -> None:
        report, own = Report(), unset(spec, inputs)
        d = run(module, spec, own, report=report, explorer=explorer, **trial.how)
        verdict = _verdict(spec, own, d, expected)
        if not verdict.ok or report.timed:
            raise InterpreterError(f"{'; '.join(report.timed) or verdict.message} [wrong-in-an-order]")

    return explore(once, MOST_ORDERS, MOST_SECONDS)


def _expected(module: Loaded, spec: GemmSpec, inputs: dict[str, Any], trial: Trial) -> Results | None:
    """The results of the problem in an exact domain; None in `float`.

    In `exact`, float64 is also exact on small integers, so it checks the interpreter's level problem independently.
    """
    if trial.domain == FloatDomain.name:
        return None
    found: Results = run(
        module, spec, unset(spec, inputs), Placement(batch=trial.batch), sms=1, seed=0, domain=trial.domain
    )
    return reference(spec, **inputs, **before(spec, inputs)) if trial.domain == ExactDomain.name else found


def first_fault(found: Iterable[Outcome]) -> Outcome | None:
    """The first that is wrong, or breaks a rule."""
    return next((outcome for outcome in found if outcome.finding.is_fault), None)


def domains_of(
    problem: str, extents: Extents, batch: Batch | None = None, ends: tuple[int, ...] | None = None
) -> tuple[str, ...]:
    """The number domains in which a problem has a value, the strongest check first; `float` is always among them.
    `ends`: the ends of groups. If no group has rows, no epilogue is computed, so each domain has a value."""
    found = []
    for name in (FieldDomain.name, ExactDomain.name):
        level = Source(str(Level.PROBLEM), problem)
        (outcome,) = outcomes(problem, [level], Trial(extents, domain=name, batch=batch, ends=ends))
        if outcome.finding is Finding.right:
            found.append(name)
    return (*found, FloatDomain.name)


def degree_of(spec: GemmSpec) -> int:
    """The largest degree of a full result as a polynomial of A, B and the operands, if it is one: at most the sum over
    each product."""
    degrees: dict[int, int] = {}
    for node in spec.epilogue_graph.nodes:
        own = [degrees[id(other)] for other in node.inputs]
        if node.op in _DEGREES:
            degrees[id(node)] = _DEGREES[node.op]
        else:
            degrees[id(node)] = sum(own) if node.op in ("mul", "div", "div_approx") else max(own, default=0)
    return max(degrees[id(node)] for _, node in spec.epilogue_graph.results)


def op_in(message: str) -> str:
    """The op that a message of the interpreter names, and its location; "" for none."""
    named = re.search(r"`([^`]+)` at loc\(\"([^\"]*)\":(\d+):(\d+)", message)
    if named is None:
        named = re.search(r"`([^`]+)` at ([^\s`]+\.ptx|<level ptx>):(\d+)", message)
    return "" if named is None else f"{named[1]} at {':'.join(named.groups()[1:])}"
