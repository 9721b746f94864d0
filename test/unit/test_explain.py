"""`explain`: its counts against sums done by hand, against schedule choice, and on edited IR."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.epilogue.ready import READY
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import IRError, ScheduleError
from lowtide.inspection.explain.accesses import accesses_of
from lowtide.inspection.explain.explanation import explain_ir, explain_spec

SCHEDULE = Schedule().with_(grid_tile=(64, 64), k=32, atoms=(2, 2, 1), stages=3)
TYPES: dict[str, Any] = {
    "shared": {
        "op": str,
        "what": str,
        "atom": str,
        "direction": str,
        "buffer": str,
        "swizzle": list,
        "ways": int,
        "wavefronts": int,
        "ideal_wavefronts": int,
        "witness": (dict, type(None)),
        "place": (str, type(None)),
        "count": int,
        "executions": int,
    },
    "global": {
        "op": str,
        "what": str,
        "atom": str,
        "direction": str,
        "sectors": int,
        "ideal_sectors": int,
        "requests": int,
        "total_sectors": int,
        "row_stride_bytes": (int, type(None)),
        "row_stride_known": bool,
        "cache": str,
        "place": (str, type(None)),
        "count": int,
        "executions": int,
    },
}


def spec(layout: str = "tn", epilogue: str = "none", **more: Any) -> lt.GemmSpec:
    extents = {"m": 300, "n": 520, "k": 264, **more}
    return lt.GemmSpec(**extents, a="bf16", b="bf16", d="bf16", layout=layout, epilogue=READY[epilogue])


@cache
def explained(*arguments: Any, **fields: Any) -> dict[str, Any]:
    return explain_spec(spec(*arguments), "sm_80", SCHEDULE.with_(**fields)).to_json()


def shared(found: dict[str, Any], what: str, atom: str) -> dict[str, Any]:
    (access,) = (x for x in found["shared_accesses"] if x["what"] == what and x["atom"].startswith(atom))
    return dict(access)


def global_(found: dict[str, Any], what: str) -> dict[str, Any]:
    (access,) = (x for x in found["global_accesses"] if x["what"] == what)
    return dict(access)


@pytest.mark.parametrize("layout", ["tn", "nt", "tt", "nn"])
@pytest.mark.parametrize("bits", [0, 1, 2, None])
def test_the_kernels_conflicts_are_those_that_the_choice_counted(layout: str, bits: int | None) -> None:
    swizzle = None if bits is None else (bits, 3, 3)
    counted = explained(layout)["swizzle_candidates"]["mainloop.a.swizzle"]
    found = explained(layout, a_swizzle=swizzle)
    for atom in ("cp.async.16", "ldmatrix.x4"):
        access = shared(found, "a", atom)
        candidate = "<{},{},{}>".format(*access["swizzle"])
        assert access["ways"] == counted[candidate][access["atom"]]
    assert bits is None or access["swizzle"] == [bits, 3, 3]


def test_a_conflict_has_the_witness_that_the_layout_implies() -> None:
    # Rows of 64 bytes without a swizzle: every second row of an 8x8 matrix begins in the same bank.
    access = shared(explained(a_swizzle=(0, 3, 3)), "a", "ldmatrix")
    assert (access["ways"], access["wavefronts"], access["ideal_wavefronts"]) == (4, 128, 32)
    assert access["witness"] == {"bank": 0, "lanes": [0, 2, 4, 6], "addresses": [0, 128, 256, 384]}


def test_a_chosen_swizzle_leaves_no_conflict_and_no_witness() -> None:
    for access in explained()["shared_accesses"]:
        assert (access["ways"], access["witness"]) == (1, None)
        assert access["op"] == "sm.cp_async" or access["wavefronts"] == access["ideal_wavefronts"]


@pytest.mark.parametrize("k, wavefronts", [(32, 2), (64, 1)])
def test_cp_async_takes_a_wavefront_for_each_line_of_global_memory(k: int, wavefronts: int) -> None:
    """As counted on an H200 (docs/explain.md): rows of 64 bytes begin in as many lines."""
    found = explain_spec(spec(k=None), "sm_80", SCHEDULE.with_(k=k)).to_json()
    access = shared(found, "a", "cp.async")
    assert (access["ways"], access["ideal_wavefronts"]) == (1, 64 * 2 * k // 128)
    assert access["wavefronts"] == wavefronts * access["ideal_wavefronts"]


def test_executions_of_a_ring_that_stays_filled_are_those_of_a_later_tile() -> None:
    """K of 264 in steps of 64 is 5 trips, each with a copy of A; B was copied for the first tile."""
    schedule = Schedule.parse("grid.tile = [64, 64], k = 64, atoms = [2, 2, 1], stages = 5, prologue = once")
    found = explain_spec(spec(n=64), "sm_80", schedule).to_json()
    kept = explain_spec(spec(n=64), "sm_80", schedule.with_(b_load="once")).to_json()
    assert [global_(each, "a")["executions"] for each in (found, kept)] == [5, 5]
    assert [global_(each, "b")["executions"] for each in (found, kept)] == [5, 0]
    assert kept["kernel"]["flops_per_byte"] == 2 * found["kernel"]["flops_per_byte"]


def test_executions_are_the_trips_of_the_loops_around() -> None:
    """K of 264 in steps of 32 is 9 trips; two copies more fill the ring, and as many go past the end of K, where they
    touch no memory; two k-slices, and one before the loop."""
    found = explained()
    assert shared(found, "a", "cp.async")["executions"] == 9 + 2
    assert global_(found, "a")["executions"] == 9
    assert shared(found, "a", "ldmatrix")["executions"] == 9 * 2 + 1
    assert global_(found, "d")["executions"] == 1
    longest = explain_spec(spec(k=2**31 - 1), "sm_80", SCHEDULE).to_json()  # its steps are not walked through
    assert global_(longest, "a")["executions"] == 2**26 == shared(longest, "a", "cp.async")["executions"] - 2
    unknown = explain_spec(spec(k=None), "sm_80", SCHEDULE).to_json()
    assert shared(unknown, "a", "ldmatrix")["executions"] is None
    tail = explain_spec(spec(m=4096, n=4096), "sm_90a", Schedule.parse("grid.tail = halves")).to_json()
    assert {access["executions"] for access in tail["tma_accesses"]} == {None}  # tiles of two sizes


def test_the_sectors_of_all_requests_are_those_of_the_tile() -> None:
    """64 rows of 64 bytes, 528 bytes apart: every second one begins within a sector."""
    access = global_(explained(), "a")
    assert (access["requests"], access["total_sectors"]) == (8, 32 * 2 + 32 * 3)


def test_the_second_k_slice_is_counted_where_it_lies() -> None:
    # Two k-slices of 16: the one at column 16 conflicts in other banks, as often.
    found = explained(a_swizzle=(0, 3, 3), fragment_buffers=1)
    assert shared(found, "a", "ldmatrix")["count"] == 2


def test_sectors_of_a_tile_are_those_of_its_rows() -> None:
    # Rows of K = 264 elements are 528 bytes apart: 64 bytes of every second row begin inside a sector, and take 3.
    access = global_(explained(), "a")
    assert (access["sectors"], access["ideal_sectors"]) == (4 * 2 + 4 * 3, 16)
    assert (access["row_stride_bytes"], access["row_stride_known"]) == (528, True)


def test_run_time_rows_are_taken_as_whole_sectors_and_that_is_said() -> None:
    found = explain_spec(spec(k=None), "sm_80", SCHEDULE).to_json()
    access = global_(found, "b")
    assert (access["sectors"], access["row_stride_bytes"], access["row_stride_known"]) == (16, 8192, False)
    assert found["problem"]["k"] is None


def test_epilogue_operands_are_named_and_vectors_are_read_by_elements() -> None:
    found = explained("tn", "residual")
    assert global_(found, "residual")["direction"] == "read"
    bias = global_(found, "bias")
    assert (bias["atom"], bias["row_stride_bytes"]) == ("ld.global.2", None)
    assert 1 <= bias["ideal_sectors"] <= bias["sectors"]
    assert [(x["name"], x["kind"]) for x in found["problem"]["operands"]] == [
        ("bias", "per_column"),
        ("residual", "full"),
    ]


def test_direct_stores_go_without_shared_memory() -> None:
    found = explained(epilogue_path="direct")
    assert not [x for x in found["shared_accesses"] if x["what"] == "epilogue scratch"]
    # Four lanes beside each other store 16 bytes of a row: half a sector, of eight rows.
    assert global_(found, "d")["atom"] == "st.global.4"
    assert global_(found, "d")["sectors"] == 8
    assert global_(found, "d")["ideal_sectors"] == 4


def test_a_direct_epilogue_reads_a_row_vector_once_a_row() -> None:
    found = explain_spec(
        lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16", epilogue=_per_row), "sm_80", SCHEDULE
    ).to_json()
    # Eight neighbouring rows of a warp's fragment: 16 bytes.
    assert (global_(found, "r")["sectors"], global_(found, "r")["ideal_sectors"]) == (1, 1)


def _per_row(acc: Any, r: lt.PerRow) -> Any:
    return acc * r


def test_operands_are_read_along_their_own_axis() -> None:
    found = explain_spec(
        lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16", epilogue=_of_every_shape), "sm_80", SCHEDULE
    ).to_json()
    # A warp reads two rows of 64 elements by 8 bytes per thread; of the vector of rows two elements beside each other,
    # of the vector of columns every fourth element at once.
    assert global_(found, "c")["atom"] == "ld.global.8"
    assert (global_(found, "c")["sectors"], global_(found, "c")["row_stride_bytes"]) == (2 * 4, 128)
    assert (global_(found, "r")["sectors"], global_(found, "r")["ideal_sectors"]) == (1, 1)
    assert (global_(found, "v")["sectors"], global_(found, "v")["ideal_sectors"]) == (4, 1)


def _of_every_shape(acc: Any, c: lt.Full, r: lt.PerRow, v: lt.PerColumn) -> Any:
    return acc * r + c + v


def test_given_fields_are_said_to_be_given_and_chosen_ones_have_reasons() -> None:
    reasons = explained()["reasons"]
    assert {name for name, why in reasons.items() if why == "given"} == {
        "grid.tile",
        "mainloop.k",
        "mainloop.stages",
        "multiply.atoms",
    }
    assert set(reasons) >= {f"{part}.swizzle" for part in ("mainloop.a", "mainloop.b", "epilogue")}
    assert set(reasons) >= {"grid.order", "epilogue.path", "multiply.atom", "mainloop.a.copy", "mainloop.b.copy"}


def test_resources_are_the_kernels_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.inspection.explain.explanation.find_ptxas", lambda: None)
    resources = explain_spec(spec(), "sm_80", SCHEDULE).to_json()["resources"]
    assert (resources["threads"], resources["shared_memory"]) == (128, 3 * 2 * 64 * 32 * 2)
    assert resources["registers"] is None
    assert resources["spill_stores"] is None


def test_the_json_has_the_documented_names_and_types() -> None:
    found = json.loads(json.dumps(explained("tn", "bias")))
    assert list(found) == [
        "format",
        "problem",
        "target",
        "target_reason",
        "entered_at",
        "schedule",
        "reasons",
        "passed_over",
        "swizzle_candidates",
        "summation",
        "resources",
        "packing",
        "predicted",
        "kernel",
        "shared_accesses",
        "global_accesses",
        "tma_accesses",
        "transactions",
        "wgmma",
    ]
    for kind in ("shared", "global"):
        for access in found[f"{kind}_accesses"]:
            assert set(access) == set(TYPES[kind])
            assert all(isinstance(access[name], type_) for name, type_ in TYPES[kind].items())
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    documented = [*found, *TYPES["shared"], *TYPES["global"], *found["resources"], "bank", "lanes", "addresses"]
    assert not [name for name in documented if f"`{name}`" not in page]


def test_every_level_down_to_epilogue_explains_alike() -> None:
    levels = lt.compile_gemm(spec(), "sm_80", schedule=SCHEDULE).levels
    accesses = {}
    for level in ("problem", "cta", "smem", "pipelined", "atoms", "epilogue"):
        found = explain_ir(levels[level]).to_json()
        assert found["entered_at"] == level
        assert (found["reasons"] is None) == (level != "problem")
        for access in (*found["shared_accesses"], *found["global_accesses"]):
            access["place"] = None
        accesses[level] = (found["shared_accesses"], found["global_accesses"], found["schedule"], found["problem"])
    assert all(found == accesses["problem"] for found in accesses.values())


def test_an_edited_layout_is_explained_as_it_is() -> None:
    text = lt.compile_gemm(spec(), "sm_80", schedule=SCHEDULE).levels["epilogue"]
    assert text.count("<2,3,3>") == 3  # one layout for both operands, two fields of the schedule
    found = explain_ir(text.replace("<2,3,3>", "<1,3,3>")).to_json()
    assert shared(found, "a", "ldmatrix")["ways"] == 2
    assert shared(found, "b", "ldmatrix")["ways"] == 2


def test_a_layout_that_no_instruction_can_follow_is_refused_at_its_op() -> None:
    text = lt.compile_gemm(spec(), "sm_80", schedule=SCHEDULE).levels["epilogue"]
    with make_context() as context:
        module = parse_text(text.replace("swizzle<2,3,3>", "swizzle<2,1,3>"), context, "edited")
        with pytest.raises(IRError, match=r":\d+:\d+: sm\.cp_async: .*\[footprint-vector\]"):
            accesses_of(module, in_file=False)


def test_a_schedule_that_breaks_a_rule_is_refused_as_in_compiling() -> None:
    with pytest.raises(ScheduleError, match=r"\[ring-too-large\]"):
        explain_spec(spec(), "sm_80", SCHEDULE.with_(stages=60))


def test_ldmatrix_of_bytes_reads_rows_of_16_of_them():
    spec = lt.GemmSpec(m=256, n=256, k=256, a="s8", b="s8", d="s32", acc="s32")
    text = str(explain_spec(spec, "sm_80").to_json())
    assert "ldmatrix.x4" in text and "xsi8" in text
