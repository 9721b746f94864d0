"""An address that is formed from a pointer stays inside the array of the pointer, also where another array lies."""

import numpy as np
import pytest

import lowtide as lt

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 at, .param .align 8 .b8 held[16])
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<12>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [at]; cvta.to.global.u64 %rd4, %rd1;
mov.u32 %r1, %tid.x; mul.wide.u32 %rd5, %r1, 4; setp.ne.u64 %p1, %rd3, 0;
{body}
ret;
}}
"""
BY_INDEX = "add.s64 %rd6, %rd4, %rd3; add.s64 %rd6, %rd6, %rd5; ld.global.u32 %r2, [%rd6];"
BODIES = {
    "an index": BY_INDEX,
    "a copy": BY_INDEX.replace("ld.global.u32 %r2, [%rd6]", ".shared .align 4 .b8 kept[128]; mov.u32 %r3, kept;"
        "cvt.u32.u64 %r4, %rd5; add.u32 %r3, %r3, %r4; cp.async.ca.shared.global [%r3], [%rd6], 4; cp.async.wait_all"),
    "a store": BY_INDEX.replace("ld.global.u32 %r2, [%rd6]", "st.global.u32 [%rd6], 1"),
    "an atomic": BY_INDEX.replace("ld.global.u32 %r2, [%rd6]", "red.global.add.u32 [%rd6], 1"),
    "a bulk copy": ".shared .align 16 .b8 kept[16]; mov.u32 %r3, kept; @%p1 add.s64 %rd6, %rd4, %rd3; @!%p1 bra END;"
        "setp.ne.u32 %p2, %r1, 0; @%p2 bra END; st.shared.v4.u32 [%r3], {0, 0, 0, 0}; fence.proxy.async;"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r3], 16; cp.async.bulk.commit_group;"
        "cp.async.bulk.wait_group 0; END:",
    "a struct": BY_INDEX.replace("add.s64 %rd6, %rd4", "ld.param.u64 %rd7, [held+8]; add.s64 %rd6, %rd7"),
}  # fmt: skip
UNKNOWN = {
    "one of two": (
        "selp.b64 %rd7, %rd2, %rd1, %p1; selp.b64 %rd3, 0, %rd3, %p1; add.s64 %rd6, %rd7, %rd3;"
        "ld.global.u32 %r2, [%rd6];",
        None,
    ),
    "a difference": ("sub.s64 %rd7, %rd2, %rd1; add.s64 %rd6, %rd4, %rd7; ld.global.u32 %r2, [%rd6];", None),
    "a pointer in memory": (
        "ld.global.u64 %rd6, [%rd2]; add.s64 %rd6, %rd6, %rd3; ld.global.u32 %r2, [%rd6];",
        "out-of-bounds",
    ),
}


def report(body: str, at: int) -> lt.ptx.Report:
    kernel = lt.ptx.load(TEXT.format(body=body))["k"]
    x, y = np.arange(8, dtype=np.int32), np.zeros(64, np.int32)
    args = [x, y, at, lt.ptx.Bytes(bytes(16), {8: x})]
    return kernel.check(grid=1, block=4, args=args, settings=lt.ptx.Settings(orders=1))


@pytest.mark.parametrize("what", BODIES)
def test_an_index_that_reaches_another_array_is_out_of_bounds(what: str) -> None:
    found = report(BODIES[what], 512)  # arrays lie at multiples of 256 bytes, with a gap of at least 256
    assert (found.kind, found.code) == ("out-of-bounds", "outside-pointee"), found.message
    assert " bytes are in x of 32 bytes, from whose address" in found.message and ", y[" in found.message
    assert found.places[0].line in (9, 10)
    assert report(BODIES[what], 16).ok


@pytest.mark.parametrize("what", UNKNOWN)
def test_an_address_of_which_the_array_is_not_known_may_be_in_any(what: str) -> None:
    body, code = UNKNOWN[what]
    assert report(body, 512).code == code


def test_two_launches_of_a_kernel_have_arrays_of_their_own() -> None:
    kernel = lt.ptx.load(TEXT.format(body=BY_INDEX))["k"]
    small, large = np.zeros(8, np.int32), np.zeros(200, np.int32)
    kernel.run(grid=1, block=4, args=[large, small, 512, lt.ptx.Bytes(bytes(16), {8: small})])
    found = kernel.check(grid=1, block=4, args=[small, large, 512, lt.ptx.Bytes(bytes(16), {8: small})])
    assert found.code == "outside-pointee"
