"""The phases of each agent of a kernel, predicted and measured."""

from lowtide.inspection.timeline.measured import PRODUCER, Stamps, means
from lowtide.inspection.timeline.timeline import Timeline, What


def compared(predicted: Timeline | None, stamps: Stamps) -> list[tuple[str, ...]]:
    """For each phase, the agent, what it does, and its predicted (if known) and measured microseconds.

    Measured times are means over CTAs. Only the tiles that are stamped count. Times of products include the waits for
    data between the first product of a tile and the last. Times of loads include waits likewise.
    """
    rows: list[tuple[str, ...]] = []
    for (agent, what), measured in means(stamps).items():
        text = "" if predicted is None else f"{_predicted(predicted, agent, what, stamps.tiles):.1f}"
        rows.append((agent, what.value, text, f"{measured:.1f}"))
    return rows


def _predicted(timeline: Timeline, agent: str, what: What, most: int) -> float:
    """Predicted microseconds of the phase between two stamps, summed over at most the first `most` tiles."""
    total = 0.0
    steady = What.LOAD if agent == PRODUCER else What.MULTIPLY
    for tile in sorted({each.tile for each in timeline.of(agent) if each.tile is not None})[:most]:
        own = [each for each in timeline.of(agent) if each.tile == tile]
        inner = [each for each in own if each.what is steady]
        if not inner:
            continue
        first, last = min(each.begin for each in inner), max(each.end for each in inner)
        if what is steady:
            total += last - first
        elif what is What.WAIT:
            total += sum(each.duration for each in own if each.what is What.WAIT and each.end <= first)
        else:
            total += sum(each.duration for each in own if each.what is what)
    return total
