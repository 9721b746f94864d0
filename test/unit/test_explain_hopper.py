"""`explain` of kernels with roles: boxes, expected bytes, wgmma's reads, registers and waves, against sums by hand."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tensor_layouts import Layout, Swizzle, compose
from typer.testing import CliRunner

import lowtide as lt
from lowtide import targets
from lowtide.cli.main import app
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.manifest.host_ops import L2_PROMOTION
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import IRError, ScheduleError
from lowtide.inspection.explain.accesses import Accesses, accesses_of
from lowtide.inspection.explain.as_json import accesses_json
from lowtide.inspection.explain.explanation import explain_ir, explain_spec

SCHEDULE = Schedule().with_(grid_tile=(128, 256), cluster=(1, 1), k=64, roles="cooperative(2)", stages=3)
TMA_STORES = SCHEDULE.with_(epilogue_path="tma", epilogue_tile=(128, 64), epilogue_buffers=2)
LAYOUT_A = "#tile.layout<(128,64):(64,1), swizzle<3,3,3>>"
LAYOUT_B = "#tile.layout<(256,64):(64,1), swizzle<3,3,3>>"


@pytest.fixture(autouse=True)
def no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.inspection.explain.explanation.find_ptxas", lambda: None)


def spec(layout: str = "tn", **extents: int | None) -> lt.GemmSpec:
    return lt.GemmSpec(**{"m": 300, "n": 520, "k": 264, **extents}, a="bf16", b="bf16", d="bf16", layout=layout)


@cache
def epilogue_level(layout: str = "tn", schedule: Schedule = TMA_STORES) -> str:
    return lt.compile_gemm(spec(layout), target="sm_90a", schedule=schedule).levels["epilogue"]


@cache
def level_of_whole_tiles() -> str:
    return lt.compile_gemm(spec(m=256, n=512), target="sm_90a", schedule=TMA_STORES).levels["epilogue"]


def accesses(text: str, *edits: tuple[str, str]) -> dict[str, Any]:
    """The accesses of level `epilogue`, edited; no pass looks at it."""
    return accesses_json(found_in(text, *edits))


def found_in(text: str, *edits: tuple[str, str]) -> Accesses:
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    with make_context() as context:
        return accesses_of(parse_text(text, context, "edited"), in_file=False)


def named(found: list[dict[str, Any]], what: str, op: str = "") -> dict[str, Any]:
    (access,) = (x for x in found if x["what"] == what and x.get("op", "").startswith(op))
    return access


# TMA ------------------------------------------------------------------------------------------------------------------


def test_a_transposed_scratch_has_no_conflicts_and_stores_whole_lines() -> None:
    fields = "operands = swapped, grid.tile = [128, 40], k = 64, stages = 3, roles = cooperative(2), epilogue.path = "
    found = accesses(epilogue_level(schedule=Schedule.parse(f"{fields}tma")))
    box = named(found["tma_accesses"], "d")
    assert (box["box"], box["boxes"], box["sectors"], box["row_stride_bytes"]) == ([40, 64], 2, 20 * 4 + 20 * 5, 1040)
    found = accesses(epilogue_level(schedule=Schedule.parse(f"{fields}smem")))
    (store,) = found["global_accesses"]
    assert (store["atom"], store["sectors"], store["ideal_sectors"]) == ("st.global.8", 9, 8)
    scratch = [access for access in found["shared_accesses"] if access["what"] == "epilogue scratch"]
    assert {access["atom"] for access in scratch} == {"stmatrix.x2.trans", "ld.shared.8"}
    assert {access["ways"] for access in scratch} == {1}


def test_a_box_touches_the_sectors_and_lines_of_its_rows() -> None:
    # Rows are 528 bytes apart. 128 bytes at a multiple of 16: 5 sectors in every second row, 2 lines in seven of eight.
    access = named(accesses(epilogue_level())["tma_accesses"], "a")
    assert (access["box"], access["boxes"], access["bytes"]) == ([128, 64], 1, 128 * 64 * 2)
    assert (access["sectors"], access["ideal_sectors"]) == (64 * 4 + 64 * 5, 512)
    assert access["lines"] == 16 * 1 + 112 * 2
    assert (access["row_stride_bytes"], access["row_stride_known"]) == (528, True)
    assert (access["swizzle"], access["l2_promotion"], access["cache"]) == ([3, 3, 3], L2_PROMOTION, "normal")


def test_a_buffer_wider_than_a_box_takes_several() -> None:
    # Layout tt: B lies as (K, N), 64 x 256, and a row of the swizzle is 64 elements.
    access = named(accesses(epilogue_level("tt"))["tma_accesses"], "b")
    assert (access["box"], access["boxes"], access["bytes"]) == ([64, 64], 4, 64 * 256 * 2)


def test_a_box_of_several_panels_is_one_instruction() -> None:
    # Two panels of 64 elements side by side: rows of 256 bytes, 1024 apart.
    schedule = SCHEDULE.with_(grid_tile=(128, 128), k=128, stages=2, a_copy="tma.3d", b_copy="tma.3d")
    found = explain_spec(spec(k=512), "sm_90a", schedule).to_json()["tma_accesses"]
    access = named(found, "a")
    assert (access["box"], access["boxes"], access["bytes"]) == ([2, 128, 64], 1, 128 * 128 * 2)
    assert (access["sectors"], access["ideal_sectors"], access["lines"]) == (128 * 8, 128 * 8, 128 * 2)


def test_a_store_moves_the_boxes_of_all_warpgroups() -> None:
    access = named(accesses(epilogue_level())["tma_accesses"], "d")
    assert (access["op"], access["direction"], access["box"]) == ("sm.tma_store", "write", [64, 64])
    assert (access["boxes"], access["bytes"], access["count"]) == (2, 128 * 64 * 2, 4)


def test_cache_hints_are_those_of_the_ops() -> None:
    cached = (
        "to %b signals %full[%arg3] : !sm.tensor_map<256x64",
        "to %b signals %full[%arg3] cache(evict_last) : !sm.tensor_map<256x64",
    )
    found = accesses(epilogue_level(), cached)["tma_accesses"]
    assert [(access["what"], access["cache"]) for access in found] == [
        ("a", "normal"),
        ("b", "evict_last"),
        ("d", "normal"),
    ]


def test_a_tensor_map_of_no_known_matrix_is_refused() -> None:
    (launch,) = re.findall(r"^ *tile\.launch .*$", epilogue_level(), re.MULTILINE)
    with pytest.raises(IRError, match=r"sm\.tma_load: .*\[map-matrix\]"):
        found_in(epilogue_level(), (launch, ""))


def test_maps_that_a_launch_makes_are_those_of_the_matrices_of_their_list() -> None:
    lists = lt.GemmSpec(a="bf16", b="bf16", d="bf16", batch=None, counts=True, lists="abd")
    schedule = Schedule.parse("grid.tile = [64, 32], roles = cooperative(1), stages = 2, a.copy = tma, b.copy = tma")
    found = explain_spec(lists, "sm_90a", schedule).to_json()["tma_accesses"]
    assert [(access["what"], access["box"]) for access in found] == [("a", [64, 64]), ("b", [32, 64])]


def test_expected_bytes_are_held_against_the_copies() -> None:
    for level in (epilogue_level(), level_of_whole_tiles()):
        (transaction,) = accesses(level)["transactions"]
        assert (transaction["what"], transaction["expects"], transaction["copied"]) == ("a, b", 49152, 49152)
    (clipped,) = accesses(epilogue_level(), ("expects 0 plus", "expects 16 plus"))["transactions"]
    assert (clipped["expects"], clipped["copied"]) == (49168, 49152)
    (edited,) = accesses(level_of_whole_tiles(), ("expects 49152", "expects 49136"))["transactions"]
    assert (edited["expects"], edited["copied"]) == (49136, 49152)
    (silent,) = accesses(level_of_whole_tiles(), (" expects 49152", ""))["transactions"]
    assert (silent["expects"], silent["copied"]) == (0, 49152)


def test_a_refused_dump_is_explained_and_the_refusal_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "edited.mlir"
    file.write_text(level_of_whole_tiles().replace("expects 49152", "expects 65536"))
    resources = explain_ir(file).to_json()["resources"]
    assert resources["registers"] is None
    assert any(
        line.startswith("not compiled: ") and "sm.mbarrier_arrive" in line and "65536" in line
        for line in resources["warnings"]
    )
    output = CliRunner().invoke(app, ["explain", "--ir", str(file)]).stdout
    assert "registers  not known: the kernel is refused" in output
    number = 1 + [*map(str.strip, file.read_text().splitlines())].index(
        "sm.mbarrier_arrive %full[%arg3] expects 65536 : !sm.mbarriers<3>"
    )
    outcome = f"line {number}: its phase never completes; expect 49152"
    assert f"mbarrier   a, b: expects 65536 bytes, the copies bring 49152, {outcome}" in output


def test_a_refusal_above_level_epilogue_is_one_of_explain() -> None:
    with pytest.raises(ScheduleError, match=r"\[ring-too-large\]"):
        explain_spec(spec(), "sm_90a", SCHEDULE.with_(stages=60))


# wgmma ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "bits", "unswizzled"), [(64, 3, 8), (32, 2, 4), (16, 1, 2)])
def test_core_matrices_are_free_of_conflicts_under_the_swizzle_of_their_rows(
    columns: int, bits: int, unswizzled: int
) -> None:
    plain = Layout((64, columns), (columns, 1))
    swizzled = targets.core_matrix_conflicts("a", compose(Swizzle(bits, 3, 3), plain), 2)
    assert (swizzled.ways, swizzled.wavefronts, swizzled.ideal) == (1, columns, columns)
    assert targets.core_matrix_conflicts("a", compose(Swizzle(0, 3, 3), plain), 2).ways == unswizzled


def test_each_read_of_an_operand_counts() -> None:
    layout = compose(Swizzle(0, 3, 3), Layout((64, 64), (64, 1)))
    conflict = targets.core_matrix_conflicts("b", layout, 2, reads=3)
    assert (conflict.wavefronts, conflict.ideal) == (3 * 8 * 64, 3 * 64)


def test_an_operand_without_whole_core_matrices_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"\[core-matrices\]"):
        targets.core_matrix_conflicts("a", compose(Swizzle(0, 3, 3), Layout((12, 64), (64, 1))), 2)
    with pytest.raises(ScheduleError, match=r"the 8.*\[vector-parted\]"):
        targets.core_matrix_conflicts("a", compose(Swizzle(3, 2, 3), Layout((64, 64), (64, 1))), 2)


@pytest.mark.parametrize("layout", ["tn", "nt"])
def test_wgmma_reads_without_conflicts_whichever_dimension_is_contiguous(layout: str) -> None:
    found = accesses(epilogue_level(layout))["shared_accesses"]
    for what, wavefronts in (("a", 128 * 64 * 2 // 128), ("b", 2 * 256 * 64 * 2 // 128)):
        access = named(found, what, "sm.wgmma")
        assert (access["ways"], access["wavefronts"], access["ideal_wavefronts"]) == (1, wavefronts, wavefronts)
        assert (access["atom"], access["count"]) == ("wgmma.m64n256k16", 2)


def test_an_unswizzled_operand_conflicts_eight_ways_and_holds_wgmma_up() -> None:
    edit = (", swizzle<3,3,3>>", ">")
    found = accesses(epilogue_level(), edit)
    for what in "ab":
        access = named(found["shared_accesses"], what, "sm.wgmma")
        assert access["ways"] == 8
        assert access["witness"] == {
            "bank": 0,
            "lanes": list(range(8)),
            "addresses": [128 * row for row in range(8)],
        }
    (product,) = found["wgmma"]
    assert product["wavefronts"] == 8 * 640 > product["cycles"]


def test_a_swizzle_by_the_wrong_rows_shows_conflicts() -> None:
    # <3,3,4> takes rows in pairs: two rows of a core matrix share each group of banks.
    edits = ((LAYOUT_B, LAYOUT_B.replace("<3,3,3>", "<3,3,4>")),)
    found = accesses(epilogue_level(), *edits)["shared_accesses"]
    assert named(found, "a", "sm.wgmma")["ways"] == 1
    assert named(found, "b", "sm.wgmma")["ways"] == 2
    assert named(found, "b", "sm.wgmma")["witness"]["addresses"] == [0, 128]


def test_a_k_step_of_wgmma_is_counted_by_instructions_bytes_and_cycles() -> None:
    (product,) = accesses(epilogue_level())["wgmma"]
    assert (product["atom"], product["layout"]) == ("wgmma.m64n256k16.f32.bf16", "tn")
    assert (product["warpgroups"], product["slices"], product["instructions"]) == (2, 4, 4)
    assert (product["a_bytes"], product["b_bytes"]) == (64 * 16 * 2, 256 * 16 * 2)
    assert product["cycles"] == 2 * 4 * 128  # N / 2 for each m64n256k16
    assert product["wavefronts"] == 2 * 4 * (2048 + 8192) // 128
    assert product["bytes_per_cycle"] == 80.0


def test_blocks_of_a_warpgroup_each_read_all_of_b() -> None:
    schedule = SCHEDULE.with_(grid_tile=(256, 192), k=64)
    found = explain_spec(spec(), "sm_90a", schedule).to_json()
    (product,) = found["wgmma"]
    assert (product["instructions"], product["a_bytes"], product["b_bytes"]) == (8, 2 * 2048, 2 * 6144)
    assert (product["cycles"], product["bytes_per_cycle"]) == (2 * 8 * 96, 8192 / 96)
    assert found["kernel"]["accumulators"] == 192


# stmatrix -------------------------------------------------------------------------------------------------------------


def test_stmatrix_is_counted_by_rows_of_matrices() -> None:
    access = named(accesses(epilogue_level())["shared_accesses"], "epilogue scratch")
    assert (access["op"], access["atom"], access["direction"]) == ("sm.store_shared", "stmatrix.x4", "write")
    # 128 x 64 elements are 128 matrices of 128 bytes.
    assert (access["ways"], access["wavefronts"], access["ideal_wavefronts"]) == (1, 128, 128)
    unswizzled = accesses(epilogue_level(), (", swizzle<3,3,3>>", ">"))["shared_accesses"]
    assert named(unswizzled, "epilogue scratch")["ways"] == 8


# The kernel -----------------------------------------------------------------------------------------------------------


def test_registers_stages_and_intensity_are_the_kernels_own() -> None:
    kernel = explain_ir(epilogue_level()).to_json()["kernel"]
    assert kernel["roles"] == [
        {"name": "producer", "warps": 4, "registers": 40, "instances": 1},
        {"name": "consumer", "warps": 8, "registers": 232, "instances": 1},
    ]
    assert kernel["entry_registers"] == 65536 // 384 // 8 * 8 == 168
    assert (kernel["lane_registers_asked"], kernel["lane_registers_at_entry"]) == (40 + 2 * 232, 3 * 168)
    assert kernel["accumulators"] == 128
    assert (kernel["stages"], kernel["stage_bytes"]) == (3, (128 + 256) * 64 * 2)
    assert (kernel["scratch_buffers"], kernel["scratch_bytes"]) == (2, 2 * 128 * 64 * 2)
    assert kernel["flops_per_byte"] == pytest.approx(128 * 256 / (128 + 256))
    assert kernel["l2_bytes_per_cycle"] == 49152 / 1024


def test_registers_that_were_not_moved_are_not_summed() -> None:
    schedule = Schedule().with_(grid_tile=(64, 64), k=64, roles="cooperative(1)", registers=(0, 0), stages=2)
    kernel = explain_spec(spec(), "sm_90a", schedule).to_json()["kernel"]
    assert (kernel["lane_registers_asked"], kernel["accumulators"]) == (None, 32)


def test_waves_are_those_of_the_persistent_grid() -> None:
    schedule = SCHEDULE.with_(order="grouped(16)")
    grid = explain_spec(spec(m=4096, n=4096, k=4096), "sm_90a", schedule).to_json()["kernel"]["grid"]
    assert grid == {
        "tile": [128, 256],
        "order": "grouped(16)",
        "cluster": [1, 1],
        "scheduler": "persistent",
        "batch": 1,
        "sms": 132,
        "tiles": 32 * 16,
        "ctas": 132,
        "at_once": 132,
        "full_waves": 3,
        "last_wave": 512 - 3 * 132,
        "last_wave_halves": 0,
        "wave_rows": 16,
        "wave_columns": 9,  # 132 tiles down bands of 16: 8 columns, and 4 tiles of a ninth
        "k_division": None,
        "shared_tiles": None,
        "waiting": None,
        "partial_sums": None,
        "partial_bytes": None,
    }


def test_a_division_of_k_is_counted_and_told() -> None:
    few = spec(m=256, n=256, k=1024)
    for division, sums, waiting in (("split(4)", 12, 4), ("scatter(4)", 16, 16)):
        schedule = Schedule().with_(grid_tile=(128, 128), k=64, roles="cooperative(2)", k_division=division)
        grid = explain_spec(few, "sm_90a", schedule).to_json()["kernel"]["grid"]
        assert (grid["k_division"], grid["tiles"], grid["shared_tiles"]) == (division, 4, 4)
        assert (grid["partial_sums"], grid["waiting"], grid["partial_bytes"]) == (sums, waiting, sums * 128 * 128 * 4)
    size = ["--m", "256", "--n", "256", "--k", "8192", "--target", "sm_90a"]
    output = CliRunner().invoke(app, ["explain", *size]).stdout
    assert "K by scatter(8): 128 partial sums of f32 written and read" in output
    assert "128 parts wait for the others of 16 tiles" in output


def test_a_tail_in_halves_is_counted_and_told() -> None:
    schedule = Schedule().with_(grid_tile=(256, 192), tail="halves", order="grouped(8)")
    grid = explain_spec(spec(m=8192, n=8192, k=8192), "sm_90a", schedule).to_json()["kernel"]["grid"]
    assert (grid["tiles"], grid["full_waves"], grid["last_wave"]) == (32 * 43, 10, 56)
    assert (grid["last_wave_halves"], grid["wave_rows"]) == (112, 8)
    size = ["--m", "8192", "--n", "8192", "--k", "8192", "--target", "sm_90a"]
    output = CliRunner().invoke(app, ["explain", *size, "--schedule", schedule.shorthand()]).stdout
    assert "10 full waves, a last one of 56 tiles in 112 halves, 85% of the CTAs;" in output


def test_a_grid_known_at_launch_has_no_waves() -> None:
    grid = explain_spec(spec(m=None), "sm_90a", SCHEDULE).to_json()["kernel"]["grid"]
    assert {grid[name] for name in ("tiles", "ctas", "at_once", "full_waves", "last_wave", "wave_rows")} == {None}
    assert grid["scheduler"] == "persistent"


def test_kernels_without_roles_have_waves_too() -> None:
    found = explain_spec(
        spec(m=1024, n=1024), "sm_80", Schedule().with_(grid_tile=(64, 64), k=32, atoms=(2, 2, 1), stages=3)
    ).to_json()
    grid, at_once = found["kernel"]["grid"], 108 * found["resources"]["ctas_per_sm"]
    assert (grid["ctas"], grid["at_once"], found["kernel"]["entry_registers"]) == (256, min(256, at_once), None)
    assert (found["kernel"]["accumulators"], found["kernel"]["scratch_buffers"]) == (32, 0)
    assert not found["tma_accesses"] + found["transactions"] + found["wgmma"]


# What is printed ------------------------------------------------------------------------------------------------------


def test_the_json_names_are_documented() -> None:
    found = explain_ir(epilogue_level()).to_json()
    kernel = found["kernel"]
    lists = [found[name][0] for name in ("tma_accesses", "transactions", "wgmma")]
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    documented = {*kernel, *kernel["grid"], *kernel["roles"][0], *(name for entry in lists for name in entry)}
    assert not [name for name in documented if f"`{name}`" not in page]


def test_the_command_prints_it_all(tmp_path: Path) -> None:
    file = tmp_path / "kernel.mlir"
    file.write_text(epilogue_level())
    output = CliRunner().invoke(app, ["explain", "--ir", str(file)]).stdout
    for text in (
        "roles      producer of 4 warps, 40 registers per thread; consumer of 8 warps, 232 registers per thread",
        "setmaxnreg 504 registers per lane, summed over the warpgroups; the CTA enters with 504, 168 per thread",
        "stages     3 of 49152 bytes: a ring of 147456; scratch: 32768 bytes in 2 buffers",
        "occupancy  1 CTA per SM, by shared memory and threads",
        "85.3 flops per byte of A and B from L2; 48.0 bytes per cycle and SM at wgmma's full rate",
        "4 each of 2 warpgroups",
        "busy 640 cycles: 80.0 bytes per cycle of 128",
        "stmatrix.x4 writes",
        "mbarrier   a, b: expects 49152 bytes, the copies bring 49152\n",
    ):
        assert text in output
    assert "global memory" not in output  # the kernel has no other access to it than TMA's


def test_in_a_cluster_the_bytes_from_l2_are_the_ctas_shares() -> None:
    found = {}
    for cluster in ("1, 1", "2, 1", "2, 2"):
        schedule = lt.Schedule.parse(f"grid.tile = [128, 128], cluster = [{cluster}], stages = 3")
        found[cluster] = explain_spec(spec(), "sm_90a", schedule).to_json()
    alone, pair, square = found.values()
    a, b = (named(pair["tma_accesses"], name) for name in "ab")
    assert (a["multicast"], a["parties"], a["box"], a["bytes"]) == (None, 1, [128, 64], 128 * 64 * 2)
    assert (b["multicast"], b["parties"], b["box"], b["bytes"]) == ("column", 2, [64, 64], 64 * 64 * 2)
    assert {access["multicast"] for access in square["tma_accesses"]} == {"row", "column", None}  # None: D
    assert pair["kernel"]["grid"]["cluster"] == [2, 1]
    per_cycle, per_byte = (
        [each["kernel"][key] for each in found.values()] for key in ("l2_bytes_per_cycle", "flops_per_byte")
    )
    assert per_cycle == [2 * 16384 / 512, 1.5 * 16384 / 512, 16384 / 512]
    assert per_byte == pytest.approx([alone["kernel"]["flops_per_byte"] * factor for factor in (1, 4 / 3, 2)])
    assert square["transactions"][0]["expects"] == square["transactions"][0]["copied"] == 2 * 16384


def test_what_a_call_costs_whose_matrices_are_not_aligned() -> None:
    odd = explain_spec(spec(m=None, n=515, k=2051), "sm_90a")
    a, b, d = odd.packing
    assert (a.matrix, a.alignment, a.bytes, a.microseconds) == ("a", 16, None, None)
    assert (b.matrix, b.bytes, b.microseconds) == ("b", 2 * 515 * 2051 * 2, 1.3)
    assert (d.matrix, d.whole_rows) == ("d", True)
    assert odd.to_json()["packing"][1] == {
        "matrix": "b",
        "alignment": 16,
        "whole_rows": False,
        "bytes": 4225060,
        "microseconds": 1.3,
        "transposed": False,
        "one_column": False,
    }
    assert explain_spec(spec(), "sm_90a").packing == ()
    shown = CliRunner().invoke(app, ["explain", "--n", "515", "--k", "2051", "--target", "sm_90a"]).output
    assert "copied if base or row stride is not a multiple of 16 bytes: 4225060 bytes read and written" in shown
    assert "copied if base, row stride or length of a row is not a multiple of 16 bytes" in shown


def test_an_operand_of_one_column_is_read_as_a_row() -> None:
    found = explain_spec(spec("nt", m=1, n=512, k=2048), "sm_90a")
    (a,) = found.packing
    assert (a.matrix, a.transposed, a.one_column, a.alignment) == ("a", True, True, 16)
    options = ("--m", "1", "--n", "512", "--k", "2048", "--layout", "nt", "--target", "sm_90a")
    shown = CliRunner().invoke(app, ["explain", *options]).output
    assert "it has one column, which is read as a row, 16 bytes at a time" in " ".join(shown.split())
    assert "one column, read as a row: copied if its elements are not contiguous" in shown
