"""Accesses to shared memory stay inside the variable from whose address theirs is formed, and inside some variable."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

# Of 256, 16 and 128 bytes; the last 112 of the second one's places belong to no variable, and 128 after `tail`.
VARIABLES = ".shared .align 16 .b8 first[256], small[16], tail[128];\n.extern .shared .align 16 .b8 rest[];\n"
STORE = "mov.b32 %r3, 0; add.s64 %rd11, %rd1, %rd9; st.global.b32 [%rd11], %r3;"
LAST = "setp.eq.u32 %p1, %r1, 31; shl.b32 %r20, %r1, 2;"
MOVED = "mov.u32 %r5, first; add.u32 %r6, %r5, %r20;"


@pytest.mark.parametrize(
    ("body", "inside", "outside"),
    [
        ("@%p1 st.shared.b32 [small+{}], 1;", 12, 16),
        ("@%p1 st.shared.b32 [first+{}], 1;", 252, 256),
        (f"{MOVED} st.shared.b32 [%r6+{{}}], 1;", 128, 132),
        (
            "mov.u32 %r5, tail; add.u32 %r5, %r20, %r5; sub.u32 %r6, %r5, 4; and.b32 %r6, %r6, -4;"
            " st.shared.b32 [%r6+{}], 1;",
            4,
            0,
        ),
        ("mov.u32 %r5, tail; mad.lo.u32 %r6, %r1, 4, %r5; st.shared.b32 [%r6+{}], 1;", 0, 4),
        (
            "mov.u32 %r5, first; mov.u32 %r6, tail; selp.b32 %r7, %r5, %r6, %p1; @%p1 st.shared.b32 [%r7+{}], %r5;",
            252,
            256,
        ),
        ("mov.u64 %rd20, small; cvta.shared.u64 %rd21, %rd20; @%p1 st.u32 [%rd21+{}], 1;", 8, 16),
        ("@%p1 st.shared.b32 [first+252], 0; @%p1 atom.shared.add.u32 %r7, [first+{}], 1;", 252, 256),
        ("@%p1 cp.async.ca.shared.global [small+{}], [%rd1+124], 4; cp.async.wait_all;", 12, 256),
        ("@%p1 st.shared.b32 [rest+{}], 1;", 1024, 4096),
    ],
)
def test_an_access_past_the_end_of_its_variable_is_found(body, inside, outside):
    code = "out-of-bounds" if "rest" in body else "smem-variable"
    run(kernel(LAST + body.format(inside) + STORE, "z", VARIABLES), {"z": ("i32", np.zeros(32))})
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        run(kernel(LAST + body.format(outside) + STORE, "z", VARIABLES), {"z": ("i32", np.zeros(32))})


@pytest.mark.parametrize(("offset", "found"), [(12, False), (16, True), (252, True), (256, False)])
def test_an_access_between_variables_is_found_by_any_address(offset, found):
    # The address comes from memory, so nothing says which variable it is of. `first` is at 16, `small` at 16 + 256.
    body = f"""setp.eq.u32 %p1, %r1, 0;
@%p1 st.global.b32 [%rd1], {16 + 256 + offset};
bar.warp.sync -1;
ld.global.b32 %r5, [%rd1];
@%p1 st.shared.b32 [%r5], 1;"""
    source = kernel(body, "z", VARIABLES)
    if not found:
        run(source, {"z": ("i32", np.zeros(32))})
        return
    with pytest.raises(InterpreterError, match=r"\[smem-no-variable\]"):
        run(source, {"z": ("i32", np.zeros(32))})


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r5, first; mov.u32 %r6, small; sub.u32 %r7, %r6, %r5; add.u32 %r8, %r5, %r7;",
        "mov.u32 %r5, first; mov.u32 %r6, small; xor.b32 %r7, %r6, %r5; xor.b32 %r8, %r5, %r7;",
        "mov.u32 %r5, small; shr.u32 %r6, %r5, 2; shl.b32 %r8, %r6, 2;",
        "mov.u32 %r5, first; mov.u32 %r8, small; setp.eq.u32 %p2, %r1, 99; @%p2 mov.u32 %r8, %r5;",
    ],
)
def test_addresses_that_may_be_of_several_variables_are_of_any(body):
    run(kernel(f"{LAST}{body} @%p1 st.shared.b32 [%r8], 1;{STORE}", "z", VARIABLES), {"z": ("i32", np.zeros(32))})
