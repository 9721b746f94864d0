"""A PTX register that was never written is a value that may be computed with, but not used (%r9, %p8 here)."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

NEVER_WRITTEN = r"(reads|stores) a register that was never written.*\[register-un"


def stored(body: str, threads: int = 32) -> np.ndarray:
    """Each thread's %r4, after `body`."""
    text = kernel(f"add.s64 %rd8, %rd1, %rd9;\n{body}\nst.global.u32 [%rd8], %r4;", "x")
    return run(text, {"x": ("i32", threads)}, threads=threads)["x"]


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


# Of two parts of a warp, only lanes 0 to 6 (%p1) write a register (%r9).
PARTS = {
    "by a guard": "@%p1 mov.b32 %r9, 7;",
    "by a branch": "@!%p1 bra $SKIP;\nmov.b32 %r9, 7;\n$SKIP:",
    "by a guarded load": "@%p1 ld.global.u32 %r9, [%rd8];",
    "in one of two branches": "@%p1 bra $ONE;\nmov.b32 %r7, 1;\nbra $SKIP;\n$ONE: mov.b32 %r9, 7;\n$SKIP:",
    "from one that was never written": "mov.b32 %r9, 7;\n@!%p1 add.s32 %r9, %r99, 1;".replace("%r99", "%r50"),
    "from another part": "@%p1 mov.b32 %r8, 7;\nadd.s32 %r9, %r8, %r1;",
}
SOME = "mov.b32 %r4, 1;\nsetp.lt.u32 %p1, %r1, 7;\nst.global.u32 [%rd8], 0;\n"
USES = {
    "stored": "mov.b32 %r4, %r9;",
    "in an address": "mul.wide.u32 %rd6, %r9, 0;\nadd.s64 %rd8, %rd8, %rd6;",
    "a branch": "setp.eq.s32 %p2, %r9, 7;\n@%p2 bra $END;\n$END:",
    "a barrier": "barrier.sync %r9;",
    "a mask": "bar.warp.sync %r9;",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("use", USES)
def test_a_register_that_some_lanes_never_wrote_is_undefined_in_these(part: str, use: str) -> None:
    with pytest.raises(InterpreterError, match=r"lanes \[7, 8, .*\[register-unset-lanes\]"):
        stored(SOME + PARTS[part] + "\n" + USES[use])


@pytest.mark.parametrize("part", PARTS)
def test_it_is_undefined_in_some_lanes_of_one_of_several_warps(part: str) -> None:
    """Lanes 4 to 31 of warp 1; the others of the block have it."""
    body = (SOME + PARTS[part]).replace("%p1, %r1, 7", "%p1, %r1, 36")
    with pytest.raises(InterpreterError, match=r"(warp 1.*lanes \[4, 5, .*|warp 2.*)\[register-un"):
        stored(body + "\nmov.b32 %r4, %r9;", 96)
    assert (stored(body + "\n@%p1 mov.b32 %r4, %r9;", 96)[36:] == 1).all()


@pytest.mark.parametrize("part", PARTS)
def test_lanes_that_wrote_it_may_use_it(part: str) -> None:
    for use in (
        "@%p1 mov.b32 %r4, %r9;",
        "selp.b32 %r4, %r9, %r4, %p1;",
        "@!%p1 bra $KEEP;\nmov.b32 %r4, %r9;\n$KEEP:",
    ):
        found = stored(f"{SOME}{PARTS[part]}\n{use}")
        assert (found[7:] == 1).all() and (found[1:7] != 1).all()


def test_a_register_that_all_lanes_write_in_parts_is_defined() -> None:
    body = (
        SOME
        + "@%p1 mov.b32 %r9, 7;\n@!%p1 bra $SKIP;\nadd.s32 %r7, %r9, 1;\n$SKIP: @!%p1 mov.b32 %r9, 8;\n"
        + "mov.b32 %r4, %r9;"
    )
    np.testing.assert_array_equal(stored(body), np.where(np.arange(32) < 7, 7, 8))
