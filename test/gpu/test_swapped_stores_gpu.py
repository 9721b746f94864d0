"""Swapped products that store D by rows through transposed scratch, on the GPU: checked with float64, with guards."""

import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

TILES = {1: (64, 8), 5: (128, 8), 16: (64, 16), 33: (128, 40), 65: (128, 72), 72: (64, 24), 128: (256, 64)}
K = 200


def of_rows_and_columns(acc, row: lt.PerRow, column: lt.PerColumn):
    return acc * row + column


def with_a_full_operand(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return lt.relu(acc + c) * row - column


def agree(schedule, sizes, **more):
    """The kernel of a schedule agrees with float64 at each (M, N)."""
    spec = lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16"} | more)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=f"operands = swapped, {schedule}")
    for m, n in sizes:
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=(m, n, K))
        assert outcome.ok, f"M = {m}, N = {n}: {outcome.message}"


@pytest.mark.parametrize("epilogue", [None, of_rows_and_columns])
@pytest.mark.parametrize("path", ["smem", "tma"])
@pytest.mark.parametrize("m", TILES)
def test_few_rows_are_stored_transposed(m, path, epilogue):
    """N is whole tiles, ends within a tile, and within a warpgroup's rows."""
    rows, columns = TILES[m]
    store = f", epilogue.store = {8 if columns % 16 else 16}" if path == "smem" else ""
    schedule = f"grid.tile = [{rows}, {columns}], epilogue.path = {path}{store}"
    agree(schedule, [(m, n) for n in (1024, 1000, 8)], epilogue=epilogue)


@pytest.mark.parametrize("m", [5, 33, 72])
def test_full_operands_are_read_along_the_rows_of_d(m):
    rows, columns = TILES[m]
    schedule = f"grid.tile = [{rows}, {columns}], epilogue.path = smem"
    agree(f"{schedule}, epilogue.store = 8", [(m, 1024), (m, 1000)], epilogue=with_a_full_operand)
    agree(schedule, [(m, 1021)], epilogue=with_a_full_operand)


@pytest.mark.parametrize(
    "fields",
    [
        "grid.tile = [64, 72], roles = pingpong(2)",
        "grid.tile = [64, 40], k_division = split(3)",
        "grid.tile = [64, 48], k_division = scatter_tail(2)",
        "grid.tile = [64, 48], k_division = scatter(2)",
        "grid.tile = [256, 24], tail = halves",
        "grid.tile = [192, 24], roles = cooperative(3), epilogue.tile = [192, 8]",
        "grid.tile = [128, 32], epilogue.tile = [128, 8], epilogue.buffers = 4, epilogue.swizzle = <2,3,3>",
    ],
)
def test_tiles_of_every_kind_are_stored_transposed(fields):
    """Several tiles for a CTA, so that scratch is used again."""
    agree(f"{fields}, epilogue.path = tma", [(700, 5000), (65, 1000)], epilogue=of_rows_and_columns, amax=True)


@pytest.mark.parametrize("d", ["f16", "f32", "e4m3"])
def test_other_elements_are_stored_transposed(d):
    types = {"d": d} if d != "f16" else {"a": "f16", "b": "f16", "d": "f16"}
    math = ", epilogue.math = rows, epilogue.store = 4" if d == "e4m3" else ", epilogue.store = 8"
    agree(f"grid.tile = [128, 40], epilogue.path = smem{math}", [(33, 1024), (33, 1008)], **types)
    if d != "e4m3":
        agree("grid.tile = [128, 40], epilogue.path = tma", [(33, 1024), (33, 1000)], **types)
