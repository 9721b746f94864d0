"""Instructions of PTX that a warp executes together (.aligned, .sync), planted where only some of its lanes come."""

import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

SHARED = ".extern .shared .align 1024 .b8 smem[];\n"

# What comes before the branch, and the instruction. %rd8 is an address in shared memory that differs by lane.
INSTRUCTIONS = {
    "ldmatrix": ("", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%rd8];"),
    "stmatrix": ("", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%rd8], {%r2};"),
    "mma": (
        "mov.b32 %r6, 0f00000000;",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%r11, %r12, %r13, %r14}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, {%r6, %r6, %r6, %r6};",
    ),
    "bar.sync of all": ("", "bar.sync 0;"),
    "bar.sync by number": ("", "bar.sync 1, 128;"),
    "barrier.cluster.arrive": ("", "barrier.cluster.arrive.aligned;"),
    "barrier.cluster.wait": ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"),
    "bar.warp.sync": ("", "bar.warp.sync -1;"),
    "elect.sync": ("", "elect.sync %r5|%p5, -1;"),
    "setmaxnreg": ("", "setmaxnreg.inc.sync.aligned.u32 240;"),
    "wgmma.mma_async": (
        "wgmma.fence.sync.aligned; mov.b32 %r6, 0f00000000;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r6, %r6, %r6, %r6}, %rd1, %rd1, %p1, 1, 1, 0, 0;",
    ),
    "wgmma.fence": ("", "wgmma.fence.sync.aligned;"),
    "wgmma.commit_group": ("", "wgmma.commit_group.sync.aligned;"),
    "wgmma.wait_group": ("", "wgmma.wait_group.sync.aligned 0;"),
}

WHOLE = (
    r"(all 32 lanes|all threads) must execute it together.* lanes \[5, 6, .*|"
    r"a barrier in divergent code: lanes \[5, 6, .* do not arrive|"
    r"member mask 0xffffffff: waits for lanes \[5, 6, .*"
)
# The other lanes have not ended, so barriers wait for them (CUDA C++ Programming Guide, "Synchronization Functions").
GUARDS = {
    "in a branch": ("@!%p1 bra $JOIN;\n", "\n$JOIN:\nadd.s32 %r9, %r2, 1;"),
    "under a guard": ("@%p1 ", ""),
}


def run_at(before: str, instruction: str, after: str) -> None:
    """In 128 threads; %p1 holds for the first five of each warp."""
    body = f"""
and.b32 %r2, %r1, 31;
setp.lt.u32 %p1, %r2, 5;
mov.b32 %r2, 0;
shl.b32 %r3, %r1, 4;
cvt.u64.u32 %rd7, %r3;
mov.b64 %rd6, smem;
add.s64 %rd8, %rd6, %rd7;
{before}
{instruction}{after}"""
    run(kernel(body, "x", SHARED), {"x": ("f32", 4)}, threads=128)


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_part_of_a_warp_is_reported(name: str, guard: str) -> None:
    before, instruction = INSTRUCTIONS[name]
    start, end = GUARDS[guard]
    with pytest.raises(InterpreterError, match=rf"at test\.ptx:\d+, level ptx, CTA 0 warp \d: ({WHOLE})"):
        run_at(before, f"{start}{instruction}", end)


@pytest.mark.parametrize("name", ["bar.sync by number", "setmaxnreg", "wgmma.commit_group", "elect.sync"])
def test_the_whole_warp_may(name: str) -> None:
    """The same behind a branch, where the lanes have met again."""
    instruction = INSTRUCTIONS[name][1].replace("240", "256")
    run_at("@!%p1 bra $JOIN;\nadd.s32 %r9, %r2, 1;\n$JOIN:", instruction, "")


@pytest.mark.parametrize(("types", "count"), [("f32.bf16.bf16", 3), ("f32.e4m3.e4m3", 2)])
def test_a_wgmma_with_a_in_other_registers_than_it_has_is_refused(types: str, count: int) -> None:
    k, turned = (16, ", 0") if "bf16" in types else (32, "")
    held = ", ".join(["%r2"] * count)
    instruction = (
        f"wgmma.mma_async.sync.aligned.m64n8k{k}.{types} {{%r6, %r6, %r6, %r6}}, {{{held}}}, %rd1, %p1, 1, 1{turned};"
    )
    with pytest.raises(InterpreterError, match=rf"in {count} registers; it has 4 \[held-registers\]"):
        run_at("", instruction, "")
