"""The candidates with a producer: each a tile with its agents, a cluster, a division of K, and an order of tiles.

They are kept as indices and estimated as arrays, since there are thousands. They are the same for all extents of D;
`Forms.suits` says which of them the choice considers for given ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from lowtide.dialects.tile import KDivisionKind, RasterKind
from lowtide.dialects.tile.agents import Agents
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.fields import Extents2, Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice import shapes, tiles
from lowtide.passes.schedules.choice.shapes import Shapes
from lowtide.passes.schedules.cost.described import PATHS, band_of, grid_of, is_estimated, square_bands
from lowtide.passes.schedules.cost.grids import Grid, Grids
from lowtide.passes.schedules.cost.traffic import ctas_in_large_clusters, straddles_sectors
from lowtide.passes.support.agents.clusters import OPERANDS, sharing
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.panels import SWIZZLE_ROWS
from lowtide.targets import Target, issuer_of
from lowtide.targets.atoms import WGMMA_ROWS

Fields = Mapping[str, Any]

Sides: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Numbers along M, and along N."""

_MOST_DIVIDED = 8  # tiles that cover N if K is divided and D lies by columns
_SHARE_STEP = 8  # columns: a thread holds a pair of each eight columns of a wgmma's accumulators
_ORDERS = (RasterKind.row, RasterKind.column, RasterKind.grouped)
_MOST_IN_WAVES = 4  # CTAs of a cluster, if a grid takes more than one wave
_LEFT_OUT = (None,)  # a cluster, a division or an order that no candidate has


class Extents(NamedTuple):
    """M and N of D as the kernel computes it, and the number of products; None if it is known only at run time."""

    m: np.ndarray | None
    n: np.ndarray | None
    batch: int | None

    @classmethod
    def of(cls, problem: Problem) -> "Extents":
        m, n = (None if extent is None else np.array(extent, dtype=float) for extent in (problem.m, problem.n))
        return cls(m, n, problem.batch)


@dataclass(frozen=True)
class Forms(Sequence[Fields]):
    """`numbers`: for each candidate the indices of its shape, cluster, division and order. A cluster, a division or an
    order of None is left out."""

    shapes: Shapes
    clusters: Sequence[Extents2 | None]
    divisions: Sequence[KDivision | None]
    orders: Sequence[RasterKind | None]
    numbers: np.ndarray
    target: Target

    def __len__(self) -> int:
        return self.numbers.shape[1]

    @overload
    def __getitem__(self, number: int) -> Fields: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Fields]: ...
    def __getitem__(self, number: int | slice) -> Fields | Sequence[Fields]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        shape, cluster, division, order = self.numbers[:, number].tolist()
        found = self.shapes.each[shape].fields
        beside = {
            "grid.cluster": self.clusters[cluster],
            "grid.k_division": self.divisions[division],
            "grid.order": self._order(shape, cluster, self.orders[order]),
        }
        return found | {path: value for path, value in beside.items() if value is not None}

    def _order(self, shape: int, cluster: int, kind: RasterKind | None) -> Order | None:
        return self._bands[cluster][shape] if kind is RasterKind.grouped else None if kind is None else Order(kind)

    @cached_property
    def _bands(self) -> list[list[Order]]:
        """By cluster and shape."""
        sides = [(shape.rows, shape.columns) for shape in self.shapes.each]
        return [
            [square_bands(each, (cluster or (1, 1))[0], self.target) for each in sides] for cluster in self.clusters
        ]

    @cached_property
    def _of_bands(self) -> np.ndarray:
        """The rows of tiles in a band of each candidate; only for bands."""
        rows = np.array([[band.rows for band in of_cluster] for of_cluster in self._bands], dtype=float)
        return np.asarray(rows[self.numbers[1], self.numbers[0]])

    def suits(self, of: Extents) -> np.ndarray:
        """Whether each form, along the last dimension, is a candidate for each of the extents. Orders are left out if
        they are the same for the grid. Only bands need divisions by run-time values; without them 1024³ is 5 % faster
        (H200). All CTAs that divide K run at once."""
        in_shape, _, in_division, in_order = self.numbers
        found = self.shapes.suits(of.n)[..., in_shape]
        rows, columns = np.array([shape[:2] for shape in self.shapes.each], dtype=float).T[:, in_shape]
        by_warps = np.array([shape.by_warps is not None for shape in self.shapes.each])[in_shape]
        if of.m is None or of.n is None or of.batch is None:
            return np.asarray(found & ~by_warps)
        sides = self._sides()
        parts = np.array([each.parts if each else 1 for each in self.divisions])[in_division]
        found = found & fits_grid((rows, columns), sides, parts, of, self.target)
        found = found & (~by_warps | has_all_rows(rows, of))
        if self.divisions != _LEFT_OUT and self.shapes.covering:
            found = found & _cover(columns, self.share_steps(), of.n)
        if self.orders == _ORDERS:
            of_rows = np.ceil(of.m[..., None] / (rows * sides[0]))
            of_columns = np.ceil(of.n[..., None] / (columns * sides[1]))
            by_column, by_row = of_columns > 1, (of_columns == 1) | (of_rows > 1)
            found = found & np.select(
                [in_order == 0, in_order == 1], [by_row, by_column], by_column & (of_rows > self._of_bands)
            )
        return np.asarray(found)

    def at(self, chosen: np.ndarray) -> "Forms":
        """Those that are chosen, by a mask."""
        return Forms(self.shapes, self.clusters, self.divisions, self.orders, self.numbers[:, chosen], self.target)

    def grids(self, decided: Fields) -> Grids:
        """As the estimate reads them, if some fields are decided."""
        in_shape, _, in_division, in_order = self.numbers
        of_shapes = [grid_of({**shape.fields, **decided}, self.target) for shape in self.shapes.each]
        found = dict(zip(Grid._fields, np.array(of_shapes, dtype=float).T[:, in_shape], strict=True))
        if self.clusters != _LEFT_OUT:
            found |= dict(zip(("cluster_rows", "cluster_columns"), self._sides(), strict=True))
        if self.divisions != _LEFT_OUT:
            parts = [(each.parts, each.is_scattered) if each else (1, False) for each in self.divisions]
            found |= dict(zip(("parts", "adds_shares"), np.array(parts, dtype=float)[in_division].T, strict=True))
        if self.orders == _ORDERS:
            fixed = np.array([band_of(Order(kind)) for kind in _ORDERS], dtype=float)[in_order]
            found["band"] = np.where(fixed > 0, fixed, self._of_bands)
        return Grids(**found)

    def _sides(self) -> Sides:
        """The CTAs of each candidate's cluster along M, and along N."""
        of_rows, of_columns = np.array([cluster or (1, 1) for cluster in self.clusters], dtype=float)[self.numbers[1]].T
        return of_rows, of_columns

    def is_scattered(self) -> np.ndarray:
        """Whether each CTA that shares a K adds its share of the sums, for each candidate."""
        found = [each is not None and each.is_scattered for each in self.divisions]
        return np.array(found, dtype=bool)[self.numbers[2]]

    def share_steps(self) -> np.ndarray:
        """The columns of each candidate's tile must be a multiple of this number."""
        parts = np.array([each.parts if each else 1 for each in self.divisions], dtype=int)[self.numbers[2]]
        return np.asarray(_SHARE_STEP * np.where(self.is_scattered(), parts, 1))


def fits_grid(tile: Sides, cluster: Sides, parts: np.ndarray, of: Extents, target: Target) -> np.ndarray:
    """Whether tiles in such clusters are candidates for a product. `tile`: its rows and columns; `cluster`: its CTAs
    along M and N; `parts`: the CTAs that share the K of a tile. All extents must be known.

    CTAs that share a K all run at once. So do clusters of more than four CTAs, since they leave SMs idle in each wave
    (4096×4104×4104, H200: 256×192 in [4, 2] 241 µs, 256×176 in [2, 1] 231)."""
    any_waves = (parts == 1) & (cluster[0] * cluster[1] <= _MOST_IN_WAVES)
    return np.asarray((any_waves | _run_at_once(tile, cluster, parts, of, target)) & ~_waits_apart(tile, cluster, of))


def has_all_rows(rows: np.ndarray, of: Extents) -> np.ndarray:
    """Whether a tile with these rows has all rows of D, as tiles of few rows must; M must be known."""
    assert of.m is not None
    return np.asarray(of.m[..., None] <= rows)


def _run_at_once(tile: Sides, cluster: Sides, parts: np.ndarray, of: Extents, target: Target) -> np.ndarray:
    """Whether all CTAs run at once if `parts` CTAs share the K of each tile."""
    assert of.m is not None and of.n is not None and of.batch is not None
    (rows, columns), (down, across) = tile, cluster
    of_rows = np.ceil(of.m[..., None] / (rows * down)) * down
    of_columns = np.ceil(of.n[..., None] / (columns * across)) * across
    most = np.where(down * across > 2, ctas_in_large_clusters(target), target.sm_count)
    return np.asarray(parts * of_rows * of_columns * of.batch <= most)


def _waits_apart(tile: Sides, cluster: Sides, of: Extents) -> np.ndarray:
    """Whether CTAs with tiles of 64 rows share only their rows of A, the smaller operand, and each CTA loads its own
    columns of B. Such clusters are far slower than estimated, unless one tile covers M (H100: 64×224 of 300×28672×8192
    380 µs in clusters of [1, 2] and 259 alone, 64×256 of 444×28672×4096 229 and 170)."""
    assert of.m is not None and of.n is not None
    m, n = of.m[..., None], of.n[..., None]
    return np.asarray((tile[0] <= WGMMA_ROWS) & (cluster[0] == 1) & (cluster[1] > 1) & (m > tile[0]) & (n > m))


def _cover(columns: np.ndarray, steps: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Whether at most `_MOST_DIVIDED` tiles cover N, and no narrower ones cover it with as many tiles. The columns of
    tiles are multiples of their steps."""
    count = np.ceil(n[..., None] / columns)
    narrowest = steps * np.ceil(n[..., None] / count / steps)
    return np.asarray((count <= _MOST_DIVIDED) & (columns == narrowest))


def whole(given: Schedule, kinds: tuple[Agents, ...], problem: Problem, target: Target) -> Forms:
    """Tiles with these agents, each with the orders in which CTAs may take them. If clusters may be faster, the tiles
    also occur with clusters that share loads."""
    found, decided = shapes.whole(given, kinds, problem, target), given.decided()
    distinct = {tuple(map({**shape.fields, **decided}.get, PATHS)): shape for shape in found.each}
    shares = given.grid.cluster is None and target.max_cluster > 1 and _may_share(given, problem)
    has_orders = given.grid.order is None and is_estimated(problem) and problem.has_static_extents
    found = replace(found, each=tuple(distinct.values()))
    clusters = _clusters(problem) if shares else _LEFT_OUT
    forms = _combined(found, clusters, _LEFT_OUT, _ORDERS if has_orders else _LEFT_OUT, target)
    by_warps = np.array([shape.by_warps is not None for shape in found.each])[forms.numbers[0]]
    forms = forms.at(~by_warps | (forms.numbers[1] == 0))  # without clusters
    return forms.at(_loads_whole_rows(forms, problem)) if shares else forms


def _loads_whole_rows(forms: Forms, problem: Problem) -> np.ndarray:
    """Whether each CTA of a cluster loads its share of a stage in whole periods of the swizzle, as a rule demands."""
    in_shape, in_cluster, *_ = forms.numbers
    found = np.full(len(forms), True)
    for operand in OPERANDS:
        tiles_mnk = [(shape.rows, shape.columns, shape.depth) for shape in forms.shapes.each]
        rows = np.array([problem.stream(operand).box(tile)[0] for tile in tiles_mnk])[in_shape]
        parties = np.array([sharing(operand, cluster or (1, 1))[1] for cluster in forms.clusters])[in_cluster]
        found &= (parties == 1) | (rows % (SWIZZLE_ROWS * parties) == 0)
    return found


def divided(problem: Problem, target: Target) -> Forms:
    """Grids of at most one wave, with the K of each tile in several parts, in each order of tiles. If each part adds
    its share of the sums, the tiles also occur in clusters: such grids are bound by the bytes from L2."""
    assert problem.k is not None
    found = shapes.divided(problem)
    most = ceil(problem.k / found.each[0].depth)
    divisions = [KDivision(*each) for each in product(_kinds_of_division(problem), tiles.PARTS) if each[1] <= most]
    clusters = _clusters(problem) if target.max_cluster > 1 and is_estimated(problem) else _LEFT_OUT
    forms = _combined(found, clusters, tuple(divisions), _ORDERS, target)
    may_share = forms.is_scattered() | (forms.numbers[1] == 0)
    forms = forms.at(may_share & (found.columns[forms.numbers[0]] % forms.share_steps() == 0))
    return forms.at(_loads_whole_rows(forms, problem))


def _combined(
    found: Shapes,
    clusters: Sequence[Extents2 | None],
    divisions: Sequence[KDivision | None],
    orders: Sequence[RasterKind | None],
    target: Target,
) -> Forms:
    """All combinations, the order of tiles changing fastest, then the division, the shape, the cluster."""
    counts = (len(clusters), len(found.each), len(divisions), len(orders))
    cluster, shape, division, order = np.indices(counts).reshape(4, -1)
    return Forms(found, clusters, divisions, orders, np.array([shape, cluster, division, order]), target)


def _clusters(problem: Problem) -> tuple[Extents2 | None, ...]:
    return (None, *(tiles.CLUSTERS_OFF_SECTORS if straddles_sectors(problem) else tiles.CLUSTERS))


def _may_share(given: Schedule, problem: Problem) -> bool:
    """Whether clusters may be faster. Without an estimate of requests to L2, they are tried only if rows do not start
    on sectors of L2 (H200: 4096×4104×4104 is 1.25 times as fast). A given order is one of single CTAs: a complete
    schedule that leaves out the cluster has none."""
    may_gain = problem.has_static_extents if is_estimated(problem) else straddles_sectors(problem)
    by_wgmma = issuer_of(given.multiply.atom) in (None, "warpgroup")
    return may_gain and by_wgmma and given.grid.k_division is None and given.grid.order is None


def _kinds_of_division(problem: Problem) -> tuple[KDivisionKind, ...]:
    """`scatter`: each part adds its share of the sums. If D lies by columns, also `split`: the first part adds all."""
    return (KDivisionKind.scatter, *([KDivisionKind.split] if problem.d_is_column_major else []))
