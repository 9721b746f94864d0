"""The compilations that are checked in place of a kernel with fixed extents.

A kernel of fixed extents runs only on these, which are often too large for the interpreter, and takes few of the paths
of its schedule. So the same schedule is compiled for extents given at run time, which all shapes of the cover share,
and for small fixed ones that leave the same rest within a tile. If the schedule needs to know an extent, it is compiled
for several small values of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lowtide.compiler.driver import lower
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import Error
from lowtide.interpreter.host import LEVELS
from lowtide.verification.checking.interpretation import estimated_seconds
from lowtide.verification.checking.subjects import Subject

_NAMES = ("m", "n", "k", "batch")
_PATIENCE = 10.0  # estimated seconds up to which a kernel is run at its own extents
_FREED = (("m", "n", "k"), ("m", "n"), ("m", "k"), ("n", "k"), ("m",), ("n",), ("k",))


@dataclass(frozen=True)
class Variant:
    """A compilation to check, and notes on it."""

    name: str
    subject: Subject
    notes: tuple[str, ...] = ()


def variants_of(subject: Subject) -> list[Variant]:
    """The compilations that represent a kernel. Raises Error if none can be run."""
    spec = subject.spec
    fixed = [name for name in _NAMES if isinstance(getattr(spec, name), int)]
    if subject.is_edited or not fixed:
        return [Variant(_extents_text(spec), subject)]
    own = _own(subject, spec)
    if subject.dump is not None:
        if not own:
            raise Error(
                f"{subject.dump}: {_extents_text(spec)} is too large for the interpreter, and files are not compiled "
                "again for other extents; dump a smaller problem, or one of run-time extents [dump-too-large]"
            )
        return own
    freed = next(_freed(subject, spec, fixed), None)
    if freed is None:
        return [*own, *_fixed(subject, spec, fixed)]
    still = [name for name in fixed if getattr(freed.subject.spec, name) is not None]
    # The first of these values is the kernel's own if that is small, as in `freed`.
    more = [variant for variant in _fixed(subject, freed.subject.spec, still) if variant.name != freed.name]
    return [freed, *more, *(own or _fixed(subject, spec, fixed)[:1])]


def _own(subject: Subject, spec: GemmSpec) -> list[Variant]:
    """The kernel itself, if all its extents are fixed and small; for an extent of 0, the kernel for any extent."""
    if None in (spec.m, spec.n, spec.k, spec.batch) or 0 in (spec.m, spec.n, spec.k):
        return []
    extents = (spec.m or 0, spec.n or 0, spec.k or 0)
    seconds = sum(estimated_seconds(extents, subject.schedule.tile_mnk, source.level) for source in subject.interpreted)
    matrices = spec.batch if isinstance(spec.batch, int) else 1
    return [Variant(_extents_text(spec), subject)] if seconds * matrices < _PATIENCE else []


def _freed(subject: Subject, spec: GemmSpec, fixed: list[str]) -> Iterator[Variant]:
    """The same schedule for extents given at run time: as many of them as it allows, and the batch."""
    seen = set()
    for names in _FREED:
        free = tuple(name for name in (*names, "batch") if name in fixed)
        if not free or free in seen:
            continue
        seen.add(free)
        made = _compiled(subject, _with(spec, dict.fromkeys(free)))
        if made is not None:
            text = _extents_text(made.spec)
            yield Variant(text, made, (f"compiled for {_extents_text(spec)}; the same schedule is checked for {text}",))


def _fixed(subject: Subject, spec: GemmSpec, names: list[str]) -> list[Variant]:
    """The same schedule for small values of the extents `names`; the first values end within tiles as the spec's do."""
    if not names:
        return []
    choices = [_small(name, subject, spec) for name in names]
    longest = max(map(len, choices))
    rows = list(dict.fromkeys(tuple(choice[min(at, len(choice) - 1)] for choice in choices) for at in range(longest)))
    made = []
    for values in rows:
        compiled = _compiled(subject, _with(spec, dict(zip(names, values, strict=True))))
        if compiled is not None:
            made.append(Variant(_extents_text(compiled.spec), compiled))
    return made


def _small(name: str, subject: Subject, spec: GemmSpec) -> list[int]:
    """Values of an extent: with the spec's rest in its last tile, and with other numbers of tiles or steps."""
    m, n, k = subject.schedule.tile_mnk
    of_d = (*subject.facts.tile_of_d((m, n)), k)
    tiles = dict(zip("nmk" if subject.is_swapped else "mnk", of_d, strict=True))
    tile = tiles.get(name, 1)  # for a batch, a matrix
    extent = getattr(spec, name)
    count, rest = -(-extent // tile), extent % tile
    stages = subject.schedule.mainloop.stages or 2
    counts = [min(count, stages + 2), 1, 2, stages, stages + 1] if name == "k" else [min(count, 3), 1, 2]
    return list(
        dict.fromkeys(max(1, number * tile - (tile - rest if rest else 0)) for number in counts if number <= count)
    )


def _compiled(subject: Subject, spec: GemmSpec) -> Subject | None:
    """The levels of the same schedule for another spec; None if it is refused."""
    try:
        text = problem_text(spec, subject.target, subject.schedule)
        lowered = lower(text, until=LEVELS[-1])
    except Error:
        return None
    return Subject(lowered.levels, problem_text(spec, subject.target), subject.schedule, subject.target)


def _with(spec: GemmSpec, extents: Mapping[str, int | None]) -> GemmSpec:
    """The spec with other extents."""
    return replace(spec, **{name: extents.get(name, getattr(spec, name)) for name in _NAMES})


def _extents_text(spec: GemmSpec) -> str:
    extents = (spec.m, spec.n, spec.k)
    text = " x ".join("any" if extent is None else str(extent) for extent in extents)
    if extents == (None, None, None):
        text = "any extents"
    return f"{'any number' if spec.batch is None else spec.batch} of {text}" if spec.is_batched else text
