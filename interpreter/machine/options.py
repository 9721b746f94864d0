"""How a run goes, and who looks on: two records that are passed whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from lowtide.interpreter.machine.interleavings import Report
from lowtide.interpreter.machine.paths import Paths
from lowtide.interpreter.machine.traces import Trace

#: Called as CTAs of a launch end, with the number that have ended and the total.
Progress: TypeAlias = Callable[[int, int], None]

MAX_STEPS = 10_000_000
"""How many ops an agent runs before it is taken to be in a loop without end, unless told otherwise."""


@dataclass(frozen=True)
class Options:
    """`sms` is how many CTAs run at a time, `seed` draws the order of agents, an agent runs at most `max_steps` ops."""

    sms: int = 2
    seed: int = 0
    max_steps: int = MAX_STEPS


@dataclass(frozen=True)
class Observers:
    """What is filled or called during a run, where it is given.

    `trace` takes down what CTAs compute, `paths` which branches they take, `report` whether the verdict is that of
    every order of agents. `explorer` (exploration.py) chooses the order in place of the seed, and hears who asks for
    what. `on_progress` hears of the ends of CTAs.
    """

    trace: Trace | None = None
    paths: Paths | None = None
    report: Report | None = None
    explorer: Any = None
    on_progress: Progress = lambda ended, ctas: None
