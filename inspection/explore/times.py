"""When the agents of a kernel work, as data: predicted by the cost model, and measured if there is a trace."""

from collections.abc import Sequence
from typing import Any

from lowtide.errors import Error
from lowtide.inspection.explain.explanation import Explanation
from lowtide.inspection.timeline.timeline import Timeline

_DIGITS = 3  # nanoseconds


def times_of(found: Explanation | None, measured: Sequence[Timeline], notes: list[str]) -> list[dict[str, Any]]:
    """Each timeline: its `title`, its `total` in microseconds, and its `agents`, each with `intervals` of what it does,
    begin and end in microseconds, tile and step of K (null without one). Those that are `measured` are of a trace,
    which has the predicted one too; else it is that of `explain`, if the cost model has one."""
    timelines = list(measured)
    if not timelines and found is not None:
        try:
            timelines = [found.timeline()]
        except Error as error:
            notes.append(f"the timeline is left out: {str(error).partition('; leave out')[0]}")
    return [_plain(each) for each in timelines]


def _plain(timeline: Timeline) -> dict[str, Any]:
    def of(agent: str) -> list[list[Any]]:
        return [
            [each.what.value, round(each.begin, _DIGITS), round(each.end, _DIGITS), each.tile, each.step]
            for each in timeline.of(agent)
        ]

    agents = [{"agent": agent, "intervals": of(agent)} for agent in timeline.agents]
    return {"title": timeline.title, "total": round(timeline.total, _DIGITS), "agents": agents}
