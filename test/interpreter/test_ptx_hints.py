"""Instructions that change no number, zeros in bulk, and those that are refused by their name."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError, NotInterpreted

PLACE = ".shared .align 16 .b8 place[256];"


def result(body, size=32, **options):
    text = kernel(f"add.s64 %rd11, %rd1, %rd9;\nmov.u32 %r5, place;\n{body}", "z", PLACE)
    return run(text, {"z": ("i32", np.arange(size))}, **options)["z"]


@pytest.mark.parametrize(
    "instruction",
    [
        *(
            "prefetch.global.L2 [%rd1];",
            "prefetch.L1 [%rd1+4];",
            "prefetch.local.L1 [0];",
            "prefetch.global.L2::evict_last [%rd1];",
        ),
        *("prefetchu.L1 [%rd1];", "applypriority.global.L2::evict_normal [%rd1], 128;", "nanosleep.u32 100;"),
        *("pmevent 1;", "createpolicy.fractional.L2::evict_first.b64 %rd20, 0f3F800000;"),
    ],
)
def test_hints_change_nothing(instruction):
    np.testing.assert_array_equal(result(instruction), np.arange(32))


def test_a_discarded_line_is_not_read_until_it_is_written():
    body = "setp.eq.u32 %p1, %r1, 0; @%p1 discard.global.L2 [%rd1+128], 128; bar.warp.sync -1;"
    read = "ld.global.u32 %r6, [%rd11{}]; st.global.u32 [%rd11{}], %r6;"
    result(body + read.format("", ""), 96)
    result(f"{body} st.global.u32 [%rd11+128], 0; {read.format('+128', '+128')}", 96)
    with pytest.raises(InterpreterError, match=r"\[uninitialised-read\]"):
        result(body + read.format("+128", "+128"), 96)
    with pytest.raises(NotInterpreted, match=r"\[discard-size\]"):
        result(body.replace("], 128", "], 64"), 96)


def test_zeros_are_stored_in_bulk():
    body = """setp.eq.u32 %p1, %r1, 0; mov.b64 %rd20, 100;
@%p1 st.bulk.weak.shared::cta [%r5], {}, {};
{}
shl.b32 %r6, %r1, 2; add.s32 %r7, %r5, %r6; ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd11], %r8;"""
    assert (result(body.format(128, 0, "bar.warp.sync -1;")) == 0).all()
    for size, value, sync, code in (
        (128, 0, "", "shared-race"),
        (64, 0, "bar.warp.sync -1;", "uninitialised-read"),
        ("%rd20", 0, "", "bulk-store"),
        (128, 1, "", "bulk-zero"),
        (512, 0, "", "out-of-bounds"),
    ):
        with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
            result(body.format(size, value, sync), shared_memory=0)


def test_the_cta_of_an_address_in_a_cluster():
    body = """mov.u32 %r10, %cluster_ctarank; xor.b32 %r11, %r10, 1; mapa.shared::cluster.u32 %r12, %r5, %r11;
getctarank.shared::cluster.u32 %r13, %r12; mov.u64 %rd20, place; cvta.shared::cluster.u64 %rd21, %rd20;
getctarank.u64 %r14, %rd21; mad.lo.s32 %r15, %r13, 10, %r14; mad.lo.s32 %r16, %r10, 32, %r1;
mul.wide.u32 %rd22, %r16, 4; add.s64 %rd23, %rd1, %rd22; st.global.u32 [%rd23], %r15;"""
    np.testing.assert_array_equal(result(body, 64, grid=2, cluster=2), np.repeat([10, 1], 32))


def test_policies_of_caches_change_no_number():
    body = """createpolicy.fractional.L2::evict_last.b64 %rd20, 1.0;
createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd21, [%rd11], 4, 8;
st.global.L1::evict_last.L2::cache_hint.b32 [%rd11], %r1, %rd20;
ld.global.L1::evict_first.L2::cache_hint.b32 %r6, [%rd11], %rd20; ldu.global.u32 %r7, [%rd11]; add.u32 %r6, %r6, %r7;
st.global.L1::evict_unchanged.b32 [%rd11], %r6;
fence.proxy.alias; red.global.add.L2::cache_hint.u32 [%rd11], 3, %rd20;
atom.global.add.L2::cache_hint.u32 %r8, [%rd11], 4, %rd21; add.u32 %r8, %r8, 4;
st.mmio.relaxed.sys.global.u32 [%rd11], %r8;
ld.mmio.relaxed.sys.global.u32 %r9, [%rd11]; st.global.u32 [%rd11], %r9;"""
    np.testing.assert_array_equal(result(body), 2 * np.arange(32) + 7)


def test_clocks_grow():
    body = """mov.u64 %rd20, %clock64; mov.u64 %rd22, %globaltimer; bar.warp.sync -1; mov.u32 %r6, %clock;
LOOP: mov.u64 %rd21, %clock64; setp.le.u64 %p1, %rd21, %rd20; @%p1 bra LOOP;
mov.u64 %rd23, %globaltimer; setp.ge.u64 %p1, %rd23, %rd22; selp.b32 %r7, 1, 0, %p1; st.global.u32 [%rd11], %r7;"""
    assert (result(body) == 1).all()


@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], 32;", "no-tcgen05"),
        ("tex.2d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r1, %r2}];", "no-textures"),
        ("txq.width.b32 %r6, [%rd1];", "no-textures"),
        ("suld.b.1d.b32.trap {%r6}, [%rd1, {%r1}];", "no-surfaces"),
        ("sust.b.1d.b32.trap [%rd1, {%r1}], {%r6};", "no-surfaces"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r6}, {%r6}, {%r6}, {%r6}, %r6, 0;", "no-sparse"),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%r6}, %rd1, %rd1, %r6, 0, 1, 1, 1;", "no-sparse"),
        (
            "cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r5], [%rd1, {%r1}], [1];",
            "no-im2col",
        ),
        ("multimem.ld_reduce.global.add.f32 %r6, [%rd1];", "no-multimem"),
        ("alloca.u64 %rd20, 16;", "no-alloca"),
        ("shfl.up.b32 %r6, %r1, 1, 0;", "no-member-mask"),
        ("vote.ballot.b32 %r6, %p1;", "no-member-mask"),
        ("vadd4.u32.u32.u32.add %r6, %r1, %r1, %r1;", "no-video"),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 {%r6}, {%r6}, {%r6}, {%r6};", "no-mma-kind"),
        ("cp.async.bulk.tensor.1d.shared::cta.global.cta_group::1 [%r5], [%rd1, {%r1}], [1];", "no-cta-group"),
    ],
)
def test_what_is_not_interpreted_is_refused_by_name(instruction, code):
    found = rf"`{instruction.split()[0]} .*` at test\.ptx:\d+: .*\[{code}\]"
    with pytest.raises(NotInterpreted, match=found):
        result(instruction)
