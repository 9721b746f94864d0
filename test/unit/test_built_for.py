"""A dump whose schedule alone is edited: taken up where passes still read it, refused where the kernel is built."""

from collections.abc import Mapping

import pytest

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel

MMA_SYNC = "cta = [64, 64, 32], stages = 3, epilogue_tile = [64, 64], swizzle_d = <3,3,3>"
WGMMA = "roles = cooperative(2), cta = [128, 128, 64], epilogue = smem, epilogue_tile = [128, 64], swizzle_d = <3,3,3>"


def compiled(target: str, schedule: str) -> CompiledKernel:
    spec = lt.GemmSpec(m=None, n=4096, k=None, a="bf16", b="bf16", d="bf16")
    return lt.compile_gemm(spec, target=target, schedule=schedule)


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, CompiledKernel]:
    return {
        "mma.sync": compiled("sm_80", MMA_SYNC),
        "direct": compiled("sm_80", MMA_SYNC + ", epilogue = direct"),
        "wgmma": compiled("sm_90a", WGMMA),
    }


def edited(kernel: CompiledKernel, level: str, old: str, new: str) -> str:
    text = kernel.levels[level]
    assert text.count(old) == 1, f"{old!r} is in the text {text.count(old)} times"
    return text.replace(old, new)


EDITS = [
    ("mma.sync", "fragment_buffers = 2", "fragment_buffers = 1", "pipelined", "fragments loaded a slice ahead"),
    ("mma.sync", "epilogue = smem", "epilogue = direct", "atoms", "stores through shared memory"),
    ("direct", "epilogue = direct", "epilogue = smem", "atoms", "stores straight from fragments"),
    ("mma.sync", "epilogue_math = registers", "epilogue_math = rows", "atoms", "writes scratch of bf16"),
    ("mma.sync", "epilogue_tile = [64, 64]", "epilogue_tile = [32, 64]", "atoms", "writes parts of .64, 64."),
    ("mma.sync", "swizzle_d = <3,3,3>", "swizzle_d = <2,3,3>", "atoms", "keeps the scratch with swizzle<3,3,3>"),
    ("wgmma", "epilogue = smem", "epilogue = direct", "atoms", "stores through shared memory"),
    ("wgmma", "epilogue_tile = [128, 64]", "epilogue_tile = [128, 32]", "atoms", "writes parts of .128, 64."),
    ("wgmma", "epilogue_math = registers", "epilogue_math = rows", "atoms", "writes scratch of bf16"),
]


@pytest.mark.parametrize(("name", "old", "new", "last", "built"), EDITS, ids=[f"{e[0]}: {e[2]}" for e in EDITS])
def test_an_edited_field_takes_effect_up_to_its_last_reader_and_is_refused_below(
    kernels: Mapping[str, CompiledKernel], name: str, old: str, new: str, last: str, built: str
) -> None:
    kernel = kernels[name]
    assert lt.compile_ir(edited(kernel, last, old, new)).ptx != kernel.ptx
    with pytest.raises(lt.PassError, match=rf"{built}.*, but the kernel's schedule says"):
        lt.compile_ir(edited(kernel, "epilogue", old, new))


def test_single_buffered_fragments_are_refused_as_double_buffered() -> None:
    kernel = compiled("sm_80", MMA_SYNC + ", fragment_buffers = 1")
    assert lt.compile_ir(kernel.levels["atoms"]).ptx == kernel.ptx
    with pytest.raises(
        lt.PassError, match="for the slice at hand, but the kernel's schedule says fragment_buffers = 2"
    ):
        lt.compile_ir(edited(kernel, "atoms", "fragment_buffers = 1", "fragment_buffers = 2"))


@pytest.mark.parametrize(
    ("target", "schedule", "d"),
    [
        ("sm_80", "cta = [128, 64, 16], epilogue_math = rows", "bf16"),
        ("sm_80", "cta = [64, 64, 16], stages = 2, epilogue_math = rows, epilogue_tile = [64, 64]", "bf16"),
        ("sm_80", "epilogue = direct, swizzle_d = <3,3,3>", "f32"),
        ("sm_90a", "roles = cooperative(2), cta = [256, 184, 64], epilogue = tma", "f32"),
        ("sm_90a", "roles = cooperative(1), cta = [64, 96, 64], epilogue = smem, epilogue_math = rows", "bf16"),
    ],
)
def test_what_was_lowered_goes_on(target: str, schedule: str, d: str) -> None:
    spec = lt.GemmSpec(m=None, n=4096, k=None, a="bf16", b="bf16", d=d)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    for level in ("atoms", "epilogue"):
        assert lt.compile_ir(kernel.levels[level]).ptx == kernel.ptx
