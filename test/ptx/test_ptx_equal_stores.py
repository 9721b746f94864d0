"""Stores of one value to the same bytes that nothing orders are a race that hardware forgives. All else stays one."""

import itertools
import random

import numpy as np
import pytest

import lowtide as lt

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{{
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .f32 %f<4>; .reg .b64 %rd<9>;
.shared .align 16 .b8 kept[64];
ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, kept; shr.u32 %r3, %r1, 5; and.b32 %r4, %r1, 31;
mov.u32 %r5, %ctaid.x; setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r5, 0; setp.eq.u32 %p3, %r1, 0; mov.u32 %r10, 0;
{body}
ret;
}}
"""
READ = "ld.shared.u32 %r6, [%r2]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3+64], %r6;"

# By what they do: the instructions of 64 threads, and the number of CTAs if several. %p1: warp 0. %p2: CTA 0. %p3:
# thread 0. %r3: the warp. %r4: the lane. %r5: the CTA.
FORGIVEN = {
    "all warps": ("st.shared.u32 [%r2], 7;", 1),
    "then a barrier and reads": (f"st.shared.u32 [%r2], 7; bar.sync 0; {READ}", 1),
    "in a loop, with another value each time": (
        f"AGAIN: st.shared.u32 [%r2], %r10; bar.sync 0; {READ} bar.sync 0; add.u32 %r10, %r10, 1;"
        "setp.lt.u32 %p1, %r10, 3; @%p1 bra AGAIN;",
        1,
    ),
    "in a loop, with atomics between": (
        f"AGAIN: st.shared.u32 [%r2], 0; bar.sync 0; red.shared.add.u32 [%r2], 1; bar.sync 0; {READ} bar.sync 0;"
        "add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 3; @%p1 bra AGAIN;",
        1,
    ),
    "over another value, after a barrier": ("@%p3 st.shared.u32 [%r2], 1; bar.sync 0; st.shared.u32 [%r2], 7;", 1),
    "several times": ("st.shared.u32 [%r2], 7; st.shared.u32 [%r2], 7;", 1),
    "a vector": ("st.shared.v2.u32 [%r2], {0, 16843009};", 1),
    "rows of a matrix": ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r10};", 1),
    "rows of a matrix by lanes": ("@%p1 stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r10};", 1),
    "zeros of other widths": ("@%p1 st.shared.u32 [%r2], 0; @!%p1 st.shared.v4.u32 [%r2], {0, 0, 0, 0};", 1),
    "floats": ("st.shared.f32 [%r2], 0f3F800000;", 1),
    "not numbers": ("st.shared.f32 [%r2], 0f7FC00000;", 1),
    "all CTAs": ("st.global.u32 [%rd1], 7;", 3),
    "all CTAs, several times": ("st.global.u32 [%rd1], 7; bar.sync 0; st.global.u32 [%rd1], 7;", 3),
    "lanes, then another value after a barrier of the warp": (
        "@%p1 st.shared.u32 [%r2], 7; bar.warp.sync -1; @%p3 st.shared.u32 [%r2], 8;",
        1,
    ),
}
RACES = {
    "other rows of a matrix": ("@%p1 stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};", 1),
    "another value in the other warp": ("st.shared.u32 [%r2], %r3;", 1),
    "another value in the same warp, later": ("st.shared.u32 [%r2], 7; @%p1 st.shared.u32 [%r2], 8;", 1),
    "another value and back": (
        "@%p1 bra OWN; st.shared.u32 [%r2], 7; bra END; OWN: @!%p3 bra END; st.shared.u32 [%r2], 8;"
        f"{READ} st.shared.u32 [%r2], 7; END:",
        1,
    ),
    "an atomic before it in one warp": (
        "@%p3 red.shared.add.u32 [%r2], 1; @%p3 st.shared.u32 [%r2], 7;@!%p1 st.shared.u32 [%r2], 7;",
        1,
    ),
    "an atomic before it in a CTA": (
        "@%p2 bra OWN; st.global.u32 [%rd1], 7; bra END; OWN: @!%p3 bra END; red.global.add.u32 [%rd1], 1;"
        "st.global.u32 [%rd1], 7; END:",
        2,
    ),
    "an atomic": ("st.shared.u32 [%r2], 7; @%p3 red.shared.add.u32 [%r2], 1;", 1),
    "reads before a barrier": (f"st.shared.u32 [%r2], 7; {READ}", 1),
    "half of a vector": ("st.shared.v2.u32 [%r2], {5, %r3};", 1),
    "the signs of zeros": (
        "mov.f32 %f1, 0f00000000; @%p1 mov.f32 %f1, 0f80000000; st.shared.f32 [%r2], %f1;",
        1,
    ),
    "one byte of a word": ("@%p1 st.shared.u32 [%r2], 258; @!%p1 st.shared.u8 [%r2], 1;", 1),
    "bytes of a word that is changed": (
        "@%p3 st.shared.u32 [%r2], 256; @%p3 st.shared.u8 [%r2+2], 9; @!%p1 st.shared.u32 [%r2], 256;",
        1,
    ),
    "lanes, then another value": ("@%p1 st.shared.u32 [%r2], 7; @%p3 st.shared.u32 [%r2], 8;", 1),
    "another value before it in the lane": ("@%p3 st.shared.u32 [%r2], 8; @%p1 st.shared.u32 [%r2], 7;", 1),
    "another value in the other CTA": ("st.global.u32 [%rd1], %r5;", 3),
    "another value and back, in one CTA": (
        "@%p2 bra OWN; st.global.u32 [%rd1], 7; bra END; OWN: @!%p3 bra END; st.global.u32 [%rd1], 8;"
        "st.global.u32 [%rd1], 7; END:",
        2,
    ),
    "a read between equal stores of a CTA": (
        "@%p2 bra OWN; st.global.u32 [%rd1], 7; bra END; OWN: @!%p3 bra END; ld.global.u32 %r6, [%rd1];"
        "st.global.u32 [%rd1], 7; st.global.u32 [%rd1+64], %r6; END:",
        2,
    ),
    "a read after the stores of a CTA": (
        "st.global.u32 [%rd1], 7; bar.sync 0; @%p2 ld.global.u32 %r6, [%rd1]; @%p2 st.shared.u32 [%r2], %r6;",
        2,
    ),
    "equal bulk copies of two CTAs": (
        "@%p3 st.shared.v4.u32 [%r2], {0, 0, 0, 0}; fence.proxy.async.shared::cta; bar.sync 0;"
        "@%p3 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        2,
    ),
    "another value after a barrier of one CTA": (
        "st.global.u32 [%rd1], 7; bar.sync 0; setp.ne.u32 %p1, %r5, 0; @%p1 bra END; @%p3 st.global.u32 [%rd1], 8;END:",
        2,
    ),
}


def report(body: str, ctas: int, seed: int = 0, strict: bool = False) -> lt.ptx.Report:
    kernel = lt.ptx.load(TEXT.format(body=body.replace("; ", ";\n")))["k"]
    settings = lt.ptx.Settings(seed=seed, strict=strict, orders=3, seconds=1)
    return kernel.check(grid=ctas, block=64, args=[np.zeros(96, np.int32)], settings=settings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", FORGIVEN)
def test_equal_stores_are_forgiven(what: str, seed: int) -> None:
    found = report(*FORGIVEN[what], seed)
    assert (found.kind, [each.name for each in found.relies]) == ("ok", ["equal-stores"]), found.message
    assert "race" in found.notes[0] and found.places
    assert report(*FORGIVEN[what], seed, strict=True).kind == "race"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", RACES)
def test_all_else_is_a_race(what: str, seed: int) -> None:
    found = report(*RACES[what], seed)
    assert found.kind == "race", found.message


def test_one_warp_after_the_other_needs_no_forgiving() -> None:
    found = report("@%p1 st.shared.u32 [%r2], 7; bar.sync 0; @!%p1 st.shared.u32 [%r2], 7; bar.warp.sync -1;", 1)
    assert [each.name for each in found.relies] == ["equal-stores"]  # of lanes
    found = report("@%p3 st.shared.u32 [%r2], 7; bar.sync 0; @!%p3 bra END; st.shared.u32 [%r2], 7; END:", 1)
    assert found.ok and not found.relies


# Random programs of two lanes of three warps, each an access (what, warp, lane, word, value) or the warps of a barrier.
# The value of a load is used at once, at the end or, in global memory, not at all: then it may race (`unused-reads`).
Step = tuple[str, int, int, int, int] | tuple[int, ...]
WHAT = ("st", "st", "st", "st", "st", "st", "ld", "ld later", "ld unused", "red")
BODIES = """mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; setp.eq.u32 %p1, %r4, 0; setp.eq.u32 %p2, %r4, 1;
@%p3 st.shared.v2.u32 [%r2], {{1, 2}}; @%p3 st.global.v2.u32 [%rd1], {{1, 2}};
bar.sync 0;
setp.eq.u32 %p3, %r3, 1; @%p3 bra B1; setp.eq.u32 %p3, %r3, 2; @%p3 bra B2;
{} bra END; B1: {} bra END; B2: {}
END:"""


def drawn(rng: random.Random) -> list[Step]:
    def step() -> Step:
        if rng.random() < 0.3:
            return tuple(sorted(rng.sample(range(3), rng.choice((2, 2, 3)))))
        return rng.choice(WHAT), rng.randrange(3), rng.randrange(2), rng.randrange(2), int(rng.random() < 0.1)

    return [step() for _ in range(rng.randint(4, 11))]


def is_race(steps: list[Step]) -> bool:
    """Whether two accesses conflict that nothing orders: not both atomic, nor both stores of one value. Loads whose
    value is not used do not conflict."""
    threads = list(itertools.product(range(3), range(2)))
    known: dict[tuple[int, int], set[int]] = {thread: set() for thread in threads}
    for at, step in enumerate(steps):
        if not isinstance(step[0], str):
            met = set().union(*(known[thread] for thread in threads if thread[0] in step))
            known |= {thread: set(met) for thread in threads if thread[0] in step}
            continue
        what, warp, lane, word, value = step
        what = what.removesuffix(" later")
        if what == "ld unused":
            continue
        for before in set(range(at)) - known[warp, lane]:
            if isinstance(steps[before][0], str) and steps[before][3] == word:
                pair = {str(steps[before][0]).removesuffix(" later"), what}
                is_same = pair == {"st"} and steps[before][4] == value
                is_same |= "ld unused" in pair
                if not is_same and pair not in ({"ld"}, {"red"}):
                    return True
        known[warp, lane].add(at)
    return False


def written(steps: list[Step], space: str) -> str:
    bodies: list[list[str]] = [[], [], []]
    last: list[list[str]] = [[], [], []]
    base = {"shared": "%r2", "global": "%rd1"}[space]
    for number, step in enumerate(steps, 20):
        if not isinstance(step[0], str):
            for warp in step:
                bodies[warp].append(f"bar.sync {sum(1 << each for each in step)}, {32 * len(step)};")
            continue
        what, warp, lane, word, value = step
        guard, place = f"@%p{lane + 1}", f"[{base}+{4 * word}]"
        access = {"st": f"st.{space}.u32 {place}, {value + 5};", "red": f"red.{space}.add.u32 {place}, 1;"}
        bodies[warp].append(f"{guard} {access.get(str(what), f'ld.{space}.u32 %r{number}, {place};')}")
        if what in ("ld", "ld later"):
            used = last if what == "ld later" else bodies
            used[warp].append(f"{guard} st.global.u32 [%rd3+64], %r{number};")
    for body, more in zip(bodies, last, strict=True):
        body += more
    return BODIES.format(*map(" ".join, bodies))


@pytest.mark.parametrize("space", ["shared", "global"])
def test_random_programs_are_racy_by_the_definition(space: str) -> None:
    rng, relied = random.Random(5), 0
    for _ in range(60):
        steps = drawn(rng)
        if space == "shared":
            steps = [("ld", *step[1:]) if step[0] == "ld unused" else step for step in steps]
        kernel = lt.ptx.load(TEXT.format(body=written(steps, space)))["k"]
        found = kernel.check(grid=1, block=96, args=[np.zeros(128, np.int32)], settings=lt.ptx.Settings(orders=1))
        assert found.kind == ("race" if is_race(steps) else "ok"), (steps, found.message)
        relied += bool(found.relies)
    assert relied > 3
