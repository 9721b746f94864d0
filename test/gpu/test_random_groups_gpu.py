"""Random products in groups on the GPU against float64: group_draws.py draws kernels, sizes and splits.

Rows that belong to no group, and bytes beside the results, must not be written."""

import pytest
from group_draws import KERNELS, RUNS, draws

from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.verdicts import against_float64

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("number", range(KERNELS))
def test_random_groups_agree_with_float64_within_the_derived_bound(number: int, record_property) -> None:
    drawn = draws()[number]
    if drawn.target == "sm_90a" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    record_property("draw", str(drawn))
    kernel, judged = drawn.kernel(), 0
    for run in range(RUNS):
        given = drawn.inputs(run, drawn.unit(kernel))
        found = run_on_gpu(kernel, drawn.spec, given, is_timed=False)
        verdict = against_float64(drawn.spec, given, found.d)
        assert not found.complaint and verdict.ok, (str(drawn), drawn.split(run), found.complaint, verdict.message)
        judged += 1
    print(f"{judged} runs of {drawn}; {KERNELS * RUNS} of all kernels")
