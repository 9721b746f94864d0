"""The subjects of `lowtide check`: the levels of a kernel, their problem, and the steps between two levels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lowtide.compiler.contexts import make_context, parse_file, parse_text, read_text
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.problem_ir import problem_in_text, problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.levels import Level, target_of
from lowtide.dialects.tile import OperandsKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error, IRError
from lowtide.interpreter.host import LEVELS
from lowtide.passes.pipeline import STEPS
from lowtide.passes.schedules.facts.alignment import multiplied
from lowtide.passes.support.problem.problem import Problem
from lowtide.runtime import storage
from lowtide.targets import Target, get
from lowtide.verification.checking.places import Place, places_of
from lowtide.verification.checking.runnable import host_beside
from lowtide.verification.checking.trials import Source


@dataclass(frozen=True)
class Step:
    """A file that a step wrote, or `""` for the input file, and its level."""

    level: str
    name: str
    path: Path

    def source(self) -> Source:
        host = host_beside(self.path) if self.level == str(Level.PTX) else ""
        return Source(self.level, read_text(self.path, "MLIR text"), str(self.path), host)


@dataclass(frozen=True)
class Subject:
    """Levels of one kernel by name, in order; the module of level problem that they must solve; its schedule.

    `dump`: the folder that they were read from, with the steps between them. `is_edited`: whether the kernel differs
    from the one that its problem and schedule compile to; then only these levels are checked.
    """

    levels: Mapping[str, str]
    problem: str
    schedule: Schedule
    target: Target
    dump: Path | None = None
    is_edited: bool = False

    @cached_property
    def spec(self) -> GemmSpec:
        """The problem, read from its IR."""
        with make_context() as context:
            module = parse_text(self.problem, context, "<problem>")
            return spec_of(module).spec

    @cached_property
    def facts(self) -> Problem:
        """The problem in the form of the passes: the one that the kernel computes, of pieces if it multiplies these."""
        problem = problem_in_text(self.problem)
        return multiplied(self.schedule, problem.swap() if self.is_swapped else problem)

    @property
    def is_swapped(self) -> bool:
        """Whether the kernel computes Dᵀ = Bᵀ · Aᵀ."""
        return self.schedule.grid.operands is OperandsKind.swapped

    def asked(self, extents: tuple[int, int, int]) -> tuple[int, int, int]:
        """M, N and K of the original problem, from those of the product that the kernel computes.

        With pieces, K of one pair is padded to whole units: it ends at each position within a unit in turn.
        """
        m, n, k = extents
        row = self.facts.decomposition
        if row is not None:
            units = k // row.depth(1)
            k = self.spec.k if self.spec.k is not None else units * row.unit - units % row.unit
        return (n, m, k) if self.is_swapped else (m, n, k)

    @property
    def places(self) -> list[Place]:
        """The possible places of matrices; the first requires the least of them."""
        return places_of(self.schedule, self.facts)

    @property
    def interpreted(self) -> list[Source]:
        """The levels that the interpreter runs."""
        host = self.levels.get(str(Level.LLVM), "")
        able = [level for level in self.levels if level in LEVELS and (host or level != str(Level.PTX))]
        return [Source(level, self.levels[level], self._name(level), host) for level in able]

    @property
    def ordering(self) -> Source | None:
        """The first level that has the order of work tiles."""
        says = (str(level) for level in Level if Level.CTA <= level <= Level.EPILOGUE)
        return next((source for level in says for source in self.interpreted if source.level == level), None)

    def _name(self, level: str) -> str:
        return "" if self.dump is None else str(last_step(self.dump, Level.named(level)))

    def steps(self, level: Level, before: Level, folder: Path) -> tuple[list[Step], str]:
        """The file of level `before`, then of each step that makes `level` from it; and a note, "" if all is as
        expected. Without a dump, the kernel is compiled once more, into `folder`.
        """
        if self.dump is not None:
            return [steps_in(self.dump, before)[-1], *steps_in(self.dump, level)], ""
        note = ""
        try:
            # From the level at which compilation began: another one would be held to the schedule first, and refused.
            made = lower(next(iter(self.levels.values())), until=level, dump_dir=folder).levels
            if all(made[str(own)] == self.levels[str(own)] for own in (before, level)):
                return [steps_in(folder, before)[-1], *steps_in(folder, level)], ""
            note = f"level {level} is made otherwise now than when the kernel was compiled: its steps are unknown"
        except Error as error:
            note = f"level {level} could not be made again: {error}"
        return [write_level(folder, own, self.levels[str(own)]) for own in (before, level)], note


def of_kernel(kernel: CompiledKernel) -> Subject:
    """The levels of a compiled kernel. Raises IRError if none of them has its whole problem."""
    return _subject(dict(kernel.levels), kernel.schedule, None)


def of_dump(folder: Path) -> Subject:
    """The levels of a dump folder, with its files unchanged. Raises IRError if it has none."""
    levels = {}
    for level in Level:
        path = last_step(folder, level)
        if path is not None:
            levels[str(level)] = read_text(path, "MLIR text")
    if not levels:
        raise IRError(
            f"{folder} has no folder NN-level of dumped steps; name one that --dump-ir has filled [no-dumped-steps]"
        )
    with make_context() as context:
        texts = [text for level, text in levels.items() if level != str(Level.PTX)]
        modules = [parse_text(text, context, str(folder)) for text in reversed(texts)]
        carried = [Schedule.carried_by(module) for module in modules]
    schedule = next((found for found in carried if found is not None), Schedule())
    return _subject(levels, schedule, folder)


def of_saved(folder: Path) -> tuple[Subject, str]:
    """The levels of a saved kernel, compiled again from the IR that was saved with it, and a note on its PTX.

    Level ptx is the saved text. Raises LoadError for a folder without a whole kernel, IRError if its IR was not saved.
    """
    manifest, ptx, _ = storage.read(folder)
    origin = manifest.get("origin")
    if origin is None:
        raise IRError(
            f"{folder} does not hold the IR that it was compiled from: compile it from level {Level.ATOMS} or before, "
            "with this version of Lowtide, and save it again [saved-without-ir]"
        )
    kernel = CompiledKernel(lower(origin, target=manifest["target"]))
    same = ptx == kernel.ptx
    note = "" if same else "the saved PTX is not what its IR compiles to here: other levels are of this version"
    return _subject({**kernel.levels, str(Level.PTX): ptx}, kernel.schedule, None), note


def of_file(against: Path | None, levels: Mapping[str, str], schedule: Schedule) -> Subject:
    """The levels made from a dumped file; `against` names the dump with their problem."""
    if against is None:
        return _subject(levels, schedule, None)
    with make_context() as context:
        module = parse_file(against, context)
        problem = _problem_of(str(module))
        if not problem:
            raise IRError(
                f"{against} does not say its epilogue; name a dump of level {Level.PROBLEM} [against-epilogue]"
            )
        return Subject(levels, problem, schedule, target_of(module))


def _subject(levels: Mapping[str, str], schedule: Schedule, dump: Path | None) -> Subject:
    for level, text in levels.items():
        if level == str(Level.PTX):
            continue
        problem = _problem_of(text)
        if problem:
            with make_context() as context:
                module = parse_text(text, context, f"<level {level}>")
                target = target_of(module)
            return Subject(levels, problem, schedule, target, dump)
    raise IRError(
        f"no level at hand ({', '.join(levels)}) says its epilogue any more: give an earlier dump with --against"
        " [levels-epilogue]"
    )


def _problem_of(text: str) -> str:
    """The module of level problem that a level must solve; "" if the level no longer has all of it."""
    with make_context() as context:
        module = parse_text(text, context, "<level>")
        found = spec_of(module)
        return problem_text(found.spec, get(target_of(module).name)) if found.whole else ""


def last_step(folder: Path, level: Level) -> Path | None:
    """The file that holds a finished level in a dump folder."""
    steps = steps_in(folder, level)
    return steps[-1].path if steps else None


def steps_in(folder: Path, level: Level) -> list[Step]:
    """The steps of a level in a dump folder, in order."""
    own = folder / f"{level.value:02d}-{level}"
    files = [own / "kernel.ptx"] if level is Level.PTX else sorted(own.glob("[0-9][0-9]-*.mlir"))
    return [_step(path, level) for path in files if path.exists()]


def _step(path: Path, level: Level) -> Step:
    name = STEPS[level][-1].name if level is Level.PTX else path.stem.partition("-")[2]
    return Step(str(level), name, path)


def write_level(folder: Path, level: Level, text: str, name: str = "level", number: int = 99) -> Step:
    """A level as a file of a dump folder."""
    own = folder / f"{level.value:02d}-{level}"
    path = own / ("kernel.ptx" if level is Level.PTX else f"{number:02d}-{name}.mlir")
    write_whole(path, text)
    return _step(path, level)
