"""A dump whose schedule alone is edited: taken up where passes still read it, refused where the kernel is built."""

from collections.abc import Mapping
from functools import cache

import pytest
from mlir import ir

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.verification.mutation.kernels import KERNELS as SMALL_KERNELS

MMA_SYNC = "grid.tile = [64, 64], k = 32, stages = 3, order = row, epilogue.tile = [64, 64], epilogue.swizzle = <3,3,3>"
WGMMA = "grid.tile = [128, 128], k = 64, order = groups(16, 8), roles = cooperative(2), epilogue.path = smem, "
WGMMA += "epilogue.tile = [128, 64], epilogue.swizzle = <3,3,3>"
KERNELS: Mapping[str, tuple[str, str]] = {
    "mma.sync": ("sm_80", MMA_SYNC),
    "staged": ("sm_80", MMA_SYNC + ", a.copy = staged.16, epilogue.path = direct"),
    "direct": ("sm_80", MMA_SYNC + ", epilogue.path = direct"),
    "single-buffered": ("sm_80", MMA_SYNC + ", fragment_buffers = 1"),
    "wgmma": ("sm_90a", WGMMA),
    "residual": (
        "sm_90a",
        "grid.tile = [128, 128], k = 64, epilogue.path = smem, epilogue.tile = [128, 32], epilogue.prefetch = 2",
    ),
    "residual by TMA": ("sm_90a", "grid.tile = [128, 128], k = 64, epilogue.tile = [128, 64], epilogue.prefetch = 1"),
    "tall": ("sm_90a", "grid.tile = [256, 64], scheduler = persistent"),
    "tail": ("sm_90a", "grid.tile = [256, 64], tail = halves"),
}


def residual(acc, c: lt.Full):
    return acc + c


@cache
def compiled(name: str) -> CompiledKernel:
    target, schedule = KERNELS[name]
    epilogue = residual if name.startswith("residual") else None
    spec = lt.GemmSpec(m=None, n=4096, k=None, a="bf16", b="bf16", d="bf16", epilogue=epilogue)
    return lt.compile_gemm(spec, target=target, schedule=schedule)


def edited(kernel: CompiledKernel, level: str, fields: str) -> str:
    """The level with other fields in its schedule."""
    changes = lt.Schedule.parse(fields).decided()
    with make_context() as context:
        module = parse_text(kernel.levels[level], context, level)
        with context, ir.Location.unknown():
            attribute = kernel.schedule.set(changes).attribute()

            def edit(op: ir.Operation) -> ir.WalkResult:
                if "schedule" in op.attributes:
                    op.attributes["schedule"] = attribute
                return ir.WalkResult.ADVANCE

            module.operation.walk(edit)
        return str(module)


# A field, the last level that still reads it, and what the kernel below that level is.
EDITS = [
    ("mma.sync", "fragment_buffers = 1", "pipelined", "fragments loaded a slice ahead"),
    ("mma.sync", "epilogue.path = direct", "atoms", "stores through shared memory"),
    ("direct", "epilogue.path = smem", "atoms", "stores straight from fragments"),
    ("mma.sync", "epilogue.math = rows", "atoms", "writes scratch of bf16"),
    ("mma.sync", "epilogue.tile = [32, 64]", "atoms", "writes parts of .64, 64."),
    ("mma.sync", "epilogue.swizzle = <2,3,3>", "atoms", "keeps the scratch with swizzle<3,3,3>"),
    ("wgmma", "launch = serialized", "atoms", "is programmatic"),
    ("wgmma", "epilogue.path = direct", "atoms", "stores through shared memory"),
    ("wgmma", "epilogue.tile = [128, 32]", "atoms", "writes parts of .128, 64."),
    ("wgmma", "epilogue.math = rows", "atoms", "writes scratch of bf16"),
    ("wgmma", "promote = per_step", "problem", "goes on with the sum of the K step before"),
    ("residual", "epilogue.prefetch = 1", "atoms", "stored after 3 loads of full operands"),
    ("residual", "epilogue.prefetch = 0", "atoms", "stored after 3 loads of full operands"),
    ("residual by TMA", "epilogue.prefetch = 2", "atoms", "loads full operands to 1 slots"),
    ("tall", "waves = synchronized", "problem", "CTAs do not wait for each other"),
    ("tall", "k_order = serpentine", "smem", "takes the K steps of all tiles forward"),
    ("tail", "k_order = serpentine", "smem", "takes the K steps of all tiles forward"),
    ("tall", "grid.tail = halves", "problem", "without a loop over the part full_waves"),
    ("tail", "grid.tail = whole", "problem", "without a loop over the part all"),
]


@pytest.mark.parametrize(("name", "fields", "last", "built"), EDITS, ids=[f"{e[0]}: {e[1]}" for e in EDITS])
def test_an_edited_field_takes_effect_up_to_its_last_reader_and_is_refused_below(
    name: str, fields: str, last: str, built: str
) -> None:
    kernel = compiled(name)
    assert lt.compile_ir(edited(kernel, last, fields)).ptx != kernel.ptx
    with pytest.raises(lt.PassError, match=rf"{built}.*, but the kernel's schedule says.*\[not-as-scheduled\]"):
        lt.compile_ir(edited(kernel, "epilogue", fields))


# A field that has been lowered when the level is made, and what the refusal says of the kernel and of the schedule.
LOWERED = [
    ("mma.sync", "cta", "order = grouped(4)", "has the order row", r"order = grouped\(4\); write the same in both"),
    ("mma.sync", "cta", "scheduler = persistent", "is one_shot", "scheduler = persistent; lower again"),
    ("mma.sync", "cta", "grid.tile = [128, 64]", "cuts tiles of .64, 64.", r"grid.tile = \[128, 64\]; lower again"),
    ("mma.sync", "cta", "k = 64", "takes a in tiles of .64, 32.", r"\[64, 64, 64\], which makes them \[64, 64\]"),
    ("mma.sync", "cta", "atoms = [1, 2, 1]", "launches 128 threads", r"atoms = \[1, 2, 1\], which are 64; lower again"),
    ("mma.sync", "pipelined", "stages = 2", "has 3 stages", "stages = 2; lower again"),
    ("mma.sync", "pipelined", "b.swizzle = <0,3,3>", "keeps b with swizzle<2,3,3>", "b.swizzle = <0,3,3>; write"),
    ("mma.sync", "atoms", "a.copy = cp.async.8", "copies by cp.async.16", "a.copy = cp.async.8; lower again"),
    ("staged", "atoms", "a.copy = cp.async.16", "copies through registers", "a.copy = cp.async.16; lower again"),
    ("staged", "epilogue", "a.copy = staged.8", "copies by staged.16", "a.copy = staged.8; lower again"),
    ("mma.sync", "atoms", "a.copy = staged.16", "copies by cp.async.16", "a.copy = staged.16; lower again"),
    ("mma.sync", "atoms", "permutation = [32, 16, 16]", "multiplies by #sm.tiled_mma", r"permutation \[32, 16, 16\]"),
    ("wgmma", "cta", "order = groups(16, 4)", r"has the order groups\(16, 8\)", r"order = groups\(16, 4\); write"),
    ("wgmma", "cta", "scheduler = even_split", "is persistent", "scheduler = even_split; lower again"),
    ("wgmma", "pipelined", "registers = [32, 232]", r"roles of \[40, 232\] registers", r"\[32, 232\]; write the same"),
    ("wgmma", "pipelined", "roles = cooperative(1), atoms = [1, 1, 1], permutation = [64, 128, 16], "
     "registers = [0, 0], epilogue.tile = [64, 64]", r"has roles of \[4, 8\] warps", r"agents of \[4, 4\]"),
    ("wgmma", "atoms", "a.copy = tma.3d", "loads boxes of 2 dimensions", "a.copy = tma.3d; lower again"),
    ("wgmma", "atoms", "a.cache = evict_last", r"has cache\(normal\)", "a.cache = evict_last; write the same in both"),
    ("wgmma", "epilogue", "launch = serialized", "is programmatic", "grid.launch = serialized; lower again"),
    ("wgmma", "nvvm", "launch = serialized", "is programmatic", "grid.launch = serialized; lower again"),
    ("tail", "cta", "grid.tile = [256, 128], permutation = [128, 128, 16], atom = wgmma.m64n128k16, "
     "epilogue.buffers = 2", r"cuts tiles of \[256, 64\]", r"grid.tile = \[256, 128\]; lower again"),
    ("wgmma", "epilogue", "epilogue.cache = streaming", r"has cache\(normal\)", "epilogue.cache = streaming; write"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "level", "fields", "built", "scheduled"), LOWERED, ids=[f"{e[0]}: {e[2]}" for e in LOWERED]
)
def test_an_edited_field_that_was_lowered_is_refused(
    name: str, level: str, fields: str, built: str, scheduled: str
) -> None:
    with pytest.raises(
        lt.Error, match=rf"{built}.*, but the kernel's schedule says .*{scheduled}.*\[not-as-scheduled\]"
    ):
        lt.compile_ir(edited(compiled(name), level, fields))


def test_single_buffered_fragments_are_refused_as_double_buffered() -> None:
    kernel = compiled("single-buffered")
    assert lt.compile_ir(kernel.levels["atoms"]).ptx == kernel.ptx
    with pytest.raises(
        lt.PassError,
        match=r"for the slice at hand, but the kernel's schedule says fragment_buffers = 2.*\[not-as-scheduled\]",
    ):
        lt.compile_ir(edited(kernel, "atoms", "fragment_buffers = 2"))


@pytest.mark.parametrize(
    ("target", "schedule", "d"),
    [
        ("sm_80", "grid.tile = [128, 64], k = 16, epilogue.math = rows", "bf16"),
        ("sm_80", "grid.tile = [64, 64], k = 16, stages = 2, epilogue.math = rows, epilogue.tile = [64, 64]", "bf16"),
        ("sm_80", "epilogue.path = direct, epilogue.swizzle = <3,3,3>", "f32"),
        ("sm_90a", "grid.tile = [256, 184], k = 64, roles = cooperative(2), epilogue.path = tma", "f32"),
        (
            "sm_90a",
            "grid.tile = [64, 96], k = 64, roles = cooperative(1), epilogue.path = smem, epilogue.math = rows",
            "bf16",
        ),
    ],
)
def test_what_was_lowered_goes_on(target: str, schedule: str, d: str) -> None:
    spec = lt.GemmSpec(m=None, n=4096, k=None, a="bf16", b="bf16", d=d)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    for level in ("atoms", "epilogue"):
        assert lt.compile_ir(kernel.levels[level]).levels["llvm"] == kernel.levels["llvm"]


def test_a_programmatic_launch_of_a_kernel_that_never_waits_is_refused() -> None:
    spec = lt.GemmSpec(m=64, n=64, k=64, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="launch = programmatic")
    for level, wait in (("epilogue", "tile.grid_dependency_wait"), ("nvvm", "nvvm.griddepcontrol  wait")):
        text = kernel.levels[level]
        assert lt.compile_ir(text).ptx == kernel.ptx
        assert wait in text
        with pytest.raises(
            lt.PassError,
            match=r"its kernel never waits for them; write tile\.grid_dependency_wait.*\[programmatic-wait\]",
        ):
            lt.compile_ir(text.replace(wait, ""))
        with pytest.raises(lt.PassError, match=r"is programmatic.*grid\.launch = serialized.*\[not-as-scheduled\]"):
            lt.compile_ir(text.replace(", launch = programmatic", ""))


def test_weights_by_wgmma_whose_sums_are_scaled_go_on() -> None:
    lowered = lower(SMALL_KERNELS["sm90-weights"].problem())
    for level in ("atoms", "epilogue"):
        assert lower(lowered.levels[level]).ptx == lowered.ptx


SIZED = [
    ("sm_80", "unroll = full", (256, 256, 256)),
    ("sm_90", "", (81920, 256, 256)),  # D of a tile is held while the next one is multiplied
]


@pytest.mark.parametrize(("target", "schedule", "sizes"), SIZED, ids=["unrolled", "held"])
def test_a_kernel_that_is_lowered_again_has_the_sizes_of_its_matrices(target, schedule, sizes):
    m, n, k = sizes
    spec = lt.GemmSpec(m=m, n=n, k=k, a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule or None)
    for level in ("cta", "smem", "pipelined", "atoms", "epilogue"):
        assert lt.compile_ir(kernel.levels[level]).levels["llvm"] == kernel.levels["llvm"], level
