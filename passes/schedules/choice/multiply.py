"""How the multiply of a schedule is chosen: the atom and the tiled mma, from the CTA tile and its warps."""

from collections.abc import Mapping
from functools import lru_cache
from math import gcd, isqrt, prod
from typing import Any

from tensor_layouts import Layout

from lowtide.dialects.tile import OperandKind, PromoteKind, RepeatKind
from lowtide.dialects.tile.fields import Extents3, Permutation
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice.asked_for import wgmma_width
from lowtide.passes.schedules.choice.permutation import of_fewest_conflicts
from lowtide.passes.schedules.facts.resources import REGISTER_BITS, holds_few_scales, is_wide_for_scales
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.operand_loads import LDMATRIX_BITS
from lowtide.targets import MmaAtom, Target, issuer_of, mma_atom, types_of_atom
from lowtide.targets.atoms import FMA, WGMMA_ROWS, wgmma_k

_LANES_ALONG_K, _LANES_ALONG_ROWS = 4, 8  # in the fragments of A and B of an mma
_DIRECT_DEPTH = 32  # the largest K of one step without shared memory: 16 bytes per thread
_BESIDE_FRAGMENTS = 30  # registers for addresses and the loop

# FMA atoms: lanes of a warp along M, and in pairs along N. Two neighbouring lanes, or two lanes two apart, then load
# the same 16 bytes, and shared memory serves both at once.
_LANES_M, _LANES_N = 8, 4
_WIDEST_BITS = 128  # of a load
_PAIR_BITS = 64  # of an element, if a load takes at most two of them
# The most elements of a tile of f64 that takes the longest K in tn: 64×64 with a K of 8 takes 0.99 of the
# time of 128×64 with a K of 4 (H200, 1024³).
_SMALL_OF_WIDE = 64 * 64


def follow(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """The fields that follow from the tile and the consumers, or the warps, by path."""
    consumers, (_, n, _) = schedule.agents.consumer.warpgroups, schedule.tile_mnk
    if schedule.agents.has_producer and issuer_of(schedule.multiply.atom) in (None, "warpgroup"):
        depth, width = wgmma_k(problem.a), wgmma_width(schedule) or _width(schedule, problem)
        return {
            "multiply.atoms": (consumers, 1, 1),
            "multiply.permutation": (WGMMA_ROWS * consumers, width, depth),
            "multiply.atom": f"wgmma.m64n{width}k{depth}",
            "multiply.fragment_buffers": 1,
        } | ({"multiply.promote": _promotion(schedule, problem)} if problem.promotes or problem.weights else {})
    if multiplies_by_fma(schedule, problem, target):
        return _of_fma(schedule, problem)
    if schedule.agents.has_producer:  # by mma.sync
        schedule = schedule.filled({"multiply.atoms": _dealt(schedule.agents.consumer.warps or 1)})
    assert schedule.multiply.atoms is not None
    warps_m, warps_n, warps_k = schedule.multiply.atoms
    atom = _atom(schedule, problem, target)
    m, n, depth = (16, 8, 16) if atom is None else atom.shape_mnk
    # Two n-atoms per step, so that B's registers pair up into ldmatrix.x4.
    by_k = depth if atom is None else _order_of_k(atom, schedule, problem)
    rows: list[int | Layout] = [m * warps_m, 2 * n * warps_n]
    if problem.weights is not None:
        return _of_weights(rows, depth * warps_k, schedule, problem)
    if atom is not None and m == 2 * _LANES_ALONG_ROWS and pairs_rows(problem) and not schedule.is_direct:
        rows = _pairs_of_rows(rows, depth, schedule, problem)
    atom_name = "mma.m16n8k16" if atom is None else mma_shape(atom)
    permutation: Permutation = (rows[0], rows[1], by_k if warps_k == 1 else depth * warps_k)
    if schedule.agents.has_producer:  # TMA fixes the layout of its stages
        permutation = of_fewest_conflicts(schedule.filled({"multiply.atom": atom_name}), permutation, problem)
    return {
        "multiply.atom": atom_name,
        "multiply.atoms": schedule.multiply.atoms,
        "multiply.permutation": permutation,
        "multiply.fragment_buffers": _fragment_buffers(schedule, problem),
    } | ({"multiply.promote": PromoteKind.per_step} if problem.promotes else {})


def _dealt(warps: int) -> Extents3:
    """The atoms of `warps` warps along M, N and K: near a square, one along K."""
    along_m = next(count for count in range(isqrt(warps), 0, -1) if warps % count == 0)
    return along_m, warps // along_m, 1


def _width(schedule: Schedule, problem: Problem) -> int:
    """N of the wgmmas: the tile's, or half of it if the tile is wide and each column has its own scales. A thread then
    holds the scales of one half, and adds that half while the other is multiplied."""
    n, is_wide = schedule.tile_mnk[1], is_wide_for_scales(schedule.tile_mnk, schedule.agents)
    return n // 2 if schedule.stages_scales and is_wide and _scales_columns(problem) else n


def _promotion(schedule: Schedule, problem: Problem) -> PromoteKind:
    """With roles: staged scales of the next K step are read early if registers can hold those of two steps."""
    are_few = holds_few_scales(schedule.tile_mnk, schedule.agents) and not _scales_columns(problem)
    return PromoteKind.overlapped if schedule.stages_scales and are_few else PromoteKind.per_step


def _scales_columns(problem: Problem) -> bool:
    """Whether each column has scales of its own; a thread holds a quarter of them."""
    return OperandKind.column_scale in problem.kinds


def _of_weights(rows: list[int | Layout], depth: int, schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """The multiply of packed weights. If a byte holds weights of two rows, which are 8 apart, a warp has both rows."""
    assert schedule.multiply.atoms is not None
    warps_n = schedule.multiply.atoms[1]
    if problem.stream("b").rows > 1 and warps_n > 1:
        rows = [rows[0], Layout((_LANES_ALONG_ROWS, warps_n, 2), (1, 2 * _LANES_ALONG_ROWS, _LANES_ALONG_ROWS))]
    promote = {"multiply.promote": PromoteKind.per_step} if problem.group else {}
    return {
        "multiply.atom": "mma.m16n8k16",
        "multiply.permutation": (*rows, depth),
        "multiply.fragment_buffers": _fragment_buffers(schedule, problem),
    } | promote


def _fragment_buffers(schedule: Schedule, problem: Problem) -> int:
    """Two if fragments may be loaded ahead: from stages, not converted, and not across work tiles."""
    is_at_hand = schedule.is_direct or any(problem.converted) or schedule.mainloop.prologue is RepeatKind.once
    return 1 if is_at_hand else 2


def multiplies_by_fma(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether FMA atoms are given, or they multiply the problem's types and no tensor core of the target does."""
    if schedule.multiply.atom is not None:
        return schedule.multiply.atom == FMA
    found = f"{FMA}.{types_of_atom(problem.acc, problem.a, problem.b)}" in target.mma_atoms
    return found and _atom(schedule, problem, target) is None


def _of_fma(schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """The multiply by FMA atoms: a thread holds groups of neighbouring rows and columns, each one load of 16 bytes."""
    assert schedule.multiply.atoms is not None
    threads, (m, n, _) = schedule.multiply.atoms, schedule.tile_mnk
    modes: list[int | Layout] = []
    for extent, count, operand in ((m, threads[0], problem.a), (n, threads[1], problem.b)):
        width = gcd(_WIDEST_BITS // element_type(operand).bits, extent // count)
        modes.append(Layout((count, width), (width, 1)) if width > 1 else count)
    chosen = {
        "multiply.atom": FMA,
        "multiply.permutation": (*modes, 1),
        "multiply.fragment_buffers": _fragment_buffers(schedule, problem),
    }
    order = _warp_tiles(threads)
    return chosen if order is None else chosen | {"multiply.atom_order": order}


def _warp_tiles(threads: Extents3) -> Layout | None:
    """The order of threads in which each warp has 8 along M and 4 along N; None if these do not divide the threads."""
    m, n, _ = threads
    if m % _LANES_M or n % _LANES_N:
        return None
    warps_m, warps_n = m // _LANES_M, n // _LANES_N
    return Layout(((_LANES_M, warps_m), (2, 2, warps_n), 1), ((2, 32), (1, 16, 32 * warps_m), 32 * warps_m * warps_n))


def mma_shape(atom: MmaAtom) -> str:
    """`mma.m16n8k16`: the atom without its types."""
    return atom.name.removesuffix(f".{types_of_atom(atom.c_dtype, atom.a_dtype, atom.b_dtype)}")


def pairs_rows(problem: Problem) -> bool:
    """Whether fragments are loaded by ld.shared, and those of A or B in pairs of rows that lie side by side."""
    return element_type(problem.a).bits > LDMATRIX_BITS and not (a_is_mk(problem.layout) and b_is_nk(problem.layout))


def _pairs_of_rows(rows: list[int | Layout], depth: int, schedule: Schedule, problem: Problem) -> list[int | Layout]:
    """The extents of a step along M and N. If memory is contiguous along one of them, one thread takes neighbours.

    A thread has the same row of each eight (PTX ISA, "Matrix Fragments" of .f64). A pair of rows of A is in one atom, a
    pair of columns of B in two atoms. With an atom of a larger K (`depth`), such a pair would have to be split.
    """
    assert schedule.multiply.atoms is not None
    warps_m, warps_n, warps_k = schedule.multiply.atoms
    if warps_k > 1:
        return rows
    by_m, by_n = rows
    if not a_is_mk(problem.layout):
        by_m = Layout((_LANES_ALONG_ROWS, 2, warps_m), (2, 1, 2 * _LANES_ALONG_ROWS))
    if not b_is_nk(problem.layout) and depth == _LANES_ALONG_K:
        by_n = Layout((_LANES_ALONG_ROWS, warps_n, 2), (2, 2 * _LANES_ALONG_ROWS, 1))
    return [by_m, by_n]


@lru_cache(maxsize=64)
def _of_types(names: tuple[str, ...], types: str) -> tuple[MmaAtom, ...]:
    """Those atoms that have these types. A search asks for the same ones for thousands of schedules."""
    return tuple(mma_atom(name) for name in names if name.endswith(f".{types}"))


def _atom(schedule: Schedule, problem: Problem, target: Target) -> MmaAtom | None:
    """The given mma.sync, or the target's fastest for the types of the problem; None if it has none.

    Among equally fast shapes, it is the one with the longest K that leaves registers for the fragments of two k-slices.
    If ld.shared loads pairs of rows, it is the one with the shortest K, which takes a pair without moves. For f64 it is
    the one with the shortest K only if A has K contiguous: if A has M contiguous, a pair of its rows is in one atom
    with any K. If A and B have K contiguous, whole tiles of 64×64 take the longest K, too.
    """
    found = [
        atom
        for atom in _of_types(target.mma_atoms, types_of_atom(problem.acc, problem.a, problem.b))
        if atom.threads == target.warp_size
        and (atom.a_dtype, atom.b_dtype, atom.c_dtype) == (problem.a, problem.b, problem.acc)
        and schedule.multiply.atom in (None, mma_shape(atom))
    ]
    fitting = [atom for atom in found if _registers(atom, schedule) <= target.registers_per_thread - _BESIDE_FRAGMENTS]
    is_wide = element_type(problem.a).bits == _PAIR_BITS
    is_short = a_is_mk(problem.layout) and not _is_small(schedule, problem) if is_wide else pairs_rows(problem)
    return max(fitting or found, key=lambda x: (x.rate, (-1 if is_short else 1) * x.shape_mnk[2]), default=None)


def _is_small(schedule: Schedule, problem: Problem) -> bool:
    """Whether B has K contiguous, and tiles are whole and have at most 64×64 elements."""
    is_whole = schedule.k_division is None
    return is_whole and b_is_nk(problem.layout) and prod(schedule.tile_mnk[:2]) <= _SMALL_OF_WIDE


def _registers(atom: MmaAtom, schedule: Schedule) -> int:
    """Registers of accumulators and of the fragments of two k-slices, per thread."""
    assert schedule.multiply.atoms is not None
    (m, n, _), (warps_m, warps_n, _) = schedule.tile_mnk, schedule.multiply.atoms
    rows, columns = m // warps_m, n // warps_n
    fragments = 2 * (rows + columns) * atom.shape_mnk[2] * element_type(atom.a_dtype).bits
    accumulators = rows * columns * element_type(atom.c_dtype).bits
    return (fragments + accumulators) // (REGISTER_BITS * atom.threads)


def _order_of_k(atom: MmaAtom, schedule: Schedule, problem: Problem) -> int | Layout:
    """K of one step. ldmatrix takes it in order. Without ldmatrix, the elements of a thread become neighbours along K.

    A thread of a group of four holds every fourth element along K of an atom (PTX ISA, "Matrix Fragments" of .f64).
    """
    depth = atom.shape_mnk[2]
    bits = element_type(problem.a).bits
    if schedule.is_direct and bits == LDMATRIX_BITS:
        return _pairs_together(depth, schedule)
    if bits > LDMATRIX_BITS and a_is_mk(problem.layout) and atom.shape_mnk[0] == 2 * _LANES_ALONG_ROWS:
        return depth  # an atom takes pairs of rows of A, so pairs along K would have to be split
    extent = max(depth, 2 * _LANES_ALONG_K)
    if (
        bits <= LDMATRIX_BITS
        or schedule.tile_mnk[2] % extent
        or not (a_is_mk(problem.layout) or b_is_nk(problem.layout))
    ):
        return depth
    return Layout((_LANES_ALONG_K, extent // _LANES_ALONG_K), (extent // _LANES_ALONG_K, 1))


def _pairs_together(depth: int, schedule: Schedule) -> int | Layout:
    """K in the order in which a thread's elements, two of every eight, are up to eight neighbours.

    PTX ISA, "Matrix Fragments" of .f16 and .bf16: elements 2t and 2t + 1 of every eight along K, t of 0 … 3.
    """
    count = gcd(schedule.tile_mnk[2], _DIRECT_DEPTH) // (2 * _LANES_ALONG_K)  # pairs of a thread
    if count * 2 * _LANES_ALONG_K % depth:
        return depth
    return Layout((2, _LANES_ALONG_K, count), (1, 2 * count, 2))
