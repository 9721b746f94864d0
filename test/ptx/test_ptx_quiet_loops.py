"""Loops in which nothing changes any more are deadlocks. Loops that count, or whose memory others change, go on."""

import numpy as np
import pytest

import lowtide as lt

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{
.reg .pred %p<6>; .reg .b32 %r<16>; .reg .b64 %rd<9>; .shared .align 4 .b8 found[4]; .local .align 4 .b8 own[4];
ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0;
setp.ne.u32 %p2, %r2, 0; mov.u32 %r3, found; mov.u32 %r4, 0; mov.u32 %r8, own; st.local.u32 [%r8], 0;
BODY
END:
ret;
}
"""
# Thread 0 polls a word, and all threads learn from it by shared memory whether it is 0.
POLLED = """L: bar.sync 0; @%p1 ld.acquire.gpu.global.u32 %r5, [%rd1]; @%p1 st.shared.u32 [%r3], %r5; bar.sync 0;
ld.shared.u32 %r6, [%r3]; EACH setp.eq.u32 %p3, %r6, 0; @%p3 bra L;"""
LOCKED = """L: bar.sync 0; @%p1 atom.acq_rel.gpu.global.cas.b32 %r5, [%rd1], 0, 1; @%p1 st.shared.u32 [%r3], %r5;
bar.sync 0; ld.shared.u32 %r6, [%r3]; setp.eq.u32 %p3, %r6, 1; @%p3 bra L;"""
FREED = "bar.sync 0; @%p1 atom.acq_rel.gpu.global.exch.b32 %r5, [%rd1], 0;"
SET = "@%p1 st.release.gpu.global.u32 [%rd1], 1;"
SLOWLY = "M: add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 300; @%p4 bra M;"
COUNTED = "add.u32 %r4, %r4, 1; setp.gt.u32 %p4, %r4, 20; @%p4 bra END;"
CLOCKED = "mov.u32 %r4, %clock; setp.gt.u32 %p4, %r4, 999; @%p4 bra END;"
IN_MEMORY = "ld.local.u32 %r4, [%r8]; add.u32 %r4, %r4, 1; st.local.u32 [%r8], %r4; "
IN_MEMORY += "setp.gt.u32 %p4, %r4, 20; mov.u32 %r4, 0; @%p4 bra END;"

HANGS = {
    "nobody sets the flag": POLLED.replace("EACH", ""),
    "one CTA waits, the other has ended": f"@%p2 bra END; {POLLED.replace('EACH', '')}",
    "the lock is not freed": LOCKED,
    "a warp waits for the CTA": "setp.gt.u32 %p5, %r1, 31; @%p5 bra W; "
    + POLLED.replace("bar.sync 0", "bar.sync 1, 32").replace("EACH", "")
    + " W: bar.sync 0;",
    "no poll": "L: ld.local.u32 %r6, [%r8]; bra L;",
    "a store of what is there": "L: st.shared.u32 [%r3], 7; bra L;",
}  # fmt: skip
GOES_ON = {
    "the flag is set": f"@%p2 bra S; {POLLED.replace('EACH', '')} bra END; S: mov.u32 %r7, 0; {SLOWLY} {SET}",
    "the lock is freed": f"{LOCKED} mov.u32 %r7, 0; {SLOWLY} {FREED}",
    "the iterations are counted": POLLED.replace("EACH", COUNTED),
    "the iterations are counted in memory": POLLED.replace("EACH", IN_MEMORY),
    "time is over": POLLED.replace("EACH", CLOCKED),
}


def check(body: str, seed: int, max_steps: int = 100_000) -> lt.ptx.Report:
    kernel = lt.ptx.load(KERNEL.replace("BODY", body), "k.ptx")["k"]
    settings = lt.ptx.Settings(seed=seed, orders=1, max_steps=max_steps)
    return kernel.check(grid=2, block=64, args=[np.zeros(4, np.int32)], settings=settings)


@pytest.mark.parametrize("what", HANGS)
def test_a_loop_in_which_nothing_changes_is_a_deadlock(what: str) -> None:
    for seed in range(2):
        report = check(HANGS[what], seed)
        assert report.kind == "deadlock", report.message
    if "ld.acquire" in HANGS[what]:
        assert "ld.acquire.gpu.global.u32" in report.message and "which is 0, to change" in report.message


@pytest.mark.parametrize("what", GOES_ON)
def test_a_loop_that_ends_is_none(what: str) -> None:
    for seed in range(2):
        assert check(GOES_ON[what], seed).kind == "ok"


def test_a_loop_that_changes_memory_runs_to_the_limit() -> None:
    body = "mov.u32 %r7, 0; L: red.relaxed.gpu.global.add.u32 [%rd1], 1; bra L;"
    assert check(body, 0, max_steps=500).kind == "step-budget"
