"""The instructions that `probe_tensor_cores.py` runs, and families of operands, chosen by the bits of their fields."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]

WARPS = 64  # each with its own product; a wgmma takes four


@dataclass(frozen=True)
class Format:
    """A float format by the bits of its fields; `padding` low bits are ignored."""

    bits: int
    exponent: int
    mantissa: int
    padding: int = 0
    has_infinity: bool = True

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def largest(self) -> int:
        """The largest exponent field of finite numbers with any mantissa."""
        return (1 << self.exponent) - 2

    @property
    def word(self) -> Any:
        """numpy's integer type for the bits."""
        return {8: np.uint8, 16: np.uint16, 32: np.uint32}[self.bits]

    def make(self, sign: Bits, exponent: Bits, mantissa: Bits) -> Bits:
        """Numbers made from their fields."""
        fields = sign.astype(np.uint32) << (self.exponent + self.mantissa)
        fields |= np.clip(exponent, 0, self.largest).astype(np.uint32) << self.mantissa
        return ((fields | mantissa.astype(np.uint32)) << self.padding).astype(self.word)


FORMATS = {
    "f16": Format(16, 5, 10),
    "bf16": Format(16, 8, 7),
    "tf32": Format(32, 8, 10, 13),
    "e4m3": Format(8, 4, 3, has_infinity=False),
    "e5m2": Format(8, 5, 2),
    "f32": Format(32, 8, 23),
}


@dataclass(frozen=True)
class Instruction:
    """mma.sync or wgmma of a shape, with the types of A, B and the accumulators."""

    unit: str
    shape: tuple[int, int, int]
    a: str
    b: str
    accumulator: str

    @property
    def name(self) -> str:
        return f"{self.unit} m{self.shape[0]}n{self.shape[1]}k{self.shape[2]} {self.a} {self.b} {self.accumulator}"

    @property
    def file(self) -> str:
        """The file for its results."""
        return f"{self.name.replace(' ', '_')}.npz"

    @property
    def count(self) -> int:
        """The number of instructions in a launch."""
        return WARPS if self.unit == "mma" else WARPS // 4


def _instructions() -> list[Instruction]:
    found = []
    for a, accumulator, ks in (
        ("f16", "f32", (8, 16)),
        ("f16", "f16", (8, 16)),
        ("bf16", "f32", (8, 16)),
        ("tf32", "f32", (4, 8)),
        ("e4m3", "f32", (32,)),
        ("e5m2", "f32", (32,)),
    ):
        found += [Instruction("mma", (16, 8, k), a, a, accumulator) for k in ks]
        found.append(Instruction("wgmma", (64, 8, ks[-1]), a, a, accumulator))
    found.append(Instruction("mma", (16, 8, 32), "e4m3", "e5m2", "f32"))
    found.append(Instruction("wgmma", (64, 8, 32), "e4m3", "e5m2", "f32"))
    found += [Instruction("wgmma", (64, 8, 32), a, a, "f16") for a in ("e4m3", "e5m2")]
    return found


INSTRUCTIONS = _instructions()

# Operands -------------------------------------------------------------------------------------------------------------

Operands = tuple[Bits, Bits, Bits]
"""A (instructions, M, K), B (instructions, N, K), C (instructions, M, N), as bits."""


@dataclass(frozen=True)
class Draw:
    """Draws operands of an instruction: exponents of A and B in a window, those of C near their products'."""

    instruction: Instruction
    rng: np.random.Generator

    def matrix(self, dtype: str, shape: tuple[int, ...], low: int, high: int) -> Bits:
        """Random signs and mantissas, exponents from low to high (unbiased)."""
        row, rng = FORMATS[dtype], self.rng
        sign, mantissa = rng.integers(0, 2, shape), rng.integers(0, 1 << row.mantissa, shape)
        return row.make(sign, rng.integers(low, high + 1, shape) + row.bias, mantissa)

    def operands(self, window: tuple[int, int], c: tuple[int, int]) -> Operands:
        m, n, k = self.instruction.shape
        count = self.instruction.count
        return (
            self.matrix(self.instruction.a, (count, m, k), *window),
            self.matrix(self.instruction.b, (count, n, k), *window),
            self.matrix(self.instruction.accumulator, (count, m, n), *c),
        )


def _half(instruction: Instruction) -> int:
    """An exponent for which products of squares are well inside the range of the operands."""
    bias = min(FORMATS[instruction.a].bias, FORMATS[instruction.b].bias)
    return min(bias - 2, 10)


def near(draw: Draw) -> Operands:
    return draw.operands((-3, 0), (-6, 3))


def wide(draw: Draw) -> Operands:
    half = _half(draw.instruction)
    limit = 13 if draw.instruction.accumulator == "f16" else 2 * half
    return draw.operands((-half, min(half, 3)), (-limit, min(limit, 8)))


def sparse(draw: Draw) -> Operands:
    a, b, c = wide(draw)
    a[draw.rng.random(a.shape) < 0.75] = 0
    c[draw.rng.random(c.shape) < 0.3] = 0
    return a, b, c


def cancelling(draw: Draw) -> Operands:
    a, b, c = wide(draw)
    row, rng = FORMATS[draw.instruction.b], draw.rng
    a[:, :, 1::2] = a[:, :, ::2]
    negative = b[:, :, ::2] ^ row.word(1 << (row.bits - 1))
    b[:, :, 1::2] = np.where(rng.random(negative.shape) < 0.2, negative ^ row.word(1 << row.padding), negative)
    order = rng.permutation(a.shape[2])
    c[rng.random(c.shape) < 0.3] = 0
    return np.ascontiguousarray(a[:, :, order]), np.ascontiguousarray(b[:, :, order]), c


def small_terms(draw: Draw) -> Operands:
    """C far above the products."""
    top = 12 if draw.instruction.accumulator == "f16" else 20
    return draw.operands((-3, 0), (0, top))


def large_terms(draw: Draw) -> Operands:
    """C far below the products."""
    low = -14 if draw.instruction.accumulator == "f16" else -30
    return draw.operands((-1, 1), (low, -2))


def subnormal(draw: Draw) -> Operands:
    """Subnormal operands; for types with f32's exponents, also products and sums below its normal numbers."""
    m, n, k = draw.instruction.shape
    count, a, b, c = draw.instruction.count, draw.instruction.a, draw.instruction.b, draw.instruction.accumulator
    low = -FORMATS[a].bias
    both = FORMATS[a].exponent == 8
    left = draw.matrix(a, (count, m, k), low, low + 3)
    right = draw.matrix(b, (count, n, k), -6, 3) if both else draw.matrix(b, (count, n, k), low, low + 5)
    bottom = -FORMATS[c].bias if both or c == "f16" else 2 * low - 6
    return left, right, draw.matrix(c, (count, m, n), bottom, bottom + 8)


def overflowing(draw: Draw) -> Operands:
    """Sums near the largest number of the accumulators, or of the operands."""
    a, c = FORMATS[draw.instruction.a], FORMATS[draw.instruction.accumulator]
    high = min(c.bias // 2, a.largest - a.bias)
    top = min(c.bias, 2 * high + 2)
    return draw.operands((high - 2, high), (top - 5, top))


def special(draw: Draw) -> Operands:
    """Zeros of both signs, infinities and NaN among others."""
    a, b, c = near(draw)
    for values, dtype in ((a, draw.instruction.a), (b, draw.instruction.b), (c, draw.instruction.accumulator)):
        row, rng = FORMATS[dtype], draw.rng
        top = ((1 << row.exponent) - 1) << (row.mantissa + row.padding)
        odd = rng.random(values.shape)
        values[odd < 0.01] = row.word(top | ((1 << row.mantissa) - 1 << row.padding))  # NaN
        signs = rng.integers(0, 2, values.shape).astype(row.word) << row.word(row.bits - 1)
        if row.has_infinity:
            values[(odd > 0.1) & (odd < 0.12)] = row.word(top)
            values[(odd > 0.1) & (odd < 0.12)] |= signs[(odd > 0.1) & (odd < 0.12)]
        values[odd > 0.7] = signs[odd > 0.7]
    return a, b, c


def untrimmed(draw: Draw) -> Operands:
    """Bits below those of tf32."""
    a, b, c = near(draw)
    for values in (a, b):
        if values.dtype == np.uint32:
            values |= draw.rng.integers(0, 1 << 13, values.shape).astype(np.uint32)
    return a, b, c


FAMILIES: dict[str, Callable[[Draw], Operands]] = {
    each.__name__: each
    for each in (
        near, wide, sparse, cancelling, small_terms, large_terms, subnormal, overflowing, special, untrimmed,
    )
}  # fmt: skip


def operands_of(instruction: Instruction, family: str) -> Operands:
    """The operands of a family, equal on every machine."""
    seed = zlib.crc32(f"{instruction.name} {family}".encode())
    return FAMILIES[family](Draw(instruction, np.random.default_rng(seed)))


def values_of(bits: Bits, dtype: str) -> NDArray[np.float64]:
    """Numbers from their bits, including padding."""
    row = FORMATS[dtype]
    mantissa_bits = row.mantissa + row.padding
    fields = bits.astype(np.int64)
    exponent, mantissa = fields >> mantissa_bits & ((1 << row.exponent) - 1), fields & ((1 << mantissa_bits) - 1)
    normal = np.where(exponent == 0, mantissa, mantissa + (1 << mantissa_bits)).astype(np.float64)
    values = np.ldexp(normal, np.maximum(exponent, 1) - row.bias - mantissa_bits)
    top = exponent == (1 << row.exponent) - 1
    if row.has_infinity:
        values = np.where(top, np.where(mantissa == 0, np.inf, np.nan), values)
    else:
        values = np.where(top & (mantissa == (1 << mantissa_bits) - 1), np.nan, values)
    return np.where(fields >> (row.bits - 1), -values, values)
