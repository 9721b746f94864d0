"""Kernels: the threads that load, read, multiply and store each element, and the banks of shared memory.

Everything is derived from the kernel's IR at level `epilogue`: tiled copies, fragments, tensor maps, layouts of
buffers. An edited dump is drawn with its edits.
"""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from mlir import ir

from lowtide.compiler import driver
from lowtide.compiler.contexts import make_context, parse_source, parse_text
from lowtide.compiler.driver import Progress
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.levels import Level, level_of
from lowtide.errors import Error, IRError
from lowtide.inspection.draw import banks, held
from lowtide.inspection.draw.copies import Copies
from lowtide.inspection.draw.panels import Panel, Part, Picture
from lowtide.inspection.explain.accesses import accesses_of

# Whole tiles are too large to read; the work of one or two warps repeats.
DEFAULT_PART: Part = MappingProxyType({"m": range(16), "n": range(16), "k": range(32)})
_COLUMNS = 3

Row = list[Panel | None]


def kernel_picture(
    source: str | os.PathLike[str],
    target: str | None = None,
    show: str | None = None,
    part: Part | None = None,
    *,
    on_progress: Progress | None = None,
) -> Picture:
    """The picture of a kernel: IR of level `problem` to `epilogue`, as text or the path of a dump.

    `show` is one of VIEWS; None draws all. `part` has ranges of m, n and k; the default is the first 16 of m and n and
    32 of k. Raises Error for an unknown view or a later level, and the errors of compiling.
    """
    if show is not None and show not in VIEWS:
        nearest = difflib.get_close_matches(show, VIEWS, n=1, cutoff=0.0)[0]
        raise Error(
            f"no view is called {show!r}; choose from {', '.join(VIEWS)}; did you mean {nearest!r}? [unknown-view]"
        )
    with make_context() as context:
        module = _at_epilogue(source, target, context, on_progress)
        spec = spec_of(module).spec
        copies = Copies(module, spec.layout)
        rows = [row for name in ([show] if show else VIEWS) for row in VIEWS[name](module, copies)]
    if not rows:
        raise Error(f"the kernel has no view {show!r}; choose another of {', '.join(VIEWS)} [no-view]")
    columns = max(map(len, rows))
    panels = tuple(panel for row in rows for panel in (*row, *[None] * (columns - len(row))))
    name = f"{spec.a} {spec.layout} kernel" + (", one matrix of a batch" if spec.is_batched else "")
    legend = banks.LEGEND if show == "banks" else held.LEGEND + ("" if show else f"; banks: {banks.LEGEND}")
    whole = Picture(name, f"{name}: {show or 'all views'}; {legend}", panels, columns)
    wanted, axes = {**DEFAULT_PART, **(part or {})}, whole.extents()
    # A view may lack one of m, n and k; other axes are errors.
    return whole.cut({axis: given for axis, given in wanted.items() if axis in axes or axis not in DEFAULT_PART})


def _at_epilogue(
    source: str | os.PathLike[str], target: str | None, context: ir.Context, on_progress: Progress | None
) -> ir.Module:
    """The module if it is of that level, else its lowering."""
    origin = parse_source(source, context)
    level = level_of(origin)
    if level > Level.EPILOGUE:
        raise IRError(f"level {level} has no tiled copies; draw a dump of level epilogue or earlier [drawn-too-late]")
    if level is Level.EPILOGUE and driver.AFTER_ATTRIBUTE not in origin.operation.attributes:
        return origin
    lowered = driver.lower(source, target=target, until=Level.EPILOGUE, on_progress=on_progress)
    return parse_text(lowered.levels[str(Level.EPILOGUE)], context, "<level epilogue>")


def _multiply(module: ir.Module, copies: Copies) -> list[Row]:
    """B above C, A to its left; for wgmma only C."""
    rows: list[Row] = []
    for a, b, c in copies.products():
        rows += [[None, b], [a, c]] if a is not None and b is not None else [[c]]
    return rows


def _banks(module: ir.Module, copies: Copies) -> list[Row]:
    shared = accesses_of(module, in_file=False).shared
    return _in_rows([banks.bank_panel(access, copies.axes_of_buffer(access)) for access in shared], columns=2)


def _in_rows(panels: Iterable[Panel], columns: int = _COLUMNS) -> list[Row]:
    found = list(panels)
    return [list(found[place : place + columns]) for place in range(0, len(found), columns)]


VIEWS: Mapping[str, Callable[[ir.Module, Copies], list[Row]]] = MappingProxyType(
    {
        "load": lambda module, copies: _in_rows(copies.loads()),
        "read": lambda module, copies: _in_rows(copies.reads()),
        "multiply": _multiply,
        "store": lambda module, copies: _in_rows(copies.stores()),
        "banks": _banks,
    }
)
