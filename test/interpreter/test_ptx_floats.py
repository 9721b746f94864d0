"""Roundings, .ftz, .sat, .relu, pairs of halves, comparisons and conversions of floats, against numpy and fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import kernel, run

_RNG = np.random.default_rng(2)
F, G, H = (_RNG.standard_normal(32).astype(np.float32) * np.float32(2) ** _RNG.integers(-20, 20, 32) for _ in range(3))
F, G, H = (each.astype(np.float32) for each in (F, G, H))
TINY = np.float32(2.0**-140)
SPECIAL = np.array(
    [0, -0.0, TINY, -TINY, 1, -1, np.inf, -np.inf, np.nan, 0.5, 2, 2.0**-126, 3e38, 255.5, -7.5, 1e10] * 2, "f4"
)
LOADS = "\n".join(f"add.s64 %rd1{at}, %rd{at}, %rd9; ld.global.b32 %r{at}, [%rd1{at}];" for at in (2, 3, 4))


def result(body, values=(F, G, H), dtype="f32", domain="float"):
    """The register %r5 of each thread, after a body on %r2, %r3 and %r4: floats, or integers if dtype says so."""
    text = kernel(f"{LOADS}\nadd.s64 %rd11, %rd1, %rd9;\n{body}\nst.global.b32 [%rd11], %r5;", "zxyw")
    given = dict(zip("xyw", (("f32", value) for value in values), strict=True))
    found = run(text, {"z": (dtype, np.zeros(32)), **given}, domain=domain)["z"]
    return found.astype(np.float32) if dtype == "f32" else found.astype(np.int64).astype(np.int32)


def same(found, expected):
    np.testing.assert_array_equal(found, np.asarray(expected, np.float32))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.asarray(expected, np.float32)))


EXACT = {
    "add{}.f32 %r5, %r2, %r3": lambda x, y, z: x + y,
    "sub{}.f32 %r5, %r2, %r3": lambda x, y, z: x - y,
    "mul{}.f32 %r5, %r2, %r3": lambda x, y, z: x * y,
    "fma{}.f32 %r5, %r2, %r3, %r4": lambda x, y, z: x * y + z,
    "mad{}.f32 %r5, %r2, %r3, %r4": lambda x, y, z: x * y + z,
    "div{}.f32 %r5, %r2, %r3": lambda x, y, z: x / y,
    "rcp{}.f32 %r5, %r2": lambda x, y, z: 1 / x,
}


def check_mode(mode, value, exact, step=np.nextafter):
    """That a float is the exact value rounded in a mode: the next one in the direction of the exact value is beyond."""
    infinity = value.dtype.type(np.inf)
    value, up, down = Fraction(float(value)), step(value, infinity), step(value, -infinity)
    if mode == "rz":
        mode = "rm" if exact > 0 else "rp"
    if mode == "rm":
        assert value <= exact < Fraction(float(up))
    else:
        assert Fraction(float(down)) < exact <= value


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("instruction", EXACT)
def test_directed_roundings_are_exact(instruction, mode):
    found = result(f"{instruction.format('.' + mode)};")
    for value, *given in zip(found, F, G, H, strict=True):
        check_mode(mode, value, EXACT[instruction](*(Fraction(float(each)) for each in given)))
    assert (found != result(f"{instruction.format('.rn')};")).any()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_square_roots(mode):
    found = result(f"abs.f32 %r2, %r2; sqrt.{mode}.f32 %r5, %r2;")
    for value, x in zip(found, np.abs(F), strict=True):
        up, down = (Fraction(float(np.nextafter(value, np.float32(at)))) for at in (np.inf, 0))
        low, high = (Fraction(float(value)), up) if mode != "rp" else (down, Fraction(float(value)))
        assert low**2 <= Fraction(float(x)) <= high**2


def test_directed_roundings_at_the_limits():
    big = np.full(32, 3e38, np.float32)
    largest = np.finfo(np.float32).max
    for mode, expected in (("rz", largest), ("rm", largest), ("rp", np.inf), ("rn", np.inf)):
        same(result(f"add.{mode}.f32 %r5, %r2, %r2;", (big,) * 3), np.full(32, expected))
    for mode, expected in (("rz", 0.0), ("rm", -0.0), ("rp", 0.0)):
        same(result(f"sub.{mode}.f32 %r5, %r2, %r2;"), np.full(32, expected))
    tiny = np.full(32, 2.0**-149, np.float32)
    for mode, expected in (("rz", 0.0), ("rp", 2.0**-149), ("rn", 0.0)):
        same(result(f"mul.{mode}.f32 %r5, %r2, 0f3E800000;", (tiny,) * 3), np.full(32, expected))
    same(result("add.rp.f32 %r5, %r2, %r3;", (SPECIAL, np.zeros(32), big)), SPECIAL + np.float32(0))


def test_quotients_beyond_the_largest_number():
    tiny = np.full(32, 1e-40, np.float32)
    largest = np.finfo(np.float32).max
    for mode, up, down in (("rz", largest, largest), ("rm", largest, np.inf), ("rp", np.inf, largest)):
        same(result(f"rcp.{mode}.f32 %r5, %r2;", (tiny,) * 3), np.full(32, up))
        same(result(f"neg.f32 %r2, %r2; div.{mode}.f32 %r5, 0f40000000, %r2;", (tiny,) * 3), np.full(32, -down))
    same(result("rcp.rz.f32 %r5, %r2;", (np.zeros(32),) * 3), np.full(32, np.inf))


def test_a_product_and_a_sum_of_f64_are_rounded_once():
    """Of chosen numbers, whose product is near to the negative of the third, or a tie that the third decides."""
    x = 1 + _RNG.integers(0, 8, 32) * 2.0**-52
    y = 1 + _RNG.integers(0, 8, 32) * 2.0**-52
    z = np.where(np.arange(32) % 2, -(x * y), _RNG.integers(-4, 4, 32) * 2.0 ** _RNG.integers(-110, -50, 32))
    x[:4], y[:4], z[:4] = (1e300, np.inf, -0.0, 2.0), (1e300, 2, 1, np.nan), (1, -np.inf, -0.0, 1)
    text = kernel(
        """add.s64 %rd9, %rd9, %rd9; add.s64 %rd12, %rd2, %rd9; add.s64 %rd13, %rd3, %rd9; add.s64 %rd14, %rd4, %rd9;
ld.global.f64 %rd22, [%rd12]; ld.global.f64 %rd23, [%rd13]; ld.global.f64 %rd24, [%rd14];
fma.rn.f64 %rd25, %rd22, %rd23, %rd24; add.s64 %rd11, %rd1, %rd9; st.global.f64 [%rd11], %rd25;""",
        "zxyw",
    )
    given = {key: ("f64", value) for key, value in zip("xyw", (x, y, z), strict=True)}
    found = run(text, {"z": ("f64", np.zeros(32)), **given})["z"]
    exact = [float(Fraction(a) * Fraction(b) + Fraction(c)) for a, b, c in zip(x[4:], y[4:], z[4:], strict=True)]
    np.testing.assert_array_equal(found[4:], exact)
    assert (found[4:] != x[4:] * y[4:] + z[4:]).any()
    np.testing.assert_array_equal(found[:4], [np.inf, np.nan, -0.0, np.nan])


def test_f64_rounds_in_all_modes():
    for mode in ("rz", "rm", "rp"):
        body = f"cvt.f64.f32 %rd20, %r2; cvt.f64.f32 %rd21, %r3; div.{mode}.f64 %rd22, %rd20, %rd21;"
        found = result(f"{body} cvt.{mode}.f32.f64 %r5, %rd22;")
        for value, x, y in zip(found, F, G, strict=True):
            check_mode(mode, value, Fraction(float(x)) / Fraction(float(y)))


def flush(x):
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).astype(np.float32)


with np.errstate(all="ignore"):
    MODIFIED = {
        "add.ftz.f32 %r5, %r2, 0f00000000": flush(flush(SPECIAL) + np.float32(0)),
        "mul.rn.ftz.f32 %r5, %r2, 0f3F800000": flush(SPECIAL),
        "mul.ftz.f32 %r5, %r2, 0f00800000": flush(flush(SPECIAL) * np.float32(2.0**-126)),
        "fma.rn.ftz.f32 %r5, %r2, 0f3F800000, %r2": flush(flush(SPECIAL) * 2),
        "neg.ftz.f32 %r5, %r2": -flush(SPECIAL),
        "abs.ftz.f32 %r5, %r2": np.abs(flush(SPECIAL)),
        "max.ftz.f32 %r5, %r2, 0f80000000": np.fmax(flush(SPECIAL), -0.0),
        "add.sat.f32 %r5, %r2, 0f00000000": np.clip(np.nan_to_num(SPECIAL + np.float32(0), nan=0), 0, 1),
        "fma.rn.ftz.sat.f32 %r5, %r2, 0f3F000000, 0f3F000000": np.clip(np.nan_to_num(SPECIAL * 0.5 + 0.5, nan=0), 0, 1),
        "cvt.sat.f32.f32 %r5, %r2": np.clip(np.nan_to_num(SPECIAL, nan=0), 0, 1),
        "cvt.ftz.f32.f32 %r5, %r2": flush(SPECIAL),
        "cvt.rni.ftz.f32.f32 %r5, %r2": np.rint(flush(SPECIAL)),
        "max.xorsign.abs.f32 %r5, %r2, 0fC0000000": np.where(
            np.signbit(SPECIAL), np.fmax(np.abs(SPECIAL), 2), -np.fmax(np.abs(SPECIAL), 2)
        ),
        "sqrt.approx.ftz.f32 %r5, %r2": np.sqrt(flush(SPECIAL)),
        "rcp.approx.ftz.f32 %r5, %r2": flush(1 / flush(SPECIAL)),
        "ex2.approx.ftz.f32 %r5, %r2": flush(np.exp2(flush(SPECIAL).astype("f8"))),
        "lg2.approx.ftz.f32 %r5, %r2": np.log2(flush(SPECIAL).astype("f8")).astype("f4"),
        "rsqrt.approx.ftz.f32 %r5, %r2": (1 / np.sqrt(flush(SPECIAL).astype("f8"))).astype("f4"),
        "slct.f32.f32 %r5, %r2, %r3, %r2": np.where(SPECIAL >= 0, SPECIAL, G),
        "slct.ftz.f32.f32 %r5, 0f40000000, %r3, %r2": np.where(SPECIAL >= 0, 2, G),
        "set.lt.f32.f32 %r5, %r2, 0f3F800000": (SPECIAL < 1).astype("f4"),
        "set.gtu.ftz.f32.f32 %r5, %r2, 0f00000000": (~(flush(SPECIAL) <= 0)).astype("f4"),
    }


@pytest.mark.parametrize("instruction", MODIFIED)
def test_modifiers_of_floats(instruction):
    found = result(f"{instruction};", (SPECIAL, G, H))
    kept = ~np.isnan(found)
    np.testing.assert_array_equal(found, MODIFIED[instruction])
    if "xorsign" not in instruction and "max" not in instruction:
        np.testing.assert_array_equal(np.signbit(found)[kept], np.signbit(MODIFIED[instruction].astype("f4"))[kept])


PROPERTIES = {
    "finite": np.isfinite(SPECIAL),
    "infinite": np.isinf(SPECIAL),
    "number": ~np.isnan(SPECIAL),
    "notanumber": np.isnan(SPECIAL),
    "normal": np.isfinite(SPECIAL) & (np.abs(SPECIAL) >= 2.0**-126),
    "subnormal": np.abs(SPECIAL) == TINY,
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_of_floats(name):
    body = f"testp.{name}.f32 %p1, %r2; selp.b32 %r5, 1, 0, %p1;"
    np.testing.assert_array_equal(result(body, (SPECIAL, G, H), "i32"), PROPERTIES[name])


# Halves ---------------------------------------------------------------------------------------------------------------

SMALL = [(_RNG.integers(-12, 12, (32, 2)) / 4).astype("f4") for _ in range(3)]
HALVES = {"f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16}


def packed(body, type, values=SMALL):
    """The halves of %r5 after a body on %r2, %r3 and %r4, which hold pairs."""
    dtype, name = HALVES[type], type[:-2]
    loads = LOADS.replace("ld.global.b32", "ld.global.b32")
    text = kernel(f"{loads}\nadd.s64 %rd11, %rd1, %rd9;\n{body}\nst.global.b32 [%rd11], %r5;", "zxyw")
    given = {key: (name, value.reshape(-1)) for key, value in zip("xyw", values, strict=True)}
    return run(text, {"z": (name, np.zeros(64)), **given})["z"].reshape(32, 2).astype(dtype).astype(np.float32)


PAIRS = {
    "add.{} %r5, %r2, %r3": lambda x, y, z: x + y,
    "sub.rn.{} %r5, %r2, %r3": lambda x, y, z: x - y,
    "mul.{} %r5, %r2, %r3": lambda x, y, z: x * y,
    "fma.rn.{} %r5, %r2, %r3, %r4": lambda x, y, z: x * y + z,
    "fma.rn.relu.{} %r5, %r2, %r3, %r4": lambda x, y, z: np.maximum(x * y + z, 0),
    "min.{} %r5, %r2, %r3": lambda x, y, z: np.minimum(x, y),
    "max.NaN.{} %r5, %r2, %r3": lambda x, y, z: np.maximum(x, y),
    "neg.{} %r5, %r2": lambda x, y, z: -x,
    "abs.{} %r5, %r2": lambda x, y, z: np.abs(x),
    "set.lt.{0}.{0} %r5, %r2, %r3": lambda x, y, z: x < y,
    "setp.lt.{0} %p1|%p2, %r2, %r3; selp.b32 %r6, 0x3f800000, 0, %p1; selp.b32 %r7, 0x3f800000, 0, %p2;"
    " cvt.rn.{0}.f32 %r5, %r7, %r6": lambda x, y, z: x < y,
    "setp.eq.u32 %p3, %r1, 5; setp.ge.or.{0} %p1|%p2, %r2, %r3, %p3; selp.b32 %r6, 0x3f800000, 0, %p1;"
    " selp.b32 %r7, 0x3f800000, 0, %p2; cvt.rn.{0}.f32 %r5, %r7, %r6": lambda x, y, z: (
        (x >= y) | (np.arange(32)[:, None] == 5)
    ),
}


@pytest.mark.parametrize("type", HALVES)
@pytest.mark.parametrize("instruction", PAIRS)
def test_pairs_of_halves(instruction, type):
    expected = np.asarray(PAIRS[instruction](*SMALL)).astype(HALVES[type]).astype("f4")
    np.testing.assert_array_equal(packed(f"{instruction.format(type)};", type), expected)


@pytest.mark.parametrize(("type", "unit", "tiny"), [("f16x2", 2.0**-10, 2.0**-24), ("bf16x2", 2.0**-7, 1e-30)])
def test_a_product_and_a_sum_of_halves_are_rounded_once(type, unit, tiny):
    """The product is half way between two numbers, so that a tiny third one decides."""
    x, y = np.full((32, 2), 1 + unit, "f4"), np.full((32, 2), 1.5, "f4")
    for third, units in ((tiny, 2), (-tiny, 1)):
        z = np.full((32, 2), third, "f4")
        found = packed(f"fma.rn.{type} %r5, %r2, %r3, %r4;", type, (x, y, z))
        np.testing.assert_array_equal(found, np.full((32, 2), 1.5 + units * unit, "f4"))


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.sat.f16x2 %r5, %r2, %r3", np.clip(SMALL[0] + SMALL[1], 0, 1)),
        ("fma.rn.ftz.sat.f16x2 %r5, %r2, %r3, %r4", np.clip(SMALL[0] * SMALL[1] + SMALL[2], 0, 1)),
        ("ex2.approx.f16x2 %r5, %r2", np.exp2(SMALL[0])),
        ("tanh.approx.f16x2 %r5, %r2", np.tanh(SMALL[0])),
    ],
)
def test_pairs_with_modifiers(instruction, expected):
    np.testing.assert_array_equal(packed(f"{instruction};", "f16x2"), expected.astype(np.float16).astype("f4"))


def test_the_opposite_bits_of_a_comparison_of_halves():
    body = "set.lt.u32.f16x2 %r6, %r2, %r3; and.b32 %r5, %r6, 0x3c003c00;"
    np.testing.assert_array_equal(packed(body, "f16x2"), SMALL[0] < SMALL[1])


# Conversions ----------------------------------------------------------------------------------------------------------


def cut(values, bits):
    """Floats with the low bits of their 32 cut off, which is a rounding towards zero."""
    return (np.asarray(values, "f4").view(np.uint32) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)).view("f4")


def half(values, mode):
    """Rounded to f16 in a mode, by its neighbours."""
    near = values.astype(np.float16)
    wide = near.astype("f8")
    low = np.where(wide > values, np.nextafter(near, np.float16(-np.inf)), near)
    high = np.where(wide < values, np.nextafter(near, np.float16(np.inf)), near)
    return {"rn": near, "rm": low, "rp": high, "rz": np.where(values < 0, high, low)}[mode].astype("f4")


MID = (np.clip(F, -3e4, 3e4) + np.float32(1e-3)).astype("f4")


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_conversions_to_f16_in_all_roundings(mode):
    body = f"cvt.{mode}.f16.f32 %rs1, %r2; cvt.f32.f16 %r5, %rs1;"
    np.testing.assert_array_equal(result(body, (MID, G, H)), half(MID, mode))


BF, E4 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
CONVERSIONS = {
    "cvt.rz.bf16.f32 %rs1, %r2; cvt.f32.bf16 %r5, %rs1": cut(MID, 16),
    "cvt.rn.relu.bf16.f32 %rs1, %r2; cvt.f32.bf16 %r5, %rs1": np.maximum(MID, 0).astype(BF).astype("f4"),
    "cvt.rz.bf16x2.f32 %r6, %r3, %r2; shl.b32 %r5, %r6, 16": cut(MID, 16),
    "cvt.rn.relu.bf16x2.f32 %r6, %r3, %r2; shl.b32 %r5, %r6, 16": np.maximum(MID, 0).astype(BF).astype("f4"),
    "cvt.rn.relu.f16x2.f32 %r6, %r2, %r3; mov.b32 {%rs1, %rs2}, %r6; cvt.f32.f16 %r5, %rs2": np.maximum(MID, 0)
    .astype(np.float16)
    .astype("f4"),
    "cvt.rn.tf32.f32 %r5, %r2": cut(
        (MID.view(np.uint32) + np.uint32(0xFFF) + (MID.view(np.uint32) >> 13 & 1)).view("f4"), 13
    ),
    "cvt.rz.tf32.f32 %r5, %r2": cut(MID, 13),
    "cvt.rn.satfinite.e4m3x2.f32 %rs1, %r3, %r2; cvt.rn.f16x2.e4m3x2 %r6, %rs1; mov.b32 {%rs2, %rs3}, %r6;"
    " cvt.f32.f16 %r5, %rs2": np.clip(MID, -448, 448).astype(E4).astype("f4"),
    "cvt.rn.satfinite.relu.e4m3x2.f32 %rs1, %r2, %r3; cvt.rn.f16x2.e4m3x2 %r6, %rs1; mov.b32 {%rs2, %rs3}, %r6;"
    " cvt.f32.f16 %r5, %rs3": np.clip(MID, 0, 448).astype(E4).astype("f4"),
    "cvt.rn.f16x2.f32 %r6, %r3, %r2; cvt.rn.satfinite.e4m3x2.f16x2 %rs1, %r6; cvt.rn.relu.f16x2.e4m3x2 %r6, %rs1;"
    " mov.b32 {%rs2, %rs3}, %r6; cvt.f32.f16 %r5, %rs2": np.clip(MID.astype(np.float16), 0, 448)
    .astype(E4)
    .astype("f4"),
    "cvt.rzi.s32.f32 %r6, %r2; cvt.rz.f32.s32 %r5, %r6": np.trunc(MID),
    "mov.b32 %r6, 0x7fffffff; cvt.rz.f32.s32 %r5, %r6": np.full(32, 2.0**31 - 128),
    "mov.b32 %r6, 0x7fffffff; cvt.rn.f32.u32 %r5, %r6": np.full(32, 2.0**31),
    "mov.b64 %rd20, 0x8000008000000001; cvt.rn.f32.u64 %r5, %rd20": np.full(32, 2.0**63 + 2.0**40),
    "mov.b64 %rd20, 0x8000008000000001; cvt.rm.f32.s64 %r5, %rd20": np.full(32, -(2.0**63) + 2.0**39),
}


@pytest.mark.parametrize("instruction", CONVERSIONS)
def test_conversions_between_floats(instruction):
    np.testing.assert_array_equal(result(f"{instruction};", (MID, G, H)), CONVERSIONS[instruction])


def to_integer(value, low, high, of_nan=0):
    return of_nan if np.isnan(value) else int(max(low, min(high, np.trunc(float(value)))))


@pytest.mark.parametrize(
    ("instruction", "low", "high", "of_nan"),
    [
        ("cvt.rzi.s32.f32 %r5, %r2", -(2**31), 2**31 - 1, 0),
        ("cvt.rzi.ftz.u32.f32 %r5, %r2", 0, 2**32 - 1, 0),
        ("cvt.rzi.u8.f32 %r5, %r2", 0, 255, 0),
        ("cvt.rzi.s8.f32 %r5, %r2", -128, 127, 0),
        ("cvt.rzi.s64.f32 %rd20, %r2; shr.s64 %rd21, %rd20, 40; cvt.u32.u64 %r5, %rd21", -(2**63), 2**63 - 1, -(2**63)),
        ("cvt.rzi.u64.f32 %rd20, %r2; shr.u64 %rd21, %rd20, 40; cvt.u32.u64 %r5, %rd21", 0, 2**64 - 1, 2**63),
    ],
)
def test_floats_beyond_an_integer_become_its_limits(instruction, low, high, of_nan):
    expected = [to_integer(each, low, high, of_nan) >> (40 if "64" in instruction else 0) for each in SPECIAL]
    expected = np.array([each & 0xFFFFFFFF for each in expected], np.int64).astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(result(f"{instruction};", (SPECIAL, G, H), "i32"), expected)


def test_modifiers_change_nothing_where_numbers_do_not_round():
    whole = np.arange(32)
    body = "fma.rz.ftz.f32 %r5, %r2, %r3, %r4; cvt.rp.f16.f32 %rs1, %r5; cvt.f32.f16 %r5, %rs1;"
    np.testing.assert_array_equal(result(body, (whole,) * 3, domain="exact"), whole * whole + whole)


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("1.5", 1.5),
        ("-2.25", -2.25),
        ("0.1", np.float32(0.1)),
        ("3.4028235e38", np.float32(3.4028235e38)),
        ("1e-3", np.float32(1e-3)),
        ("2.", 2),
        ("0d3FF8000000000000", 1.5),
        ("0f3FC00000", 1.5),
    ],
)
def test_a_constant_of_64_bits_is_rounded_where_a_float_uses_it(constant, value):
    same(result(f"mov.f32 %r5, {constant};"), np.full(32, value, np.float32))
    same(result(f"add.f32 %r5, %r2, {constant};"), F + np.float32(value))
    wide = f"mov.f64 %rd20, {constant}; add.f64 %rd20, %rd20, {constant}; cvt.rn.f32.f64 %r5, %rd20;"
    if "f3FC" not in constant:
        same(result(wide), np.full(32, 2 * float(constant) if "d" not in constant else 2 * value, np.float32))
