"""What each agent of a kernel does, predicted and measured, by the same phases."""

from lowtide.inspection.timeline.measured import PRODUCER, Stamps, means
from lowtide.inspection.timeline.timeline import Timeline, What


def compared(predicted: Timeline | None, stamps: Stamps) -> list[tuple[str, ...]]:
    """Agent, what it does, and the microseconds predicted (if that is known) and measured, as the mean over CTAs.

    Of each agent, as many tiles count as are stamped. Between the first product of a tile and the last, products
    include waits for data; so do loads.
    """
    rows: list[tuple[str, ...]] = []
    for (agent, what), measured in means(stamps).items():
        text = "" if predicted is None else f"{_predicted(predicted, agent, what, stamps.tiles):.1f}"
        rows.append((agent, what.value, text, f"{measured:.1f}"))
    return rows


def _predicted(timeline: Timeline, agent: str, what: What, most: int) -> float:
    """Microseconds of the same phase as that between two stamps, summed over the first tiles, at most so many."""
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
