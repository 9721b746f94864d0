"""Litmus tests of the reliances (interpreter/machine/reliances.py): what kernels rely on, and the PTX ISA does not
promise.

Each is a kernel without a fence that the ISA requires; `control` breaks a rule that hardware also requires. Words that
are not as they should be are counted at `seen`, and waits that do not end at `seen + 4`. Row v of `rows` has 512 words
v + 1. The interpreter judges them, too (test/ptx/test_ptx_reliances.py).
"""

from dataclasses import dataclass

ROWS, ROW_BYTES, THREADS = 8, 2048, 128
_HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
_REGISTERS = """.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
ld.param.b64 %rd1, [rows];
ld.param.b64 %rd2, [out];
ld.param.b64 %rd3, [seen];
ld.param.b32 %r1, [rounds];
mov.u32 %r2, %tid.x;
mov.u32 %r3, %ctaid.x;
mul.wide.u32 %rd4, %r3, 2048;
add.s64 %rd2, %rd2, %rd4;
mov.u32 %r4, buffer;
shl.b32 %r5, %r2, 4;
add.u32 %r6, %r4, %r5;
mov.u32 %r7, bars;
mov.u32 %r10, 0;
setp.eq.u32 %p1, %r2, 0;
"""
# The value of the round %r10 in %r12, and its row in %rd6.
_ROW = """add.u32 %r11, %r10, %r3;
and.b32 %r11, %r11, 7;
add.u32 %r12, %r11, 1;
mul.wide.u32 %rd5, %r11, 2048;
add.s64 %rd6, %rd1, %rd5;
"""
_NEXT = """add.u32 %r10, %r10, 1;
setp.lt.u32 %p2, %r10, %r1;
@%p2 bra ROUND;
"""
_RETURN = """bra RETURN;
GAVE_UP:
red.global.add.u32 [%rd3+4], 1;
RETURN:
ret;
"""


def _compared(load: str, count: int = 4) -> str:
    """Compare words of 4 bytes from an address on with %r12."""
    lines = []
    for at in range(count):
        lines += [load.format(at=4 * at), "setp.ne.u32 %p3, %r13, %r12;", "@%p3 red.global.add.u32 [%rd3], 1;"]
    return "\n".join(lines) + "\n"


def _wait(label: str, bar: str, parity: str) -> str:
    """Wait for a phase of an mbarrier, for a limited time."""
    return f"""mov.u32 %r20, 0;
{label}:
add.u32 %r20, %r20, 1;
setp.gt.u32 %p7, %r20, 100000;
@%p7 bra GAVE_UP;
mbarrier.test_wait.parity.shared::cta.b64 %p4, [{bar}], {parity};
@!%p4 bra {label};
"""


@dataclass(frozen=True)
class Relied:
    """`kernel` relies on the reliance `name`; `control`, if there is one, breaks a rule that hardware needs, too. `of`
    tells it from other tests of the reliance."""

    name: str
    threads: int
    kernel: str
    control: str | None = None
    of: str = ""


def _kernel(body: str) -> str:
    return f"""{_HEADER}.shared .align 128 .b8 buffer[{ROW_BYTES}];
.shared .align 8 .b8 bars[512];
.visible .entry test(.param .u64 rows, .param .u64 out, .param .u64 seen, .param .u32 rounds)
{{
{_REGISTERS}{body}{_RETURN}}}
"""


def _cp_async_seen(waits: bool) -> str:
    """cp.async of all threads, their groups, a barrier, then a bulk copy of what was copied; without a proxy fence."""
    wait = "cp.async.wait_group 0;\n"
    return _kernel(
        f"""mul.wide.u32 %rd7, %r2, 16;
add.s64 %rd8, %rd2, %rd7;
ROUND:
{_ROW}add.s64 %rd9, %rd6, %rd7;
cp.async.cg.shared.global [%r6], [%rd9], 16;
cp.async.commit_group;
{wait if waits else ""}bar.sync 0;
@!%p1 bra STORED;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r4], {ROW_BYTES};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
STORED:
{"" if waits else wait}bar.sync 0;
{_compared("ld.relaxed.gpu.global.u32 %r13, [%rd8+{at}];")}bar.sync 0;
{_NEXT}"""
    )


def _init_seen() -> str:
    """A thread initialises an mbarrier, and starts a bulk copy that completes on it; without a fence."""
    return _kernel(
        f"""ROUND:
{_ROW}shl.b32 %r14, %r10, 3;
add.u32 %r15, %r7, %r14;
@!%p1 bra STARTED;
mbarrier.init.shared::cta.b64 [%r15], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%r15], {ROW_BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd6], {ROW_BYTES}, [%r15];
STARTED:
bar.sync 0;
{_wait("AGAIN", "%r15", "0")}{_compared("ld.shared.u32 %r13, [%r6+{at}];")}fence.proxy.async;
bar.sync 0;
{_NEXT}"""
    )


def _parity_bit() -> str:
    """As for `init-seen` with its fence, but a wait for the parity -2, which is even."""
    fenced = _init_seen().replace("[%r15], 1;\n", "[%r15], 1;\nfence.mbarrier_init.release.cluster;\n", 1)
    # A literal parity must be 0 or 1.
    waits = fenced.replace("[%r15], 0;", "[%r15], %r19;")
    return waits.replace("mov.u32 %r10, 0;\n", "mov.u32 %r10, 0;\nmov.u32 %r19, -2;\n", 1)


def _unused_mbarriers() -> str:
    """A thread initialises an mbarrier for two arrivals, and again for one; then a bulk copy completes on it."""
    return _init_seen().replace(
        "mbarrier.init.shared::cta.b64 [%r15], 1;",
        "mbarrier.init.shared::cta.b64 [%r15], 2;\nmbarrier.init.shared::cta.b64 [%r15], 1;\n"
        "fence.mbarrier_init.release.cluster;",
    )


def _reads_before_copies(arrives_after: bool) -> str:
    """Threads read a buffer and arrive at an mbarrier; who waits for it copies into the buffer; without a fence."""
    arrive = "mbarrier.arrive.shared::cta.b64 %rd9, [%r7+8];\n"
    return _kernel(
        f"""@!%p1 bra MADE;
mbarrier.init.shared::cta.b64 [%r7], 1;
mbarrier.init.shared::cta.b64 [%r7+8], {THREADS};
fence.mbarrier_init.release.cluster;
MADE:
bar.sync 0;
setp.gt.u32 %p5, %r2, {THREADS};
@%p5 bra RETURN;
setp.eq.u32 %p6, %r2, {THREADS};
@%p6 bra COPY;
ROUND:
{_ROW}and.b32 %r16, %r10, 1;
{_wait("FULL", "%r7", "%r16")}{"" if arrives_after else arrive}{_compared("ld.shared.u32 %r13, [%r6+{at}];")}{
            arrive if arrives_after else ""
        }{_NEXT}bra RETURN;
COPY:
{_ROW}add.u32 %r17, %r10, 1;
and.b32 %r16, %r17, 1;
{_wait("EMPTY", "%r7+8", "%r16")}mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%r7], {ROW_BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd6], {ROW_BYTES}, [%r7];
add.u32 %r10, %r10, 1;
setp.lt.u32 %p2, %r10, %r1;
@%p2 bra COPY;
"""
    )


def _equal_stores(equal: bool) -> str:
    """All lanes of a warp store to one word of shared memory; then each reads it."""
    different = "" if equal else "and.b32 %r19, %r2, 1;\nadd.u32 %r18, %r18, %r19;\n"
    return _kernel(
        f"""shr.u32 %r21, %r2, 5;
shl.b32 %r21, %r21, 2;
add.u32 %r22, %r4, %r21;
ROUND:
{_ROW}mov.u32 %r18, %r12;
{different}st.shared.u32 [%r22], %r18;
bar.warp.sync -1;
{_compared("ld.shared.u32 %r13, [%r22];", 1)}bar.warp.sync -1;
{_NEXT}"""
    )


def _equal_stores_of_warps(equal: bool) -> str:
    """Lane w of each warp stores to word w of shared memory; after a barrier each thread reads a word."""
    different = "" if equal else "shr.u32 %r19, %r2, 5;\nadd.u32 %r18, %r18, %r19;\n"
    return _kernel(
        f"""and.b32 %r21, %r2, 31;
shl.b32 %r21, %r21, 2;
add.u32 %r22, %r4, %r21;
ROUND:
{_ROW}mov.u32 %r18, %r12;
{different}st.shared.u32 [%r22], %r18;
bar.sync 0;
{_compared("ld.shared.u32 %r13, [%r22];", 1)}bar.sync 0;
{_NEXT}"""
    )


def _equal_stores_of_ctas(equal: bool) -> str:
    """Each CTA stores v + 1 to row v of `out`, 512 bytes long. The last CTA that is done reads the rows that it wrote
    once more. Who is last, a counter at `seen + 4` says, which is 0 again then."""
    different = "" if equal else "and.b32 %r19, %r3, 1;\nadd.u32 %r18, %r18, %r19;\n"
    row = f"""{_ROW}shl.b32 %r14, %r11, 9;
shl.b32 %r15, %r2, 2;
add.u32 %r14, %r14, %r15;
cvt.u64.u32 %rd7, %r14;
add.s64 %rd8, %rd9, %rd7;
"""
    return _kernel(
        f"""ld.param.b64 %rd9, [out];
ROUND:
{row}mov.u32 %r18, %r12;
{different}st.global.u32 [%rd8], %r18;
{_NEXT}bar.sync 0;
mov.u32 %r20, %nctaid.x;
sub.u32 %r20, %r20, 1;
@!%p1 bra COUNTED;
atom.acq_rel.gpu.global.inc.u32 %r21, [%rd3+4], %r20;
st.shared.u32 [%r4], %r21;
COUNTED:
bar.sync 0;
ld.shared.u32 %r21, [%r4];
setp.ne.u32 %p5, %r21, %r20;
@%p5 bra RETURN;
mov.u32 %r10, 0;
AGAIN:
{row}{_compared("ld.global.u32 %r13, [%rd8];", 1)}add.u32 %r10, %r10, 1;
setp.lt.u32 %p2, %r10, %r1;
@%p2 bra AGAIN;
"""
    )


def _unused_reads(uses: bool) -> str:
    """All threads load a word of global memory, and thread 0 stores a greater value there. In the control, all threads
    use what they found."""
    used = "setp.ne.u32 %p3, %r18, %r12;\n@%p3 red.global.add.u32 [%rd3], 1;\n"
    return _kernel(
        f"""@%p1 st.global.u32 [%rd2], %r10;
bar.sync 0;
ROUND:
add.u32 %r12, %r10, 1;
ld.global.u32 %r18, [%rd2];
add.u32 %r18, %r18, 1;
@%p1 st.global.u32 [%rd2], %r18;
{used if uses else ""}bar.sync 0;
{_compared("ld.global.u32 %r13, [%rd2];", 1)}bar.sync 0;
{_NEXT}"""
    )


def _ended_members(waits: bool) -> str:
    """Half of each warp ends. The other lanes see each other's words after a barrier that names all lanes."""
    barrier = "bar.warp.sync -1;\n" if waits else ""
    return _kernel(
        f"""and.b32 %r14, %r2, 16;
setp.ne.u32 %p4, %r14, 0;
@%p4 bra RETURN;
xor.b32 %r16, %r5, 16;
add.u32 %r16, %r4, %r16;
ROUND:
{_ROW}st.shared.u32 [%r6], %r12;
{barrier}{_compared("ld.shared.u32 %r13, [%r16];", 1)}bar.warp.sync -1;
{_NEXT}"""
    )


RELIED = (
    Relied("cp-async-seen", THREADS, _cp_async_seen(True), _cp_async_seen(False)),
    Relied("init-seen", THREADS, _init_seen()),
    Relied("unused-mbarriers", THREADS, _unused_mbarriers()),
    Relied("parity-bit", THREADS, _parity_bit()),
    Relied("ended-members", THREADS, _ended_members(True), _ended_members(False)),
    Relied("reads-before-copies", THREADS + 32, _reads_before_copies(True), _reads_before_copies(False)),
    Relied("equal-stores", THREADS, _equal_stores(True), _equal_stores(False), " of lanes"),
    Relied("equal-stores", THREADS, _equal_stores_of_warps(True), _equal_stores_of_warps(False), " of warps"),
    Relied("equal-stores", THREADS, _equal_stores_of_ctas(True), _equal_stores_of_ctas(False), " of CTAs"),
    Relied("unused-reads", THREADS, _unused_reads(False), _unused_reads(True)),
)
