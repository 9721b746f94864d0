"""Schedules with roles on sm_90a: what ptxas makes of them, what their levels print, where they are refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.facts.resources import shared_memory_bytes, slot_bytes
from lowtide.passes.schedules.rules.rules import broken_rule
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

SM_90A = get("sm_90a")
SPEC = GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16")
PROBLEM = Problem(4096, 4096, 4096, "bf16", "bf16", "f32", "bf16", GemmLayout.tn)
IR_LEVELS = [level for level in Level if level is not Level.PTX]
READ_LEVELS = [level for level in Level if level <= Level.EPILOGUE]

RING = 4 * (128 + 256) * 64 * 2
SCRATCH = 128 * 128 * 2
MBARRIERS = 2 * 4 * 8


@pytest.fixture(scope="module", params=["direct", "smem"])
def epilogue(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kernel(epilogue: str) -> CompiledKernel:
    """4096³ by one producer and two consumer warpgroups, four stages of 128×256×64."""
    schedule = f"grid.tile = [128, 256], k = 64, stages = 4, roles = cooperative(2), epilogue.path = {epilogue}"
    return compile_gemm(SPEC, target="sm_90a", schedule=schedule)


def test_consumers_have_their_accumulators_in_registers(kernel: CompiledKernel) -> None:
    assembly = kernel.assembly
    assert assembly is not None
    # 65536 / 384 threads, in steps of 8: what the CTA enters with; setmaxnreg moves them from there.
    assert assembly.registers == 168
    assert (assembly.spill_stores, assembly.spill_loads, assembly.stack_bytes, assembly.static_smem_bytes) == (0,) * 4
    # An advisory C75xx would say that ptxas serialised the wgmmas.
    assert assembly.warnings == ()


def test_shared_memory_is_the_ring_its_mbarriers_and_the_scratch(kernel: CompiledKernel, epilogue: str) -> None:
    launch = kernel.manifest["host"][-1]["attributes"]
    assert launch["block"] == [384, 1, 1]
    assert launch["shared_memory"] == RING + MBARRIERS + (SCRATCH if epilogue == "smem" else 0)
    assert launch["shared_memory"] == shared_memory_bytes(kernel.schedule, PROBLEM)


def test_a_k_step_is_two_boxes_and_four_wgmmas(kernel: CompiledKernel) -> None:
    text = kernel.levels["nvvm"]
    counts = {
        # Three K steps of the first tile are written out, for a ring of four slots. Then come the loop over
        # its other K steps, and the loop of the other tiles.
        "nvvm.cp.async.bulk.tensor": 2 * (3 + 2),
        "nvvm.mbarrier.arrive.expect_tx": 3 + 2,
        "nvvm.mbarrier.init": 8,
        "nvvm.setmaxregister": 2,
        # The first K step stands before the loop.
        "nvvm.wgmma.mma_async": 2 * 4,
        "nvvm.wgmma.fence": 2,
        "nvvm.wgmma.commit": 2,
        "nvvm.wgmma.wait.group": 1,
        "sm.ptx_wgmma_wait": 1,
        "nvvm.mbarrier.try_wait.parity": 2 + 2,
        "nvvm.mbarrier.arrive ": 2,
    }
    assert {name: text.count(name) for name in counts} == counts


def test_the_ptx_has_the_same_wgmmas_and_each_box_once_more_where_llvm_unrolls(kernel: CompiledKernel) -> None:
    counts = {
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16": 2 * 4,
        "wgmma.wait_group.sync.aligned \t1;": 1,
        "wgmma.wait_group.sync.aligned 0;": 1,
        "setmaxnreg.dec.sync.aligned.u32 \t40;": 1,
        "setmaxnreg.inc.sync.aligned.u32 \t232;": 1,
        # LLVM unrolls the loop over all 64 K steps by two, but not the loop over the 61 after the first three.
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes": 2 * (3 + 1 + 2),
        "mbarrier.arrive.expect_tx": 3 + 1 + 2,
        f".param .align 64 .b8 {kernel.entry}_param_": 2,
    }
    assert {name: kernel.ptx.count(name) for name in counts} == counts


@pytest.mark.parametrize("level", IR_LEVELS, ids=str)
def test_a_level_reads_back_to_itself(kernel: CompiledKernel, level: Level) -> None:
    text = kernel.levels[str(level)]
    assert str(parse_text(text, make_context(), "<test>")) == text


@pytest.mark.parametrize("level", READ_LEVELS, ids=str)
def test_a_level_that_people_read_prints_in_less_than_200_lines(kernel: CompiledKernel, level: Level) -> None:
    assert len(kernel.levels[str(level)].splitlines()) < 200


def test_what_is_chosen_for_two_consumers_neither_spills_nor_serialises() -> None:
    kernel = compile_gemm(SPEC, target="sm_90a", schedule="roles = cooperative(2)")
    assembly = kernel.assembly
    assert assembly is not None
    assert (assembly.registers, assembly.spill_stores, assembly.spill_loads, assembly.warnings) == (168, 0, 0, ())
    assert kernel.schedule.agents.registers == (40, 232)


@pytest.mark.parametrize(
    ("layout", "fields", "registers"),
    [
        # Two blocks of 64 rows per warpgroup: 192 accumulators per thread.
        *((layout, "grid.tile = [256, 192], k = 64", 168) for layout in ("tn", "nn", "nt", "tt")),
        ("nt", "grid.tile = [256, 192], k = 64, a.copy = tma.3d, b.copy = tma.3d", 168),
        ("nn", "grid.tile = [128, 256], k = 64", 168),
        ("nt", "grid.tile = [128, 256], k = 64", 168),
        ("tt", "grid.tile = [128, 256], k = 64", 168),
        ("tn", "grid.tile = [128, 256], k = 128, stages = 2", 168),
        ("tn", "grid.tile = [192, 192], k = 64, roles = cooperative(3)", 128),
        ("tt", "grid.tile = [128, 192], k = 64, roles = cooperative(1)", 228),
    ],
)
def test_operands_of_every_layout_and_several_blocks_of_rows_neither_spill_nor_serialise(
    layout: str, fields: str, registers: int
) -> None:
    schedule = fields if "roles" in fields else f"roles = cooperative(2), {fields}"
    kernel = compile_gemm(replace(SPEC, layout=layout), target="sm_90a", schedule=schedule)
    assembly = kernel.assembly
    assert assembly is not None
    # What the CTA enters with where setmaxnreg moves registers; else what one consumer uses.
    assert (assembly.spill_stores, assembly.spill_loads, assembly.stack_bytes, assembly.warnings) == (0, 0, 0, ())
    assert assembly.registers == registers or ("cooperative(1)" in fields and assembly.registers <= 255)


def gelu(acc):
    return lt.gelu(acc)


def gelu_scaled(acc, alpha: lt.Scalar):
    return lt.gelu(alpha * acc)


def two_matrices(acc, c: lt.Full, e: lt.Full["f32"], bias: lt.PerColumn["f32"]):  # noqa: F821
    return lt.relu(acc + c) * e + bias


@pytest.mark.parametrize(
    ("target", "size", "layout", "dtypes", "epilogue"),
    [
        # Rows of D of any length, which do not go by TMA: functions beside the accumulators of a large tile.
        ("sm_90a", (19976, 4172, None), "nt", ("bf16", "bf16"), gelu),
        ("sm_90a", (None, None, None), "tn", ("bf16", "f32"), gelu_scaled),
        ("sm_90a", (246, 13509, 20), "nn", ("bf16", "f32"), gelu_scaled),
        ("sm_90a", (65, None, 16), "tn", ("f16", "f32"), gelu_scaled),
        ("sm_90a", (11797, 8502, 256), "tn", ("bf16", "f16"), two_matrices),
        ("sm_80", (None, 18492, 158), "nn", ("f16", "f16"), gelu_scaled),
    ],
)
def test_what_an_epilogue_computes_fits_beside_the_accumulators_of_the_default(
    target: str, size: tuple[int | None, ...], layout: str, dtypes: tuple[str, str], epilogue: Callable[..., object]
) -> None:
    (m, n, k), (ab, d) = size, dtypes
    spec = GemmSpec(m=m, n=n, k=k, a=ab, b=ab, d=d, layout=layout, epilogue=epilogue)
    assembly = compile_gemm(spec, target=target).assembly  # raises for spills
    assert assembly is not None
    assert (assembly.spill_stores, assembly.spill_loads, assembly.warnings) == (0, 0, ())


@pytest.mark.parametrize(
    ("layout", "tile", "k", "swizzles"),
    [
        (GemmLayout.tn, (128, 64), 64, ((3, 3, 3), (3, 3, 3))),
        (GemmLayout.tn, (128, 64), 96, ((2, 3, 3), (2, 3, 3))),
        (GemmLayout.tn, (128, 64), 16, ((1, 3, 3), (1, 3, 3))),
        # What is contiguous decides: K of A, N of B.
        (GemmLayout.tt, (128, 48), 32, ((2, 3, 3), (1, 3, 3))),
        (GemmLayout.nn, (128, 48), 32, ((3, 3, 3), (2, 3, 3))),
    ],
)
def test_stages_are_swizzled_as_widely_as_their_rows_allow(
    layout: GemmLayout, tile: tuple[int, int], k: int, swizzles: tuple[tuple[int, int, int], tuple[int, int, int]]
) -> None:
    given = Schedule().with_(roles="cooperative(2)", grid_tile=tile, k=k)
    mainloop = choose(replace(PROBLEM, layout=layout), SM_90A, given).schedule.mainloop
    assert (mainloop.a.swizzle, mainloop.b.swizzle) == swizzles


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90"])
def test_roles_are_refused_where_there_is_no_wgmma(target: str) -> None:
    with pytest.raises(
        ScheduleError,
        match=rf"that {target} does not have; take roles = single, or target sm_90a"
        r".*\[roles-target\]",
    ):
        choose(PROBLEM, get(target), Schedule().with_(roles="cooperative(2)"))


@pytest.mark.parametrize(
    ("dtype", "acc", "ways"),
    [
        ("f32", "f32", "roles = single with atom = fma.m1n1k1"),
        ("f64", "f64", "roles = single with atom = mma.m16n8k16"),
    ],
)
def test_roles_are_refused_for_types_that_wgmma_lacks_with_a_way_out_that_is_legal(dtype, acc, ways) -> None:
    problem = replace(PROBLEM, a=dtype, b=dtype, d=dtype, acc=acc)
    with pytest.raises(
        ScheduleError, match=rf"with {dtype} operands and {acc} accumulators: .*; take {ways} \[atom-of-types\]$"
    ):
        choose(problem, SM_90A, Schedule().with_(roles="cooperative(2)"))
    choose(problem, SM_90A, Schedule.parse(ways.replace(" with ", ", ")))


@pytest.mark.parametrize("layout", list(GemmLayout))
def test_sums_in_f16_are_multiplied_as_those_in_f32_are(layout: GemmLayout) -> None:
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (300, 520, 264), (None, None, None)):
        in_f32 = replace(PROBLEM, m=m, n=n, k=k, a="f16", b="f16", d="f16", layout=layout)
        chosen = choose(replace(in_f32, acc="f16"), SM_90A, Schedule()).schedule
        assert chosen.agents.consumer.all_warpgroups and chosen == choose(in_f32, SM_90A, Schedule()).schedule


@pytest.mark.parametrize(
    ("fields", "columns"), [("[256, {}], roles = cooperative(2)", 192), ("[192, {}], roles = cooperative(3)", 200)]
)
def test_a_register_holds_two_sums_in_f16(fields: str, columns: int) -> None:
    """The widest tile of sums in f32 is no limit of those in f16."""
    in_f32 = replace(PROBLEM, a="f16", b="f16", d="f16")
    wide, widest = (Schedule.parse(f"grid.tile = {fields.format(n)}, k = 64") for n in (256, columns))
    choose(in_f32, SM_90A, widest)
    choose(replace(in_f32, acc="f16"), SM_90A, wide)
    with pytest.raises(ScheduleError, match=rf"accumulator registers .*{columns}"):
        choose(in_f32, SM_90A, wide)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("roles = foo", r"roles = foo is not single, cooperative or pingpong \[roles-word\]"),
        ("roles = cooperative(0)", r"\[roles-number\]"),
        ("roles = single(1)", r"\[roles-single-number\]"),
        ("roles = cooperative(2), atom = fma.m1n1k1", r"not fma.m1n1k1; take atom = mma.m16n8k16 \[roles-atom\]"),
        ("roles = cooperative(2), atom = mma.m16n8k16, atoms = [2, 2, 1]", r"take \[8, 1, 1\] \[consumer-atoms\]"),
        ("roles = cooperative(2), atom = mma.m16n8k16, cluster = [2, 1]", r"cluster = \[1, 1\].*\[consumer-mma\]"),
        (
            "roles = cooperative(2), atom = mma.m16n8k16, grid.tile = [192, 256], k = 64, registers = [40, 208]",
            r"take more warps or a smaller tile \[accumulators-of-consumer\]",
        ),
        ("agents.producer.warps = 8", r"one instance of 4 warps; take producer.warps = 4 \[producer-warps\]"),
        ("agents.consumer.warps = 6", r"are no whole warpgroups; nearest is 4 \[consumer-warps\]"),
        ("consumer = <warps = 8, instances = 2>", r"take consumer.warps = 4, or .* \[consumer-instances\]"),
        ("agents.consumer.warps = 8, agents.single.instances = 1", r"a single agent does all: .* \[agents-single\]"),
        ("agents.single.warps = 4", r"leave single.warps and single.registers out \[single-fields\]"),
        ("registers = [-40, 232]", r"\[registers-range\]"),
        ("roles = single, registers = [40, 232]", r"\[registers-roles\]"),
        ("roles = cooperative(2), registers = [40, 240]", r"520.*\[registers-sum\]"),
        (
            "grid.tile = [256, 256], k = 64, roles = cooperative(2)",
            r"256.*about 40.*232.*grid\.tile.*\[consumer-registers\]",
        ),
        (
            "grid.tile = [192, 256], k = 64, roles = cooperative(3)",
            r"\[accumulators-at-entry\]",
        ),
        (
            "grid.tile = [128, 72], k = 64, roles = cooperative(2), a.copy = tma.6d, b.copy = tma.6d",
            "a.copy = tma.6d is not one of .*tma.5d, ",
        ),
        ("grid.tile = [128, 72], k = 64, roles = cooperative(2), b.copy = tma.6d", r"b.*tma\.6d.*\[copy-words\]"),
        (
            "grid.tile = [128, 128], k = 64, roles = cooperative(2), a.copy = ld.global.16, b.copy = ld.global.16",
            r"ring in shared memory, which a.copy = ld.global.16 does not fill; take a.copy = tma \[roles-copy\]",
        ),
        ("roles = cooperative(2), a.cache = evict_soon", "cache = evict_soon is not normal, evict_first"),
    ],
)
def test_a_malformed_role_is_refused_before_anything_is_chosen(fields: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        choose(PROBLEM, SM_90A, Schedule.parse(fields))


@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_a_tile_for_any_number_of_consumers_is_legal(consumers: int) -> None:
    for blocks in (1, 2 if consumers < 3 else 1):
        given = Schedule().with_(roles=f"cooperative({consumers})", grid_tile=(64 * consumers * blocks, 128), k=64)
        assert broken_rule(choose(PROBLEM, SM_90A, given).schedule, PROBLEM, SM_90A) is None


def test_what_threads_convert_is_multiplied_by_mma_sync_unless_it_is_packed_weights() -> None:
    problem = replace(PROBLEM, converted=("s8", None))
    message = broken_rule(choose(PROBLEM, SM_90A, Schedule()).schedule, problem, SM_90A)
    assert message is not None and message.endswith("take roles = single [converted-roles]")
    schedule = choose(problem, SM_90A, Schedule()).schedule
    assert not schedule.agents.has_producer and schedule.multiply.fragment_buffers == 1
    assert slot_bytes(schedule, problem)[0] * 2 == slot_bytes(schedule, PROBLEM)[0]
