"""`lowtide fuzz`: random problems and schedules, steered to pairs of words that no kernel has had yet."""

from pathlib import Path
from typing import Annotated

import typer

from lowtide import entry
from lowtide.cli import options
from lowtide.cli.console import seed_or_drawn
from lowtide.cli.output import busy, line
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import Error
from lowtide.verification.fuzz.case import Ended
from lowtide.verification.fuzz.search import Journal
from lowtide.verification.fuzz.search import fuzz as search
from lowtide.verification.fuzz.words import text_of

JournalFile = Annotated[
    Path | None, typer.Option("--journal", help="File of the pairs covered so far; updated after each case.")
]
Merged = Annotated[
    list[Path] | None,
    typer.Option("--merge", help="Journal of another run, whose pairs count too. Repeatable."),
]
Budget = Annotated[
    float, typer.Option("--budget", min=0, help="Seconds after which no case is started; 0 only merges journals.")
]
TestFile = Annotated[Path, typer.Option("--test", help="Write a failing case to this file, as a lit test.")]


def fuzz(
    journal: JournalFile = None,
    merge: Merged = None,
    budget: Budget = 60.0,
    seed: options.Seed = None,
    test: TestFile = Path("fuzz-failure.mlir"),
) -> None:
    """Draw problems, schedules and shapes; run each at levels nvvm, ptx and one more; shrink failing cases.

    Exit status: 0 if no case failed, 1 if one did, 2 if refused, 3 if the interpreter itself failed in a case.
    """
    seed = seed_or_drawn(seed)
    found = Journal() if journal is None else Journal.read(journal)
    for path in merge or ():
        if not path.exists():
            raise Error(f"there is no journal {path} to merge [no-journal]")
        found.merge(Journal.read(path))
    if journal is not None:
        check_writable(journal)
    check_writable(test)
    try:
        failure = None
        with busy("fuzzing") as update:

            def on_progress(text: str) -> None:
                update(text)
                if journal is not None:
                    found.write(journal)

            if budget:
                found.give_up_words()
            failure = search(found, budget=budget, seed=seed, on_progress=on_progress)
        if failure is not None:
            write_whole(test, failure.result.test)
            found.failures.append({"words": text_of(failure.case.words), "message": failure.result.message})
    finally:
        if journal is not None:
            found.write(journal)
    if failure is not None:
        line("FAILED", text_of(failure.case.words))
        line("schedule", str(failure.case.schedule))
        line("message", failure.result.message)
        line("test", str(test))
    line("result", found.summary())
    line("seed", str(seed))
    if failure is not None:
        raise typer.Exit(entry.FAILED if failure.result.ended is Ended.interpreter_failed else 1)
