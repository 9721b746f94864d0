"""Launches recorded on a GPU run on the CPU with the GPU's results: kernels of Triton, and launches by cuda-python.

Needs torch, and Triton 3.4 or later for its kernels; neither MLIR nor an installed Lowtide:
`PYTHONPATH=src python -m pytest test/gpu/test_ptx_recorders_gpu.py` with numpy, ml_dtypes and tensor-layouts.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.interpreter.launching import parsed
from lowtide.ptx.judging import check_record
from lowtide.ptx.launch_files import read_launch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "test" / "ptx" / "kernels"

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
needs_triton = pytest.mark.skipif(triton is None, reason="TRITON NOT TESTED: it is not installed")

if triton is not None:

    @triton.jit
    def add(x, y, out, n, scale, step, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out + at * step, tl.load(x + at * step, inside) + scale * tl.load(y + at, inside), inside)

    @triton.jit
    def add_racy(x, out, BLOCK: tl.constexpr):
        """All programs add to one word without an atomic operation."""
        tl.store(out, tl.load(out) + tl.sum(tl.load(x + tl.arange(0, BLOCK)), 0))

    @triton.jit
    def product(a, b, c, m, n, k, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        columns = tl.program_id(1) * BN + tl.arange(0, BN)
        inner = tl.arange(0, BK)
        sums = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            x = tl.load(a + rows[:, None] * sa + at + inner, (rows[:, None] < m) & (at + inner < k), 0)
            y = tl.load(b + (at + inner)[:, None] * sb + columns, (at + inner[:, None] < k) & (columns < n), 0)
            sums = tl.dot(x, y, sums)
        tl.store(c + rows[:, None] * sc + columns, sums, (rows[:, None] < m) & (columns < n))

    @triton.jit
    def product_tma(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            sums = tl.dot(a.load([row, at]), b.load([at, column]), sums)
        c.store([row, column], sums.to(tl.float16))


def check(folder: Path) -> Any:
    """The report on a recorded launch, by the CPU alone."""
    source = parsed((folder / "kernel.ptx").read_text(), str(folder / "kernel.ptx"))
    after = folder / "after.npz"
    found = read_launch(
        source.module, folder / "launch.json", folder / "before.npz", after if after.exists() else None, None
    )
    return check_record(source, found.record, found.expected, lt.ptx.Settings())


def integers(*shape: int, dtype: Any = None) -> Any:
    """Small integers, whose sums are exact."""
    return torch.randint(-4, 5, shape, device="cuda").to(dtype or torch.float32)


def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("HOPPER NOT TESTED: its instructions need capability 9.0")


@needs_triton
@pytest.mark.parametrize("step", [1, 3])
def test_a_sum_of_vectors(tmp_path: Path, step: int) -> None:
    """The step 1 is compiled in, and no parameter; with 3, the arrays are views with gaps."""
    n = 1000
    x, y, out = integers(n * step), integers(n), torch.full((n * step,), -1.0, device="cuda")
    with lt.ptx.record_triton(tmp_path) as folders:
        add[(4,)](x[::step], y, out[::step], n, 0.5, step, BLOCK=256)
    report = check(folders[0])
    assert report.ok, report
    assert torch.equal(out[::step], x[::step] + y / 2)
    after = np.load(folders[0] / "after.npz")
    assert [*after] == ["out"] and np.array_equal(after["out"], out[::step].cpu().numpy())


@needs_triton
def test_a_sum_of_bf16_at_odd_addresses_in_place(tmp_path: Path) -> None:
    x, y = integers(1001, dtype=torch.bfloat16)[1:], integers(1000, dtype=torch.bfloat16)
    wanted = x + 2 * y
    with lt.ptx.record_triton(tmp_path) as folders:
        add[(4,)](x, y, x, 1000, 2.0, 1, BLOCK=256)
    assert torch.equal(x, wanted) and check(folders[0]).ok
    launch = json.loads((folders[0] / "launch.json").read_text())
    assert launch["params"][0] == launch["params"][2] and launch["arrays"]["x"]["address_mod_256"] % 4 == 2


@needs_triton
def test_a_race_is_found_whatever_the_gpu_gave(tmp_path: Path) -> None:
    x, out = integers(64), torch.zeros(1, device="cuda")
    with lt.ptx.record_triton(tmp_path) as folders:
        add_racy[(8,)](x, out, BLOCK=64)
    assert check(folders[0]).kind == "race"


@needs_triton
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_product_without_tma(tmp_path: Path, dtype: str) -> None:
    m, n, k = 100, 72, 80
    kind = getattr(torch, dtype)
    a, b, c = integers(m, k, dtype=kind), integers(k, n, dtype=kind), torch.zeros(m, n, device="cuda")
    arguments = a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0)
    with lt.ptx.record_triton(tmp_path) as folders:
        product[(2, 2)](*arguments, BM=64, BN=64, BK=32)
    report = check(folders[0])
    assert report.ok, report
    assert torch.equal(c, a.float() @ b.float())


@needs_triton
def test_a_product_with_tensor_descriptors(tmp_path: Path) -> None:
    hopper()
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    a, b = integers(128, 128, dtype=torch.float16), integers(128, 64, dtype=torch.float16)
    c = torch.zeros(128, 64, device="cuda", dtype=torch.float16)
    boxes = [descriptor.from_tensor(tensor, [64, 64]) for tensor in (a, b, c)]
    with lt.ptx.record_triton(tmp_path) as folders:
        product_tma[(2, 1)](*boxes, 128, BM=64, BN=64, BK=64)
    report = check(folders[0])
    assert report.ok, report
    assert torch.equal(c.float(), a.float() @ b.float())
    kinds = [each["kind"] for each in json.loads((folders[0] / "launch.json").read_text())["params"]]
    assert kinds.count("tensor_map") == 3


@needs_triton
def test_a_launch_that_the_gpu_refuses_leaves_its_record(tmp_path: Path) -> None:
    """Another process, whose context an illegal address ends."""
    script = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import torch, lowtide as lt
from test_ptx_recorders_gpu import add
x = torch.zeros(256, device="cuda")
with lt.ptx.record_triton({str(tmp_path)!r}):
    add[(1,)](x, x, x, 256, 1.0, 2**26 + 1, BLOCK=256)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode and not (tmp_path / "add" / "after.npz").exists(), done.stderr
    assert check(tmp_path / "add").kind == "out-of-bounds"


# cuda-python ----------------------------------------------------------------------------------------------------------

SCALE = """.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 count)
{
.reg .pred %p<4>; .reg .f32 %f<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [x];
ld.param.f32 %f1, [by];
ld.param.u32 %r1, [count];
mov.u32 %r2, %tid.x;
setp.ge.u32 %p1, %r2, %r1;
@%p1 bra DONE;
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
ld.global.f32 %f2, [%rd3];
mul.rn.f32 %f3, %f2, %f1;
st.global.f32 [%rd3], %f3;
DONE:
ret;
}
"""


@pytest.fixture
def driver() -> Any:
    found = pytest.importorskip("cuda.bindings.driver")
    torch.zeros(1, device="cuda")  # makes the context
    return found


def done(result: tuple[Any, ...]) -> Any:
    """What a function of the driver gives."""
    assert not int(result[0]), result[0]
    return result[1] if len(result) == 2 else result[1:]


@pytest.mark.parametrize("named", [True, False])
def test_a_launch_by_the_driver(tmp_path: Path, driver: Any, named: bool) -> None:
    x = integers(300)
    wanted = torch.cat([x[:200] / 2, x[200:]])
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    with lt.ptx.record_driver(tmp_path, arrays={"x": x} if named else None) as recorder:
        module = done(driver.cuModuleLoadData(SCALE.encode() + b"\0"))
        kernel = done(driver.cuModuleGetFunction(module, b"scale"))
        values = driver.CUdeviceptr(x.data_ptr()), 0.5, 200
        parameters = values, (None, ctypes.c_float, ctypes.c_int)
        done((*driver.cuLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 0, stream, parameters, 0), None))
    report = check(recorder.folders[0])
    assert report.ok, report
    assert torch.equal(x, wanted) and recorder.folders == [tmp_path / "scale"]


def test_a_launch_by_the_driver_with_a_configuration_and_tensor_maps(tmp_path: Path, driver: Any) -> None:
    hopper()
    there = KERNELS / "matmul_tma_128b"
    before = dict(np.load(there / "before.npz"))
    arrays = {name: torch.from_numpy(before[name]).cuda() for name in "abc"}
    fields = json.loads((there / "launch.json").read_text())
    text = (there / "kernel.ptx").read_text()
    shared = fields["shared_bytes"]
    with lt.ptx.record_driver(tmp_path, ptx=text) as recorder:
        module = done(driver.cuModuleLoadData(text.encode() + b"\0"))
        kernel = done(driver.cuModuleGetFunction(module, b"mm_tma_k"))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        done((*driver.cuFuncSetAttribute(kernel, attribute, shared), None))
        values, types = [], []
        for each in fields["params"]:
            if each["kind"] == "tensor_map":
                values.append(_map(driver, each, arrays[each["array"]]))
                types.append(None)
            else:
                values.append(each.get("value", 0))
                types.append({"i32": ctypes.c_int, "i64": ctypes.c_longlong}.get(each.get("type"), ctypes.c_void_p))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = fields["grid"]
        config.blockDimX, config.blockDimY, config.blockDimZ = fields["block"]
        config.sharedMemBytes = shared
        done((*driver.cuLaunchKernelEx(config, kernel, (tuple(values), tuple(types)), 0), None))
    report = check(recorder.folders[0])
    assert report.ok, report
    assert np.array_equal(arrays["c"].cpu().numpy(), np.load(there / "after.npz")["c"])


def _map(driver: Any, fields: dict[str, Any], tensor: Any) -> Any:
    many = driver.cuuint64_t, driver.cuuint32_t
    return done(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            len(fields["dims"]),
            tensor.data_ptr(),
            [many[0](each) for each in fields["dims"]],
            [many[0](each) for each in fields["strides_bytes"]],
            [many[1](each) for each in fields["box"]],
            [many[1](1) for _ in fields["box"]],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )


def test_a_launch_of_cuda_core(tmp_path: Path, driver: Any) -> None:
    core = pytest.importorskip("cuda.core")
    if not hasattr(core, "launch"):
        core = pytest.importorskip("cuda.core.experimental")
    device = core.Device()
    device.set_current()
    x = integers(300)
    kernel = core.ObjectCode.from_ptx(SCALE.encode()).get_kernel("scale")
    config = core.LaunchConfig(grid=1, block=256)
    torch.cuda.synchronize()
    wanted = torch.cat([x[:200] / 2, x[200:]])
    with lt.ptx.record_driver(tmp_path, ptx=SCALE, arrays={"x": x}) as recorder:
        recorder.launch(device.default_stream, config, kernel, x.data_ptr(), np.float32(0.5), np.int32(200))
    report = check(recorder.folders[0])
    assert report.ok, report
    assert torch.equal(x, wanted)
