"""Kernels with several full results: `out=` and what a call returns are dicts by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_arrays import FakeTorch, Tensor, aligned
from fake_driver import FakeDriver, Install
from sample_kernel import argument, kernel_from, sample_manifest

from lowtide.errors import LaunchError
from lowtide.runtime import Kernel

TYPES = ("ptr", "i64", "ptr", "i64", "ptr", "i64", "i32", "i32", "i32", "ptr")
M, N, K = 40, 24, 32


def _kernel(*names: str, dtype: str = "f16") -> Kernel:
    manifest = sample_manifest(*(argument(name, "full", dtype, "output") for name in names), dtype="f16")
    order = ["a", "b", "d", *names]
    manifest["arguments"].sort(key=lambda entry: order.index(entry["name"]))
    return kernel_from(manifest)


def _inputs() -> tuple[Tensor, Tensor]:
    return Tensor(aligned(M, K)), Tensor(aligned(N, K))


@pytest.fixture
def fake(install_driver: Install, torch: FakeTorch) -> FakeDriver:
    return install_driver(FakeDriver(types=TYPES))


def test_a_call_takes_and_returns_arrays_by_name(fake: FakeDriver) -> None:
    kernel, out = _kernel("pre"), {"pre": Tensor(aligned(M, N)), "d": Tensor(aligned(M, N))}
    found = kernel(*_inputs(), out=out)
    assert list(found) == ["d", "pre"] and all(found[name] is out[name] for name in out)
    assert kernel.bind(*_inputs(), out=out)()["pre"] is out["pre"]
    assert [x.values[4] for x in fake.launches] == [out["d"].data_ptr()] * 2
    assert [x.values[9] for x in fake.launches] == [out["pre"].data_ptr()] * 2


def test_results_that_are_not_given_are_allocated_in_their_own_types(fake: FakeDriver, torch: FakeTorch) -> None:
    pre, kernel = Tensor(aligned(M, N, dtype=np.float32)), _kernel("pre", dtype="f32")
    for given in (None, {"pre": pre}, {"pre": pre, "d": None}):
        found = kernel(*_inputs(), out=given)
        assert [x.values[9] for x in fake.launches][-1] == found["pre"].data_ptr()
        assert (found["d"].array.dtype, found["pre"].array.dtype) == (np.float16, np.float32)
        assert found["d"].shape == found["pre"].shape == (M, N)


def test_results_may_be_halves_of_one_matrix(fake: FakeDriver) -> None:
    kernel, whole = _kernel("pre"), aligned(M, 2 * N)
    out = {"d": Tensor(whole[:, :N]), "pre": Tensor(whole[:, N:])}
    kernel(*_inputs(), out=out)
    kernel(*_inputs(), out={"d": out["pre"], "pre": out["d"]})
    assert len(fake.launches) == 2
    wide = aligned(M, 3 * N)
    for first, second in ((wide[:, :N], wide[:, 8 : N + 8]), (wide[:, N : 2 * N], wide[:, 2 * N - 8 : 3 * N - 8])):
        for own, other in ((first, second), (second, first)):
            with pytest.raises(LaunchError, match=r"overlaps output .*\[output-overlaps\]"):
                kernel(*_inputs(), out={"d": Tensor(own), "pre": Tensor(other)})
    with pytest.raises(LaunchError, match=r"\[output-overlaps\]"):  # rows at two distances
        kernel(*_inputs(), out={"d": Tensor(wide[:M, :N]), "pre": Tensor(wide.reshape(-1, N)[1::2][:M])})
    assert len(fake.launches) == 2


def test_outputs_that_the_kernel_does_not_give_are_refused(fake: FakeDriver) -> None:
    kernel, d = _kernel("pre"), Tensor(aligned(M, N))
    with pytest.raises(LaunchError, match=r"out is Tensor, but .* the results d, pre: pass a dict .*\[out-by-name\]"):
        kernel(*_inputs(), out=d)
    with pytest.raises(LaunchError, match=r"out has 'post', but the kernel has the results d, pre: .*\[out-names\]"):
        kernel(*_inputs(), out={"post": d})
    with pytest.raises(LaunchError, match=r"\[output-by-position\]"):
        kernel(*_inputs(), pre=d)
    with pytest.raises(LaunchError, match=r"operand pre: .*\[extents-differ\]"):
        kernel(*_inputs(), out={"pre": Tensor(aligned(M - 8, N)), "d": d})
    assert not fake.launches


def test_a_kernel_whose_only_result_has_a_name_takes_and_returns_a_dict(
    install_driver: Install, torch: FakeTorch
) -> None:
    install_driver(FakeDriver(types=TYPES[:-1]))
    manifest: dict[str, Any] = sample_manifest(dtype="f16")
    text = {"d": "act"}
    for entry in manifest["arguments"]:
        entry["name"] = text.get(entry["name"], entry["name"])
    for op in manifest["host"]:
        op["operands"] = [text.get(name, name) for name in op["operands"]]
        for given in op["attributes"].get("arguments", ()):
            given["value"] = text.get(given["value"], given["value"])
    kernel, act = kernel_from(manifest), Tensor(aligned(M, N))
    assert kernel(*_inputs(), out={"act": act}) == {"act": act}


def test_results_without_elements_launch_nothing(fake: FakeDriver) -> None:
    kernel = _kernel("pre")
    found = kernel(Tensor(aligned(0, K)), Tensor(aligned(N, K)))
    assert found["d"].shape == found["pre"].shape == (0, N) and not fake.launches
