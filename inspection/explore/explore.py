"""`kernel.explore` and `lowtide explore`: a kernel, or a dump folder, as one HTML file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import Error, IRError
from lowtide.inspection.explore.data import page_data
from lowtide.inspection.explore.page import page_text
from lowtide.inspection.explore.steps import steps_in, steps_of
from lowtide.inspection.timeline.timeline import read_trace
from lowtide.keywords import check_keywords

_SUFFIXES = (".html", ".htm")


@check_keywords
def explore(
    what: "CompiledKernel | str | os.PathLike[str]",
    file: str | os.PathLike[str],
    *,
    report: Mapping[str, Any] | None = None,
    trace: str | os.PathLike[str] | None = None,
) -> None:
    """Write a page that shows a kernel: its levels side by side with links between their ops, its schedule with
    reasons, counts and pictures (docs/explore.md). It is one HTML file that needs no network.

    `what`: a compiled kernel, or a dump folder, edited or not. `file`: a .html file. `report`: what `lt.check` found
    for it, as `CheckResult.as_json` gives it. `trace`: a file of `lowtide explain … --trace`, whose timelines are shown
    in place of the predicted one. Raises Error for a file that cannot be written, a folder without dumps, and a report
    or a trace of another form.
    """
    path = Path(file)
    check_page(path)
    timelines = [] if trace is None else read_trace(Path(trace))
    if isinstance(what, CompiledKernel):
        name, steps = "kernel", steps_of(what.origins)
    elif isinstance(what, str | os.PathLike):
        folder = Path(what)
        if not folder.is_dir():
            raise IRError(f"{folder} is not a folder of dumps; name one that --dump-ir or dump_ir=… filled [not-dumps]")
        name, steps = folder.absolute().name, steps_in(folder)
    else:
        raise Error(f"a page shows a compiled kernel or a dump folder, not {type(what).__name__} [explored-kind]")
    write_whole(path, page_text(page_data(name, steps, report, timelines)))


def check_page(path: Path) -> None:
    """Raise Error if a page could not be written to a file, before it is made."""
    if path.suffix.lower() not in _SUFFIXES:
        raise Error(f"{path}: a page is an HTML file; end the name in .html [page-format]")
    check_writable(path)
