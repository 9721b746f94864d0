"""The cases of benchmarks/reductions.py and their rows, without a GPU."""

import numpy as np

import lowtide as lt
from lowtide.compiler.problem_ir import problem_text
from lowtide.interpreter import interpret
from lowtide.measurement.bench.case_races import OWN
from lowtide.measurement.bench.reductions import CASES, COMPILED, HEADINGS, PLAIN, Case, Race
from lowtide.targets import get


def test_the_kernels_of_a_case_read_the_same_matrices_and_give_the_named_results() -> None:
    backward = [["dgate", "dup", "hidden"], ["dpre", "dbias", "hidden"]]
    wanted = [["d", "squares"], ["lse", "wanted"], ["d", "pre"], *backward]
    for case, names in zip(CASES, wanted, strict=True):
        b_shape = (case.k, case.n) if case.layout == "tt" else (case.n, case.k)
        spec, plain = case.spec(case.epilogue), case.spec(None)
        assert (spec.a_shape, spec.b_shape) == (plain.a_shape, plain.b_shape) == ((case.m, case.k), b_shape)
        assert [result.name for result in spec.returned_results] == names
        small = Case(case.name, 8, 16, 24, case.epilogue, case.layout).spec(case.epilogue)
        inputs = lt.random_inputs(small, 8, 16, 24, np.random.default_rng(0))
        assert list(interpret(problem_text(small, get("sm_90a")), inputs)) == names


def test_a_row_has_ratios_of_speed_and_reasons_of_failures() -> None:
    found = Race(CASES[0], {OWN: [1e-3, 2e-3], PLAIN: [1.5e-3, 3e-3]}, {COMPILED: "slow"})
    row = dict(zip(HEADINGS, found.row(), strict=True))
    assert (row["µs"], row[f"to {PLAIN}"], row[f"to {COMPILED}"]) == ("1500.0", "1.500 (1.500 … 1.500)", "")
    assert row["case"] == "residual, its row sums of squares, 8192×8192×8192" and row["failed"] == "torch.compile: slow"
    assert Race(CASES[1], {}, {OWN: "refused"}).row()[1:] == (*[""] * 4, "lowtide: refused")
