"""The CUlaunchConfig of a launch, and the number of its clusters that fit on a GPU.

Source: CUDA driver API reference 13, "CUlaunchConfig", "cuOccupancyMaxActiveClusters".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lowtide.errors import LaunchError
from lowtide.runtime import driver
from lowtide.runtime.launch_shape import LaunchShape


def launch_config(grid: Sequence[int], shape: LaunchShape, stream: int = 0) -> Any:
    """The CUlaunchConfig of a launch of `grid` CTAs in a stream."""
    cuda = driver.api()
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes = shape.shared_memory
    config.hStream = cuda.CUstream(stream)
    attributes = []
    if shape.cluster:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = shape.cluster
        attributes.append(attribute)
    if shape.programmatic:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if shape.cooperative:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        attributes.append(attribute)
    if attributes:
        config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def resident_clusters(name: str, shape: LaunchShape, function: Any, device: driver.Device) -> int:
    """The number of clusters of a launch that are resident at once if the GPU runs nothing else.

    Raises LaunchError if there are none.
    """
    assert shape.cluster is not None
    config = launch_config(shape.cluster, shape)
    asked = f"asking how many clusters of {shape.kernel} fit on {device.name}"
    count = int(driver.check(driver.api().cuOccupancyMaxActiveClusters(function, config), asked, LaunchError))
    if count < 1:
        raise LaunchError(
            f"kernel {name}: no cluster of {math.prod(shape.cluster)} CTAs fits on {device.name} at once, with"
            f" {shape.shared_memory} bytes of shared memory and {math.prod(shape.block)} threads per CTA; compile it"
            " with a smaller grid.cluster, or [1, 1] [cluster-fits]"
        )
    return count
