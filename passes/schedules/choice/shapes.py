"""The tiles to choose among with a producer, each with K of a step and the consumers that multiply it.

They do not depend on N of D, which may be M as it was asked for. `Shapes.suits` says which of them are candidates for
an N. So the candidates for all M are listed once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from tensor_layouts import size

from lowtide.dialects.tile import OperandKind, TailKind
from lowtide.dialects.tile.agents import SINGLE, Agents
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice import tiles
from lowtide.passes.schedules.choice.asked_for import stores_by_tma, wgmma_width
from lowtide.passes.schedules.choice.tiles import WarpTile
from lowtide.passes.schedules.facts.resources import REGISTER_BITS, results_fill_registers
from lowtide.passes.schedules.rules.epilogue import stores_whole_rows
from lowtide.passes.schedules.rules.multiply import column_step, widest
from lowtide.passes.schedules.rules.tma import panel_swizzle
from lowtide.passes.support.problem.matrix_layouts import b_is_nk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_THREADS, WGMMA_ROWS, wgmma_widths

_MOST_OF = 0.75  # the share of the SMs that should have a tile of packed weights
_ACCUMULATORS_BESIDE_ROWS = 128  # per thread, if the epilogue also holds rows of a full operand
_ACCUMULATORS_BESIDE_COLUMNS = 64  # if it holds elements of one that lies by columns
# Accumulators per thread if an epilogue without TMA calls functions, in tiles of one block of rows per consumer: ptxas
# interleaves the calls of a whole part, and spills with more.
_ACCUMULATORS_BESIDE_FUNCTIONS, _FEW_BESIDE_FUNCTIONS = 128, 64
_ACCUMULATORS_IN_TURN = 192  # of a consumer that takes turns, with at most one function
_OF_THREADS = 32  # columns of a part of the epilogue that threads store
_BESIDE_OPERANDS = (160, 176)  # columns of tiles of consumers that take turns, beside multiples of 64
_NARROW = (16, 32)  # columns of tiles for a D that has no more


class Shape(NamedTuple):
    """`least`: the columns of the narrowest usual tile of these agents. `by_warps`: the tile of warps, if the warps
    that copy also multiply."""

    rows: int
    columns: int
    depth: int
    agents: Agents
    least: int = 0
    by_warps: WarpTile | None = None

    @property
    def fields(self) -> dict[str, Any]:
        found = {"grid.tile": (self.rows, self.columns), "mainloop.k": self.depth, **_values(self.agents)}
        if self.by_warps is None:
            return found
        return found | {"mainloop.stages": self.by_warps.stages, "multiply.atoms": self.by_warps.atoms}


@cache
def _values(agents: Agents) -> dict[str, int]:
    return agents.values()


@dataclass(frozen=True)
class Shapes:
    """`each`: for any N. The others say which of them suit an N. `to_n`: tiles may be at most a step wider than N.
    `covering`: a few tiles must cover N about exactly; this depends on the division of K, so `Forms.suits` checks it.
    `as_whole`: if consumers take turns, wide tiles divide N."""

    each: tuple[Shape, ...]
    to_n: bool = False
    covering: bool = False
    as_whole: bool = False

    @cached_property
    def columns(self) -> np.ndarray:
        return np.array([shape.columns for shape in self.each], dtype=float)

    def suits(self, n: np.ndarray | None) -> np.ndarray:
        """Whether each shape is a candidate for each N; None: an N known only at run time. The shapes are the last
        dimension of the result."""
        columns, least = self.columns, np.array([shape.least for shape in self.each])
        if n is None:
            return np.asarray(columns >= least)
        n = n[..., None]
        narrow = np.select([n <= width for width in _NARROW], _NARROW)
        found = (columns >= least) | (columns == narrow)
        if self.to_n:
            found &= columns < n + tiles.N_STEP
        if self.as_whole:
            turns = np.array([shape.agents.consumer.turns for shape in self.each])
            found &= (turns == 1) | (columns < tiles.NARROWEST) | (n % columns == 0) | (columns > n)
        return np.asarray(found)


def whole(given: Schedule, kinds: tuple[Agents, ...], problem: Problem, target: Target) -> Shapes:
    """Tiles that one CTA computes."""
    depth = given.mainloop.k or _depth(problem)
    if given.grid.tile is not None:
        rows, columns = given.grid.tile
        blocks = 2 if given.grid.tail is TailKind.halves else 1
        able = [agents for agents in kinds if rows % (blocks * WGMMA_ROWS * agents.consumer.warpgroups) == 0]
        usual = [agents for height, agents, _ in tiles.ROWS if height == rows and agents in able]
        dealt = able if given.multiply.atoms is not None else usual or able
        dealt = dealt or [min(kinds, key=lambda kind: kind.consumer.warpgroups)]
        return Shapes(tuple(Shape(rows, columns, depth, agents) for agents in dealt))
    if problem.weights:
        return Shapes((_of_weights(given, kinds, problem, target),))
    rows_of = [entry for entry in tiles.ROWS if entry[1] in kinds] or [
        (WGMMA_ROWS * agents.consumer.warpgroups, agents, widest(agents.consumer.all_warpgroups, problem, target))
        for agents in kinds
        if agents.has_producer
    ]
    legal, found, fitting = wgmma_widths(problem.a, problem.b, problem.acc), [], []
    for rows, agents, most_n in rows_of:
        most, is_one_block = _room(agents, given, problem)
        least, widths = _widths(given, problem, min(tiles.NARROWEST, most_n))
        for n in widths:
            in_turn = agents.consumer.turns > 1 and not given.agents.has_producer
            if in_turn and n > tiles.NARROWEST and not _suits_turns(n, given, problem):
                continue
            found.append(Shape(rows, n, depth, agents, least))
            has_room = rows * n // (WARPGROUP_THREADS * agents.consumer.warpgroups) <= most
            is_low = not is_one_block or rows == WGMMA_ROWS * agents.consumer.warpgroups
            if n <= most_n and n in legal and has_room and is_low:
                fitting.append(found[-1])
    low = [Shape(*one.tile, one.k, SINGLE, by_warps=one) for one in tiles.FEW_ROWS if SINGLE in kinds]
    return Shapes(
        (*(fitting or found), *low),  # if the given fields leave no tile that fits, the rules say why
        to_n=_has_any_width(given, problem) and problem.d_is_column_major and not _has_width(given),
        as_whole=problem.is_batched and not given.agents.has_producer,
    )


def _suits_turns(n: int, given: Schedule, problem: Problem) -> bool:
    """Whether consumers take turns with tiles of n columns. They were up to 13 % slower with a narrower last part of
    each tile (H200, N = 176), and up to 10 % slower with a narrower last tile of each matrix of a batch (16 ×
    2048×2048×128, 128×192 instead of 128×128). But if the epilogue reads full operands, and B is contiguous along K,
    tiles of 160 and 176 columns gain where they fill the last wave. With them, 33 products of 1024 to 8192 rows with a
    residual, or with the gate of a SwiGLU, run at 0.98 to 1.31 times the speed, mean 1.059 (sustained). Tiles of 96 and
    112 columns run at 0.91 to 0.98 with a K of 1024; those of 168 and 184 columns do not gain."""
    if not stores_by_tma(given, problem):
        return n % _OF_THREADS == 0
    reads_full = OperandKind.full in problem.region_kinds and b_is_nk(problem.layout) and not problem.is_batched
    return n % tiles.NARROWEST == 0 or (reads_full and n in _BESIDE_OPERANDS)


def divided(problem: Problem) -> Shapes:
    """Tiles whose K several CTAs share. If D lies by columns, a few of them cover N. If B is contiguous along N, their
    columns must be whole panels of a swizzle."""
    depth = tiles.DEPTH_BITS // element_type(problem.a).bits
    widths: Sequence[int] = tiles.DIVIDED_COLUMNS
    if problem.d_is_column_major:
        by_k, element = b_is_nk(problem.layout), problem.stream("b").element
        widths = [n for n in tiles.ANY_WIDTH if by_k or panel_swizzle(n, element) is not None]
    of_rows = [each for each in tiles.ROWS if each[1].consumer.turns == 1]
    found = [Shape(rows, n, depth, agents) for rows, agents, most in of_rows for n in widths if n <= most]
    return Shapes(tuple(found), covering=problem.d_is_column_major)


def _of_weights(given: Schedule, kinds: tuple[Agents, ...], problem: Problem, target: Target) -> Shape:
    """A tile with as many columns as D has (the rows of A before the swap), at most 64: each tile converts its weights,
    which are its rows, again. It has two blocks of 64 rows for each consumer, or one if there are few tiles."""
    step, depth = column_step(problem), given.mainloop.k or _depth(problem)
    columns = wgmma_width(given) or min(tiles.NARROWEST, -(-(problem.n or tiles.NARROWEST) // step) * step)
    blocks = [(2, agents) for agents in kinds[:1]] + [(1, agents) for agents in kinds]
    found = [Shape(WGMMA_ROWS * each * agents.consumer.warpgroups, columns, depth, agents) for each, agents in blocks]
    enough = (one for one in found if (problem.tiles(one[:2]) or target.sm_count) >= _MOST_OF * target.sm_count)
    return next(enough, found[-1])


def _depth(problem: Problem) -> int:
    """K of a step."""
    if problem.weights:
        return problem.group or tiles.DEPTH_OF_WEIGHTS
    bits = tiles.DEPTH_BITS if problem.decomposition is None else tiles.DEPTH_BITS_OF_PIECES
    return bits // element_type(problem.a).bits


def _room(agents: Agents, given: Schedule, problem: Problem) -> tuple[float, bool]:
    """The most accumulators of a thread that leave enough registers to the epilogue; and whether the tile may have only
    one block of rows per consumer."""
    most, by_tma = inf, stores_by_tma(given, problem)
    reads_full = OperandKind.full in problem.region_kinds
    if by_tma and reads_full and agents.consumer.turns > 1:  # a thread has few elements of a part at a time
        return _ACCUMULATORS_IN_TURN, False
    if reads_full and not by_tma:
        most = _ACCUMULATORS_BESIDE_COLUMNS if problem.d_is_column_major else _ACCUMULATORS_BESIDE_ROWS
    # The tallest tile of a consumer that takes turns leaves no registers for several functions or for row addresses.
    is_simple = by_tma and not problem.has_math
    if agents.consumer.turns > 1 and not is_simple:
        if _takes_few_registers(problem):
            return _ACCUMULATORS_IN_TURN, False
        # With several functions of a full operand, one warpgroup takes longer than another multiplies (dGELU, H200).
        most = 0 if most < inf and problem.functions > 1 else min(most, _ACCUMULATORS_BESIDE_FUNCTIONS)
    if not problem.has_math or by_tma or problem.lacks_d:  # reductions alone use a value at a time
        return most, False
    is_tight = agents.consumer.all_warpgroups == 1 or results_fill_registers(problem)  # one consumer has no setmaxnreg
    return min(most, _FEW_BESIDE_FUNCTIONS if is_tight else _ACCUMULATORS_BESIDE_FUNCTIONS), True


def _takes_few_registers(problem: Problem) -> bool:
    """Whether an epilogue computes at most one function, of elements and operands of at most 16 bits that are moved
    in whole vectors."""
    fulls = [name for kind, name in zip(problem.kinds, problem.operands, strict=True) if kind is OperandKind.full]
    held = (*(() if problem.lacks_d else problem.stored), *fulls)
    is_narrow = all(element_type(name).bits < REGISTER_BITS for name in held)
    return is_narrow and problem.functions <= 1 and stores_whole_rows(problem)


def _has_width(given: Schedule) -> bool:
    """Whether the given wgmma or permutation fixes N of the tile."""
    return wgmma_width(given) is not None or given.multiply.permutation is not None


def _has_any_width(given: Schedule, problem: Problem) -> bool:
    """Whether any multiple of 8 is a width. Panels of a B that is contiguous along N, and rows of the epilogue's
    scratch, need whole swizzle spans."""
    return b_is_nk(problem.layout) and (stores_by_tma(given, problem) or problem.d_is_column_major)


def _widths(given: Schedule, problem: Problem, narrowest: int) -> tuple[int, Sequence[int]]:
    """N of the CTA tiles to choose among, and the narrowest that is usual; a single one if the given wgmma or
    permutation fixes it. Narrower ones are for a D with so few columns."""
    if width := wgmma_width(given):
        return width, [width]
    if given.multiply.permutation is not None:
        width = size(given.multiply.permutation[1])
        return width, [width]
    any_width = _has_any_width(given, problem)
    if any_width and problem.d_is_column_major:
        return tiles.N_STEP, tiles.ANY_WIDTH
    usual = range(narrowest, 257, tiles.N_STEP if any_width else tiles.NARROWEST)
    return narrowest, [*(width for width in _NARROW if width < narrowest), *usual]
