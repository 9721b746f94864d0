"""mbarriers in all forms, with planted faults beside the right kernels."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

T = np.arange(64)
PLACE = ".shared .align 16 .b8 place[512];\n.shared .align 8 .b8 bars[16];"
START = """mov.u32 %r5, place;
shl.b32 %r6, %r1, 2;
add.s32 %r7, %r5, %r6;
add.s64 %rd11, %rd1, %rd9;
mov.u64 %rd20, bars;
cvta.shared.u64 %rd21, %rd20;
setp.eq.u32 %p1, %r1, 0;
st.shared.u32 [%r7], 0;
st.shared.u32 [%r7+256], 0;
@%p1 mbarrier.init.shared.b64 [bars], {count};
bar.sync 0;
"""
READ = """xor.b32 %r9, %r6, 128;
add.s32 %r9, %r9, %r5;
ld.shared.u32 %r3, [%r9];
st.global.u32 [%rd11], %r3;
"""


def result(body, count=64, threads=64, seed=0, **parameters):
    text = kernel(START.format(count=count) + body, "z", PLACE)
    return run(text, {"z": ("i32", np.zeros(threads))}, threads=threads, seed=seed, **parameters)["z"]


def loop(wait, name="WAIT"):
    return f"{name}: {wait} @!%p2 bra {name};\n"


WAITS = [
    "mbarrier.test_wait.shared.b64 %p2, [bars], %rd22;",
    "mbarrier.try_wait.shared::cta.b64 %p2, [bars], %rd22;",
    "mbarrier.try_wait.acquire.cta.b64 %p2, [%rd21], %rd22, 1000;",
    "mbarrier.test_wait.parity.b64 %p2, [%rd21], 0;",
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bars], 0;",
]
ARRIVALS = [
    "mbarrier.arrive.shared.b64 %rd22, [bars];",
    "mbarrier.arrive.release.cta.shared::cta.b64 %rd22, [bars], 1;",
    "mbarrier.arrive.b64 %rd22, [%rd21];",
    "mbarrier.arrive_drop.shared.b64 %rd22, [bars];",
    "mbarrier.arrive_drop.release.cluster.b64 %rd22, [%rd21], 1;",
    "mbarrier.arrive.expect_tx.shared.b64 %rd22, [bars], 0;",
    "mbarrier.arrive_drop.expect_tx.b64 %rd22, [%rd21], 0;",
]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("arrival", ARRIVALS)
def test_an_arrival_and_a_wait_order_accesses(arrival, wait):
    body = f"st.shared.u32 [%r7], %r1;\n{arrival}\n{{}}{READ}"
    np.testing.assert_array_equal(result(body.format(loop(wait))), T ^ 32)


@pytest.mark.parametrize(
    ("arrival", "wait"),
    [
        (ARRIVALS[0], ""),
        (ARRIVALS[0].replace("arrive", "arrive.relaxed.cta"), loop(WAITS[0])),
        (ARRIVALS[0], WAITS[0]),
    ],
)
def test_a_missing_wait_and_a_relaxed_arrival_are_races(arrival, wait):
    with pytest.raises(InterpreterError, match=r"\[(shared-race|race-with-read)\]"):
        result(f"st.shared.u32 [%r7], %r1;\n{arrival}\n{wait}{READ}")


def test_the_state_of_an_arrival_has_the_arrivals_pending_before_it():
    body = f"{ARRIVALS[0]} mbarrier.pending_count.b64 %r3, %rd22; st.global.u32 [%rd11], %r3;"
    np.testing.assert_array_equal(result(body, threads=32, count=40), 40 - np.arange(32))


def test_after_arrive_drop_a_phase_expects_fewer_arrivals():
    """Warp 1 leaves after the first phase; the second needs only warp 0."""
    body = f"""st.shared.u32 [%r7], %r1;
setp.ge.u32 %p3, %r1, 32;
@%p3 bra LEAVE;
{ARRIVALS[0]}
{loop(WAITS[0])}
{{}}mbarrier.arrive.shared.b64 %rd22, [bars];
{loop(WAITS[1], "AGAIN")}
{READ}
bra OUT;
LEAVE:
mbarrier.{{}}.shared.b64 %rd22, [bars];
OUT:"""
    np.testing.assert_array_equal(result(body.format("", "arrive_drop")), np.where(T < 32, T + 32, 0))
    with pytest.raises(InterpreterError, match=r"\[agents-deadlock\]"):
        result(body.format("", "arrive"))


def test_an_arrival_that_says_that_it_does_not_complete_its_phase():
    body = f"""st.shared.u32 [%r7], %r1;
mbarrier.arrive.noComplete.shared.b64 %rd22, [bars], 1;
@%p1 mbarrier.arrive_drop.noComplete.b64 %rd22, [%rd21], 1;
bar.sync 1;
@%p1 mbarrier.arrive.shared.b64 %rd22, [bars];
{loop(WAITS[3])}{READ}"""
    np.testing.assert_array_equal(result(body, count=66), T ^ 32)
    with pytest.raises(InterpreterError, match=r"\[arrival-completes\]"):
        result(body, count=65)


def test_bytes_may_be_expected_and_counted_without_a_copy():
    body = f"""st.shared.u32 [%r7], %r1;
@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], 24;
{ARRIVALS[0]}
@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars], {{}};
{loop(WAITS[0])}{READ}"""
    np.testing.assert_array_equal(result(body.format(24)), T ^ 32)
    with pytest.raises(InterpreterError, match=r"lacks 8 bytes.*\[agents-deadlock\]|\[agents-deadlock\][\s\S]*8 bytes"):
        result(body.format(16))


def test_an_mbarrier_that_ends_leaves_plain_memory():
    body = f"""{ARRIVALS[0]}
{loop(WAITS[0])}
bar.sync 0;
{{}}
bar.sync 0;
setp.lt.u32 %p3, %r1, 2;
@%p3 add.s32 %r6, %r6, 256;
@!%p3 bra OUT;
st.shared.u32 [bars], 7;
OUT:"""
    once = "setp.eq.u32 %p4, %r1, 0;"
    for inval in ("mbarrier.inval.shared.b64 [bars];", "mbarrier.inval.b64 [%rd21];"):
        again = f"{once} @%p4 {inval} bar.sync 0; @%p4 mbarrier.init.b64 [%rd21], 5; {{}}"
        result(again.format(f"@%p4 {inval}"))
        with pytest.raises(InterpreterError, match=r"\[mbarrier-initialised-twice\]"):
            result(again.format("@%p4 mbarrier.init.b64 [%rd21], 5;"))
    alone = body.replace("setp.lt.u32 %p3, %r1, 2", "setp.lt.u32 %p3, %r1, 1")
    result(alone.format(f"@%p1 {inval}"))
    with pytest.raises(InterpreterError, match=r"\[mbarrier-bytes\]"):
        result(alone.format(""))
    with pytest.raises(InterpreterError, match=r"\[mbarrier-uninitialised\]"):
        result(f"@%p1 {inval} bar.sync 0; {ARRIVALS[0]}")
    with pytest.raises(InterpreterError, match=r"\[uninitialised-read\]"):
        result(f"@%p1 {inval} @%p1 ld.shared.u32 %r3, [bars];")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f"mov.b64 %rd22, {5 << 20}; {WAITS[0]}", "phase-of-state"),
        ("mov.b32 %r20, 0; mbarrier.arrive.noComplete.shared.b64 %rd22, [bars], %r20;", "arrivals-at-once"),
        ("mbarrier.arrive.shared.b64 %rd22, [bars], 3;", "too-many-arrivals"),
        ("mov.b32 %r20, 2; mbarrier.try_wait.parity.shared.b64 %p2, [bars], %r20;", "parity-polled"),
    ],
)
def test_faults_of_mbarriers_are_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(body)


# Arrivals by cp.async -------------------------------------------------------------------------------------------------

COPY = """add.s64 %rd12, %rd2, %rd9;
cp.async.ca.shared.global [%r7], [%rd12], 4;
{more}{arrive}
{wait}{read}"""


def copied(seed=0, count=64, **parts):
    parts = {"more": "", "arrive": "cp.async.mbarrier.arrive.noinc.shared.b64 [bars];", "wait": loop(WAITS[3])} | parts
    body = COPY.format(**{"read": READ} | parts)
    buffers = {"z": ("i32", np.zeros(64)), "x": ("i32", 3 * T)}
    return run(kernel(START.format(count=count) + body, "zx", PLACE), buffers, threads=64, seed=seed)["z"]


@pytest.mark.parametrize("seed", range(2))
def test_copies_arrive_when_they_have_landed(seed):
    np.testing.assert_array_equal(copied(seed), 3 * (T ^ 32))
    generic = "cp.async.mbarrier.arrive.b64 [%rd21]; mbarrier.arrive.shared.b64 %rd22, [bars];"
    np.testing.assert_array_equal(copied(seed, arrive=generic), 3 * (T ^ 32))
    group = "cp.async.commit_group; cp.async.wait_group 0;"
    own = READ.replace("xor.b32 %r9, %r6, 128", "mov.b32 %r9, %r6")
    np.testing.assert_array_equal(copied(seed, wait=group + loop(WAITS[3]), read=own), 3 * T)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"wait": ""}, "copy-in-flight|phase-unwaited|shared-race|race-with-read"),
        ({"arrive": "cp.async.mbarrier.arrive.shared.b64 [bars];"}, "agents-deadlock"),
        ({"count": 65}, "agents-deadlock"),
        ({"count": 2**20 - 1, "arrive": "cp.async.mbarrier.arrive.b64 [%rd21];"}, "pending-arrivals"),
        (
            {"wait": "bar.sync 0; setp.eq.u32 %p3, %r1, 0; @%p3 mbarrier.inval.b64 [%rd21]; bar.sync 0;", "count": 65},
            "mbarrier-busy",
        ),
        ({"arrive": "mbarrier.arrive.shared.b64 %rd22, [bars];"}, "copy-in-flight"),
        # The arrival of copies says nothing about the thread's own stores.
        ({"more": "st.shared.u32 [%r7+256], %r1;", "read": READ.replace("[%r9]", "[%r9+256]")}, "shared-race"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_faults_of_arrivals_by_copies_are_found(parts, code, seed):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        copied(seed, **parts)
