"""`lowtide draw`: draws a layout, a swizzle, an atom, a tiled mma or copy, or a kernel."""

import re
from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli import options
from lowtide.cli.console import on_pass, problem_line
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, line
from lowtide.cli.problem import OpenProblem
from lowtide.compiler.compile import resolve_schedule
from lowtide.compiler.native import choose
from lowtide.compiler.problem_ir import problem_text
from lowtide.errors import Error
from lowtide.inspection.draw.draw import draw as draw_what
from lowtide.inspection.draw.kernels import VIEWS, kernel_picture
from lowtide.inspection.draw.parts import parse_part
from lowtide.inspection.draw.render import check_file, write_picture
from lowtide.targets.tv import Shape

What = Annotated[
    str | None,
    typer.Argument(
        help="An atom (mma.m16n8k16.f32.bf16), a layout ('(8,8):(8,1)'), a swizzle ('<3,3,3>'), an attribute as "
        "printed (#tile.layout<…>, #sm.tiled_mma<…>, …), or a dump (….mlir). Default: the kernel of the options.",
        show_default=False,
    ),
]
Output = Annotated[Path, typer.Option("-o", "--output", help="The picture: a .svg or .png file.")]
PartText = Annotated[
    str | None, typer.Option("--part", help="Draw only a part: ranges of axes, such as m=0:16,n=0:32.")
]
ShapeText = Annotated[
    str | None, typer.Option("--shape", help="ROWSxCOLUMNS of the tile, for a thread-value layout without a shape.")
]
Show = Annotated[str | None, typer.Option("--show", help=f"Views of a kernel: {', '.join(VIEWS)}. Default: all.")]


@grouped
def draw(
    problem: OpenProblem,
    output: Output,
    what: What = None,
    part: PartText = None,
    shape: ShapeText = None,
    show: Show = None,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
) -> None:
    """Draw the thread of each element, the offset of each coordinate, or a kernel (docs/draw.md)."""
    with busy("drawing") as update:
        if what is not None:
            if option := options.first_given(**problem.given, target=target, schedule=schedule):
                raise Error(f"{option} with {what!r}: it defines the whole picture; leave one out [draw-beside]")
            draw_what(what, output, part=part, shape=None if shape is None else _shape(shape), show=show)
        else:
            if shape is not None:
                raise Error(
                    "--shape is for a thread-value layout; a kernel has its own tiles: select with --part [draw-shape]"
                )
            check_file(output)
            spec = problem.spec()
            chosen = choose(target)
            text = problem_text(spec, chosen.target, resolve_schedule(schedule, spec.a))
            line("problem", problem_line(spec, (spec.m, spec.n, spec.k)))
            line("target", f"{chosen.name} ({chosen.reason})")
            ranges = None if part is None else parse_part(part)
            write_picture(kernel_picture(text, chosen.name, show, ranges, on_progress=on_pass(update)), output)
    line("written", str(output))


def _shape(text: str) -> Shape:
    match = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", text.strip())
    if match is None:
        raise Error(f"--shape {text!r} is not ROWSxCOLUMNS; give one such as 128x32 [shape-form]")
    return int(match[1]), int(match[2])
