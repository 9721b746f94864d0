"""A load that races with a write is a reliance if nothing depends on what it finds, and a race if something does."""

import numpy as np
import pytest

import lowtide as lt

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{
.reg .pred %p<6>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 4 .b8 kept[512];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
setp.eq.u32 %p2, %r1, 65; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; mov.u32 %r5, 1; mov.u32 %r6, 0;
shl.b32 %r7, %r1, 2; mov.u32 %r8, kept; add.u32 %r7, %r7, %r8; shr.u32 %r8, %r1, 5; setp.eq.u32 %p4, %r8, 1;
setp.eq.u32 %p5, %r8, 2;
BODY
END:
ret;
}
"""
LOAD = "ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1;"
STORE = "@%p1 st.global.u32 [%rd1], %r3;"
# What is done between the load by all threads and the store by thread 0, and after it.
FORGIVEN = {
    "nothing": ("", ""),
    "computes": ("mul.lo.u32 %r4, %r3, %r3; selp.b32 %r4, %r5, %r4, %p1;", "xor.b32 %r2, %r2, %r4;"),
    "stores where the guard is false": ("", "@%p1 st.global.u32 [%rd4], %r3;"),
    "stores what does not depend on it": ("and.b32 %r4, %r3, 0;", "st.global.u32 [%rd4], %r4;"),
    "shuffles what no lane uses": ("shfl.sync.down.b32 %r4, %r3, 1, 31, -1;", ""),
    "uses it after a barrier": ("bar.sync 0; @%p2 st.global.u32 [%rd4], %r3; bar.sync 0;", ""),
}
USED = {
    "a store before": ("@%p2 st.global.u32 [%rd4], %r3;", ""),
    "a store after": ("", "@%p2 st.global.u32 [%rd4], %r3;"),
    "a store to shared memory": ("", "st.shared.u32 [%r7], %r3;"),
    "an address": ("and.b32 %r4, %r3, 4; mul.wide.u32 %rd5, %r4, 4; add.s64 %rd5, %rd2, %rd5;", "ld.u32 %r4, [%rd5];"),
    "a branch": ("setp.gt.u32 %p3, %r3, 7;", "@%p3 bra END;"),
    "a guard": ("setp.gt.u32 %p3, %r3, 7;", "@%p3 st.global.u32 [%rd4], %r5;"),
    "a shuffle to a lane that stores": ("shfl.sync.down.b32 %r3, %r3, 1, 31, -1;", ""),
    "a vote": ("setp.gt.u32 %p3, %r3, 7;", "vote.sync.any.pred %p3, %p3, -1;"),
    "an atomic operation": ("", "red.global.add.u32 [%rd2], %r3;"),
}  # fmt: skip


def check(body: str, strict: bool = False, seed: int = 0) -> lt.ptx.Report:
    kernel = lt.ptx.load(KERNEL.replace("BODY", body))["k"]
    args = [np.zeros(4, np.int32), np.zeros(96, np.int32)]
    settings = lt.ptx.Settings(strict=strict, seed=seed, orders=2)
    return kernel.check(grid=1, block=96, args=args, settings=settings)


@pytest.mark.parametrize("what", FORGIVEN)
def test_a_load_that_races_is_forgiven_if_nothing_uses_its_value(what: str) -> None:
    between, after = FORGIVEN[what]
    report = check(f"{LOAD} {between} {STORE} {after}")
    is_ordered = "bar.sync" in between
    assert (report.kind, [each.name for each in report.relies]) == ("ok", [] if is_ordered else ["unused-reads"])
    assert is_ordered or check(f"{LOAD} {between} {STORE} {after}", strict=True).kind == "race"


@pytest.mark.parametrize("what", USED)
def test_it_is_a_race_if_an_effect_depends_on_its_value(what: str) -> None:
    between, after = USED[what]
    for seed in range(2):
        report = check(f"{LOAD} {between} {STORE} {after}", seed=seed)
        assert report.kind == "race" and "ld.global.u32 %r2, [%rd1];" in report.message


def test_a_later_load_without_use_does_not_hide_one_with() -> None:
    """Warp 2 loads after warp 1, which uses its value; nothing orders either before the store of warp 0."""
    first, then = "@%p4 ld.global.u32 %r2, [%rd1];", "@%p5 ld.global.u32 %r3, [%rd1];"
    body = f"{first} USE bar.sync 1, 96; {then} @%p1 st.global.u32 [%rd1], %r5;"
    waits = body.replace("bar.sync 1, 96;", "@%p1 bra STORE; setp.lt.u32 %p3, %r1, 32; @%p3 bra END; bar.sync 1, 64;")
    waits = waits.replace("@%p1 st", "bra END; STORE: st")
    for seed in range(3):
        assert check(waits.replace("USE", ""), seed=seed).verdict == "ok, relies on unused-reads"
        used = check(waits.replace("USE", "@%p4 st.global.u32 [%rd4], %r2;"), seed=seed)
        assert used.kind == "race", used.message


def test_counters_may_be_loaded_by_all_threads_in_a_loop() -> None:
    """Each iteration loads, stores and waits at a barrier; without the barrier, thread 0 races with later loads."""
    loop = f"L: {LOAD} {STORE} bar.sync 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 3; @%p3 bra L;"
    assert check(loop).verdict == "ok, relies on unused-reads"
    last = "@%p2 st.global.u32 [%rd4], %r2;"
    assert check(f"{loop} {LOAD} {last}").verdict == "ok, relies on unused-reads"
    assert check(f"{loop.replace('bar.sync 0;', '')} {LOAD} {last}").kind == "race"
