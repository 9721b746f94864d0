"""A GPU that is none: each name takes its time, with noise of its own."""

import random
from collections.abc import Mapping
from typing import Any

from lowtide.errors import DeviceError

DEVICE = "Fake GPU"


class FakeBench:
    """`times` by name; a name that is not there takes `others`."""

    def __init__(
        self, times: Mapping[str, float], wrong: Mapping[str, str] | None = None, others: float = 1.0, seed: int = 0
    ) -> None:
        self.times, self.wrong, self.others = times, wrong or {}, others
        self.asked: list[str] = []
        self.admitted: list[str] = []
        self._rng = random.Random(seed)
        self.joules_of: dict[str, float] | None = None  # None: this GPU has no counter

    @property
    def device(self) -> str:
        return DEVICE

    def admit(self, name: str, kernel: Any) -> str:
        self.admitted.append(name)
        return self.wrong.get(name, "")

    def seconds(self, name: str) -> float:
        self.asked.append(name)
        return self.times.get(name, self.others) * self._rng.gauss(1.0, 0.002)

    def settled_seconds(self, name: str) -> float:
        return self.seconds(name)

    def check_energy(self) -> None:
        if self.joules_of is None:
            raise DeviceError("this GPU has no counter [energy-counter]")

    def joules(self, name: str) -> float:
        assert self.joules_of is not None
        self.asked.append(f"energy of {name}")
        return self.joules_of[name] * self._rng.gauss(1.0, 0.002)
