"""Random problems and schedules with roles on the GPU against float64: TMA, wgmma, every store, every layout.

role_draws.py draws the problems and schedules and checks them against the rules.
"""

import numpy as np
import pytest
from gemm_checks import check
from role_draws import KERNELS, TARGET, Draw, draw, title

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

_ATTEMPTS = 6


def compiled(number: int) -> tuple[Draw, object]:
    """The first draw of this number whose registers suffice by ptxas, where there is one, and its kernel."""
    for attempt in range(_ATTEMPTS):
        drawn = draw(number, attempt)
        try:
            kernel = lt.compile_gemm(drawn.spec, target=TARGET, schedule=drawn.schedule)
            kernel.cubin  # noqa: B018
        except lt.CompileError as error:
            # No rule counts the registers that an epilogue needs beside its accumulators; everything else is a fault.
            if error.code != "kernel-spills":
                raise
        else:
            return drawn, kernel
    pytest.fail(f"{_ATTEMPTS} draws of {title(number)} in a row spill")


@pytest.mark.parametrize("number", range(KERNELS), ids=title)
def test_random_gemms_with_roles_agree_with_float64_within_the_derived_bound(number, record_property):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    drawn, kernel = compiled(number)
    record_property("draw", str(drawn))
    rng = np.random.default_rng(number)
    for size in drawn.sizes:
        check(drawn.spec, kernel, size, rng)
