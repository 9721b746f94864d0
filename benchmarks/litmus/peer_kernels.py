"""PTX kernels of the litmus tests on two GPUs (run_peers.py): one GPU sends, the other one reads.

In epoch e, the word at index i is 32 e + i. A sender writes each epoch over the one before, and then sets the flag to
e. A reader that has seen flag e must not find a smaller word than that of epoch e; it may find a greater one. So the
sender need not wait for the reader, except where `reads` expects the words of one epoch exactly. Each epoch is a trial.
A CTA has 128 threads and 2048 words.

`seen`: four counts of 8 bytes each: words that are older than they should be, waits that were given up, epochs that
CTAs have read, and words that are newer than they should be.
"""

THREADS, WORDS, STEP = 128, 2048, 32
_PATIENCE = 4_000_000_000  # ns, of a wait
_LOADS = WORDS // THREADS  # by a thread
_HEADER = f""".version 8.0
.target sm_90a
.address_size 64
.shared .align 128 .b8 buffer[{4 * WORDS}];
.shared .align 8 .b64 bar;
.shared .align 8 .b32 found;
"""
_REGISTERS = """.reg .pred %p<9>;
.reg .b32 %r<60>;
.reg .b64 %rd<30>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
setp.eq.u32 %p1, %r1, 0;
mul.lo.u32 %r3, %r2, 2048;
add.u32 %r4, %r3, %r1;
mov.u32 %r5, buffer;
mov.u32 %r6, bar;
mov.u32 %r7, found;
mad.lo.u32 %r8, %r2, 747796405, 12345;
"""
"""%r4: the index of a thread's first word, if each CTA has words of its own. %r8: a random number of the CTA."""

_PAUSE = """mad.lo.u32 %r8, %r8, 1664525, 1013904223;
shr.u32 %r9, %r8, 21;
and.b32 %r10, %r8, 0x100000;
setp.ne.u32 %p2, %r10, 0;
@%p2 nanosleep.u32 %r9;
"""
_MAKE_BAR = """@!%p1 bra MADE;
mbarrier.init.shared::cta.b64 [%r6], 1;
fence.mbarrier_init.release.cluster;
MADE:
bar.sync 0;
mov.u32 %r11, 0;
"""


def _entry(parameters: str, body: str) -> str:
    given = ", ".join(f".param .{each.split()[0]} {each.split()[1]}" for each in parameters.split(", "))
    return f"{_HEADER}.visible .entry test({given})\n{{\n{_REGISTERS}{body}ret;\n}}\n"


def _load(name: str, register: str) -> str:
    return f"ld.param.b{64 if register.startswith('%rd') else 32} {register}, [{name}];\n"


def _each(lines: str) -> str:
    """The lines once for each word of a thread. {at}: the word's distance from the thread's first word, {offset}: the
    same in bytes, {number}: the number of a register of its own."""
    return "".join(
        lines.format(at=THREADS * each, offset=4 * THREADS * each, number=20 + each) for each in range(_LOADS)
    )


_LOADED = _each("ld.global.u32 %r{number}, [%rd6+{offset}];\n")
_LOADED_SHARED = _each("ld.shared.u32 %r{number}, [%r12+{offset}];\n")
_OLDER = "add.u32 %r18, %r17, {at};\nsetp.lo.u32 %p5, %r{number}, %r18;\n@%p5 add.u32 %r42, %r42, 1;\n"
_COUNT_OLDER = """setp.ne.u32 %p5, %r42, 0;
cvt.u64.u32 %rd10, %r42;
@%p5 red.global.add.u64 [%rd3], %rd10;
"""
_NEWER = "setp.hi.u32 %p5, %r{number}, %r18;\n@%p5 add.u32 %r43, %r43, 1;\n"


def _bulk_load(fence: bool) -> str:
    """Thread 0 loads the words of the CTA from %rd5 by TMA; all threads wait for them."""
    return f"""@!%p1 bra STARTED;
{"fence.proxy.async;" if fence else ""}
mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%r6], {4 * WORDS};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd5], {4 * WORDS}, [%r6];
STARTED:
mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r6], %r11;
@!%p4 bra STARTED;
xor.b32 %r11, %r11, 1;
shl.b32 %r12, %r1, 2;
add.u32 %r12, %r12, %r5;
{_LOADED_SHARED}fence.proxy.async;
"""


_LOAD = f"""shl.b32 %r12, %r1, 2;
cvt.u64.u32 %rd6, %r12;
add.s64 %rd6, %rd5, %rd6;
{_LOADED}"""


def reader(load: str = "ld.acquire.sys", shared: bool = False, bulk: bool = False, fence: bool = True) -> str:
    """Reads the words each time that the flag has changed. `load`: the instruction that reads the flag. `shared`:
    whether one thread of a CTA reads the flag, before a barrier of all threads; otherwise each thread does. `bulk`:
    whether TMA loads the words, which implies `shared`; `fence`: whether a proxy fence is before that load."""
    shared = shared or bulk
    told = """st.shared.u32 [%r7], %r16;
TOLD:
bar.sync 0;
ld.shared.u32 %r16, [%r7];
"""
    return _entry(
        "u64 data, u64 flags, u64 seen, u32 mask, u32 stride, u32 last",
        f"""{_load("data", "%rd1")}{_load("flags", "%rd2")}{_load("seen", "%rd3")}{_load("mask", "%r13")}{
            _load("stride", "%r14")
        }{_load("last", "%r15")}mul.wide.u32 %rd4, %r2, %r14;
add.s64 %rd2, %rd2, %rd4;
and.b32 %r3, %r3, %r13;
mul.wide.u32 %rd4, %r3, 4;
add.s64 %rd5, %rd1, %rd4;
add.u32 %r4, %r3, %r1;
mov.u32 %r40, 0;
mov.u32 %r41, 0;
mov.u32 %r42, 0;
{_MAKE_BAR}ROUND:
{_PAUSE}{"@!%p1 bra TOLD;" if shared else ""}
mov.u64 %rd7, %globaltimer;
POLL:
{load}.global.u32 %r16, [%rd2];
setp.ne.u32 %p3, %r16, %r40;
@%p3 bra FOUND;
mov.u64 %rd8, %globaltimer;
sub.u64 %rd8, %rd8, %rd7;
setp.lt.u64 %p4, %rd8, {_PATIENCE};
@%p4 bra POLL;
red.global.add.u64 [%rd3+8], 1;
mov.u32 %r16, -1;
FOUND:
{told if shared else ""}setp.eq.u32 %p4, %r16, -1;
@%p4 bra DONE;
mov.u32 %r40, %r16;
add.u32 %r41, %r41, 1;
{_bulk_load(fence) if bulk else _LOAD}mad.lo.u32 %r17, %r16, {STEP}, %r4;
{_each(_OLDER)}{"bar.sync 0;" if shared else ""}
setp.lo.u32 %p6, %r40, %r15;
@%p6 bra ROUND;
DONE:
{_COUNT_OLDER}cvt.u64.u32 %rd10, %r41;
@%p1 red.global.add.u64 [%rd3+16], %rd10;
""",
    )


def reads(bulk: bool = False) -> str:
    """Reads the words once, after a pause. They must be exactly those of an epoch."""
    return _entry(
        "u64 data, u64 seen, u32 epoch",
        f"""{_load("data", "%rd1")}{_load("seen", "%rd3")}{_load("epoch", "%r16")}mul.wide.u32 %rd4, %r3, 4;
add.s64 %rd5, %rd1, %rd4;
mad.lo.u32 %r8, %r16, 747796405, %r8;
mov.u32 %r42, 0;
mov.u32 %r43, 0;
{_MAKE_BAR}{_PAUSE}{_bulk_load(False) if bulk else _LOAD}mad.lo.u32 %r17, %r16, {STEP}, %r4;
{_each(_OLDER + _NEWER)}{_COUNT_OLDER}setp.ne.u32 %p5, %r43, 0;
cvt.u64.u32 %rd10, %r43;
@%p5 red.global.add.u64 [%rd3+24], %rd10;
@%p1 red.global.add.u64 [%rd3+16], 1;
""",
    )


def waits(load: str = "ld.acquire.sys") -> str:
    """One thread waits, for a limited time, until the flag has an epoch or a later one."""
    return _entry(
        "u64 flags, u64 seen, u32 epoch",
        f"""{_load("flags", "%rd2")}{_load("seen", "%rd3")}{_load("epoch", "%r15")}mov.u64 %rd7, %globaltimer;
POLL:
{load}.global.u32 %r16, [%rd2];
sub.u32 %r17, %r16, %r15;
setp.ge.s32 %p3, %r17, 0;
@%p3 bra DONE;
mov.u64 %rd8, %globaltimer;
sub.u64 %rd8, %rd8, %rd7;
setp.lt.u64 %p4, %rd8, {_PATIENCE};
@%p4 bra POLL;
red.global.add.u64 [%rd3+8], 1;
DONE:
""",
    )


def _written(bulk: bool, wait: str) -> str:
    """Writes the words of epoch %r16 to %rd5, with `bulk` by TMA. `wait`: the instruction that waits for TMA stores."""
    if not bulk:
        lines = "add.u32 %r18, %r17, {at};\nst.global.u32 [%rd6+{offset}], %r18;\n"
        return f"""mad.lo.u32 %r17, %r16, {STEP}, %r4;
shl.b32 %r12, %r1, 2;
cvt.u64.u32 %rd6, %r12;
add.s64 %rd6, %rd5, %rd6;
{_each(lines)}"""
    lines = "add.u32 %r18, %r17, {at};\nst.shared.u32 [%r12+{offset}], %r18;\n"
    return f"""mad.lo.u32 %r17, %r16, {STEP}, %r4;
shl.b32 %r12, %r1, 2;
add.u32 %r12, %r12, %r5;
{_each(lines)}fence.proxy.async;
bar.sync 0;
@!%p1 bra STORED;
cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r5], {4 * WORDS};
cp.async.bulk.commit_group;
{wait} 0;
STORED:
"""


def writes(bulk: bool = False) -> str:
    """Writes the words of an epoch, by stores of all threads or, with `bulk`, by TMA. With TMA, the kernel only waits
    until shared memory was read."""
    return _entry(
        "u64 data, u32 epoch",
        f"""{_load("data", "%rd1")}{_load("epoch", "%r16")}mul.wide.u32 %rd4, %r3, 4;
add.s64 %rd5, %rd1, %rd4;
{_written(bulk, "cp.async.bulk.wait_group.read")}""",
    )


def writer(store: str = "st.release.sys", bulk: bool = False, wait: str = "cp.async.bulk.wait_group") -> str:
    """Writes all epochs. Each CTA sets a flag of its own after each epoch. `store`: the instruction that sets the flag.
    `wait`: the instruction that waits for TMA stores."""
    return _entry(
        "u64 data, u64 flags, u32 stride, u32 last",
        f"""{_load("data", "%rd1")}{_load("flags", "%rd2")}{_load("stride", "%r14")}{
            _load("last", "%r15")
        }mul.wide.u32 %rd4, %r2, %r14;
add.s64 %rd2, %rd2, %rd4;
mul.wide.u32 %rd4, %r3, 4;
add.s64 %rd5, %rd1, %rd4;
mov.u32 %r16, 0;
ROUND:
{_PAUSE}add.u32 %r16, %r16, 1;
{_written(bulk, wait)}{"" if bulk else "bar.sync 0;"}
@%p1 {store}.global.u32 [%rd2], %r16;
bar.sync 0;
setp.lo.u32 %p6, %r16, %r15;
@%p6 bra ROUND;
""",
    )


def pause() -> str:
    """Sleeps for about `time` ns."""
    return _entry("u32 time", f"{_load('time', '%r9')}nanosleep.u32 %r9;\n")
