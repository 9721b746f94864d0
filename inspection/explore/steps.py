"""The steps that a page shows: their texts, and for each op the ops of the step before that it comes from.

They come from a kernel or from a dump folder, which may be edited or lack some steps. If a dump was edited, its ops are
matched with the recorded ones by name, in order. If a step is missing, the ops of the step after it are linked to those
of the step before it.
"""

import difflib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lowtide.compiler.contexts import make_context, parse_text, read_text
from lowtide.compiler.origins.files import Recorded, origins_file, recorded, text_file
from lowtide.compiler.origins.origins import PTX_PLACE, Origins, Row
from lowtide.compiler.origins.ptx_lines import rows_of_ptx
from lowtide.dialects._lowtide import ops_named
from lowtide.dialects.levels import Level
from lowtide.dialects.text import check_text
from lowtide.errors import Error, IRError

SASS_PLACE = "10-sass/kernel"
"""The place of the machine code, which no dump folder has."""


@dataclass(frozen=True)
class Shown:
    """A step of the page. `place`: the name of its dump; `before`: that of the step in which its ops have their
    origins, if the page has one; `edited`: whether its file was edited after the compilation."""

    place: str
    before: str | None
    text: str
    rows: tuple[Row, ...]
    edited: bool = False

    @property
    def level(self) -> str:
        """The name of its level."""
        return self.place.partition("/")[0].partition("-")[2]


@dataclass(frozen=True)
class Steps:
    """All steps of a page in order, and notes on what is missing."""

    shown: tuple[Shown, ...]
    notes: tuple[str, ...] = ()

    def last(self, level: str) -> Shown | None:
        """The finished text of a level."""
        return next((step for step in reversed(self.shown) if step.level == level), None)

    def without(self, places: Iterable[str]) -> "Steps":
        """The steps without those at `places`. The origins of the others skip the steps left out."""
        left_out, links = set(places), {step.place: _Links(step.before, step.rows) for step in self.shown}
        kept = [step for step in self.shown if step.place not in left_out]
        at_hand = {step.place for step in kept}
        joined = [_joined(links, step.place, at_hand) for step in kept]
        return replace(
            self, shown=tuple(replace(s, before=j.before, rows=j.rows) for s, j in zip(kept, joined, strict=True))
        )


class _Links(NamedTuple):
    """The ops of a step, and the place of the step in which they have their origins."""

    before: str | None
    rows: tuple[Row, ...]


def steps_of(origins: Origins) -> Steps:
    """The steps of a compilation whose origins were recorded."""
    shown = tuple(Shown(step.place, step.before, step.text, step.rows) for step in origins.steps)
    notes = () if shown[-1].place != PTX_PLACE or shown[-1].rows else (_PTX_WITHOUT_ORIGINS,)
    return Steps(shown, notes)


_FEW = 3  # notes of one kind
_PTX_WITHOUT_ORIGINS = "the instructions of the PTX have no origins: the PTX with lines has other instructions"


def steps_in(folder: Path) -> Steps:
    """The steps in a dump folder. Raises IRError for a folder without any."""
    dumps = sorted(path for path in folder.glob("[0-9][0-9]-*/*") if path.suffix in (".mlir", ".ptx"))
    places = [f"{path.parent.name}/{path.stem}" for path in dumps]
    texts = {place: read_text(text_file(folder, place), "MLIR text or PTX") for place in places if _is_known(place)}
    if not texts:
        raise IRError(
            f"{folder} has no dumps of steps; name a folder that --dump-ir or dump_ir=… has filled [explored-folder]"
        )
    notes = _missing_levels(texts)
    known, without_origins = _recorded(folder)
    illegal: list[str] = []
    links, edited = _links(texts, known, illegal)
    notes += [*_few(without_origins), *_few(illegal)]
    shown = []
    for place, text in texts.items():
        joined = _joined(links, place, texts)
        shown.append(Shown(place, joined.before, text, joined.rows, place in edited))
    return Steps(tuple(shown), tuple(notes))


def _is_known(place: str) -> bool:
    """Whether a place belongs to a level that this version has."""
    return place.partition("/")[0] in {f"{level.value:02d}-{level}" for level in Level}


def _missing_levels(texts: Mapping[str, str]) -> list[str]:
    levels = {place.partition("/")[0] for place in texts}
    missing = [str(level) for level in Level if f"{level.value:02d}-{level}" not in levels]
    return [f"not in the folder: level {', '.join(missing)}"] if missing else []


def _few(notes: Sequence[str]) -> list[str]:
    """The first of many notes of one kind, as all steps of another version have them, and the number of the others."""
    others = len(notes) - _FEW
    steps = "step" if others == 1 else "steps"
    more = [f"and {others} other {steps}, for reasons of the same kind"] if others > 0 else []
    return [*notes[:_FEW], *more]


def _recorded(folder: Path) -> tuple[dict[str, Recorded], list[str]]:
    """The origins in a dump folder by place, and what is wrong with their files."""
    found, notes = {}, []
    for path in sorted(folder.glob("origins/*/*.json")):
        place = f"{path.parent.name}/{path.stem}"
        try:
            found[place] = recorded(folder, place)
        except IRError as error:
            notes.append(f"links of ops: {error}")
    if not found and not notes:
        notes.append(f"ops have no links: {origins_file(folder, '…')} is missing; compile again to record them")
    return found, notes


def _links(
    texts: Mapping[str, str], known: Mapping[str, Recorded], notes: list[str]
) -> tuple[dict[str, _Links], set[str]]:
    """The ops of each step, also of those without a text; and the steps that were edited. Their lines are those of
    the texts at hand."""
    links: dict[str, _Links] = {}
    moved: dict[str, dict[int, int]] = {}
    edited = set()
    for place in sorted({*texts, *known}):
        found, text = known.get(place), texts.get(place)
        own = () if found is None else found.rows
        if found is None and text is not None:
            own = tuple(Row(line, name, ()) for line, name in _ops_of(place, text, notes))
        elif found is not None and text is not None and not found.is_of(text):
            edited.add(place)
            moved[place] = _moves(own, _ops_of(place, text, notes))
            own = tuple(replace(row, line=moved[place][row.line]) for row in own if row.line in moved[place])
            own += _new_ops(own, _ops_of(place, text, []))
        before = None if found is None else found.before
        if before in moved:
            at = moved[before]
            own = tuple(replace(row, origins=tuple(at[line] for line in row.origins if line in at)) for row in own)
        links[place] = _Links(before, tuple(sorted(own, key=lambda row: row.line)))
    return links, edited


def _ops_of(place: str, text: str, notes: list[str]) -> list[tuple[int, str]]:
    """The line and name of each op. If the text is not legal, the result is empty, and a note says why."""
    if place == PTX_PLACE:
        return [(row.line, row.op) for row in rows_of_ptx(text, text, frozenset())]
    try:
        with make_context() as context:
            check_text(text, place)
            module = parse_text(text, context, place)
            lines = ((op.location.start_line, op.name) for op in ops_named(module.operation, "*"))
            found: dict[int, str] = {}
            for line, name in lines:
                found.setdefault(line, name)
            return sorted(found.items())
    except Error as error:
        notes.append(f"{place}: ops have no links: {str(error).splitlines()[0]}")
        return []


def _moves(rows: Sequence[Row], ops: Sequence[tuple[int, str]]) -> dict[int, int]:
    """The line of each recorded op in the edited text, matched by the names of ops in order."""
    old, new = [row.op for row in rows], [name for _, name in ops]
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    pairs = [(block.a + at, block.b + at) for block in blocks for at in range(block.size)]
    return {rows[a].line: ops[b][0] for a, b in pairs}


def _new_ops(rows: Iterable[Row], ops: Iterable[tuple[int, str]]) -> tuple[Row, ...]:
    """The ops that match no recorded op."""
    lines = {row.line for row in rows}
    return tuple(Row(line, name, ()) for line, name in ops if line not in lines)


def _joined(links: Mapping[str, _Links], place: str, at_hand: Container[str]) -> _Links:
    """The ops of a step, with their origins in the last step before it that the page has."""
    before, rows = links[place]
    while before is not None and before not in at_hand:
        if before not in links:
            return _Links(None, tuple(replace(row, origins=()) for row in rows))
        through = {row.line: row.origins for row in links[before].rows}
        rows = tuple(
            replace(row, origins=tuple(dict.fromkeys(line for at in row.origins for line in through.get(at, ()))))
            for row in rows
        )
        before = links[before].before
    return _Links(before, rows)
