"""wmma.load, wmma.mma and wmma.store of all shapes, types and layouts, against products of numpy."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

_RNG = np.random.default_rng(4)
LARGE = ("m16n16k16", "m8n32k16", "m32n8k16")
# By the type of A: the type in memory, the limits of elements, the shapes and the types of sums.
TYPES = {
    "f16": ("f16", (-4, 5), LARGE, ("f16", "f32")),
    "bf16": ("bf16", (-4, 5), LARGE, ("f32",)),
    "s8": ("i8", (-128, 128), LARGE, ("s32",)),
    "u8": ("i8", (0, 256), LARGE, ("s32",)),
    "tf32": ("f32", (-4, 5), ("m16n16k8",), ("f32",)),
    "f64": ("f64", (-4, 5), ("m8n8k4",), ("f64",)),
    "s4": ("i8", (-8, 8), ("m8n8k32",), ("s32",)),
    "u4": ("i8", (0, 16), ("m8n8k32",), ("s32",)),
    "b1": ("i8", (0, 2), ("m8n8k128",), ("s32",)),
}
SMALL = {"s4": 4, "u4": 4, "b1": 1}
WIDTHS = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "s32": 4, "f64": 8}
IN_MEMORY = {"f16": "f16", "f32": "f32", "s32": "i32", "f64": "f64"}
PAD = {"f16": 8, "bf16": 8, "s8": 16, "u8": 16, "tf32": 4, "f64": 2, "f32": 4, "s32": 4, "s4": 32, "u4": 32, "b1": 128}
REGISTERS = {"f16": "b32", "f32": "b32", "s32": "b32", "f64": "b64"}


def extents(shape):
    m, rest = shape[1:].split("n")
    return (int(m), *map(int, rest.split("k")))


def in_memory(matrix, layout, type):
    """The elements of a matrix in memory, with padding after each row or column; and the stride."""
    lines = matrix if layout == "row" else matrix.T
    lines = np.pad(lines, ((0, 0), (0, PAD[type])))
    if type in SMALL:
        bits, each = SMALL[type], 8 // SMALL[type]
        parts = lines.reshape(len(lines), -1, each).astype(np.int64) & (1 << bits) - 1
        return (parts << bits * np.arange(each)).sum(axis=2).astype(np.uint8).view(np.int8), lines.shape[1]
    return lines, lines.shape[1]


def registers(type, role, shape):
    """How many registers a fragment has (PTX ISA, "Matrix Fragments for WMMA")."""
    m, n, k = extents(shape)
    if role == "c":
        return m * n // 32 // (2 if type == "f16" else 1)
    if type == "f16":
        return 8
    elements = (m if role == "a" else n) * k // 32
    return elements * SMALL.get(type, 8 * WIDTHS.get(type, 1)) // (64 if type == "f64" else 32)


def group(name, count):
    return "{" + ", ".join(f"{name}{at}" for at in range(count)) + "}"


def product(shape, a, d, c, layouts=("row", "col", "row", "row"), words="", space=".global"):
    """D by a kernel that also doubles C in its registers; and A, B, C."""
    dtype, limits, *_ = TYPES[a]
    m, n, k = extents(shape)
    matrices = [_RNG.integers(*limits, size) for size in ((m, k), (k, n))] + [_RNG.integers(-9, 9, (m, n))]
    counts = {role: registers(type, role, shape) for role, type in (("a", a), ("b", a), ("c", c))}
    counts["d"] = registers(d, "c", shape)
    declared = "".join(
        f".reg .{REGISTERS.get(type, 'b64' if a == 'f64' else 'b32')} {name}<{counts[name]}>;\n"
        for name, type in (("a", ""), ("b", ""), ("c", c), ("d", d))
    )
    body, buffers = (
        declared,
        {"z": (IN_MEMORY[d], np.zeros(m * (n + PAD[d]) if layouts[3] == "row" else n * (m + PAD[d])))},
    )
    for at, (name, type, matrix, layout) in enumerate(zip("abc", (a, a, c), matrices, layouts, strict=False), start=2):
        held, stride = in_memory(matrix, layout, type)
        buffers[name] = (dtype if name != "c" else IN_MEMORY[c], held.reshape(-1))
        load = f"wmma.load.{name}.sync.aligned.{layout}.{shape}{space}.{type}"
        body += f"{load} {group(name, counts[name])}, [%rd{at}], {stride};\n"
    twice = {"f16": "add.f16x2", "f32": "add.f32", "s32": "add.s32", "f64": "add.f64"}[c]
    body += "".join(f"{twice} c{at}, c{at}, c{at};\n" for at in range(counts["c"]))
    kinds = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{a}.{c}"
    op = f".{words}" if a == "b1" else ""
    suffix = f".{words}" if words and a != "b1" else ""
    operands = ", ".join(group(name, counts[name]) for name in "dabc")
    body += f"wmma.mma{op}.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{kinds}{suffix} {operands};\n"
    stride = (n if layouts[3] == "row" else m) + PAD[d]
    body += f"wmma.store.d.sync.aligned.{layouts[3]}.{shape}{space}.{d} [%rd1], {group('d', counts['d'])}, {stride};\n"
    found = run(kernel(body, "zabc"), buffers)["z"].reshape(-1, stride)[:, : stride - PAD[d]]
    return found if layouts[3] == "row" else found.T, matrices


@pytest.mark.parametrize(
    ("a", "shape", "d", "c"),
    [
        (a, shape, d, c)
        for a, (_, _, shapes, sums) in TYPES.items()
        for shape in shapes
        for d in sums
        for c in sums
        if a != "b1"
    ],
)
def test_products_of_all_shapes_and_types(a, shape, d, c):
    found, (left, right, third) = product(shape, a, d, c)
    np.testing.assert_array_equal(found, left @ right + 2 * third)


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("sums", ["row", "col"])
@pytest.mark.parametrize(
    ("a", "shape"), [("f16", "m32n8k16"), ("u8", "m16n16k16"), ("tf32", "m16n16k8"), ("f64", "m8n8k4")]
)
def test_matrices_lie_by_rows_or_by_columns(a, shape, layout, sums):
    other = {"row": "col", "col": "row"}
    for d in TYPES[a][3]:
        for layouts in ((layout, layout, sums, other[sums]), (layout, other[layout], sums, sums)):
            found, (left, right, third) = product(shape, a, d, d, layouts)
            np.testing.assert_array_equal(found, left @ right + 2 * third)


def test_products_of_bits_and_sums_that_are_clamped():
    for how, function in (("xor.popc", np.not_equal), ("and.popc", np.logical_and)):
        found, (left, right, third) = product("m8n8k128", "b1", "s32", "s32", words=how)
        np.testing.assert_array_equal(found, function(left[:, :, None], right[None]).sum(axis=1) + 2 * third)
    large = "mov.b32 %r2, 0x7fffff00; " + "wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32{} {}, {}, {}, {};"
    ones = "mov.b32 %r3, 0x10101010; " + large
    c, a = "{" + ", ".join(["%r2"] * 8) + "}", "{%r3, %r3}"
    d = "{" + ", ".join(f"%r{at}" for at in range(10, 18)) + "}"
    store = "add.s64 %rd11, %rd1, %rd9; st.global.b32 [%rd11], %r10;"
    for words, expected in ((".satfinite", 2**31 - 1), ("", 0x7FFFFF00 + 4096 - 2**32)):
        found = run(kernel(ones.format(words, d, a, a, c) + store, "z"), {"z": ("i32", 32)})["z"]
        assert (found == expected).all()


def test_fragments_are_in_shared_memory_and_at_generic_addresses():
    values = _RNG.integers(-4, 5, (16, 16)).astype(np.float16)
    body = """mad.wide.u32 %rd20, %r1, 16, %rd2; ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd20];
mov.u64 %rd21, place; mad.wide.u32 %rd22, %r1, 16, %rd21; st.shared.v4.b32 [%rd22], {%r2, %r3, %r4, %r5};
BARRIER
cvta.shared.u64 %rd23, %rd21;
wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd23];
wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%rd21];
mov.b32 %r30, 0;
wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%r40, %r41, %r42, %r43, %r44, %r45, %r46, %r47},
 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27},
 {%r30, %r30, %r30, %r30, %r30, %r30, %r30, %r30};
wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%r40, %r41, %r42, %r43, %r44, %r45, %r46, %r47};"""
    buffers = {"z": ("f32", 256), "x": ("f16", values.reshape(-1))}
    place = ".shared .align 32 .b8 place[512];\n"
    found = run(kernel(body.replace("BARRIER", "bar.warp.sync -1;"), "zx", place), buffers)["z"]
    np.testing.assert_array_equal(found.reshape(16, 16), values.astype("f4") @ values.astype("f4"))
    with pytest.raises(InterpreterError, match=r"\[shared-(lanes-)?race\]"):
        run(kernel(body.replace("BARRIER", ""), "zx", place), buffers)


EIGHT = group("%r", 8)


@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%rd1], 8;", "wmma-stride"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%rd1], 20;", "wmma-alignment"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%rd1+4];", "wmma-alignment"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%rd1], %r1;", "uniform-values"),
        (f"setp.lt.u32 %p1, %r1, 9; @%p1 wmma.load.a.sync.aligned.row.m16n16k16.f16 {EIGHT}, [%rd1];", "warp-aligned"),
        (f"wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {EIGHT}, [%rd1];", "wmma-shape"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.global.s4 {%r2}, [%rd1];", "wmma-layout"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2, %r3}, [%rd1];", "wmma-registers"),
        ("wmma.mma.sync.aligned.row.m16n16k16.f32.f32 {%r2}, {%r2}, {%r2}, {%r2};", "wmma-words"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32 {%r2}, {%r2}, {%r2}, {%r2};", "wmma-types"),
    ],
)
def test_wrong_uses_are_named(instruction, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        run(kernel(instruction, "z"), {"z": ("f16", np.zeros(512))})
