"""cp.async in all forms: source sizes, predicates that ignore the source, cache policies."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

X = 7 + np.arange(128)
PLACE = ".shared .align 16 .b8 place[1024];"
BODY = """mov.u32 %r5, place;
shl.b32 %r6, %r1, {log};
add.s32 %r7, %r5, %r6;
cvt.u64.u32 %rd20, %r6;
add.s64 %rd12, %rd2, %rd20;
add.s64 %rd11, %rd1, %rd9;
setp.lt.u32 %p1, %r1, 9;
mov.b64 %rd30, 0;
{copies}
cp.async.wait_all;
ld.shared.b32 %r3, [%r7];
ld.shared.b32 %r4, [%r7+{second}];
add.s32 %r3, %r3, %r4;
st.global.b32 [%rd11], %r3;"""


def sums(copies, log=2, second=0):
    """For each lane, the first word of what it has copied, and the one at byte `second`, added."""
    body = kernel(BODY.format(copies=copies, log=log, second=second), "zx", PLACE)
    return run(body, {"z": ("i32", np.zeros(32)), "x": ("i32", X)})["z"]


FIRST = np.arange(32) < 9


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ("ca.shared.global [%r7], [%rd12], 4", X[:32]),
        ("ca.shared.global [%r7], [%rd12], 4, 0", 0 * X[:32]),
        ("ca.shared.global.L2::128B [%r7], [%rd12], 4, %p1", np.where(FIRST, 0, X[:32])),
        ("ca.shared::cta.global [%r7], [%rd12], 4, !%p1", np.where(FIRST, X[:32], 0)),
        ("ca.shared.global.L2::cache_hint [%r7], [%rd12], 4, %rd30", X[:32]),
        ("ca.shared.global.L2::cache_hint [%r7], [%rd12], 4, 0, %rd30", 0 * X[:32]),
        ("ca.shared.global.L2::cache_hint.L2::256B [%r7], [%rd12], 4, %p1, %rd30", np.where(FIRST, 0, X[:32])),
    ],
)
def test_the_operand_after_the_size_is_a_number_of_bytes_a_predicate_or_a_policy(operands, expected):
    np.testing.assert_array_equal(sums(f"cp.async.{operands};"), 2 * expected)


def test_copies_that_run_together_are_zero_filled_each_by_its_own_operand():
    copies = "cp.async.ca.shared.global [%r7], [%rd12], 8, %p1; cp.async.ca.shared.global [%r7+8], [%rd12+8], 8, !%p1;"
    expected = np.where(FIRST, X[2::4], X[::4])
    np.testing.assert_array_equal(sums(copies, log=4, second=8), expected)
