"""When a cell has enough rounds: its median is not near a limit, or is known to one percent."""

from lowtide.measurement.bench.any_shape.precision import is_wider, while_uncertain
from lowtide.measurement.bench.any_shape.rows import BEST_PEER, OWN
from lowtide.measurement.bench.any_shape.statistics import Interval
from lowtide.measurement.bench.gpu_timing import RunsOn

LIMITS = (0.90, 0.97, 1.00)  # of a cell's ratio, see verdicts.py
NEAR, WIDTH = 0.02, 0.01
RATIO = OWN, BEST_PEER


def is_near(found: Interval) -> bool:
    """Whether a limit is near the median, and the interval is wider than allowed beside it."""
    return any(abs(found[0] - limit) <= NEAR for limit in LIMITS) and is_wider(found, WIDTH)


def until_known(most_rounds: int) -> RunsOn:
    """A rule that asks for another round while the cell is near a limit, up to `most_rounds` counted rounds."""
    return while_uncertain(lambda ratios: RATIO in ratios and is_near(ratios[RATIO]), most_rounds)
