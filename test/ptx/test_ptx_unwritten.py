"""What a load reads where nothing has written: it may be moved, stored in shared memory and dropped, but not used."""

import numpy as np
import pytest

import lowtide as lt

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 z)
{{
.reg .pred %p<9>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
.shared .align 16 .b8 words[512];
.local .align 16 .b8 own[64];
ld.param.u64 %rd1, [z];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, words;
add.u32 %r4, %r3, %r2;
setp.lt.u32 %p1, %r1, 31;
setp.eq.u32 %p2, %r1, 40;
mov.u32 %r5, 7;
@%p1 st.shared.u32 [%r4], %r1;
ld.shared.u32 %r6, [%r4];
{body}
st.global.u32 [%rd3], %r5;
ret;
}}
"""


def report(body):
    return lt.ptx.load(TEXT.format(body=body))["test"].check(grid=1, block=32, args=[np.zeros(32, np.int32)])


@pytest.mark.parametrize(
    "body",
    [
        "",
        "add.u32 %r7, %r6, 1; selp.u32 %r5, %r7, 9, %p1;",
        "@%p1 mov.u32 %r5, %r6;",
        "setp.eq.u32 %p3, %r6, 3; and.pred %p4, %p3, %p1; selp.u32 %r5, 1, 2, %p4;",
        "setp.eq.u32 %p3, %r6, 3; or.pred %p4, !%p1, %p3; @%p4 mov.u32 %r5, 4;",
        "and.b32 %r7, %r6, %r5; st.shared.u32 [%r4], %r7; ld.shared.u32 %r8, [%r4]; @%p1 mov.u32 %r5, %r8;",
        "st.shared.u32 [%r4], %r6; bar.warp.sync -1; ld.shared.u32 %r8, [words+40]; mov.u32 %r5, %r8;",
        "ld.local.u32 %r7, [own]; ld.local.v2.u32 {%r8, %r9}, [own+8];",
        "@%p2 mov.u32 %r40, 1; st.shared.u32 [%r4], %r40; ld.shared.u32 %r41, [%r4];",
        "shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1; setp.lt.u32 %p3, %r1, 30; @%p3 mov.u32 %r5, %r7;",
    ],
)
def test_what_nothing_has_written_may_be_read_and_dropped(body):
    assert report(body).kind == "ok"


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r5, %r6;",
        "add.u32 %r5, %r6, 1;",
        "setp.eq.u32 %p3, %r6, 3; or.pred %p4, %p3, %p1; selp.u32 %r5, 1, 2, %p4;",
        "setp.eq.u32 %p3, %r6, 3; @%p3 bra END; mov.u32 %r5, 8; END:",
        "setp.eq.u32 %p3, %r6, 3; @%p3 mov.u32 %r5, 8;",
        "bar.warp.sync -1; and.b32 %r7, %r6, 3; shl.b32 %r8, %r7, 2; add.u32 %r9, %r3, %r8; ld.shared.u32 %r10, [%r9];",
        "st.shared.u32 [%r4], %r6; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];",
        "bar.warp.sync %r6;",
        "bar.sync %r6;",
        "bar.warp.sync -1; atom.shared.add.u32 %r7, [words], %r6;",
        "ld.local.v2.u32 {%r8, %r5}, [own+8];",
        "shfl.sync.bfly.b32 %r5, %r6, 1, 31, -1;",
        "@%p2 mov.u32 %r40, 1; st.shared.u32 [%r4], %r40; ld.shared.u32 %r5, [%r4];",
    ],
)
def test_it_is_undefined_to_use_it(body):
    found = report(body)
    assert found.kind == "undefined" and found.code == "unwritten-used"


def test_in_global_memory_it_is_refused_at_once():
    kernel = lt.ptx.load(TEXT.format(body="ld.global.u32 %r7, [%rd3];"))["test"]
    assert kernel.check(grid=1, block=32, args=[lt.ptx.Unwritten((32,), np.int32)]).kind == "undefined"


def test_a_read_before_the_write_of_another_thread_is_a_race():
    swapped = "xor.b32 %r7, %r4, 4; ld.shared.u32 %r5, [%r7+128]; st.shared.u32 [%r4+128], 1;"
    assert report(swapped).kind == "race"
    right = "xor.b32 %r7, %r4, 4; st.shared.u32 [%r4+128], 1; bar.warp.sync -1; ld.shared.u32 %r5, [%r7+128];"
    assert report(right).kind == "ok"


@pytest.mark.parametrize(("guard", "kind"), [("", "ok"), ("@%p1 ", "wrong-result")])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_an_expected_element_must_be_written(guard, kind, dtype):
    """The last of 32 elements is zero, and expected to be; a thread stores it, or nothing does."""
    wide = dtype == "int64"
    body = f"setp.lt.u32 %p1, %r1, 31;\nshl.b32 %r7, %r1, {3 if wide else 2};\ncvt.u64.u32 %rd4, %r7;\n"
    body += "add.s64 %rd3, %rd1, %rd4;\ncvt.u64.u32 %rd5, 0;\n"
    body += f"{guard}st.global.{'u64 [%rd3], %rd5' if wide else 'u32 [%rd3], 0'};\nret;"
    kernel = lt.ptx.load(TEXT.format(body=body))["test"]
    found = kernel.check(grid=1, block=32, args=[lt.ptx.Unwritten(32, dtype)], expect=[np.zeros(32, dtype)])
    assert found.kind == kind and ("[31] is expected, but nothing has written it" in str(found)) == bool(guard)
    given = kernel.check(grid=1, block=32, args=[np.zeros(32, dtype)], expect=[np.zeros(32, dtype)])
    assert given.ok  # it has its value of before the launch
