"""Products of few rows are computed as Dᵀ = Bᵀ · Aᵀ, where the model says that this takes less time."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import lowtide as lt
from lowtide import targets
from lowtide.dialects.tile import EpilogueMath, GemmLayout, OperandKind, OperandsKind, StorePath
from lowtide.passes.schedules.choice.choice import Choice, choose
from lowtide.passes.support.problem.problem import Problem


def chosen(
    m: int | None, n: int | None, k: int | None, target: str = "sm_90a", given: Any = None, **more: Any
) -> Choice:
    problem = Problem(m, n, k, "bf16", "bf16", "f32", "bf16", more.pop("layout", GemmLayout.tn), **more)
    return choose(problem, targets.get(target), lt.Schedule().with_(**(given or {})))


@pytest.mark.parametrize(
    ("layout", "m"),
    [*product(("tn", "tt", "nn", "nt"), (1, 16)), *product(("tn", "tt"), (24, 72, 136))],
)
def test_few_rows_are_columns_of_the_transpose(layout: str, m: int) -> None:
    """Tiles of wide weights then have few empty columns."""
    choice = chosen(m, 8192, 8192, layout=GemmLayout[layout])
    assert choice.schedule.grid.operands is OperandsKind.swapped
    columns = choice.schedule.tile_mnk[1]
    assert -(-m // columns) * columns < m + (32 if layout == "tn" or m < 64 else 64)
    assert f"so D's {m} rows become columns" in choice.reasons["grid.operands"]


@pytest.mark.parametrize(
    ("n", "path", "store"),
    [
        (4096, StorePath.tma, None),
        (4100, StorePath.smem, 8),
        (4098, StorePath.smem, 4),
        (4097, StorePath.direct, None),
        (None, StorePath.direct, None),
    ],
)
def test_d_is_transposed_on_its_way_as_its_rows_allow(n: int | None, path: StorePath, store: int | None) -> None:
    epilogue = chosen(16, n, 4096, given={"operands": "swapped"}).schedule.epilogue
    assert (epilogue.path, epilogue.store) == (path, store)
    given = {"operands": "swapped", "epilogue_path": "smem"}
    by_threads = chosen(16, n, 4096, given=given).schedule.epilogue
    assert by_threads.store == {4096: None, 4100: 8, 4098: 4, 4097: 2, None: 2}[n]


@pytest.mark.parametrize(("d", "path"), [("f16", StorePath.tma), ("f32", StorePath.direct)])
def test_elements_of_16_bits_are_transposed(d: str, path: StorePath) -> None:
    problem = Problem(16, 4096, 4096, "f16", "f16", "f32", d, GemmLayout.tn)
    given = lt.Schedule.parse("grid.operands = swapped")
    assert choose(problem, targets.get("sm_90a"), given).schedule.epilogue.path is path


@pytest.mark.parametrize(("operands", "path"), [("swapped", StorePath.tma), ("as_given", StorePath.direct)])
def test_shares_of_a_tile_are_transposed(operands: str, path: StorePath) -> None:
    given = {"operands": operands, "grid_tile": (64, 96), "k_division": "scatter(2)"}
    epilogue = chosen(96, 4096, 4096, given=given).schedule.epilogue
    assert epilogue.path is path
    assert path is StorePath.direct or (epilogue.tile, epilogue.buffers) == ((64, 48), 1)


def test_full_operands_are_read_in_the_rows_of_a_transposed_scratch() -> None:
    more = {"kinds": (OperandKind.full,), "operands": ("bf16",)}
    epilogue = chosen(16, 4096, 4096, **more).schedule.epilogue
    assert (epilogue.path, epilogue.math) == (StorePath.smem, EpilogueMath.rows)


def test_a_d_of_open_rows_that_is_converted_is_not_swapped() -> None:
    """Stores of several elements would need aligned rows of D, which is not packed."""
    for n, is_swapped in ((None, False), (4099, False), (4096, True)):
        problem = Problem(8, n, 4096, "e4m3", "e4m3", "f32", "e4m3", GemmLayout.tn)
        found = choose(problem, targets.get("sm_90a"), lt.Schedule()).schedule
        assert (found.grid.operands is OperandsKind.swapped) is is_swapped


@pytest.mark.parametrize(("n", "k"), [(1024, 4096), (512, 8192)])
def test_k_is_divided_where_the_tiles_are_too_few(n: int, k: int) -> None:
    choice = chosen(16, n, k).schedule
    assert choice.grid.operands is OperandsKind.swapped
    assert choice.k_division is not None and choice.k_division.parts >= 4


@pytest.mark.parametrize("extents", [(16, None, None), (16, 8192, 8192)])
def test_k_is_not_divided_where_tiles_are_enough_or_extents_are_not_known(extents: tuple[int | None, ...]) -> None:
    assert chosen(*extents).schedule.k_division is None


def test_tiles_of_many_rows_may_have_any_multiple_of_8() -> None:
    """Tiles as given have whole panels of 64 columns of a B that is contiguous along N."""
    choice = chosen(1189, 8192, 8192, layout=GemmLayout.tt)
    assert choice.schedule.grid.operands is OperandsKind.swapped and choice.schedule.tile_mnk[1] % 64
    assert "tiles of Dᵀ = Bᵀ · Aᵀ cover it better than tiles of D" in choice.reasons["grid.operands"]


def test_a_batch_of_few_rows_is_swapped_too() -> None:
    assert chosen(154, 28672, 4096, batch=2, is_batched=True).schedule.grid.operands is OperandsKind.swapped


@pytest.mark.parametrize(("packed", "is_swapped"), [(("a_pack", "b_pack"), True), (("b_pack",), False)])
def test_the_packing_of_both_operands_fits_both_products(packed: tuple[str, ...], is_swapped: bool) -> None:
    """Of one operand, it is the packing of A or of B of the product as given."""
    schedule = chosen(10, 2880, 4096, given=dict.fromkeys(packed, "rows")).schedule
    assert (schedule.grid.operands is OperandsKind.swapped) is is_swapped


@pytest.mark.parametrize(("memory", "is_swapped"), [(0.5, True), (2.0, False)])
def test_b_comes_from_registers_if_memory_is_too_slow_to_pack_it(memory: float, is_swapped: bool) -> None:
    """For tf32 in tt, where B is contiguous along N. `memory`: the factor by which the target's memory is faster."""
    target = targets.get("sm_90a")
    target = replace(target, memory_bytes_per_cycle=int(target.memory_bytes_per_cycle * memory))
    schedule = choose(Problem(2033, 2880, 2880, "tf32", "tf32", "f32", "f32", GemmLayout.tt), target, lt.Schedule())
    assert (schedule.schedule.grid.operands is OperandsKind.swapped) is is_swapped


@pytest.mark.parametrize("extents", [(158, 1032, 11320), (526, 880, 6040)])
def test_a_divided_k_has_shares_of_the_narrowest_tile_that_covers_the_rows(extents: tuple[int, int, int]) -> None:
    schedule = chosen(*extents, given={"operands": "swapped"}).schedule
    division, (_, columns, _) = schedule.k_division, schedule.tile_mnk
    assert division is not None and division.is_scattered and schedule.cluster != (1, 1)
    step, tiles = 8 * division.parts, -(-extents[0] // columns)
    assert columns % step == 0 and (columns - step) * tiles < extents[0]


@pytest.mark.parametrize(
    ("extents", "more"),
    [
        ((4096, 4096, 4096), {}),
        ((None, 4096, 4096), {}),
        ((16, 4096, 4096), {"given": {"stages": 4}}),  # which of the two products would it be of?
        ((16, 4096, 4096), {"given": {"operands": "as_given"}}),
        ((16, 4096, 4096), {"target": "sm_80"}),
    ],
)
def test_others_stay_as_they_are(extents: tuple[int | None, ...], more: dict[str, Any]) -> None:
    choice = chosen(*extents, **more)
    assert choice.schedule.grid.operands is not OperandsKind.swapped


def test_ptxas_serializes_no_wgmma_of_them() -> None:
    """Where a column of a pair is never stored too, and where no store needs a guard."""
    for m, n in ((17, 1000), (16, 4096)):
        spec = lt.GemmSpec(m=m, n=n, k=None, a="bf16", b="bf16", d="bf16")
        assert lt.compile_gemm(
            spec, target="sm_90a", schedule="operands = swapped"
        ).cubin  # advice of ptxas is an error
