"""mbarriers and bulk copies of single lanes: several lanes of a warp act at once, each with operands of its own."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

VARIABLES = ".shared .align 16 .b8 boxes[512];\n.shared .align 8 .b64 full[32];\n"
INIT = """mov.u32 %r2, full;
mov.u32 %r3, boxes;
mad.lo.u32 %r4, %r1, 8, %r2;
mad.lo.u32 %r5, %r1, 16, %r3;
shl.b32 %r6, %r1, 4;
cvt.u64.u32 %rd10, %r6;
add.s64 %rd11, %rd1, %rd10;
mbarrier.init.shared.b64 [%r4], 1;
fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
START = """mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd11], 16, [%r4];
"""
WAIT = """AGAIN:
mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 0;
@!%p1 bra AGAIN;
"""
READ = """ld.shared.b32 %r7, [%r5+4];
add.s64 %rd12, %rd2, %rd9;
st.global.b32 [%rd12], %r7;
"""
NEXT = "xor.b32 %r8, %r1, 1; mad.lo.u32 %r4, %r8, 8, %r2;\n"


def results(body):
    x = np.arange(128)
    return run(kernel(INIT + body, ["x", "y"], VARIABLES), {"x": ("i32", x), "y": ("i32", 32)})["y"]


@pytest.mark.parametrize(
    ("body", "y"),
    [
        (START + WAIT + READ, np.arange(32) * 4 + 1),
        (START + WAIT + "bar.sync 0;" + READ, np.arange(32) * 4 + 1),
        ("setp.lt.u32 %p2, %r1, 32; @!%p2 bra END;" + START + WAIT + READ + "END:", np.arange(32) * 4 + 1),
        (START + WAIT + "mbarrier.inval.shared.b64 [%r4]; mbarrier.init.shared.b64 [%r4], 2;" + READ,
         np.arange(32) * 4 + 1),
        ("mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], %r6; mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], %r6;"
         + START + WAIT + READ, np.arange(32) * 4 + 1),
    ],
    ids=["waits", "barrier", "guarded", "again", "bytes"],
)  # fmt: skip
def test_each_lane_has_its_own_mbarrier_and_copy(body, y):
    np.testing.assert_array_equal(results(body), y)


def test_each_lane_stores_a_part_of_shared_memory():
    body = """shl.b32 %r9, %r1, 1;
st.shared.v4.b32 [%r5], {%r9, %r9, %r9, %r9};
fence.proxy.async;
bar.sync 0;
add.s64 %rd13, %rd2, %rd10;
cp.async.bulk.global.shared::cta.bulk_group [%rd13], [%r5], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;"""
    found = run(kernel(INIT + body, ["x", "y"], VARIABLES), {"x": ("i32", np.zeros(128)), "y": ("i32", 128)})["y"]
    np.testing.assert_array_equal(found, np.repeat(np.arange(32) * 2, 4))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (START + READ + WAIT, "copy-in-flight"),
        (START.replace("[%r5]", "[boxes]") + WAIT + READ, "copy-in-flight"),
        (START.replace("_, [%r4], 16", "_, [%r4], 32") + WAIT + READ, "agents-deadlock"),
        (START.replace("_, [%r4], 16", "_, [%r4], %r6") + WAIT + READ, "agents-deadlock"),
        ("mbarrier.init.shared.b64 [%r4], 1;", "mbarrier-initialised-twice"),
        ("add.u32 %r4, %r4, 4;" + WAIT, "mbarrier-uninitialised"),
        (START + NEXT + "setp.ne.u32 %p3, %r1, 7; @%p3 bra END;" + WAIT + "END:", "phase-unwaited"),
    ],
)
def test_the_fault_of_one_lane_is_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        results(body)
