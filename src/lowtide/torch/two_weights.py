"""Two matrices of B, anywhere in memory, as one operand of pairs of columns."""

import re
from typing import Any

import torch

from lowtide.compiler.matmul.arrangement import ALIGNED
from lowtide.errors import LaunchError

_MOST_APART = 2**40  # bytes: strides of a tensor map are smaller (CUDA driver API, cuTensorMapEncodeTiled)


class _Memory:
    """GPU memory as an array of 16-bit integers, by the CUDA Array Interface, version 3. Strides are in bytes."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": shape,
            "strides": strides,
            "data": (address, False),
            "typestr": "<i2",
            "version": 3,
        }


def as_one(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """A tensor (2, N, K) of two matrices (N, K) of 16-bit floats with equal strides, and whether the second comes
    first. On a GPU it is a view of both, so they must outlive it. Raises LaunchError for matrices that are not alike,
    or whose distance no kernel takes."""
    if first.shape != second.shape or first.stride() != second.stride() or first.dtype != second.dtype:
        raise LaunchError(
            f"the matrices of B are {tuple(first.shape)} and {tuple(second.shape)} with strides {first.stride()} and"
            f" {second.stride()}; shapes, strides and types must be equal [two-matrices]"
        )
    if not first.is_cuda:
        return torch.stack([first, second]), False
    addresses = first.data_ptr(), second.data_ptr()
    low, apart = min(addresses), abs(addresses[1] - addresses[0])
    if apart % ALIGNED or not 0 < apart < _MOST_APART or first.itemsize != 2:
        raise LaunchError(
            f"the matrices of B are {apart} bytes apart, with elements of {first.itemsize} bytes; a kernel takes 16-bit"
            f" floats, and multiples of {ALIGNED} bytes above 0 and below 2**40 [two-matrices-apart]"
        )
    shape, strides = (2, *first.shape), (apart, *(stride * first.itemsize for stride in first.stride()))
    found = torch.as_tensor(_Memory(low, shape, strides), device=first.device)
    return found.view(first.dtype), low != addresses[0]


def exchanged(epilogue: str) -> str:
    """The text of an epilogue with its two accumulators exchanged."""
    head, brace, body = epilogue.partition("{")
    names = {"acc": "acc2", "acc2": "acc"}
    return head + brace + "".join(names.get(word, word) for word in _words(body))


def _words(text: str) -> list[str]:
    return re.split(r"(\W+)", text)
