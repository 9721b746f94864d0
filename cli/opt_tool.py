"""`lowtide-opt`: runs passes on a file, like mlir-opt, with Lowtide's and upstream's passes in one pipeline.

    lowtide-opt in.mlir --pass-pipeline='tile-to-ctas,canonicalize,cse' --target=sm_80

Exit status: 0 for success (with --verify-diagnostics: if exactly the expected diagnostics were reported), 1 otherwise,
2 for a wrong command line; 130 after an interrupt, 141 if the reader of a pipe is gone.
"""

import argparse
import errno
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlir import ir

from lowtide.cli.expected_diagnostics import Report, expectations, lines_of, unmet
from lowtide.compiler.contexts import make_context
from lowtide.compiler.native import resolve
from lowtide.compiler.pass_pipeline import Element, UpstreamFailure, parse_pipeline, run_pipeline
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.levels import TARGET_ATTRIBUTE, Level, check_level, level_of, target_of
from lowtide.dialects.locations import place_of
from lowtide.dialects.text import check_text
from lowtide.entry import guard
from lowtide.errors import Error
from lowtide.passes.pipeline import REGISTRY
from lowtide.runtime.files import bounded, read_file
from lowtide.targets import Target

_SEPARATOR = re.compile(r"^// -----.*\n?", re.MULTILINE)
_HERE = "-"  # the name that MLIR's parser gives to a text
_PLACE_HERE = re.compile(r"-:(\d+):(\d+): ")
_CURRENT_OPERATION = "see current operation:"


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status."""
    options = _parser().parse_args(argv)
    if options.list_passes:
        for kind in REGISTRY:
            print(kind.name)
        return 0
    try:
        text = _read(options.input)
        target = resolve(options.target) if options.target else None
        parse_pipeline(options.pass_pipeline, make_context())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        print(f"lowtide-opt: error: cannot read {options.input}: {reason}; name a file of MLIR text", file=sys.stderr)
        return 1
    except Error as error:
        print(f"lowtide-opt: error: {error}", file=sys.stderr)
        return 1
    outputs, succeeded = [], True
    try:
        for first_line, chunk in _chunks(text, split=options.split_input_file):
            job = _Job(chunk, first_line, options, target)
            outputs.append(job.run())
            succeeded &= job.succeeded()
        output = "// -----\n".join(printed for printed in outputs if printed is not None)
        if options.output == "-":
            print(output, end="")
        elif succeeded:
            write_whole(Path(options.output), output)
    except Error as error:
        print(f"lowtide-opt: error: {error}", file=sys.stderr)
        return 1
    return 0 if succeeded else 1


def _read(name: str) -> str:
    """The text of a file, or of standard input. Raises OSError or ValueError if it cannot be read."""
    if name != "-":
        return read_file(name, special=True).decode()
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return bounded(sys.stdin.buffer).decode()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lowtide-opt", description="Run Lowtide's and upstream MLIR's passes on a file of IR.", allow_abbrev=False
    )
    parser.add_argument("input", nargs="?", default="-", help="file to read; - for standard input (default)")
    parser.add_argument("-o", dest="output", default="-", help="file to write; - for standard output (default)")
    parser.add_argument("-p", "--pass-pipeline", default="", metavar="PASSES", help="e.g. 'tile-to-ctas,cse'")
    parser.add_argument(
        "--target", metavar="NAME", help="e.g. sm_80, or native; must agree with tile.target if both are given"
    )
    parser.add_argument(
        "--split-input-file", action="store_true", help="process the parts between `// -----` lines separately"
    )
    parser.add_argument(
        "--verify-diagnostics", action="store_true", help="compare diagnostics with expected-… comments"
    )
    parser.add_argument(
        "--check-level",
        nargs="?",
        const="",
        metavar="LEVEL",
        help="finally check the module against its level, or against this one",
    )
    parser.add_argument("--mlir-print-ir-after-all", action="store_true", help="print the IR after each pass (stderr)")
    parser.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    parser.add_argument("--mlir-print-op-generic", action="store_true", help="print in the generic form")
    parser.add_argument("--list-passes", action="store_true", help="list Lowtide's passes, in pipeline order, and stop")
    return parser


def _chunks(text: str, *, split: bool) -> list[tuple[int, str]]:
    """The parts of the input, each with the number of its first line."""
    if not split:
        return [(1, text)]
    chunks, start = [], 0
    for match in _SEPARATOR.finditer(text):
        chunks.append((text.count("\n", 0, start) + 1, text[start : match.start()]))
        start = match.end()
    return [*chunks, (text.count("\n", 0, start) + 1, text[start:])]


@dataclass
class _Job:
    """One part of the input: parsed, run and printed, with MLIR's diagnostics."""

    text: str
    first_line: int
    options: argparse.Namespace
    target: Target | None
    reports: list[Report] = field(default_factory=list)

    def run(self) -> str | None:
        """The IR after the passes, as text; None if something failed, which is then among the reports."""
        context = make_context()
        handler = context.attach_diagnostic_handler(self._take)
        try:
            return self._run(context)
        except ir.MLIRError:
            pass
        except Error as error:
            if isinstance(error, UpstreamFailure) or self._has_errors():
                return None
            self._report(_of_error(str(error)))
        finally:
            handler.detach()
        return None

    def succeeded(self) -> bool:
        """No error, or with --verify-diagnostics exactly the expected diagnostics. Prints the differences."""
        if not self.options.verify_diagnostics:
            return not self._has_errors()
        complaints = unmet(expectations(self.text, self.first_line), self.reports)
        for complaint in complaints:
            print(f"{self.options.input}:{complaint}", file=sys.stderr)
        return not complaints

    def _run(self, context: ir.Context) -> str:
        # Blank lines in front preserve the line numbers of the file.
        text = "\n" * (self.first_line - 1) + self.text
        check_text(text, self.options.input)
        module = ir.Module.parse(text, context)
        target = self._target(module)
        elements = parse_pipeline(self.options.pass_pipeline, context)
        run_pipeline(elements, module, target, after=lambda element: self._print_after(element, module))
        if self.options.check_level is not None:
            named = self.options.check_level
            check_level(module, Level.named(named) if named else level_of(module))
        return self._print(module)

    def _target(self, module: ir.Module) -> Target | None:
        if TARGET_ATTRIBUTE not in module.operation.attributes:
            return self.target
        written = target_of(module)
        if self.target is not None and self.target != written:
            raise Error(
                f"--target={self.target.name}, but the module is for {written.name}: leave one of them out [opt-target]"
            )
        return written

    def _print(self, module: ir.Module) -> str:
        text = module.operation.get_asm(
            enable_debug_info=self.options.mlir_print_debuginfo,
            print_generic_op_form=self.options.mlir_print_op_generic,
        )
        return str(text).rstrip("\n") + "\n"

    def _print_after(self, element: Element, module: ir.Module) -> None:
        if self.options.mlir_print_ir_after_all:
            print(f"// -----// IR Dump After {element} //----- //\n{self._print(module)}", file=sys.stderr)

    def _has_errors(self) -> bool:
        return any(report.kind == "error" for report in self.reports)

    def _take(self, diagnostic: ir.Diagnostic) -> bool:
        self._report(_as_report(diagnostic, diagnostic.severity.name.lower()))
        for note in diagnostic.notes:
            # MLIR notes the op beside a verifier's message; as in mlir-opt, tests need not expect that note.
            if not (self.options.verify_diagnostics and note.message.startswith(_CURRENT_OPERATION)):
                self._report(_as_report(note, "note"))
        return True

    def _report(self, report: Report) -> None:
        self.reports.append(report)
        if self.options.verify_diagnostics:
            return
        print(f"{self.options.input}:{report}" if report.line else report, file=sys.stderr)
        lines = lines_of(self.text)
        index = (report.line or 0) - self.first_line
        if report.line and 0 <= index < len(lines):
            print(f"{lines[index]}\n{' ' * ((report.column or 1) - 1)}^", file=sys.stderr)


def _as_report(diagnostic: ir.Diagnostic, kind: str) -> Report:
    place = place_of(diagnostic.location)
    if place is None:
        return Report(kind, None, None, diagnostic.message)
    file, line, column = place
    if file != _HERE:
        return Report(kind, None, None, diagnostic.message, elsewhere=f"{file}:{line}:{column}")
    return Report(kind, line, column, diagnostic.message)


def _of_error(message: str) -> Report:
    """An error of Lowtide; the message may begin with a place in the file."""
    place = _PLACE_HERE.match(message)
    if place is None:
        return Report("error", None, None, message)
    return Report("error", int(place[1]), int(place[2]), message[place.end() :])


if __name__ == "__main__":
    sys.exit(guard("lowtide-opt", main, refused=1))
