"""A PTX register that was never written is a value that may be computed with, but not used (%r9, %p8 here)."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

NEVER_WRITTEN = r"(reads|stores) a register that was never written.*\[register-un"


def stored(body: str) -> np.ndarray:
    """Each lane's %r4, after `body`."""
    return run(kernel(f"add.s64 %rd8, %rd1, %rd9;\n{body}\nst.global.u32 [%rd8], %r4;", "x"), {"x": ("i32", 32)})["x"]


def test_what_is_computed_from_it_may_be_dropped() -> None:
    """As in a reduction by lanes that have nothing to reduce."""
    body = """
mov.b32 %r4, 5;
setp.gt.u32 %p1, %r1, 40;
@%p1 mov.b32 %r9, 1;
shfl.sync.bfly.b32 %r5, %r9, 2, 31, -1;
max.s32 %r6, %r9, %r5;
add.f32 %r7, %r6, %r6;
@%p1 mov.b32 %r4, %r7;"""
    np.testing.assert_array_equal(stored(body), np.full(32, 5))


@pytest.mark.parametrize(
    "use",
    {
        "stored": "add.s32 %r4, %r9, 1;",
        "chosen": "prmt.b32 %r4, %r1, %r9, 0x0432;",
        "in an address": "cvt.u64.u32 %rd6, %r9;\nadd.s64 %rd8, %rd8, %rd6;\nmov.b32 %r4, 1;",
        "compared for a branch": "mov.b32 %r4, 1;\nsetp.eq.s32 %p1, %r9, 1;\n@%p1 bra $END;\n$END:",
        "compared for a guard": "mov.b32 %r4, 1;\nsetp.eq.s32 %p1, %r9, 1;\n@%p1 mov.b32 %r4, 2;",
        "a guard": "mov.b32 %r4, 1;\n@%p8 mov.b32 %r4, 2;",
        "a branch": "mov.b32 %r4, 1;\n@!%p8 bra $END;\n$END:",
    }.items(),
    ids=lambda use: use[0],
)
def test_its_use_is_refused(use: tuple[str, str]) -> None:
    with pytest.raises(InterpreterError, match=NEVER_WRITTEN):
        stored(use[1])
