"""Kernels whose control flow depends on timing: what decides nothing, and the exploration of orders where it does."""

import contextlib
import random

import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter import Explored, Explorer, Report, explore
from lowtide.interpreter.machine import exploration

# What decides nothing -------------------------------------------------------------------------------------------------

POLLS = """
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra DONE;
    atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;
    setp.gt.u32 %p2, %r2, 5;
    @%p2 bra GO;
    mov.u32 %r3, 4;
POLL:
    ld.relaxed.gpu.global.u32 %r4, [%rd1];
    setp.lt.u32 %p2, %r4, 2;
    sub.u32 %r3, %r3, 1;
    setp.ne.and.u32 %p2, %r3, 0, %p2;
    @%p2 bra POLL;
GO:
    mov.u32 %r5, 7;
    st.global.u32 [%rd2], %r5;
DONE:
"""


def dependent(body: str) -> bool:
    """Whether the premise fails. It is of the program, so that of a run that ends early is known, too."""
    report = Report()
    given = {"word": ("i32", [9]), "out": ("i32", 2)}
    with contextlib.suppress(InterpreterError):
        run(kernel(body, ["word", "out"]), given, report=report, domain="exact")
    assert report.kernels
    return not report.holds


def test_a_bounded_poll_that_decides_nothing_is_no_dependence() -> None:
    assert not dependent(POLLS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ld.relaxed", "ld.acquire"),  # what is ordered depends on when the loop ends
        ("setp.ne.and.u32 %p2, %r3, 0, %p2", "setp.ne.or.u32 %p2, %r3, 0, %p2"),  # no bound
        ("sub.u32 %r3, %r3, 1", "xor.b32 %r3, %r3, 1"),  # no count
        ("sub.u32 %r3, %r3, 1", "sub.u32 %r3, %r3, 1; st.global.u32 [%rd2], %r3"),  # it does more than poll
        ("mov.u32 %r5, 7", "cvt.u64.u32 %rd5, %r3; add.u64 %rd2, %rd2, %rd5"),  # how often it turned
        ("mov.u32 %r5, 7", "setp.ne.b32 %p3, %r4, 0; @%p3 bra DONE"),  # what it found
    ],
)
def test_polls_that_others_may_notice_are_dependences(old: str, new: str) -> None:
    assert old in POLLS
    assert dependent(POLLS.replace(old, new))


def test_a_wait_that_counts_its_turns_is_no_wait() -> None:
    wait = """
    mov.u32 %r3, 4;
    POLL:
    ld.acquire.gpu.global.u32 %r4, [%rd1];
    setp.lt.u32 %p2, %r4, 2;
    @%p2 bra POLL;
    """
    assert not dependent(wait)
    assert dependent(wait.replace("@%p2", "sub.u32 %r3, %r3, 1; setp.ne.and.u32 %p2, %r3, 0, %p2; @%p2"))


# Exploration ----------------------------------------------------------------------------------------------------------

# Each CTA takes tiles off a counter, and writes into each what tile it is.
STEALING = """
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra DONE;
TAKE:
    atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;
    setp.ge.u32 %p2, %r2, 3;
    @%p2 bra DONE;
    mul.wide.u32 %rd5, %r2, 4;
    add.u64 %rd5, %rd2, %rd5;
    st.global.u32 [%rd5], %r2;
    bra TAKE;
DONE:
"""

# The second CTA polls three times for the first, and goes on without it.
IMPATIENT = """
    setp.ne.b32 %p1, %r1, 0;
    mov.u32 %r6, %ctaid.x;
    setp.ne.b32 %p2, %r6, 0;
    @%p2 bra SECOND;
    mov.u32 %r2, 5;
    @!%p1 st.global.u32 [%rd2], %r2;
    bar.sync 0;
    @!%p1 red.release.gpu.global.add.u32 [%rd1], 1;
    bra DONE;
SECOND:
    @%p1 bra DONE;
    mov.u32 %r3, 3;
POLL:
    ld.acquire.gpu.global.u32 %r4, [%rd1];
    sub.u32 %r3, %r3, 1;
    setp.eq.u32 %p3, %r4, 0;
    setp.ne.and.u32 %p3, %r3, 0, %p3;
    @%p3 bra POLL;
    ld.global.u32 %r5, [%rd2];
    st.global.u32 [%rd2+4], %r5;
DONE:
"""

# Who comes second, but for CTA 1, waits for a third.
DEADLOCK = """
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra DONE;
    atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;
    mov.u32 %r6, %ctaid.x;
    setp.le.u32 %p2, %r2, %r6;
    @%p2 bra DONE;
WAIT:
    ld.acquire.gpu.global.u32 %r3, [%rd1];
    setp.lt.u32 %p2, %r3, 3;
    @%p2 bra WAIT;
DONE:
"""

ARRIVING = """
    setp.ne.b32 %p1, %r1, 0;
    @%p1 bra DONE;
    red.release.gpu.global.add.u32 [%rd1], 1;
WAIT:
    ld.acquire.gpu.global.u32 %r2, [%rd1];
    setp.lt.u32 %p2, %r2, 2;
    @%p2 bra WAIT;
DONE:
"""


class EveryOrder(Explorer):
    """Takes no two steps for independent."""

    def touch(self, what: object, how: str) -> None:
        self.path[self._depth].touches["anything"] = {"anything"}


ATOMICS = (
    "atom.relaxed.gpu.global.add.u32 %r2, [%rd1+{word}], {number};",
    "atom.relaxed.gpu.global.exch.b32 %r2, [%rd1+{word}], {number};",
    "atom.relaxed.gpu.global.cas.b32 %r2, [%rd1+{word}], 0, {number};",
    "red.relaxed.gpu.global.add.u32 [%rd1+{word}], {number}; mov.u32 %r2, 0;",
    "red.relaxed.gpu.global.or.b32 [%rd1+{word}], {number}; mov.u32 %r2, 0;",
    "ld.relaxed.gpu.global.u32 %r2, [%rd1+{word}];",
)


def of_atomics(draw: random.Random) -> str:
    """Two CTAs that ask for and change two words, note what they find, and may end by it."""
    lines = ["setp.ne.b32 %p1, %r1, 0; @%p1 bra DONE; mov.u32 %r6, %ctaid.x;"]
    for cta in range(2):
        lines.append(f"setp.ne.b32 %p2, %r6, {cta}; @%p2 bra NOT{cta};")
        for step in range(3):
            lines.append(draw.choice(ATOMICS).format(word=4 * draw.randrange(2), number=draw.randrange(1, 4)))
            lines.append(f"st.global.u32 [%rd2+{4 * (3 * cta + step)}], %r2;")
            lines += [f"setp.ne.b32 %p3, %r2, 0; @%p3 bra NOT{cta};"] * (draw.random() < 0.3)
        lines.append(f"NOT{cta}:")
    return "\n".join([*lines, "DONE:"])


@pytest.mark.parametrize("seed", range(6))
def test_orders_that_do_not_differ_give_nothing_else(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kernel(of_atomics(random.Random(seed)), ["word", "out"])
    found, counts = [], []
    for explorer in (Explorer, EveryOrder):
        monkeypatch.setattr(exploration, "Explorer", explorer)
        results: set[str] = set()

        def one(explorer: Explorer, results: set[str] = results) -> None:
            given = {"word": ("i32", [0, 0]), "out": ("i32", [9] * 6)}
            results.add(str(run(text, given, grid=2, report=Report(), explorer=explorer, domain="exact")))

        counts.append(explore(one, 2000))
        found.append(results)
    assert all(each.holds for each in counts) and counts[0].orders <= counts[1].orders
    assert found[0] == found[1]


def explored(body: str, right: list[int], most: int = 500) -> Explored:
    """All orders of two CTAs that have a word, 0 at first, and three words of output, 9 at first."""

    def one(explorer: Explorer) -> None:
        report, given = Report(), {"word": ("i32", [0]), "out": ("i32", [9, 9, 9])}
        text = kernel(body, ["word", "out"])
        out = run(text, given, grid=2, report=report, explorer=explorer, domain="exact")["out"].tolist()
        if report.timed or out != right:
            raise InterpreterError(f"wrong: {out}, {report.timed}")

    return explore(one, most)


def test_all_orders_of_ctas_that_take_tiles_off_a_counter_are_run() -> None:
    assert dependent(STEALING)
    found = explored(STEALING, [0, 1, 2])
    # Three tiles in one order or another among two CTAs, then who finds first that there are no more.
    assert found.holds and found.orders == 2**3 * 2, found


def test_a_bound_on_orders_is_said() -> None:
    found = explored(STEALING, [0, 1, 2], most=4)
    assert (found.orders, found.complete, found.fault) == (4, False, None)
    assert "4 orders of agents were run, and there are more" in str(found)


def test_arrivals_may_change_places() -> None:
    found = explored(ARRIVING, [9, 9, 9])
    assert found.holds and found.orders == 1


def test_a_poll_that_ends_by_its_bound_is_found_in_some_order() -> None:
    found = explored(IMPATIENT, [5, 5, 9])
    assert "race" in str(found.fault)
    unbounded = IMPATIENT.replace("setp.ne.and.u32 %p3, %r3, 0, %p3;", "")
    assert not explored(unbounded, [5, 5, 9], most=5).complete  # how often it turns is told apart
    found = explored(unbounded.replace("sub.u32 %r3, %r3, 1;", ""), [5, 5, 9])
    assert found.holds and found.orders == 1


def test_a_deadlock_of_some_orders_is_found() -> None:
    found = explored(DEADLOCK, [9, 9, 9])
    assert "deadlock" in str(found.fault) and found.orders > 1
