"""A kernel on several ranks: all levels, with copies or parts that are right, and with planted faults of them.

Either shards of A arrive, or parts of D (`lists="d"`) go to the memory of peers and are added there. In the second
case, the kernel stores the parts there, or, in some runs, the copy engine sends them, and then the sums to all ranks.
Each planted fault must be found: if a run does not report a lost flag, the kernel has a fault of its own, such as a
shard that it reads too early.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.compiler.spec import GemmSpec
from lowtide.errors import InterpreterError, SpecError
from lowtide.interpreter import Calls, Sending, interpret_ranks
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.numbers.domains import ExactDomain
from lowtide.verification.checking.interpretation import Batch, Placement, inputs_for
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference
from lowtide.verification.checking.subjects import Subject
from lowtide.verification.checking.trials import forget, loaded
from lowtide.verification.checking.verdicts import against_float64

MOST_RANKS = 16
_SEEDS = 2  # orders of agents and copies
_EPOCH = 7
_WAIT = 1000  # ms; any number but 0
_WIDE = 16  # elements of a row that any copy takes
IN_ORDER = "in order"

#: Faults of one copy, or of one part, by name
FAULTS: Mapping[str, Sending] = MappingProxyType(
    {
        "lost flag": Sending(flag=False),
        "stale epoch": Sending(behind=1),
        "flag before data": Sending(flag_first=True),
        "narrow scope": Sending(scope=Scope.gpu),
    }
)
WRONG_PLACE = "place of another rank"
ONE_SLOT = "one slot"  # of windows, for all calls; only where D is in the memory of peers
OF_COPIES, OF_SUMS = "copy: ", "sum: "  # begin the name of a fault of a part, or of a sum, that the copy engine sends


@dataclass(frozen=True)
class RankRun:
    """A run of all ranks at a level: how copies were sent (`IN_ORDER`, or a fault), whether this went as it should, and
    what was said."""

    level: str
    copies: str
    seed: int
    ok: bool
    message: str

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def check_ranks(
    subject: Subject, ranks: int, *, seed: int = 0, on_progress: Callable[[float, str], None] = lambda done, what: None
) -> list[RankRun]:
    """Run each interpreted level on `ranks` ranks: in some orders with correct copies, then once with each fault of a
    copy between two ranks that are drawn. If D is a list, the same is done with parts of D in the memory of peers.
    At the first level, faults of parts and of sums that copy engines send are planted, too; no kernel takes part in
    these steps. M, N and K are those of the spec. If the spec does not set them, a shard has part of a tile of rows.

    `seed`: of inputs and orders. Raises SpecError for a kernel without arrivals, with an extent of 0, or for
    another number of ranks.
    """
    spec = subject.spec
    if not spec.arrivals:
        raise SpecError(
            "ranks are those of shards that arrive; give a kernel of GemmSpec(batch=R, arrivals=True), or leave the "
            "number of ranks out [check-ranks-arrivals]"
        )
    _check_number(ranks, next(iter(spec.batch_shape), None))
    if 0 in (spec.m, spec.n, spec.k):
        raise SpecError(
            "a check of ranks with an extent of 0, where no fault of a copy shows; leave the extent None, or give 1 or "
            "more [check-ranks-empty]"
        )
    scatters, extents = bool(spec.lists), _extents(subject)
    inputs = inputs_of_ranks(spec, extents, ranks, seed)
    runs: list[RankRun] = []
    sources = subject.interpreted
    for number, source in enumerate(sources):
        on_progress(number / len(sources), f"level {source.level}")
        module, draw = loaded(source), Random(seed)
        runs += [_right(module, source.level, spec, inputs, seed + each) for each in range(_SEEDS)]
        for name in (*FAULTS, WRONG_PLACE):
            rank, to = draw.sample(range(ranks), 2)
            sending = FAULTS.get(name, Sending(place=to))
            runs.append(_faulty(module, source.level, inputs, seed, (name, {"sendings": {(rank, to): sending}})))
            if scatters and not number:
                copied = {"calls": Calls(copies=True), "sendings": {(rank, to): sending}}
                runs.append(_faulty(module, source.level, inputs, seed, (OF_COPIES + name, copied)))
                sums = {"calls": Calls(sums={(rank, to): sending})}
                runs.append(_faulty(module, source.level, inputs, seed, (OF_SUMS + name, sums)))
        if scatters:
            runs.append(_faulty(module, source.level, inputs, seed, (ONE_SLOT, {"calls": Calls(slots=1)})))
    forget()
    return runs


def _check_number(ranks: int, of_spec: int | None) -> None:
    """Raise SpecError for a number of ranks that cannot run. `of_spec`: the batch of the kernel; None: any."""
    if of_spec is not None and not 2 <= of_spec <= MOST_RANKS:
        raise SpecError(
            f"a check of the ranks of a kernel for {of_spec} ranks; compile it for 2 to {MOST_RANKS} ranks, or with "
            "batch=None [check-ranks-batch]"
        )
    if not 2 <= ranks <= MOST_RANKS or of_spec not in (None, ranks):
        wanted = f"2 to {MOST_RANKS} ranks" if of_spec is None else f"{of_spec} ranks, the kernel's batch"
        raise SpecError(f"a check of {ranks} ranks; give {wanted} [check-ranks-number]")


def lines(runs: list[RankRun]) -> Iterator[str]:
    """A line for each level, and one for each run that went wrong."""
    for level in dict.fromkeys(run.level for run in runs):
        own = [run for run in runs if run.level == level]
        right, faults = ([run for run in own if (run.copies == IN_ORDER) is is_right] for is_right in (True, False))
        yield (
            f"{level:<10} right in {sum(run.ok for run in right)} of {len(right)} orders, "
            f"{sum(run.ok for run in faults)} of {len(faults)} faults found"
        )
    yield from (f"{run.level}, copies {run.copies}, seed {run.seed}: {run.message}" for run in runs if not run.ok)


def _extents(subject: Subject) -> tuple[int, int, int]:
    """M, N and K: those of the spec, or part of a tile, and a K of two steps."""
    tile_m, tile_n, tile_k = subject.schedule.tile_mnk
    spec, columns = subject.spec, -(-tile_n // 2 // _WIDE) * _WIDE
    own = (tile_m // 2 + 3, max(columns, _WIDE), tile_k + _WIDE)
    m, n, k = (given or open_ for given, open_ in zip((spec.m, spec.n, spec.k), own, strict=True))
    return m, n, k


def inputs_of_ranks(spec: GemmSpec, extents: tuple[int, int, int], ranks: int, seed: int) -> list[dict[str, Any]]:
    """The inputs of each rank before a run: shards of A that are still to arrive, or all of A if D is a list."""
    return _parts(spec, extents, ranks, seed) if spec.lists else _shards(spec, extents, ranks, seed)


def _shards(spec: GemmSpec, extents: tuple[int, int, int], ranks: int, seed: int) -> list[dict[str, Any]]:
    """The inputs of each rank, with its own shard and flag, and those of the epoch before for the others."""
    found, rng = [], np.random.default_rng(seed)
    for rank in range(ranks):
        own = random_inputs(spec, *extents, rng, batch=ranks, shared=())
        own["arrived"][:] = _EPOCH - 1
        own["arrived"][rank] = _EPOCH
        own["turn"][:] = rank, _EPOCH, _WAIT
        found.append(own)
    return found


def _parts(spec: GemmSpec, extents: tuple[int, int, int], ranks: int, seed: int) -> list[dict[str, Any]]:
    """The inputs of each rank, small integers; all of A is there, and a rank begins with the rows of the next one."""
    found, lie = [], Placement(batch=Batch(ranks))
    for rank in range(ranks):
        own = inputs_for(spec, extents, ExactDomain.name, seed + rank, lie)
        own["turn"][0] = (rank + 1) % ranks
        found.append(own)
    return found


def _right(module: Any, level: str, spec: GemmSpec, inputs: list[dict[str, Any]], seed: int) -> RankRun:
    try:
        wrong = wrong_on_ranks(module, spec, inputs, seed)
    except InterpreterError as error:
        wrong = str(error)
    return RankRun(level, IN_ORDER, seed, not wrong, wrong)


def wrong_on_ranks(module: Any, spec: GemmSpec, inputs: list[dict[str, Any]], seed: int) -> str:
    """Runs all ranks. Returns what is wrong with their results, or "". Raises InterpreterError as `interpret_ranks`."""
    verdicts = _sums if spec.lists else _products
    return next(verdicts(module, spec, inputs, seed), "")


def _products(module: Any, spec: GemmSpec, inputs: list[dict[str, Any]], seed: int) -> Iterator[str]:
    """Runs all ranks; what is wrong with their products of all shards."""
    products = interpret_ranks(module, inputs, seed=seed)
    gathered = np.stack([own["a"][rank] for rank, own in enumerate(inputs)])
    for rank, (own, d) in enumerate(zip(inputs, products, strict=True)):
        verdict = against_float64(spec, own | {"a": gathered}, d)
        if not verdict.ok:
            yield f"rank {rank}: {verdict.message}"


def _sums(module: Any, spec: GemmSpec, inputs: list[dict[str, Any]], seed: int) -> Iterator[str]:
    """Like `_products`, for the sums of all parts, in exact integers. With an odd seed, copy engines send the parts,
    and the sums to all ranks."""
    calls = Calls(sums={}, copies=True) if seed % 2 else Calls()
    results = interpret_ranks(module, inputs, seed=seed, domain=ExactDomain.name, calls=calls)
    parts = [reference(spec, **own) for own in inputs]
    wanted: Any = sum(np.stack([np.asarray(each) for each in part]) for part in parts)
    for rank, result in enumerate(results):
        owners = [rank] if calls.sums is None else range(len(inputs))
        for owner, found in zip(owners, result if calls.sums is not None else [result], strict=True):
            if (found != wanted[owner]).any():
                row, column = np.argwhere(found != wanted[owner])[0].tolist()
                what = f"{found[row, column]} and not {wanted[owner][row, column]}"
                yield f"rank {rank}: the sum of the parts of rank {owner} has [{row}, {column}] = {what}"


def _faulty(
    module: Any, level: str, inputs: list[dict[str, Any]], seed: int, fault: tuple[str, dict[str, Any]]
) -> RankRun:
    name, planted = fault
    try:
        interpret_ranks(module, inputs, seed=seed, **planted)
    except InterpreterError as error:
        return RankRun(level, name, seed, True, str(error))
    sent = planted.get("sendings") or (planted["calls"].sums if "calls" in planted else None) or ()
    pairs = "".join(f", from rank {source} to rank {target}," for source, target in sent)
    return RankRun(level, name, seed, False, f"the fault{pairs} was not found")
