"""Records of launches in three dimensions, of blocks that are no whole warps, and of arrays that lie in any way."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lowtide.errors import InterpreterError
from lowtide.interpreter import Options, run
from lowtide.launches import Array, Launch, LaunchRecord, Parameter, Pointer, TensorMap

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 x", variables: str = "", outside: str = "") -> str:
    registers = ".reg .pred %p<9>;\n.reg .f32 %f<9>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n"
    return f"{HEAD}{outside}\n.visible .entry k({parameters})\n{{\n{registers}{variables}\n{body}\nret;\n}}\n"


def record(*parameters: Parameter, arrays: dict[str, Array], **changed: Any) -> LaunchRecord:
    launch = Launch("k", (1, 1, 1), (32, 1, 1), parameters)
    return LaunchRecord(arrays, (replace(launch, **changed),))


def words(count: int, values: Any = None) -> Array:
    return Array("s32", (count,), (1,), values)


# Each thread computes a number from registers, and writes it at its place in the grid.
PLACES = """
ld.param.u64 %rd1, [x];
mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z;
mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
mad.lo.s32 %r20, %r3, %r5, %r2; mad.lo.s32 %r20, %r20, %r4, %r1;
mad.lo.s32 %r21, %r9, %r11, %r8; mad.lo.s32 %r21, %r21, %r10, %r7;
mul.lo.s32 %r22, %r4, %r5; mul.lo.s32 %r22, %r22, %r6;
mad.lo.s32 %r23, %r21, %r22, %r20;
mul.wide.s32 %rd2, %r23, 4; add.s64 %rd3, %rd1, %rd2;
"""


@pytest.mark.parametrize("cluster", [(1, 1, 1), (1, 2, 2)])
def test_each_thread_of_a_launch_in_three_dimensions_has_its_place(cluster: tuple[int, int, int]) -> None:
    text = kernel(f"{PLACES}st.global.u32 [%rd3], %r23;")
    given = record(Pointer("x"), arrays={"x": words(8 * 105)}, grid=(2, 2, 2), block=(3, 5, 7), cluster=cluster)
    assert np.array_equal(run(text, given)["x"], np.arange(840))


def test_registers_of_clusters_count_by_side() -> None:
    body = f"""{PLACES}
mov.u32 %r30, %clusterid.y; mov.u32 %r31, %cluster_ctaid.x; mov.u32 %r32, %cluster_ctarank; mov.u32 %r33, %nclusterid.x;
mov.u32 %r34, %cluster_nctaid.y;
mad.lo.s32 %r30, %r30, 10, %r31; mad.lo.s32 %r30, %r30, 10, %r32; mad.lo.s32 %r30, %r30, 10, %r33;
mad.lo.s32 %r30, %r30, 10, %r34;
st.global.u32 [%rd3], %r30;"""
    given = record(Pointer("x"), arrays={"x": words(24)}, grid=(6, 4, 1), block=(1, 1, 1), cluster=(2, 2, 1))
    found = run(kernel(body), given)["x"].reshape(4, 6)
    # clusterid.y, cluster_ctaid.x, cluster_ctarank, nclusterid.x, cluster_nctaid.y
    assert found[0, :2].tolist() == [32, 1132] and found[3, 4:].tolist() == [10232, 11332]


def test_masks_of_lanes_and_numbers_of_warps() -> None:
    body = f"""{PLACES}
mov.u32 %r30, %lanemask_lt; mov.u32 %r31, %lanemask_ge; popc.b32 %r30, %r30; popc.b32 %r31, %r31;
mov.u32 %r32, %nwarpid; mad.lo.s32 %r30, %r30, 100, %r31; mad.lo.s32 %r30, %r30, 100, %r32;
st.global.u32 [%rd3], %r30;"""
    found = run(kernel(body), record(Pointer("x"), arrays={"x": words(70)}, block=(70, 1, 1)))["x"]
    assert found.tolist() == [lane % 32 * 10000 + (32 - lane % 32) * 100 + 3 for lane in range(70)]


SHARED = ".shared .align 16 .b8 kept[256];"
SWAP = f"""{PLACES}
mov.u32 %r30, kept; shl.b32 %r31, %r20, 2; add.s32 %r32, %r30, %r31; st.shared.u32 [%r32], %r20;
BARRIER
xor.b32 %r33, %r20, 32; setp.ge.s32 %p1, %r33, %r22; @%p1 bra DONE;
shl.b32 %r34, %r33, 2; add.s32 %r35, %r30, %r34; ld.shared.u32 %r36, [%r35]; st.global.u32 [%rd3], %r36;
DONE:
"""


def test_a_barrier_joins_warps_that_are_not_full() -> None:
    """48 threads: the second warp has 16 lanes, which the barrier waits for; without it, this is a race."""
    given = record(Pointer("x"), arrays={"x": words(48, np.zeros(48, np.int32))}, block=(48, 1, 1))
    found = run(kernel(SWAP.replace("BARRIER", "bar.sync 0;"), variables=SHARED), given)["x"]
    assert found.tolist() == [*range(32, 48), *[0] * 16, *range(16)]
    with pytest.raises(InterpreterError, match=r"(race|uninitialised).*\[(shared-race|uninitialised-read)\]"):
        run(kernel(SWAP.replace("BARRIER", ""), variables=SHARED), given)


def test_lanes_that_have_ended_do_not_hold_a_barrier_up() -> None:
    """PTX ISA, "exit". Lanes that go around the barrier, and do not end, are reported."""
    given = record(Pointer("x"), arrays={"x": words(64, np.zeros(64, np.int32))}, block=(64, 1, 1))
    ends = f"{PLACES}setp.ge.s32 %p2, %r20, 40; @%p2 bra END; bar.sync 0; st.global.u32 [%rd3], %r23;\nEND:"
    assert run(kernel(ends), given)["x"].tolist() == [*range(40), *[0] * 24]
    around = ends.replace("END:", "END: bar.sync 0;")
    with pytest.raises(InterpreterError, match=r"lanes \[8, .*\] do not arrive.*\[barrier-divergent\]"):
        run(kernel(around), given)


# Arrays ---------------------------------------------------------------------------------------------------------------

READ = """ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r2, [%rd3]; add.s32 %r2, %r2, 1000; st.global.u32 [%rd3], %r2;"""


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((2, 3, 4, 5), (60, 20, 5, 1)),
        ((4, 8), (1, 4)),
        ((2, 4, 3), (1, 2, 8)),
        ((3, 4), (0, 1)),
        ((5, 2), (3, 1)),
        ((7,), (3,)),
        ((2, 0), (1, 1)),
        ((2, 3, 2), (50, 1, 5)),
    ],
)
def test_arrays_lie_by_their_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """A thread for each word from the first on changes it, up to the first that is not in the array: refused."""
    sides = [side if stride else min(side, 1) for side, stride in zip(shape, strides, strict=True)]
    values = np.broadcast_to(np.random.default_rng(0).integers(0, 99, sides), shape)
    places = sum(index * stride for index, stride in zip(np.indices(shape), strides, strict=True))
    inside = np.isin(np.arange(1 + places.max(initial=-1)), places)
    whole = len(inside) if inside.all() else int(np.argmin(inside))
    given = record(Pointer("x"), arrays={"x": Array("s32", shape, strides, values)}, block=(max(whole, 1), 1, 1))
    if whole:
        assert np.array_equal(run(kernel(READ), given)["x"], values + 1000 * (places < whole))
    more = replace(given.launches[0], block=(whole + 1, 1, 1))
    with pytest.raises(InterpreterError, match=r"out of bounds.*\[outside-matrices\]"):
        run(kernel(READ), replace(given, launches=(more,)))


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (Array("s32", (4, 4), (-4, 1), None), "launched-strides"),
        (Array("s32", (4, 4), (2, 1), None), "launched-gaps"),
        (Array("s32", (2, 2, 2, 2), (90, 30, 10, 3), None), "launched-gaps"),
        (Array("s32", (4,), (1,), np.zeros(3)), "launched-shape"),
        (Array("f32", (4,), (1,), None, 0, ((0, Pointer("x")),)), "launched-relocation"),
        (Array("s64", (4,), (1,), None, 0, ((28, Pointer("x")),)), "launched-relocation"),
        (Array("s64", (4,), (1,), None, 0, ((0, Pointer("y")),)), "launched-array"),
    ],
)
def test_an_array_that_cannot_be_placed_is_refused(array: Array, code: str) -> None:
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        run(kernel(READ), record(Pointer("x"), arrays={"x": array}))


@pytest.mark.parametrize("dtype", ["s64", "s32", "u8"])
def test_an_array_holds_pointers_and_whole_numbers_of_64_bits(dtype: str) -> None:
    """A thread takes the second of two pointers, and doubles the number of 64 bits behind it."""
    body = "ld.param.u64 %rd1, [x]; ld.global.u64 %rd2, [%rd1+8]; ld.global.u64 %rd3, [%rd2]; add.s64 %rd3, %rd3, %rd3;"
    width = {"s64": 8, "s32": 4, "u8": 1}[dtype]
    pointers = ((0, Pointer("y")), (8, Pointer("y", 16)))
    arrays = {
        "x": Array(dtype, (16 // width,), (1,), None, 0, pointers),
        "y": Array("s64", (4,), (1,), np.array([1, 2, (1 << 61) + 1, -3])),
    }
    found = run(kernel(f"{body} st.global.u64 [%rd2], %rd3;"), record(Pointer("x"), arrays=arrays, block=(1, 1, 1)))
    assert found["y"].tolist() == [1, 2, (1 << 62) + 2, -3]


MAP = TensorMap(Pointer("x"), "f32", (8, 8), (8,), (4, 8), 32)


@pytest.mark.parametrize(
    ("map", "code"),
    [
        (replace(MAP, shape=(8,), strides=(), box=(4, 8)), "encode-rank"),
        (replace(MAP, shape=(0, 8)), "encode-extents"),
        (replace(MAP, box=(300, 8)), "encode-box"),
        (replace(MAP, strides=(7,)), "encode-address"),
        (replace(MAP, at=Pointer("x", 4)), "encode-address"),
        (replace(MAP, swizzle=48), "encode-rows"),
        (replace(MAP, box=(4, 3)), "encode-rows"),
        (replace(MAP, box=(4, 16)), "encode-rows"),
    ],
)
def test_a_tensor_map_that_cuda_refuses_is_refused(map: TensorMap, code: str) -> None:
    text = kernel("", ".param .align 64 .b8 x[128]")
    arrays = {"x": Array("f32", (8, 8), (8, 1), None)}
    run(text, record(MAP, arrays=arrays))
    with pytest.raises(InterpreterError, match=rf"launch 0 of k: parameter x: .*\[{code}\]"):
        run(text, record(map, arrays=arrays))


def test_a_float_needs_its_bytes() -> None:
    with pytest.raises(InterpreterError, match=r"\[launched-float\]"):
        run(kernel("", ".param .f32 x"), record(b"\0" * 8, arrays={}))


def test_shared_memory_begins_as_aligned_as_its_variables_declare_or_at_a_multiple_of_1024() -> None:
    body = "ld.param.u64 %rd1, [x]; mov.u32 %r1, kept; and.b32 %r1, %r1, 1023; st.global.u32 [%rd1], %r1;"
    text = kernel(body, outside=".extern .shared .align 16 .b8 kept[];")
    given = record(Pointer("x"), arrays={"x": words(1)}, block=(1, 1, 1), shared_bytes=64)
    assert run(text, given)["x"][0] == 16
    assert run(text, given, options=Options(aligned_base=True))["x"][0] == 0
