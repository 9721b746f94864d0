"""What the default schedule of a problem becomes on sm_90a: registers, spills, shared memory, instructions.

One row per problem, pinned exactly: MLIR's and ptxas's versions stand in pyproject.toml. A row that changes is a kernel
that changed: time it on a GPU (`benchmarks/`) before the row is written anew. No GPU is needed here.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import lowtide as lt
from lowtide.compiler.cubin import instruction_count
from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.tile import GemmLayout, OperandKind
from lowtide.passes.schedules.facts.resources import shared_memory_bytes
from lowtide.passes.support.problem.problem import Problem

pytestmark = pytest.mark.code_at_once

TARGET = "sm_90a"


def biased(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


def added(acc, c: lt.Full):
    return acc + c


class Pins(NamedTuple):
    """The CTA tile, the resources per CTA, and instruction counts."""

    tile: str
    registers: int
    """Per thread, by ptxas: the number at entry where setmaxnreg changes it."""
    shared_memory: int
    """Dynamic, per CTA, in bytes."""
    wgmma: int
    loads: int
    """TMA loads of a box: in the K steps that are written out, in those that LLVM unrolls the producer's loops by, and
    of the operands of the epilogue."""
    stores: int
    """TMA stores of a box."""
    stmatrix: int
    barriers: int
    """bar.sync, of a CTA, a role or a warpgroup."""
    instructions: int
    """Machine code, padding included."""


def sized(m: int | None, n: int | None, k: int | None, dtype: str = "bf16", **more: Any) -> lt.GemmSpec:
    return lt.GemmSpec(**{"m": m, "n": n, "k": k, "a": dtype, "b": dtype, "d": dtype} | more)


def square(extent: int | None, dtype: str = "bf16", **more: Any) -> lt.GemmSpec:
    return sized(extent, extent, extent, dtype, **more)


# fmt: off
PINNED: dict[str, tuple[lt.GemmSpec, Pins]] = {
    # CTA tile, registers, shared memory; wgmma, loads, stores, stmatrix, barriers; instructions
    "8192": (square(8192), Pins("256×192×64", 168, 221232, 32, 16, 9, 36, 19, 1400)),
    "4096x28672x4096": (sized(4096, 28672, 4096), Pins("256×184×64", 168, 216112, 24, 12, 6, 30, 13, 920)),
    "4096": (square(4096), Pins("128×256×64", 168, 213040, 8, 12, 4, 16, 9, 696)),
    "4096 tt": (square(4096, layout="tt"), Pins("128×256×64", 168, 213040, 8, 30, 4, 16, 9, 864)),
    "4096 nn": (square(4096, layout="nn"), Pins("128×256×64", 168, 213040, 8, 18, 4, 16, 9, 752)),
    "4096 nt": (square(4096, layout="nt"), Pins("128×256×64", 168, 213040, 8, 36, 4, 16, 9, 912)),
    "8192 tt": (square(8192, layout="tt"), Pins("256×192×64", 168, 221232, 32, 32, 9, 36, 19, 1520)),
    "4096 f16": (square(4096, "f16"), Pins("128×256×64", 168, 213040, 8, 12, 4, 16, 9, 696)),
    "8192 D of f32": (square(8192, d="f32"), Pins("256×192×64", 168, 221232, 32, 16, 18, 0, 37, 1592)),
    "8192 relu(acc + bias)": (square(8192, epilogue=biased), Pins("256×192×64", 168, 221232, 24, 16, 9, 36, 19, 2064)),
    "4096 acc + c": (square(4096, epilogue=added), Pins("128×176×64", 168, 229488, 16, 18, 6, 22, 14, 1376)),
    "3072": (square(3072), Pins("128×192×64", 168, 213072, 16, 18, 6, 24, 14, 872)),
    "1536": (square(1536), Pins("128×144×64", 168, 211024, 8, 18, 3, 9, 7, 656)),
    "8192x8192x256": (sized(8192, 8192, 256), Pins("128×192×64", 168, 213072, 16, 16, 6, 24, 14, 808)),
    "1000": (square(1000), Pins("128×80×64", 168, 206960, 8, 2, 2, 10, 4, 424)),
    "4096x4104x4104": (sized(4096, 4104, 4104), Pins("256×176×64", 168, 210992, 24, 2, 6, 22, 12, 744)),
    "512": (square(512), Pins("64×32×64", 168, 106640, 8, 26, 1, 2, 4, 648)),
    "4096 columns": (sized(None, 4096, None), Pins("128×256×64", 168, 213040, 8, 8, 4, 16, 9, 640)),
    "any extents": (square(None), Pins("128×256×64", 168, 229440, 8, 10, 0, 0, 5, 1168)),
}
# fmt: on


@dataclass(frozen=True)
class Case:
    spec: lt.GemmSpec
    kernel: CompiledKernel
    pins: Pins


@pytest.fixture(scope="module", params=list(PINNED))
def case(request: pytest.FixtureRequest) -> Case:
    spec, pins = PINNED[request.param]
    return Case(spec, lt.compile_gemm(spec, target=TARGET), pins)


def found(kernel: CompiledKernel) -> Pins:
    assembly = kernel.assembly
    assert assembly is not None

    # What packs operands follows it.
    own = kernel.ptx.split(".visible .entry lowtide_gemm_copy_")[0]
    launches = (op for op in kernel.manifest["host"] if op["op"] == "tile.launch")
    (launch,) = (op for op in launches if op["attributes"]["kernel"] == kernel.entry)

    def count(pattern: str) -> int:
        return len(re.findall(rf"^\s*(?:@%p\d+ )?{pattern}", own, re.MULTILINE))

    return Pins(
        tile="×".join(map(str, kernel.schedule.tile_mnk)),
        registers=assembly.registers,
        shared_memory=launch["attributes"]["shared_memory"],
        wgmma=count(r"wgmma\.mma_async\."),
        loads=count(r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\."),
        stores=count(r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta\."),
        stmatrix=count(r"stmatrix\."),
        barriers=count(r"bar\.sync"),
        instructions=instruction_count(assembly.cubin, kernel.entry),
    )


def test_the_kernel_is_the_one_that_was_measured(case: Case) -> None:
    assert found(case.kernel) == case.pins


def test_nothing_spills_and_ptxas_has_nothing_to_say(case: Case) -> None:
    assembly = case.kernel.assembly
    assert assembly is not None
    assert (assembly.spill_stores, assembly.spill_loads, assembly.stack_bytes, assembly.static_smem_bytes) == (0,) * 4
    assert assembly.warnings == ()


def test_shared_memory_is_what_the_schedule_was_judged_by(case: Case) -> None:
    spec = case.spec
    layout, kinds = GemmLayout[spec.layout], tuple(OperandKind[operand.kind.value] for operand in spec.operands)
    operands = tuple(operand.dtype for operand in spec.operands)
    problem = Problem(spec.m, spec.n, spec.k, spec.a, spec.b, spec.acc, spec.d, layout, kinds, operands)
    assert shared_memory_bytes(case.kernel.schedule, problem) == case.pins.shared_memory


def test_the_pinned_kernels_are_of_every_layout_type_and_store() -> None:
    specs = [spec for spec, _ in PINNED.values()]
    assert {spec.layout for spec in specs} == {"tn", "nn", "nt", "tt"}
    assert {(spec.a, spec.d) for spec in specs} == {("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32")}
    assert {pins.stores == 0 for _, pins in PINNED.values()} == {False, True}
