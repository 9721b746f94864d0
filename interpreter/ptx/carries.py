"""Arithmetic with a carry (PTX ISA, "Extended-Precision Arithmetic Instructions").

The condition code CC.CF is a predicate register that the parser adds to these instructions: as a second result with
.cc, and as the last source of addc, subc and madc.
"""

from collections.abc import Callable
from typing import Any

from lowtide.interpreter.ptx.lanewise import each_lane
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Extended-Precision Arithmetic Instructions"
_TYPES = "u32 s32 b32 u64 s64"


def _form(form: Form, function: Callable[..., int]) -> Callable[..., Any]:
    """An instruction whose exact result is a function of its unsigned sources; bit `bits` of it is the carry."""
    bits, has_carry = form.bits, form.row.name.endswith(".cc")

    def wrapped(value: int) -> Any:
        low = value & (1 << bits) - 1
        return (low, bool(value >> bits & 1)) if has_carry else low

    outs = (bits, 1) if has_carry else (bits,)
    return each_lane(form, lambda *values: wrapped(function(*values)), function, outs=outs)


@TABLE.values("add.cc", types=_TYPES, section=f"{_SECTION}: add.cc")
def add(form: Form) -> Callable[..., Any]:
    return _form(form, lambda x, y: x + y)


@TABLE.values("addc", "addc.cc", types=_TYPES, section=f"{_SECTION}: addc")
def addc(form: Form) -> Callable[..., Any]:
    return _form(form, lambda x, y, carry: x + y + carry)


@TABLE.values("sub.cc", types=_TYPES, section=f"{_SECTION}: sub.cc")
def sub(form: Form) -> Callable[..., Any]:
    """The carry is a borrow."""
    return _form(form, lambda x, y: x - y)


@TABLE.values("subc", "subc.cc", types=_TYPES, section=f"{_SECTION}: subc")
def subc(form: Form) -> Callable[..., Any]:
    return _form(form, lambda x, y, borrow: x - y - borrow)


def _product(form: Form, x: int, y: int) -> int:
    """The low or high half of the product, unsigned."""
    bits, mask = form.bits, (1 << form.bits) - 1
    if form.type[0] == "s":
        x, y = (value - (value >> bits - 1 << bits) for value in (x, y))
    return (x * y >> bits if ".hi" in form.row.name else x * y) & mask


@TABLE.values("mad.lo.cc", "mad.hi.cc", types=_TYPES, section=f"{_SECTION}: mad.cc")
def mad(form: Form) -> Callable[..., Any]:
    return _form(form, lambda x, y, z: _product(form, x, y) + z)


@TABLE.values("madc.lo", "madc.hi", "madc.lo.cc", "madc.hi.cc", types=_TYPES, section=f"{_SECTION}: madc")
def madc(form: Form) -> Callable[..., Any]:
    return _form(form, lambda x, y, z, carry: _product(form, x, y) + z + carry)
