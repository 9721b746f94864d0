"""mma.m8n8k4 of f16: each pair of quads of a warp multiplies matrices of its own (PTX ISA, "mma.m8n8k4")."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

_RNG = np.random.default_rng(9)
A, B, C = (_RNG.integers(-8, 9, shape).astype(np.float16) for shape in ((4, 8, 4), (4, 4, 8), (4, 8, 8)))


def place(lane):
    """The product of a lane, and its row or column of eight there."""
    return lane % 16 // 4, lane % 4 + (4 if lane >= 16 else 0)


def held_a(layout):
    """The four elements of A in each lane: a row of it, or half a column."""
    rows = [place(lane) for lane in range(32)]
    if layout == "row":
        return np.array([A[q, line] for q, line in rows])
    return np.array([A[q, 4 * (line // 4) : 4 * (line // 4) + 4, line % 4] for q, line in rows])


def held_b(layout):
    """The four elements of B in each lane: a column of it, or half a row."""
    columns = [place(lane) for lane in range(32)]
    if layout == "col":
        return np.array([B[q, :, line] for q, line in columns])
    return np.array([B[q, line % 4, 4 * (line // 4) : 4 * (line // 4) + 4] for q, line in columns])


def accumulators(matrices, type):
    """The eight elements of C or D in each lane: a row of f16, or four pairs of f32 in two rows."""
    if type == "f16":
        return np.array([matrices[q, line] for q, line in map(place, range(32))])
    found = np.zeros((32, 8), np.float32)
    for lane in range(32):
        q, line = place(lane)
        for i in range(8):
            row = lane % 2 + i // 2 % 2 * 2 + line // 4 * 4
            found[lane, i] = matrices[q, row, i // 4 * 4 + lane // 2 % 2 * 2 + i % 2]
    return found


def group(first, count):
    return "{" + ", ".join(f"%r{first + at}" for at in range(count)) + "}"


def product(layouts, d, c):
    """D (32, 8) of an instruction with these layouts and types."""
    counts = {"f16": 4, "f32": 8}
    loads = "".join(f"ld.global.b32 %r{10 + at}, [%rd12+{4 * at}];\n" for at in range(2))
    loads += "".join(f"ld.global.b32 %r{12 + at}, [%rd13+{4 * at}];\n" for at in range(2))
    loads += "".join(f"ld.global.b32 %r{20 + at}, [%rd14+{4 * at}];\n" for at in range(counts[c]))
    operands = ", ".join((group(30, counts[d]), group(10, 2), group(12, 2), group(20, counts[c])))
    stores = "".join(f"st.global.b32 [%rd11+{4 * at}], %r{30 + at};\n" for at in range(counts[d]))
    places = "".join(
        f"mad.wide.u32 %rd1{at}, %r1, {size}, %rd{at};\n"
        for at, size in ((1, 4 * counts[d]), (2, 8), (3, 8), (4, 4 * counts[c]))
    )
    body = f"{places}{loads}mma.sync.aligned.m8n8k4.{layouts}.{d}.f16.f16.{c} {operands};\n{stores}"
    buffers = {
        "z": (d, 256),
        "a": ("f16", held_a(layouts[:3]).reshape(-1)),
        "b": ("f16", held_b(layouts[4:]).reshape(-1)),
    }
    buffers["c"] = (c, accumulators(C, c).reshape(-1))
    return run(kernel(body, "zabc"), buffers)["z"].reshape(32, 8)


@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
@pytest.mark.parametrize(("d", "c"), [("f16", "f16"), ("f32", "f32"), ("f32", "f16")])
def test_each_pair_of_quads_multiplies_its_own_matrices(layouts, d, c):
    expected = A.astype(np.float32) @ B.astype(np.float32) + C
    np.testing.assert_array_equal(product(layouts, d, c), accumulators(expected, d))


@pytest.mark.parametrize(
    ("name", "code"),
    [("m8n8k4.row.col.f16.f16.f16.f32", "ptx-mma-one-type"), ("m16n8k8.col.col.f32.f16.f16.f32", "ptx-mma-types")],
)
def test_forms_that_the_isa_lacks_are_refused(name, code):
    body = f"mma.sync.aligned.{name} {group(2, 4)}, {group(2, 2)}, {group(2, 2)}, {group(2, 8)};"
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        run(kernel(body, "z"), {"z": ("i32", 1)})


def test_the_registers_of_d_are_counted():
    body = (
        f"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {group(2, 4)}, {group(2, 2)}, {group(2, 2)}, {group(2, 8)};"
    )
    with pytest.raises(InterpreterError, match=r"takes \[2, 2, 8, 8\] registers, in braces, .* not \[2, 2, 8, 4\]"):
        run(kernel(body, "z"), {"z": ("i32", 1)})
