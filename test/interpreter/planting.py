"""Faults planted in the text of a level: what tests of planted faults share."""

import re
from dataclasses import dataclass

IN_FLIGHT = r"in flight"
RACE = r"race \("
OUT_OF_BOUNDS = r"out of bounds"
WRONG_NUMBERS = ""


@dataclass(frozen=True)
class Fault:
    """`pattern`'s occurrence number `at` (from 0; None: all) in the text of a level becomes `replacement`.

    `found` matches what the interpreter says of it; `WRONG_NUMBERS` where no rule of the hardware is broken.
    """

    name: str
    level: str
    pattern: str
    replacement: str
    found: str
    at: int | None = 0

    def plant(self, text: str) -> str:
        places = list(re.finditer(self.pattern, text, re.MULTILINE))
        assert places, f"{self.pattern!r} is nowhere in level {self.level}"
        for place in reversed(places if self.at is None else [places[self.at]]):
            text = text[: place.start()] + place.expand(self.replacement) + text[place.end() :]
        return text
