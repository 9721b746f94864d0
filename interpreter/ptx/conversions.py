"""Conversions between numbers (PTX ISA, "Data Movement and Conversion Instructions: cvt, cvt.pack")."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.elements import element_of_ptx
from lowtide.interpreter.numbers import registers, storage
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed, narrowed_pair
from lowtide.interpreter.numbers.registers import SIGNED, Number, number, numbers_of, raw
from lowtide.interpreter.ptx.floats import NUMBERS_TOGETHER, OfNumbers
from lowtide.interpreter.ptx.lanewise import each_lane
from lowtide.interpreter.ptx.rounding import DIRECTED, LARGEST, flushed, rectified, rounded_to, saturated
from lowtide.interpreter.ptx.syntax import Register
from lowtide.interpreter.ptx.table import Form, Table, bits_of

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"
_NUMBERS = "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 tf32 f32 f64 f16x2 bf16x2 e4m3x2 e5m2x2"
# Rounding to an integer, as a function of the domain.
_TO_INTEGRAL: Mapping[str, str] = MappingProxyType({"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"})
_WORDS = " ".join(("rn", "rna", *DIRECTED, *_TO_INTEGRAL, "ftz", "sat", "relu", "satfinite"))


@TABLE.values("cvt", types=_NUMBERS, words=_WORDS, section=f"{_SECTION}: cvt", bulk=NUMBERS_TOGETHER)
def cvt(form: Form) -> Callable[..., Any]:
    """By kind of source and destination, integer or float; or to two floats from two of 32 bits, or from two others."""
    target, source = form.types
    kinds = "f" in source, "f" in target
    if target.endswith("x2"):
        return _two(form, target[:-2], source)
    makers = {(False, False): _between_integers, (False, True): _to_float, (True, False): _to_integer}
    return makers.get(kinds, _between_floats)(form, target, source)


def _mode(form: Form) -> str:
    return next((word for word in DIRECTED if word in form.words), "rn")


def _after(form: Form, dtype: str) -> Callable[[Any], Any]:
    """What the modifiers do to a result that is a float of a type."""
    steps = [flushed(form.domain, dtype)] if "ftz" in form.words and dtype == "f32" else []
    steps += [saturated(form.domain)] if "sat" in form.words else []
    if "satfinite" in form.words and form.domain.is_float and dtype in LARGEST:
        steps.append(lambda value: np.clip(value, -LARGEST[dtype], LARGEST[dtype]))  # NaN stays NaN
    steps += [rectified] if "relu" in form.words else []

    def apply(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return apply


def _before(form: Form, dtype: str) -> Callable[[Any], Any]:
    return flushed(form.domain, dtype) if "ftz" in form.words and dtype == "f32" else lambda value: value


def _two(form: Form, target: str, source: str) -> Callable[..., Any]:
    """cvt.rn.f16x2.f32 d, a, b: a in the upper half, b in the lower. With .satfinite, clamped to finite values. And
    cvt.rn.f16x2.e4m3x2 d, a, or the reverse: both of a register."""
    domain, row, after = form.domain, element_of_ptx(target), _after(form, target)
    is_from_two = source.endswith("x2")
    convert = rounded_to(domain, _mode(form))

    def narrowed(values: Any) -> Packed:
        values = after(convert(values, row.ir) if row.bits == 16 else values)
        return narrowed_pair(values, row, domain)

    if is_from_two:
        narrow = element_of_ptx(source[:-2])
        return lambda value: narrowed(numbers_of(value, 2 * narrow.bits, narrow.ir, domain))

    def compute(high: Any, low: Any) -> Packed:
        is_half = (high is None) != (low is None)  # the other half may be used: LLVM converts pairs for one number
        unwritten = Number(domain.payload(np.nan if domain.is_float else 0), source)  # any number: NaN is seen in D
        halves = [unwritten if is_half and value is None else value for value in (low, high)]
        parts = [np.atleast_1d(number(value, source, domain)) for value in halves]
        return narrowed(np.stack(np.broadcast_arrays(*parts), axis=1))

    return compute


def _between_floats(form: Form, target: str, source: str) -> Callable[..., Any]:
    domain, before, after = form.domain, _before(form, source), _after(form, target)
    if storage.is_cut(target):  # a register of the type in which it is stored
        return OfNumbers(domain, source, source, lambda payload, _: after(_to_tf32(form, payload, target)))
    integral = [_TO_INTEGRAL[word] for word in form.words if word in _TO_INTEGRAL]
    convert = rounded_to(domain, _mode(form))
    if not integral and not form.words - {"rn"}:
        return OfNumbers(domain, source, target, domain.round_wide if source == "f64" else domain.round)

    def compute(value: Any) -> Number:
        payload = before(number(value, source, domain))
        if integral:
            payload = domain.apply(integral[0], source, payload)
        return Number(after(convert(payload, target)), target)

    return compute


def _to_tf32(form: Form, payload: Any, target: str) -> Any:
    if "rna" in form.words:
        return storage.rounded(np.asarray(payload), target)[()]
    return rounded_to(form.domain, _mode(form), always=True)(payload, target)


def _held(form: Form, bits: int) -> int:
    """The width of the register of the result, at least that of its type."""
    target = form.instruction.operands[0]
    return max(bits, bits_of(target.type)) if isinstance(target, Register) and target.type != "pred" else bits


def _extended(form: Form, value: Any, target: str) -> Any:
    """An integer of the target's type in its register, which may be wider."""
    bits = bits_of(target)
    held = _held(form, bits)
    if held == bits or not registers.is_raw(value):
        return value
    seen = registers.canonical(value, bits) if target[0] == "s" else registers.unsigned(value, bits)
    return registers.canonical(seen, held)


def _to_float(form: Form, target: str, source: str) -> Callable[..., Any]:
    domain, bits, after = form.domain, bits_of(source), _after(form, target)
    is_wide = bits == 64 and target != "f64"  # a float64 would round too
    convert = rounded_to(domain, _mode(form), always=is_wide)
    is_plain = not is_wide and _mode(form) == "rn"

    def compute(value: Any) -> Number:
        value = raw(value, bits, domain)
        seen = registers.unsigned(value, bits) if source[0] == "u" else registers.canonical(value, bits)
        if is_plain or not domain.is_float:
            payload = domain.from_integer(seen, target)
        else:
            payload = np.asarray(convert(np.asarray(seen, object) if np.ndim(seen) else seen, target))
        payload = np.asarray(after(payload))
        return Number(payload if np.ndim(payload) else payload[()], target)

    return compute


def _to_integer(form: Form, target: str, source: str) -> Callable[..., Any]:
    """Round as the instruction says; beyond the target's range, to its limits."""
    domain, bits, before = form.domain, bits_of(target), _before(form, source)
    dtype = np.dtype(f"{'u' if target[0] == 'u' else 'i'}{bits // 8}")
    integral = next((_TO_INTEGRAL[word] for word in form.words if word in _TO_INTEGRAL), "trunc")
    of_nan = 1 << bits - 1 if bits == 64 or source == "f64" else 0

    def compute(value: Any) -> Any:
        payload = domain.apply(integral, source, before(number(value, source, domain)))
        result = np.asarray(_clamped(domain, payload, dtype, of_nan)).view(SIGNED[bits])
        return _extended(form, result if result.ndim else int(result), target)

    return compute


def _clamped(domain: Domain, payload: Any, dtype: Any, of_nan: int) -> Any:
    """Integral numbers as integers within the limits of their type."""
    if not domain.is_float:
        return domain.to_integer(payload, dtype)
    limits = np.iinfo(dtype)
    rows = np.asarray(payload)
    if dtype.itemsize < 8 and not np.isnan(rows).any():
        return domain.to_integer(np.clip(rows, limits.min, limits.max), dtype)
    nan = (of_nan - (1 << 64) if dtype.kind == "i" and of_nan >> 63 else of_nan) & (1 << 8 * dtype.itemsize) - 1
    nan -= (1 << 8 * dtype.itemsize) if dtype.kind == "i" and nan > limits.max else 0
    made = [nan if each != each else max(limits.min, min(limits.max, _integer(each))) for each in rows.reshape(-1)]
    return np.array(made, dtype).reshape(rows.shape)


def _integer(value: float) -> int:
    return int(value) if np.isfinite(value) else int(np.sign(value)) << 64


def _between_integers(form: Form, target: str, source: str) -> Callable[..., Any]:
    """Truncated, or extended by the sign of the source or by zeros; with .sat, clamped to the target's limits."""
    domain, to, bits = form.domain, bits_of(target), bits_of(source)
    if "sat" in form.words:
        limits = np.iinfo(f"{'u' if target[0] == 'u' else 'i'}{to // 8}")
        clamp = each_lane(
            form,
            lambda value: max(limits.min, min(limits.max, value)),
            sources=[(bits, source[0] == "s")],
            outs=(to,),
        )
        return lambda value: _extended(form, clamp(value), target)
    if to <= bits:
        return lambda value: _extended(form, registers.truncated(value, bits, to, domain), target)
    if source[0] == "u":
        return lambda value: registers.extended(value, bits, to, domain)
    return lambda value: registers.canonical(registers.canonical(raw(value, bits, domain), bits), to)


@TABLE.values("cvt.pack", types="u16 s16 u8 s8 u4 s4 u2 s2 s32 b32", words="sat", section=f"{_SECTION}: cvt.pack")
def cvt_pack(form: Form) -> Callable[..., Any]:
    """Two integers of 32 bits, clamped to a narrower type, above the bits of a third register if there is one."""
    target = form.types[0]
    bits = int(target[1:])
    least, most = (-1 << bits - 1, (1 << bits - 1) - 1) if target[0] == "s" else (0, (1 << bits) - 1)

    def pair(high: int, low: int) -> int:
        first, second = (max(least, min(most, value)) & (1 << bits) - 1 for value in (high, low))
        return first << bits | second

    signed = [(32, True)] * 2
    if len(form.instruction.operands) == 3:
        return each_lane(form, pair, sources=signed, outs=(32,))
    return each_lane(form, lambda x, y, z: z << 2 * bits | pair(x, y), sources=signed, outs=(32,))
