"""red.async: words in the shared memory of the cluster, changed by registers, with planted faults."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

PLACE = ".shared .align 16 .b8 word[16];\n.shared .align 8 .b8 bar[8];"
BODY = """mov.u32 %r2, %cluster_ctarank;
setp.eq.u32 %p1, %r1, 0;
mov.b64 %rd20, 100;
@%p1 st.shared.b64 [word], %rd20;
@%p1 mbarrier.init.shared.b64 [bar], 1;
@%p1 fence.mbarrier_init.release.cluster;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};
barrier.cluster.arrive;
barrier.cluster.wait;
xor.b32 %r3, %r2, 1;
mapa.shared::cluster.u32 %r4, word, %r3;
mapa.shared::cluster.u32 %r5, bar, {of_bar};
mad.lo.u32 %r6, %r2, 1000, %r1;
cvt.u64.u32 %rd21, %r6;
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{how} [%r4], {value}, [%r5];
{wait}
ld.shared.{load} %r8, [word];
mad.lo.u32 %r9, %r2, 4, 0;
cvt.u64.u32 %rd22, %r9;
add.s64 %rd11, %rd1, %rd22;
@%p1 st.global.b32 [%rd11], %r8;
barrier.cluster.arrive;
barrier.cluster.wait;"""
WAIT = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;"
RIGHT = {"bytes": 128, "of_bar": "%r3", "how": "add.u32", "value": "%r6", "wait": WAIT, "load": "b32"}


def words(seed=0, **parts):
    """The word of each of two CTAs, which begins as 100, after the 32 threads of the other one have changed it."""
    text = kernel(BODY.format(**RIGHT | parts), "z", PLACE)
    return run(text, {"z": ("i32", np.zeros(2))}, grid=2, cluster=2, seed=seed, max_steps=5000)["z"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("add.u32", [100 + 32000 + 496, 100 + 496]),
        ("min.s32", [100, 0]),
        ("max.u32", [1031, 100]),
        ("or.b32", [100 | np.bitwise_or.reduce(np.arange(1000, 1032)), 127]),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_threads_of_another_cta_change_a_word(how, expected, seed):
    np.testing.assert_array_equal(words(seed, how=how), expected)


def test_words_of_64_bits_count_for_more_bytes():
    np.testing.assert_array_equal(words(how="add.u64", value="%rd21", bytes=256), [32596, 596])


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"wait": ""}, r"shared-race|phase-unwaited|copy-in-flight|race-with-read"),
        ({"bytes": 132}, "agents-deadlock"),
        ({"of_bar": "%r2"}, "reduced-home"),
    ],
)
def test_a_missing_wait_wrong_bytes_and_an_mbarrier_elsewhere_are_found(fault, code):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        words(**fault)
