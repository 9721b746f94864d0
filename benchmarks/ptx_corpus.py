"""Checks kernels of other compilers, and planted faults in them, and compares each verdict with the true one.

    python benchmarks/ptx_corpus.py                  all; a line for each, then counts
    python benchmarks/ptx_corpus.py --only TEXT      those whose name, such as spin_lock/never-unlocked, has TEXT
    python benchmarks/ptx_corpus.py --seed N         with another order of warps
    python benchmarks/ptx_corpus.py --record         write tables to benchmarks/results/ptx-corpus*.json, too

test/ptx/corpus.json has each kernel with its compiler, what its results were recorded from, and its faults. A fault is
a file of its own, or edits of the kernel's PTX: `from` becomes `to` at its n-th occurrence (`nth`), or at its only one.
Its `verdict` is the true one by the PTX ISA; those in `also` are as good. The report must name one of `names`: lines of
the source (`file:line`) or parts of an instruction. `known` says why a verdict of the checker still differs.

Exit status: 1 if a right kernel is refused, or a fault is not found as it should be and is not known; otherwise 0.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import record

from lowtide.errors import Error
from lowtide.interpreter.launching import parsed
from lowtide.interpreter.ptx.syntax import Instruction, Module
from lowtide.ptx.judging import check_record
from lowtide.ptx.kinds import UNKNOWN, kind_before_run
from lowtide.ptx.launch_files import AFTER, BEFORE, LAUNCH, read_launch
from lowtide.ptx.reports import Place, Report, broken
from lowtide.ptx.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "test" / "ptx" / "corpus.json"
SETTINGS = Settings(seconds=10.0)

RIGHT = ("right", "false alarm", "wrong result", "undecided", "not interpreted")
FOUND = ("found", "found as good", "other line", "other verdict", "missed", "undecided", "not interpreted")
"""What is said of a right kernel, and of a fault: wanted are the first of the one, and the first two of the other."""


@dataclass(frozen=True)
class Case:
    """A kernel (`fault` is empty) or a fault in it; `fields` are those of the fault in the manifest."""

    kernel: str
    compiler: str
    fault: str
    fields: Mapping[str, Any]
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.kernel}/{self.fault}" if self.fault else self.kernel

    @property
    def file(self) -> str:
        return str(self.fields.get("file", "kernel.ptx"))

    def text(self) -> str:
        """The PTX, with the edits of the fault."""
        text = (self.folder / self.file).read_text(encoding="utf-8")
        for edit in self.fields.get("edits", ()):
            text = edited(text, edit["from"], edit["to"], edit.get("nth"))
        return text


@dataclass(frozen=True)
class Outcome:
    """What the checker said. `word` is one of RIGHT or FOUND. `instructions`: the names of those in the file."""

    case: Case
    word: str
    report: Report
    seconds: float
    instructions: frozenset[str] = frozenset()

    @property
    def wanted(self) -> bool:
        return self.word in ("right", "found", "found as good")

    @property
    def failed(self) -> bool:
        """Whether it is a failure of the checker that the manifest does not know."""
        return not self.wanted and self.word != "not interpreted" and "known" not in self.case.fields


def edited(text: str, old: str, new: str, nth: int | None = None) -> str:
    """A text with the n-th occurrence (from 1) of `old` replaced. Raises ValueError if it is not there, or, without
    `nth`, if there is more than one."""
    parts = text.split(old)
    if len(parts) <= (nth or 1) or (nth is None and len(parts) > 2):
        raise ValueError(f"{old!r} occurs {len(parts) - 1} times; the edit is of {nth or 'its only'} occurrence")
    at = nth or 1
    return old.join(parts[:at]) + new + old.join(parts[at:])


def cases(manifest: Path = MANIFEST) -> Iterator[Case]:
    """Each kernel, followed by its faults."""
    for name, kernel in json.loads(manifest.read_text(encoding="utf-8")).items():
        folder = manifest.parent / "kernels" / name
        yield Case(name, kernel["compiler"], "", {key: kernel[key] for key in kernel if key != "faults"}, folder)
        for fault in kernel["faults"]:
            yield Case(name, kernel["compiler"], fault["name"], fault, folder)


def outcome(case: Case, settings: Settings = SETTINGS) -> Outcome:
    """Check a case as `lowtide ptx check` does, and judge the report."""
    started, instructions = time.perf_counter(), frozenset[str]()
    try:
        source = parsed(case.text(), case.file)
        instructions = _instructions(source.module)
        files = (case.folder / name for name in (LAUNCH, BEFORE, AFTER))
        given = read_launch(source.module, *files, None)
        report = check_record(source, given.record, given.expected, settings)
    except Error as error:
        report = broken(error, kind_before_run(error), None, case.file)
    return Outcome(case, _word(case, report), report, time.perf_counter() - started, instructions)


def _instructions(module: Module) -> frozenset[str]:
    """Their names without modifiers, such as `ld` and `mma`."""
    bodies = (entry.body for entry in module.entries.values())
    return frozenset(each.name.partition(".")[0] for body in bodies for each in body if isinstance(each, Instruction))


def _word(case: Case, report: Report) -> str:
    if report.status == UNKNOWN:
        return "not interpreted" if report.kind == "not-interpreted" else "undecided"
    if not case.fault:
        return "right" if report.ok else "wrong result" if report.kind == "wrong-result" else "false alarm"
    if report.ok:
        return "missed"
    if report.kind not in (case.fields["verdict"], *case.fields.get("also", ())):
        return "other verdict"
    if case.fields["names"] and not any(names(place, text) for place in report.places for text in case.fields["names"]):
        return "other line"
    return "found" if report.kind == case.fields["verdict"] else "found as good"


def names(place: Place, text: str) -> bool:
    """Whether a place is at a line of the source (`file:line`), or its instruction has the text."""
    return text in place.text or any(f"{line.file.rsplit('/', 1)[-1]}:{line.line}" == text for line in place.source)


def tables(outcomes: Sequence[Outcome]) -> dict[str, record.Result]:
    """The results by name: counts of kernels by compiler and of faults by verdict, then a row for each."""
    kernels = [each for each in outcomes if not each.case.fault]
    faults = [each for each in outcomes if each.case.fault]
    return {
        "ptx-corpus": _result(*_counts("compiler", "kernels", RIGHT, [(each.case.compiler, each) for each in kernels])),
        "ptx-corpus-verdicts": _result(
            *_counts("true verdict", "faults", FOUND, [(each.case.fields["verdict"], each) for each in faults])
        ),
        "ptx-corpus-kernels": _result(*_kernels(outcomes)),
        "ptx-corpus-faults": _result(*_faults(outcomes)),
    }


def _result(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> record.Result:
    command = record.command_line(__file__, [])
    return record.Result("CPU, one process", record.today(), command, tuple(columns), tuple(map(tuple, rows)))


def _counts(
    by: str, what: str, words: Sequence[str], grouped: Sequence[tuple[str, Outcome]]
) -> tuple[Sequence[str], list[list[Any]]]:
    """A row for each group, and one for all: how many there are, and how many of each word; of kernels also how many
    names of instructions."""
    rows = []
    for name in (*dict.fromkeys(group for group, _ in grouped), "all"):
        of = [each for group, each in grouped if name in (group, "all")]
        said = Counter(each.word for each in of)
        names = {found for each in of for found in each.instructions if not each.case.fault}
        counts = [len(of), *([len(names)] if names else []), *(said[word] for word in words)]
        rows.append([name, *map(Decimal, counts), _seconds(of)])
    return [by, what, *(["instructions"] if names else []), *words, "s"], rows


def _kernels(outcomes: Sequence[Outcome]) -> tuple[Sequence[str], list[list[Any]]]:
    rows = []
    for each in outcomes:
        if not each.case.fault:
            faults = [one for one in outcomes if one.case.fault and one.case.kernel == each.case.kernel]
            found = f"{sum(one.wanted for one in faults)} of {len(faults)}" if faults else ""
            fields = each.case.fields
            said = each.report.verdict if each.word == "right" else f"{each.report.kind} ({each.word})"
            said += _reason(each)
            about = [each.case.compiler, str(fields["about"]), str(fields["recorded"])]
            rows.append([each.case.kernel, *about, said, found, _seconds([each, *faults])])
    return ["kernel", "compiler", "what it uses", "results from", "verdict", "faults found", "s"], rows


def _faults(outcomes: Sequence[Outcome]) -> tuple[Sequence[str], list[list[Any]]]:
    rows = []
    for each in outcomes:
        if each.case.fault:
            fields = each.case.fields
            true = " or ".join([fields["verdict"], *fields.get("also", ())])
            said = f"{each.report.kind} ({each.word})" + _reason(each)
            rows.append([each.case.kernel, str(fields["what"]), true, said])
    return ["kernel", "fault", "true verdict", "reported"], rows


def _reason(each: Outcome) -> str:
    """Why a verdict differs from the true one, if it does and that is known."""
    return f": {each.case.fields['known']}" if "known" in each.case.fields and not each.wanted else ""


def _seconds(outcomes: Sequence[Outcome]) -> Decimal:
    return Decimal(f"{sum(each.seconds for each in outcomes):.1f}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name has TEXT")
    parser.add_argument("--seed", type=int, default=0, help="of the order of warps")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/ptx-corpus*.json")
    options = parser.parse_args(argv)
    if options.record and (options.only or options.seed):
        parser.error("--record is of all cases, with seed 0: leave out --only and --seed")
    outcomes = []
    for case in cases():
        if options.only in case.name:
            each = outcome(case, replace(SETTINGS, seed=options.seed))
            outcomes.append(each)
            print(f"{each.word:15} {each.seconds:6.2f} s  {case.name}: {each.report.verdict}", flush=True)
            if each.wanted and "known" in case.fields:
                print(f"{'':27}is right now: remove `known` from {MANIFEST.name}", flush=True)
            if not each.wanted:
                print("\n".join(f"{'':27}{line[:300]}" for line in str(each.report).splitlines()), flush=True)
    print(", ".join(f"{count} {word}" for word, count in Counter(each.word for each in outcomes).items()))
    if options.record:
        for name, result in tables(outcomes).items():
            (record.FOLDER / f"{name}.json").write_text(result.text(), encoding="utf-8")
    return int(any(each.failed for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
