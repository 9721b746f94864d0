"""The effect of warp-wide instructions on registers, by the formulas of the PTX ISA.

Written from the text of the PTX ISA, not from the thread-value layouts of the passes, so that a wrong layout shows as a
wrong number (test/interpreter/test_hardware.py compares the two). Fragments are arrays (32 lanes, values), with values
in the order of the instruction's registers, low half of a register first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ElementType, element_of_ptx
from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain

Ints = NDArray[np.int64]
Values = NDArray[Any]

_LANE = np.arange(32)[:, None]
_GROUP = _LANE >> 2  # groupID = %laneid >> 2
_IN_GROUP = _LANE % 4  # threadID_in_group = %laneid % 4


@dataclass(frozen=True)
class MmaFragments:
    """The positions of an mma's fragment elements in its matrices: (row, column) arrays (32, values) each.

    A is (M, K); B is (K, N) in the PTX ISA, so `b` holds (k, n); C and D are (M, N). `d` is None if D has the places of
    C. Of several `products`, A, C and D are one below the other, and B side by side.
    """

    shape: tuple[int, int, int]
    a: tuple[Ints, Ints]
    b: tuple[Ints, Ints]
    c: tuple[Ints, Ints]
    d: tuple[Ints, Ints] | None = None
    products: int = 1


def _m16n8(k: int, bits: int) -> MmaFragments:
    """PTX ISA, "Matrix Fragments for mma.m16n8k4", "m16n8k8", "m16n8k16" and "m16n8k32", for each type of operands.

    A register holds `each` values along K. Consecutive lanes of a group hold consecutive registers along K. In A, the
    second register of a lane is 8 rows below the first, and the third is 4 registers further along K than the first.
    """
    each = max(1, 32 // bits)
    i, j = np.arange(k // 2), np.arange(k // 4)
    # a_i: row = groupID, and 8 more if i / each is odd;
    #      col = threadID_in_group * each + i % each, and 4 * each more for each 2 * each of i
    a = _GROUP + 8 * (i // each % 2), _IN_GROUP * each + i % each + 4 * each * (i // (2 * each))
    # b_i: row = threadID_in_group * each + i % each, and 4 * each more for each `each` of i; col = groupID
    b = _IN_GROUP * each + j % each + 4 * each * (j // each), _GROUP + 0 * j
    # c_i: row = groupID for i < 2, groupID + 8 for i >= 2; col = threadID_in_group * 2 + (i & 1)
    i = np.arange(4)
    return MmaFragments((16, 8, k), a, b, (_GROUP + 8 * (i >= 2), _IN_GROUP * 2 + (i & 1)))


def _m8n8(k: int, bits: int) -> MmaFragments:
    """PTX ISA, "Matrix Fragments for mma.m8n8k16", "m8n8k32" and "m8n8k128": a register of A and one of B."""
    each = 32 // bits
    i, j = np.arange(each), np.arange(2)
    # a_i: row = groupID; col = threadID_in_group * each + i.  b_i: the same, transposed
    a = _GROUP + 0 * i, _IN_GROUP * each + i
    return MmaFragments((8, 8, k), a, a[::-1], (_GROUP + 0 * j, _IN_GROUP * 2 + j))


def _m8n8k4_f64() -> MmaFragments:
    """PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type"."""
    i = np.arange(2)
    # a: row = groupID; col = threadID_in_group.  b: row = threadID_in_group; col = groupID
    a, b = (_GROUP, _IN_GROUP), (_IN_GROUP, _GROUP)
    # c_i: row = groupID; col = threadID_in_group * 2 + (i & 1)
    return MmaFragments((8, 8, 4), a, b, (_GROUP + 0 * i, _IN_GROUP * 2 + (i & 1)))


# By shape and bits of the operands.
MMA_FRAGMENTS: Mapping[tuple[tuple[int, int, int], int], MmaFragments] = MappingProxyType(
    {
        ((16, 8, k), bits): _m16n8(k, bits)
        for bits, depths in ((8, (16, 32)), (16, (8, 16)), (32, (4, 8)), (64, (4, 8, 16)))
        for k in depths
    }
    | {((8, 8, 4), 64): _m8n8k4_f64()}
    | {((16, 8, k), bits): _m16n8(k, bits) for bits, depths in ((4, (32, 64)), (1, (128, 256))) for k in depths}
    | {((8, 8, k), bits): _m8n8(k, bits) for k, bits in ((16, 8), (32, 4), (128, 1))}
)


# PTX ISA, "mma.sync": groups of types, by PTX name; any A and B of one group are multiplied.
_PARTNERS = (("f16",), ("bf16",), ("tf32",), ("f64",), ("s8", "u8"), ("e4m3", "e5m2"))


def operands_of_mma(a: str, b: str) -> tuple[ElementType, ElementType]:
    """The rows of A's and B's types, by PTX name. Raises InterpreterError for a pair that is not modelled."""
    if not any({a, b} <= set(partners) for partners in _PARTNERS):
        known = ", ".join(" with ".join(partners) for partners in _PARTNERS)
        raise InterpreterError(f"mma.sync of {a} and {b} is not interpreted; take one of {known} for both [mma-types]")
    return element_of_ptx(a), element_of_ptx(b)


def fragments_of(shape: tuple[int, int, int], bits: int) -> MmaFragments:
    """The fragments of mma.sync of a shape (m, n, k) for operands of this width.

    Raises InterpreterError for a shape that is not modelled.
    """
    if (shape, bits) not in MMA_FRAGMENTS:
        known = ", ".join("m{}n{}k{}".format(*shape) + f" of {bits} bits" for shape, bits in MMA_FRAGMENTS)
        asked = "m{}n{}k{}".format(*shape)
        raise InterpreterError(
            f"mma.sync {asked} of {bits}-bit operands is not interpreted; known are {known} [mma-shapes]"
        )
    return MMA_FRAGMENTS[shape, bits]


def mma(
    fragments: MmaFragments, a: Values, b: Values, c: Values, domain: Domain, operands: tuple[str, str], dtype: str
) -> Values:
    """D = A · B + C by one warp (PTX ISA, "mma"): fragments (32, values) of these types, `dtype` for C and D."""
    (m, n, k), count = fragments.shape, fragments.products
    matrix_a = np.empty((count * m, k), a.dtype)
    matrix_b = np.empty((count * n, k), b.dtype)
    matrix_c = np.empty((count * m, n), c.dtype)
    matrix_a[fragments.a] = a
    matrix_b[fragments.b[::-1]] = b
    matrix_c[fragments.c] = c
    parts = matrix_a.reshape(count, m, k), matrix_b.reshape(count, n, k), matrix_c.reshape(count, m, n)
    return domain.mma(*parts, operands, dtype, k).reshape(count * m, n)[fragments.d or fragments.c]


def wgmma_accumulator(n: int) -> tuple[Ints, Ints]:
    """(row, column) of a warpgroup's accumulators in the 64xN tile: arrays (128 threads, n / 2 values).

    PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", D: row = 16 * (warp % 4) + lane / 4, plus 8 if
    (i / 2) % 2 is 1; col = 8 * (i / 4) + 2 * (lane % 4) + i % 2. Raises InterpreterError for an N that wgmma lacks.
    """
    if n % 8 or not 8 <= n <= 256:
        raise InterpreterError(f"wgmma.m64n{n}k16: N is a multiple of 8 from 8 to 256 [wgmma-n]")
    thread, i = np.arange(128)[:, None], np.arange(n // 2)
    warp, lane = thread // 32, thread % 32
    return 16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2


def wgmma_operand(k: int = 16) -> tuple[Ints, Ints]:
    """(row, column) of A's elements in registers, in the 16 rows of a warp: arrays (32, k / 2 values).

    The places are those of mma.m16n8 with this depth (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk…", A).
    """
    return MMA_FRAGMENTS[(16, 8, k), _ROW_BITS // k].a


_ROW_BITS = 256  # of a row of A in one wgmma


@dataclass(frozen=True)
class MatrixDescriptor:
    """The description of a wgmma operand in shared memory (PTX ISA, "Matrix Descriptor Format"). Offsets in bytes."""

    start: int
    leading: int
    stride: int
    base_offset: int
    span: int

    @classmethod
    def decode(cls, bits: int) -> "MatrixDescriptor":
        """Bits 0–13 start address, 16–29 leading and 32–45 stride byte offset, each / 16; 49–51 base offset; 62–63
        swizzling mode: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        return cls(start, leading, stride, bits >> 49 & 7, (0, 128, 64, 32)[bits >> 62 & 3])

    def addresses(self, rows: Ints, depth: Ints, width: int, k_major: bool) -> Ints:
        """Byte addresses of the elements (row, k) of `width` bytes: array (rows, depth).

        Rows are along M or N (PTX ISA, "Shared Memory Matrix Layout"). With K contiguous, eight rows of a swizzle's
        span (16 bytes without one) are contiguous, and the next eight are `stride` further; without a swizzle the next
        16 bytes along K are `leading` further. With M or N contiguous, eight k are contiguous, with a span of rows
        each.
        """
        unit = self.span or 16
        along, across = (depth * width, rows) if k_major else (rows * width, depth)
        first, second = (self.leading, self.stride) if self.span or k_major else (self.stride, self.leading)
        inner = along // unit * first + along % unit
        outer = across // 8 * second + across % 8 * unit
        plain = inner[None, :] + outer[:, None] if k_major else inner[:, None] + outer[None, :]
        return tma_swizzle(self.start + plain, self.span)


def tma_swizzle(addresses: Ints, span: int) -> Ints:
    """The shared memory addresses that TMA and wgmma use for `addresses`, for rows of `span` bytes (0: the same).

    PTX ISA, "Swizzling modes": of the byte address, bits [4, 7) are xored with bits [7, 10) for 128 bytes, [4, 6) with
    [7, 9) for 64, bit 4 with bit 7 for 32.
    """
    if span not in (0, 32, 64, 128):
        raise InterpreterError(f"a swizzle over {span} bytes; take 32, 64 or 128 [tma-swizzle-span]")
    bits = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}[span]
    return addresses ^ (addresses >> 3 & bits)


def ldmatrix(rows: Values, num: int, trans: bool) -> Values:
    """The values that each lane receives: array (32, num, 2), the low and high half of `num` registers; for elements of
    one byte (32, num, 4), of four bytes (32, num, 1).

    `rows` has the 16 bytes at the address of each lane, array (8 * num, elements): the rows of matrix 0 from lanes 0–7,
    of matrix 1 from lanes 8–15, and so on. For each matrix, lane l receives four bytes from 4 * (l % 4) of row l / 4;
    with `trans`, of the transposed matrix of 16-bit elements. There, an element of 16 bits may hold two of one byte
    (PTX ISA, "ldmatrix").
    """
    if not trans:
        return rows.reshape(num, 32, -1).swapaxes(0, 1)
    return rows.reshape(num, 8, 8, -1).swapaxes(1, 2).reshape(num, 32, -1).swapaxes(0, 1)


def stmatrix(registers: Values, num: int, trans: bool) -> Values:
    """The rows that are written: array (8 * num, elements), row r of matrix j at the address that lane 8 * j + r gives.

    `registers`: array (32, num, 2), the low and high half of each lane's `num` registers; for elements of one byte
    (32, num, 4), of four bytes (32, num, 1). For each matrix, lane l holds elements 2 * (l % 4) and 2 * (l % 4) + 1 of
    row l / 4; with `trans`, of the transposed matrix of 16-bit elements (PTX ISA, "stmatrix").
    """
    matrices = registers.swapaxes(0, 1)
    if trans:
        matrices = matrices.reshape(num, 8, 8, -1).swapaxes(1, 2)
    return matrices.reshape(8 * num, -1)
