"""Parts of parameters that a kernel reads by an address in a register: structs with tensor maps, as nvcc reads them."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import launching
from lowtide.launches import Array, Launch, LaunchRecord, Pointer, Struct, TensorMap

# A struct with two tensor maps, a number and a pointer, read by the address of its parameter, as nvcc does.
STRUCT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 128 .b8 all[512])
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b8 gate[8];
mov.b64 %rd1, all;
add.s64 %rd2, %rd1, 128;
add.s64 %rd2_, %rd2, 128;
cvta.param.u64 %rd3, %rd2_;
ld.param.u32 %r1, [%rd2];
ld.param.u64 %rd4, [%rd1+384];
mov.u32 %r2, %tid.x; mov.u32 %r3, tile; mov.u32 %r4, gate;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra STARTED;
mbarrier.init.shared.b64 [%r4], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd3, {0, 0}], [%r4];
STARTED:
bar.sync 0;
AGAIN:
mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0;
@!%p2 bra AGAIN;
shl.b32 %r5, %r2, 2;
add.u32 %r6, %r3, %r5;
ld.shared.u32 %r7, [%r6];
mul.lo.u32 %r7, %r7, %r1;
mul.wide.u32 %rd5, %r2, 4;
add.s64 %rd6, %rd4, %rd5;
st.global.u32 [%rd6], %r7;
ret;
}
""".replace("%rd2_", "%rd7")


def struct_record(offset=256):
    map = TensorMap(Pointer("x"), "i32", (8, 32), (32,), (8, 32), 0)
    data = bytearray(512)
    data[128:132] = (3).to_bytes(4, "little")
    struct = Struct(bytes(data), ((384, Pointer("out")),), ((0, map), (offset, map)))
    values = np.arange(256, dtype="i4").reshape(8, 32)
    arrays = {"x": Array("i32", (8, 32), (32,), values), "out": Array("i32", (256,), (1,))}
    return LaunchRecord(arrays, (Launch("k", (1, 1, 1), (256, 1, 1), (struct,)),))


def test_tensor_maps_and_other_parts_of_a_struct_are_read_by_its_address():
    found = launching.run(STRUCT, struct_record())
    np.testing.assert_array_equal(found["out"], 3 * np.arange(256))
    with pytest.raises(InterpreterError, match=r"\[map-descriptor\]"):
        launching.run(STRUCT, struct_record(offset=384))
    with pytest.raises(InterpreterError, match=r"\[launched-map\]"):
        launching.run(STRUCT, struct_record(offset=400))


def test_the_bytes_of_a_tensor_map_in_a_struct_are_read():
    """They are the same at both places, whatever they are, and not zero."""
    text = STRUCT.replace("mul.lo.u32 %r7, %r7, %r1;", "ld.param.u32 %r7, [%rd1+256]; ld.param.u32 %r8, [%rd1];")
    text = text.replace("[%rd6], %r7;", "[%rd6], %r7; sub.u32 %r8, %r7, %r8; st.global.u32 [%rd6+4], %r8;")
    text = text.replace("%rd5, %r2, 4;", "%rd5, %r2, 0;").replace("st.global.u32 [%rd6]", "@!%p1 st.global.u32 [%rd6]")
    found = launching.run(text.replace("st.global.u32 [%rd6+4]", "@!%p1 st.global.u32 [%rd6+4]"), struct_record())
    assert found["out"][0] != 0 and found["out"][1] == 0


def test_a_register_with_the_address_of_a_parameter_may_hold_another_one():
    """It is written twice: what it holds where it is used counts."""
    twice = STRUCT.replace("mov.b64 %rd1, all;", "mov.b64 %rd1, 0; mov.b64 %rd1, all;")
    np.testing.assert_array_equal(launching.run(twice, struct_record())["out"], 3 * np.arange(256))
    zero = STRUCT.replace("ld.param.u64 %rd4", "mov.b64 %rd1, 0; ld.param.u64 %rd4")
    with pytest.raises(InterpreterError, match=r"lane 0: reads address 384; .*\[parameter-outside\]"):
        launching.run(zero, struct_record())


GENERIC = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 z, .param .align 8 .b8 all[40], .param .f32 scale) {
.reg .b32 %r<9>; .reg .b64 %rd<9>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [z];
mov.b64 %rd2, all;
cvta.param.u64 %rd3, %rd2;
and.b32 %r2, %r1, 7;
mul.wide.u32 %rd4, %r2, 4;
add.s64 %rd5, %rd3, %rd4;
ld.b32 %r3, [%rd5];
ld.u64 %rd6, [%rd3+32];
ld.global.b32 %r4, [%rd6];
cvta.param.u64 %rd7, scale;
ld.f32 %r5, [%rd7];
cvt.rzi.s32.f32 %r5, %r5;
add.s32 %r3, %r3, %r4;
add.s32 %r3, %r3, %r5;
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd1, %rd4;
st.global.b32 [%rd5], %r3;
ret;
}
"""


def test_parameters_are_read_by_generic_addresses_that_the_kernel_computes():
    table, one = np.arange(100, 108, dtype=np.int32), np.array([1000], np.int32)
    struct = lt.ptx.Bytes(table.tobytes() + bytes(8), {32: one})
    kernel = lt.ptx.load(GENERIC)["k"]
    found, *_ = kernel.run(grid=1, block=32, args=[np.zeros(32, np.int32), struct, 2.5])
    np.testing.assert_array_equal(found, table[np.arange(32) % 8] + 1002)
    beyond = GENERIC.replace("and.b32 %r2, %r1, 7;", "mov.b32 %r2, %r1;")
    with pytest.raises(InterpreterError, match=r"lane 10: .*\[out(side-matrices|-of-bounds)\]"):
        lt.ptx.load(beyond)["k"].run(grid=1, block=32, args=[np.zeros(32, np.int32), struct, 2.5])


INDEXED = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 z, .param .align 8 .b8 all[104], .param .u32 next)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %rs<4>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [z];
mov.b64 %rd2, all;
and.b32 %r2, %r1, 7;
mul.wide.u32 %rd4, %r2, 4;
add.s64 %rd5, %rd2, %rd4;
ld.param.u32 %r3, [%rd5+64];
shl.b64 %rd6, %rd4, 1;
add.s64 %rd6, %rd6, %rd2;
ld.param.v2.u32 {%r4, %r5}, [%rd6];
cvt.u64.u32 %rd7, %r2;
add.s64 %rd7, %rd7, %rd2;
ld.param.s8 %rs1, [%rd7+96];
cvt.s32.s16 %r6, %rs1;
add.s32 %r3, %r3, %r4;
add.s32 %r3, %r3, %r5;
add.s32 %r3, %r3, %r6;
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd1, %rd4;
st.global.b32 [%rd5], %r3;
ret;
}
"""
PAIRS, SINGLES = np.arange(1000, 1016, dtype=np.int32), np.arange(100, 108, dtype=np.int32)
BYTES = np.arange(-4, 4, dtype=np.int8)


def indexed(text, threads=64):
    struct = lt.ptx.Bytes(PAIRS.tobytes() + SINGLES.tobytes() + BYTES.tobytes())
    kernel = lt.ptx.load(text)["k"]
    return kernel.run(grid=1, block=threads, args=[np.zeros(threads, np.int32), struct, 5])[0]


def test_arrays_in_a_parameter_are_read_at_an_index():
    i = np.arange(64) % 8
    np.testing.assert_array_equal(indexed(INDEXED), PAIRS[2 * i] + PAIRS[2 * i + 1] + SINGLES[i] + BYTES[i])
    beyond = INDEXED.replace("add.s64 %rd5, %rd2, %rd4;", "add.s64 %rd5, %rd2, %rd4; add.s64 %rd5, %rd5, 24;")
    with pytest.raises(InterpreterError, match=r"lane 4: .* 104 of parameter 1, .*\[parameter-outside\]"):
        indexed(beyond)


FUNCTION = """.version 8.0
.target sm_90a
.address_size 64
.func (.reg .u32 found) pick(.param .align 4 .b8 table[16], .reg .u32 i)
{
.reg .b64 %rd<4>;
mov.b64 %rd1, table;
mul.wide.u32 %rd2, i, 4;
add.s64 %rd3, %rd1, %rd2;
SPACE.u32 found, [%rd3];
ret;
}
.visible .entry k(.param .u64 z, .param .align 8 .b8 all[104], .param .u32 next)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
.param .align 4 .b8 given[16];
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [z];
st.param.v4.u32 [given], {%r1, 20, 30, 40};
and.b32 %r2, %r1, 3;
call (%r3), pick, (given, %r2);
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd1, %rd4;
st.global.b32 [%rd5], %r3;
ret;
}
"""


@pytest.mark.parametrize("space", ["ld.local", "ld.param", "ld.param::func"])
def test_the_address_of_a_parameter_of_a_function_is_one_of_local_memory(space):
    i = np.arange(32)
    found = indexed(FUNCTION.replace("SPACE", space), threads=32)
    np.testing.assert_array_equal(found, np.choose(i % 4, [i, 20, 30, 40]))
