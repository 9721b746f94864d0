"""The cases of benchmarks/gated.py and their rows, without a GPU."""

from dataclasses import replace

from lowtide.measurement.bench.case_races import OWN
from lowtide.measurement.bench.gated import CASES, COMPILED, HEADINGS, PLAIN, Case, Race


def test_both_kernels_read_the_same_matrices() -> None:
    for case in CASES:
        assert case.spec.b_shape == case.plain.b_shape == (case.both, case.k)
        assert case.spec.d_shape == (case.m, case.both // 2)
        assert case.flops == 2.0 * case.m * case.both * case.k


def test_a_row_has_ratios_of_speed_and_reasons_of_failures() -> None:
    case = Case(1000, 2000, 1000)
    found = Race(case, {OWN: [1e-3, 2e-3], PLAIN: [1.5e-3, 3e-3]}, {COMPILED: "slow"})
    row = dict(zip(HEADINGS, found.row(), strict=True))
    assert (row["M × N of both × K"], row["µs"], row["TFLOP/s"]) == ("1000×2000×1000", "1500.0", "3.0 (2.0 … 4.0)")
    assert (row[f"to {PLAIN}"], row[f"to {COMPILED}"]) == ("1.500 (1.500 … 1.500)", "")
    assert row["failed"] == "torch.compile: slow"
    alone = replace(found, seconds={}, failed={OWN: "refused"}).row()
    assert alone == ("1000×2000×1000", *[""] * 4, "lowtide: refused")
