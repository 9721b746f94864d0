"""The cases of benchmarks/grouped.py and their rows, without a GPU."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import lowtide as lt
from lowtide.measurement.bench.case_races import OWN
from lowtide.measurement.bench.grouped import CASES, COPY, GROUPED_MM, HEADINGS, Case, Race


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_ends_of_a_case_are_in_order_and_cover_all_rows(case: Case) -> None:
    ends = case.ends(seed=1)
    assert len(ends) == case.groups and ends == sorted(ends) and ends[-1] == case.rows
    rows = {end - first for first, end in zip([0, *ends], ends, strict=False)}
    assert (len(rows) == 1) == case.is_even
    assert ends == case.ends(seed=1)
    assert case.is_even or ends != case.ends(seed=2)


def test_matrices_of_empty_groups_are_not_read() -> None:
    case = Case(3, 10, 4, 8, False)
    assert case.bytes([5, 5, 10]) == 2 * (10 * 8 + 10 * 4 + 2 * 4 * 8)
    assert case.set_bytes == 2 * (10 * 8 + 10 * 4 + 3 * 4 * 8)


def test_the_kernel_is_that_of_calls_with_weights_by_rows_of_n() -> None:
    product = CASES[0].product("sm_90a")
    assert (product.layout, product.n, product.other, product.groups) == ("tn", 7168, 2048, 8)
    assert replace(CASES[0], rows=64).product("sm_90a") != product
    of_k = next(case for case in CASES if case.is_of_k).product("sm_90a")
    assert (of_k.layout, of_k.n, of_k.other, of_k.groups, of_k.share) == ("nt", 2048, 7168, 8, 4096)


def test_a_row_has_ratios_of_speed_and_reasons_of_failures() -> None:
    case = Case(2, 1000, 1000, 1000, True)
    found = Race(case, {OWN: [1e-3, 2e-3], GROUPED_MM: [2e-3, 4e-3], COPY: [1e-3, 1e-3]}, {"loop": "slow"})
    row = dict(zip(HEADINGS, found.row(), strict=True))
    assert row["TFLOP/s"] == "1.5 (1.0 … 2.0)"
    assert row[f"to {GROUPED_MM}"] == "2.000 (2.000 … 2.000)"
    assert row[f"to {COPY}"] == "0.750 (0.500 … 1.000)"
    assert row["to loop of torch.mm"] == ""
    assert row["failed"] == "loop: slow"
    alone = replace(found, seconds={}, failed={OWN: "refused"}).row()
    assert alone == (str(case), *[""] * 7, "lowtide: refused")


def test_tokens_are_sent_to_different_groups_whose_rows_are_those_of_the_index() -> None:
    case = Case(5, 3 * 20, 8, 16, False, tokens=20)
    ends, index = [0, *case.ends(1)], case.index(1)
    groups = [index[first:end].tolist() for first, end in pairwise(ends)]
    assert all(group == sorted(set(group)) for group in groups) and np.bincount(index).tolist() == [3] * 20
    product = case.product("sm_90a")
    assert product.a_rows and product.share == 16
    assert case.bytes(ends[1:]) == 2 * (20 * 16 + 60 * 8 + 5 * 8 * 16)


def test_rows_of_d_at_an_index_are_all_rows_once_and_have_the_kernel_of_calls_with_them() -> None:
    (case, *_) = (case for case in CASES if case.is_placed)
    assert sorted(case.places(1).tolist()) == list(range(case.rows)) and (case.places(1) != case.places(2)).any()
    product = case.product("sm_90a")
    assert (product.d_rows, product.a_rows, product.share) == (True, False, 1024)


def test_scaled_cases_have_the_kernel_of_calls_with_block_scales_and_a_plain_product_with_them() -> None:
    (case, *_) = (case for case in CASES if case.is_scaled)
    assert str(case) == "8 × (4096 rows each) × 7168 × 2048, e4m3 with scales of blocks"
    assert case.bytes(case.ends(1)) == 8 * 4096 * 2048 + 8 * 7168 * 2048 + 2 * 8 * 4096 * 7168
    spec, plain = case.product("sm_90a").spec(None), case.plain
    assert (spec.a, spec.b, spec.d) == (plain.a, plain.b, plain.d) == ("e4m3", "e4m3", "bf16")
    assert spec.block_scales == plain.block_scales == lt.BlockScales()
    shapes = {each.name: each.shape(case.rows, spec.n, spec.k) for each in spec.operands if each.kind.is_block_scale}
    assert shapes == {"scale_a": (16, 8 * 4096), "scale_b": (56, 16)}


def test_gated_cases_have_half_the_columns_in_d_and_the_kernel_of_calls_with_pairs() -> None:
    (case, *_) = (case for case in CASES if case.is_gated)
    assert str(case) == "8 × (1024 rows each) × 28672 × 4096, SwiGLU"
    assert case.bytes(case.ends(1)) == 2 * (8192 * (4096 + 14336) + 8 * 28672 * 4096)
    product = case.product("sm_90a")
    assert (product.n, product.pairs, product.epilogue) == (14336, "stacked", lt.swiglu)
    assert (case.plain.b_shape, case.plain.d_shape) == ((28672, 4096), (8192, 14336))
