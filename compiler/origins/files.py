"""Origins in a dump folder: `origins/NN-level/NN-pass.json` for each `NN-level/NN-pass.mlir`.

    {"before": "03-smem/02-assign-smem-layouts", "sha256": "…", "ops": [
    [12, "sm.ring", [14]],
    …
    ]}

An op has the line in which it begins, its name, and the lines of its origins in the dump named by `before`. The hash is
that of the dump's text, whose lines these are.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from lowtide.compiler.contexts import read_text
from lowtide.compiler.origins.origins import PTX_PLACE, Origins, Row, Step
from lowtide.errors import IRError
from lowtide.keywords import check_keywords

_FOLDER = "origins"


def origins_file(folder: Path, place: str) -> Path:
    """The file in a dump folder that has the origins of a step's ops."""
    return folder / _FOLDER / f"{place}.json"


def text_file(folder: Path, place: str) -> Path:
    """The file in a dump folder that has the text of a step."""
    return folder / f"{place}.{'ptx' if place == PTX_PLACE else 'mlir'}"


def text_of(step: Step) -> str:
    """The text of the file of a step."""
    head = f'{{"before": {json.dumps(step.before)}, "sha256": "{_hash(step.text)}", "ops": [\n'
    return head + ",\n".join(json.dumps([row.line, row.op, row.origins]) for row in step.rows) + "\n]}\n"


@check_keywords
def load_origins(folder: str | os.PathLike[str]) -> Origins:
    """The origins of the ops in a dump folder, from the input of the compilation that wrote the last step.

    Raises IRError if a file is missing or damaged, or a dump was edited: its lines are then those of other ops."""
    written = sorted(f"{path.parent.name}/{path.stem}" for path in Path(folder).glob(f"{_FOLDER}/*/*.json"))
    if not written:
        raise IRError(f"there are no origins in {folder}; name a folder of dump_ir=… or --dump-ir [no-origins]")
    steps, place = [], written[-1]
    while place:
        step = _step(Path(folder), place)
        steps.append(step)
        place = step.before or ""
    return Origins(tuple(reversed(steps)))


def _step(folder: Path, place: str) -> Step:
    path, dump = origins_file(folder, place), text_file(folder, place)
    found = recorded(folder, place)
    text = read_text(dump, "MLIR text or PTX")
    if not found.is_of(text):
        raise IRError(f"{dump} was edited after {path} was written; compile again [origins-of-text]")
    return Step(place, found.before, text, found.rows)


@dataclass(frozen=True)
class Recorded:
    """The file of a step's origins: the place of the step before, the ops, and the hash of the text that they are
    in."""

    before: str | None
    sha256: str
    rows: tuple[Row, ...]

    def is_of(self, text: str) -> bool:
        """Whether the lines are those of this text."""
        return _hash(text) == self.sha256


def recorded(folder: Path, place: str) -> Recorded:
    """The origins of a step's ops in a dump folder. Raises IRError if the file is missing or damaged."""
    path = origins_file(folder, place)
    try:
        found = json.loads(read_text(path, "JSON"))
        rows = tuple(Row(int(line), str(op), tuple(map(int, origins))) for line, op, origins in found["ops"])
        before, sha256 = found["before"], found["sha256"]
        is_whole = before is None or (isinstance(before, str) and before < place)
    except (ValueError, TypeError, KeyError):
        is_whole = False
    if not is_whole:
        raise IRError(f"{path} does not have origins as a compilation writes them; compile again [origins-file]")
    return Recorded(before, sha256, rows)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
