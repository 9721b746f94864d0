"""Plain loads and stores of shared memory of other CTAs of a cluster (PTX ISA, "ld", "st", ".shared::cluster")."""

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
        ("cvt.u64.u32 %rd11, %r6; cvta.shared::cluster.u64 %rd12, %rd11; mov.u32 %r8, 0;" + MEET
         + "atom.add.u32 %r8, [%rd12], 1;" + MEET, "remote-access"),
    ],
)  # fmt: skip
def test_faults_of_accesses_to_another_cta_are_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        result(body)
