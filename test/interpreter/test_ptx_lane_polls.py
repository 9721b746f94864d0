"""Lanes that poll for what other lanes of their warp do: each thread makes progress by itself."""

import numpy as np
import pytest

import lowtide as lt

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{{
.reg .pred %p<6>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 8 .b8 kept[512];
ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, kept; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; mov.u32 %r5, 0;
@%p1 st.shared.u32 [%r2], 0; st.shared.u32 [%r4+64], 0;
bar.sync 0;
{body}
END:
ret;
}}
"""
POLL = "WAIT: ld.acquire.cta.shared.u32 %r6, [%r2]; setp.eq.u32 %p3, %r6, 0; @%p3 bra WAIT;"
SET = "st.release.cta.shared.u32 [%r2], 1;"
STORE = "st.global.u32 [%rd3], %r5;"
RIGHT = {
    "the other side of a branch": f"@!%p1 bra SET; {POLL} bra END; SET: @!%p2 bra END; {SET}",
    "with modifiers in the order of Triton": (
        f"@!%p1 bra SET; {POLL.replace('ld.acquire.cta.shared', 'ld.shared.cta.acquire')} bra END;"
        f"SET: @!%p2 bra END; {SET.replace('st.release.cta.shared', 'st.shared.cta.release')}"
    ),
    "after the branch": f"@!%p1 bra ON; {POLL} ON: @%p2 {SET} bar.warp.sync -1; {STORE}",
    "after the branch, then a barrier": f"@!%p1 bra ON; {POLL} ON: @!%p2 bra MET; {SET} MET: bar.sync 0; {STORE}",
    "each lane for the one before it": (
        "@%p1 bra ON; WAIT: ld.acquire.cta.shared.u32 %r6, [%r4+60]; setp.eq.u32 %p3, %r6, 0; @%p3 bra WAIT;"
        "ON: st.release.cta.shared.u32 [%r4+64], 1;"
    ),
    "a lock for each lane in turn": (
        "LOCK: atom.acquire.cta.shared.cas.b32 %r6, [%r2], 0, 1; setp.ne.u32 %p3, %r6, 0; @%p3 bra LOCK;"
        "ld.global.u32 %r7, [%rd1]; add.u32 %r7, %r7, 1; st.global.u32 [%rd1], %r7;"
        "st.release.cta.shared.u32 [%r2], 0;"
    ),
    "a phase of an mbarrier": (
        "@%p1 mbarrier.init.shared::cta.b64 [%r2+8], 1; bar.sync 0; @!%p1 bra ON;"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+8], 0; @!%p3 bra WAIT; bra END;"
        "ON: @%p2 mbarrier.arrive.shared::cta.b64 _, [%r2+8];"
    ),
}
STUCK = {
    "never": f"@!%p1 bra END; {POLL}",
    "after a barrier of the CTA": f"@!%p1 bra ON; {POLL} ON: bar.sync 0; @%p2 {SET}",
    "after a barrier of the warp": f"@!%p1 bra ON; {POLL} ON: bar.warp.sync -1; @%p2 {SET}",
    "a lock that is not given back": (
        "LOCK: atom.acquire.cta.shared.cas.b32 %r6, [%r2], 0, 1; setp.ne.u32 %p3, %r6, 0; @%p3 bra LOCK;"
    ),
    "one for the other": (
        "@%p1 st.shared.u32 [%r2+4], 0; bar.sync 0; @%p1 bra A; @%p2 bra B; bra END;"
        f"A: ld.acquire.cta.shared.u32 %r6, [%r2+4]; setp.eq.u32 %p3, %r6, 0; @%p3 bra A; {SET} bra END;"
        "B: ld.acquire.cta.shared.u32 %r6, [%r2]; setp.eq.u32 %p3, %r6, 0; @%p3 bra B;"
        "st.release.cta.shared.u32 [%r2+4], 1;"
    ),
}  # fmt: skip


def report(body: str, block: int = 32, seed: int = 0) -> lt.ptx.Report:
    settings = lt.ptx.Settings(seed=seed, orders=2, seconds=1)
    kernel = lt.ptx.load(TEXT.format(body=body))["k"]
    return kernel.check(grid=1, block=block, args=[np.zeros(64, np.int32)], settings=settings)


@pytest.mark.parametrize("block", [32, 40])  # the steps of a lock grow with the square of the lanes
@pytest.mark.parametrize("what", RIGHT)
def test_a_lane_may_poll_for_another_lane_of_its_warp(what: str, block: int) -> None:
    found = report(RIGHT[what], block)
    assert found.ok, found.message
    if "lock" in what:
        assert found.arrays["x"][0] == block


@pytest.mark.parametrize("what", STUCK)
def test_lanes_that_wait_for_ever_are_a_deadlock_where_they_poll(what: str) -> None:
    found = report(STUCK[what])
    assert found.kind == "deadlock", found.message
    assert "no warp can continue" in found.message and ("ld.acquire" in found.message or "atom." in found.message)


def test_lanes_that_are_behind_at_a_shuffle_are_not_judged() -> None:
    """The poll ends by a store of the same block, so the lanes would come in time."""
    found = report(f"@!%p1 bra ON; {POLL} ON: @%p2 {SET} shfl.sync.idx.b32 %r7, %r1, 0, 31, -1;")
    assert (found.status, found.code) == (2, "lanes-behind")
