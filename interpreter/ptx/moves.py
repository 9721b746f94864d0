"""Registers moved, packed, selected and converted (PTX ISA, "Data Movement and Conversion Instructions")."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lowtide.elements import element_of_ptx
from lowtide.interpreter.machine import clusters
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers import registers, storage
from lowtide.interpreter.numbers.packed import Packed, narrowed_pair
from lowtide.interpreter.numbers.registers import Number, number, numbers_of, raw
from lowtide.interpreter.ptx.binding import Op
from lowtide.interpreter.ptx.floats import NUMBERS_TOGETHER, OfNumbers
from lowtide.interpreter.ptx.syntax import Group
from lowtide.interpreter.ptx.table import Form, Table, bits_of

TABLE = Table()

_BITS = "b16 b32 b64 pred u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64"
_SECTION = "Data Movement and Conversion Instructions"

GENERIC_SHARED = 1 << 40
"""The start of shared memory among generic addresses."""

GENERIC_LOCAL = 1 << 41
"""The start of a thread's own memory among generic addresses."""


@TABLE.values("mov", types=_BITS, section=f"{_SECTION}: mov")
def mov(form: Form) -> Callable[..., Any]:
    """A register, a constant or an address; or the parts of a register, or a register made of parts."""
    target, *sources = form.instruction.operands
    bits, domain = form.bits, form.domain
    if isinstance(target, Group):
        parts = len(target.elements)
        return lambda value: _cut(value, bits, parts, domain)
    if sources and isinstance(sources[0], Group):
        return lambda values: _glued(values, bits // len(values), domain)
    return registers.readable


def _cut(value: Any, bits: int, parts: int, domain: Any) -> tuple[Any, ...]:
    if parts == 1:
        return (value,)
    return tuple(
        piece for half in registers.split(value, bits, domain) for piece in _cut(half, bits // 2, parts // 2, domain)
    )


def _glued(values: tuple[Any, ...], bits: int, domain: Any) -> Any:
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values, bits = tuple(registers.join(low, high, bits, domain) for low, high in pairs), 2 * bits
    return values[0]


@TABLE.values("selp", types=_BITS, section="Comparison and Selection Instructions: selp")
def selp(form: Form) -> Callable[..., Any]:
    bits = form.bits
    return lambda x, y, condition: registers.chosen(condition, x, y, bits)


@TABLE.values(
    "cvta",
    types="u32 u64",
    words="to shared shared::cta shared::cluster global param param::entry const local",
    section=f"{_SECTION}: cvta",
)
def cvta(form: Form) -> Callable[..., Any]:
    """An address of a state space as a generic one, or with .to the reverse. Global addresses are generic already, and
    so are those of constants."""
    shift = GENERIC_SHARED if any(word.startswith("shared") for word in form.words) else 0
    shift = GENERIC_LOCAL if "local" in form.words else shift
    if not shift:
        return lambda address: address
    return (lambda address: address - shift) if "to" in form.words else (lambda address: address + shift)


@TABLE.effects("mapa", types="u32 u64", words="shared::cluster", section=f"{_SECTION}: mapa", results=1, acts=False)
def mapa(state: AgentState, op: Op, address: Any, rank: Any) -> Any:
    return clusters.mapped(state, address, rank)


# cvt ------------------------------------------------------------------------------------------------------------------

_NUMBERS = "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 tf32 f32 f64 f16x2 bf16x2 e4m3x2 e5m2x2"
# Rounding to an integer, as a function of the domain.
_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@TABLE.values(
    "cvt",
    types=_NUMBERS,
    words=" ".join(("rn", "rna", "satfinite", *_TO_INTEGRAL)),
    section=f"{_SECTION}: cvt",
    bulk=NUMBERS_TOGETHER,
)
def cvt(form: Form) -> Callable[..., Any]:
    """By kind of source and destination, integer or float; or to two 16-bit floats from two of 32 bits."""
    if len(form.types) != 2:
        raise form.instruction.error("cvt has two types, of the result and of the operand [cvt-types]")
    target, source = form.types
    kinds = "f" in source, "f" in target
    if storage.is_cut(target) != ("rna" in form.words):
        raise form.instruction.error("cvt to tf32 has only .rna [cvt-tf32]")
    if target.endswith("x2"):
        return _two(form, target[:-2], source)
    makers = {(False, False): _between_integers, (False, True): _to_float, (True, False): _to_integer}
    return makers.get(kinds, _between_floats)(form, target, source)


def _two(form: Form, target: str, source: str) -> Callable[..., Any]:
    """cvt.rn.f16x2.f32 d, a, b: a in the upper half, b in the lower. With .satfinite, clamped to finite values. And
    cvt.rn.f16x2.e4m3x2 d, a: both of a register."""
    domain, row = form.domain, element_of_ptx(target)
    if source.endswith("x2"):
        narrow = element_of_ptx(source[:-2])
        return lambda value: Packed(numbers_of(value, 16, narrow.ir, domain), row.ir)
    if row.bits == 8 and "satfinite" not in form.words:
        raise form.instruction.error(f"cvt to {target}x2 has .satfinite [cvt-satfinite]")

    def compute(high: Any, low: Any) -> Packed:
        parts = [np.atleast_1d(number(value, source, domain)) for value in (low, high)]
        return narrowed_pair(np.stack(np.broadcast_arrays(*parts), axis=1), row, domain)

    return compute


def _between_floats(form: Form, target: str, source: str) -> Callable[..., Any]:
    domain = form.domain
    if storage.is_cut(target):  # a register of the type in which it is stored
        return OfNumbers(domain, source, source, lambda payload, _: storage.rounded(np.asarray(payload), target)[()])
    integral = [_TO_INTEGRAL[word] for word in form.words if word in _TO_INTEGRAL]

    if not integral:
        return OfNumbers(domain, source, target, domain.round)

    def compute(value: Any) -> Number:
        payload = domain.apply(integral[0], source, number(value, source, domain))
        return Number(domain.round(payload, target), target)

    return compute


def _to_float(form: Form, target: str, source: str) -> Callable[..., Any]:
    domain, bits = form.domain, bits_of(source)

    def compute(value: Any) -> Number:
        value = raw(value, bits, domain)
        seen = registers.unsigned(value, bits) if source[0] == "u" else registers.canonical(value, bits)
        payload = domain.from_integer(seen, target)
        return Number(payload if np.ndim(payload) else payload[()], target)

    return compute


def _to_integer(form: Form, target: str, source: str) -> Callable[..., Any]:
    """Round as the instruction says; beyond the target's range, to its limits."""
    domain, bits = form.domain, bits_of(target)
    dtype = np.dtype(f"{'u' if target[0] == 'u' else 'i'}{bits // 8}")
    integral = next((_TO_INTEGRAL[word] for word in form.words if word in _TO_INTEGRAL), "trunc")

    def compute(value: Any) -> Any:
        payload = domain.apply(integral, source, number(value, source, domain))
        if domain.is_float:
            limits = np.iinfo(dtype)
            payload = np.clip(np.nan_to_num(payload, nan=0.0), limits.min, limits.max)
        result = np.asarray(domain.to_integer(payload, dtype)).view(registers.SIGNED[bits])
        return result if result.ndim else int(result)

    return compute


def _between_integers(form: Form, target: str, source: str) -> Callable[..., Any]:
    """Truncated, or extended by the sign of the source or by zeros."""
    domain, to, bits = form.domain, bits_of(target), bits_of(source)
    if to <= bits:
        return lambda value: registers.truncated(value, bits, to, domain)
    if source[0] == "u":
        return lambda value: registers.extended(value, bits, to, domain)
    return lambda value: registers.canonical(registers.canonical(raw(value, bits, domain), bits), to)
