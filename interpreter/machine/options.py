"""The options and observers of a run: two records that are passed as a whole."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.interleavings import Report
from lowtide.interpreter.machine.paths import Paths
from lowtide.interpreter.machine.reliances import Relied
from lowtide.interpreter.machine.traces import Trace

#: Called as CTAs of a launch end, with the number of ended ones and the total.
Progress: TypeAlias = Callable[[int, int], None]

_TICK = 1.0  # seconds

MAX_STEPS = 10_000_000
"""The default number of ops that an agent may run; more count as an endless loop."""


@dataclass(frozen=True)
class Options:
    """The options of a run.

    - `sms`: the number of CTAs that run at a time.
    - `seed`: determines the order of agents.
    - `max_steps`: the largest number of ops that an agent may run.
    - `aligned_base`: the shared memory of a kernel of PTX begins at a multiple of 1024 bytes, as it does on hardware if
      no other variable precedes it. Otherwise, it is only as aligned as its variables declare.
    - `zeroed`: shared memory begins as zeros, and not as bytes that nothing has written.
    - `unwritten_values`: a load of unwritten shared or local memory gives an undefined register, which is an error only
      where it is used.
    - `timeless`: the clock of the GPU stands still. A wait with a time limit then ends only by what it waits for, or at
      once if the limit is 0.
    """

    sms: int = 2
    seed: int = 0
    max_steps: int = MAX_STEPS
    aligned_base: bool = False
    zeroed: bool = False
    unwritten_values: bool = False
    timeless: bool = False


@dataclass
class Work:
    """The progress of a run at level ptx: the number of instructions, each counted once for each warp.

    `on_tick` is called about once a second while the run goes on.
    """

    on_tick: Callable[[], None] = lambda: None
    instructions: int = 0
    last: float = 0.0

    def tick(self) -> None:
        """Some time has passed."""
        if (now := time.monotonic()) - self.last > _TICK:
            self.last = now
            self.on_tick()


LastWrite = Callable[[str, tuple[int, ...]], str | None]


@dataclass(frozen=True)
class Observers:
    """Objects that are filled or called during a run, if given.

    `trace` records the work of CTAs, `paths` the branches that they take, `report` whether the verdict holds for every
    order of agents; `relied` notes what the kernel relies on that only hardware promises, which is otherwise refused.
    `explorer` (exploration.py) chooses the order in place of the seed, and is told of asks and
    changes. `on_progress` is called when a CTA ends, and `work` counts instructions. The launches must end before
    `deadline`, a time of `time.monotonic`. `unwritten` gets, for each array of a launch record, the elements that
    nothing has written, and `last_writes` a function that gives the last write of an element by the last launch, in
    words: it takes the name of an array and an index.
    """

    trace: Trace | None = None
    paths: Paths | None = None
    report: Report | None = None
    explorer: Any = None
    on_progress: Progress = lambda ended, ctas: None
    relied: Relied | None = None
    deadline: float = math.inf
    work: Work | None = None
    unwritten: dict[str, NDArray[np.bool_]] | None = None
    last_writes: list[LastWrite] | None = None

    def restart(self) -> None:
        """The launches run again from the beginning, in the same order."""
        if self.report is not None:
            self.report.kernels.clear()
            self.report.timed.clear()
        if self.explorer is not None:
            self.explorer.restart()
        if self.work is not None:
            self.work.instructions = 0
