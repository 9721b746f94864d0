"""Default schedules of f32 without tensor cores and of f64: nothing spills, and K is split where tiles are too few."""

import re

import pytest

import lowtide as lt
from lowtide import targets
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.passes.schedules.choice.choice import choose


def scaled_sum(acc, c: lt.Full, e: lt.Full):
    return acc * c + e


def three_operands(acc, c: lt.Full, e: lt.Full, f: lt.Full):
    return acc * c + e * f


SPLIT, WHOLE = True, False
WHOLE_TILES = lt.Schedule().with_(k_division="none")
CASES = [
    ("sm_80", "f32", "tn", (1024, None, 4096), None, WHOLE),  # copies may end within a tile
    ("sm_80", "f32", "tt", (None, None, 4096), None, WHOLE),
    ("sm_86", "f32", "tn", (4096, 4096, 4096), None, WHOLE),  # little shared memory: fewer CTAs for each SM
    ("sm_89", "f32", "tn", (4096, 4096, 4096), None, WHOLE),
    ("sm_80", "f32", "tn", (500, 300, 4000), None, SPLIT),
    ("sm_80", "f32", "nt", (4096, 64, 768), None, SPLIT),
    ("sm_90", "f32", "tn", (256, 256, 8192), scaled_sum, SPLIT),
    ("sm_90", "f32", "tn", (2048, 2304, 4096), None, SPLIT),  # 288 tiles for 264 CTAs
    ("sm_90", "f64", "nn", (512, 512, 8192), None, SPLIT),
    ("sm_90", "f64", "nt", (256, 256, 8192), scaled_sum, SPLIT),
    ("sm_80", "f64", "tn", (256, 256, 8192), three_operands, SPLIT),
    ("sm_90", "f64", "tn", (384, 3072, 2048), scaled_sum, SPLIT),
    ("sm_90", "f64", "tn", (384, 3072, 2048), three_operands, SPLIT),  # by eight warps: four would spill
    ("sm_90", "f64", "tn", (4096, 4096, 4096), scaled_sum, WHOLE),
    ("sm_80", "f64", "tt", (2048, 2048, 2048), three_operands, WHOLE),
]


@pytest.mark.parametrize(("target", "dtype", "layout", "size", "epilogue", "is_split"), CASES)
def test_what_is_chosen_without_tensor_cores_of_16_bits_spills_nothing(target, dtype, layout, size, epilogue, is_split):
    m, n, k = size
    spec = lt.GemmSpec(m=m, n=n, k=k, a=dtype, b=dtype, d=dtype, layout=layout, epilogue=epilogue)
    kernel = lt.compile_gemm(spec, target=target)
    assert (kernel.schedule.k_division is not None) == is_split
    assembly = kernel.assembly  # raises for spills
    assert assembly is not None and (assembly.spill_stores, assembly.spill_loads, assembly.stack_bytes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("layout", "size", "step", "division"),
    [
        ("nt", (128, 28672, 4096), 32, "stream_k"),  # 224 tiles
        ("nt", (2048, 2048, 2048), 32, "None"),  # 256 tiles nearly fill two CTAs of each of 132 SMs
        ("nn", (4096, 4096, 4096), 32, "hybrid"),  # the last of four waves is 88 % full
        ("tn", (4104, 4104, 4104), 16, "hybrid"),  # both operands pass through registers
        ("nt", (4104, 4104, 4104), 16, "None"),  # copies of A and B that may end within a tile would spill
        ("nt", (4096, 24576, 1536), 32, "None"),  # 23 waves
    ],
)
def test_threads_share_k_evenly_if_whole_tiles_fill_the_sms_badly(layout, size, step, division) -> None:
    m, n, k = size
    spec = lt.GemmSpec(m=m, n=n, k=k, a="f32", b="f32", d="f32", layout=layout)
    schedule = lt.compile_gemm(spec, target="sm_90a").schedule
    assert (schedule.mainloop.k, str(schedule.k_division)) == (step, division)


@pytest.mark.parametrize(("rows", "atoms"), [(1024, (4, 2, 1)), (4096, (2, 2, 1))])
def test_eight_warps_have_a_tile_of_f64_if_an_sm_has_one_at_most(rows: int, atoms: tuple[int, int, int]) -> None:
    spec = lt.GemmSpec(m=rows, n=1024, k=1024, a="f64", b="f64", d="f64", layout="nt")
    schedule = lt.compile_gemm(spec, target="sm_90a").schedule
    assert (schedule.grid.tile, schedule.multiply.atoms) == ((128, 64), atoms)


@pytest.mark.parametrize(("layout", "columns", "parts", "ctas"), [("tt", 128, 16, 2), ("nn", 64, 12, 3)])
def test_wide_tiles_have_parts_of_k_if_a_passes_through_registers(layout, columns, parts, ctas) -> None:
    spec = lt.GemmSpec(m=512, n=512, k=16384, a="f32", b="f32", d="f32", layout=layout)
    chip = targets.get("sm_90a")
    grid = choose(seen_by_passes(spec, chip), chip, lt.Schedule()).schedule.grid
    assert (grid.tile, str(grid.k_division), grid.ctas_per_sm) == ((128, columns), f"split({parts})", ctas)


@pytest.mark.parametrize(
    ("layout", "ctas", "from_the_middle"), [("tt", 2, False), ("nn", 1, True), ("nt", 2, True), ("nt", 1, False)]
)
def test_fmas_go_back_and_forth_along_m(layout: str, ctas: int, from_the_middle: bool) -> None:
    """They start in the middle if A does not pass through registers, and either B does or a thread has at most 128
    registers."""
    spec = lt.GemmSpec(m=128, n=128, k=1024, a="f32", b="f32", d="f32", layout=layout)
    schedule = f"grid.tile = [128, 128], k = 16, stages = 3, multiply.atoms = [16, 16, 1], ctas_per_sm = {ctas}"
    ptx = str(lt.compile_gemm(spec, target="sm_90", schedule=schedule).levels["ptx"])
    fmas = re.findall(r"fma\.rn\.f32 \t%r\d+, (%r\d+), (%r\d+),", ptx)[64:]  # of the second k
    first, second = fmas[:8], fmas[8:16]
    assert len({of_b for _, of_b in first}) == len({of_b for _, of_b in second}) == 1 and first[0][1] != second[0][1]
    assert [of_a for of_a, _ in second] == [of_a for of_a, _ in reversed(first)]
    loads = re.findall(r"ld\.shared\.v4\.b32 \t\{(.*?)\}, \[%rd\d+\+(\d+)\]", ptx)
    place = {register: int(offset) for registers, offset in loads for register in registers.split(", ")}
    assert (place[first[0][0]] > place[first[7][0]]) == from_the_middle


def test_a_kernel_of_fmas_that_spills_leaves_more_registers_to_fewer_ctas() -> None:
    spec = lt.GemmSpec(m=2048, n=2304, k=4096, a="f32", b="f32", d="f32", layout="nn")
    problem, chip, given = seen_by_passes(spec, targets.get("sm_90a")), targets.get("sm_90a"), WHOLE_TILES
    first = choose(problem, chip, given)
    fewer = choose(problem, chip, given, [first.schedule])
    assert (first.schedule.grid.ctas_per_sm, fewer.schedule.grid.ctas_per_sm) == (4, 3)
    assert first.schedule.tile_mnk == fewer.schedule.tile_mnk


@pytest.mark.parametrize(
    "schedule",
    ["atoms = [1, 1, 1]", "grid.tile = [8, 8], k = 8, atoms = [2, 2, 1]", "grid.tile = [48, 8], atoms = [6, 8, 1]"],
)
@pytest.mark.parametrize("extent", [256, None])
def test_threads_that_are_no_whole_warps_are_refused(schedule: str, extent: int | None) -> None:
    spec = lt.GemmSpec(m=extent, n=extent, k=extent, a="f32", b="f32", d="f32")
    with pytest.raises(
        lt.ScheduleError, match=r"threads, which are no whole warps of 32; take a multiple.*\[atoms-warps\]"
    ):
        lt.compile_gemm(spec, target="sm_80", schedule=schedule)


def test_a_persistent_grid_has_as_many_ctas_on_an_sm_as_its_schedule_asks_for() -> None:
    schedule = "scheduler = persistent, grid.ctas_per_sm = 2, grid.tile = [128, 128], atoms = [16, 16, 1], k = 16"
    spec = lt.GemmSpec(m=128, n=28672, k=4096, a="f32", b="f32", d="f32", layout="nt")
    cta = str(lt.compile_gemm(spec, target="sm_90a", schedule=f"{schedule}, grid.k_division = stream_k").levels["cta"])
    assert re.search(r"%(\d+) = tile\.sm_count : index\n\s+(%c2) = .*\n\s+%\d+ = arith\.muli %\1, \2", cta)
