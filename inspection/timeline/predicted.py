"""The timeline that the cost model predicts for a CTA: its agents, step by step.

A slot of the ring is loaded once it is free and the loads before it have ended; it is multiplied once its data have
arrived and the products before it have ended. The durations are the terms of the estimate. The estimate combines them
by a formula, so the timeline is scaled to end when the estimate says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error
from lowtide.inspection.timeline.timeline import Interval, Timeline, What
from lowtide.passes.schedules.cost.spans import GridSpans, TileSpans

_GRID = "grid"
_LEAST = 1e-6  # cycles; shorter waits are rounding
_DETAILED = 8  # tiles of a CTA whose K steps are shown one by one; so are those of the last tile
_MOST_STEPS = 2**20  # which take about five seconds


def predicted_timeline(schedule: Schedule, spans: GridSpans, clock_mhz: int, title: str) -> Timeline:
    """The timeline of a CTA that runs from the first wave to the last. The schedule decides all fields. Raises Error if
    the CTA has more K steps than a timeline can show."""
    steps = sum(tile.waves * tile.steps for tile in spans.tiles)
    if steps > _MOST_STEPS:
        raise Error(
            f"a CTA has {steps:,} K steps, and a timeline shows at most {_MOST_STEPS:,}; leave out --trace, or take "
            "smaller extents [timeline-steps]"
        )
    run = _Run(schedule, spans)
    run.simulate()
    to_us = spans.total / run.end / clock_mhz
    scaled = (replace(each, begin=each.begin * to_us, end=each.end * to_us) for each in run.found)
    return Timeline(title, tuple(sorted(_with_waits(scaled), key=lambda each: run.agents.index(each.agent))))


@dataclass
class _Run:
    """One CTA. Times are cycles."""

    schedule: Schedule
    spans: GridSpans
    found: list[Interval] = field(default_factory=list)

    def __post_init__(self) -> None:
        agents = self.schedule.agents
        self.turns = agents.consumer.turns if agents.has_producer else 1
        self.loader = "producer" if agents.has_producer else "copies"
        name = "consumer" if agents.has_producer else "warps"
        self.consumers = [name] if self.turns == 1 else [f"{name} {number}" for number in range(self.turns)]
        self.idle = f"SMs without a tile in the last wave ({1 - self.spans.tiles[-1].busy:.0%})"
        self.agents = [_GRID, self.loader, *self.consumers, self.idle]
        self.end = self.spans.launch

    def simulate(self) -> None:
        """Fill `found`, and set `end`."""
        first = self.spans.tiles[0]
        # The fitted time of a launch includes the wait for the first load.
        launch = max(0.0, self.spans.launch - max(first.loads, first.memory) - first.latency)
        if launch:
            self.found.append(Interval(_GRID, What.LAUNCH, 0.0, launch))
        # Without a ring, fragments are loaded one step ahead.
        self.free = [launch] * (self.schedule.mainloop.stages or 2)
        self.loaded = self.multiplied = launch
        self.ready, self.steps = [launch] * len(self.consumers), 0
        tiles = list(self.spans.one_by_one())
        for number, tile in enumerate(tiles):
            self._tile(number, tile, number < _DETAILED or number == len(tiles) - 1)
        self.end = max(self.ready)
        last = tiles[-1]
        if last.busy < 1:
            self.found.append(Interval(self.idle, What.IDLE, max(launch, self.end - last.total), self.end))

    def _tile(self, number: int, tile: TileSpans, is_detailed: bool) -> None:
        who = number % len(self.consumers)
        loads, products = [], []
        for step in range(tile.steps):
            slot = self.steps % len(self.free)
            begin = max(self.loaded, self.free[slot])
            self.loaded = begin + max(tile.loads, tile.memory)
            loads.append(Interval(self.loader, What.LOAD, begin, self.loaded, number, step))
            begin = max(self.ready[who], self.multiplied, self.loaded + tile.latency)
            self.multiplied = self.free[slot] = begin + tile.products
            products.append(Interval(self.consumers[who], What.MULTIPLY, begin, self.multiplied, number, step))
            self.ready[who] = self.multiplied + tile.beside
            self.steps += 1
        for of_agent in (loads, products):
            self.found += of_agent if is_detailed else [_as_one(of_agent)]
        begin = self.ready[who]
        self.ready[who] += tile.epilogue
        self.found.append(Interval(self.consumers[who], What.EPILOGUE, begin, self.ready[who], number))


def _as_one(steps: list[Interval]) -> Interval:
    return replace(steps[0], end=steps[-1].end, step=None)


def _with_waits(intervals: Iterator[Interval]) -> Iterator[Interval]:
    """The intervals, with a wait in each gap between two intervals of the same agent."""
    ends: dict[str, float] = {}
    for each in intervals:
        last = ends.get(each.agent, each.begin)
        if each.begin - last > _LEAST and each.agent != _GRID:
            yield Interval(each.agent, What.WAIT, last, each.begin, each.tile, each.step)
        ends[each.agent] = each.end
        yield each
