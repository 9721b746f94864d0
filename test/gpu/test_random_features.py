"""Random problems and schedules of every feature on the GPU against float64: feature_draws.py draws and checks them."""

import numpy as np
import pytest
from feature_draws import KERNELS, title
from gemm_checks import check
from save_draws import compiled

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("number", range(KERNELS), ids=title)
def test_random_gemms_of_every_feature_agree_with_float64_within_the_derived_bound(number, record_property):
    drawn, kernel, _ = compiled(number)
    if drawn.target == "sm_90a" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    record_property("draw", str(drawn))
    rng = np.random.default_rng(number)
    for size in drawn.sizes:
        if drawn.form == "plain" and not drawn.spec.amax:
            check(drawn.spec, kernel, size, rng)
        else:
            loaded = lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin)
            outcome = verify_kernel(loaded, size=size, seed=number)
            assert outcome.ok, outcome.message
