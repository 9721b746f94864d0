"""Litmus tests of the memory model: what release, acquire, scopes and fences order (PTX ISA, "Memory Consistency
Model").

Each kernel is data: the programs of some threads, and its verdict. A racy one stands beside a right twin.
"""

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.exploration import explore
from lowtide.interpreter.machine.interleavings import Report

OK, RACE = "ok", "race"

A, B, C = (0, 0), (1, 0), (2, 0)
"""Threads: a CTA and a thread there. A CTA has 64."""
WORDS = {"x": "%rd1", "y": "%rd2", "f": "%rd3", "g": "%rd4", "s": "%rd5"}
"""Data x and y, flags f and g in global memory; s is in shared memory, at the address of a variable."""


@dataclass(frozen=True)
class Litmus:
    """`programs`: by thread, its steps: an opcode and a word, or a fence. A step `await OP f` repeats a load or an
    atomic until the word is not 0, `await2` until it is 2. `together`: by CTA, steps of all its threads after those.
    `last`: as `programs`, after those."""

    name: str
    verdict: str
    programs: dict[tuple[int, int], str]
    together: dict[int, str] = field(default_factory=dict)
    last: dict[tuple[int, int], str] = field(default_factory=dict)

    def ptx(self) -> str:
        """The kernel."""
        lines = ["mov.u32 %r20, %ctaid.x;"]
        if any(" s" in steps for steps in self.programs.values()):
            lines += [
                "setp.ne.u32 %p2, %r1, 0;",
                "mov.u32 %r4, 0;",
                "@!%p2 st.shared.u32 [buffer], %r4;",
                "bar.sync 0;",
            ]
        for cta in range(self.grid):
            lines += [f"setp.ne.u32 %p1, %r20, {cta};", f"@%p1 bra $CTA{cta};"]
            lines += _by_thread(self.programs, cta, "first")
            lines += [*_steps(self.together.get(cta, ""), f"{cta}_all")]
            lines += [*_by_thread(self.last, cta, "last"), "bra $DONE;", f"$CTA{cta}:"]
        return kernel("\n".join([*lines, "$DONE:"]), ["x", "y", "f", "g"], ".shared .align 4 .b32 buffer;")

    @property
    def grid(self) -> int:
        return 1 + max([cta for cta, _ in self.programs] + list(self.together))


def _by_thread(programs, cta, label):
    for (owner, thread), steps in programs.items():
        if owner == cta:
            end = f"$END{cta}_{thread}_{label}"
            yield from (f"setp.ne.u32 %p2, %r1, {thread};", f"@%p2 bra {end};")
            yield from (*_steps(steps, f"{cta}_{thread}_{label}"), f"{end}:")


def _steps(steps, label):
    for number, step in enumerate(filter(None, map(str.strip, steps.split(";")))):
        words = step.split()
        if words[0].startswith("await"):
            least = words[0].removeprefix("await") or "1"
            yield f"$AGAIN{label}_{number}:"
            yield _access(words[1], words[2], addend=0)
            yield f"setp.lt.u32 %p3, %r4, {least};"
            yield f"@%p3 bra $AGAIN{label}_{number};"
        elif len(words) == 1 or words[0].startswith("bar."):
            yield f"{step};"
        else:
            yield _access(*words)


def _access(opcode, word, addend=1):
    space, place = ("shared", "buffer") if word == "s" else ("global", WORDS[word])
    name, *modifiers = opcode.split(".")
    name = ".".join([name, *modifiers, space])
    if opcode.startswith("ld"):
        return f"{name}.u32 %r4, [{place}];"
    if opcode.startswith("st"):
        return f"{name}.u32 [{place}], 1;"
    if opcode.startswith("atom"):
        return f"{name}.add.u32 %r4, [{place}], {addend};"
    return f"{name}.add.u32 [{place}], 1;"


def passing(name, verdict, release, acquire, to=B):
    """Message passing from thread A."""
    return Litmus(name, verdict, {A: f"st x; {release}", to: f"{acquire}; ld x"})


RELEASES = {
    "st.release": "st.release.SCOPE f",
    "red.release": "red.release.SCOPE f",
    "atom.release": "atom.release.SCOPE f",
    "atom.acq_rel": "atom.acq_rel.SCOPE f",
    "fence.acq_rel": "fence.acq_rel.SCOPE; st.relaxed.SCOPE f",
    "fence.release": "fence.release.SCOPE; red.relaxed.SCOPE f",
    "fence": "fence.SCOPE; st.relaxed.SCOPE f",
    "fence.sc": "fence.sc.SCOPE; atom.relaxed.SCOPE f",
    "volatile": "fence.acq_rel.SCOPE; st.volatile f",
    "twice": "st.release.SCOPE g; st.release.SCOPE f",
}
ACQUIRES = {
    "ld.acquire": "await ld.acquire.SCOPE f",
    "atom.acquire": "await atom.acquire.SCOPE f",
    "atom.acq_rel": "await atom.acq_rel.SCOPE f",
    "fence.acq_rel": "await ld.relaxed.SCOPE f; fence.acq_rel.SCOPE",
    "fence.acquire": "await atom.relaxed.SCOPE f; fence.acquire.SCOPE",
    "fence.sc": "await ld.relaxed.SCOPE f; fence.sc.SCOPE",
    "volatile": "await ld.volatile f; fence.acq_rel.SCOPE",
}
SCOPED = [
    passing(f"{first} to {second}, .{scope}", verdict, one.replace("SCOPE", scope), other.replace("SCOPE", scope))
    for scope, verdict in (("gpu", OK), ("sys", OK), ("cluster", RACE), ("cta", RACE))
    for first, one in RELEASES.items()
    for second, other in ACQUIRES.items()
    if scope == "gpu" or first == second or (first, second) == ("st.release", "ld.acquire")
]
NEXT = (0, 1)  # of the same warp as A
WARP = (0, 32)
WITHIN = [
    passing(
        f"{first} to {second} within the {where}", OK, one.replace("SCOPE", "cta"), other.replace("SCOPE", "cta"), to
    )
    for where, to in (("CTA", WARP),)
    for first, one in RELEASES.items()
    for second, other in ACQUIRES.items()
    if first in ("st.release", "fence.acq_rel", "volatile") or first == second
]
ORDERS = [
    passing("a relaxed store", RACE, "st.relaxed.gpu f", "await ld.acquire.gpu f"),
    passing("a relaxed load", RACE, "st.release.gpu f", "await ld.relaxed.gpu f"),
    passing("a volatile store", RACE, "st.volatile f", "await ld.acquire.gpu f"),
    passing("a narrow release", RACE, "st.release.cta f", "await ld.acquire.gpu f"),
    passing("a narrow acquire", RACE, "st.release.gpu f", "await ld.acquire.cta f"),
    passing("a release of the system, an acquire of the GPU", OK, "st.release.sys f", "await ld.acquire.gpu f"),
    passing("a narrow release fence", RACE, "fence.acq_rel.cta; st.relaxed.gpu f", "await ld.acquire.gpu f"),
    passing("a narrow store after a fence", RACE, "fence.acq_rel.gpu; st.relaxed.cta f", "await ld.acquire.gpu f"),
    passing("a narrow acquire fence", RACE, "st.release.gpu f", "await ld.relaxed.gpu f; fence.acq_rel.cta"),
    passing("a fence after the flag", RACE, "st.relaxed.gpu f; fence.acq_rel.gpu", "await ld.acquire.gpu f"),
    passing("an acquire fence before the flag", RACE, "st.release.gpu f", "fence.acq_rel.gpu; await ld.relaxed.gpu f"),
    passing(
        "a release fence that only acquires", RACE, "fence.acquire.gpu; st.relaxed.gpu f", "await ld.acquire.gpu f"
    ),
    passing(
        "an acquire fence that only releases", RACE, "st.release.gpu f", "await ld.relaxed.gpu f; fence.release.gpu"
    ),
    passing("membar.gl", OK, "membar.gl; atom f", "await atom f; membar.gl"),
    passing("membar.sys", OK, "membar.sys; red f", "await ld.volatile f; membar.sys"),
    passing("membar.cta", RACE, "membar.cta; atom f", "await atom f; membar.cta"),
    passing("no membar by the reader", RACE, "membar.gl; atom f", "await atom f"),
    passing("no membar by the writer", RACE, "atom f", "await atom f; membar.gl"),
    Litmus("an atomic is relaxed by default", RACE, {A: "st x; atom f", B: "await atom f; ld x"}),
    Litmus("only stores before a release", RACE, {A: "st.release.gpu f; st x", B: "await ld.acquire.gpu f; ld x"}),
    Litmus(
        "only stores before a fence",
        RACE,
        {A: "fence.sc.gpu; st x; st.relaxed.gpu f", B: "await ld.acquire.gpu f; ld x"},
    ),
    Litmus("a read before a write", OK, {A: "ld x; st.release.gpu f", B: "await ld.acquire.gpu f; st x"}),
    Litmus("a read before a write, relaxed", RACE, {A: "ld x; st.relaxed.gpu f", B: "await ld.acquire.gpu f; st x"}),
]
SELF = [
    Litmus("a thread releases its own stores", OK, {A: "st x; red.release.gpu f", B: "await ld.acquire.gpu f; ld x"}),
    Litmus(
        "a thread does not release stores of its warp",
        RACE,
        {NEXT: "st x", A: "red.release.gpu f", B: "await ld.acquire.gpu f; ld x"},
    ),
    Litmus(
        "after a barrier it does",
        OK,
        {NEXT: "st x", B: "await ld.acquire.gpu f; ld x"},
        {0: "bar.sync 0; red.release.gpu f"},
    ),
    Litmus(
        "one lane acquires for itself", RACE, {A: "st x; st.release.gpu f", B: "await ld.acquire.gpu f"}, {1: "ld x"}
    ),
    Litmus(
        "a barrier gives it to all",
        OK,
        {A: "st x; st.release.gpu f", B: "await ld.acquire.gpu f"},
        {1: "bar.sync 0; ld x"},
    ),
    Litmus(
        "a warp's barrier gives it to the warp",
        RACE,
        {A: "st x; st.release.gpu f", B: "await ld.acquire.gpu f"},
        {1: "bar.warp.sync -1; ld x"},
    ),
    Litmus("all lanes acquire", OK, {A: "st x; st.release.gpu f"}, {1: "await ld.acquire.gpu f; ld x"}),
    Litmus("all lanes acquire by atomics", OK, {A: "st x; st.release.gpu f"}, {1: "await atom.acquire.gpu f; ld x"}),
    Litmus(
        "all lanes fence", OK, {A: "st x; st.release.gpu f"}, {1: "await ld.relaxed.gpu f; fence.acq_rel.gpu; ld x"}
    ),
    Litmus("all lanes read", RACE, {A: "st x; st.release.gpu f"}, {1: "await ld.relaxed.gpu f; ld x"}),
]
CHAINS = [
    Litmus(
        "a release sequence through an atomic of a third CTA",
        OK,
        {
            A: "st x; st.release.gpu f",
            B: "await atom.relaxed.gpu f; red.relaxed.gpu f",
            C: "await2 ld.relaxed.gpu f; ld.acquire.gpu f; ld x",
        },
    ),
    Litmus(
        "a plain store ends it",
        RACE,
        {
            A: "st x; st.release.gpu f",
            B: "await ld.relaxed.gpu f; st.relaxed.gpu f; red.relaxed.gpu f",
            C: "await2 ld.relaxed.gpu f; ld.acquire.gpu f; ld x",
        },
    ),
    Litmus(
        "an atomic of a narrow scope ends it",
        RACE,
        {
            A: "st x; st.release.gpu f",
            B: "await ld.relaxed.gpu f; red.relaxed.cta f",
            C: "await2 ld.relaxed.gpu f; ld.acquire.gpu f; ld x",
        },
    ),
    Litmus(
        "a store of the releasing thread continues it",
        OK,
        {A: "st x; st.release.gpu f; st.relaxed.gpu f", B: "await ld.acquire.gpu f; ld x"},
    ),
    Litmus(
        "ISA2: what was acquired is released",
        OK,
        {A: "st x; st.release.gpu f", B: "await ld.acquire.gpu f; st.release.gpu g", C: "await ld.acquire.gpu g; ld x"},
    ),
    Litmus(
        "ISA2, relaxed in the middle",
        RACE,
        {A: "st x; st.release.gpu f", B: "await ld.relaxed.gpu f; st.release.gpu g", C: "await ld.acquire.gpu g; ld x"},
    ),
    Litmus(
        "ISA2 by fences",
        OK,
        {
            A: "st x; membar.gl; st.volatile f",
            B: "await ld.volatile f; membar.gl; st.volatile g",
            C: "await ld.volatile g; membar.gl; ld x",
        },
    ),
    Litmus(
        "WRC: an observed strong store",
        OK,
        {A: "st.relaxed.gpu x", B: "await ld.relaxed.gpu x; st.release.gpu g", C: "await ld.acquire.gpu g; ld x"},
    ),
    Litmus(
        "WRC, relaxed",
        RACE,
        {A: "st.relaxed.gpu x", B: "await ld.relaxed.gpu x; st.relaxed.gpu g", C: "await ld.acquire.gpu g; ld x"},
    ),
    Litmus(
        "cumulative within the CTA",
        OK,
        {
            A: "st x; st.release.cta g",
            WARP: "await ld.acquire.cta g; st.release.gpu f",
            B: "await ld.acquire.gpu f; ld x",
        },
    ),
    Litmus(
        "cumulative within the CTA, relaxed",
        RACE,
        {
            A: "st x; st.relaxed.cta g",
            WARP: "await ld.acquire.cta g; st.release.gpu f",
            B: "await ld.acquire.gpu f; ld x",
        },
    ),
]
BARRIERS = [
    Litmus(
        "a fence after the barrier releases for the CTA",
        OK,
        {WARP: "st x", B: "await atom f; membar.gl; ld x"},
        {0: "bar.sync 0"},
        {A: "membar.gl; atom f"},
    ),
    Litmus(
        "fences of all threads before the barrier, in the order of fence.sc",
        OK,
        {WARP: "st x; membar.gl", B: "await atom f; membar.gl; ld x"},
        {0: "bar.sync 0"},
        {A: "atom f"},
    ),
    Litmus(
        "fence.acq_rel before the barrier",
        RACE,
        {WARP: "st x; fence.acq_rel.gpu", B: "await atom f; membar.gl; ld x"},
        {0: "bar.sync 0"},
        {A: "atom f"},
    ),
    Litmus(
        "fences of all threads after the barrier",
        OK,
        {A: "st x; membar.gl; atom f", B: "await atom f"},
        {1: "bar.sync 0; membar.gl; ld x"},
    ),
    Litmus("no fence", RACE, {A: "st x; membar.gl; atom f", B: "await atom f"}, {1: "bar.sync 0; ld x"}),
]
MIXED = [
    Litmus("two atomics", OK, {A: "red f", B: "red f"}),
    Litmus("two relaxed stores", OK, {A: "st.relaxed.gpu f", B: "st.relaxed.gpu f"}),
    Litmus("volatile accesses", OK, {A: "st.volatile f", B: "ld.volatile f"}),
    Litmus("a weak store and an atomic", RACE, {A: "st f", B: "red f"}),
    Litmus("a weak load and an atomic", RACE, {A: "ld f", B: "red f"}),
    Litmus("a weak store and a strong load", RACE, {A: "st f", B: "ld.relaxed.gpu f"}),
    Litmus("two weak loads and a strong load", OK, {A: "ld f", B: "ld f", C: "ld.acquire.gpu f"}),
    Litmus("atomics of narrow scopes", RACE, {A: "red.relaxed.cta f", B: "red.relaxed.cta f"}),
    Litmus("an atomic of a narrow scope", RACE, {A: "red.relaxed.gpu f", B: "red.relaxed.cta f"}),
    Litmus("atomics of narrow scopes in a CTA", OK, {A: "red.relaxed.cta f", WARP: "red.relaxed.cta f"}),
    Litmus("all lanes store by strong operations", OK, {}, {0: "st.relaxed.gpu f", 1: "st.release.sys f"}),
    Litmus("all lanes store", RACE, {}, {0: "st f"}),
    Litmus("atomics by all lanes", OK, {}, {0: "red.release.gpu f", 1: "atom.acq_rel.gpu f"}),
    Litmus("an observed counter is reset", OK, {A: "red f", B: "await atom f; st f"}),
    Litmus("a counter is reset", RACE, {A: "red f", B: "st f"}),
    Litmus(
        "store buffering is no race",
        OK,
        {A: "st.relaxed.gpu x; ld.relaxed.gpu y", B: "st.relaxed.gpu y; ld.relaxed.gpu x"},
    ),
    Litmus(
        "load buffering is no race",
        OK,
        {A: "ld.relaxed.gpu x; st.relaxed.gpu y", B: "ld.relaxed.gpu y; st.relaxed.gpu x"},
    ),
    Litmus("weak store buffering", RACE, {A: "st x; membar.gl; ld y", B: "st y; membar.gl; ld x"}),
]
SHARED = [
    Litmus("by an atomic of shared memory", OK, {A: "st x; red.release.cta s", WARP: "await ld.acquire.cta s; ld x"}),
    Litmus("relaxed in shared memory", RACE, {A: "st x; red.relaxed.cta s", WARP: "await ld.acquire.cta s; ld x"}),
    Litmus(
        "by fences and shared memory",
        OK,
        {A: "st x; membar.cta; st.volatile s", WARP: "await ld.volatile s; membar.cta; ld x"},
    ),
    Litmus("a lock in shared memory", OK, {A: "red s", WARP: "red s"}),
    Litmus("a weak store beside an atomic", RACE, {A: "st s", WARP: "red s"}),
    Litmus("an atomic beside a weak load", RACE, {A: "red s", WARP: "ld s"}),
]

ALL = [*SCOPED, *WITHIN, *ORDERS, *SELF, *CHAINS, *BARRIERS, *MIXED, *SHARED]


def judge(litmus, seed):
    """The verdict of one order of threads."""
    buffers = {name: ("i32", np.zeros(1)) for name in "xyfg"}
    try:
        run(litmus.ptx(), buffers, grid=litmus.grid, threads=64, seed=seed, resident=3)
    except InterpreterError as error:
        assert "race" in str(error), error
        return RACE
    return OK


@pytest.mark.parametrize("litmus", ALL, ids=lambda litmus: litmus.name)
def test_a_litmus_kernel_has_its_verdict_in_each_order(litmus):
    assert {judge(litmus, seed) for seed in range(2)} == {litmus.verdict}


@pytest.mark.parametrize(
    ("litmus", "message"),
    [
        (
            Litmus("", RACE, {A: "red.relaxed.cta f", B: "red.relaxed.gpu f"}),
            r"`red\.relaxed.* the scopes of the two do not include each other's thread.*\[global-race\]",
        ),
        (
            Litmus("", RACE, {A: "red f", B: "st f"}),
            r"race \(strong access\).*by `(red|st)\..*\[global-race\]|race \(write after write\).*\[global-race\]",
        ),
        (
            Litmus("", RACE, {A: "red s", WARP: "ld s"}),
            r"by a strong operation.*\[shared-word-race\]|\[race-with-read\]",
        ),
    ],
)
def test_a_race_of_strong_operations_is_named(litmus, message):
    with pytest.raises(InterpreterError, match=f"(?s){message}"):
        run(litmus.ptx(), {name: ("i32", np.zeros(1)) for name in "xyfg"}, grid=litmus.grid, threads=64, resident=3)


def test_further_orders_find_the_store_that_ends_the_other_ones_release():
    """The verdict of one order depends on the last store to the flag, so it is not said of all."""
    litmus = Litmus("", RACE, {A: "st x; st.release.gpu f", B: "st.release.gpu f", C: "await ld.acquire.gpu f; ld x"})
    buffers = {name: ("i32", np.zeros(1)) for name in "xyfg"}

    def once(explorer=None, report=None):
        run(litmus.ptx(), buffers, grid=3, threads=64, resident=3, report=report or Report(), explorer=explorer)

    report = Report()
    with suppress(InterpreterError):
        once(report=report)
    assert not report.holds and "the effect of `st.release.gpu" in str(report)
    found = explore(once, 50)
    assert found.fault is not None and "[global-race]" in str(found.fault)
