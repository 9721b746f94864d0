"""When a cell has enough rounds: its median is not near a limit, or is known to one percent."""

import statistics
from collections.abc import Sequence

from lowtide.measurement.bench.any_shape.precision import is_wider
from lowtide.measurement.bench.any_shape.rows import OWN
from lowtide.measurement.bench.any_shape.statistics import Interval, median_interval
from lowtide.measurement.bench.gpu_timing import Contender, RunsOn

LIMITS = (0.90, 0.97, 1.00)  # of a cell's ratio, see verdicts.py
NEAR, WIDTH = 0.02, 0.01


def ratio_to_best(own: Sequence[float], peers: Sequence[Sequence[float]]) -> Interval:
    """The median over rounds of the ratio of the peer's time to `own`, with its interval. The peer is the one with the
    least median. All have a time for each round. Above 1, `own` is faster."""
    best = min(peers, key=statistics.median)
    return median_interval([y / x for x, y in zip(own, best, strict=True)])


def is_near(found: Interval) -> bool:
    """Whether a limit is near the median, and the interval is wider than allowed beside it."""
    return any(abs(found[0] - limit) <= NEAR for limit in LIMITS) and is_wider(found, WIDTH)


def until_known(most_rounds: int) -> RunsOn:
    """A rule that asks for another round while the cell is near a limit, up to `most_rounds` counted rounds."""

    def runs_on(contenders: Sequence[Contender]) -> bool:
        own = [one.sustained for one in contenders if one.name == OWN]
        peers = [one.sustained for one in contenders if one.name != OWN]
        if not own or not peers or len(own[0]) >= most_rounds:
            return False
        return is_near(ratio_to_best(own[0], peers))

    return runs_on
