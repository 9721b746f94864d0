"""Intervals of a kernel's agents as data, and as a trace in Chrome's format, which Perfetto opens.

The format: "Trace Event Format", complete events (`X`) and metadata (`M`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error


class What(Enum):
    """What an agent does."""

    LAUNCH = "launch"
    LOAD = "load"
    WAIT = "wait"
    MULTIPLY = "multiply"
    EPILOGUE = "epilogue"
    IDLE = "idle"


@dataclass(frozen=True)
class Interval:
    """`begin` and `end` are microseconds from the launch. `tile` is the number of a work tile of the CTA, and `step`
    that of a K step of the tile. Each is None if the interval belongs to none."""

    agent: str
    what: What
    begin: float
    end: float
    tile: int | None = None
    step: int | None = None

    @property
    def duration(self) -> float:
        """In microseconds."""
        return self.end - self.begin


@dataclass(frozen=True)
class Timeline:
    """The intervals of one CTA, of each agent in the order of time."""

    title: str
    intervals: tuple[Interval, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """Their names, in the order in which they are shown."""
        return tuple(dict.fromkeys(interval.agent for interval in self.intervals))

    @property
    def total(self) -> float:
        """Microseconds from the launch to the end."""
        return max(interval.end for interval in self.intervals)

    def of(self, agent: str) -> tuple[Interval, ...]:
        """The intervals of an agent."""
        return tuple(interval for interval in self.intervals if interval.agent == agent)


def trace(timelines: Sequence[Timeline]) -> dict[str, Any]:
    """A trace: a process for each timeline, and a thread for each agent."""
    events: list[dict[str, Any]] = []
    for process, timeline in enumerate(timelines, 1):
        events.append(_named("process_name", timeline.title, process, 0))
        for thread, agent in enumerate(timeline.agents, 1):
            events.append(_named("thread_name", agent, process, thread))
            events += [_event(interval, process, thread) for interval in timeline.of(agent)]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write_trace(path: Path, timelines: Sequence[Timeline]) -> None:
    """Write the trace as JSON, completely or not at all. Raises Error for a file that cannot be written."""
    write_whole(path, json.dumps(trace(timelines)) + "\n")


def read_trace(path: Path) -> list[Timeline]:
    """The timelines of a trace that `write_trace` wrote. Raises Error for another file."""
    try:
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        names = {(one["ph"] == "M" and one["name"], one["pid"], one["tid"]): one["args"].get("name") for one in events}
        found: dict[str, list[Interval]] = {}
        for one in (each for each in events if each["ph"] == "X"):
            title, agent = names["process_name", one["pid"], 0], names["thread_name", one["pid"], one["tid"]]
            begin, places = float(one["ts"]), one["args"]
            interval = Interval(
                str(agent), What(one["name"]), begin, begin + one["dur"], places.get("tile"), places.get("step")
            )
            found.setdefault(str(title), []).append(interval)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Error(
            f"{path} is no trace of lowtide explain: {type(error).__name__}: {error}; write one by `lowtide explain"
            " … --measured --trace FILE` [trace-file]"
        ) from None
    return [Timeline(title, tuple(intervals)) for title, intervals in found.items()]


def _named(kind: str, name: str, process: int, thread: int) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _event(interval: Interval, process: int, thread: int) -> dict[str, Any]:
    places = {"tile": interval.tile, "step": interval.step}
    return {
        "ph": "X",
        "name": interval.what.value,
        "cat": "kernel",
        "ts": round(interval.begin, 6),
        "dur": round(interval.duration, 6),
        "pid": process,
        "tid": thread,
        "args": {name: number for name, number in places.items() if number is not None},
    }
