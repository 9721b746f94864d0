"""Packed weights in the threads of a tiled mma: the bytes of a stage that each thread loads, and the weights in them.

The bytes (docs/weights.md) have the order of the fragments: four threads share a row, and in a block of 32 along K each
of them finds the weights of two atoms in 8 consecutive bytes. Two weights of 4 bits in a byte are eight rows apart.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, flatten, mode

from lowtide import targets
from lowtide.elements import WEIGHT_BLOCK, WEIGHT_ROWS
from lowtide.errors import ScheduleError
from lowtide.targets import TiledMma, WarpAccess
from lowtide.targets.atoms import Operand
from lowtide.targets.tv import coordinates, offsets

WEIGHT_LOAD = "ld.shared.8"
# The place of k in its block: neighbours, the threads of a row, the halves of an atom, two atoms.
_PLACES = Layout((2, 4, 2, 2), (2, 8, 1, 4))
_DEPTH = 16  # of the atom for whose fragments the order is made
_THREAD_BYTES = 8
_HALF = WEIGHT_ROWS // 2  # rows between the two weights of a byte


def packed_tv(tiled: TiledMma, operand: Operand, rows: int, per_byte: int, depth: int = WEIGHT_BLOCK) -> Layout:
    """The bytes that each thread holds of a tile of (rows / per_byte, depth) bytes: `rows` rows of A or B, and `depth`
    elements of K in whole blocks.

    Raises ScheduleError if a thread does not hold both rows of a byte.
    """
    tv, held = tiled.tv(operand, (rows, _DEPTH)), rows // per_byte
    threads, values = (_modes(mode(tv, part)) for part in (0, 1))
    # Rows are rows of bytes. The threads of a row, which are two elements of K apart, are 8 bytes apart.
    thread = [(n, _row(s, per_byte) if s < rows else s // rows * (_THREAD_BYTES // 2) * held) for n, s in threads]
    of_rows = [(n, s) for n, s in values if s < rows]
    if per_byte > 1:
        if not of_rows or any(s == _HALF for _, s in threads) or of_rows[0][1] != _HALF:
            raise ScheduleError(
                f"operand {operand}: rows {_HALF} apart share bytes of packed weights, and the tiled mma gives them to "
                f"other warps; take a permutation of N such as #tile.layout<(8,{tiled.atom_layout[1]},2):(1,16,8)>"
                " [weight-rows]"
            )
        count = of_rows[0][0] // 2
        of_rows = [*([(count, WEIGHT_ROWS)] if count > 1 else []), *of_rows[1:]]
    value = [(_THREAD_BYTES, held), *((n, _row(s, per_byte)) for n, s in of_rows)]
    if depth > WEIGHT_BLOCK:
        value.append((depth // WEIGHT_BLOCK, WEIGHT_BLOCK * held))
    return Layout(_layout(thread), _layout(value))


def weight_access(tiled: TiledMma, operand: Operand, rows: int, per_byte: int, depth: int) -> WarpAccess:
    """The loads of the bytes of `depth` of K from shared memory."""
    tv, shape = packed_tv(tiled, operand, rows, per_byte, depth), (rows // per_byte, depth)
    return targets.loads_access(targets.fragment_loads(tv, shape, False, _THREAD_BYTES), WEIGHT_LOAD)


def held_at(
    packed: Layout, packed_shape: tuple[int, int], wanted: NDArray[np.int64], offset: int, per_byte: int
) -> NDArray[np.int64]:
    """The place of each weight in its thread: the index among the thread's bytes, and which weight of the byte,
    (values, 2). `wanted` (threads, values, 2): rows and k, from `offset` on.

    Raises ScheduleError if a place differs between threads, or another thread holds the weight.
    """
    rows, ks = wanted[..., 0], wanted[..., 1] + offset
    columns = ks // WEIGHT_BLOCK * WEIGHT_BLOCK + offsets(_PLACES, ks % WEIGHT_BLOCK)
    row = rows if per_byte == 1 else rows // WEIGHT_ROWS * _HALF + rows % _HALF
    which = np.zeros_like(rows) if per_byte == 1 else rows // _HALF % 2
    held = coordinates(packed, packed_shape)
    index = {tuple(each): value for value, each in enumerate(held[0].tolist())}
    found = [index.get(each, -1) for each in zip(row[0].tolist(), columns[0].tolist(), strict=True)]
    same = np.array_equal(held[:, found], np.stack([row, columns], axis=-1)) and np.array_equal(
        which, which[:1] + 0 * which
    )
    if -1 in found or not same:
        raise ScheduleError("a thread does not hold the weights that it makes its fragment of [weights-held]")
    return np.stack([np.array(found), which[0]], axis=-1)


def _row(stride: int, per_byte: int) -> int:
    """Rows of bytes between rows of weights: within eight as many, from sixteen to sixteen half as many."""
    return stride if stride < WEIGHT_ROWS or per_byte == 1 else stride // per_byte


def _modes(layout: Layout) -> list[tuple[int, int]]:
    flat = flatten(layout)
    pairs = [(flat.shape, flat.stride)] if isinstance(flat.shape, int) else zip(flat.shape, flat.stride, strict=True)
    return [(extent, stride) for extent, stride in pairs if extent > 1]


def _layout(modes: list[tuple[int, int]]) -> Layout:
    if not modes:
        return Layout(1, 0)
    assert prod(extent for extent, _ in modes)
    return Layout(tuple(extent for extent, _ in modes), tuple(stride for _, stride in modes))
