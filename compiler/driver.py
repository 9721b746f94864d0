"""The driver: runs the table of steps in order, from the level of the input IR down to the requested level.

After each level the module is verified, checked for legal ops, printed and parsed again. The text is the contract: a
level that is dumped and read back compiles exactly as if it had stayed in memory.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from mlir import ir

from lowtide.compiler.contexts import Source, make_context, parse_source, parse_text
from lowtide.compiler.dumps import DumpFolder, place_of
from lowtide.compiler.native import resolve
from lowtide.compiler.origins.files import text_of
from lowtide.compiler.origins.origins import PTX_PLACE, Origins
from lowtide.compiler.origins.origins import Step as OriginsStep
from lowtide.compiler.origins.record import Recorder
from lowtide.compiler.pass_pipeline import Element, UpstreamFailure, parse_pipeline, run_element
from lowtide.compiler.ptx import keep_device_side, ptx_text
from lowtide.compiler.ptxas import Assembly
from lowtide.compiler.reproducer import command_line, message_at, write_reproducer
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.levels import (
    TARGET_ATTRIBUTE,
    Level,
    check_level,
    level_of,
    set_level,
    set_target,
    target_of,
)
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, Error, IRError, PassError
from lowtide.passes.base import Pass
from lowtide.passes.pipeline import ENTRY_STEP, STEPS, Step
from lowtide.targets import Target

# On a module between two levels: the last step that has run.
AFTER_ATTRIBUTE = "tile.after"

Progress = Callable[[Level, str], None]


@dataclass(frozen=True)
class Timing:
    """The time that one pass took, and its owner: `lowtide`, `mlir`, or `llvm` (the NVPTX backend)."""

    level: Level
    step: str
    owner: str
    seconds: float


@dataclass(frozen=True)
class Lowered:
    """The result of a compilation: the text of each level that it passed, by the level's name."""

    levels: Mapping[str, str]
    target: Target
    timings: tuple[Timing, ...]
    dump_dir: Path | None
    entered: str = ""
    """The input module, if it was of level `problem`."""
    chosen: Schedule | None = None
    """The schedule, if some of its fields were chosen here."""
    assembly: Assembly | None = None
    """The machine code, if it was assembled."""
    origins: Origins | None = field(default=None, repr=False)
    """Where the ops of each step come from, and the instructions of the PTX, if this was recorded."""

    @property
    def ptx(self) -> str | None:
        """The PTX text, if level `ptx` was reached."""
        return self.levels.get(str(Level.PTX))


def lower(
    source: Source,
    *,
    target: str | None = None,
    until: Level | str = Level.PTX,
    dump_dir: Source | None = None,
    on_progress: Progress | None = None,
    origins: bool = False,
) -> Lowered:
    """Lower IR of any level to level `until`.

    `source` is the text of a module, or a path: a `Path`, or a `str` that ends in `.mlir`. Its level is in `tile.level`
    and its target in `tile.target`; `target` (a name or `native`) may supply the latter but not contradict it. At level
    `problem` the schedule is chosen first; below it, an edited schedule is verified. `dump_dir` gets the text of each
    step, and the origins of its ops. `origins`: record these too; the code is the same.

    Raises IRError for IR that is malformed or not of its level. If a pass refuses, raises PassError (or the class of
    the error that caused it, such as ScheduleError) with a reproducer. Raises Error for a folder that cannot be
    written, or that another compilation is dumping into.
    """
    last = until if isinstance(until, Level) else Level.named(until)
    with nullcontext() if dump_dir is None else DumpFolder(dump_dir) as dumps:
        compilation = _enter(source, target, dumps, on_progress or (lambda level, step: None))
        compilation.recorder = None if dumps is None and not origins else Recorder()
        first = compilation.level
        if last < first:
            raise IRError(
                f"the module is of level {first}, which is past level {last}; ask for {first} or a later level"
                " [past-last-level]"
            )
        if dumps is not None:
            later = (level for level in STEPS if level > first)
            dumps.clear((level, n, step.name) for level in later for n, step in enumerate(STEPS[level], 1))
        compilation.keep_step(first, 0, "input")
        if first is Level.PROBLEM:
            compilation.entered = str(compilation.module)
        compilation.start()
        for level in Level:
            if first < level <= last:
                compilation.make_level(level)
        return compilation.result()


def _enter(source: Source, target: str | None, dumps: DumpFolder | None, on_progress: Progress) -> "_Compilation":
    """Parse the source, and determine its level and target."""
    context = make_context()
    asked = None if target is None else resolve(target)
    module = parse_source(source, context)
    attributes = module.operation.attributes
    if TARGET_ATTRIBUTE not in attributes:
        if asked is None:
            raise IRError(
                f'the module has no {TARGET_ATTRIBUTE} and no target was given: add one, e.g. target="sm_80"'
                " [target-unsaid]"
            )
        set_target(module, asked)
    settled = target_of(module)
    if asked not in (None, settled):
        raise IRError(
            f"target {target} was asked for, but the module is for {settled.name}: leave the argument out, or lower "
            f"again from level {Level.PROBLEM} with {TARGET_ATTRIBUTE} changed [target-differs]"
        )
    return _Compilation(context, module, settled, dumps, on_progress, level_of(module))


@dataclass
class _Compilation:
    """A module being lowered; one object per compilation, not shared."""

    context: ir.Context
    module: ir.Module
    target: Target
    dumps: DumpFolder | None
    on_progress: Progress
    level: Level
    texts: dict[str, str] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)
    entered: str = ""
    chosen: Schedule | None = None
    recorder: Recorder | None = None
    at_start: ir.Operation | None = None
    """A copy of the module before the level's first pass. If a pass fails, those before it run again from here."""
    ran: list[Element] = field(default_factory=list)
    """The passes that have run since then."""

    def result(self) -> Lowered:
        folder = self.dumps.path if self.dumps is not None else None
        timings = tuple(self.timings)
        origins = None if self.recorder is None else self.recorder.result()
        return Lowered(self.texts, self.target, timings, folder, self.entered, self.chosen, origins=origins)

    def start(self) -> None:
        """Run the remaining steps of the input's level."""
        attributes = self.module.operation.attributes
        resumed = AFTER_ATTRIBUTE in attributes
        if not resumed:
            check_level(self.module, self.level)
        if self.level is Level.PROBLEM or resumed:
            given = Schedule.carried_by(self.module)
            self.make_level(self.level, after=ir.StringAttr(attributes[AFTER_ATTRIBUTE]).value if resumed else None)
            complete = Schedule.carried_by(self.module)
            self.chosen = None if complete == given else complete
            return
        self._start_level()
        entry = parse_pipeline(ENTRY_STEP.text(self.target), self.context)
        if all(isinstance(element, Pass) and element.needs in (None, self.level) for element in entry):
            self._run_step(self.level, ENTRY_STEP)
        self.texts[str(self.level)] = str(self.module)

    def make_level(self, level: Level, after: str | None = None) -> None:
        """Run the steps of a level (after the step `after`, if given), then check the result against the level."""
        steps = STEPS[level]
        done = steps_done(level, after)
        if level is Level.PTX:
            keep_device_side(self.module)
        self._start_level()
        for number, step in list(enumerate(steps, 1))[done:]:
            self._run_step(level, step)
            if level is not Level.PTX:
                self._mark(level, step if number < len(steps) else None)
            if number < len(steps) and level is not Level.PTX:
                self.keep_step(level, number, step.name)
        if level is Level.PTX:
            self._take_ptx()
            return
        remaining = ",".join(step.text(self.target) for step in steps[done:])
        try:
            self._end_level(level, steps[-1], len(steps))
        except IRError as error:
            self._fail(error, steps[-1].name, remaining, level)

    def keep_step(self, level: Level, number: int, name: str) -> None:
        """Dump a step, and record where its ops come from, if asked to."""
        if self.recorder is None:
            return
        text, place = _verified_text(self.module), place_of(level, number, name)
        file = self._dump(place, text)
        if number:
            step = self.recorder.record(place, self.module, text, file)
        else:
            step = self.recorder.begin(place, self.module, text)
        self._dump_origins(step)

    def _dump(self, place: str, text: str) -> str:
        """Write the text of a step, if there is a folder for it. Returns the file's name, for locations of ops."""
        if self.dumps is None:
            return f"<{place}>"
        path = self.dumps.text(place)
        write_whole(path, text)
        return str(path)

    def _dump_origins(self, step: OriginsStep) -> None:
        if self.dumps is not None:
            write_whole(self.dumps.origins(step.place), text_of(step))

    def _start_level(self) -> None:
        self.at_start, self.ran = self.module.operation.clone(), []

    def _mark(self, level: Level, step: Step | None) -> None:
        """Record the position on the module: its level, and the last step if the level is not complete."""
        set_level(self.module, level)
        attributes = self.module.operation.attributes
        if step is not None:
            attributes[AFTER_ATTRIBUTE] = ir.StringAttr.get(step.name, self.context)
        elif AFTER_ATTRIBUTE in attributes:
            del attributes[AFTER_ATTRIBUTE]

    def _run_step(self, level: Level, step: Step) -> None:
        self.on_progress(level, step.name)
        elements = parse_pipeline(step.text(self.target), self.context)
        for element in elements:
            started = time.perf_counter()
            try:
                _run(element, self.module, self.target)
            except Error as error:
                refusal = _is_refusal(element, error)
                self._fail(error, str(element), str(element), refusal=refusal)
            self.ran.append(element)
            name = step.name if len(elements) == 1 else str(element)
            self.timings.append(Timing(level, name, _owner(element), time.perf_counter() - started))

    def _end_level(self, level: Level, step: Step, number: int) -> None:
        """Check for legal ops, print, parse and verify again, and dump."""
        started = time.perf_counter()
        check_level(self.module, level)
        text, place = _verified_text(self.module), place_of(level, number, step.name)
        file = self._dump(place, text)
        # Parse the text, not the file: another process could change the file meanwhile.
        before, self.module = self.module, parse_text(text, self.context, file)
        if self.recorder is not None:
            self._dump_origins(self.recorder.record_parsed(place, before, text, self.module))
        # Below these levels upstream's printers are used and the text is long: a test covers them.
        if level <= Level.EPILOGUE and _verified_text(self.module) != text:
            raise IRError(
                f"level {level} does not read back as it was printed; this is a bug in the dialects [level-reads-back]"
            )
        self.level = level
        self.texts[str(level)] = text
        self.timings.append(Timing(level, "check, print and reparse", "lowtide", time.perf_counter() - started))

    def _take_ptx(self) -> None:
        self.texts[str(Level.PTX)] = text = ptx_text(self.module)
        if self.dumps is not None:
            write_whole(self.dumps.text(PTX_PLACE), text)
        if self.recorder is not None:
            self._dump_origins(self.recorder.record_ptx(text, STEPS[Level.PTX][0].text(self.target)))

    def _before(self) -> str:
        """The module before the pass that failed. The earlier passes run again, since they are pure functions."""
        module = parse_text(str(self.at_start), self.context, "<before>")
        for element in self.ran:
            _run(element, module, self.target)
        attributes = self.module.operation.attributes
        if AFTER_ATTRIBUTE in attributes:
            module.operation.attributes[AFTER_ATTRIBUTE] = attributes[AFTER_ATTRIBUTE]
        return str(module)

    def _fail(
        self, error: Error, name: str, pipeline: str, level: Level | None = None, refusal: bool = False
    ) -> NoReturn:
        """Raise the error again with its reproducer and its position; `level`: the level whose check failed.

        A refusal without a dump folder has no reproducer: a search over schedules would leave a file for each.
        """
        folder = self.dumps.path if self.dumps is not None else None
        if folder is None and refusal:
            raise type(error)(
                f"{error}\n  for the IR before it, and the command that fails again: dump_ir=… or --dump-ir …"
            ) from None
        before = str(self.at_start) if level is not None else self._before()
        path = write_reproducer(before, pipeline, self.target, folder, level=level)

        def run(module: ir.Module) -> None:
            for element in parse_pipeline(pipeline, module.context):
                _run(element, module, self.target)
            if level is not None:
                check_level(module, level)

        message = message_at(path, run) or str(error)
        command = command_line(path, pipeline, self.target, level=level)
        kind = type(error) if type(error) is not IRError else PassError
        subject = message if name in message else f"{name}: {message}"
        raise kind(f"{subject}\n  IR before it: {path}\n  fails again with: {command}") from _fault(error)


def _verified_text(module: ir.Module) -> str:
    """The text of a module that has just been verified; `str` would verify it again."""
    return str(module.operation.get_asm(assume_verified=True))


def steps_done(level: Level, after: str | None) -> int:
    """How many steps of a level are done after the named one; none for None. Raises IRError for an unknown name."""
    names = [step.name for step in STEPS[level]]
    if after is None:
        return 0
    if after not in names:
        raise IRError(
            f"{AFTER_ATTRIBUTE} names {after!r}, which is not a step of level {level}; its steps are {', '.join(names)}"
            " [unknown-step]"
        )
    return names.index(after) + 1


def _is_refusal(element: Element, error: Error) -> bool:
    """Whether one of our passes refused its input; otherwise the fault is in the pass or in the backend."""
    return isinstance(element, Pass) and type(error) is not IRError and _fault(error) is None


def _fault(error: BaseException) -> BaseException | None:
    """The first cause of `error` that is not a Lowtide error: a fault that needs its traceback. None for a refusal."""
    behind = error.__cause__
    return behind if behind is None or not isinstance(behind, Error) else _fault(behind)


def _owner(element: Element) -> str:
    if isinstance(element, Pass):
        return "lowtide"
    return "llvm" if str(element).startswith("gpu-module-to-binary") else "mlir"


def _run(element: Element, module: ir.Module, target: Target) -> None:
    """Run one pass. Diagnostics of MLIR become part of the error: PassError, or CompileError for the backend."""
    with Diagnostics(module.context) as diagnostics:
        try:
            run_element(element, module, target)
        except UpstreamFailure as error:
            kind = CompileError if _owner(element) == "llvm" else PassError
            raise kind("; ".join([str(error), *diagnostics.errors])) from None
