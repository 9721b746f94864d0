"""Integer and index code at the insertion point: one builder for all passes, which folds constants.

Operations are named as LLVM names them: `u` is unsigned, `s` signed; the others are the same for both. An operand
may be a Python int, which becomes a constant of the other operand's type (of the builder's own type where both are).

Integers are multiplied and divided by powers of two with shifts and masks, as LLVM would do. Index code keeps the
factor, which later passes read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith

from lowtide.passes.support.ir import folding

Scalar: TypeAlias = ir.Value | int


def constant_of(value: ir.Value) -> int | None:
    """The value of an integer or index constant; None for anything else."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, arith.ConstantOp):
        return None
    return int(ir.IntegerAttr(owner.opview.value).value)


def is_multiple(value: ir.Value, of: int) -> bool:
    """Whether index code is known to give a multiple of a number: constants, products and minima of such."""
    known, owner = constant_of(value), value.owner
    if known is not None or isinstance(owner, ir.Block):
        return known is not None and known % of == 0
    inner = [is_multiple(operand, of) for operand in owner.operands]
    if isinstance(owner.opview, (arith.MinSIOp, arith.MinUIOp)):
        return all(inner)
    return isinstance(owner.opview, arith.MulIOp) and any(inner)


@dataclass
class Builder:
    """Makes integer code of a type, i32, i64 or index.

    Constants stand where they are used or, if `constants_in` names a block, once each at that block's start.
    """

    type: ir.Type
    constants_in: ir.Block | None = None
    _constants: dict[tuple[str, int], ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.i1, self.i8, self.i32, self.i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 8, 32, 64))

    @classmethod
    def index(cls) -> "Builder":
        """A builder of index code, whose constants stand where they are used."""
        return cls(ir.IndexType.get())

    def constant(self, value: int, type_: ir.Type | None = None) -> ir.Value:
        type_ = type_ or self.type
        value = folding.wrapped(value, type_, signed=True)
        if self.constants_in is None:
            return arith.constant(type_, value)
        key = (str(type_), value)
        if key not in self._constants:
            with ir.InsertionPoint.at_block_begin(self.constants_in):
                self._constants[key] = arith.constant(type_, value)
        return self._constants[key]

    def add(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.ADD, x, y)

    def sub(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.SUB, x, y)

    def mul(self, x: Scalar, y: Scalar) -> ir.Value:
        shift = self._log2(x, y)
        return self._binary(folding.MUL, x, y) if shift is None else self.shl(x, shift)

    def udiv(self, x: Scalar, y: Scalar) -> ir.Value:
        shift = self._log2(x, y)
        return self._binary(folding.UDIV, x, y) if shift is None else self.lshr(x, shift)

    def sdiv(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.SDIV, x, y)

    def urem(self, x: Scalar, y: Scalar) -> ir.Value:
        shift = self._log2(x, y)
        return self._binary(folding.UREM, x, y) if shift is None else self.and_(x, (1 << shift) - 1)

    def ceil_udiv(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.CEIL_UDIV, x, y)

    def ceil_sdiv(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.CEIL_SDIV, x, y)

    def umin(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.UMIN, x, y)

    def smin(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.SMIN, x, y)

    def umax(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.UMAX, x, y)

    def smax(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.SMAX, x, y)

    def and_(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.AND, x, y)

    def or_(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.OR, x, y)

    def xor(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.XOR, x, y)

    def shl(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._binary(folding.SHL, x, y)

    def lshr(self, x: Scalar, y: Scalar) -> ir.Value:
        """x shifted right, zeros shifted in."""
        return self._binary(folding.LSHR, x, y)

    def eq(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._compare(arith.CmpIPredicate.eq, x, y)

    def ne(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._compare(arith.CmpIPredicate.ne, x, y)

    def ult(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._compare(arith.CmpIPredicate.ult, x, y)

    def ule(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._compare(arith.CmpIPredicate.ule, x, y)

    def slt(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._compare(arith.CmpIPredicate.slt, x, y)

    def sle(self, x: Scalar, y: Scalar) -> ir.Value:
        return self._compare(arith.CmpIPredicate.sle, x, y)

    def select(self, condition: ir.Value, x: Scalar, y: Scalar) -> ir.Value:
        known = constant_of(condition)
        type_ = self._common_type(x, y)
        if known is not None or x == y:
            return self._value(y if known == 0 else x, type_)
        return arith.select(condition, self._value(x, type_), self._value(y, type_))

    def zext(self, x: Scalar, type_: ir.Type) -> ir.Value:
        """x as a wider integer, taken as unsigned."""
        return self._cast(arith.extui, x, type_, signed=False)

    def sext(self, x: Scalar, type_: ir.Type) -> ir.Value:
        """x as a wider integer, taken as signed."""
        return self._cast(arith.extsi, x, type_, signed=True)

    def trunc(self, x: Scalar, type_: ir.Type) -> ir.Value:
        """The low bits of x."""
        return self._cast(arith.trunci, x, type_, signed=True)

    def index_cast(self, x: Scalar, type_: ir.Type) -> ir.Value:
        """An index as an integer, or an integer as an index, taken as signed."""
        return self._cast(arith.index_cast, x, type_, signed=True)

    def _value(self, x: Scalar, type_: ir.Type) -> ir.Value:
        return self.constant(x, type_) if isinstance(x, int) else x

    def _common_type(self, x: Scalar, y: Scalar) -> ir.Type:
        given = next((operand for operand in (x, y) if isinstance(operand, ir.Value)), None)
        return self.type if given is None else given.type

    def _log2(self, x: Scalar, y: Scalar) -> int | None:
        """The exponent of y if it is a known power of two and x an integer, not an index; else None."""
        known = _known(y)
        if known is None or known <= 0 or known & (known - 1):
            return None
        return None if isinstance(self._common_type(x, y), ir.IndexType) else known.bit_length() - 1

    def _binary(self, kind: folding.Binary, x: Scalar, y: Scalar) -> ir.Value:
        type_ = self._common_type(x, y)
        known_x, known_y = _known(x), _known(y)
        if kind.commutes and known_x is not None and known_y is None:
            x, y, known_x, known_y = y, x, known_y, known_x
        if known_y is not None:
            if known_x is not None:
                operands = (folding.wrapped(known, type_, signed=kind.signed) for known in (known_x, known_y))
                result = kind.evaluate(*operands)
                if result is not None:
                    return self.constant(result, type_)
            signed_y = folding.wrapped(known_y, type_, signed=True)
            if signed_y == kind.neutral:
                return self._value(x, type_)
            if signed_y == kind.absorbing:
                return self.constant(signed_y, type_)
        return kind.op(self._value(x, type_), self._value(y, type_)).result

    def _compare(self, predicate: arith.CmpIPredicate, x: Scalar, y: Scalar) -> ir.Value:
        type_ = self._common_type(x, y)
        known_x, known_y = _known(x), _known(y)
        if known_x is not None and known_y is not None:
            signed = predicate in folding.SIGNED_PREDICATES
            operands = (folding.wrapped(known, type_, signed=signed) for known in (known_x, known_y))
            return self.constant(int(folding.PREDICATES[predicate](*operands)), self.i1)
        return arith.cmpi(predicate, self._value(x, type_), self._value(y, type_))

    def _cast(self, cast: Callable[..., ir.Value], x: Scalar, type_: ir.Type, *, signed: bool) -> ir.Value:
        known = _known(x)
        if known is not None:
            own = self.type if isinstance(x, int) else x.type
            return self.constant(folding.wrapped(known, own, signed=signed), type_)
        return cast(type_, x)


def _known(x: Scalar) -> int | None:
    return x if isinstance(x, int) else constant_of(x)
