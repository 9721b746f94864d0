"""Measurements as arrays, with an element for each schedule of each shape. Elements of a shape are consecutive."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from lowtide.elements import element_type
from lowtide.measurement.calibration.rows import FEWEST_ROUNDS, Form, Rows, Shape
from lowtide.passes.schedules.cost.constants import Constants
from lowtide.passes.schedules.cost.grids import Grids, Product
from lowtide.passes.schedules.cost.wgmma import cycles
from lowtide.targets import Target

_CLOCK = 1.98e9  # Hz; the highest of an H200
_ALIGNED, _LINE = 16, 128  # bytes: TMA reads rows that are multiples of 16; others are packed to lines of 128


@dataclass(frozen=True)
class Samples:
    """`shape`: the number of the shape of each element, from 0; `pair`: of its N and K. `m`: rows of D, also of swapped
    products. `weight`: of the shape in a fit. `seconds`: the median of all rounds. `rounds`: seconds in three columns.
    The first is the median of rounds 1, 4, 7, …; the second, of rounds 2, 5, 8, …; the third, of rounds 3, 6, 9, …"""

    grids: Grids
    product: Product
    shape: np.ndarray
    pair: np.ndarray
    m: np.ndarray
    weight: np.ndarray
    seconds: np.ndarray
    rounds: np.ndarray

    def __len__(self) -> int:
        return len(self.rounds)

    @cached_property
    def spread(self) -> np.ndarray:
        """Standard deviations of the logarithms of `rounds`."""
        return np.std(np.log(self.rounds), axis=1)

    @property
    def first(self) -> np.ndarray:
        """The first element of each shape."""
        return np.flatnonzero(np.diff(self.shape, prepend=-1))

    @property
    def beyond_best(self) -> np.ndarray:
        """The logarithm of the time over the least of the shape."""
        logs = np.log(self.seconds)
        return logs - np.minimum.reduceat(logs, self.first)[self.shape]

    def estimated(self, constants: Constants, target: Target) -> np.ndarray:
        """Seconds by the model."""
        return estimated(self.grids, self.product, constants, target)

    def where(self, mask: np.ndarray) -> "Samples":
        """The elements that a mask selects; it selects all elements of a shape, or none."""
        grids = Grids(**{name: value[mask] for name, value in vars(self.grids).items()})
        of_a, of_b = self.product.row_bytes
        numbers = {name: value[mask] for name, value in vars(self.product).items() if isinstance(value, np.ndarray)}
        product = replace(self.product, row_bytes=(of_a[mask], of_b[mask]), **numbers)  # type: ignore[index]
        _, shape = np.unique(self.shape[mask], return_inverse=True)
        rest = (values[mask] for values in (self.pair, self.m, self.weight, self.seconds, self.rounds))
        return Samples(grids, product, shape, *rest)


def estimated(grids: Grids, product: Product, constants: Constants, target: Target) -> np.ndarray:
    """Seconds by the model, of each grid."""
    large = prod(target.clusters_at_once[0]) if target.clusters_at_once else target.sm_count
    return cycles(grids, product, constants, target.sm_count, large) / _CLOCK


def samples_of(files: Sequence[Rows]) -> Samples:
    """The samples of files. Shapes with fewer than two schedules are left out: they say nothing about a choice."""
    shapes = [(file, shape) for file in files for shape in file.shapes if len(shape.microseconds) > 1]
    timed = [
        (number, shape, file.forms[form], file, times)
        for number, (file, shape) in enumerate(shapes)
        for form, times in shape.microseconds.items()
    ]
    pairs: dict[tuple[int, int], int] = {}
    return Samples(
        grids=Grids.of([form.grid for _, _, form, *_ in timed]),
        product=_product_of([(shape, form, file.clipped) for _, shape, form, file, _ in timed]),
        shape=np.array([number for number, *_ in timed]),
        pair=np.array([pairs.setdefault((shape.n, shape.k), len(pairs)) for _, shape, *_ in timed]),
        m=np.array([shape.m for _, shape, *_ in timed], dtype=float),
        weight=np.array([file.weight for *_, file, _ in timed], dtype=float),
        seconds=1e-6 * np.array([np.median(times) for *_, times in timed]),
        rounds=1e-6
        * np.array([[np.median(times[at::FEWEST_ROUNDS]) for at in range(FEWEST_ROUNDS)] for *_, times in timed]),
    )


def product_of(shape: Shape, forms: Sequence[Form]) -> Product:
    """The product of a shape as kernels of these schedules compute it."""
    return _product_of([(shape, form, True) for form in forms])


def _product_of(pairs: Sequence[tuple[Shape, Form, bool]]) -> Product:
    """`pairs`: a shape, a schedule, and whether its TMA boxes have only the rows that exist."""
    extents = [(shape.n, shape.m) if form.is_swapped else (shape.m, shape.n) for shape, form, _ in pairs]
    size = np.array([element_type(shape.dtype).bytes for shape, *_ in pairs], dtype=float)
    order = [slice(None, None, -1 if form.is_swapped else 1) for _, form, _ in pairs]
    rows = np.array([_row_bytes(each[0])[way] for each, way in zip(pairs, order, strict=True)], dtype=float)
    k_major = np.array([_k_major(each[0])[way] for each, way in zip(pairs, order, strict=True)])
    return Product(
        m=np.array([m for m, _ in extents], dtype=float),
        n=np.array([n for _, n in extents], dtype=float),
        k=np.array([shape.k for shape, *_ in pairs], dtype=float),
        batch=1.0,
        operand_bytes=size,
        result_bytes=size,
        row_bytes=(rows[:, 0], rows[:, 1]),
        stores_columns=np.array([form.stores_columns for _, form, _ in pairs]),
        stores_transposed=np.array([form.is_swapped and not form.stores_columns for _, form, _ in pairs]),
        stores_early=np.array([form.stores_early for _, form, _ in pairs]),
        a_is_k_major=k_major[:, 0],
        b_is_k_major=k_major[:, 1],
        clips=np.array([clipped for *_, clipped in pairs]),
        overlaps=True,
        rings_are_deep=False,
    )


def _k_major(shape: Shape) -> tuple[bool, bool]:
    return shape.layout[0] == "t", shape.layout[1] == "n"


def _row_bytes(shape: Shape) -> tuple[int, int]:
    """Bytes of the rows of A and B as they lie in memory. A layout has the letters of BLAS."""
    of_a = shape.k if shape.layout[0] == "t" else shape.m
    of_b = shape.k if shape.layout[1] == "n" else shape.n
    sizes = (extent * element_type(shape.dtype).bytes for extent in (of_a, of_b))
    first, second = (size if size % _ALIGNED == 0 else _LINE for size in sizes)
    return first, second
