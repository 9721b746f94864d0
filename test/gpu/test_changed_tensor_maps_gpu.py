"""Tensor maps that kernels change: the GPU loads the same boxes as the interpreter.

Needs torch and cuda-python, but no installed Lowtide: `PYTHONPATH=src python -m pytest` of this file.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

_PATH = Path(__file__).parents[1] / "interpreter" / "tensor_map_kernels.py"
_SPEC = importlib.util.spec_from_file_location(_PATH.stem, _PATH)
assert _SPEC is not None and _SPEC.loader is not None
kernels: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(kernels)

COPIED = kernels.ONE.format(f"{kernels.COPIED}\n{kernels.CHANGED}")
IN_GLOBAL = kernels.ONE.format(f"{kernels.OF_GLOBAL}\n{kernels.FENCE}") + "bar.warp.sync -1;"


def done(result: tuple[Any, ...]) -> Any:
    """What a function of the driver gives."""
    assert not int(result[0]), result[0]
    return result[1] if len(result) == 2 else None


def map_of(driver: Any, x: Any) -> Any:
    """The map of a tensor of 8 × 32 integers, with itself as the box."""
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    return done(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_INT32,
            2,
            x.data_ptr(),
            [wide(32), wide(8)],
            [wide(128)],
            [narrow(32), narrow(8)],
            [narrow(1), narrow(1)],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(kernels.GROUPED, id="copied-parameter"),
        pytest.param(COPIED + kernels.STORED + kernels.FENCE + "bar.warp.sync -1;", id="ordinary-stores"),
        pytest.param(IN_GLOBAL, id="in-global-memory"),
        pytest.param(kernels.created(), id="made-of-zeros"),
    ],
)
def test_the_gpu_loads_by_a_changed_map_what_the_interpreter_loads(make: str) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("CHANGED TENSOR MAPS NOT TESTED: they need capability 9.0")
    x, y = (torch.from_numpy(each.copy()).cuda() for each in (kernels.X, kernels.Y))
    scratch = torch.full((32,), -1, dtype=torch.int32, device="cuda")
    out = torch.full((256,), -1, dtype=torch.int32, device="cuda")
    module = done(driver.cuModuleLoadData(kernels.loading(make).encode() + b"\0"))
    kernel = done(driver.cuModuleGetFunction(module, b"k"))
    pointers = [each.data_ptr() for each in (x, y, scratch, out)]
    given = (map_of(driver, x), *pointers), (None, *[ctypes.c_void_p] * len(pointers))
    stream = torch.cuda.current_stream().cuda_stream
    done(driver.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, given, 0))
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), kernels.EXPECTED)
    np.testing.assert_array_equal(kernels.run(make), kernels.EXPECTED)
