"""Bulk copies and reductions, and asynchronous stores, with planted faults beside the right kernels."""

import numpy as np
import pytest
from ptx_kernels import HEADER, kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter import launching
from lowtide.interpreter.machine.interleavings import Report
from lowtide.launches import Array, Launch, LaunchRecord, Pointer, TensorMap

T = np.arange(64)
PLACE = ".shared .align 16 .b8 place[512];\n.shared .align 8 .b8 bars[16];"
START = """mov.u32 %r5, place;
shl.b32 %r6, %r1, 2;
add.s32 %r7, %r5, %r6;
add.s64 %rd11, %rd1, %rd9;
setp.eq.u32 %p1, %r1, 0;
"""
INIT = """@%p1 mbarrier.init.shared.b64 [bars], 1;
@%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bars], 0; @!%p2 bra WAIT;\n"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bars], {bytes};\n"


def result(body, buffers, threads=64, seed=0, **options):
    return run(kernel(START + body, list(buffers), PLACE), buffers, threads=threads, seed=seed, **options)


# Into shared memory ---------------------------------------------------------------------------------------------------

LOAD = (
    "{start}\n"
    + INIT
    + EXPECT
    + """@%p1 cp.async.bulk.{to}.global.mbarrier::complete_tx::bytes{hint}
 [{place}], [%rd2{source}], {size}, [bars]{policy};
{wait}ld.shared.u32 %r3, [%r7];
st.global.u32 [%rd11], %r3;"""
)
LOADS = {"to": "shared::cluster", "hint": "", "policy": "", "bytes": 256, "size": 256, "wait": WAIT, "source": ""}
LOADS |= {"place": "%r5", "start": ""}


def loaded(seed=0, **parts):
    buffers = {"z": ("i32", np.zeros(64)), "x": ("i32", 3 * np.arange(72))}
    return result(LOAD.format(**LOADS | parts), buffers, seed=seed)["z"]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"to": "shared::cta"},
        {"hint": ".L2::cache_hint", "policy": ", %rd1"},
        {"hint": ".multicast::cluster", "policy": ", 1"},
        {"source": "+32"},
    ],
)
def test_bytes_land_in_shared_memory_and_signal(parts):
    np.testing.assert_array_equal(loaded(**parts), 3 * (T + (8 if "source" in parts else 0)))


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"wait": ""}, "copy-in-flight|shared-race|phase-unwaited|uninitialised-read|race-with-read"),
        ({"bytes": 240}, "bytes-unexpected|copy-in-flight|bytes-too-late"),
        ({"bytes": 272}, "agents-deadlock"),
        ({"start": "mov.b32 %r20, 248;", "size": "%r20"}, "bulk-multiple"),
        ({"size": 0}, "bulk-multiple"),
        ({"source": "+8"}, "bulk-multiple"),
        ({"place": "%r5+4"}, "bulk-multiple"),
        ({"source": "+48"}, "out-of-bounds|outside-matrices"),
        ({"size": 512, "bytes": 512}, "outside-matrices"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_faults_of_loads_are_found(parts, code, seed):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        loaded(seed, **parts)


def test_a_bulk_copy_without_an_expectation_and_by_a_whole_warp():
    alone = LOAD.replace(EXPECT, "@%p1 mbarrier.arrive.shared.b64 _, [bars];\n")
    buffers = {"z": ("i32", np.zeros(64)), "x": ("i32", 3 * np.arange(72))}
    with pytest.raises(InterpreterError, match=r"\[(bytes-too-late|copy-in-flight|shared-race|uninitialised-read)\]"):
        result(alone.format(**LOADS), buffers)
    with pytest.raises(InterpreterError, match=r"32 lanes start a bulk copy.*\[one-thread\]"):
        result(LOAD.replace("@%p1 cp", "cp").format(**LOADS), buffers)


# Into global memory ---------------------------------------------------------------------------------------------------

STORE = """st.shared.b32 [%r7], {value};
{fence}bar.sync 0;
@%p1 {copy} [%rd1], [%r5], 256;
{commit}{wait}{after}"""
STORES = {
    "value": "%r1",
    "fence": "fence.proxy.async.shared::cta;\n",
    "copy": "cp.async.bulk.global.shared::cta.bulk_group",
    "commit": "cp.async.bulk.commit_group;\n",
    "wait": "cp.async.bulk.wait_group.read 0;\n",
    "after": "",
}


def stored(dtype="i32", seed=0, z=0, domain="float", **parts):
    body = "cvt.rn.f32.u32 %r10, %r1;\n" + STORE.format(**STORES | parts)
    size = 64 * 4 // {"i32": 4, "f32": 4, "i64": 8, "f16": 2, "bf16": 2}[dtype]
    return result(body, {"z": (dtype, np.full(size, z))}, seed=seed, domain=domain)["z"]


@pytest.mark.parametrize("domain", ["float", "exact"])
def test_bytes_of_shared_memory_are_stored(domain):
    np.testing.assert_array_equal(stored(domain=domain), T)
    np.testing.assert_array_equal(stored(domain=domain, fence="membar.proxy.async.shared::cta;\n"), T)
    np.testing.assert_array_equal(stored("f32", value="%r10", domain=domain), T)
    np.testing.assert_array_equal(stored("f32", value="0x40000000", domain=domain), 2 + 0 * T)


def test_the_bits_of_floats_may_be_stored_as_integers():
    np.testing.assert_array_equal(stored(value="%r10"), T.astype(np.float32).view(np.int32))


@pytest.mark.parametrize(
    ("how", "dtype", "value", "before", "expected"),
    [
        ("add.u32", "i32", "%r1", 5, T + 5),
        ("add.s32", "i32", "-3", 5, 0 * T + 2),
        ("min.s32", "i32", "-3", 5, 0 * T - 3),
        ("min.u32", "i32", "-3", 5, 0 * T + 5),
        ("max.s32", "i32", "%r1", 20, np.maximum(T, 20)),
        ("and.b32", "i32", "%r1", 21, T & 21),
        ("or.b32", "i32", "%r1", 21, T | 21),
        ("xor.b32", "i32", "%r1", 21, T ^ 21),
        ("inc.u32", "i32", "%r1", 21, np.where(T <= 21, 0, 22)),
        ("dec.u32", "i32", "%r1", 21, np.where(T < 21, T, 20)),
        ("add.f32", "f32", "%r10", 0.5, T + 0.5),
        ("add.noftz.f16", "f16", "0x3C004000", 1, np.tile([3, 2], 64)),
        ("add.noftz.bf16", "bf16", "0x3F804000", 1, np.tile([3, 2], 64)),
        ("max.f16", "f16", "0x3C004000", 1.5, np.tile([2, 1.5], 64)),
        ("add.u64", "i64", "1", 7, np.full(32, 7 + 2**32 + 1)),
    ],
)
def test_copies_reduce_into_global_memory(how, dtype, value, before, expected):
    copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{how}"
    np.testing.assert_array_equal(stored(dtype, z=before, value=value, copy=copy), expected)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"fence": ""}, "async-proxy"),
        ({"after": "bar.sync 0; st.shared.u32 [%r7], 0;", "wait": ""}, "race-with-open-read"),
        ({"commit": ""}, "store-unread"),
        ({"wait": ""}, "store-unread"),
        ({"after": "@%p1 ld.global.u32 %r3, [%rd1];"}, "global-race"),
        ({"copy": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", "fence": ""}, "async-proxy"),
        ({"copy": "cp.async.bulk.global.shared::cta.bulk_group", "value": "%r9"}, "register-unwritten-stored"),
    ],
)
def test_faults_of_stores_are_found(parts, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        stored(**parts)
    after = {"after": "@%p1 ld.global.u32 %r3, [%rd1];", "wait": "cp.async.bulk.wait_group 0;\n"}
    np.testing.assert_array_equal(stored(**after), T)


FENCE, OF_ONE = "fence.proxy.async.shared::cta;", "setp.eq.u32 %p3, %r1, {}; @%p3 fence.proxy.async.shared::cta;"


@pytest.mark.parametrize(
    ("between", "is_right"),
    [
        (f"bar.sync 0; {FENCE}", True),
        (f"bar.sync 0; @%p1 {FENCE}", True),
        (f"bar.sync 0; {OF_ONE.format(1)}", False),
        (f"bar.sync 0; {OF_ONE.format(1)} bar.warp.sync -1;", True),
        (f"bar.sync 0; {OF_ONE.format(32)}", False),
        (f"bar.sync 0; {OF_ONE.format(32)} bar.sync 0;", True),
        (f"@%p1 {FENCE} bar.sync 0;", False),
        (f"bar.sync 0; {FENCE} st.shared.b32 [%r7], %r1; bar.sync 0;", False),
    ],
)
def test_a_proxy_fence_may_follow_the_barrier_on_the_path_to_the_copy(between, is_right):
    body = STORE.replace("{fence}bar.sync 0;", between).format(**STORES)
    if is_right:
        np.testing.assert_array_equal(result(body, {"z": ("i32", np.zeros(64))})["z"], T)
        return
    with pytest.raises(InterpreterError, match=r"no proxy fence in between.*\[async-proxy\]"):
        result(body, {"z": ("i32", np.zeros(64))})


LANDED = (
    INIT.replace("[bars], 1", "[bars], 64")
    + "add.s64 %rd12, %rd2, %rd9; cp.async.ca.shared.global [%r7], [%rd12], 4;\n"
    + "cp.async.mbarrier.arrive.noinc.shared.b64 [bars];\n"
    + WAIT
)


@pytest.mark.parametrize(("fence", "is_right"), [(f"@%p1 {FENCE}", True), ("", False), (OF_ONE.format(32), False)])
def test_what_cp_async_signals_needs_a_proxy_fence_of_a_thread_on_the_path(fence, is_right):
    body = STORE.replace("{fence}bar.sync 0;", fence).replace("st.shared.b32 [%r7], {value};", LANDED)
    buffers = {"z": ("i32", np.zeros(64)), "x": ("i32", 3 * T)}
    if is_right:
        np.testing.assert_array_equal(result(body.format(**STORES), buffers)["z"], 3 * T)
        return
    with pytest.raises(InterpreterError, match=r"\[async-proxy\]"):
        result(body.format(**STORES), buffers)


def test_bytes_that_were_never_written_are_not_copied():
    body = STORE.format(**STORES | {"value": "1"}).replace("st.shared", "@%p1 st.shared")
    with pytest.raises(InterpreterError, match=r"\[bulk-unwritten\]"):
        result(body, {"z": ("i32", np.zeros(64))})


def test_prefetches_change_nothing():
    body = (
        "cp.async.bulk.prefetch.L2.global [%rd1], 64; cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], 64, %rd1;"
    )
    assert (result(body, {"z": ("i32", np.ones(64))})["z"] == 1).all()


# Between CTAs ---------------------------------------------------------------------------------------------------------

# Each of two CTAs fills the other's memory; %r20 is the other's rank.
BETWEEN = (
    """mov.u32 %r19, %cluster_ctarank;
xor.b32 %r20, %r19, 1;
mad.lo.s32 %r21, %r19, 1000, %r1;
st.shared.u32 [%r7], %r21;
st.shared.u32 [%r7+256], 7;
fence.proxy.async.shared::cta;
"""
    + INIT
    + """barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
mov.u32 %r22, bars;
mapa.shared::cluster.u32 %r23, %r22, %r20;
add.s32 %r24, %r5, 256;
mapa.shared::cluster.u32 %r25, %r24, %r20;
add.s32 %r26, %r7, 256;
mapa.shared::cluster.u32 %r27, %r26, %r20;
"""
    + EXPECT
    + """{copy}
{wait}ld.shared.u32 %r3, [%r7+256];
mad.lo.s32 %r28, %r19, 64, %r1;
mul.wide.u32 %rd30, %r28, 4;
add.s64 %rd31, %rd1, %rd30;
st.global.u32 [%rd31], %r3;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;"""
)
COPY = "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r25], [%r5], 256, [%r23];"
REDUCE = (
    "@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{} [%r25], [%r5], 256, [%r23];"
)
ASYNC = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r27], %r21, [%r23];"
PAIRS = """shl.b32 %r30, %r1, 3; add.s32 %r30, %r30, %r24; mapa.shared::cluster.u32 %r31, %r30, %r20;
setp.lt.u32 %p3, %r1, 32; mad.lo.s32 %r32, %r1, 2, 0; mad.lo.s32 %r32, %r19, 1000, %r32; add.s32 %r33, %r32, 1;
@%p3 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%r31], {%r32, %r33}, [%r23];"""
OTHERS = np.concatenate([1000 + T, T])


def between(copy, seed=0, wait=WAIT, size=256):
    body = BETWEEN.format(copy=copy, wait=wait, bytes=size)
    return result(body, {"z": ("i32", np.zeros(128))}, grid=2, cluster=2, seed=seed)["z"]


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (COPY, OTHERS),
        (REDUCE.format("add.u32"), OTHERS + 7),
        (REDUCE.format("and.b32"), OTHERS & 7),
        (REDUCE.format("max.s32"), np.maximum(OTHERS, 7)),
        (ASYNC, OTHERS),
        (PAIRS, OTHERS),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_ctas_of_a_cluster_fill_each_others_memory(copy, expected, seed):
    np.testing.assert_array_equal(between(copy, seed), expected)


@pytest.mark.parametrize("copy", [COPY, REDUCE.format("add.u32"), ASYNC])
@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        ({"wait": ""}, "copy-in-flight|shared-race|phase-unwaited|race-with-read|cluster-ends-early"),
        ({"size": 272}, "agents-deadlock"),
        ({"size": 128}, "bytes-unexpected|bytes-too-late|copy-in-flight|shared-race|race-with-read"),
    ],
)
def test_faults_between_ctas_are_found(copy, parts, codes):
    with pytest.raises(InterpreterError, match=rf"\[({codes})\]"):
        between(copy, **parts)


def test_a_copy_signals_an_mbarrier_of_the_cta_that_it_fills():
    with pytest.raises(InterpreterError, match=r"\[bulk-home\]"):
        between(COPY.replace("[%r23]", "[bars]"))


@pytest.mark.parametrize(("moved", "holds"), [("%r21", True), ("%r27", False), ("%r23", False)])
def test_stored_data_may_come_from_memory_and_addresses_may_not(moved, holds):
    """For a verdict on every order of warps."""
    report = Report()
    add = f"ld.shared.u32 %r29, [%r7]; sub.s32 %r29, %r29, %r21; add.s32 {moved}, {moved}, %r29; {ASYNC}"
    body = BETWEEN.format(copy=add, wait=WAIT, bytes=256)
    found = result(body, {"z": ("i32", np.zeros(128))}, grid=2, cluster=2, report=report)["z"]
    np.testing.assert_array_equal(found, OTHERS)
    assert report.holds == holds


# Reductions of boxes --------------------------------------------------------------------------------------------------

BOXES = (
    HEADER
    + """.visible .entry test(.param .align 64 .b8 map[128])
{
.shared .align 128 .b8 place[128];
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
.reg .pred %p<3>;
mov.u32 %r1, %tid.x;
mov.u32 %r5, place;
shl.b32 %r6, %r1, 2;
add.s32 %r7, %r5, %r6;
cvt.rn.f32.u32 %r8, %r1;
st.shared.b32 [%r7], VALUE;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.b64 %rd1, map;
setp.eq.u32 %p1, %r1, 0;
@%p1 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {4, 2}];
@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.HOW.tile.bulk_group [%rd1, {4, 2}], [%r5];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
ret;
}
"""
)


@pytest.mark.parametrize(
    ("dtype", "how", "change"), [("f32", "add", np.add), ("s32", "max", np.maximum), ("s32", "xor", np.bitwise_xor)]
)
def test_boxes_reduce_into_a_tensor_as_far_as_it_reaches(dtype, how, change):
    """A box of 4 × 8 elements at (2, 4) of a tensor of 5 × 8: three rows of four elements exist."""
    element = {"s32": "i32"}.get(dtype, dtype)
    before = np.full((5, 8), 3, "f4" if dtype == "f32" else "i4")
    record = LaunchRecord(
        {"x": Array(element, (5, 8), (8,), before)},
        (Launch("test", (1, 1, 1), (32, 1, 1), (TensorMap(Pointer("x"), element, (5, 8), (8,), (4, 8), 0),)),),
    )
    text = BOXES.replace("HOW", how).replace("VALUE", "%r8" if dtype == "f32" else "%r1")
    found = launching.run(text, record)["x"]
    expected = before.copy()
    expected[2:, 4:] = change(before[2:, 4:], np.arange(32).reshape(4, 8)[:3, :4].astype(before.dtype))
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(InterpreterError, match=r"\[reduced-box-address\]"):
        launching.run(text.replace("[%r5]", "[%r5+64]"), record)
