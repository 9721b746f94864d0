"""`record_driver`: a launch through cuda-python becomes files that run on a CPU, with the GPU's results."""

import ctypes
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorder_fakes import CUkernel, FakeDriver, Pointer, fake_driver
from scaling import HEAD, SCALE, check, described

import lowtide as lt
from lowtide.errors import LaunchError

KERNELS = Path(__file__).parent / "kernels"
TYPES = (None, ctypes.c_float, ctypes.c_int)
COUNT = 50
Driver = Callable[..., FakeDriver]


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(64, dtype=np.float32)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, x: np.ndarray) -> FakeDriver:
    """One whose kernels halve the first elements of x."""

    def work() -> None:
        x[:COUNT] /= 2

    driver = FakeDriver([x], work)
    fake_driver(monkeypatch, driver)
    return driver


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def start(driver: FakeDriver, parameters: Any, extra: Any = 0, name: str = "scale") -> None:
    driver.cuLaunchKernel(name, 1, 1, 1, 64, 1, 1, 0, None, parameters, extra)


def test_a_recorded_launch_gives_the_arrays_of_the_gpu(tmp_path: Path, driver: FakeDriver, x: np.ndarray) -> None:
    real = driver.cuLaunchKernel
    with lt.ptx.record_driver(tmp_path, ptx=SCALE) as recorder:
        start(driver, ((Pointer(address(x)), 0.5, COUNT), TYPES))
    assert driver.cuLaunchKernel is real and recorder.folders == [tmp_path / "scale"]
    report = check(tmp_path / "scale")
    assert (report["kind"], report["message"]) == ("ok", "no rule is broken; 1 array is as expected")
    (array,) = described(tmp_path / "scale")["arrays"].values()
    assert (array["dtype"], array["shape"]) == ("u8", [256])


def test_a_result_of_the_gpu_that_is_wrong_is_found(tmp_path: Path, driver: FakeDriver, x: np.ndarray) -> None:
    with lt.ptx.record_driver(tmp_path, ptx=SCALE):
        start(driver, ((Pointer(address(x)), 0.25, COUNT), TYPES))
    assert check(tmp_path / "scale")["kind"] == "wrong-result"


@pytest.mark.parametrize("form", ["CuPy", "DeviceArray"])
def test_an_array_that_is_named_has_its_type_and_its_bounds(
    form: str, tmp_path: Path, driver: FakeDriver, x: np.ndarray
) -> None:
    """The allocation goes on, but the array ends."""
    named: Any = SimpleNamespace(__cuda_array_interface__=x[:40].__array_interface__)
    if form == "DeviceArray":
        named = lt.ptx.DeviceArray(address(x), (40,), "f32")
    with lt.ptx.record_driver(tmp_path, ptx=SCALE, arrays={"values": named}):
        start(driver, ((Pointer(address(x)), 0.5, COUNT), TYPES))
    folder = tmp_path / "scale"
    assert [(*each.values(),)[:2] for each in described(folder)["arrays"].values()] == [("f32", [40])]
    assert check(folder)["kind"] == "out-of-bounds"


def test_strides_that_are_not_whole_elements_are_refused(tmp_path: Path, driver: FakeDriver, x: np.ndarray) -> None:
    odd = {"values": SimpleNamespace(__cuda_array_interface__=x.__array_interface__ | {"strides": (6,)})}
    with (
        pytest.raises(LaunchError, match=r"\[tensor-strides\]"),
        lt.ptx.record_driver(tmp_path, ptx=SCALE, arrays=odd),
    ):
        start(driver, ((Pointer(address(x)), 0.5, COUNT), TYPES))


def of_addresses(*values: bytes) -> tuple[np.ndarray, list[Any]]:
    """kernelParams as an array of addresses, and what they are addresses of."""
    held = [ctypes.create_string_buffer(value, len(value)) for value in values]
    return np.array([ctypes.addressof(each) for each in held], np.uint64), held


def test_parameters_may_be_addresses_or_values_of_ctypes_or_numpy(
    tmp_path: Path, driver: FakeDriver, x: np.ndarray
) -> None:
    held = of_addresses(struct.pack("<q", address(x)), struct.pack("<f", 0.5), struct.pack("<i", COUNT))
    places = held[0]
    forms = [
        places,
        address(places),
        ((address(x), ctypes.c_float(0.5), np.int32(COUNT)), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int)),
        ((ctypes.c_void_p(address(x)), 0.5, SimpleNamespace(value=COUNT)), (ctypes.c_void_p, ctypes.c_float, None)),
        ((Struct(address(x)), np.float32(0.5), COUNT), (None, ctypes.c_float, ctypes.c_uint)),
    ]
    with lt.ptx.record_driver(tmp_path, ptx=SCALE, launches=9) as recorder:
        for form in forms:
            start(driver, form)
    first, *others = [described(folder)["params"] for folder in recorder.folders]
    assert len(others) == 4 and all(other == first for other in others)
    assert [each.get("value") for each in first] == [None, 0.5, COUNT]


class Struct(ctypes.Structure):
    _fields_ = (("pointer", ctypes.c_uint64),)


def test_the_text_is_known_if_the_block_loads_it(tmp_path: Path, driver: FakeDriver, x: np.ndarray) -> None:
    other = SCALE.replace("scale", "other")
    with lt.ptx.record_driver(tmp_path, kernel="scale") as recorder:
        driver.cuModuleLoadData((SCALE + "\0").encode())
        driver.cuModuleLoadData(image=(other + "\0").encode())
        driver.cuModuleLoadData(b"\x7fELF, machine code")
        launch = CUkernel("other"), 1, 1, 1, 64, 1, 1, 0, None, ((Pointer(address(x)), 0.5, COUNT), TYPES), 0
        driver.cuLaunchKernel(*launch)  # not the kernel that was asked for
        start(driver, ((Pointer(address(x)), 0.5, COUNT), TYPES))
    assert [each.name for each in recorder.folders] == ["scale"]
    assert (tmp_path / "scale" / "kernel.ptx").read_text() == SCALE


def test_attributes_of_a_launch_are_kept(tmp_path: Path, driver: FakeDriver, x: np.ndarray) -> None:
    names = (
        SimpleNamespace(name="CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"),
        SimpleNamespace(name="CU_LAUNCH_ATTRIBUTE_COOPERATIVE"),
    )
    values = SimpleNamespace(clusterDim=SimpleNamespace(x=2, y=1, z=1)), SimpleNamespace(cooperative=1)
    attributes = [SimpleNamespace(id=id, value=value) for id, value in zip(names, values, strict=True)]
    sides = {"gridDimX": 4, "gridDimY": 1, "gridDimZ": 1, "blockDimX": 64, "blockDimY": 1, "blockDimZ": 1}
    config = SimpleNamespace(**sides, sharedMemBytes=32, attrs=attributes, numAttrs=2)
    with lt.ptx.record_driver(tmp_path, ptx=SCALE):
        driver.cuLaunchKernelEx(config, "scale", ((Pointer(address(x)), 0.5, COUNT), TYPES), 0)
    launch = described(tmp_path / "scale")
    assert (launch["grid"], launch["cluster"], launch["shared_bytes"]) == ([4, 1, 1], [2, 1, 1], 32)
    assert launch["cooperative"] is True


def test_a_launch_of_cuda_core_is_recorded(
    tmp_path: Path, driver: FakeDriver, x: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its grid counts clusters."""
    places, held = of_addresses(struct.pack("<q", address(x)), struct.pack("<f", 0.5), struct.pack("<i", COUNT))
    core, handler = ModuleType("cuda.core"), ModuleType("cuda.core._kernel_arg_handler")
    core.launch = lambda *given: driver.work()  # type: ignore[attr-defined]
    handler.ParamHolder = lambda given: SimpleNamespace(ptr=address(places))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    monkeypatch.setitem(sys.modules, "cuda.core._kernel_arg_handler", handler)
    config = SimpleNamespace(grid=(2, 1), cluster=2, block=64, shmem_size=0, is_cooperative=False)
    with lt.ptx.record_driver(tmp_path, ptx=SCALE) as recorder:
        recorder.launch("stream", config, SimpleNamespace(handle=CUkernel("scale")), "the arguments")
    launch = described(tmp_path / "scale")
    assert held and (launch["grid"], launch["block"], launch["cluster"]) == ([4, 1, 1], [64, 1, 1], [2, 1, 1])


PRODUCT = KERNELS / "matmul_tma_128b"


def encoded(driver: FakeDriver, array: np.ndarray, **others: int) -> Pointer:
    """A tensor map of a matrix of f16, in boxes of 64 by 64."""
    rows, columns = array.shape
    fields = {"interleave": 0, "swizzle": 3, "l2Promotion": 2, "oobFill": 0} | others
    shape, strides = [columns, rows], [2 * columns]
    result, map = driver.cuTensorMapEncodeTiled(
        6, 2, Pointer(address(array)), shape, strides, [64, 64], [others.pop("step", 1), 1], *fields.values()
    )
    assert result == 0
    return map


def product(driver: FakeDriver, maps: list[Pointer]) -> None:
    """The launch of a product of Triton, with its tensor maps as parameters."""
    scalars = [each for each in described(PRODUCT)["params"]]
    values, types = [], []
    given = iter(maps)
    for each in scalars:
        if each["kind"] == "tensor_map":
            values.append(next(given))
            types.append(None)
        else:
            kind = {"i32": ctypes.c_int, "i64": ctypes.c_int64}.get(each.get("type"), ctypes.c_void_p)
            values.append(each.get("value", 0))
            types.append(kind)
    driver.cuLaunchKernel("mm_tma_k", 2, 1, 1, 128, 1, 1, 40976, None, (tuple(values), tuple(types)), 0)


@pytest.mark.parametrize("align", [64, 128])  # as Triton and CUDA 12 declare them, and as CUDA 13
def test_tensor_maps_are_recorded_as_what_they_were_made_from(tmp_path: Path, driver: FakeDriver, align: int) -> None:
    text = (PRODUCT / "kernel.ptx").read_text().replace(".param .align 64", f".param .align {align}")
    arrays = dict(np.load(PRODUCT / "before.npz"))
    driver.allocations = list(arrays.values())
    driver.work = lambda: np.copyto(arrays["c"], np.load(PRODUCT / "after.npz")["c"])
    with lt.ptx.record_driver(tmp_path, ptx=text):
        product(driver, [encoded(driver, arrays[name]) for name in "abc"])
    report = check(tmp_path / "mm_tma_k")
    assert (report["kind"], report["message"]) == ("ok", "no rule is broken; 1 array is as expected")


def test_a_pointer_in_a_struct_is_one(tmp_path: Path, driver: FakeDriver) -> None:
    """And one to nothing is a number."""
    x = np.arange(8, dtype=np.int32)
    driver.allocations, driver.work = [x], lambda: None
    text = f"{HEAD}.visible .entry none(.param .align 8 .b8 pair[24], .param .u64 number)\n{{\nret;\n}}\n"
    data = struct.pack("<qqq", 5, address(x) + 8, 0)
    held = (ctypes.c_uint8 * 24).from_buffer_copy(data)
    pair = SimpleNamespace(getPtr=lambda: ctypes.addressof(held))
    with lt.ptx.record_driver(tmp_path, ptx=text):
        driver.cuLaunchKernel("none", 1, 1, 1, 32, 1, 1, 0, 0, ((pair, 9), (None, ctypes.c_void_p)), extra=None)
    first, second = described(tmp_path / "none")["params"]
    assert first["pointers"] == [{"at": 8, "array": "pair", "offset_bytes": 8}] and second["value"] == 9
    assert check(tmp_path / "none")["kind"] == "ok"


def test_tensor_maps_in_a_struct_are_recorded(tmp_path: Path, driver: FakeDriver) -> None:
    """At a multiple of 64 bytes, before a pointer and after a number."""
    matrix, x = np.zeros((64, 64), np.float16), np.arange(8, dtype=np.int32)
    driver.allocations, driver.work = [matrix, x], lambda: None
    text = f"{HEAD}.visible .entry none(.param .align 64 .b8 all[256])\n{{\nret;\n}}\n"
    with lt.ptx.record_driver(tmp_path, ptx=text):
        map = encoded(driver, matrix)
        data = struct.pack("<q56x", 5) + bytes(map.held) + struct.pack("<q56x", address(x))
        held = (ctypes.c_uint8 * 256).from_buffer_copy(data)
        start(driver, ((SimpleNamespace(getPtr=lambda: ctypes.addressof(held)),), (None,)), name="none")
    (found,) = described(tmp_path / "none")["params"]
    assert [(each["at"], each["box"]) for each in found["tensor_maps"]] == [(64, [64, 64])]
    assert [each["at"] for each in found["pointers"]] == [192]
    assert check(tmp_path / "none")["kind"] == "ok"


# What cannot be recorded ----------------------------------------------------------------------------------------------


def unknown_name(driver: FakeDriver, x: np.ndarray) -> None:
    driver.cuFuncGetName = lambda handle: (1, b"")
    start(driver, ((Pointer(address(x)), 0.5, COUNT), TYPES))


def bad_status(driver: FakeDriver, x: np.ndarray) -> None:
    driver.status = 700
    start(driver, ((Pointer(address(x)), 0.5, COUNT), TYPES))


def unknown_map(driver: FakeDriver, x: np.ndarray) -> None:
    driver.allocations = [np.zeros((64, 64), np.float16)]
    known = encoded(driver, driver.allocations[0])
    product(driver, [known, known, Pointer(7, 128)])


def map_of(**others: int) -> Callable[[FakeDriver, np.ndarray], None]:
    def call(driver: FakeDriver, x: np.ndarray) -> None:
        arrays = [np.zeros((64, 64), np.float16)] * 3
        driver.allocations = arrays
        product(driver, [encoded(driver, each, **others) for each in arrays])

    return call


BAD: dict[str, list[Callable[[FakeDriver, np.ndarray], Any]]] = {
    "recorded-nothing": [lambda driver, x: None],
    "recorded-map": [map_of(interleave=1), map_of(oobFill=1), map_of(step=2), map_of(swizzle=4)],
    "recorded-map-array": [
        lambda driver, x: product(driver, [encoded(driver, np.zeros((64, 64), np.float16))] * 3),
    ],
    "driver-map": [unknown_map],
    "driver-kernel": [unknown_name],
    "driver-ptx": [lambda driver, x: driver.cuLaunchKernel("gone", 1, 1, 1, 64, 1, 1, 0, None, ((), ()), 0)],
    "driver-extra": [lambda driver, x: start(driver, None, 4096)],
    "driver-call": [bad_status],
    "driver-none": [lambda driver, x: start(driver, None)],
    "driver-parameters": [lambda driver, x: start(driver, ((1,), (None,)))],
    "driver-buffer": [lambda driver, x: start(driver, "scale")],
    "driver-value": [lambda driver, x: start(driver, ((Pointer(address(x)), 0.5, COUNT), (*TYPES[:2], ctypes.c_byte)))],
    "driver-core": [lambda driver, x: None],
}


@pytest.mark.parametrize(("code", "call"), [(code, call) for code, calls in BAD.items() for call in calls])
def test_what_cannot_be_recorded_is_refused(
    code: str, call: Any, tmp_path: Path, driver: FakeDriver, x: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = SCALE + (PRODUCT / "kernel.ptx").read_text().partition(".address_size 64")[2]
    monkeypatch.delitem(sys.modules, "cuda.core", raising=False)
    with pytest.raises(LaunchError, match=rf"\[{code}\]"), lt.ptx.record_driver(tmp_path, ptx=texts) as recorder:
        if code == "driver-core":
            recorder.launch("stream", None, None)
        call(driver, x)
    assert not recorder.folders
