"""Runs a record of launches and judges it: the broken rule, or whether the arrays are as expected."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Error, InterpreterError, LaunchError, without_codes
from lowtide.interpreter.launching import Parsed, run
from lowtide.interpreter.machine.exploration import Explored, Explorer, explore
from lowtide.interpreter.machine.interleavings import Report as Orders
from lowtide.interpreter.machine.options import Observers, Progress, Work
from lowtide.interpreter.machine.reliances import Relied
from lowtide.interpreter.numbers.domains import domain
from lowtide.interpreter.ptx.operand_types import check_operands
from lowtide.interpreter.ptx.syntax import Instruction
from lowtide.interpreter.ptx.targets import check_targets
from lowtide.launches import Array, LaunchRecord
from lowtide.ptx.dtypes import as_element, dtype_of
from lowtide.ptx.kinds import kind_before_run, kind_of
from lowtide.ptx.reports import Report, broken, places_in
from lowtide.ptx.settings import Settings
from lowtide.ptx.words import in_words_of_ptx

DOMAIN = "float"
_ATOMIC = ("atom.", "red.")
_UNWRITTEN = ("uninitialised-read", "global-uninitialised", "bulk-unwritten", "unwritten-used")
_BY_RULE = "this run speaks for every order of warps"


@dataclass(frozen=True)
class Expected:
    """Arrays after the launches, by name, and how close the results must be: |x - y| <= atol + rtol · |y|. Arrays in
    `kept` must not change."""

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0
    kept: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        tolerances = (self.rtol, self.atol)
        if not all(isinstance(each, int | float | np.number) and 0 <= each < math.inf for each in tolerances):
            raise LaunchError(
                f"rtol = {self.rtol!r:.9}, atol = {self.atol!r:.9}: each must be finite and at least 0 [ptx-tolerance]"
            )

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        arrays: Mapping[str, Array],
        values: Sequence[Any] | None,
        rtol: float,
        atol: float,
    ) -> Expected:
        """Of the arguments that are arrays, in their order."""
        if values is None:
            return cls(rtol=rtol, atol=atol)
        if isinstance(values, Mapping):
            raise LaunchError(
                f"expect: take a list with an item for each array in args: {', '.join(names)} [ptx-expected-list]"
            )
        if len(values) != len(names):
            raise LaunchError(f"{len(values)} expected arrays; {len(names)} are passed [ptx-expected-count]")
        pairs = zip(names, values, strict=True)
        given = {name: np.asarray(value) for name, value in pairs if value is not None}
        return cls(given, rtol, atol).checked(arrays, "expected array")

    def checked(self, arrays: Mapping[str, Array], what: str) -> Expected:
        """The same, with the element types of the record. `what` comes before their names in messages. Raises
        LaunchError for arrays that do not fit it."""
        found = {}
        for name, values in self.arrays.items():
            if name not in arrays:
                raise LaunchError(f"{what} {name} is no array of the launch [ptx-expected-name]")
            if values.shape != arrays[name].shape:
                raise LaunchError(
                    f"{what} {name}: shape {list(values.shape)}; the launch has {list(arrays[name].shape)}"
                    " [ptx-expected-shape]"
                )
            found[name] = as_element(values, arrays[name].dtype, f"{what} {name}")
        return replace(self, arrays=found)

    def difference(
        self,
        results: Mapping[str, NDArray[Any]],
        given: Mapping[str, Array],
        observers: Observers,
    ) -> str | None:
        """The first element that is not as expected, in words, with its last write; None if all are. An element that
        nothing has written is not as expected: on a GPU it has any value."""
        unwritten, (last_write,) = observers.unwritten or {}, observers.last_writes or (None,)
        for name in (*self.arrays, *sorted(self.kept)):
            if name in self.arrays and (text := _lacks(name, unwritten[name])):
                return text
            wanted = self.arrays[name] if name in self.arrays else given[name].values
            wrong = None if wanted is None else _wrong(results[name], wanted, self.rtol, self.atol)
            if wrong is not None and wanted is not None:
                text = _differs(name, results[name], wanted, wrong, (self.rtol, self.atol))
                text = text if name in self.arrays else f"{text}: it should not change"
                last = None if last_write is None else last_write(name, _first(wrong))
                where = f"{name}[{', '.join(map(str, _first(wrong)))}]"
                done = f"nothing has written {where}" if last is None else f"{where} was last written by {last}"
                return f"{text}; {done}"
        return None


def _lacks(name: str, unwritten: NDArray[np.bool_]) -> str | None:
    if not unwritten.any():
        return None
    where = ", ".join(str(int(index)) for index in np.argwhere(unwritten)[0])
    return (
        f"{name}[{where}] is expected, but nothing has written it; {np.count_nonzero(unwritten)} of {unwritten.size} "
        "elements are not written; if the kernel need not write them, give their values before the launch"
    )


def _wrong(result: NDArray[Any], wanted: NDArray[Any], rtol: float, atol: float) -> NDArray[np.bool_] | None:
    """The elements that differ by more than the tolerances; None if there are none."""
    with np.errstate(all="ignore"):
        same = (result == wanted) | ((result != result) & (wanted != wanted))
        if rtol or atol:
            x, y = result.astype(np.float64), wanted.astype(np.float64)
            same = same | (np.abs(x - y) <= atol + rtol * np.abs(y))
    return None if same.all() else np.logical_not(same)


def _first(wrong: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(wrong)[0])


def _differs(
    name: str, result: NDArray[Any], wanted: NDArray[Any], wrong: NDArray[np.bool_], tolerances: tuple[float, float]
) -> str:
    place = _first(wrong)
    where = ", ".join(map(str, place))
    count = np.count_nonzero(wrong)
    text = f"{name}[{where}] is {result[place]}, not {wanted[place]}; {count} of {wrong.size} elements differ"
    if wanted.dtype.kind in "iub":
        return text
    with np.errstate(all="ignore"):
        apart = np.abs(result.astype(np.float64) - wanted.astype(np.float64))
        is_nan = apart != apart
        most = np.max(apart, where=wrong & ~is_nan, initial=0)
    if nans := np.count_nonzero(wrong & is_nan):
        text = f"{text} (NaN in {nans} of them)"
    return f"{text}, by up to {most:.3g} (rtol = {tolerances[0]:g}, atol = {tolerances[1]:g})"


def prepare(source: Parsed, record: LaunchRecord) -> None:
    """Decode the kernels that are launched. Raises InterpreterError for what is not interpreted, or not in the
    module's target."""
    for launch in record.launches:
        if launch.kernel in source.module.entries:
            check_targets(source.module, source.module.entries[launch.kernel])
            check_operands(source.module, source.module.entries[launch.kernel], domain(DOMAIN))
        source.program(launch.kernel, domain(DOMAIN))


@dataclass(frozen=True)
class Watch:
    """Told of a run as it goes on: of each CTA that ends, and of the instructions; then of each further order, by its
    number and the most orders."""

    on_progress: Progress = lambda ended, ctas: None
    work: Work | None = None
    on_order: Callable[[int, int], None] = lambda order, most: None


def _observers(settings: Settings, watch: Watch | None = None) -> Observers:
    deadline = time.monotonic() + 60 * settings.minutes
    observers = Observers(relied=None if settings.strict else Relied(), deadline=deadline)
    return observers if watch is None else replace(observers, on_progress=watch.on_progress, work=watch.work)


def run_record(
    source: Parsed, record: LaunchRecord, settings: Settings, watch: Watch | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays after the launches. Raises InterpreterError for a broken rule."""
    observers = _observers(settings, watch)
    try:
        prepare(source, record)
        return run(source, record, options=settings.options, observers=observers)
    except Error as error:
        raise type(error)(in_words_of_ptx(str(error))) from None


def run_judged(
    source: Parsed, record: LaunchRecord, expected: Expected, settings: Settings, watch: Watch | None = None
) -> Report:
    """The report of one run."""
    observers = _observers(settings, watch)
    return _judged(source, record, expected, settings, observers)


def check_record(
    source: Parsed, record: LaunchRecord, expected: Expected, settings: Settings, watch: Watch | None = None
) -> Report:
    """As `run_judged`, with whether the verdict holds for every order of warps; others are run if it may not."""
    orders = Orders()
    observers = replace(_observers(settings, watch), report=orders)
    report = _judged(source, record, expected, settings, observers)
    if not report.ok:
        return report
    if orders.holds and not _has_atomics(source, record):
        return replace(report, orders=_BY_RULE)
    if orders.timed:
        return replace(report, orders=str(orders))
    return _explored(source, record, expected, settings, (observers, report, watch or Watch()))


def _has_atomics(source: Parsed, record: LaunchRecord) -> bool:
    """Whether a kernel changes words by operations that may not commute: their last values may depend on the order."""
    names = {launch.kernel for launch in record.launches}
    bodies = (entry.body for name, entry in source.module.entries.items() if name in names)
    return any(isinstance(each, Instruction) and each.name.startswith(_ATOMIC) for body in bodies for each in body)


def _explored(
    source: Parsed,
    record: LaunchRecord,
    expected: Expected,
    settings: Settings,
    begun: tuple[Observers, Report, Watch],
) -> Report:
    """Run further orders than that of the first run, within the budget. `begun`: the first run."""
    first, report, watch = begun
    started = time.perf_counter() - report.seconds

    def one(explorer: Explorer) -> None:
        observers = replace(_observers(settings), report=Orders(), explorer=explorer, unwritten={}, last_writes=[])
        if observers.relied is not None and first.relied is not None:
            observers.relied.watched = first.relied.watched
        found = run(source, record, options=settings.options, observers=observers)
        if (text := expected.difference(found, record.arrays, observers)) is not None:
            raise InterpreterError(f"{text} [ptx-wrong-result]")

    explored = explore(one, settings.orders, settings.seconds, lambda order: watch.on_order(order, settings.orders))
    seconds = time.perf_counter() - started
    if explored.fault is not None and explored.fault.code == "out-of-time":
        explored = replace(explored, orders=explored.orders - 1, fault=None)
    if explored.fault is None:
        return replace(report, orders=f"{explored}{_resident(record, settings, explored)}", seconds=seconds)
    if explored.fault.code == "ptx-wrong-result":
        found = broken(explored.fault, "wrong-result", source.module, source.module.file)
        return replace(found, seconds=seconds)
    found = broken(explored.fault, kind_of(explored.fault), source.module, source.module.file)
    return replace(found, orders=f"found in order {explored.orders} of those that differ", seconds=seconds)


def _resident(record: LaunchRecord, settings: Settings, explored: Explored) -> str:
    """What limits a claim about every order: the CTAs that run at the same time."""
    is_limited = any(math.prod(each.grid) > settings.sms and not each.cooperative for each in record.launches)
    count = "one CTA" if settings.sms == 1 else f"{settings.sms} CTAs"
    return f", with {count} at a time (--sms)" if explored.complete and is_limited else ""


def _judged(
    source: Parsed, record: LaunchRecord, expected: Expected, settings: Settings, observers: Observers
) -> Report:
    started, file = time.perf_counter(), source.module.file
    try:
        prepare(source, record)
    except Error as error:
        return broken(error, kind_before_run(error), source.module, file)
    try:
        report = _compared(source, record, expected, settings, observers)
    except Error as error:
        report = broken(error, kind_of(error), source.module, file)
        if error.code in _UNWRITTEN:
            report = _as_race(source, record, settings, report)
    return replace(report, seconds=time.perf_counter() - started)


def _as_race(source: Parsed, record: LaunchRecord, settings: Settings, report: Report) -> Report:
    """The report of a read of what nothing had written; of the race, if another thread writes it without an order.

    Unwritten bytes are read as zeros, so that the run goes on to that write.
    """
    filled = {
        name: replace(array, values=np.zeros(array.shape, dtype_of(array.dtype))) if array.values is None else array
        for name, array in record.arrays.items()
    }
    options = replace(settings.options, zeroed=True)
    try:
        run(source, replace(record, arrays=filled), options=options, observers=_observers(settings))
    except Error as error:
        if kind_of(error) == "race":
            return broken(error, "race", source.module, source.module.file)
    return report


def _compared(
    source: Parsed, record: LaunchRecord, expected: Expected, settings: Settings, observers: Observers
) -> Report:
    observers = replace(observers, unwritten={}, last_writes=[])
    arrays = run(source, record, options=settings.options, observers=observers)
    if (text := expected.difference(arrays, record.arrays, observers)) is not None:
        lines = places_in(text, source.module, source.module.file)
        return Report("wrong-result", text, places=lines, arrays=arrays)
    count = len(expected.arrays)
    compared = f"; {count} {'array is' if count == 1 else 'arrays are'} as expected" if count else ""
    places = {} if observers.relied is None else observers.relied.places
    return Report(
        "ok",
        f"no rule is broken{compared}",
        places=tuple(place for text in places.values() for place in places_in(text, source.module, source.module.file)),
        relies=tuple(places),
        notes=tuple(f"relies on {each.name}: {without_codes(text)}" for each, text in places.items()),
        arrays=arrays,
    )
