"""Selects cuBLASLt algorithms to time: those that its heuristic offers, their neighbours, and a sweep over the rest.

The heuristic alone may offer no more than eight. The lower-level functions (cublasLtMatmulAlgoGetIds, AlgoInit,
AlgoCapGetAttribute, AlgoConfigSetAttribute, AlgoCheck) configure any other; NVIDIA's manual recommends them to
"implement own heuristic and find routines". The list depends only on the GPU, cuBLASLt and the problem.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import TypeVar

from lowtide.errors import DeviceError
from lowtide.measurement.bench.cublaslt import WORKSPACE_BYTES, Algorithm, Matmul, StoredMatrix
from lowtide.measurement.bench.cublaslt_library import (
    CLUSTER_AUTO,
    CLUSTERS,
    REDUCTION_COMPUTE_TYPE,
    REDUCTION_NONE,
    AlgorithmStruct,
    Capability,
    Library,
    Setting,
)
from lowtide.measurement.bench.cublaslt_tiles import UNDEFINED, tile_cost, tile_count, transposed

Item = TypeVar("Item")

WORKSPACES = (WORKSPACE_BYTES, 32 * 2**20, 0)  # bytes; the heuristic is queried with each
# The most algorithms after each source; the first source, the heuristic's best fit, is kept completely.
WITHIN_IDS, WITH_NEIGHBOURS, WITH_SWEEP = 40, 72, 96
CHECKS = 4000  # the most configurations tried
NEIGHBOUR_CUSTOM_OPTIONS = 8
SWEEP_TILES, SWEEP_STAGES, SWEEP_CLUSTERS = 16, 4, 3  # per id, the most promising


@dataclass(frozen=True)
class Capabilities:
    """The settings that algorithms of one id allow."""

    tiles: tuple[int, ...]
    stages: tuple[int, ...]
    swizzling: bool
    split_k: bool
    custom_max: int


@dataclass(frozen=True)
class Family:
    """The algorithms of one id: a base configuration, its settings, and the settings that may be changed."""

    base: AlgorithmStruct
    settings: Mapping[Setting, int]
    capabilities: Capabilities


def find(matmul: Matmul, multiprocessors: int, most: int = WITH_SWEEP) -> tuple[Algorithm, ...]:
    """Algorithms that cuBLASLt reports as runnable, the heuristic's best fit first and complete, about `most` of them.

    Each source has its share of `most`. Settings are not repeated. Raises DeviceError if a call fails or the heuristic
    has no answer.
    """
    found = _Found(matmul)
    within_ids, with_neighbours = (most * share // WITH_SWEEP for share in (WITHIN_IDS, WITH_NEIGHBOURS))
    found.take(matmul.offers(WORKSPACES[0]))
    for workspace_bytes in WORKSPACES[1:]:
        found.offer(matmul.offers(workspace_bytes), within_ids)
    best = list(found.algorithms)
    if not best:
        raise DeviceError(
            "cuBLASLt offers no algorithm for this product; leave cuBLASLt out of the comparison [cublaslt-algorithm]"
        )
    empty = {number: struct for number in matmul.ids() if (struct := matmul.begin(number)) is not None}
    within = {number: matmul.offers(WORKSPACE_BYTES, struct) for number, struct in empty.items()}
    found.offer(alternate(within.values()), within_ids)
    found.fill(alternate(_neighbours(matmul.library, one.struct) for one in best), with_neighbours)
    started: dict[int, AlgorithmStruct] = {}
    for one in (*best, *chain.from_iterable(within.values())):
        started.setdefault(_id(matmul.library, one.struct), one.struct)
    leading = {_id(matmul.library, one.struct) for one in best}
    families = {number: family(matmul.library, started.get(number, struct)) for number, struct in empty.items()}
    sweeps = {number: sweep(one, matmul.description.result, multiprocessors) for number, one in families.items()}
    # Half of the places go to the ids that the heuristic ranks highest.
    best_ids = alternate([one for number, one in sweeps.items() if number in leading])
    other_ids = alternate([one for number, one in sweeps.items() if number not in leading])
    found.fill(alternate([best_ids, other_ids]), most)
    return tuple(found.algorithms)


def capabilities(library: Library, struct: AlgorithmStruct) -> Capabilities:
    """The settings that cuBLASLt reports for the struct."""

    def one(attribute: Capability) -> int:
        return next(iter(library.capability(struct, attribute)), 0)

    return Capabilities(
        tiles=library.capability(struct, Capability.TILES) or (UNDEFINED,),
        stages=library.capability(struct, Capability.STAGES) or (UNDEFINED,),
        swizzling=one(Capability.SWIZZLING) == 1,
        # Partial sums have the type of the sums; in the dtype of D the product could be less exact.
        split_k=one(Capability.SPLIT_K) != 0 and one(Capability.REDUCTION_MASK) & REDUCTION_COMPUTE_TYPE != 0,
        custom_max=one(Capability.CUSTOM_MAX),
    )


def family(library: Library, base: AlgorithmStruct) -> Family:
    """The family of `base`."""
    return Family(base, library.settings(base), capabilities(library, base))


def neighbours(one: Family) -> Iterator[Mapping[Setting, int]]:
    """Changes of the base: one setting at a time, round-robin over the kinds of setting."""
    settings, may = one.settings, one.capabilities
    tile, cluster = transposed(settings.get(Setting.TILE, UNDEFINED)), settings.get(Setting.CLUSTER, CLUSTER_AUTO)
    choices: dict[Setting, Iterable[int]] = {
        Setting.SWIZZLING: (0, 1) if may.swizzling else (),
        Setting.CLUSTER: CLUSTERS if cluster != CLUSTER_AUTO else (),
        Setting.TILE: (tile,) if tile in may.tiles else (),
        Setting.STAGES: may.stages,
        Setting.CUSTOM: range(min(may.custom_max + 1, NEIGHBOUR_CUSTOM_OPTIONS)),
    }
    return alternate(
        [{setting: value} for value in values if value != settings.get(setting, 0)]
        for setting, values in choices.items()
    )


def sweep(
    one: Family, result: StoredMatrix, multiprocessors: int
) -> Iterator[tuple[AlgorithmStruct, Mapping[Setting, int]]]:
    """(base, changes) over tiles × stages × clusters × CTA swizzling × split-K, the most promising first.

    Tiles are ordered by their estimated cost for the result; for the others, the base's own setting comes first.
    Combinations are ordered by the sum of their places in these orders. K is split in two only if there are fewer tiles
    than multiprocessors.
    """
    may, settings = one.capabilities, one.settings
    tiles = sorted(may.tiles, key=lambda tile: tile_cost(tile, result.rows, result.columns, multiprocessors))
    stages, cluster = settings.get(Setting.STAGES, UNDEFINED), settings.get(Setting.CLUSTER, CLUSTER_AUTO)
    stages = stages if stages in may.stages else max(may.stages)
    swizzling = settings.get(Setting.SWIZZLING, 0)
    axes: dict[Setting, Sequence[int]] = {
        Setting.TILE: tiles[:SWEEP_TILES],
        Setting.STAGES: _first(stages, sorted(may.stages, reverse=True))[:SWEEP_STAGES],
        # If the base has no cluster shape, the id may not support clusters.
        Setting.CLUSTER: _first(cluster, CLUSTERS if cluster != CLUSTER_AUTO else ())[:SWEEP_CLUSTERS],
        Setting.SWIZZLING: (swizzling, 1 - swizzling) if may.swizzling else (swizzling,),
    }
    combinations = sorted(product(*(enumerate(axis) for axis in axes.values())), key=_likelihood)
    for combination in combinations:
        values = dict(zip(axes, (value for _, value in combination), strict=True))
        few = 0 < tile_count(values[Setting.TILE], result.rows, result.columns) < multiprocessors
        for parts in (1, 2) if few and may.split_k else (1,):
            values[Setting.SPLIT_K] = parts
            values[Setting.REDUCTION] = REDUCTION_NONE if parts == 1 else REDUCTION_COMPUTE_TYPE
            # Settings that equal the base's, or that the base does not have, are not set: cuBLASLt may refuse them.
            yield one.base, {each: value for each, value in values.items() if settings.get(each, value) != value}


def alternate(sources: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Round-robin over the sources, until all are exhausted."""
    left = [iter(source) for source in sources]
    while left:
        alive = []
        for source in left:
            for item in source:
                yield item
                alive.append(source)
                break
        left = alive


def _likelihood(combination: Sequence[tuple[int, int]]) -> int:
    return sum(place for place, _ in combination)


def _first(preferred: int, others: Iterable[int]) -> list[int]:
    return list(dict.fromkeys([preferred, *others]))


def _id(library: Library, struct: AlgorithmStruct) -> int:
    return library.settings(struct)[Setting.ID]


def _neighbours(library: Library, base: AlgorithmStruct) -> Iterator[tuple[AlgorithmStruct, Mapping[Setting, int]]]:
    one = family(library, base)
    return ((base, changes) for changes in neighbours(one))


class _Found:
    """The algorithms found so far."""

    def __init__(self, matmul: Matmul) -> None:
        self._matmul = matmul
        self.algorithms: list[Algorithm] = []
        self._names: set[str] = set()
        self._checks = 0

    def take(self, algorithms: Iterable[Algorithm]) -> None:
        """Take all."""
        for algorithm in algorithms:
            self.algorithms.append(algorithm)
            self._names.add(algorithm.name)

    def offer(self, algorithms: Iterable[Algorithm], most: int) -> None:
        """Take algorithms with new settings until there are `most`. Takes no more items than needed from the
        iterable."""
        if len(self.algorithms) >= most:
            return
        for algorithm in algorithms:
            if algorithm.name not in self._names:
                self.take([algorithm])
                if len(self.algorithms) >= most:
                    return

    def fill(self, candidates: Iterable[tuple[AlgorithmStruct, Mapping[Setting, int]]], most: int) -> None:
        """Take candidates that can be configured, pass the check and have new settings, until there are `most`, or
        until no checks are left."""
        self.offer(self._checked(candidates), most)

    def _checked(self, candidates: Iterable[tuple[AlgorithmStruct, Mapping[Setting, int]]]) -> Iterator[Algorithm]:
        for base, changes in candidates:
            if self._checks >= CHECKS:
                return
            self._checks += 1
            struct = self._matmul.library.changed(base, changes)
            algorithm = None if struct is None else self._matmul.checked(struct)
            if algorithm is not None:
                yield algorithm
