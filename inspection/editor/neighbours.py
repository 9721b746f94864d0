"""The ops of the next or previous level that belong to an op, by the origins of a dump folder (docs/origins.md)."""

from dataclasses import dataclass
from pathlib import Path

from lowtide.compiler.origins.files import load_origins, origins_file, text_file
from lowtide.compiler.origins.origins import Origins
from lowtide.errors import IRError


@dataclass(frozen=True)
class Line:
    """A line of a dump, from 1, and its text."""

    file: Path
    number: int
    text: str


def is_dump(file: Path) -> bool:
    """Whether a file is a dump with origins."""
    folder, place = _split(file)
    return origins_file(folder, place).exists() and text_file(folder, place).suffix == file.suffix


def neighbours(file: Path, text: str, line: int, *, ahead: bool) -> list[Line]:
    """The ops of the next level that come from the op in a line (`ahead`), or those of the previous level that it
    comes from, by the lines in which they begin in the last dump of that level. Empty if there are none, or no
    such level.

    Raises IRError if `text` was edited, because lines then do not match the origins; and what `load_origins` raises.
    """
    folder, place = _split(file)
    origins = load_origins(folder)
    step = origins.step(place)
    if text != step.text:
        raise IRError(
            f"{file} was edited, so its lines do not match its origins; undo the edits, or compile again"
            " [origins-of-edits]"
        )
    begun = max((each for each in step.at_line if each <= line), default=None)
    level = _next_level(origins, step.level, ahead)
    if begun is None or level is None:
        return []
    op = origins.op(place, begun)
    found = origins.became(op, level) if ahead else origins.of(op, level)
    return [
        Line(text_file(folder, each.place), each.line, origins.step(each.place).lines[each.line - 1]) for each in found
    ]


def _next_level(origins: Origins, level: str, ahead: bool) -> str | None:
    levels = list(dict.fromkeys(step.level for step in origins.steps))
    at = levels.index(level) + (1 if ahead else -1)
    return levels[at] if 0 <= at < len(levels) else None


def _split(file: Path) -> tuple[Path, str]:
    """The dump folder, and the place of the step."""
    return file.parent.parent, f"{file.parent.name}/{file.stem}"
