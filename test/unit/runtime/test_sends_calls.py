"""Kernels that send their rank's shard: their manifest, and calls that are refused."""

from typing import Any

import numpy as np
import pytest
from fake_arrays import InterfaceArray, aligned
from test_gpu_run import Driver

import lowtide as lt
from lowtide.errors import LaunchError
from lowtide.runtime import Kernel
from lowtide.runtime.manifest import validate

RANKS, M, N = 2, 40, 24
SPEC = lt.GemmSpec(a="f16", b="f16", d="f16", n=N, batch=None, arrivals=True, peers=True)


@pytest.fixture(scope="module")
def kernel() -> Any:
    return lt.compile_gemm(SPEC, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")


def test_a_manifest_has_the_operands_that_its_word_says(kernel: Any) -> None:
    manifest = kernel.manifest
    validate(manifest, "kernel")
    shapes = {each["kind"]: (each["dtype"], each["shape"]) for each in manifest["arguments"]}
    assert manifest["spec"]["peers"] is True
    assert (shapes["peers"], shapes["sent"]) == (("s32", [None, 4]), ("s32", [None]))
    for changed in (
        {"arguments": [each for each in manifest["arguments"] if each["kind"] != "sent"]},
        {"spec": {name: word for name, word in manifest["spec"].items() if name != "peers"}},
    ):
        with pytest.raises(lt.LoadError, match=r"with spec\.peers, and only then"):
            validate({**manifest, **changed}, "kernel")


def test_a_k_of_zero_is_refused(kernel: Any, install_driver: Any) -> None:
    install_driver(Driver(kernel))
    shapes = {"arrived": (RANKS,), "turn": (3,), "status": (4,), "peers": (RANKS, 4), "sent": (RANKS,)}
    ints = {name: InterfaceArray(np.zeros(shape, np.int32)) for name, shape in shapes.items()}
    a, b = (InterfaceArray(aligned(RANKS * rows, 8).reshape(RANKS, rows, 8)[..., :0]) for rows in (M, N))
    out = InterfaceArray(aligned(RANKS * M, N).reshape(RANKS, M, N))
    with pytest.raises(LaunchError, match=r"\[peers-without-k\]"):
        Kernel(kernel.manifest, kernel.ptx)(a=a, b=b, out=out, **ints)
