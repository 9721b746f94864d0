"""Packed weights become fragments of 16-bit floats, by arithmetic on words of four bytes.

A float of precision p holds every integer below 2^p, and those from 2^(p-1) on have the integer in their last bits. So
an unsigned field x of fewer bits, put into the word of 2^(p-1), is the float 2^(p-1) + x, and one subtraction gives x
less any offset, exactly. Two fields 16 bits apart make two floats at once. Of a field of p bits the lower p - 1 are put
there, and 2^(p-1) or 2^p is subtracted as the highest bit says, which stands where the exponent tells these two apart.

Floats of fewer bits have the same form with a shorter exponent and a shorter significand. With their sign in the
highest bit, and the other bits where the target has the end of its exponent and the start of its significand, they are
too small by the difference of the biases: one product with a power of two, which is exact, mends that of normal and
subnormal numbers alike.
"""

import numpy as np
from mlir import ir
from mlir.dialects import arith, llvm

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.elements import ElementType, element_of_ir
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import Fragment, element_of, regroup, vector_type
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.streams.weights import held_at
from lowtide.targets import coordinates

_WORD_BYTES = 4


def lower_unpack_weights(context: Context, op: sm.UnpackWeightsOp) -> None:
    """Each pair of neighbours along K, from two bytes of a word that lie two apart."""
    packed, result = context.fragment(op.packed), op.result.type
    weights, target = element_of_ir(op.weights.value), element_of_ir(result.element_type)
    assert weights is not None and target is not None
    wanted = coordinates(tv_of(result.tv), result.shape)
    try:
        places = held_at(tv_of(packed.type.tv), tuple(packed.type.shape), wanted, int(op.offset), weights.per_byte)
    except ScheduleError as error:
        raise Refusal(op, str(error)) from error
    pairs = places.reshape(-1, 2, 2)  # (pairs, neighbours, byte and which of its weights)
    if np.any(pairs[:, 1, 0] != pairs[:, 0, 0] + 2) or np.any(pairs[:, 1, 1] != pairs[:, 0, 1]):
        raise Refusal(op, "a thread does not hold neighbours along K two bytes apart [weight-neighbours]")
    words = _Words(context, regroup(packed, _WORD_BYTES))
    convert = (_Floats if weights.is_float else _Integers)(context.build, weights, target)
    zeros = None
    if op.zeros is not None:
        assert isinstance(convert, _Integers)  # the op's verifier says so
        zeros = _ZeroPoints(context, op, convert, wanted[0, ::2, 0].tolist())
    registers = []
    for number, ((byte, which), _) in enumerate(pairs.tolist()):
        shift = byte % _WORD_BYTES * 8 + which * weights.bits
        fields = convert.fields(words.of(byte // _WORD_BYTES), shift)
        registers.append(convert.weights_of(fields) if zeros is None else convert.less(fields, zeros.of(number)))
    context.values[op.result] = Fragment(tuple(registers), 2, result)


class _Words:
    """The words of a fragment of bytes, each made once."""

    def __init__(self, context: Context, fragment: Fragment) -> None:
        self.context, self.fragment = context, fragment
        self.made: dict[int, ir.Value] = {}

    def of(self, number: int) -> ir.Value:
        if number not in self.made:
            self.made[number] = llvm.BitcastOp(self.context.build.i32, self.fragment.registers[number]).result
        return self.made[number]


class _ZeroPoints:
    """The zero points of the rows of a thread's pairs, as pairs of floats, each made once."""

    def __init__(self, context: Context, op: sm.UnpackWeightsOp, convert: "_Integers", rows: list[int]) -> None:
        self.held, self.convert, self.build, self.rows = context.fragment(op.zeros), convert, context.build, rows
        all_held, wanted = (coordinates(tv_of(x.tv), x.shape) for x in (op.zeros.type, op.result.type))
        first = {row: value for value, row in reversed(list(enumerate(all_held[0, :, 0].tolist())))}
        self.values = [first.get(row, -1) for row in rows]
        if -1 in self.values or not np.array_equal(all_held[:, self.values, 0], wanted[:, ::2, 0]):
            raise Refusal(
                op,
                "a thread does not hold the zero points of the rows that it makes its fragment of [zero-points-held]",
            )
        self.made: dict[int, ir.Value] = {}

    def of(self, number: int) -> ir.Value:
        """That of a pair, as `_Integers.fields` makes it."""
        value = self.values[number]
        if value not in self.made:
            byte = element_of(self.held.registers[value // self.held.width], value % self.held.width)
            word = self.build.zext(byte, self.build.i32)
            if self.convert.offset:  # as the packed weights lie: larger than they are
                word = self.build.add(word, self.convert.offset)
            low = self.build.and_(word, (1 << self.convert.weights.bits) - 1)
            self.made[value] = self.convert.fields(self.build.or_(low, self.build.shl(low, 16)), 0)
        return self.made[value]


class _Conversion:
    """Makes pairs of floats of two fields of a word, 16 bits apart."""

    def __init__(self, build: Builder, weights: ElementType, target: ElementType) -> None:
        self.build, self.weights, self.target = build, weights, target
        self.type = vector_type(2, ir.Type.parse(target.ir))

    def less(self, values: ir.Value, others: ir.Value) -> ir.Value:
        """values - others, which is exact."""
        return self._fma(others, self._constant(-1.0), values)

    def _fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z of pairs, which every target with these types has (PTX ISA, "fma" of .f16x2 and .bf16x2)."""
        return llvm.CallIntrinsicOp(self.type, f"llvm.fma.v2{self.type.element_type}", [x, y, z], [], []).result

    def _constant(self, value: float) -> ir.Value:
        number = ir.FloatAttr.get(self.type.element_type, float(value))
        return arith.constant(self.type, ir.DenseElementsAttr.get_splat(self.type, number))


class _Floats(_Conversion):
    """Of fields that are floats."""

    def fields(self, word: ir.Value, shift: int) -> ir.Value:
        """Two fields as floats that are smaller by the difference of the biases."""
        significand, sign = self.target.precision - self.weights.precision, 1 << (self.target.bits - 1)
        rest = ((1 << (self.weights.bits - 1)) - 1) << significand
        value = self.build.and_(self._moved(word, significand - shift), _both(rest))
        signs = self.build.and_(self._moved(word, self.target.bits - self.weights.bits - shift), _both(sign))
        return llvm.BitcastOp(self.type, self.build.or_(value, signs)).result

    def weights_of(self, fields: ir.Value) -> ir.Value:
        scale = 2.0 ** (self.weights.min_exponent - self.target.min_exponent)
        return self._fma(fields, self._constant(scale), self._constant(0.0))

    def _moved(self, word: ir.Value, places: int) -> ir.Value:
        """To higher bits; what crosses the middle is masked out."""
        return self.build.shl(word, places) if places > 0 else self.build.lshr(word, -places) if places else word


class _Integers(_Conversion):
    """Of fields that are unsigned integers."""

    def __init__(self, build: Builder, weights: ElementType, target: ElementType) -> None:
        super().__init__(build, weights, target)
        self.base = 2 ** (target.precision - 1)
        self.is_whole = weights.bits < target.precision  # a field fits behind the exponent
        # The bits of the float `base`, whose last ones, one fewer than its precision, are zero.
        self.magic = (target.precision - 1 - target.min_exponent + 1) << (target.precision - 1)
        self.offset = -int(weights.lowest)  # what the packed weights are larger by

    def fields(self, word: ir.Value, shift: int) -> ir.Value:
        """Two fields as floats that are larger, or less, by a number that is the same for all fields (`more`)."""
        bits = self.weights.bits
        if shift:
            word = self.build.lshr(word, shift)
        if self.is_whole:
            return self._floats(word, (1 << bits) - 1)
        # The highest bit set means less 2^(p-1), and clear less 2^p: inverted it stands in the exponent.
        sign = self._floats(word, 1 << (bits - 1), inverted=True)
        return self.less(self._floats(word, (1 << (bits - 1)) - 1), sign)  # the field less 2^(bits-1)

    @property
    def more(self) -> int:
        """How much larger `fields` are than the weights."""
        return self.offset + (self.base if self.is_whole else -(1 << (self.weights.bits - 1)))

    def weights_of(self, fields: ir.Value) -> ir.Value:
        return self._fma(fields, self._constant(1.0), self._constant(-self.more)) if self.more else fields

    def _floats(self, word: ir.Value, mask: int, *, inverted: bool = False) -> ir.Value:
        """The bits of a mask, in both halves, put into the float `base`."""
        put = sm.PtxMaskOrOp(word, _both(mask), _both(self.magic), inverted=inverted or None).result
        return llvm.BitcastOp(self.type, put).result


def _both(field: int) -> int:
    """The field in both halves of a word, as a signed number."""
    word = field << 16 | field
    return word - (1 << 32) if word >> 31 else word
