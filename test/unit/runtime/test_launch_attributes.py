"""Launches in clusters, and programmatic ones: the attributes that the driver is given."""

from __future__ import annotations

from typing import Any

import pytest
from fake_arrays import InterfaceArray, aligned
from fake_driver import FakeDriver
from sample_kernel import kernel_from, sample_manifest

from lowtide.errors import LaunchError, LoadError
from lowtide.runtime.checks import MatrixView
from lowtide.runtime.serialized import serialized

M, N, K = 40, 24, 32


def arrays() -> tuple[InterfaceArray, InterfaceArray, InterfaceArray]:
    return InterfaceArray(aligned(M, K)), InterfaceArray(aligned(N, K)), InterfaceArray(aligned(M, 32)[:, :N])


def test_a_cluster_is_a_launch_attribute(fake: FakeDriver) -> None:
    given: list[Any] = []

    def launch(config: Any, function: str, pointers: int, extra: int) -> tuple[int]:
        given.append((config, function))
        return (0,)

    fake.cuLaunchKernelEx = launch  # type: ignore[method-assign]
    fake.capability = (9, 0)
    manifest = sample_manifest(dtype="f16", target="sm_90")
    manifest["host"][-1]["attributes"].update(cluster=[16, 1, 1], grid=[32, "ctas", 1])
    a, b, d = arrays()
    launch = kernel_from(manifest).bind(a, b, out=d, stream=9)
    launch()
    launch()
    (config, function), (again, _) = given
    assert function == "gemm_kernel"
    assert (config.gridDimX, config.blockDimX, config.sharedMemBytes, int(config.hStream)) == (32, 128, 49152, 9)
    assert config.attrs[0].value.clusterDim.x == 16
    assert again is config
    assert ("attribute", "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1) in fake.calls


def _in_clusters(counted: str = "gemm_kernel") -> dict[str, Any]:
    """The sample's manifest, launched in as many clusters of two CTAs as are resident at once."""
    manifest = sample_manifest(dtype="f16", target="sm_90")
    count = {"op": "tile.cluster_count", "results": ["most"], "operands": [], "attributes": {"kernel": counted}}
    manifest["host"].insert(-1, count)
    manifest["host"][-1]["attributes"].update(cluster=[2, 1, 1], grid=[2, "most", 1])
    return manifest


def test_the_driver_says_how_many_clusters_are_resident_once_a_context(fake: FakeDriver) -> None:
    fake.capability = (9, 0)
    kernel, (a, b, d) = kernel_from(_in_clusters()), arrays()
    kernel(a, b, out=d)
    kernel(a, b, out=d)
    assert [launch.geometry[:3] for launch in fake.launches] == [(2, 33, 1)] * 2
    assert [call for call in fake.calls if call[0] == "clusters"] == [("clusters", "gemm_kernel", 2, 49152)]


def test_a_gpu_on_which_no_cluster_fits_is_named_before_anything_is_launched(fake: FakeDriver) -> None:
    fake.capability, fake.clusters = (9, 0), 0
    a, b, d = arrays()
    with pytest.raises(
        LaunchError,
        match=r"no cluster of 2 CTAs fits on Fake GPU at once, with 49152 bytes of shared memory and 128 threads per "
        r"CTA; compile it with a smaller grid\.cluster, or \[1, 1\] \[cluster-fits\]",
    ):
        kernel_from(_in_clusters())(a, b, out=d)
    assert not fake.launches


def test_clusters_are_counted_of_a_kernel_that_is_launched_in_clusters() -> None:
    with pytest.raises(
        LoadError, match=r"tile\.cluster_count.*kernel 'other' is not launched in clusters.*\[host-program\]"
    ):
        kernel_from(_in_clusters("other"))
    program = kernel_from(_in_clusters()).program
    assert program.uses_cluster_count
    views = {
        name: MatrixView(256, shape, (shape[1],), 1) for name, shape in (("a", (M, K)), ("b", (N, K)), ("d", (M, N)))
    }
    with pytest.raises(
        LaunchError, match=r"number of resident clusters, which is not given; pass cluster_count=.*\[cluster-count\]"
    ):
        program(views)
    assert program(views, cluster_count=5)[0].grid == (2, 5, 1)


def test_a_programmatic_launch_is_a_launch_attribute(fake: FakeDriver) -> None:
    given: list[Any] = []

    def launch(config: Any, function: str, pointers: int, extra: int) -> tuple[int]:
        given.append(config)
        return (0,)

    fake.cuLaunchKernelEx = launch  # type: ignore[method-assign]
    fake.capability = (9, 0)
    manifest = sample_manifest(dtype="f16", target="sm_90")
    manifest["host"][-1]["attributes"].update(cluster=[2, 1, 1], grid=[32, "ctas", 1], programmatic=True)
    a, b, d = arrays()
    kernel_from(manifest)(a, b, out=d, stream=9)
    cluster, programmatic = given[0].attrs
    assert given[0].numAttrs == 2
    assert cluster.value.clusterDim.x == 2
    assert programmatic.id.name == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert programmatic.value.programmaticStreamSerializationAllowed == 1


def test_a_serialized_kernel_has_the_same_code_and_no_programmatic_launch(fake: FakeDriver) -> None:
    fake.capability = (9, 0)
    manifest = sample_manifest(dtype="f16", target="sm_90")
    manifest["host"][-1]["attributes"]["programmatic"] = True
    manifest["schedule"] = "#tile.schedule<grid = <tile = [128, 128], launch = programmatic>, mainloop = <k = 32>>"
    kernel = kernel_from(manifest)
    waiting = serialized(kernel)
    assert (waiting.ptx, waiting.cubin) == (kernel.ptx, kernel.cubin)
    assert [each.program.launches[0].programmatic for each in (kernel, waiting)] == [True, False]
    assert kernel.manifest["host"][-1]["attributes"]["programmatic"]
    assert waiting.manifest["schedule"] == manifest["schedule"].replace("programmatic", "serialized")
    assert serialized(waiting).manifest == waiting.manifest
