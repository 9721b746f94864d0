"""`lowtide draw`: a picture of a layout, a swizzle, an atom, a tiled mma or a tiled copy."""

import re
from pathlib import Path
from typing import Annotated

import typer

from lowtide.compiler.cli.console import busy, line
from lowtide.compiler.draw.draw import draw as draw_what
from lowtide.errors import Error
from lowtide.targets.tv import Shape

What = Annotated[
    str,
    typer.Argument(
        help="An atom (mma.m16n8k16.f32.bf16), a layout ('(8,8):(8,1)'), a swizzle ('<3,3,3>'), or what the dialects "
        "print: #tile.layout<…>, #tile.tv<…>, #sm.tiled_mma<…>, #sm.tiled_copy<…>, !sm.fragment<…>."
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", help="File that gets the picture: .svg or .png.")]
PartText = Annotated[
    str | None, typer.Option("--part", help="Draw a part: ranges of some axes, such as m=0:16,n=0:32.")
]
ShapeText = Annotated[
    str | None, typer.Option("--shape", help="ROWSxCOLUMNS of the tile, for a thread-value layout that does not say.")
]


def draw(what: What, output: Output, part: PartText = None, shape: ShapeText = None) -> None:
    """Draw which thread holds which element, or which offset each coordinate has (docs/draw.md)."""
    with busy("drawing"):
        draw_what(what, output, part=part, shape=None if shape is None else _shape(shape))
    line("written", str(output))


def _shape(text: str) -> Shape:
    match = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", text.strip())
    if match is None:
        raise Error(f"--shape {text!r} is not ROWSxCOLUMNS; give one such as 128x32")
    return int(match[1]), int(match[2])
