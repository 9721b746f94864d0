"""Epilogue operands may have any name: what a manifest names by itself takes others."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime import compile_host
from lowtide.runtime.epilogue import evaluate


def of_the_program(acc, x: lt.PerRow, e0: lt.PerColumn, e1: lt.Full, x0: lt.Scalar):
    return (acc * x + e0) * e1 - x0


def of_the_host_function(acc, v9: lt.Scalar, v10: lt.Scalar, v30: lt.PerRow):
    return acc * v9 + v10 * v30


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_saved_kernel_is_checked_by_its_own_epilogue(target: str) -> None:
    spec = lt.GemmSpec(a="f16", b="f16", d="f32", epilogue=of_the_program)
    kernel = lt.compile_gemm(spec, target=target, schedule="grid.tile = [64, 32]")
    program = kernel.manifest["epilogue_program"]
    names = [program["accumulator"], *(result for op in program["ops"] for result in op["results"])]
    assert len({*names, "x", "e0", "e1", "x0"}) == len(names) + 4
    sums, rows, columns, full = np.full((2, 2), 3.0), np.array([[2.0], [4.0]]), np.array([5.0, 6.0]), np.eye(2) + 1
    operands = {"x": rows, "e0": columns, "e1": full, "x0": 0.5}
    (value, low, high), _ = evaluate(program, (sums, sums, sums), operands, "f32")
    assert np.array_equal(value, (sums * rows + columns) * full - 0.5)
    assert (low <= value).all() and (value <= high).all()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_host_function_takes_scalars_of_any_name(target: str) -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(a="f16", b="f16", d="f32", epilogue=of_the_host_function), target=target)
    results = [result for op in kernel.manifest["host"] for result in op.get("results", ())]
    assert {"v9", "v10", "v30"}.isdisjoint(results)
    compile_host(kernel.manifest)  # refuses a name that is defined twice
