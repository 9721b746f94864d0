"""`lowtide.draw`: a picture of what its name or text says, in a file."""

import os
from pathlib import Path

from lowtide.compiler.draw.parts import parse_part
from lowtide.compiler.draw.render import check_file, write_picture
from lowtide.compiler.draw.subjects import picture_of
from lowtide.errors import Error
from lowtide.targets.tv import Shape


def draw(
    what: str,
    file: str | os.PathLike[str],
    *,
    part: str | None = None,
    shape: Shape | None = None,
) -> None:
    """Draw a layout, swizzle, atom, tiled mma, tiled copy or fragment, given by name or text, to an SVG or PNG file.

    `part`: ranges of some axes, such as `m=0:16,n=0:32`. `shape`: (rows, columns) of the tile of a thread-value layout
    that does not say its own. docs/draw.md shows what the cells mean. Raises Error for what cannot be drawn, has too
    many cells to read or cannot be written, and where matplotlib is missing.
    """
    if not isinstance(what, str):
        raise Error(f"what to draw is a name or a text, not {type(what).__name__}; docs/draw.md lists the forms")
    path = Path(file)
    check_file(path)
    picture = picture_of(what, shape)
    write_picture(picture if part is None else picture.cut(parse_part(part)), path)
