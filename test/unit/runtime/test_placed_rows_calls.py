"""Calls of kernels that store rows of D at an index, and checks of them on a driver whose launches run numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from fake_arrays import InterfaceArray, aligned
from test_gpu_run import Driver, matrix

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import LaunchError
from lowtide.runtime import Kernel
from lowtide.runtime.dtypes import from_bits, to_bits
from lowtide.runtime.manifest import validate
from lowtide.runtime.row_indices import drawn_rows_of_d, places_in
from lowtide.runtime.verify import verify_kernel
from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.verdicts import against_float64

M, N, K = 37, 24, 40
SPEC = lt.GemmSpec(n=N, k=K, a="bf16", b="bf16", d="bf16", d_rows=True)


@cache
def compiled() -> CompiledKernel:
    return lt.compile_gemm(SPEC, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")


def scatters(fault: str = "") -> Callable[[list[Any]], None]:
    """A kernel that multiplies and scatters in numpy, with a fault where one is named."""

    def kernel(values: list[Any]) -> None:
        a, lda, rows, b, ldb, d, ldd, of_d, index, count = values
        assert rows == count
        at = np.frombuffer((ctypes.c_char * (4 * count)).from_address(index), dtype=np.int32)
        left = from_bits(np.ascontiguousarray(matrix(a, count, lda, K)), "bf16")
        right = from_bits(np.ascontiguousarray(matrix(b, N, ldb, K)), "bf16")
        stored, result = matrix(d, of_d, ldd, N), to_bits(left @ right.T, "bf16")
        places = places_in(at, of_d)
        for row in np.flatnonzero(places >= 0).tolist()[fault == "leaves out a row" :]:
            stored[places[row]] = result[row] if fault != "stores another row" else result[row - 1]
        if fault == "stores where nothing is named":
            stored[np.setdiff1d(np.arange(of_d), places)[0]] = 0

    return kernel


FAULTS = {
    "leaves out a row": "24 elements of D were not written",
    "stores another row": "out of bound",
    "stores where nothing is named": "rows of D were written that belong to no group, or that d_rows does not name",
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_run_judges_the_rows_that_are_named_and_all_others(install_driver: Any, fault: str) -> None:
    fake = install_driver(Driver(compiled()))
    fake.kernel = scatters(fault)
    inputs = lt.random_inputs(SPEC, M, N, K, np.random.default_rng(1))
    ran = run_on_gpu(compiled(), SPEC, inputs)
    assert ran.d.shape == (drawn_rows_of_d(M), N)
    verdict = against_float64(SPEC, inputs, ran.d)
    if fault == "stores another row":
        assert not verdict.ok and not ran.complaint and FAULTS[fault] in verdict.message
        assert verdict.element is not None and verdict.element.row in inputs["d_rows"]
    else:
        assert FAULTS.get(fault, "") in ran.complaint and bool(fault) == bool(ran.complaint)
        assert verdict.ok == (fault != "leaves out a row")


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_a_saved_kernel_is_verified(install_driver: Any, fault: str) -> None:
    fake = install_driver(Driver(compiled()))
    fake.kernel = scatters(fault)
    outcome = verify_kernel(Kernel(compiled().manifest, compiled().ptx), size=(M, N, K))
    assert outcome.ok == (not fault) and FAULTS.get(fault, "") in outcome.message


@cache
def of_f16() -> CompiledKernel:
    spec = lt.GemmSpec(n=N, k=K, a="f16", b="f16", d="f16", d_rows=True)
    return lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")


def operands(**others: Any) -> dict[str, Any]:
    found = {"a": aligned(M, K), "b": aligned(N, K), "d_rows": np.arange(M, dtype=np.int32)} | others
    return {name: InterfaceArray(array) for name, array in found.items()}


def test_the_output_is_given_and_has_any_number_of_rows(install_driver: Any) -> None:
    fake = install_driver(Driver(of_f16()))
    kernel = Kernel(of_f16().manifest, of_f16().ptx)
    for call in (kernel, kernel.bind):
        with pytest.raises(LaunchError, match=r"d is not given.*pass out= \[out-of-placed-rows\]"):
            call(**operands())
    assert kernel.workspace_bytes(**operands()) == 0 and not fake.launches
    for of_d in (1, M, 1000):
        kernel(**operands(out=aligned(of_d, N)))
        assert (fake.launches[-1].values[-1], fake.launches[-1].values[-3]) == (M, of_d)
    kernel(**operands(out=aligned(0, N)))
    none = {"a": aligned(0, K), "d_rows": np.zeros(0, np.int32)}
    kernel(**operands(**none, out=aligned(50, N)))
    assert len(fake.launches) == 3


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"d_rows": np.zeros(M, np.int64)}, "operand-dtype"),
        ({"d_rows": np.zeros(M - 1, np.int32)}, "extents-differ"),
        ({"d_rows": np.zeros((M, 1), np.int32)}, "operand-rank"),
        ({"out": aligned(M, N + 8)}, "operand-extent"),
    ],
)
def test_operands_that_do_not_fit_are_refused(install_driver: Any, given: dict[str, Any], code: str) -> None:
    fake = install_driver(Driver(of_f16()))
    with pytest.raises(LaunchError, match=rf"\[{code}\]"):
        Kernel(of_f16().manifest, of_f16().ptx)(**operands(**({"out": aligned(50, N)} | given)))
    assert not fake.launches


def test_a_manifest_has_the_index_beside_its_word_and_full_outputs_alone() -> None:
    manifest = of_f16().manifest
    validate(manifest, "kernel")
    assert (manifest["spec"]["m"], manifest["spec"]["d_rows"]) == (None, True)
    none = [x for x in manifest["arguments"] if x["kind"] != "d_rows"]
    with pytest.raises(lt.LoadError, match=r"with spec\.d_rows, and only then"):
        validate({**manifest, "arguments": none}, "kernel")
    with pytest.raises(lt.LoadError, match=r"spec\.d_rows is 1, must be true"):
        validate({**manifest, "spec": {**manifest["spec"], "d_rows": 1}}, "kernel")
    full = {**manifest["arguments"][2], "name": "c", "role": "input"}
    validate({**manifest, "arguments": [*manifest["arguments"], full]}, "kernel")
    amax = {"name": "amax", "role": "output", "kind": "amax", "dtype": "f32", "shape": [1]}
    with pytest.raises(lt.LoadError, match=r"with spec\.d_rows, outputs are full"):
        validate({**manifest, "arguments": [*manifest["arguments"], amax]}, "kernel")


def residual(acc, c: lt.Full):
    return acc + c


def test_an_operand_of_rows_in_order_is_not_replaced_by_a_d_of_rows_at_an_index(install_driver: Any) -> None:
    spec = lt.GemmSpec(n=N, k=K, a="f16", b="f16", d="f16", d_rows=True, epilogue=residual)
    compiled = lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    fake, given = install_driver(Driver(compiled)), operands(out=aligned(M, N))
    with pytest.raises(LaunchError, match=r"overlaps input c, .*; pass another output \[output-overlaps\]"):
        Kernel(compiled.manifest, compiled.ptx)(**given, c=given["out"])
    assert not fake.launches
    arrays = lt.random_inputs(spec, M, N, K, np.random.default_rng(0)) | {"out": aligned(M, N)}
    with pytest.raises(lt.InterpreterError, match=r"\[output-overlaps-input\]"):
        compiled.interpret(**(arrays | {"c": arrays["out"]}))
