"""Faults planted in the text of a level: what tests of planted faults share."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from compiled import expected, ready

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

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
        """The text with the fault, which must have a place in it and change it."""
        places = list(re.finditer(self.pattern, text, re.MULTILINE))
        assert places, f"{self.pattern!r} is nowhere in level {self.level}"
        faulty = text
        for place in reversed(places if self.at is None else [places[self.at]]):
            faulty = faulty[: place.start()] + place.expand(self.replacement) + faulty[place.end() :]
        assert faulty != text
        return faulty


IsRight = Callable[[str, int], bool]
"""Runs a text in the order of agents of a seed; whether D is right."""


def exactly(spec: lt.GemmSpec, inputs: Mapping[str, Any], **how: Any) -> IsRight:
    """Of small integers, no sum of which is rounded; `how`: more arguments of `interpret`."""

    def is_right(text: str, seed: int) -> bool:
        d = interpret(ready(text), inputs, seed=seed, domain="exact", **how)
        return bool(np.array_equal(d, expected(spec, inputs)))

    return is_right


def within_bound(spec: lt.GemmSpec, inputs: Mapping[str, Any], **how: Any) -> IsRight:
    """Of floats, within the derived bound."""

    def is_right(text: str, seed: int) -> bool:
        d = interpret(ready(text), inputs, seed=seed, **how)
        return lt.compare(spec, d, *lt.reference_with_bound(spec, **inputs)).ok

    return is_right


def assert_found(fault: Fault, faulty: str, is_right: IsRight, seeds: Iterable[int] = (0,)) -> None:
    """In every order, a run of the text with the fault ends in what `found` says, or with a wrong D."""
    for seed in seeds:
        if fault.found == WRONG_NUMBERS:
            assert not is_right(faulty, seed), f"{fault.name}: D is right, seed {seed}"
        else:
            with pytest.raises(InterpreterError, match=fault.found):
                is_right(faulty, seed)
