"""The default schedule of a problem takes the problem's own matrices, whose rows lie one behind the other.

Such kernels are loaded in test/unit/runtime/test_own_matrices.py, and run in test/interpreter/test_own_operands.py.
"""

import pytest

from lowtide import targets
from lowtide.dialects.tile import GemmLayout, OperandKind, OperandsKind, PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.facts.alignment import alignments_of
from lowtide.passes.support.problem.problem import Problem

TYPES = ("f16", "bf16", "f32", "tf32", "f64", "s8", "u8", "e4m3", "e5m2")
ODD = ((129, 257, 129), (17, 3, 5), (5, 7, 0), (20, 1030, 70))


def problems(dtype: str, layout: str) -> list[tuple[Problem, tuple[int, int, int]]]:
    """With extents that are known and open, D of several types, by rows and by columns, and a full operand."""
    sums = element_type(dtype).stored_as if dtype == "f64" else "f32" if element_type(dtype).is_float else "s32"
    found = []
    for number, extents in enumerate(ODD):
        for d in dict.fromkeys((sums, "s8" if sums == "s32" else "f64" if dtype == "f64" else "bf16")):
            given = extents if number % 2 else (None, None, None)
            kinds = (OperandKind.full,) if number % 3 == 0 else ()
            m, n, k = (extent or None for extent in given)
            problem = Problem(m, n, k, dtype, dtype, sums, d, GemmLayout[layout], kinds, (d,) * len(kinds))
            found.append((problem, extents))
            by_columns = Problem(
                m, n, k, dtype, dtype, sums, d, GemmLayout[layout], kinds, (d,) * len(kinds), d_is_column_major=True
            )
            found.append((by_columns, extents))
    return found


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_choice_takes_rows_one_behind_the_other(dtype: str, layout: str, target: str) -> None:
    if element_type(dtype).bits == 8 and element_type(dtype).is_float and target == "sm_80":
        target = "sm_89"  # the first that multiplies them
    for problem, (m, n, k) in problems(dtype, layout):
        schedule = choose(problem, targets.get(target), Schedule()).schedule
        own = problem.swap() if problem.d_is_column_major else problem
        if schedule.grid.operands is not None and not own.swapped:
            own = own.swap()
        alignments = alignments_of(schedule, own)
        rows = {
            "a": k if layout[0] == "t" else m,
            "b": k if layout[1] == "n" else n,
            "d": m if problem.d_is_column_major else n,
        }
        for name, elements in rows.items():
            size = element_type(problem.d if name == "d" else dtype).bytes
            assert alignments[name] == size or elements * size % alignments[name] == 0, (name, problem)


def test_aligned_rows_are_not_packed() -> None:
    for dtype, target in (("f32", "sm_80"), ("bf16", "sm_80"), ("bf16", "sm_90a")):
        problem = Problem(64, 128, 256, dtype, dtype, "f32", dtype, GemmLayout.tn)
        schedule = choose(problem, targets.get(target), Schedule()).schedule
        assert (schedule.mainloop.a.pack, schedule.mainloop.b.pack, schedule.epilogue.pack) == (None, None, None)


@pytest.mark.parametrize(
    ("layout", "extents", "packed"),
    [
        ("nn", (4096, 128, 4096), (None, None)),
        ("tt", (128, 4096, 4096), (None, None)),  # the operands are swapped
        ("nt", (128, 4096, 4096), (None, PackKind.transposed)),
        ("nt", (4096, 4096, 4096), (None, PackKind.transposed)),
        ("nn", (4096, 1024, 4096), (None, None)),  # K is long
        ("nn", (4096, 4096, 2048), (None, None)),
        ("nn", (4096, 1024, 1024), (PackKind.transposed, None)),  # many columns read A
    ],
)
def test_an_a_of_tf32_comes_from_registers(
    layout: str, extents: tuple[int, int, int], packed: tuple[PackKind | None, PackKind | None]
) -> None:
    problem = Problem(*extents, "tf32", "tf32", "f32", "f32", GemmLayout[layout])
    schedule = choose(problem, targets.get("sm_90a"), Schedule()).schedule
    assert schedule.multiply.by_warpgroups
    assert (schedule.mainloop.a.pack, schedule.mainloop.b.pack) == packed


def test_an_a_from_registers_counts_beside_the_accumulators() -> None:
    """With 512 threads, each has 128 registers at entry: too few for 100 sums, an A of 4 and 26 others."""
    problem = Problem(696, 6444, 728, "tf32", "tf32", "f32", "f32", GemmLayout.nn)
    given = Schedule.parse("grid.tile = [192, 200], roles = cooperative(3), a.pack = none, operands = as_given")
    with pytest.raises(ScheduleError, match=r"with 30 beside them .* take N ≤ 192 .*\[accumulators-at-entry\]"):
        choose(problem, targets.get("sm_90a"), given)


@pytest.mark.parametrize(
    ("layout", "extents", "packed"),
    [
        ("nt", (21, 4096, 4096), PackKind.transposed),
        ("nn", (507, 4096, 4096), PackKind.transposed),
        ("nt", (24, 4096, 4096), None),  # aligned
        ("nt", (517, 4096, 4096), PackKind.rows),
        ("tn", (21, 4096, 4096), None),  # K is contiguous
    ],
)
def test_operands_with_few_unaligned_columns_are_transposed(
    layout: str, extents: tuple[int, int, int], packed: PackKind | None
) -> None:
    for dtype in ("bf16", "f16"):
        problem = Problem(*extents, dtype, dtype, "f32", dtype, GemmLayout[layout])
        schedule = choose(problem, targets.get("sm_90a"), Schedule()).schedule
        is_swapped = schedule.grid.operands is OperandsKind.swapped
        assert schedule.mainloop.operand("b" if is_swapped else "a").pack is packed
        assert schedule.mainloop.operand("a" if is_swapped else "b").pack is None
    m, n, k = extents
    other = Problem(
        n, m, k, "bf16", "bf16", "f32", "bf16", {"nt": GemmLayout.nt, "nn": GemmLayout.tt}.get(layout, GemmLayout.tn)
    )
    found = choose(other, targets.get("sm_90a"), Schedule.parse("operands = as_given")).schedule
    assert found.mainloop.b.pack is packed
    given = choose(problem, targets.get("sm_90a"), Schedule.parse("a.pack = rows, b.pack = rows")).schedule
    assert (given.mainloop.a.pack, given.mainloop.b.pack) == (PackKind.rows, PackKind.rows)


@pytest.mark.parametrize(
    ("layout", "extents", "turned"),
    [
        ("tn", (4096, 4096, 1024), "ab"),
        ("tt", (4096, 4096, 1024), "a"),
        ("nn", (4096, 4096, 1024), "b"),
        ("tn", (4096, 2048, 1024), "b"),  # few columns read A
        ("tn", (4104, 4104, 1024), ""),  # no whole tiles
    ],
)
def test_operands_are_transposed_for_fmas_if_they_are_read_often(layout, extents, turned) -> None:
    problem = Problem(*extents, "f32", "f32", "f32", "f32", GemmLayout[layout], (), ())
    mainloop = choose(problem, targets.get("sm_90a"), Schedule()).schedule.mainloop
    assert "".join(name for name in "ab" if mainloop.operand(name).pack is PackKind.transposed) == turned
