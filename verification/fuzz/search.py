"""The search: hypothesis draws cases around pairs of words that no kernel has had yet, and shrinks failing ones.

A case has a pair, and as many other fields of a schedule as are legal beside it; the compiler chooses the rest. A pair
that is refused repeatedly is given up, and noted with the last rule that it broke.
"""

import importlib
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error
from lowtide.runtime.files import read_json
from lowtide.verification.fuzz.case import Case, Ended, Result, refusal, run_case
from lowtide.verification.fuzz.words import all_pairs, factors, pairs_of, schedule_words, text_of

_EXAMPLES = 12  # of one test of hypothesis: its pairs are the open ones when it begins
_ATTEMPTS = 8  # refusals before a pair is given up
_MOST_SHRINKING = 60  # cases

Progress = Callable[[str], None]
"""Receives the current coverage."""


@dataclass
class Journal:
    """The pairs that kernels had, the rules that refused others, and the ends of cases: a file that later runs
    continue."""

    covered: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Journal":
        """The journal in a file, or an empty one if there is none. Raises Error for another file."""
        if not path.exists():
            return cls()
        try:
            found = cls(**read_json(path))
        except (OSError, ValueError, TypeError) as error:
            raise Error(f"{path} is no journal of lowtide fuzz: {error}; name another file [fuzz-journal]") from None
        known = set(map(text_of, all_pairs()))  # words may have been removed since
        found.covered = set(found.covered) & known
        found.refused = {pair: rule for pair, rule in found.refused.items() if pair in known}
        return found

    def merge(self, other: "Journal") -> None:
        """Add the results of another, independent run."""
        self.covered |= other.covered
        self.refused = {pair: rule for pair, rule in (other.refused | self.refused).items() if pair not in self.covered}
        for own, more in ((self.attempts, other.attempts), (self.ended, other.ended)):
            for name, count in more.items():
                own[name] = own.get(name, 0) + count
        self.failures += [failure for failure in other.failures if failure not in self.failures]

    def give_up_words(self) -> None:
        """Give up the pairs of words that the rules always refuse, for every target."""
        had = {word for pair in all_pairs() if text_of(pair) in self.covered for word in pair}
        for path, words in schedule_words().items():
            for word in words:
                cases = [Case((("target", target), (path, word))) for target in factors()["target"]]
                rules = [] if (path, word) in had else [refusal(case) for case in cases]
                if rules and all(rules):
                    pairs = (text_of(pair) for pair in all_pairs() if (path, word) in pair)
                    self.refused |= {pair: rules[-1].partition("\n")[0] for pair in pairs}

    def write(self, path: Path) -> None:
        """Write it, completely or not at all."""
        write_whole(path, json.dumps(asdict(self) | {"covered": sorted(self.covered)}, indent=1) + "\n")

    def note(self, target: str, result: Result) -> None:
        """Count a case that was drawn for a pair, given as text."""
        self.ended[result.ended.value] = self.ended.get(result.ended.value, 0) + 1
        if result.ended in (Ended.right, Ended.one_order):
            self.covered.update(map(text_of, pairs_of(result.words)))
            self.refused = {pair: rule for pair, rule in self.refused.items() if pair not in self.covered}
        elif target not in self.covered:
            self.attempts[target] = self.attempts.get(target, 0) + 1
            if self.attempts[target] >= _ATTEMPTS:
                self.refused[target] = result.message

    def summary(self) -> str:
        """One line."""
        ended = ", ".join(f"{count} {name}" for name, count in sorted(self.ended.items()))
        pairs = f"{len(self.covered)} of {len(all_pairs())} pairs covered, {len(self.refused)} given up as refused"
        return f"{pairs}; cases: {ended or 'none'}"


@dataclass(frozen=True)
class Failure:
    """The smallest failing case that was found."""

    case: Case
    result: Result


class _CaseFailed(Exception):
    """Tells hypothesis that a case fails."""


def fuzz(
    journal: Journal,
    *,
    budget: float,
    seed: int = 0,
    examples: int | None = None,
    run: Callable[[Case], Result] = run_case,
    on_progress: Progress = lambda text: None,
) -> Failure | None:
    """Run cases until one fails, `budget` seconds have passed, `examples` have run, or no pair is open.

    Returns the failure, shrunk to few words. `run` gives the result of a case. Raises Error without hypothesis.
    """
    started, rng, left = time.monotonic(), random.Random(seed), examples
    while time.monotonic() - started < budget and (left is None or left > 0):
        open_ = [pair for pair in all_pairs() if text_of(pair) not in journal.covered | journal.refused.keys()]
        if not open_:
            break
        count = _EXAMPLES if left is None else min(left, _EXAMPLES)
        left = None if left is None else left - count
        batch = _Batch(journal, rng.sample(open_, min(len(open_), count)), run, started + budget, on_progress)
        batch.search(count, rng.randrange(2**32))
        if batch.failure is not None:
            return batch.failure
    return None


class _Batch:
    """One test of hypothesis. `failure` is the smallest failing case so far."""

    def __init__(
        self, journal: Journal, pairs: list[Any], run: Callable[[Case], Result], end: float, on_progress: Progress
    ) -> None:
        self.journal, self.pairs, self.run, self.end, self.on_progress = journal, pairs, run, end, on_progress
        self.failure: Failure | None = None
        self.known: dict[Case, Result] = {}
        self.shrinking = 0

    def search(self, count: int, seed: int) -> None:
        hypothesis = hypothesis_or_refuse()
        options = hypothesis.settings(
            max_examples=count,
            database=None,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=hypothesis.Verbosity.quiet,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        )
        test = hypothesis.seed(seed)(options(hypothesis.given(self._drawn(hypothesis.strategies))(self._test)))
        try:
            test()
        except (_CaseFailed, hypothesis.errors.HypothesisException):
            if self.failure is None:
                raise
            self._drop_words()

    def _drop_words(self) -> None:
        """Remove each word that the failure does not need; hypothesis itself keeps the pair."""
        assert self.failure is not None
        case = self.failure.case.legal
        for word in case.words:
            fewer = replace(case, words=tuple(other for other in case.words if other != word))
            result = self.run(fewer)
            if result.ended.is_failure:
                case, self.failure = fewer, Failure(fewer, result)

    def _drawn(self, strategies: Any) -> Any:
        """A pair, and words of all other factors. The smallest is the pair alone."""

        def case(
            pair: Any, plain: dict[str, str], fields: dict[str, str | None], numbers: int, seed: int
        ) -> tuple[Any, Case]:
            words = {factor: word for factor, word in plain.items() if word != factors()[factor][0]} | dict(pair)
            ordered = tuple((factor, words[factor]) for factor in factors() if factor in words)
            others = [(path, word) for path, word in fields.items() if word is not None]
            first = seed % (len(others) + 1)  # earlier ones may exclude later ones
            return pair, Case(ordered, numbers, seed, (*others[first:], *others[:first]))

        plain = {factor: own for factor, own in factors().items() if factor not in schedule_words()}
        fields = {path: (None, *own) for path, own in schedule_words().items()}
        return strategies.builds(
            case,
            strategies.sampled_from(self.pairs),
            _one_of_each(strategies, plain),
            _one_of_each(strategies, fields),
            strategies.integers(0, 3),
            strategies.integers(0, 999),
        )

    def _test(self, drawn: tuple[Any, Case]) -> None:
        pair, case = drawn
        if case not in self.known:
            over = time.monotonic() > self.end if self.failure is None else self.shrinking >= _MOST_SHRINKING
            if over:
                return
            self.shrinking += self.failure is not None
            self.known[case] = self.run(case)
            self.journal.note(text_of(pair), self.known[case])
            self.on_progress(self.journal.summary())
        result = self.known[case]
        if result.ended.is_failure:
            if self.failure is None or _size(case) <= _size(self.failure.case):
                self.failure = Failure(case, result)
            raise _CaseFailed(result.message)


def _size(case: Case) -> tuple[int, int, int]:
    return len(case.words) + len(case.others), case.seed, case.numbers


def _one_of_each(strategies: Any, choices: Mapping[str, tuple[str | None, ...]]) -> Any:
    return strategies.fixed_dictionaries({name: strategies.sampled_from(words) for name, words in choices.items()})


def hypothesis_or_refuse() -> Any:
    """hypothesis. Raises Error, which says how to install it, if it is missing."""
    try:
        return importlib.import_module("hypothesis")
    except ImportError:
        raise Error(
            "cases are drawn by hypothesis, which is not installed; pip install 'lowtide[fuzz]' [fuzz-hypothesis]"
        ) from None
