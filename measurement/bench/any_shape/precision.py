"""When a shape has enough rounds: each ratio that counts is known to two percent, whatever its value is."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from lowtide.measurement.bench.any_shape.rows import TORCH, Pair, ratios_of, with_best_peer
from lowtide.measurement.bench.any_shape.statistics import Interval, median_interval
from lowtide.measurement.bench.gpu_timing import Contender, RunsOn

WIDTH = 0.02  # from the median to the farther end of the interval, as a share of the median
_NEAR = 1.1  # times the time of the fastest kernel


def is_wider(found: Interval, width: float) -> bool:
    """Whether an end of the interval is farther from its median than `width`, a share of the median."""
    middle, low, high = found
    return max(middle - low, high - middle) > width * middle


def while_uncertain(is_uncertain: Callable[[Mapping[Pair, Interval]], bool], most_rounds: int) -> RunsOn:
    """A rule that asks for another round while the ratios are uncertain, up to `most_rounds` counted rounds. The ratios
    are those of `ratios_of`, also to the best peer."""

    return _while(lambda seconds: is_uncertain(ratios_of(with_best_peer(seconds))), most_rounds)


def until_narrow(most_rounds: int) -> RunsOn:
    """A rule that asks for another round while the interval of one of the shape's ratios is wider than `WIDTH` (as in
    `is_wider`), up to `most_rounds` counted rounds."""
    return while_uncertain(lambda ratios: any(is_wider(each, WIDTH) for each in ratios.values()), most_rounds)


def until_compared(most_rounds: int) -> RunsOn:
    """A rule that asks for another round while a ratio is uncertain, up to `most_rounds` counted rounds. The ratios are
    the times of the kernels to that of the fastest one. A ratio is uncertain if its interval is wider than `WIDTH` (as
    in `is_wider`). Torch does not count, and neither do ratios of `_NEAR` or more."""

    def is_uncertain(seconds: Mapping[str, Sequence[float]]) -> bool:
        times = [of_rounds for name, of_rounds in seconds.items() if name != TORCH]
        fastest = min(times, key=statistics.median, default=())
        ratios = [[x / y for x, y in zip(each, fastest, strict=True)] for each in times if each is not fastest]
        return any(is_wider(median_interval(each), WIDTH) for each in ratios if statistics.median(each) < _NEAR)

    return _while(is_uncertain, most_rounds)


def _while(is_uncertain: Callable[[Mapping[str, Sequence[float]]], bool], most_rounds: int) -> RunsOn:
    """`is_uncertain`: takes the seconds of each round, by contender."""

    def runs_on(contenders: Sequence[Contender]) -> bool:
        seconds = {one.name: one.sustained for one in contenders}
        return max(map(len, seconds.values())) < most_rounds and is_uncertain(seconds)

    return runs_on
