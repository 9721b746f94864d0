"""One case: the words of a problem, some fields of a schedule and a shape. The compiler chooses all other fields."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from lowtide.compiler.compile import compile_anew
from lowtide.compiler.epilogue.ready import ready_epilogue
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.ptxas import BadCode
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import FAST, UNBATCHED, UNGROUPED, Groups, Ungrouped
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import GemmLayout, OperandKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error, IRError, PassError, ScheduleError, SpecError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.facts.alignment import WIDEST
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import accumulator_types, get
from lowtide.verification.checking.conditions import Axis, axes_of, least_steps
from lowtide.verification.checking.interpretation import Batch, estimated_seconds
from lowtide.verification.checking.splits import COUNTS, Ends, ends_of, groups_of
from lowtide.verification.checking.subjects import Subject, of_kernel
from lowtide.verification.checking.trials import Extents, Finding, Trial, domains_of, forget, outcomes
from lowtide.verification.fuzz.on_ranks import outcomes_on_ranks
from lowtide.verification.fuzz.words import (
    ON_RANKS,
    SCALES,
    SENT,
    WEIGHTS,
    Words,
    factors,
    schedule_of,
    schedule_words,
    with_companions,
    words_of,
)

_ALWAYS = (Level.NVVM, Level.PTX)
_PATIENCE = 8.0  # estimated seconds of one core for a run of level ptx
_KNOWN = {"m": 72, "n": 136, "k": 64}  # fixed extents
_WHOLE = {"m": 128, "n": 64, "k": 64}  # multiples of the tiles for stores of whole tiles
_MATRICES = 3  # of a batch, or groups
_GROUPS: Mapping[str, int | Groups | Ungrouped | None] = MappingProxyType(
    {"none": UNGROUPED, "run time": None, "3": _MATRICES, "3 of K": Groups(_MATRICES, "k")}
)
_REFUSALS = (ScheduleError, SpecError, BadCode)  # given fields may leave only kernels that spill


class Ended(Enum):
    """How a case ended. `one_order`: D is right, but a run does not speak for every order of agents; `not_run`: the
    interpreter cannot run a level in this number domain; `large`: the tile is too large for its patience;
    `interpreter_failed`: the interpreter itself failed, which says nothing about the kernel."""

    right = "right"
    one_order = "right in one order of agents"
    refused = "refused"
    not_run = "not run"
    large = "large"
    failed = "failed"
    interpreter_failed = "interpreter failed"

    @property
    def is_failure(self) -> bool:
        """Whether it shows a fault."""
        return self in (Ended.failed, Ended.interpreter_failed)


@dataclass(frozen=True)
class Case:
    """Words by factor; `numbers` chooses the numbers of words that take some, `seed` the inputs and the order of
    agents. Omitted factors have their first word, omitted fields of a schedule are chosen. The fields `others` are
    given too, as far as the rules allow them beside the words and each other."""

    words: tuple[tuple[str, str], ...]
    numbers: int = 0
    seed: int = 0
    others: tuple[tuple[str, str], ...] = ()

    @property
    def legal(self) -> "Case":
        """The case with the legal ones of its other fields added to its words, from the first one on."""
        case = replace(self, others=())
        if case.others == self.others or refusal(case):
            return case
        for factor, word in self.others:
            more = replace(case, words=(*case.words, (factor, word)))
            if factor not in dict(case.words) and not refusal(more):
                case = more
        return case

    @property
    def full(self) -> dict[str, str]:
        """A word of each factor except those of the schedule, its given ones, and their companions."""
        given, fields = with_companions(dict(self.words)), schedule_words()
        return given | {factor: own[0] for factor, own in factors().items() if factor not in {*given, *fields}}

    @property
    def spec(self) -> GemmSpec:
        """The problem. Raises SpecError."""
        words = self.full
        dtype, known = words["dtype"], _known(words["known"])
        own = words["precision"] if words["precision"] in DECOMPOSITIONS else None
        weights = WEIGHTS[words["weights"]]
        order, _, paired = words["pairs"].partition(", ")
        return GemmSpec(
            m=known.get("m"),
            n=known.get("n"),
            k=known.get("k"),
            block_scales=SCALES[words["scales"]],
            batch={"none": UNBATCHED, "run time": None}.get(words["batch"], _MATRICES),
            counts=words["counts"] == "of each product",
            arrivals=words["arrivals"] != "there",
            peers=words["arrivals"] == SENT,
            groups=_GROUPS[words["groups"]],
            a_rows=words["a_rows"] == "at an index",
            d_rows=words["d_rows"] == "at an index",
            lists=None if words["lists"] == "none" else words["lists"],
            a=dtype,
            b=dtype if weights is None else weights[0],
            group=None if weights is None else weights[1],
            zero_points=weights is not None and weights[2],
            d=dtype if words["d"] == "as A" else words["d"],
            result_types={} if words["pre"] == "as D" else {"pre": words["pre"]},
            acc=FAST if words["sums"] == FAST else accumulator_types(dtype, dtype)[0],
            precision=own,
            layout=words["layout"],
            d_order=words["d_order"],
            pairs=order if paired else None,
            epilogue=ready_epilogue(paired or words["epilogue"]),
            amax=words["amax"] != "none",
        )

    @property
    def schedule(self) -> Schedule:
        """The given fields."""
        return schedule_of(self.full, self.numbers)


@dataclass(frozen=True)
class Result:
    """The end of a case, a note, and the words of the kernel. `test` is the text of a lit test that fails like the
    case."""

    ended: Ended
    message: str
    words: Words
    test: str = ""


def run_case(case: Case) -> Result:
    """Compile a case and run it at levels nvvm, ptx and one more."""
    case = case.legal
    words = case.full
    try:
        spec, schedule = case.spec, case.schedule
        kernel = compile_anew(spec, words["target"], schedule)
    except Error as error:
        if isinstance(error, _REFUSALS) or _refused_by_a_pass(error):
            return Result(Ended.refused, str(error).partition("\n")[0], words)
        return Result(Ended.failed, str(error), words, _lit_test(case, None))
    subject = of_kernel(kernel)
    trial = _trial(case, subject)
    words = words | words_of(kernel.schedule) | dict(_as_it_lies(words, trial))
    matrices = 1 if trial.batch is None else trial.batch.matrices
    if matrices * estimated_seconds(trial.extents, kernel.schedule.tile_mnk, str(Level.PTX)) > _PATIENCE:
        return Result(Ended.large, f"{trial} is too large for the interpreter", words)
    others = [source for source in subject.interpreted if Level.named(source.level) not in _ALWAYS]
    own = {others[case.seed % len(others)].level, *map(str, _ALWAYS)}
    sources = [source for source in subject.interpreted if source.level in own]
    note = ""
    on_ranks = words["arrivals"] in ON_RANKS
    if on_ranks:
        found = outcomes_on_ranks(spec, sources, trial)
    else:
        found = outcomes(subject.problem, sources, trial, ordering=subject.ordering)
    try:
        for outcome in found:
            if outcome.finding is Finding.broken and outcome.report is not None:
                note = f"level {outcome.level}: {outcome.message}"
            elif outcome.finding is Finding.unknown:
                return Result(Ended.not_run, f"level {outcome.level}, {trial}: {outcome.message}", words)
            elif outcome.finding is not Finding.right:
                message = f"level {outcome.level}, {trial}: {outcome.finding.value}: {outcome.message}"
                ended = Ended.interpreter_failed if outcome.finding is Finding.failed else Ended.failed
                return Result(ended, message, words, _lit_test(case, trial, outcome.level))
    finally:
        forget()
    return Result(Ended.one_order if note else Ended.right, note, words)


def refusal(case: Case) -> str:
    """The rule that forbids the case, "" for none; without choosing swizzles, which takes longer than all rules."""
    try:
        spec, schedule = case.spec, case.schedule
        kinds = tuple(OperandKind[operand.kind.value] for operand in spec.operands)
        layout = GemmLayout[spec.layout]
        types = tuple(operand.dtype for operand in spec.operands)
        facts = (spec.m, spec.n, spec.k, *spec.multiplied, spec.sums, spec.d, layout, kinds, types)
        batch = spec.batch_shape[0] if spec.is_batched else spec.group_count if spec.k_is_grouped else 1
        by_columns = spec.d_order == "column"
        problem = Problem(
            *facts,
            d_is_column_major=by_columns,
            batch=batch,
            is_batched=spec.is_batched or spec.k_is_grouped,
            is_fast=spec.is_fast,
            precision=spec.precision,
            converted=(None, spec.b if spec.is_mixed else None),
            group=spec.group or 0,
            groups=spec.groups if isinstance(spec.groups, int) else None,
            is_padded=spec.counts,
        )
        if schedule.epilogue.path is StorePath.smem:
            schedule = schedule.filled({"epilogue.swizzle": (0, 3, 3)})
        choose(problem, get(case.full["target"]), schedule)
    except _REFUSALS as error:
        return str(error) or "refused"
    return ""


def _refused_by_a_pass(error: Error) -> bool:
    """Whether a pass refused a request of the schedule: a fault of a pass or of the backend leaves a reproducer."""
    return isinstance(error, PassError) and error.__cause__ is None and "fails again with:" not in str(error)


def _trial(case: Case, subject: Subject) -> Trial:
    """The run that the words describe, in the strongest number domain of the problem."""
    words, schedule, spec = case.full, subject.schedule, subject.spec
    *sides, k = axes_of(schedule, subject.facts)
    n, m = sides if subject.is_swapped else sides[::-1]
    stages = schedule.mainloop.stages or 2
    steps = {"1": 1, "0": 0, "stages - 1": stages - 1, "stages": stages, "ragged stages + 1": stages + 1}
    fewest = max(least_steps(schedule), 1 if spec.is_mixed or spec.peers else 0)  # these have no K of 0
    depth = max(steps[words["steps"]], fewest) * k.tile
    extents: Extents = (
        spec.m if spec.m is not None else _extent(m, words["rows"], case.seed),
        spec.n if spec.n is not None else _extent(n, words["columns"], case.seed),
        spec.k if spec.k is not None else depth - (_missing(k, case.seed) if "ragged" in words["steps"] else 0),
    )
    batch = _batch(case, spec)
    ends = _ends(words, extents, schedule, spec, 1 if batch is None else batch.matrices)
    depth = extents[2] if spec.k is not None else max(extents[2], 1)
    domain = domains_of(subject.problem, (extents[0], extents[1], depth), batch, ends)[0]
    anywhere, *others = subject.places  # one where nothing is packed, else as moved and each matrix a little less
    place = anywhere
    if others:
        place = others[0] if words["lies"] == "as moved" else [anywhere, *others[1:]][case.seed % len(others)]
    run = int(words["sms"]), int(words["padding"]), domain, case.seed, place, batch
    return Trial(extents, *run, ends=ends)


def _as_it_lies(words: Words, trial: Trial) -> Words:
    """The words for the layout of matrices that hold for a trial: without a batch nothing is shared, and without groups
    no rows are split."""
    anywhere = any(bytes_of < WIDEST for aligned in trial.place.of_matrices for bytes_of in aligned)
    lies, shared, splits = factors()["lies"], factors()["shared"], factors()["split"]
    if words["arrivals"] in ON_RANKS:
        anywhere = False
    return {
        "lies": lies[anywhere],
        "split": words["split"] if trial.ends is not None else splits[0],
        "shared": words["shared"] if trial.batch is not None and trial.batch.shared else shared[0],
    }


def _batch(case: Case, spec: GemmSpec) -> Batch | None:
    if not spec.is_batched:
        return None
    operands = (operand.name for operand in spec.operands if operand.kind.value not in ("scalar", "ends"))
    shared = {"a": ("a",), "b and operands": ("b", *operands)}.get(case.full["shared"], ())
    matrices = spec.batch if isinstance(spec.batch, int) else 1 + case.seed % _MATRICES
    if case.full["arrivals"] in ON_RANKS:
        return Batch(max(matrices, 2))
    return Batch(matrices, shared, case.seed % 2)


def _ends(words: Words, extents: Extents, schedule: Schedule, spec: GemmSpec, matrices: int) -> Ends | None:
    """The ends of groups, if rows, or K, are grouped; the counts of rows if products of a batch have them. Then words
    that are about ends alone mean that all rows count."""
    if spec.counts:
        kind = words["split"] if words["split"] in COUNTS else next(iter(COUNTS))
        return ends_of(kind, extents[0], schedule.tile_mnk[0], matrices, padded=True)
    if not spec.is_grouped:
        return None
    axis, split, known = 2 if spec.k_is_grouped else 0, words["split"], spec.group_count
    return ends_of(split, extents[axis], schedule.tile_mnk[axis], groups_of(split, known, _MATRICES))


def _known(word: str) -> dict[str, Any]:
    """The fixed extents that a word asks for."""
    if word == "k = 0":
        return {"k": 0}
    if word == "whole tiles":
        return dict(_WHOLE)
    return {name: extent for name, extent in _KNOWN.items() if name in word.replace("none", "")}


def _extent(axis: Axis, word: str, seed: int) -> int:
    return axis.tile * (2 if "two" in word else 1) - (_missing(axis, seed) if "ragged" in word else 0)


def _missing(axis: Axis, seed: int) -> int:
    """Elements that the last tile lacks."""
    rests = axis.rests
    rest = rests[seed % len(rests)]
    return axis.tile - rest if rest else 0


def _lit_test(case: Case, trial: Trial | None, level: str = "ptx") -> str:
    """The text of a lit test: the problem with its schedule, run at the level; with any shape if it does not
    compile."""
    try:
        problem = problem_text(case.spec, get(case.full["target"]), case.schedule)
    except (IRError, PassError) as error:
        problem = f"// {error}\n"
    known = {name for name in "mnk" if getattr(case.spec, name) is not None}
    options = _without((trial or Trial((64, 64, 64))).options, known)
    return f"// RUN: lowtide interpret %s --level {level} {' '.join(options)}\n\n{problem}"


def _without(options: list[str], names: set[str]) -> list[str]:
    """Options without those of fixed extents."""
    pairs: Mapping[str, str] = dict(zip(options[::2], options[1::2], strict=True))
    return [word for name, value in pairs.items() if name[2:] not in names for word in (name, value)]
