"""cvt of all pairs of types with all roundings and modifiers, against fractions (PTX ISA, "cvt")."""

from fractions import Fraction
from math import copysign, floor, inf, isfinite, isnan, nan

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import header, run

# By type: its bits of precision, the exponent of its least number, its largest number, and the type of numpy.
FLOATS = {
    "f16": (11, -24, 65504.0, np.float16),
    "bf16": (8, -133, float.fromhex("0x1.fep127"), ml_dtypes.bfloat16),
    "tf32": (11, -136, float.fromhex("0x1.ffcp127"), np.float32),
    "f32": (24, -149, float.fromhex("0x1.fffffep127"), np.float32),
    "f64": (53, -1074, float.fromhex("0x1.fffffffffffffp1023"), np.float64),
    "e4m3": (4, -9, 448.0, ml_dtypes.float8_e4m3fn),
    "e5m2": (3, -16, 57344.0, ml_dtypes.float8_e5m2),
}
INTEGERS = [f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us"]
MODES, INTEGRAL = ("rn", "rz", "rm", "rp"), ("rni", "rzi", "rmi", "rpi")
COUNT = 64  # values of each type
_RNG = np.random.default_rng(7)
NUMBERS = (
    *(
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        inf,
        -inf,
        nan,
        0.75,
        127.5,
        128.5,
        -129.0,
        255.5,
        256.0,
        32767.5,
    ),
    *(65535.5, 2.0**31, -3e9, 5e9, 1e19, -1e19, 3e38, 1e-40, -1e-40, 6e-8, 65519.0, 65520.0, 449.0, 60000.0, 1 / 3),
    *(-1 / 3, 1e-46, 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-24 + 2.0**-50, 2.0**24 + 2.0**16 + 1),
)
WHOLE = (
    0,
    1,
    -1,
    2**31 - 1,
    2**63 - 1,
    -(2**63),
    127,
    128,
    -129,
    32768,
    -32769,
    2**24 + 2**16 + 1,
    2**53 + 1,
    2**31 - 129,
)


def width(type):
    return 8 * np.dtype(FLOATS[type][3]).itemsize if type in FLOATS else int(type[1:])


def values(type):
    """The bits of numbers of a type (64,): chosen ones, and others by chance."""
    bits = width(type)
    with np.errstate(over="ignore"):
        chosen = WHOLE if type in INTEGERS else np.array(NUMBERS).astype(FLOATS[type][3]).view(f"u{bits // 8}").tolist()
    further = _RNG.integers(0, 2**bits - 1, COUNT - len(chosen), np.uint64).tolist()
    return [each & (1 << bits) - 1 for each in (*chosen, *further)]


def number(bits, type):
    """The number that bits of a type are."""
    bits &= (1 << width(type)) - 1
    if type in FLOATS:
        return float(np.array(bits, f"u{width(type) // 8}").view(FLOATS[type][3]))
    return bits - (1 << width(type)) if type[0] == "s" and bits >> width(type) - 1 else bits


def rounded(exact, precision, least, mode):
    """A fraction in units of the last place, rounded: to an integer if the precision is unlimited."""
    size = abs(exact)
    top = size.numerator.bit_length() - size.denominator.bit_length()  # of its highest bit, or one more
    top -= Fraction(2) ** top > size
    unit = Fraction(2) ** max(least, top - precision + 1 if precision else 0)
    count = floor(size / unit)
    rest, up = size / unit - count, "p" if exact > 0 else "m"
    is_half = mode == "rna" and rest == Fraction(1, 2)
    is_even = mode[:2] == "rn" and rest == Fraction(1, 2) and count % 2 == 1
    is_away = is_half or is_even or (mode[:2] == "rn" and rest > Fraction(1, 2)) or (mode[1] == up and rest > 0)
    found = (count + is_away) * unit
    return found if exact > 0 else -found


def as_float(exact, type, mode):
    """A number rounded to a type; beyond its largest one, infinite or the largest by the mode."""
    precision, least, largest, _ = FLOATS[type]
    if not isfinite(exact) or exact == 0:
        return exact
    found = rounded(Fraction(exact), precision, least, mode)
    if abs(found) > Fraction(largest):
        return copysign(inf if mode[:2] == "rn" or mode[1] == ("p" if exact > 0 else "m") else largest, exact)
    return copysign(float(found), exact)


def flushed(value, type, words):
    return copysign(0.0, value) if "ftz" in words and type == "f32" and abs(value) < 2.0**-126 else value


def expected(value, target, source, words):
    """The number that cvt gives."""
    mode = next((word for word in words if word in (*MODES, "rna")), "rn")
    integral = next((word for word in words if word in INTEGRAL), None)
    value = flushed(value, source, words) if source in FLOATS else value
    if integral and isfinite(value):
        whole = rounded(Fraction(value), 0, 0, integral) if value else Fraction(0)
        value = copysign(float(whole), value) if target in FLOATS else int(whole)
    if target in INTEGERS:
        low, high = (
            (-(1 << width(target) - 1), (1 << width(target) - 1) - 1)
            if target[0] == "s"
            else (0, (1 << width(target)) - 1)
        )
        if value != value:
            return number(1 << width(target) - 1 if width(target) == 64 or source == "f64" else 0, target)
        if source in FLOATS or "sat" in words:
            return int(max(low, min(high, value)))
        return number(value, target)
    found = flushed(as_float(value if source in FLOATS else Fraction(value), target, mode), target, words)
    largest = FLOATS[target][2]
    if "sat" in words:
        found = 0.0 if isnan(found) else max(0.0, min(1.0, found))
    if "satfinite" in words and not isnan(found):
        found = max(-largest, min(largest, found))
    return max(found, 0.0) if "relu" in words and not isnan(found) else found


def converted(name, target, source, given, operands="d, a"):
    """The numbers (64,) of an instruction on these bits, which are in `a`; its result is in `d`."""
    held, to = (max(16, width(type)) for type in (source, target))
    body = f"""{header(name)}.visible .entry test(.param .u64 z, .param .u64 x) {{
.reg .b{held} a; .reg .b{to} d; .reg .b64 %rd<6>; .reg .b32 t, low, high;
ld.param.b64 %rd1, [z]; ld.param.b64 %rd2, [x]; mov.u32 t, %tid.x; mul.wide.u32 %rd3, t, 8;
add.s64 %rd4, %rd2, %rd3; add.s64 %rd5, %rd1, %rd3; ld.global.b{width(source)} a, [%rd4];
{name} {operands}; st.global.b64 [%rd5], 0; st.global.b{width(target)} [%rd5], d; ret; }}"""
    bits = np.array(given, np.uint64).view(np.int32).astype(np.float64)
    found = run(body, {"z": ("i8", np.zeros(8 * COUNT)), "x": ("i32", bits)}, threads=COUNT)["z"]
    return [number(each, target) for each in found.astype(np.int64).astype(np.uint8).view(np.uint64).tolist()]


def check(target, source, *words):
    given = values(source)
    name = ".".join(("cvt", *words, target, source))
    for bits, found in zip(given, converted(name, target, source, given), strict=True):
        value = number(bits, source)
        wanted = expected(value, target, source, words)
        has_sign = not {"sat", "relu"} & {*words}  # of a zero
        assert same(found, wanted, has_sign), (name, value, found, wanted)


def same(found, wanted, has_sign=False):
    if isnan(found) or isnan(wanted):
        return isnan(found) and isnan(wanted)
    return found == wanted and (not has_sign or copysign(1, found) == copysign(1, wanted))


def may_clamp(target, source):
    """Whether an integer type does not hold all values of another."""
    to, of = (np.iinfo(f"{'u' if type[0] == 'u' else ''}int{type[1:]}") for type in (target, source))
    return bool(of.min < to.min or of.max > to.max)


PRECISE = {"bf16": 0, "f16": 0, "f32": 1, "f64": 2}


@pytest.mark.parametrize("target", PRECISE)
def test_floats_are_rounded_in_all_modes(target):
    for source in PRECISE:
        narrows = PRECISE[target] < PRECISE[source] or {target, source} == {"f16", "bf16"}
        for mode in MODES if narrows else INTEGRAL if target == source else ():
            check(target, source, mode)
        if PRECISE[target] > PRECISE[source]:
            check(target, source)


@pytest.mark.parametrize("target", INTEGERS)
def test_floats_and_integers_become_integers(target):
    for source in PRECISE:
        for mode in INTEGRAL if source != "bf16" or target[1:] != "8" else ():
            check(target, source, mode)
    check(target, "f32", "rmi", "ftz")
    for source in INTEGERS:
        check(target, source)
        if may_clamp(target, source):
            check(target, source, "sat")


@pytest.mark.parametrize("target", PRECISE)
def test_integers_become_floats_in_all_modes(target):
    for source in INTEGERS:
        for mode in MODES if target != "bf16" or source[1:] != "8" else ():
            check(target, source, mode)


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_results_are_clamped_and_flushed(mode):
    for target in ("f16", "bf16"):
        for words in (("satfinite",), ("relu", "satfinite")):
            check(target, "f32", mode, *words)
    for target in ("f16", "bf16", "tf32"):
        check(target, "f32", mode, "relu")
        check(target, "f32", mode)
    for words in (("ftz",), ("sat",), ("ftz", "sat")):
        check("f32", "f64", mode, *words)
        check("f16", "f32", mode, *words)


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_results_of_tf32_are_clamped(mode):
    """In another test than the other types, because GPUs before Blackwell do not have it."""
    check("tf32", "f32", mode, "satfinite")
    check("tf32", "f32", mode, "relu", "satfinite")


def test_tf32_rounds_ties_away():
    check("tf32", "f32", "rna")
    check("tf32", "f32", "rna", "satfinite")


@pytest.mark.parametrize("relu", [(), ("relu",)])
@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_pairs_of_halves_are_packed(target, mode, relu):
    for words in ((mode, *relu), (mode, *relu, "satfinite")):
        check_pair(target, words)


@pytest.mark.parametrize("relu", [(), ("relu",)])
@pytest.mark.parametrize("target", ["e4m3", "e5m2"])
def test_pairs_of_8_bits_are_packed_and_unpacked(target, relu):
    check_pair(target, ("rn", "satfinite", *relu))
    given = values("f16")
    pairs = [low | high << 16 for low, high in zip(given, given[::-1], strict=True)]
    name = f"cvt.rn.satfinite.{''.join(f'{word}.' for word in relu)}{target}x2.f16x2"
    packed = [bits & 0xFFFF for bits in converted(name, "u16", "u32", pairs)]
    compare(packed, [number(low, "f16") for low in given], [number(low, "f16") for low in given[::-1]], target, name)
    unpacked = converted(f"cvt.rn.f16x2.{target}x2", "u32", "u16", packed)
    for narrow, wide in zip(packed, unpacked, strict=True):
        np.testing.assert_equal(
            [number(wide, "f16"), number(wide >> 16, "f16")], [number(narrow, target), number(narrow >> 8, target)]
        )


def check_pair(target, words):
    """cvt of two f32: the second in the lower half. Both are in one register of 64 bits here."""
    given = values("f32")
    pairs = [high | low << 32 for low, high in zip(given, given[::-1], strict=True)]
    name = ".".join(("cvt", *words, f"{target}x2", "f32"))
    split = "mov.b64 {high, low}, a; "
    found = converted(f"{split}{name}", f"u{2 * width(target)}", "u64", pairs, "d, high, low")
    compare(found, [number(low, "f32") for low in given], [number(high, "f32") for high in given[::-1]], target, name)


def compare(found, low, high, target, name):
    words = name.split(".")
    for bits, *numbers in zip(found, low, high, strict=True):
        for at, value in enumerate(numbers):
            part, wanted = number(bits >> width(target) * at, target), expected(value, target, "f32", words)
            assert same(part, wanted), (name, value, part, wanted)
