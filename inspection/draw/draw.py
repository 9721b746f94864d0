"""`lowtide.draw`: a picture of a name or text, or of a kernel, in a file."""

import os
from pathlib import Path

from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.inspection.draw.kernels import kernel_picture
from lowtide.inspection.draw.panels import Part, Picture
from lowtide.inspection.draw.parts import parse_part
from lowtide.inspection.draw.render import check_file, write_picture
from lowtide.inspection.draw.subjects import picture_of
from lowtide.keywords import check_keywords
from lowtide.targets.tv import Shape


@check_keywords
def draw(
    what: str | os.PathLike[str] | CompiledKernel,
    file: str | os.PathLike[str],
    *,
    part: str | None = None,
    shape: Shape | None = None,
    show: str | None = None,
) -> None:
    """Draw to an SVG or PNG file.

    `what`: a layout, swizzle, atom, tiled mma, tiled copy or fragment, by name or text; or a kernel: compiled, or the
    path of a dump of level `problem` to `epilogue`. `part`: ranges of some axes, such as `m=0:16,n=0:32`. `shape`:
    (rows, columns) of the tile of a thread-value layout that does not say its own. `show`: the view of a kernel:
    `load`, `read`, `multiply`, `store` or `banks`; by default all. docs/draw.md explains the cells. Raises Error for a
    subject that cannot be drawn, has too many cells to read or cannot be written, and without matplotlib.
    """
    path = Path(file)
    check_file(path)
    ranges = None if part is None else parse_part(part)
    write_picture(_picture(what, ranges, shape, show), path)


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
    if not isinstance(what, str):
        raise Error(
            f"draw a name, a text, the path of a dump or a compiled kernel, not {type(what).__name__} [drawn-kind]"
        )
    if show is not None:
        raise Error(
            f"show = {show!r} chooses a view of a kernel, but {what!r} is not a kernel; leave it out [views-of-kernel]"
        )
    picture = picture_of(what, shape)
    return picture if part is None else picture.cut(part)
