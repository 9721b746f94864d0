"""Integer instructions, comparisons and conversions of integers, against formulas on Python's integers."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError, NotInterpreted

_RNG = np.random.default_rng(1)
X, Y, Z = (_RNG.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in range(3))
X[:4], Y[:4] = (0, -1, 2**31 - 1, -(2**31)), (1, -1, 2**31 - 1, 40)
LOADS = "\n".join(f"add.s64 %rd1{at}, %rd{at}, %rd9; ld.global.b32 %r{at}, [%rd1{at}];" for at in (2, 3, 4))


def result(body, buffers=None, dtype="i32"):
    """The register %r5 of each thread, after a body on %r2, %r3 and %r4."""
    text = kernel(f"{LOADS}\nadd.s64 %rd11, %rd1, %rd9;\n{body}\nst.global.b32 [%rd11], %r5;", "zxyw")
    values = buffers or (X, Y, Z)
    given = dict(zip("xyw", ((dtype, value) for value in values), strict=True))
    return run(text, {"z": (dtype, np.zeros(32)), **given})["z"]


def words(values):
    return np.array([(int(value) & 0xFFFFFFFF) - (int(value) >> 31 & 1) * 2**32 for value in values], np.int32)


def s(value, bits=32):
    value = int(value) & (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def u(value, bits=32):
    return int(value) & (1 << bits) - 1


def part(value, at, bits, is_signed):
    found = int(value) >> at * bits & (1 << bits) - 1
    return s(found, bits) if is_signed else found


def clamp(value, low, high):
    return max(low, min(high, value))


def dp4a(x, y, z, a, b):
    return z + sum(part(x, i, 8, a) * part(y, i, 8, b) for i in range(4))


def bfe(a, b, c, is_signed):
    """As the ISA's pseudo code."""
    pos, length = b & 0xFF, c & 0xFF
    sbit = u(a) >> min(pos + length - 1, 31) & 1 if is_signed and length else 0
    return sum((u(a) >> pos + i & 1 if i < length and pos + i <= 31 else sbit) << i for i in range(32))


def bmsk(a, b, is_clamp):
    """As the ISA's pseudo code."""
    first, width = a & 31, b & 31
    low = -1 << first
    over = first + width >= 32 or (is_clamp and (a >= 32 or b >= 32))
    low = 0 if is_clamp and a >= 32 else low
    return low & ~(0 if over else -1 << first + width)


def fns(mask, base, offset):
    """As the ISA's pseudo code."""
    if offset == 0:
        return base if u(mask) >> base & 1 else -1
    count, step = abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= base < 32:
        if u(mask) >> base & 1:
            if count == 0:
                return base
            count -= 1
        base += step
    return -1


def quotient(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def halves(function):
    return lambda x, y, z: sum(u(function(x, y, at), 16) << 16 * at for at in (0, 1))


# By instruction on %r2, %r3, %r4: its result for signed values x, y, z.
INTEGERS = {
    "mad.hi.s32 %r5, %r2, %r3, %r4": lambda x, y, z: (x * y >> 32) + z,
    "mad.hi.u32 %r5, %r2, %r3, %r4": lambda x, y, z: (u(x) * u(y) >> 32) + z,
    "mad.hi.sat.s32 %r5, %r2, %r3, %r4": lambda x, y, z: clamp((x * y >> 32) + z, -(2**31), 2**31 - 1),
    "add.sat.s32 %r5, %r2, %r3": lambda x, y, z: clamp(x + y, -(2**31), 2**31 - 1),
    "sub.sat.s32 %r5, %r2, %r3": lambda x, y, z: clamp(x - y, -(2**31), 2**31 - 1),
    "min.relu.s32 %r5, %r2, %r3": lambda x, y, z: max(min(x, y), 0),
    "max.relu.s32 %r5, %r2, %r3": lambda x, y, z: max(x, y, 0),
    "mul24.lo.s32 %r5, %r2, %r3": lambda x, y, z: s(x, 24) * s(y, 24),
    "mul24.hi.u32 %r5, %r2, %r3": lambda x, y, z: u(x, 24) * u(y, 24) >> 16,
    "mul24.hi.s32 %r5, %r2, %r3": lambda x, y, z: s(x, 24) * s(y, 24) >> 16,
    "mad24.lo.u32 %r5, %r2, %r3, %r4": lambda x, y, z: u(x, 24) * u(y, 24) + z,
    "mad24.hi.sat.s32 %r5, %r2, %r3, %r4": lambda x, y, z: clamp(s(s(x, 24) * s(y, 24) >> 16) + z, -(2**31), 2**31 - 1),
    "sad.s32 %r5, %r2, %r3, %r4": lambda x, y, z: abs(x - y) + z,
    "sad.u32 %r5, %r2, %r3, %r4": lambda x, y, z: abs(u(x) - u(y)) + z,
    "dp4a.u32.u32 %r5, %r2, %r3, %r4": lambda x, y, z: dp4a(x, y, z, False, False),
    "dp4a.s32.u32 %r5, %r2, %r3, %r4": lambda x, y, z: dp4a(x, y, z, True, False),
    "dp4a.s32.s32 %r5, %r2, %r3, %r4": lambda x, y, z: dp4a(x, y, z, True, True),
    "vabsdiff4.u32.u32.u32 %r5, %r2, %r3, %r4": lambda x, y, z: sum(
        abs(part(x, i, 8, False) - part(y, i, 8, False)) << 8 * i for i in range(4)
    ),
    "vabsdiff4.u32.u32.u32.add %r5, %r2, %r3, %r4": lambda x, y, z: (
        z + sum(abs(part(x, i, 8, False) - part(y, i, 8, False)) for i in range(4))
    ),
    "vabsdiff2.u32.s32.s32.add %r5, %r2, %r3, %r4": lambda x, y, z: (
        z + sum(abs(part(x, i, 16, True) - part(y, i, 16, True)) for i in range(2))
    ),
    "dp2a.lo.s32.u32 %r5, %r2, %r3, %r4": lambda x, y, z: (
        z + sum(part(x, i, 16, True) * part(y, i, 8, False) for i in (0, 1))
    ),
    "dp2a.hi.u32.s32 %r5, %r2, %r3, %r4": lambda x, y, z: (
        z + sum(part(x, i, 16, False) * part(y, 2 + i, 8, True) for i in (0, 1))
    ),
    "bfe.s32 %r5, %r2, %r3, %r4": lambda x, y, z: bfe(x, y, z, True),
    "bfe.u32 %r5, %r2, %r3, %r4": lambda x, y, z: bfe(x, y, z, False),
    "and.b32 %r6, %r3, 31; and.b32 %r7, %r4, 31; bfe.s32 %r5, %r2, %r6, %r7": lambda x, y, z: bfe(
        x, y & 31, z & 31, True
    ),
    "bfi.b32 %r5, %r2, %r3, %r4, 7": lambda x, y, z: (y & ~(127 << (z & 255))) | ((x & 127) << (z & 255)),
    "bfind.u32 %r5, %r2": lambda x, y, z: u(x).bit_length() - 1,
    "bfind.s32 %r5, %r2": lambda x, y, z: (~x if x < 0 else x).bit_length() - 1,
    "bfind.shiftamt.u32 %r5, %r2": lambda x, y, z: 32 - u(x).bit_length() if x else -1,
    "and.b32 %r6, %r3, 31; shr.s32 %r7, %r4, 28; fns.b32 %r5, %r2, %r6, %r7": lambda x, y, z: fns(x, y & 31, z >> 28),
    "and.b32 %r6, %r3, 31; fns.b32 %r5, %r2, %r6, 0": lambda x, y, z: fns(x, y & 31, 0),
    "or.b32 %r6, %r3, 2; div.s32 %r5, %r2, %r6": lambda x, y, z: quotient(x, s(y | 2)),
    "or.b32 %r6, %r3, 2; rem.s32 %r5, %r2, %r6": lambda x, y, z: x - s(y | 2) * quotient(x, s(y | 2)),
    "or.b32 %r6, %r3, 2; div.u32 %r5, %r2, %r6": lambda x, y, z: u(x) // u(y | 2),
    "brev.b32 %r5, %r2": lambda x, y, z: sum((u(x) >> i & 1) << 31 - i for i in range(32)),
    "szext.wrap.u32 %r5, %r2, %r3": lambda x, y, z: u(x, y & 31),
    "szext.wrap.s32 %r5, %r2, %r3": lambda x, y, z: s(x, y & 31) if y & 31 else 0,
    "szext.clamp.s32 %r5, %r2, %r3": lambda x, y, z: s(x, min(u(y), 32)) if y else 0,
    "bmsk.wrap.b32 %r5, %r2, %r3": lambda x, y, z: bmsk(u(x), u(y), False),
    "bmsk.clamp.b32 %r5, %r2, %r3": lambda x, y, z: bmsk(u(x), u(y), True),
    "and.b32 %r6, %r2, 31; and.b32 %r7, %r3, 15;\n bmsk.clamp.b32 %r5, %r6, %r7": lambda x, y, z: bmsk(
        x & 31, y & 15, True
    ),
    "shf.l.wrap.b32 %r5, %r2, %r3, %r4": lambda x, y, z: (u(y) << 32 | u(x)) << (z & 31) >> 32,
    "shf.r.wrap.b32 %r5, %r2, %r3, 13": lambda x, y, z: (u(y) << 32 | u(x)) >> 13,
    "shf.l.clamp.b32 %r5, %r2, %r3, %r4": lambda x, y, z: (u(y) << 32 | u(x)) << min(u(z), 32) >> 32,
    "shf.r.clamp.b32 %r5, %r2, %r3, 40": lambda x, y, z: y,
    "lop3.b32 %r5, %r2, %r3, %r4, 0x96": lambda x, y, z: x ^ y ^ z,
    "setp.eq.s32 %p2, %r2, 0; lop3.or.b32 _|%p1, %r2, %r3, %r4, 0x80, %p2; selp.b32 %r5, 1, 0, %p1": lambda x, y, z: (
        1 if x & y & z or x == 0 else 0
    ),
    "setp.gt.s32 %p2, %r2, 0; lop3.and.b32 _|%p1, %r2, %r3, %r4, 0xfe, !%p2; selp.b32 %r5, 1, 0, %p1": lambda x, y, z: (
        x <= 0 and (x | y | z) != 0
    ),
    "cnot.b32 %r5, %r2": lambda x, y, z: x == 0,
    "slct.b32.s32 %r5, %r2, %r3, %r4": lambda x, y, z: x if z >= 0 else y,
    "slct.u32.s32 %r5, 7, %r3, %r4": lambda x, y, z: 7 if z >= 0 else y,
    "set.lt.s32.s32 %r5, %r2, %r3": lambda x, y, z: -(x < y),
    "set.hi.u32.u32 %r5, %r2, %r3": lambda x, y, z: -(u(x) > u(y)),
    "setp.gt.s32 %p1, %r4, 0; set.lt.and.u32.s32 %r5, %r2, %r3, !%p1": lambda x, y, z: -(x < y and z <= 0),
    "setp.lt.s32 %p1|%p2, %r2, %r3; selp.b32 %r6, 1, 0, %p1; selp.b32 %r5, 2, %r6, %p2": lambda x, y, z: (
        1 if x < y else 2
    ),
    "setp.gt.s32 %p3, %r4, 0; setp.lt.and.s32 %p1|%p2, %r2, %r3, %p3; selp.b32 %r6,1,0,%p1; selp.b32 %r5,2,%r6,%p2": (
        lambda x, y, z: 0 if z <= 0 else 1 if x < y else 2
    ),
    "add.s16x2 %r5, %r2, %r3": halves(lambda x, y, at: part(x, at, 16, True) + part(y, at, 16, True)),
    "add.u16x2 %r5, %r2, %r3": halves(lambda x, y, at: part(x, at, 16, False) + part(y, at, 16, False)),
    "min.s16x2 %r5, %r2, %r3": halves(lambda x, y, at: min(part(x, at, 16, True), part(y, at, 16, True))),
    "max.u16x2 %r5, %r2, %r3": halves(lambda x, y, at: max(part(x, at, 16, False), part(y, at, 16, False))),
    "max.relu.s16x2 %r5, %r2, %r3": halves(lambda x, y, at: max(part(x, at, 16, True), part(y, at, 16, True), 0)),
    "cvt.u8.u32 %r5, %r2": lambda x, y, z: x & 255,
    "cvt.s8.u32 %r5, %r2": lambda x, y, z: s(x, 8),
    "cvt.sat.u8.s32 %r5, %r2": lambda x, y, z: clamp(x, 0, 255),
    "cvt.sat.s16.s32 %r5, %r2": lambda x, y, z: clamp(x, -32768, 32767),
    "cvt.sat.s32.u32 %r5, %r2": lambda x, y, z: clamp(u(x), 0, 2**31 - 1),
    "cvt.pack.sat.s16.s32 %r5, %r2, %r3": lambda x, y, z: (
        u(clamp(x, -32768, 32767), 16) << 16 | u(clamp(y, -32768, 32767), 16)
    ),
    "shr.s32 %r2, %r2, 23; cvt.pack.sat.u8.s32.b32 %r5, %r2, %r3, %r4": lambda x, y, z: (
        z << 16 | clamp(x >> 23, 0, 255) << 8 | clamp(y, 0, 255)
    ),
    "shr.s32 %r2, %r2, 28; cvt.pack.sat.s4.s32.b32 %r5, %r2, %r3, %r4": lambda x, y, z: (
        z << 8 | u(clamp(x >> 28, -8, 7), 4) << 4 | u(clamp(y, -8, 7), 4)
    ),
}


@pytest.mark.parametrize("instruction", INTEGERS)
def test_integers_as_the_isa_says(instruction):
    found = result(f"{instruction};").astype(np.int64).astype(np.int32)
    expected = words([INTEGERS[instruction](int(x), int(y), int(z)) for x, y, z in zip(X, Y, Z, strict=True)])
    np.testing.assert_array_equal(found, expected)


def test_uniform_integers_as_the_isa_says():
    """The same on constants, which are one number for all lanes."""
    for instruction, function in INTEGERS.items():
        moved = "mov.b32 %r2, 0x87654321; mov.b32 %r3, 0x1f; mov.b32 %r4, 0x70000005;"
        found = result(f"{moved} {instruction};").astype(np.int64).astype(np.int32)
        expected = words([function(s(0x87654321), 31, 0x70000005)])
        assert (found == expected[0]).all(), instruction


def shift_of(value):
    return 64 - value.bit_length() if value else -1


WIDE = "mov.b64 %rd20, {%r2, %r3}; mov.b64 %rd21, {%r4, %r2};"
OUT = "mov.b64 {%r6, %r7}, %rd22; xor.b32 %r5, %r6, %r7;"
LONG = {
    "mad.hi.u64 %rd22, %rd20, %rd21, 5": lambda a, b: (a * b >> 64) + 5,
    "mad.hi.s64 %rd22, %rd20, %rd21, %rd20": lambda a, b: (s(a, 64) * s(b, 64) >> 64) + a,
    "sad.u64 %rd22, %rd20, %rd21, 1": lambda a, b: abs(a - b) + 1,
    "brev.b64 %rd22, %rd20": lambda a, b: int(f"{a:064b}"[::-1], 2),
    "bfe.u64 %rd22, %rd20, 17, 40": lambda a, b: a >> 17 & (1 << 40) - 1,
    "bfe.s64 %rd22, %rd20, 50, 40": lambda a, b: s(a, 64) >> 50,
    "bfi.b64 %rd22, %rd20, %rd21, 20, 30": lambda a, b: (b & ~(((1 << 30) - 1) << 20)) | ((a & (1 << 30) - 1) << 20),
    "bfind.u64 %r8, %rd20; cvt.s64.s32 %rd22, %r8": lambda a, b: a.bit_length() - 1,
    "bfind.shiftamt.s64 %r8, %rd20; cvt.s64.s32 %rd22, %r8": lambda a, b: shift_of(
        ~a & (1 << 64) - 1 if a >> 63 else a
    ),
    "min.s64 %rd22, %rd20, %rd21": lambda a, b: min(s(a, 64), s(b, 64)),
    "cnot.b64 %rd22, %rd20": lambda a, b: int(a == 0),
    "cvt.sat.u32.s64 %r8, %rd20; cvt.u64.u32 %rd22, %r8": lambda a, b: clamp(s(a, 64), 0, 2**32 - 1),
}


@pytest.mark.parametrize("instruction", LONG)
def test_integers_of_64_bits(instruction):
    found = result(f"{WIDE} {instruction}; {OUT}").astype(np.int64).astype(np.int32)
    expected = []
    for x, y, z in zip(X.tolist(), Y.tolist(), Z.tolist(), strict=True):
        value = LONG[instruction](u(y) << 32 | u(x), u(x) << 32 | u(z))
        expected.append(u(value) ^ u(value >> 32))
    np.testing.assert_array_equal(found, words(expected))


# Chains of carries: sums and products of 64 and 96 bits from words of 32.
CHAINS = {
    "add.cc.u32 %r6, %r2, %r3; addc.u32 %r5, %r4, 7": lambda x, y, z: (u(x) + u(y) >> 32) + z + 7,
    "add.cc.u32 %r6, %r2, %r3; addc.cc.u32 %r7, %r6, %r4; addc.u32 %r5, 0, 0": lambda x, y, z: (
        u(x + y) + u(z) + (u(x) + u(y) >> 32) >> 32
    ),
    "sub.cc.u32 %r6, %r2, %r3; subc.u32 %r5, %r4, 7": lambda x, y, z: z - 7 - (u(x) < u(y)),
    "sub.cc.s32 %r6, %r2, %r3; subc.cc.s32 %r7, %r6, %r4; subc.s32 %r5, 0, 0": lambda x, y, z: (
        -(u(x - y) < u(z) + (u(x) < u(y)))
    ),
    "mad.lo.cc.u32 %r6, %r2, %r3, %r4; madc.hi.u32 %r5, %r2, %r3, 5": lambda x, y, z: (
        (u(x) * u(y) >> 32) + 5 + (u(x * y) + u(z) >> 32)
    ),
    "mad.lo.cc.u32 %r6, %r2, %r3, %r4; madc.hi.cc.u32 %r7, %r2, %r3, %r4; addc.u32 %r5, 0, 0": lambda x, y, z: (
        (u(x) * u(y) >> 32) + u(z) + (u(x * y) + u(z) >> 32) >> 32
    ),
    "mad.hi.cc.s32 %r6, %r2, %r3, %r4; madc.lo.s32 %r5, %r2, %r3, 0": lambda x, y, z: (
        x * y + (u(x * y >> 32) + u(z) >> 32)
    ),
    "add.cc.u64 %rd22, %rd20, %rd21; addc.u64 %rd23, 0, 0; cvt.u32.u64 %r5, %rd23": lambda x, y, z: (
        (u(y) << 32 | u(x)) + (u(x) << 32 | u(z)) >> 64
    ),
}


@pytest.mark.parametrize("instruction", CHAINS)
def test_carries_go_from_one_instruction_to_the_next(instruction):
    found = result(f"{WIDE} {instruction};").astype(np.int64).astype(np.int32)
    expected = words([CHAINS[instruction](int(x), int(y), int(z)) for x, y, z in zip(X, Y, Z, strict=True)])
    np.testing.assert_array_equal(found, expected)


def test_each_lane_has_its_own_carry_in_divergent_code():
    body = """mov.b32 %r5, 0;
add.cc.u32 %r6, %r2, %r3;
setp.lt.u32 %p1, %r1, 16;
@%p1 add.cc.u32 %r6, -1, 1;
addc.u32 %r5, 0, 0;"""
    carries = [u(x) + u(y) >> 32 for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    np.testing.assert_array_equal(result(body), np.where(np.arange(32) < 16, 1, carries))


def test_a_carry_that_nothing_has_set_is_not_read():
    with pytest.raises(InterpreterError, match=r"\[register-un(set|written-stored)\]"):
        result("addc.u32 %r5, %r2, %r3;")


def test_forms_without_a_meaning_are_refused():
    for instruction in ("shf.l.wrap.b32 %r5, %r2, %r3;", "sad.s32 %r5, %r2, %r3;"):
        with pytest.raises(NotInterpreted, match=r"\[form-known\]"):
            result(instruction)


def test_only_active_lanes_must_not_divide_by_zero() -> None:
    """The first four lanes branch past the division by their number, shifted right by two."""
    lanes = np.arange(32, dtype=np.int32)
    divide = "shr.u32 %r3, %r2, 2; div.u32 %r5, %r4, %r3; OUT:"
    branch = "mov.b32 %r5, -1; setp.lt.u32 %p1, %r2, 4; @%p1 bra OUT;"
    expected = [-1 if lane < 4 else 100 // (lane >> 2) for lane in lanes]
    values = (lanes, lanes, np.full(32, 100, np.int32))
    np.testing.assert_array_equal(result(f"{branch} {divide}", values), expected)
    with pytest.raises(InterpreterError, match=r"\[quotient-by-zero\]"):
        result(f"{branch.replace('4', '3')} {divide}", values)
