"""The cases of benchmarks/lists.py, without a GPU."""

import pytest

from lowtide.measurement.bench.listed import CASES, HEADINGS, ListedCase, ListedRace


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_sizes_of_a_case_are_drawn_once_and_within_their_ranges(case: ListedCase) -> None:
    sizes = case.sizes
    assert sizes == case.sizes and len(sizes) == case.count
    for given, drawn in zip((case.m, case.n, case.k), zip(*sizes, strict=True), strict=True):
        low, high = (given, given) if isinstance(given, int) else given
        assert low <= min(drawn) and max(drawn) <= high and (low == high) == (len(set(drawn)) == 1)
    assert (case.spec.n, case.spec.k) == (case.n, case.k) if case.is_even else (None, None)


def test_bytes_and_operations_are_those_of_all_products() -> None:
    case = ListedCase(3, 64, 128, 192)
    assert case.flops == 3 * 2 * 64 * 128 * 192
    assert case.bytes == 3 * 2 * (64 * 192 + 128 * 192 + 64 * 128)


def test_a_row_names_the_case_and_has_a_ratio_for_each_peer_with_times() -> None:
    case = ListedCase(2, (64, 128), 64, 64)
    found = ListedRace(case, {"lowtide": [1e-3], "loop of torch.mm": [3e-3]})
    row = dict(zip(HEADINGS, found.row(), strict=True))
    assert row["products × M × N × K"] == "2 products of 64 … 128 × 64 × 64"
    assert (row["to loop of torch.mm"], row["to copy"]) == ("3.000 (3.000 … 3.000)", "")
