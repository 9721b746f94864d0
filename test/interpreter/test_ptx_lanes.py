"""Exchange between the lanes of a warp: member masks, divergent code, undefined values; byte permutes."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

L = np.arange(32)
X = np.random.default_rng(3).integers(-(2**31), 2**31, 32).astype(np.int32)
K = L % 5  # a key


def result(body, before=0, variables=""):
    text = kernel(
        f"""add.s64 %rd11, %rd1, %rd9;
add.s64 %rd12, %rd2, %rd9;
ld.global.b32 %r2, [%rd12];
rem.u32 %r5, %r1, 5;
mov.b32 %r3, {before};
{body}
st.global.b32 [%rd11], %r3;""",
        "zx",
        variables,
    )
    found = run(text, {"z": ("i32", np.zeros(32)), "x": ("i32", X)})["z"]
    return found.astype(np.int64).astype(np.int32)


def bits(lanes):
    """Lanes (32, 32) as registers."""
    return (lanes.astype(np.uint64) << L.astype(np.uint64)).sum(axis=1).astype(np.uint32).view(np.int32)


SAME = K[:, None] == K[None, :]
HALF = "setp.lt.u32 %p1, %r1, 16; selp.b32 %r6, 0xffff, 0xffff0000, %p1;"  # the mask of a lane's half


def by_half(function):
    return np.repeat([function(X[:16]), function(X[16:])], 16)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("setp.lt.s32 %p1, %r2, 0; vote.sync.ballot.b32 %r3, %p1, -1;", np.full(32, bits((X < 0)[None])[0])),
        ("setp.lt.s32 %p1, %r2, 0; vote.sync.ballot.b32 %r3, !%p1, -1;", np.full(32, bits((X >= 0)[None])[0])),
        ("setp.lt.u32 %p1, %r1, 99; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r3, 1, 0, %p2;", 1 + 0 * L),
        ("setp.lt.u32 %p1, %r1, 9; vote.sync.any.pred %p2, !%p1, -1; selp.b32 %r3, 1, 0, %p2;", 1 + 0 * L),
        ("setp.lt.u32 %p1, %r1, 9; vote.sync.uni.pred %p2, %p1, -1; selp.b32 %r3, 1, 0, %p2;", 0 * L),
        ("setp.lt.u32 %p1, %r1, 99; vote.sync.uni.pred %p2, !%p1, -1; selp.b32 %r3, 1, 0, %p2;", 1 + 0 * L),
        (f"{HALF} vote.sync.all.pred %p2, %p1, %r6; selp.b32 %r3, 1, 0, %p2;", L < 16),
        (f"{HALF} setp.lt.u32 %p3, %r1, 9; vote.sync.uni.pred %p2, %p3, %r6; selp.b32 %r3, 1, 0, %p2;", L >= 16),
        (f"{HALF} setp.lt.u32 %p3, %r1, 20; vote.sync.ballot.b32 %r3, %p3, %r6;", np.where(L < 16, 0xFFFF, 0xF0000)),
        (f"{HALF} redux.sync.max.s32 %r3, %r2, %r6;", by_half(np.max)),
        (f"{HALF} redux.sync.min.u32 %r3, %r2, %r6;", by_half(lambda x: x.view(np.uint32).min().view(np.int32))),
        (f"{HALF} redux.sync.xor.b32 %r3, %r2, %r6;", by_half(np.bitwise_xor.reduce)),
        ("activemask.b32 %r3;", np.full(32, -1)),
        ("setp.lt.u32 %p1, %r1, 7; @!%p1 bra OUT; activemask.b32 %r3; OUT:", np.where(L < 7, 127, 0)),
        ("match.any.sync.b32 %r3, %r5, -1;", bits(SAME)),
        ("cvt.u64.u32 %rd20, %r5; match.any.sync.b64 %r3, %rd20, -1;", bits(SAME)),
        (f"{HALF} match.any.sync.b32 %r3, %r5, %r6;", bits(SAME & (L[:, None] // 16 == L[None, :] // 16))),
        ("match.all.sync.b32 %r3|%p1, %r5, -1; selp.b32 %r3, 1, %r3, %p1;", 0 * L),
        ("shr.u32 %r7, %r1, 5; match.all.sync.b32 %r3, %r7, -1;", -1 + 0 * L),
        (f"{HALF} match.all.sync.b32 %r4|%p2, %r6, %r6; selp.b32 %r3, 1, 0, %p2;", 1 + 0 * L),
        # The lanes with one key find each other and add up.
        ("match.any.sync.b32 %r7, %r5, -1; redux.sync.add.s32 %r3, %r1, %r7;", (SAME * L).sum(axis=1)),
        (f"{HALF} elect.sync %r3|%p2, %r6;", np.where(L < 16, 0, 16)),
        (f"{HALF} elect.sync _|%p2, %r6; selp.b32 %r3, 1, 0, %p2;", L % 16 == 0),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 bra OUT; elect.sync %r3|%p2, 0xffffff00; OUT:", np.where(L > 7, 8, 0)),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 bra OUT; bar.warp.sync 0xffffff00; mov.b32 %r3, 1; OUT:", L > 7),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 exit; bar.warp.sync 0xffffff00; mov.b32 %r3, 1;", L > 7),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 exit; match.any.sync.b32 %r3, 5, -1;", np.where(L > 7, -256, 0)),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 exit; redux.sync.add.s32 %r3, 1, -1;", np.where(L > 7, 24, 0)),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 exit; shfl.sync.idx.b32 %r3, %r1, 9, 31, -1;", np.where(L > 7, 9, 0)),
        ("setp.gt.u32 %p1, %r1, 7; @!%p1 exit; vote.sync.ballot.b32 %r3, %p1, -1;", np.where(L > 7, -256, 0)),
    ],
)
def test_lanes_vote_match_and_reduce_with_their_members(body, expected):
    np.testing.assert_array_equal(result(body), np.asarray(expected).astype(np.int64).astype(np.int32))


def shuffled(source, inside=None):
    return X[np.where(inside if inside is not None else L >= 0, source, L)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("shfl.sync.bfly.b32 %r3|%p1, %r2, 5, 31, -1;", shuffled(L ^ 5)),
        (
            "shfl.sync.down.b32 %r4|%p1, %r2, 4, 31, -1; selp.b32 %r3, %r4, 7, %p1;",
            np.where(L < 28, X[(L + 4) % 32], 7),
        ),
        ("shfl.sync.up.b32 %r4|%p1, %r2, 4, 0, -1; selp.b32 %r3, %r4, 7, %p1;", np.where(L > 3, X[L - 4], 7)),
        ("shfl.sync.idx.b32 %r4|%p1, %r2, %r5, 31, -1; selp.b32 %r3, %r4, 7, %p1;", X[K]),
        (f"{HALF} shfl.sync.bfly.b32 %r3, %r2, 15, 31, %r6;", shuffled(L ^ 15)),
        (f"{HALF} shfl.sync.idx.b32 %r3, %r2, 3, 0x101f, %r6;", shuffled(L // 16 * 16 + 3)),
        (
            "setp.lt.u32 %p1, %r1, 16; @!%p1 bra OUT; shfl.sync.bfly.b32 %r3, %r2, 8, 31, 0xffff; OUT:",
            np.where(L < 16, X[L ^ 8], 0),
        ),
        ("setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.bfly.b32 %r3, %r2, 8, 31, 0xffff;", np.where(L < 16, X[L ^ 8], 0)),
        (
            "setp.lt.u32 %p1, %r1, 20; @!%p1 exit; shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;",
            np.where(L < 20, X[L ^ 1], 0),
        ),
    ],
)
def test_shuffles_with_members_and_a_predicate(body, expected):
    np.testing.assert_array_equal(result(body), expected)


SUM = """setp.lt.u32 %p1, %r1, 16;
@!%p1 bra OUT;
mov.b32 %r3, %r2;
shfl.sync.down.b32 %r4, %r3, 8, 31, {members};
add.s32 %r3, %r3, %r4;
shfl.sync.down.b32 %r4, %r3, 4, 31, 0xffff;
add.s32 %r3, %r3, %r4;
shfl.sync.down.b32 %r4, %r3, 2, 31, 0xffff;
add.s32 %r3, %r3, %r4;
shfl.sync.down.b32 %r4, %r3, 1, 31, 0xffff;
add.s32 %r3, %r3, %r4;
setp.eq.u32 %p2, %r1, 0;
{keep}
OUT:"""


def test_a_sum_over_half_a_warp_reads_undefined_lanes_and_drops_them():
    """Lanes 8 to 15 read lanes 16 to 23, which are no members; only lane 0 keeps its sum."""
    expected = np.where(L == 0, X[:16].sum(dtype=np.int32), 0)
    for keep in ("@!%p2 mov.b32 %r3, 0;", "selp.b32 %r3, %r3, 0, %p2;"):
        np.testing.assert_array_equal(result(SUM.format(members="0xffff", keep=keep)), expected)
    for keep in (
        "",
        "setp.lt.u32 %p2, %r1, 2; selp.b32 %r3, %r3, 0, %p2;",
        "setp.gt.s32 %p3, %r3, 0; @%p3 mov.b32 %r3, 0; mov.b32 %r3, 1;",
        "setp.gt.s32 %p3, %r3, 0; @%p3 bra OUT; mov.b32 %r3, 1;",
        "cvt.u64.u32 %rd20, %r3; ld.global.b32 %r3, [%rd20];",
    ):
        found = r"lanes .* `shfl.sync.down.b32 %r4, %r3, .*` at .* read from a lane outside .*\[undefined-used\]"
        with pytest.raises(InterpreterError, match=found):
            result(SUM.format(members="0xffff", keep=keep))


@pytest.mark.parametrize(
    "instruction", ["shfl.sync.bfly.b32 %r3, %r2, 1, 31, {};", "vote.sync.ballot.b32 %r3, %p1, {};"]
)
@pytest.mark.parametrize(
    ("guard", "members", "code"),
    [
        ("setp.lt.u32 %p1, %r1, 4; @!%p1 bra OUT;", "-1", "member-elsewhere"),
        ("setp.lt.u32 %p1, %r1, 4; @!%p1 bra OUT;", "0x1f", "member-elsewhere"),
        ("setp.lt.u32 %p1, %r1, 4; @!%p1 bra OUT;", "7", "member-mask"),
        ("setp.lt.u32 %p1, %r1, 4;", "0xffff", "member-mask"),
        ("setp.lt.u32 %p1, %r1, 4; selp.b32 %r6, 0xffff, -1, %p1;", "%r6", "members-differ"),
    ],
)
def test_wrong_member_masks_are_found(instruction, guard, members, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(f"{guard} {instruction.format(members)} OUT:")


@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        ("bar.warp.sync -1;", "member-ended"),
        ("elect.sync _|%p2, -1;", "member-ended"),
        ("shfl.sync.idx.b32 %r3, %r1, 3, 31, -1;", "undefined-used"),
    ],
)
def test_lanes_that_have_ended_are_waited_for_or_read(instruction, code):
    """The PTX ISA does not except them from all members that these two wait for; their values are undefined."""
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(f"setp.gt.u32 %p1, %r1, 7; @!%p1 exit; {instruction}")


def test_lanes_in_two_branches_do_not_wait_for_each_other():
    """Each side names its own lanes, and the right twin of a fault names them all."""
    body = """setp.lt.u32 %p1, %r1, 4;
@%p1 bra LOW;
redux.sync.add.s32 %r3, %r1, {};
bra OUT;
LOW:
redux.sync.add.s32 %r3, %r1, {};
OUT:"""
    expected = np.where(L < 4, 6, L[4:].sum())
    np.testing.assert_array_equal(result(body.format("0xfffffff0", "0xf")), expected)
    with pytest.raises(InterpreterError, match=r"\[member-elsewhere\]"):
        result(body.format("-1", "-1"))


MODES = {
    "f4e": lambda s, at: (s + at) % 8,
    "b4e": lambda s, at: (s - at) % 8,
    "rc8": lambda s, at: s,
    "ecl": lambda s, at: max(s, at),
    "ecr": lambda s, at: min(s, at),
    "rc16": lambda s, at: (0, 1, 0, 1)[at] + 2 * (s & 1),
}


@pytest.mark.parametrize("mode", MODES)
def test_permutes_of_bytes_by_a_mode(mode):
    both = np.stack([X, X[::-1]], axis=1).astype(np.int32).view(np.uint8).reshape(32, 8)
    reversed_ = "sub.s32 %r8, 31, %r1; shfl.sync.idx.b32 %r7, %r2, %r8, 31, -1;"
    for selector, of in (*((str(at), at + 0 * L) for at in range(4)), ("%r5", K & 3)):
        chosen = [[MODES[mode](int(s), at) for at in range(4)] for s in of]
        expected = np.take_along_axis(both, np.array(chosen), axis=1).copy().view(np.int32)[:, 0]
        found = result(f"{reversed_} prmt.b32.{mode} %r3, %r2, %r7, {selector};")
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("space", "address", "expected"),
    [
        ("global", "%rd1", 1),
        ("shared", "%rd1", 0),
        ("local", "%rd1", 0),
        ("const", "%rd1", 0),
        ("shared::cta", "%rd21", 1),
        ("shared::cluster", "%rd21", 1),
        ("global", "%rd21", 0),
        ("local", "%rd22", 1),
        ("shared", "%rd22", 0),
        ("param", "%rd22", 0),
        ("const", "%rd23", 1),
        ("global", "%rd23", 0),
        ("param", "%rd23", 0),
        ("param::entry", "%rd24", 1),
        ("global", "%rd24", 1),
        ("param", "%rd1", 0),
        ("shared::cluster", "%rd25", 1),
        ("shared::cta", "%rd25", 0),
    ],
)
def test_the_state_space_of_a_generic_address(space, address, expected):
    body = f""".shared .align 4 .b8 place[16];
.local .align 4 .b8 own[16];
mov.u64 %rd20, place; cvta.shared.u64 %rd21, %rd20;
mov.u64 %rd20, own; cvta.local.u64 %rd22, %rd20;
mov.u64 %rd20, fixed; cvta.const.u64 %rd23, %rd20;
cvta.param.u64 %rd24, z; add.s64 %rd24, %rd24, 4;
add.s64 %rd25, %rd21, 16777216;
isspacep.{space} %p1, {address}; selp.b32 %r3, 1, 0, %p1;"""
    assert (result(body, variables=".const .b32 fixed = 7;") == expected).all()
