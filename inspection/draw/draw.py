"""`lowtide.draw`: a picture of a name or text, or of a kernel, in a file or for a notebook."""

import os
from pathlib import Path

from tensor_layouts import Layout

from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.inspection.draw.drawing import Drawing
from lowtide.inspection.draw.kernels import kernel_picture
from lowtide.inspection.draw.panels import Part, Picture
from lowtide.inspection.draw.parts import parse_part
from lowtide.inspection.draw.render import check_file, write_picture
from lowtide.inspection.draw.subjects import picture_of
from lowtide.keywords import check_keywords
from lowtide.targets.tv import Shape


@check_keywords
def draw(
    what: str | os.PathLike[str] | Layout | CompiledKernel,
    file: str | os.PathLike[str] | None = None,
    *,
    part: str | None = None,
    shape: Shape | None = None,
    show: str | None = None,
) -> Drawing | None:
    """Draw to an SVG or PNG file; without one, return a drawing, which notebooks show.

    `what`: a layout, swizzle, atom, tiled mma, tiled copy or fragment, by name or text; a layout of `tensor_layouts`;
    or a kernel: compiled, or the path of a dump of level `problem` to `epilogue`. `part`: ranges of some axes, such as
    `m=0:16,n=0:32`. `shape`: (rows, columns) of the tile of a thread-value layout that does not say its own. `show`:
    the view of a kernel: `load`, `read`, `multiply`, `store` or `banks`; by default all. docs/draw.md explains the
    cells. Raises Error for a subject that cannot be drawn, has too many cells to read or cannot be written, and for a
    file without matplotlib. Without it, a drawing is shown as text.
    """
    if file is not None:
        check_file(Path(file))
    picture = _picture(what, None if part is None else parse_part(part), shape, show)
    if file is not None:
        write_picture(picture, Path(file))
        return None
    picture.check_readable()
    return Drawing(picture)


def _picture(what: object, part: Part | None, shape: Shape | None, show: str | None) -> Picture:
    if isinstance(what, CompiledKernel):
        level = str(Level.EPILOGUE)
        if level not in what.levels:
            raise Error(
                f"the kernel was compiled from a level below {level}, without tiled copies and fragments [drawn-level]"
            )
        return kernel_picture(what.levels[level], show=show, part=part)
    if isinstance(what, os.PathLike) or (isinstance(what, str) and what.rstrip().endswith(".mlir")):
        return kernel_picture(what, show=show, part=part)
    if not isinstance(what, str | Layout):
        raise Error(
            f"draw a name, a text, a layout, the path of a dump or a compiled kernel, not {type(what).__name__}"
            " [drawn-kind]"
        )
    if show is not None:
        raise Error(
            f"show = {show!r} chooses a view of a kernel, but {what!r} is not a kernel; leave it out [views-of-kernel]"
        )
    picture = picture_of(str(what), shape)
    return picture if part is None else picture.cut(part)
