"""Litmus tests of the memory model: what release, acquire, scopes and fences order (PTX ISA, "Memory Consistency
Model").

Each kernel is data: the programs of its threads, and its verdict. Each racy kernel has a correct twin. The
interpreter judges them (test/interpreter/test_memory_model.py), and a GPU runs them (run_litmus.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
OK, RACE = "ok", "race"

A, B, C = (0, 0), (1, 0), (2, 0)
"""Threads: a CTA and a thread there. A CTA has 64."""
WORDS = {"x": "%rd1", "y": "%rd2", "f": "%rd3", "g": "%rd4", "s": "%rd5"}
"""Data x and y, flags f and g in global memory; s is in shared memory, at the address of a variable."""
SPACING = 512
"""Bytes between the words of two copies of a test that run on a GPU at the same time."""
_PATIENCE = 20_000  # repetitions of a wait on a GPU, where a load may see an old value for ever

# On a GPU, CTAs with another y are copies of a test, on words of their own. Threads begin at various times, with old
# values in the L1 cache.
_MEASURED = f"""mov.u32 %r30, %ctaid.y;
mul.wide.u32 %rd20, %r30, {SPACING};
add.s64 %rd1, %rd1, %rd20;
add.s64 %rd2, %rd2, %rd20;
add.s64 %rd3, %rd3, %rd20;
add.s64 %rd4, %rd4, %rd20;
ld.param.b64 %rd8, [seen];
ld.param.b32 %r31, [salt];
mov.u32 %r33, %ctaid.x;
mad.lo.u32 %r32, %r30, 747796405, %r31;
mad.lo.u32 %r32, %r33, 2891336453, %r32;
shr.u32 %r32, %r32, 22;
ld.global.u32 %r34, [%rd1];
ld.global.u32 %r35, [%rd2];
add.u32 %r34, %r34, %r35;
setp.eq.u32 %p6, %r34, 99;
@%p6 bra $GAVE_UP;
nanosleep.u32 %r32;"""
_GAVE_UP = """bra $RETURN;
$GAVE_UP:
red.global.add.u32 [%rd8+4], 1;
$RETURN:"""


@dataclass(frozen=True)
class Litmus:
    """`programs`: by thread, its steps: an opcode and a word, or a fence. A step `await OP f` repeats a load or an
    atomic until the word is not 0, `await2` until it is 2. `together`: by CTA, steps of all its threads after those.
    `last`: as `programs`, after those."""

    name: str
    verdict: str
    programs: Mapping[tuple[int, int], str]
    together: Mapping[int, str] = field(default_factory=dict)
    last: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def ptx(self, measured: bool = False) -> str:
        """The kernel. If `measured`, for a GPU: with the parameters `seen` and `salt`, too. At `seen`, it counts the
        plain loads that do not see what they would see if they were ordered, and the waits that were given up."""
        lines = [_MEASURED] if measured else []
        lines += ["mov.u32 %r20, %ctaid.x;"]
        if any(" s" in steps for steps in self.programs.values()):
            lines += [
                "setp.ne.u32 %p2, %r1, 0;",
                "mov.u32 %r4, 0;",
                "@!%p2 st.shared.u32 [buffer], %r4;",
                "bar.sync 0;",
            ]
        for cta in range(self.grid):
            lines += [f"setp.ne.u32 %p1, %r20, {cta};", f"@%p1 bra $CTA{cta};"]
            lines += _by_thread(self.programs, cta, "first", measured)
            lines += [*_steps(self.together.get(cta, ""), f"{cta}_all", measured)]
            lines += [*_by_thread(self.last, cta, "last", measured), "bra $DONE;", f"$CTA{cta}:"]
        lines += ["$DONE:", *([_GAVE_UP] if measured else [])]
        more = ", .param .u64 seen, .param .u32 salt" if measured else ""
        body = "\n".join(lines)
        return f"""{HEADER}.shared .align 4 .b32 buffer;
.visible .entry test(.param .u64 x, .param .u64 y, .param .u64 f, .param .u64 g{more})
{{
.reg .pred %p<9>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
ld.param.b64 %rd1, [x];
ld.param.b64 %rd2, [y];
ld.param.b64 %rd3, [f];
ld.param.b64 %rd4, [g];
mov.u32 %r1, %tid.x;
{body}
ret;
}}
"""

    @property
    def grid(self) -> int:
        """The number of CTAs."""
        return 1 + max([cta for cta, _ in self.programs] + list(self.together))


def _by_thread(programs: Mapping[tuple[int, int], str], cta: int, label: str, measured: bool) -> Iterator[str]:
    for (owner, thread), steps in programs.items():
        if owner == cta:
            end = f"$END{cta}_{thread}_{label}"
            yield from (f"setp.ne.u32 %p2, %r1, {thread};", f"@%p2 bra {end};")
            yield from (*_steps(steps, f"{cta}_{thread}_{label}", measured), f"{end}:")


def _steps(steps: str, label: str, measured: bool) -> Iterator[str]:
    parts = [step for step in map(str.strip, steps.split(";")) if step]
    for number, step in enumerate(parts):
        words = step.split()
        if words[0].startswith("await"):
            least = words[0].removeprefix("await") or "1"
            if measured:
                yield "mov.u32 %r40, 0;"
            yield f"$AGAIN{label}_{number}:"
            yield _access(words[1], words[2], addend=0)
            if measured:
                yield f"add.u32 %r40, %r40, 1;\nsetp.gt.u32 %p7, %r40, {_PATIENCE};\n@%p7 bra $GAVE_UP;"
            yield f"setp.lt.u32 %p3, %r4, {least};"
            yield f"@%p3 bra $AGAIN{label}_{number};"
        elif len(words) == 1 or words[0].startswith("bar."):
            yield f"{step};"
        else:
            yield _access(*words)
            ordered = any(each.startswith(("await", "bar.")) for each in parts[:number]) or label.endswith("all")
            if measured and words[0] == "ld" and (ordered or not number):
                yield f"setp.ne.u32 %p5, %r4, {int(ordered)};\n@%p5 red.global.add.u32 [%rd8], 1;"


def _access(opcode: str, word: str, addend: int = 1) -> str:
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


def passing(name: str, verdict: str, release: str, acquire: str, to: tuple[int, int] = B) -> Litmus:
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
# An acquire whose value is not used is no test on a GPU: ptxas 13.0 removes it.
CHAINS = [
    Litmus(
        "a release sequence through an atomic of a third CTA",
        OK,
        {
            A: "st x; st.release.gpu f",
            B: "await atom.relaxed.gpu f; red.relaxed.gpu f",
            C: "await2 ld.relaxed.gpu f; await2 ld.acquire.gpu f; ld x",
        },
    ),
    Litmus(
        "a plain store ends it",
        RACE,
        {
            A: "st x; st.release.gpu f",
            B: "await ld.relaxed.gpu f; st.relaxed.gpu f; red.relaxed.gpu f",
            C: "await2 ld.relaxed.gpu f; await2 ld.acquire.gpu f; ld x",
        },
    ),
    Litmus(
        "an atomic of a narrow scope ends it",
        RACE,
        {
            A: "st x; st.release.gpu f",
            B: "await ld.relaxed.gpu f; red.relaxed.cta f",
            C: "await2 ld.relaxed.gpu f; await2 ld.acquire.gpu f; ld x",
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
