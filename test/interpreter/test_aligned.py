"""Instructions that a warp executes together (.aligned, .sync), at nvvm and llvm, where only some lanes come."""

import pytest
from one_cta import run_kernel

from lowtide.errors import InterpreterError

MATRIX = (
    "{eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, "
    "shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>"
)
MMA = (
    "{layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, "
    "multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}"
)

FENCED = """%x = llvm.mlir.constant(0.0 : f32) : f32
%desc = llvm.mlir.constant(0 : i64) : i64
%acc = llvm.mlir.zero : !llvm.struct<(f32, f32, f32, f32)>
nvvm.wgmma.fence.aligned"""
WGMMA = {
    "nvvm": "%r = nvvm.wgmma.mma_async %desc, %desc, %acc, <m = 64, n = 8, k = 16>, D[<f32>, <one>], "
    "A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> "
    "!llvm.struct<(f32, f32, f32, f32)>",
    "llvm": '%r = llvm.inline_asm has_side_effects "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.'
    'm64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $8, $9, p, 1, 1, 0, 0; }", "=f,=f,=f,=f,0,1,2,3,l,l" %x, %x, %x, %x, '
    "%desc, %desc : (f32, f32, f32, f32, i64, i64) -> !llvm.struct<(f32, f32, f32, f32)>",
}

# What comes before the branch, and the instruction. %s is an address in shared memory that differs by lane.
INSTRUCTIONS = {
    "ldmatrix": ("", f"%r = nvvm.ldmatrix %s {MATRIX}, num = 1 : i32}} : (!llvm.ptr<3>) -> i32"),
    "stmatrix": ("", f"nvvm.stmatrix %s, %zero {MATRIX}}} : !llvm.ptr<3>, i32"),
    "mma": (
        "%x = llvm.mlir.constant(0.0 : f32) : f32",
        "%r = nvvm.mma.sync A[%zero, %zero, %zero, %zero] B[%zero, %zero] C[%x, %x, %x, %x] "
        f"{MMA} "
        ": (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>",
    ),
    "bar.sync of all": ("", "nvvm.barrier0"),
    "bar.sync by number": ("", "nvvm.barrier id = %one number_of_threads = %threads"),
    "barrier.cluster.arrive": ("", "nvvm.cluster.arrive {aligned}"),
    "barrier.cluster.wait": ("nvvm.cluster.arrive {aligned}", "nvvm.cluster.wait {aligned}"),
    "bar.warp.sync": ("%all = llvm.mlir.constant(-1 : i32) : i32", "nvvm.bar.warp.sync %all : i32"),
    "elect.sync": ("", "%r = nvvm.elect.sync -> i1"),
    "setmaxnreg": ("", "nvvm.setmaxregister increase 240"),
    "wgmma.fence": ("", "nvvm.wgmma.fence.aligned"),
    "wgmma.commit_group": ("", "nvvm.wgmma.commit.group.sync.aligned"),
    "wgmma.wait_group": ("", "nvvm.wgmma.wait.group.sync.aligned 0"),
}

WHOLE = (
    r"(all 32 lanes|all threads) must execute it together.* lanes \[5, 6, .*|"
    r"a barrier in divergent code: lanes \[5, 6, .* do not arrive|"
    r"member mask 0xffffffff: waits for lanes \[5, 6, .*"
)


def test_part_of_a_warp_in_wgmma_is_reported_in_assembly_too() -> None:
    for level, instruction in WGMMA.items():
        with pytest.raises(
            InterpreterError, match=rf"wgmma\.mma_async.*level {level}, CTA 0 warp \d: ({WHOLE}).*\[warp-aligned\]"
        ):
            run_kernel(kernel(level, FENCED, instruction), [], 128)


def kernel(level: str, before: str, inside: str) -> str:
    """A kernel of 128 threads, the first five of each warp of which execute `inside`."""
    branch = {
        "nvvm": f"scf.if %few {{\n{inside}\n}}\n gpu.return",
        "llvm": f"llvm.cond_br %few, ^then, ^join\n^then:\n{inside}\nllvm.br ^join\n^join:\n llvm.return",
    }[level]
    head = {"nvvm": "gpu.func @kernel() kernel", "llvm": "llvm.func @kernel() attributes {nvvm.kernel}"}[level]
    return f"""
    gpu.module @kernels {{
      llvm.mlir.global external @smem() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
      {head} {{
        %thread = nvvm.read.ptx.sreg.tid.x : i32
        %zero = llvm.mlir.constant(0 : i32) : i32
        %one = llvm.mlir.constant(1 : i32) : i32
        %five = llvm.mlir.constant(5 : i32) : i32
        %last = llvm.mlir.constant(31 : i32) : i32
        %threads = llvm.mlir.constant(128 : i32) : i32
        %lane = llvm.and %thread, %last : i32
        %few = llvm.icmp "ult" %lane, %five : i32
        %begin = llvm.mlir.addressof @smem : !llvm.ptr<3>
        %s = llvm.getelementptr %begin[%lane, 0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<16 x i8>
        {before}
        {branch}
      }}
    }}"""


@pytest.mark.parametrize("level", ["nvvm", "llvm"])
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_part_of_a_warp_is_reported(name: str, level: str) -> None:
    before, instruction = INSTRUCTIONS[name]
    with pytest.raises(InterpreterError, match=rf"level {level}, CTA 0 warp \d: ({WHOLE})"):
        run_kernel(kernel(level, before, instruction), [], 128)


@pytest.mark.parametrize("level", ["nvvm", "llvm"])
@pytest.mark.parametrize("name", ["bar.sync by number", "setmaxnreg", "wgmma.commit_group", "elect.sync"])
def test_the_whole_warp_may(name: str, level: str) -> None:
    """The same behind the branch, where the lanes have met again."""
    text = kernel(level, "", "%dead = llvm.add %one, %one : i32")
    before, end = text.rsplit("gpu.return" if level == "nvvm" else "llvm.return", 1)
    instruction = INSTRUCTIONS[name][1].replace("increase 240", "increase 256")
    run_kernel(f"{before}{instruction}\n{'gpu.return' if level == 'nvvm' else 'llvm.return'}{end}", [], 128)
