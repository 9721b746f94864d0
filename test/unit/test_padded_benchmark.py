"""The cases of benchmarks/padded.py, without a GPU."""

import pytest

from lowtide.measurement.bench.padded import CASES, PaddedCase


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_counts_of_a_case_are_drawn_once_and_fit_its_matrices(case: PaddedCase) -> None:
    counts = case.counts
    assert counts == case.counts and len(counts) == case.groups and len(set(counts)) > 1
    assert min(counts) >= 0 and max(counts) <= min(case.most, 2 * case.mean)


def test_bytes_and_operations_are_those_of_rows_that_count() -> None:
    case = PaddedCase(3, 4, 100, 16, 8)
    assert case.counts == [4, 4, 4]
    assert (case.flops, case.bytes) == (2 * 12 * 16 * 8, 2 * (12 * (16 + 8) + 3 * 16 * 8))
