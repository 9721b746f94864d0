"""Compiles kernels of this folder by nvcc and records a launch of each, with the results as numpy computes them.

    python test/ptx/kernels/record.py [NAME …]

Writes kernel.ptx, launch.json, before.npz and after.npz into the folder of each. The other folders hold kernels of
Triton and of CUDA C++ whose launches and results were recorded on a GPU.
"""

import re
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lowtide as lt

FOLDER = Path(__file__).resolve().parent
NVCC = "/usr/local/cuda/bin/nvcc"
Launch = dict[str, Any]
Ints = NDArray[np.int32]


def _drawn(*shape: int, least: int = -50, most: int = 50) -> Ints:
    return np.random.default_rng(3).integers(least, most, shape, np.int32)


def _zeros(*shape: int) -> Ints:
    return np.zeros(shape, np.int32)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """What numpy computed in 64 bits, in the 32 bits of the kernels."""
    return values.astype(np.int32) if values.dtype == np.int64 else values


def histogram() -> Launch:
    x = _drawn(1000, least=0, most=256).astype(np.uint8)
    x[:300] = 5
    counts = np.bincount(x & 31, minlength=32).astype(np.uint32)
    args = [x, np.zeros(32, np.uint32), 1000]
    return {"grid": 3, "block": 128, "args": args, "expect": [None, counts]}


def block_scan() -> Launch:
    x = _drawn(2, 128)
    return {"grid": 2, "block": 128, "args": [x, _zeros(2, 128)], "expect": [None, x.cumsum(1)]}


def last_block_sum() -> Launch:
    x = _drawn(5, 64)
    expect = [None, x.sum(1), np.zeros(1, np.uint32), x.sum(keepdims=True)[0]]
    args = [x, _zeros(5), np.zeros(1, np.uint32), _zeros(1)]
    return {"grid": 5, "block": 64, "args": args, "expect": expect}


def cluster_sum() -> Launch:
    x = _drawn(8, 32)
    sums = x.sum(1).reshape(2, 4) @ [1, 10, 100, 1000]
    args = [x, _zeros(8)]
    return {"grid": 8, "block": 32, "cluster": 4, "args": args, "expect": [None, np.repeat(sums, 4)]}


def bulk_store() -> Launch:
    x = _drawn(6, 256)
    return {"grid": 2, "block": 128, "args": [x, _zeros(6, 256), 3], "expect": [None, 2 * x]}


def pingpong() -> Launch:
    x, turn = _drawn(6, 64), np.zeros(64, np.int32)
    for row in x:
        turn = 3 * turn + row
    return {"grid": 1, "block": 128, "args": [x, _zeros(64), 3], "expect": [None, turn[::-1]]}


def stmatrix_transpose() -> Launch:
    x = _drawn(2, 16, 16).astype(np.int16)
    return {"grid": 2, "block": 32, "args": [x, np.zeros_like(x)], "expect": [None, x.transpose(0, 2, 1)]}


def dp4a_dot() -> Launch:
    rows, vector = (_drawn(each, 200, least=-128, most=128).astype(np.int8) for each in (8, 1))
    y = rows.astype(np.int32) @ vector[0].astype(np.int32)
    return {"grid": 2, "block": (32, 4), "args": [rows, vector[0], _zeros(8), 50], "expect": [None, None, y]}


def stencil_3d() -> Launch:
    nx, ny, nz = 11, 6, 5
    x = _drawn(nz, ny, nx).astype(np.float32)
    p = np.pad(x, 1)
    y = sum(np.roll(p, d, axis) for axis in range(3) for d in (-1, 1))[1:-1, 1:-1, 1:-1] - 6 * x
    args = [x, np.zeros_like(x), nx, ny, nz]
    return {"grid": (2, 2, 2), "block": (8, 4, 4), "args": args, "expect": [None, y]}


def struct_param() -> Launch:
    x, y = _drawn(10, 24).astype(np.int16), np.zeros((13, 12), np.int16)
    expect = y.copy()
    expect[:, :10] = x[:, :13].T + 7
    views = [
        lt.ptx.Bytes(struct.pack("<8xqii", 10, 13, 24), {0: x}),
        lt.ptx.Bytes(struct.pack("<8xi4x", 12), {0: y}),
    ]
    return {"grid": (2, 3), "block": (8, 4), "args": [*views, 7], "expect": [None, expect]}


def device_calls() -> Launch:
    def length(v: int) -> int:
        count = 0
        while v != 1 and count < 40:
            v, count = (3 * v + 1 if v % 2 else v // 2), count + 1
        return count

    y = [length(v) for v in range(1, 91)]
    return {"grid": 2, "block": 64, "args": [_zeros(90), 90], "expect": [np.array(y, np.int32)]}


def local_table() -> Launch:
    x = _drawn(64, 8)
    return {"grid": 2, "block": 32, "args": [x, _zeros(64, 8)], "expect": [None, np.sort(x, axis=1)]}


def constant_table() -> Launch:
    x = _drawn(90)
    c = np.array([[1, 2, 3], [-4, 5, -6], [7, 0, 9], [10, 11, -12]])[x & 3]
    y = c[:, 0] + x * (c[:, 1] + x * c[:, 2])
    return {"grid": 3, "block": 32, "args": [x, _zeros(90), 90], "expect": [None, y]}


def warp_aggregate() -> Launch:
    x = _drawn(150)
    kinds = [x[(x & 3) == kind] for kind in range(4)]
    y = [each.sum() for each in kinds] + [np.count_nonzero(each & 4) for each in kinds]
    args = [x, _zeros(4), _zeros(8), 150]
    expect = [None, np.array([each.size for each in kinds]), np.array(y)]
    return {"grid": 3, "block": 64, "args": args, "expect": expect}


def spin_lock() -> Launch:
    args = [_zeros(1), np.array([3], np.int32)]
    return {"grid": 3, "block": 32, "args": args, "expect": [_zeros(1), np.array([31], np.int32)]}


def flag_in_cta() -> Launch:
    x = _drawn(2, 32)
    return {"grid": 2, "block": 64, "args": [x, _zeros(2, 32)], "expect": [None, x[:, ::-1]]}


def cub_sort() -> Launch:
    x = _drawn(2, 256, least=-(2**30), most=2**30)
    return {"grid": 2, "block": 64, "args": [x, _zeros(2, 256)], "expect": [None, np.sort(x, axis=1)]}


def cg_sum() -> Launch:
    x = _drawn(128)
    y = np.repeat(x.reshape(-1, 8).sum(1), 8)
    expect = [None, y, x[x % 2 == 1].sum(keepdims=True)]
    return {"grid": 2, "block": 64, "args": [x, _zeros(128), _zeros(1)], "expect": expect}


def barrier_pipeline() -> Launch:
    x = _drawn(2, 5, 128)
    y = x.sum(1)[:, ::-1]
    return {"grid": 2, "block": 128, "args": [x, _zeros(2, 128), 5], "expect": [None, y]}


def atomic_ref() -> Launch:
    x = _drawn(4, 64)
    expect = [None, x.max(1), np.array([4], np.uint32), np.array([x.max()])]
    return {"grid": 4, "block": 64, "args": [x, _zeros(4), np.zeros(1, np.uint32), _zeros(1)], "expect": expect}


def grid_barrier() -> Launch:
    x = _drawn(3, 64)
    args = [x, _zeros(3, 64), _zeros(3, 64), np.zeros(1, np.uint32)]
    expect = [None, 3 * x, 3 * np.roll(x, -1, axis=0), np.array([3], np.uint32)]
    return {"grid": 3, "block": 64, "cooperative": True, "args": args, "expect": expect}


def bulk_add() -> Launch:
    x = _drawn(4, 128)
    return {"grid": 4, "block": 128, "args": [x, _drawn(128)], "expect": [None, x.sum(0) + _drawn(128)]}


def lane_copies() -> Launch:
    x, index = _drawn(40, 16), _drawn(64, least=0, most=40)
    return {"grid": 2, "block": 32, "args": [x, index, _zeros(64, 16)], "expect": [None, None, x[index]]}


def cub_merge_sort() -> Launch:
    x = _drawn(2, 64)
    return {"grid": 2, "block": 32, "args": [x, _zeros(2, 64)], "expect": [None, np.sort(x, axis=1)]}


def lane_waits() -> Launch:
    x = _drawn(2, 32)
    return {"grid": 2, "block": 64, "args": [x, _zeros(2, 32)], "expect": [None, x[:, ::-1]]}


LAUNCHES: Mapping[str, Callable[[], Launch]] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            histogram,
            block_scan,
            last_block_sum,
            cluster_sum,
            bulk_store,
            pingpong,
            stmatrix_transpose,
            dp4a_dot,
            stencil_3d,
            struct_param,
            device_calls,
            local_table,
            constant_table,
            warp_aggregate,
            spin_lock,
            flag_in_cta,
            cub_sort,
            cg_sum,
            barrier_pipeline,
            atomic_ref,
            grid_barrier,
            bulk_add,
            lane_copies,
            cub_merge_sort,
            lane_waits,
        )
    }
)


def compiled(name: str) -> str:
    """The PTX of a kernel. `.file` names are those of the sources, without the folders of this machine."""
    command = [NVCC, "-ptx", "-arch=sm_90a", "-lineinfo", "-o", "-", f"{name}.cu"]
    text = subprocess.run(command, cwd=FOLDER / name, check=True, capture_output=True, text=True).stdout
    text = re.sub(r'(\.file\s+\d+ )"[^"]*/include/([^"]*)"', r'\1"cuda/\2"', text)
    return re.sub(r'(\.file\s+\d+ )"/[^"]*/([^"/]*)"', r'\1"\2"', text)


def main() -> None:
    for name in sys.argv[1:] or LAUNCHES:
        given = LAUNCHES[name]()
        given["expect"] = [None if each is None else _narrow(np.asarray(each)) for each in given["expect"]]
        lt.ptx.load(compiled(name))[name].record(FOLDER / name, **given)


if __name__ == "__main__":
    main()
