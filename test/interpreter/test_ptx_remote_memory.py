"""Accesses to shared memory of other CTAs of a cluster (PTX ISA, "ld", "st", "atom", "red", ".shared::cluster")."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

VARIABLES = ".shared .align 16 .b8 words[512];\n.shared .align 8 .b64 full;\n"
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
# %r3: this CTA, %r4: the other one, %r5: the lane's word here, %r6: there; y has 32 words for each CTA, at %rd10.
BEGIN = """mov.u32 %r3, %cluster_ctarank;
xor.b32 %r4, %r3, 1;
mov.u32 %r5, words;
mad.lo.u32 %r5, %r1, 4, %r5;
mapa.shared::cluster.u32 %r6, %r5, %r4;
mad.lo.u32 %r7, %r3, 1000, %r1;
mul.wide.u32 %rd10, %r3, 128;
add.s64 %rd10, %rd10, %rd1;
add.s64 %rd10, %rd10, %rd9;
"""
RESULT = "st.global.b32 [%rd10], %r8;\n"
SEND = "st.shared::cluster.u32 [%r6], %r7;\n"
READ = "ld.shared.u32 %r8, [%r5];\n"
WRITE = "st.shared.u32 [%r5], %r7;\n"
FETCH = "ld.shared::cluster.u32 %r8, [%r6];\n"
OTHER = np.concatenate([np.arange(32) + 1000, np.arange(32)])


def result(body):
    return run(kernel(BEGIN + body + RESULT, "y", VARIABLES), {"y": ("i32", 64)}, grid=2, cluster=2)["y"]


INIT = "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [full], 32; fence.mbarrier_init.release.cluster;\n"
SIGNAL = """mov.u32 %r9, full; mapa.shared::cluster.u32 %r10, %r9, %r4;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];
"""
WAIT = "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [full], 0; @!%p2 bra AGAIN;\n"


@pytest.mark.parametrize(
    ("body", "y"),
    [
        (MEET + SEND + MEET + READ, OTHER),
        (WRITE + MEET + FETCH + MEET, OTHER),
        (MEET + "st.shared::cluster.v2.u32 [%r6], {%r7, %r7};\n".replace("%r6", "%r11") + MEET + READ, None),
        ("cvt.u64.u32 %rd11, %r6; cvta.shared::cluster.u64 %rd12, %rd11;" + MEET + "st.u32 [%rd12], %r7;" + MEET + READ,
         OTHER),
        (WRITE + "mapa.shared::cluster.u32 %r6, %r5, 1;" + MEET + FETCH + MEET, np.tile(np.arange(32) + 1000, 2)),
        (WRITE + "and.b32 %r9, %r1, 1; mapa.shared::cluster.u32 %r6, %r5, %r9;" + MEET + FETCH + MEET,
         np.tile(np.arange(32) + 1000 * (np.arange(32) % 2), 2)),
        (INIT + MEET + SEND + SIGNAL + WAIT + READ + MEET, OTHER),
    ],
    ids=["store", "load", "vector", "generic", "one owner", "two owners", "mbarrier"],
)  # fmt: skip
def test_words_of_another_cta_are_read_and_written(body, y):
    if y is None:  # two words by each second lane
        body = "and.b32 %r12, %r1, 15; shl.b32 %r12, %r12, 3; mov.u32 %r13, words; add.u32 %r13, %r13, %r12;" + (
            "mapa.shared::cluster.u32 %r11, %r13, %r4; setp.lt.u32 %p3, %r1, 16;" + body.replace("st.s", "@%p3 st.s", 1)
        )
        y = np.concatenate([np.repeat(np.arange(16), 2) + 1000, np.repeat(np.arange(16), 2)])
    np.testing.assert_array_equal(result(body), y)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (SEND + MEET + READ, "cluster-not-begun"),
        (MEET + SEND + READ + MEET, "shared-race|uninitialised-read|race-with-read"),
        (WRITE + MEET + FETCH + WRITE + MEET, "race-with-read|shared-race"),
        (WRITE + MEET + FETCH, "cluster-access-at-end"),
        (MEET + SEND + "mov.u32 %r8, 0;", "cluster-access-at-end"),
        (MEET + "mapa.shared::cluster.u32 %r6, %r5, 2;" + SEND + MEET + READ, "cluster-rank"),
        (MEET + "mapa.shared::cluster.u32 %r6, %r5, 0;" + SEND + MEET + READ, "shared-race"),
        (MEET + "add.u32 %r6, %r6, 512;" + SEND + MEET + READ, "smem-variable"),
        (MEET + SEND + MEET.replace("arrive", "arrive.relaxed") + READ, "shared-race"),
        (INIT + MEET + SIGNAL + SEND + WAIT + READ + MEET, "shared-race|uninitialised-read|race-with-read"),
    ],
)  # fmt: skip
def test_faults_of_accesses_to_another_cta_are_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        result(body)


# Strong operations: words[0] and words[1] of CTA 0 at %r11 and %r12, both zero at first; one lane of CTA 1 signals.
ZERO = (
    """mov.u32 %r8, 0; mov.u32 %r13, words; mapa.shared::cluster.u32 %r11, %r13, 0; add.u32 %r12, %r11, 4;
setp.lt.u32 %p3, %r1, 2; @%p3 st.shared.u32 [%r5], 0; setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r1, 0;
"""
    + MEET
)
COUNT = "red.relaxed.cluster.shared::cluster.add.u32 [%r11], 1;\n"
GENERIC = "cvt.u64.u32 %rd11, %r11; cvta.shared::cluster.u64 %rd12, %rd11; atom.add.u32 %r9, [%rd12], 1;\n"
SUM = "ld.shared.u32 %r8, [words];\n"
FLAG = """@!%p2 bra END; @%p1 bra READ; st.shared::cluster.u32 [%r12], 7;
st.release.cluster.shared::cluster.u32 [%r11], 1; bra END;
READ: ld.acquire.cluster.shared.u32 %r9, [words]; setp.eq.u32 %p4, %r9, 0; @%p4 bra READ;
ld.shared.u32 %r8, [words+4];
END:
"""
BACK = """@!%p2 bra END; @!%p1 bra READ; st.shared.u32 [words+4], 7; red.release.cluster.shared.add.u32 [words], 1;
bra END;
READ: ld.acquire.cluster.shared::cluster.u32 %r9, [%r11];
setp.eq.u32 %p4, %r9, 0; @%p4 bra READ;
ld.shared::cluster.u32 %r8, [%r12];
END:
"""


@pytest.mark.parametrize(
    ("body", "lane", "value"),
    [(COUNT + MEET + SUM, 0, 64), (GENERIC + MEET + SUM, 0, 64), (FLAG + MEET, 0, 7), (BACK + MEET, 32, 7)],
    ids=["red", "generic atom", "store and flag", "flag and load"],
)
def test_ctas_of_a_cluster_synchronize_by_atomics_on_shared_memory(body, lane, value):
    assert result(ZERO + body)[lane] == value


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (COUNT + SUM + MEET, "shared-word-race"),
        (COUNT.replace(".cluster.s", ".cta.s") + MEET, "shared-word-race"),
        (FLAG.replace("st.release", "st.relaxed") + MEET, "shared-race"),
        (FLAG.replace("ld.acquire", "ld.relaxed") + MEET, "shared-race"),
        (BACK.replace("ld.acquire", "ld.relaxed") + MEET, "shared-race"),
        (COUNT, "cluster-access-at-end"),
        ("add.u32 %r11, %r11, 512;" + COUNT + MEET, "smem-variable"),
    ],
    ids=["no barrier", "narrow scope", "no release", "no acquire", "no acquire there", "at the end", "out of bounds"],
)
def test_faults_of_atomics_on_shared_memory_of_another_cta_are_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(ZERO + body)


# %rd10: the lane's word of y; %rd11: that of the lane with this number in the other CTA.
SWAP = """xor.b32 %r9, %r3, 1; mul.wide.u32 %rd11, %r9, 128; add.s64 %rd11, %rd11, %rd1; add.s64 %rd11, %rd11, %rd9;
st.global.u32 [%rd10], %r7;
"""


def test_a_barrier_of_the_cluster_orders_accesses_to_global_memory():
    fetch = "ld.global.u32 %r8, [%rd11];\n"
    np.testing.assert_array_equal(result(SWAP + MEET + fetch + MEET), OTHER)
    for meet in ("", MEET.replace("arrive", "arrive.relaxed")):
        with pytest.raises(InterpreterError, match=r"\[(global-race|uninitialised-read)\]"):
            result(SWAP + meet + fetch + MEET)


def test_an_mbarrier_of_another_cta_orders_accesses_to_global_memory():
    fetch = "ld.global.u32 %r8, [%rd11];\n"
    np.testing.assert_array_equal(result(INIT + MEET + SWAP + SIGNAL + WAIT + fetch + MEET), OTHER)
    with pytest.raises(InterpreterError, match=r"\[(global-race|uninitialised-read)\]"):
        result(INIT + MEET + SIGNAL + SWAP + WAIT + fetch + MEET)
