"""The mutants of a kernel: places in the texts of its levels, drawn so that every operator has its share."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lowtide.verification.mutation.operators import OPERATORS, Operator, Side

# The number of mutants drawn from each level of a kernel.
COUNTS: Mapping[str, int] = MappingProxyType(
    {"problem": 1, "cta": 1, "smem": 1, "pipelined": 1, "atoms": 2, "epilogue": 2, "nvvm": 3, "llvm": 2, "ptx": 2}
)

_DEVICE = re.compile(r"^ *(tile\.kernel|gpu\.module|\.visible \.entry) ", re.MULTILINE)
_HOST = re.compile(r"^ *func\.func ", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A level's text with one fault. `name` describes the fault and is unique."""

    name: str
    kernel: str
    level: str
    operator: str
    kind: str
    text: str = field(repr=False)


@dataclass
class Drawing:
    """Draws mutants, least used operators first; the same seed gives the same mutants."""

    seed: int
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: set[bytes] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def draw(self, kernel: str, levels: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[Mutant]:
        """Up to `counts` mutants of each level of a kernel, with distinct texts."""
        for level, text in levels.items():
            self.seen.add(_digest(level, text))
            yield from self._of_level(kernel, level, text, counts.get(level, 0))

    def _of_level(self, kernel: str, level: str, text: str, count: int) -> Iterator[Mutant]:
        order = random.Random(f"{self.seed} {kernel} {level}")
        left = {
            operator: places for operator in OPERATORS if level in operator.levels and (places := sites(operator, text))
        }
        for places in left.values():
            order.shuffle(places)
        while left and count > 0:
            operator = min(left, key=lambda one: (self.used[one.name, level], order.random()))
            places = left[operator]
            mutant = self._planted(kernel, level, text, operator, places.pop())
            if not places:
                del left[operator]
            if mutant is not None:
                self.used[operator.name, level] += 1
                count -= 1
                yield mutant

    def _planted(self, kernel: str, level: str, text: str, operator: Operator, place: re.Match[str]) -> Mutant | None:
        faulty = operator.edit(text, place)
        line = text.count("\n", 0, place.start()) + 1
        name = f"{kernel}/{level}:{line}: {operator.name}"
        if faulty is None or name in self.names or (digest := _digest(level, faulty)) in self.seen:
            return None
        self.seen.add(digest)
        self.names.add(name)
        return Mutant(name, kernel, level, operator.name, operator.kind.value, faulty)


def sites(operator: Operator, text: str) -> list[re.Match[str]]:
    """The matches of an operator's pattern on its side of the module."""
    device, host = _DEVICE.search(text), _HOST.search(text)
    start = device.start() if device else len(text)
    if operator.side is Side.DEVICE:
        return list(operator.pattern.finditer(text, start))
    begin = host.start() if host and operator.side is Side.HOST else 0
    return list(operator.pattern.finditer(text, begin, start if operator.side is Side.HOST else len(text)))


def _digest(level: str, text: str) -> bytes:
    return hashlib.sha256(f"{level}\n{text}".encode()).digest()
