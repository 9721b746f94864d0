"""How K is split among CTAs without roles, where whole tiles are too few for the SMs or fill their last wave badly:
what to choose among, and what is worth it. `cost/single_grid.py` says what each costs.

Each part writes its partial sums to L2, and part 0 of a tile adds those of all others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from types import MappingProxyType
from typing import Any

from lowtide.dialects.tile import KDivisionKind, OperandKind, SchedulerKind
from lowtide.dialects.tile.fields import Extents2, Extents3, KDivision
from lowtide.dialects.tile.schedule import Epilogue, Grid, Mainloop, Multiply, Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice.multiply import multiplies_by_fma
from lowtide.passes.schedules.facts.resources import REGISTER_BITS
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target

_SplitTile = tuple[Extents2, int, Extents3, int]


@dataclass(frozen=True)
class _Splits:
    """Tiles (extents, bits of K of a step, atoms, stages), and how many parts and CTAs of an SM they are split into.

    `beside_operands`: registers of a thread that sums may take if the epilogue also reads operands, and if several of
    these are full. `worth`: the share of the cycles of whole tiles below which a split is chosen, by how well the model
    tells them apart.
    """

    tiles: tuple[_SplitTile, ...]
    most_parts: int
    most_ctas: int
    most_threads: int
    beside_operands: tuple[int, int]
    worth: float


# Measured on an H100 (tn, µs): f64 384×3072×2048, whose 288 tiles of 64×64 fill two waves and a fifth of 132 SMs, 115
# whole and 94 in three parts; 640×640×4096, 86 and 72 in five of 64×128; f32 256×256×8192, 50 in 16 parts of 64×64 and
# 44 in 32 of 128×128, whose eight warps add more sums at a time.
_OF_THREADS = _Splits(
    (((128, 128), 512, (16, 16, 1), 3), ((128, 64), 256, (16, 8, 1), 4), ((64, 64), 256, (8, 8, 1), 4)),
    most_parts=32,
    most_ctas=8,
    most_threads=2048,
    beside_operands=(64, 64),
    worth=0.8,
)
# Of tensor cores, by the bits of a sum; none where sums are shorter than f32. Where two tiles are alike, that of eight
# warps leaves each thread more registers for what an epilogue reads.
_OF_TENSOR_CORES: Mapping[int, _Splits] = MappingProxyType(
    {
        32: _Splits(
            (((128, 128), 512, (2, 4, 1), 4), ((64, 64), 1024, (2, 4, 1), 4)),
            most_parts=16,
            most_ctas=4,
            most_threads=512,
            beside_operands=(64, 64),
            worth=0.75,
        ),
        64: _Splits(
            (((64, 128), 1024, (2, 4, 1), 4), ((64, 64), 1024, (2, 4, 1), 4), ((64, 64), 1024, (2, 2, 1), 4)),
            most_parts=16,
            most_ctas=8,
            most_threads=2048,
            beside_operands=(64, 32),
            worth=0.93,
        ),
    }
)
_NONE = _Splits((), most_parts=1, most_ctas=0, most_threads=0, beside_operands=(0, 0), worth=0.0)


def _found(given: Schedule, problem: Problem, target: Target) -> _Splits:
    """The row for what multiplies."""
    if multiplies_by_fma(given, problem, target):
        return _OF_THREADS
    return _OF_TENSOR_CORES.get(element_type(problem.acc).bits, _NONE)


def splits(given: Schedule, problem: Problem, target: Target) -> Iterator[dict[str, Any]]:
    """Splits of K to choose among, by path of the schedule's fields.

    None where the given fields decide the tile or the work of the CTAs, an extent is not known, or weights are packed.
    """
    if problem.weights or not problem.has_static_extents or not _is_open(given):
        return
    row = _found(given, problem, target)
    beside = row.beside_operands[problem.kinds.count(OperandKind.full) > 1]
    for (rows, columns), bits, atoms, stages in row.tiles:
        threads = prod(atoms) * (1 if row is _OF_THREADS else target.warp_size)
        sums = rows * columns * element_type(problem.acc).bits // REGISTER_BITS
        if problem.region_kinds and sums > beside * threads:
            continue
        depth = bits // element_type(problem.a).bits
        tiles = problem.tiles((rows, columns))
        assert tiles is not None and problem.k is not None
        ctas = target.sm_count * min(row.most_ctas, row.most_threads // threads)
        for parts in range(2, 1 + min(row.most_parts, ctas // tiles, ceil(problem.k / depth))):
            yield {
                "grid.tile": (rows, columns),
                "grid.k_division": KDivision(KDivisionKind.split, parts),
                "mainloop.k": depth,
                "mainloop.stages": stages,
                "multiply.atoms": atoms,
            }


def _is_open(given: Schedule) -> bool:
    """Whether the given fields leave the tile, what follows from it, and the work of the CTAs open."""
    grid, mainloop = given.grid, given.mainloop
    return (
        replace(grid, scheduler=None) == Grid()
        and grid.scheduler in (None, SchedulerKind.one_shot)
        and replace(mainloop, roles=None) == Mainloop()
        and given.multiply == Multiply()
        and given.epilogue == Epilogue()
    )


def most_cycles(whole: float, given: Schedule, problem: Problem, target: Target) -> float:
    """Below how many estimated cycles a split is chosen in place of whole tiles of `whole`."""
    return _found(given, problem, target).worth * whole


def reason(parts: int, split: float, whole: float) -> str:
    """Why K is split so."""
    return (
        f"{parts} CTAs share the K of each tile, and one adds their sums ({split:,.0f} estimated cycles): whole tiles "
        f"are too few for the SMs, or fill a last wave badly ({whole:,.0f})"
    )
