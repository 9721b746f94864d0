"""The Hilbert order visits every tile of any grid once, by neighbours, and device code keeps to it."""

from typing import Any

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import arith
from one_cta import run_kernel

from lowtide.dialects.tile import RasterKind, SchedulerKind
from lowtide.interpreter.machine.work_order import WorkOrder
from lowtide.interpreter.numbers.domains import domain
from lowtide.passes.nvvm.work import hilbert
from lowtide.passes.support.ir.builder import Builder

Place = tuple[int, int]
ORDER = WorkOrder(SchedulerKind.one_shot, RasterKind.hilbert)
SMALL = [(rows, columns) for rows in range(1, 21) for columns in range(1, 21)]
LARGE = [(1, 301), (301, 1), (2, 255), (127, 3), (33, 65), (64, 32), (32, 16), (43, 86), (97, 41)]


def curve(tiles: Place) -> list[Place]:
    return [ORDER.tile_at(index, tiles) for index in range(tiles[0] * tiles[1])]


def test_the_curve_visits_every_tile_of_any_grid_once() -> None:
    for tiles in SMALL + LARGE:
        assert sorted(curve(tiles)) == list(np.ndindex(tiles)), tiles


def test_consecutive_tiles_are_neighbours_or_once_diagonal_where_the_longer_side_is_odd() -> None:
    for tiles in SMALL + LARGE:
        places = np.array(curve(tiles))
        steps = np.abs(np.diff(places, axis=0))
        assert steps.max(initial=0) <= 1
        diagonal = int((steps.sum(axis=1) == 2).sum())
        assert diagonal <= (max(tiles) % 2 == 1 and min(tiles) % 2 == 0), tiles


def test_the_curve_leads_from_one_corner_to_the_other_end_of_the_longer_side() -> None:
    assert curve((2, 4)) == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3)]
    assert curve((4, 2)) == [(n, m) for m, n in curve((2, 4))]
    assert (curve((32, 32))[-1], curve((64, 32))[-1]) == ((0, 31), (63, 0))


def test_tiles_in_flight_touch_fewer_rows_and_columns_than_by_rows() -> None:
    def touched(places: list[Place]) -> int:
        waves = [places[start : start + 132] for start in range(0, len(places), 132)]
        return sum(len({place[dim] for place in wave}) for dim in (0, 1) for wave in waves)

    by_rows = WorkOrder(SchedulerKind.one_shot, RasterKind.row)
    assert touched(curve((64, 32))) < 0.8 * touched([by_rows.tile_at(index, (64, 32)) for index in range(2048)])


# Device code ----------------------------------------------------------------------------------------------------------

THREADS = 1024
KERNEL = """
gpu.module @kernels {
  llvm.mlir.global external @smem() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  gpu.func @kernel(%given: !llvm.ptr<1>, %found: !llvm.ptr<1>) kernel {
    %thread = nvvm.read.ptx.sreg.tid.x : i32
    %from = llvm.getelementptr %given[%thread, 0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<4 x i32>
    %numbers = llvm.load %from {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
    %index = vector.extract %numbers[0] : i32 from vector<4xi32>
    %rows = vector.extract %numbers[1] : i32 from vector<4xi32>
    %columns = vector.extract %numbers[2] : i32 from vector<4xi32>
    %m, %n = "test.place"(%index, %rows, %columns) : (i32, i32, i32) -> (i32, i32)
    %to = llvm.getelementptr %found[%thread, 0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<2 x i32>
    %place = vector.from_elements %m, %n : vector<2xi32>
    llvm.store %place, %to {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
    gpu.return
  }
}"""


def device_code(extents: Place | None = None) -> str:
    """The kernel with the position computed, for run-time extents or for known ones."""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(KERNEL)
        function = list(module.body.operations[0].regions[0].blocks[0].operations)[1]
        op = next(op for op in function.regions[0].blocks[0].operations if op.operation.name == "test.place")
        with ir.InsertionPoint(op):
            i32 = ir.IntegerType.get_signless(32)
            given = (op.operands[1], op.operands[2]) if extents is None else [arith.constant(i32, x) for x in extents]
            place = hilbert.place_on_hilbert_curve(Builder(i32), op.operands[0], tuple(given))
        for old, new in zip(op.results, place, strict=True):
            old.replace_all_uses_with(new)
        op.operation.erase()
        return str(module)


def places_by_device_code(text: str, indices: list[tuple[int, int, int]]) -> list[Place]:
    """(index, rows, columns) of each thread to its tile."""
    given = np.ones((THREADS, 4))
    given[:, 0] = 0
    given[: len(indices), :3] = indices
    payload = domain("exact").from_array(given.reshape(-1))
    matrices = [("given", 1, 4 * THREADS, "i32", payload), ("found", 1, 2 * THREADS, "i32", None)]
    found, _ = run_kernel(text, matrices, THREADS, "exact").contents("found")
    return [(int(m), int(n)) for m, n in found[0].reshape(-1, 2)[: len(indices)]]


def wrong_places(text: str, grids: list[Place]) -> list[tuple[int, int, int]]:
    """Where device code and the definition differ."""
    indices = [(index, *tiles) for tiles in grids for index in range(tiles[0] * tiles[1])]
    found = [
        place
        for start in range(0, len(indices), THREADS)
        for place in places_by_device_code(text, indices[start : start + THREADS])
    ]
    return [at for at, place in zip(indices, found, strict=True) if place != ORDER.tile_at(at[0], at[1:])]


def test_device_code_for_run_time_extents_keeps_to_the_curve() -> None:
    grids = [tiles for tiles in SMALL if max(tiles) <= 8] + [(1, 301), (2, 55), (33, 13), (16, 32), (9, 20)]
    assert wrong_places(device_code(), grids) == []


@pytest.mark.parametrize("tiles", [(1, 1), (5, 1), (1, 6), (5, 3), (6, 9), (32, 16)], ids=str)
def test_device_code_for_known_extents_keeps_to_the_curve(tiles: Place) -> None:
    assert wrong_places(device_code(tiles), [tiles]) == []


FAULTS = {
    "an odd first part": ("_even", lambda build, extent: build.umax(build.lshr(extent, 1), 1)),
    "a part entered one tile too far": ("_moved", lambda build, region, first, second: region),
}


@pytest.mark.parametrize(("name", "wrong"), FAULTS.values(), ids=FAULTS)
def test_a_wrong_cut_is_found(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> None:
    monkeypatch.setattr(hilbert, name, wrong)
    assert wrong_places(device_code(), [(3, 9), (6, 6), (7, 10)])
