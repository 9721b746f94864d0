"""A journal of measured times, as a file from which a later tuning run continues.

It is replaced atomically after each round, so an interrupted run leaves complete rounds. A journal belongs to one
problem, GPU and version: times of other code do not apply.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import Error
from lowtide.runtime.files import read_json

_FORMAT = 1


@dataclass
class Journal:
    """`of`: the problem and settings. `seconds` by schedule, `dropped` and `refused` with the reason, as in the
    race."""

    of: Mapping[str, Any]
    path: Path | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, of: Mapping[str, Any]) -> "Journal":
        """The journal in a file; an empty one if the file does not exist or there is no path.

        Raises Error for an invalid file, for a journal of another problem or settings, and for a file that cannot be
        written.
        """
        if path is None or not path.exists():
            if path is not None:
                check_writable(path)
            return cls(of, path)
        try:
            held = read_json(path)
            found = cls(
                held["of"],
                path,
                {str(name): [float(time) for time in times] for name, times in held["seconds"].items()},
                [str(name) for name in held["dropped"]],
                {str(name): str(why) for name, why in held["refused"].items()},
            )
            if held["format"] != _FORMAT or not all(found.seconds.values()):
                raise ValueError("another format")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Error(
                f"{path} is not a journal of lowtide tune: {error}; name another file [tuning-journal]"
            ) from None
        other = [name for name in of if found.of.get(name) != json.loads(json.dumps(of[name]))]
        if other:
            raise Error(f"{path} is of another {' and '.join(other)}; remove it, or name another file [other-journal]")
        check_writable(path)
        return found

    def write(self) -> None:
        """Raises Error."""
        if self.path is not None:
            held = {name: getattr(self, name) for name in ("of", "seconds", "dropped", "refused")}
            write_whole(self.path, json.dumps({"format": _FORMAT, **held}, indent=1) + "\n")
