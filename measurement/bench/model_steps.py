"""The figures of a training step of a model, by contender: times of the step, of its host and of its products.

Kernels are told apart by name. Lowtide's begin with `lowtide_`. Other products are those of cuBLAS and CUTLASS, and
Inductor's templates of matrix products. Kernels of attention are not counted as products.
"""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.markdown import markdown

OWN, LIBRARY = "own", "library"
REFERENCE = "inductor"
COLUMNS = (
    "case",
    "contender",
    "step ms",
    "step ms of Inductor",
    "sustained to Inductor",
    "host ms",
    "host ms of Inductor",
    "host to Inductor",
    "products µs",
    "products µs of Inductor",
    "products to Inductor",
    "GPU µs",
    "GPU µs of Inductor",
    "GPU to Inductor",
    "first compile s",
    "first compile s of Inductor",
    "kernels",
    "error",
    "error of Inductor",
)
#: The ratios that are judged, by column.
JUDGED = ("sustained to Inductor", "host to Inductor", "products to Inductor")
_PRODUCT = re.compile(r"gemm|gemv|nvjet|xmma|cutlass|splitk|cublas|triton_tem_\w*mm", re.IGNORECASE)
_ATTENTION = re.compile(r"attention|fmha|flash|sdpa", re.IGNORECASE)
_WRONG = 2.0, 0.01  # the limit of an error: the first number times Inductor's error, plus the second

Kernel = tuple[str, float, float]  # its name, launches a step, microseconds a step


@dataclass(frozen=True)
class Steps:
    """The figures of a contender, with an entry for each round: seconds of a step, while the GPU is kept busy, and
    seconds until the host has issued one. `kernels`: of each profiled round. `compile`: seconds until the first step
    is done, for each process that compiled the model. `error`: of output and gradients, relative to the model without
    compilation."""

    step: Sequence[float]
    host: Sequence[float]
    kernels: Sequence[Sequence[Kernel]]
    compile: Sequence[float]
    error: float

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Steps":
        return cls(**held)

    def microseconds(self, *kinds: str | None) -> list[float]:
        """Microseconds a step in kernels of these kinds, for each profiled round."""
        return [sum(us for name, _, us in each if kind_of(name) in kinds) for each in self.kernels]

    def launches(self, kind: str) -> float:
        """Launches a step of kernels of a kind, in the last profiled round."""
        return sum(count for name, count, _ in self._last if kind_of(name) == kind)

    @property
    def products(self) -> list[Kernel]:
        """The kernels of products in the last profiled round."""
        return [kernel for kernel in self._last if kind_of(kernel[0])]

    @property
    def _last(self) -> Sequence[Kernel]:
        return self.kernels[-1] if self.kernels else ()


def kernels_of(launches: Iterable[tuple[str, float, float]], steps: int) -> list[Kernel]:
    """The kernels of a stream, longest first, from (name, start, end) of each launch in microseconds. A launch counts
    from when those before it have ended: with programmatic dependent launch, a kernel starts earlier, and waits."""
    counts: dict[str, int] = {}
    times: dict[str, float] = {}
    busy_until = float("-inf")
    for name, start, end in sorted(launches, key=lambda one: one[1:]):
        counts[name] = counts.get(name, 0) + 1
        times[name] = times.get(name, 0.0) + max(0.0, end - max(start, busy_until))
        busy_until = max(busy_until, end)
    found = [(name, counts[name] / steps, times[name] / steps) for name in counts]
    return sorted(found, key=lambda kernel: -kernel[2])


def kind_of(kernel: str) -> str | None:
    """`OWN` or `LIBRARY` for a kernel that computes products, by its name; None for others."""
    if kernel.startswith("lowtide_"):
        return OWN
    is_product = _PRODUCT.search(kernel) is not None and _ATTENTION.search(kernel) is None
    return LIBRARY if is_product else None


def is_wrong(steps: Steps, reference: Steps) -> bool:
    """Whether the error is above the limit: twice the error of `reference`, plus 0.01."""
    factor, more = _WRONG
    return not steps.error <= factor * reference.error + more  # NaN is wrong


def rows(name: str, found: Mapping[str, Steps]) -> Iterator[tuple[str, ...]]:
    """A row for each contender but `REFERENCE`, in the order of `COLUMNS`. Times and ratios are the median over rounds,
    with the least and the greatest. A ratio is Inductor's time divided by the contender's, so above 1 the contender is
    faster. Contenders that are wrong get no row."""
    theirs = found[REFERENCE]
    for contender, ours in found.items():
        if contender == REFERENCE or is_wrong(ours, theirs):
            continue
        yield (
            name,
            "Lowtide, torch.compile" if contender == "lowtide" else f"Lowtide, {contender}",
            *_compared(ours.step, theirs.step, 1e3),
            *_compared(ours.host, theirs.host, 1e3),
            *_compared(ours.microseconds(OWN, LIBRARY), theirs.microseconds(OWN, LIBRARY)),
            *_compared(ours.microseconds(OWN, LIBRARY, None), theirs.microseconds(OWN, LIBRARY, None)),
            f"{statistics.median(ours.compile):.1f}",
            f"{statistics.median(theirs.compile):.1f}",
            f"{ours.launches(OWN):g} and {ours.launches(LIBRARY):g} of torch; Inductor {theirs.launches(LIBRARY):g}",
            f"{ours.error:.2e}",
            f"{theirs.error:.2e}",
        )


def _compared(ours: Sequence[float], theirs: Sequence[float], factor: float = 1.0) -> tuple[str, str, str]:
    """Both times, multiplied by `factor`, and the ratio theirs / ours. All are empty if ours are missing or 0."""
    if not ours or not all(ours):
        return "", "", ""
    times = [_interval([factor * one for one in each], 3 if factor > 1 else 0) for each in (ours, theirs)]
    return times[0], times[1], _interval([b / a for a, b in zip(ours, theirs, strict=True)], 3)


def _interval(values: Sequence[float], digits: int) -> str:
    """The median, the least and the greatest value, as record.py reads them."""
    return "{:.{d}f} ({:.{d}f} … {:.{d}f})".format(statistics.median(values), min(values), max(values), d=digits)


def slowest(found: Mapping[str, Steps], most: int = 12) -> str:
    """The kernels of products that take the most time, of all contenders: for each its contender and its name."""
    every = [(name, *kernel) for name, steps in found.items() for kernel in steps.products]
    every.sort(key=lambda row: -row[3])
    cells = [(one, f"{us:.1f}", f"{count:g}", kernel[:120]) for one, kernel, count, us in every[:most]]
    return markdown(("contender", "µs a step", "launches", "kernel"), cells)


def verdict(table: Sequence[Sequence[str]]) -> str:
    """For each judged ratio, in how many rows it is at least 1, and the rows below."""
    lines = []
    for column in JUDGED:
        at = COLUMNS.index(column)
        ratios = [(row[0], float(row[at].split()[0])) for row in table if row[at]]
        below = [f"{name} {ratio:.3f}" for name, ratio in ratios if ratio < 1]
        count = f"{len(ratios) - len(below)} of {len(ratios)} at least 1.00"
        lines.append(f"- {column}: {count}; below: {', '.join(below) or 'none'}")
    return "\n".join(lines)
