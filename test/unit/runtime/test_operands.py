"""Arrays of every library become the same record."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_arrays import DLPackArray, FakeTorch, InterfaceArray, Tensor

from lowtide.errors import LaunchError
from lowtide.runtime.operands import Operand, _ManagedTensorVersioned, parse_capsule, view
from lowtide.runtime.streams import current_stream, handle_of, library_of


def padded() -> np.ndarray:
    return np.zeros((4, 16), dtype=np.float16)[:3, 2:13]


@pytest.mark.parametrize("wrap", [InterfaceArray, DLPackArray, Tensor, lambda x: DLPackArray(x, versioned=False)])
def test_padded_rows_give_address_shape_and_strides(wrap: Any) -> None:
    array = padded()
    operand = view(wrap(array), "a")
    assert (operand.address, operand.shape, operand.strides) == (array.ctypes.data, (3, 11), (16, 1))
    assert operand.dtype == "f16"
    assert operand.device == (None if wrap is InterfaceArray else 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64])
def test_both_protocols_agree_on_dtypes(dtype: Any) -> None:
    array = np.zeros((2, 3), dtype=dtype)
    assert view(InterfaceArray(array), "a").dtype == parse_capsule(array.__dlpack__(), "a").dtype


def test_both_capsule_versions_read_the_same() -> None:
    array = padded()
    old, new = parse_capsule(array.__dlpack__(), "a"), parse_capsule(array.__dlpack__(max_version=(1, 0)), "a")
    assert old.signature == new.signature
    assert old.address == new.address == array.ctypes.data


def test_a_read_only_array_is_known_as_such() -> None:
    array = np.zeros((2, 3))
    array.flags.writeable = False
    assert parse_capsule(array.__dlpack__(max_version=(1, 0)), "a").read_only
    assert view(InterfaceArray(array, data=(array.ctypes.data, True)), "a").read_only
    assert not view(InterfaceArray(array), "a").read_only


def capsule_of(array: np.ndarray, **fields: int) -> Any:
    """A versioned capsule with fields of its structure changed; (major, …) or those of the tensor."""
    capsule = array.__dlpack__(max_version=(1, 0))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = _ManagedTensorVersioned.from_address(pointer(capsule, b"dltensor_versioned"))
    for name, value in fields.items():
        setattr(managed if hasattr(managed, name) else managed.tensor, name, value)
    return capsule


def test_bf16_comes_by_dlpack() -> None:
    operand = parse_capsule(capsule_of(np.zeros((2, 8), dtype=np.uint16), code=4), "a")
    assert (operand.dtype, operand.strides) == ("bf16", (8, 1))


def test_the_byte_offset_counts() -> None:
    array = np.zeros((2, 8), dtype=np.float16)
    assert parse_capsule(capsule_of(array, byte_offset=16), "a").address == array.ctypes.data + 16


def test_absent_strides_mean_compact_rows() -> None:
    array = np.zeros((3, 4, 5), dtype=np.float32)
    assert view(InterfaceArray(array, strides=None), "a").strides == (20, 5, 1)
    capsule = capsule_of(array)
    assert parse_capsule(capsule_of(array, strides=ctypes.POINTER(ctypes.c_int64)()), "a").strides == (20, 5, 1)
    assert parse_capsule(capsule, "a").strides == (20, 5, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"major": 2}, r"DLPack version 2.*\[dlpack-version\]"),
        ({"code": 5}, r"code 5, 32 bits.*\[operand-dtype-known\]"),
        ({"lanes": 4}, r"4 lanes.*\[operand-dtype-known\]"),
    ],
)
def test_capsules_that_are_not_known_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        parse_capsule(capsule_of(np.zeros((2, 4), dtype=np.float32), **fields), "a")


def test_a_used_capsule_is_refused() -> None:
    capsule = np.zeros(3).__dlpack__()
    np.from_dlpack(SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0)))
    with pytest.raises(LaunchError, match=r"not a fresh DLPack capsule.*\[dlpack-fresh\]"):
        parse_capsule(capsule, "a")


def test_a_capsule_outlives_its_array() -> None:
    operand = parse_capsule(np.full((2, 4), 7.0).__dlpack__(), "a")
    assert ctypes.c_double.from_address(operand.address).value == 7.0


def test_the_producer_is_told_the_stream_and_stream_zero_is_called_one() -> None:
    array = DLPackArray(padded())
    for stream in (None, 0, 77):
        view(array, "a", stream)
    assert array.streams == [1, 1, 77]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 3), dtype=np.float16), r"operand a.*numpy\.ndarray.*the CPU.*\[operand-on-gpu\]"),
        (Tensor(np.zeros((2, 3)), device="cpu"), r"torch\.Tensor.*the CPU.*\[operand-on-gpu\]"),
        (Tensor(np.zeros((2, 3)), device="meta"), r"device.*\[operand-on-gpu\]"),
        (SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (3, 0)), r"pinned memory.*\[operand-on-gpu\]"),
        (
            SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (8, 0)),
            r"DLPack device type 8.*\[operand-on-gpu\]",
        ),
        ([[1.0]], r"list is not an array.*\[operand-array\]"),
        (None, r"NoneType.*\[operand-array\]"),
        (Tensor(np.zeros((2, 3), dtype=np.complex64)), r"torch\.complex64.*\[operand-dtype-known\]"),
        (InterfaceArray(np.zeros((2, 3), dtype=">f4")), "'>f4' .* pass it by DLPack"),
        (InterfaceArray(np.zeros((2, 3)), typestr="|V2"), "no bf16: pass it by DLPack"),
        (InterfaceArray(np.zeros((2, 3)), mask=1), "masked"),
        (InterfaceArray(np.zeros((2, 3)), strides=(25, 8)), r"not multiples of f64's 8.*\[byte-strides\]"),
    ],
)
def test_what_is_not_a_gpu_array_is_refused(value: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        view(value, "a")


def test_a_numpy_array_of_ml_dtypes_is_refused_as_one_on_the_cpu() -> None:
    with pytest.raises(LaunchError, match=r"the CPU.*\[operand-on-gpu\]"):
        view(np.zeros((2, 3), dtype=ml_dtypes.bfloat16), "a")


def test_a_record_is_taken_as_it_is() -> None:
    operand = Operand(256, (1, 8), (8, 1), "bf16", 0)
    assert view(operand, "a") is operand


def test_libraries_are_known_by_type_and_by_base_class() -> None:
    class Parameter(Tensor):
        pass

    assert library_of(Tensor(np.zeros(1))) == "torch"
    assert library_of(Parameter(np.zeros(1))) == "torch"
    assert library_of(np.zeros(1)) == ""


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0, 0),
        (99, 99),
        (SimpleNamespace(cuda_stream=5), 5),
        (SimpleNamespace(ptr=6), 6),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 7)), 7),
        (SimpleNamespace(__cuda_stream__=(0, 8), ptr=1), 8),
    ],
)
def test_streams_of_every_library_have_a_handle(stream: Any, handle: int) -> None:
    assert handle_of(stream) == handle


@pytest.mark.parametrize("stream", [True, "0", 1.5, SimpleNamespace(), SimpleNamespace(__cuda_stream__=(1, 8))])
def test_what_is_not_a_stream_is_refused(stream: Any) -> None:
    with pytest.raises(LaunchError, match="stream: "):
        handle_of(stream)


def test_the_current_stream_is_read_at_each_call(torch: FakeTorch) -> None:
    follow = current_stream("torch", 0)
    assert follow is not None
    assert follow() == 11
    torch.stream = 12
    assert follow() == 12
    assert current_stream("", 0) is None
