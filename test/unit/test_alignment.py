"""What operands must be aligned to follows from how the schedule moves them."""

import pytest

import lowtide as lt
from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.support.problem.problem import Problem
from lowtide.verification.checking.places import places_of

SMALL = "grid.tile = [32, 32], k = 32, stages = 2, atoms = [2, 1, 1]"
UNPACKED = "a.pack = none, b.pack = none"
CASES = {
    "TMA": ("sm_90a", "bf16", f"epilogue.path = tma, epilogue.pack = none, {UNPACKED}", (16, 16, 16)),
    "wgmma's pairs of columns": (
        "sm_90a",
        "bf16",
        f"a.copy = tma, b.copy = tma, epilogue.path = direct, {UNPACKED}",
        (16, 16, 4),
    ),
    "narrow copies": ("sm_80", "bf16", f"{SMALL}, a.copy = cp.async.4, b.copy = staged.8, {UNPACKED}", (4, 8, 16)),
    "rows of f32 beside a D of 16 bits": ("sm_80", "bf16", f"{SMALL}, epilogue.math = rows, {UNPACKED}", (16, 16, 8)),
    "loads that find out": ("sm_80", "bf16", "sm80-direct", (2, 2, 4)),
    "elements wider than the copy's name": ("sm_80", "f64", UNPACKED, (16, 16, 16)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_manifest_asks_for_what_the_schedule_moves_at_once(name):
    target, dtype, schedule, wanted = CASES[name]
    spec = lt.GemmSpec(a=dtype, b=dtype, d=dtype, acc="f64" if dtype == "f64" else "f32", n=64)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    arguments = {argument["name"]: argument for argument in kernel.manifest["arguments"]}
    for key in ("base_alignment", "row_stride_alignment"):
        assert tuple(arguments[name][key] for name in ("a", "b", "d")) == wanted


def test_matrices_of_a_run_lie_at_their_elements_where_copies_of_pieces_are_narrower() -> None:
    problem = Problem(None, None, None, "bf16", "bf16", "f32", "f32", GemmLayout.tn, precision="bf16x6")
    for place in places_of(Schedule.parse("a.copy = staged.2, b.copy = staged.2"), problem):
        assert min(*place.strides, *place.bases) >= 4
