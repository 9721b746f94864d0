"""A journal of races: a line of JSON for each shape, written when its race ends. A later run skips these shapes.

The folder of a journal also has `draw.json`, which says what was drawn. Later runs take the same shapes from it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Draw

RACES, DRAW, BEGUN = "races.jsonl", "draw.json", "begun.json"


@dataclass(frozen=True)
class Origin:
    """A draw, and the commit whose kernels are compiled or raced."""

    draw: Draw
    commit: str

    def write(self, folder: Path) -> None:
        """Raises Error."""
        held = {"draw": self.draw.to_json(), "commit": self.commit}
        write_whole(folder / DRAW, json.dumps(held, indent=1) + "\n")


def origin_of(folder: Path) -> Origin | None:
    """The origin of a folder of kernels or of a journal; None if the folder is new. Raises Error."""
    path = folder / DRAW
    if not path.exists():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return Origin(Draw.from_json(held["draw"]), str(held["commit"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Error(f"{path} does not say what was drawn: {error}; name another folder [draw-record]") from None


class Journal:
    """The lines of the races in a folder, by the names of their shapes. `torn`: whether the last line was cut off when
    an earlier run ended; its shape is raced again.

    Raises Error for a file that is no journal.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RACES
        self.lines: dict[str, dict[str, Any]] = {}
        whole = self.path.read_bytes() if self.path.exists() else b""
        ended, _, rest = whole.rpartition(b"\n")
        self.torn = bool(rest)
        for number, text in enumerate(ended.splitlines(), 1):
            try:
                line = json.loads(text)
                self.lines[line["name"]] = line
            except (ValueError, KeyError, TypeError) as error:
                raise Error(f"{self.path}, line {number}: {error}; name another folder [journal-line]") from None
        self._length = len(whole) - len(rest)

    def check_commit(self, commit: str) -> None:
        """Raises Error if races are of another commit."""
        others = {line["commit"] for line in self.lines.values()} - {commit}
        if others:
            raise Error(
                f"{self.path} is of commit {', '.join(sorted(others))}, and this is {commit}; name another folder, or"
                " give --commit if the code is the same [journal-commit]"
            )

    def begin(self, name: str) -> int:
        """Write to the disk that the race of a shape begins. Returns how many times in a row it has begun; each time
        before this one, the process ended during the race. Raises Error."""
        path = self.path.with_name(BEGUN)
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            times = 1 + (held["times"] if held["name"] == name else 0)
        except (OSError, ValueError, KeyError, TypeError):
            times = 1
        write_whole(path, json.dumps({"name": name, "times": times}) + "\n")
        return times

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line; it is on the disk when this returns. Raises Error."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.truncate(self._length)  # a torn line of an earlier run
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
                self._length = file.tell()
        except OSError as error:
            raise Error(f"cannot write {self.path}: {error.strerror}; name a writable folder [journal-write]") from None
        self.lines[line["name"]] = dict(line)
