"""Loads saved code on one GPU: the choice of the code that runs there, and its driver module.

Rules (CUDA C++ Programming Guide, "Compatibility"): a cubin of sm_XY runs on X.Z with Z ≥ Y. PTX of sm_XY is
JIT-compiled on XY and later. An architecture-specific target (sm_90a) runs only on that capability, a family-specific
one (sm_100f) within its major version.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lowtide.errors import DeviceError, LaunchError, LoadError
from lowtide.runtime import driver
from lowtide.runtime.launch_config import resident_clusters
from lowtide.runtime.launch_shape import LaunchShape
from lowtide.runtime.limits import capability_of

_LOG_BYTES = 16384
_PORTABLE_CLUSTER = 8


@dataclass(frozen=True)
class LoadedModule:
    """A module in one context. Functions are driver handles; the module stays loaded until the process ends."""

    context: int
    device: driver.Device
    code: str  # "cubin" or "ptx"
    functions: dict[str, Any]
    clusters: dict[str, int]  # resident at once, for each kernel launched in clusters


def choose_code(target: str, capability: tuple[int, int], has_cubin: bool) -> str | None:
    """ "cubin" or "ptx", whichever runs `target`'s code on `capability`; None if neither does."""
    major, minor, suffix = capability_of(target)
    if suffix == "a":
        runs = binary_runs = capability == (major, minor)
    else:
        binary_runs = capability[0] == major and capability[1] >= minor
        runs = binary_runs if suffix == "f" else capability >= (major, minor)
    if has_cubin and binary_runs:
        return "cubin"
    return "ptx" if runs else None


def architecture_error(name: str, target: str, device: driver.Device) -> LoadError:
    """The error for a kernel of another GPU."""
    major, minor, suffix = capability_of(target)
    limit = {
        "": f"capability {major}.{minor} or later",
        "a": f"capability {major}.{minor} only",
        "f": f"capability {major}.{minor} or later within {major}.x",
    }[suffix]
    here = f"sm_{device.capability[0]}{device.capability[1]}"
    return LoadError(
        f"kernel {name} was compiled for {target}, which runs on {limit}; GPU {device.ordinal} ({device.name}) has"
        f" {device.capability[0]}.{device.capability[1]}: compile it with a target of at most {here}"
        " [kernel-architecture]"
    )


def load_module(
    name: str, target: str, ptx: str, cubin: bytes | None, launches: Iterable[LaunchShape], ordinal: int, context: int
) -> LoadedModule:
    """Load the code into `context`, which is current, and allow its kernels the shared memory that they ask for.

    Raises LoadError if the GPU cannot run the target or the driver refuses the code, DeviceError if a launch needs more
    shared memory than the GPU has, LaunchError if none of its clusters fits.
    """
    device = driver.device(ordinal)
    code = choose_code(target, device.capability, cubin is not None)
    if code is None:
        raise architecture_error(name, target, device)
    shapes = list(launches)
    for shape in shapes:
        _check_shared_memory(name, shape.kernel, shape.shared_memory, device)
    handle = _load_image(name, code, ptx, cubin, device)
    functions = {kernel: _function(name, handle, kernel) for kernel in sorted({shape.kernel for shape in shapes})}
    for kernel, function in functions.items():
        own = [shape for shape in shapes if shape.kernel == kernel]
        _prepare(name, kernel, function, own, device)
    clusters = {
        shape.kernel: resident_clusters(name, shape, functions[shape.kernel], device)
        for shape in shapes
        if shape.cluster
    }
    return LoadedModule(context, device, code, functions, clusters)


def _load_image(name: str, code: str, ptx: str, cubin: bytes | None, device: driver.Device) -> Any:
    cuda = driver.api()
    image = cubin if code == "cubin" and cubin is not None else ptx.encode() + b"\0"
    option = cuda.CUjit_option
    log = bytearray(_LOG_BYTES)
    result = cuda.cuModuleLoadDataEx(
        image, 2, [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES], [log, _LOG_BYTES]
    )
    text = log.split(b"\0")[0].decode(errors="replace").strip()
    what = f"loading the {code} of kernel {name} on {device.name}"
    return driver.check(
        result, f"{what}{f' ({text})' if text else ''}; update the driver or compile it again:", LoadError
    )


def _function(name: str, module: Any, kernel: str) -> Any:
    what = f"finding {kernel!r} in the code of kernel {name} (compile and save it again)"
    return driver.check(driver.api().cuModuleGetFunction(module, kernel.encode()), what, LoadError)


def _check_shared_memory(name: str, kernel: str, wanted: int, device: driver.Device) -> None:
    if wanted > device.shared_memory:
        raise DeviceError(
            f"kernel {name}: {kernel} needs {wanted} bytes of shared memory, {device.name} has at most"
            f" {device.shared_memory} per CTA; compile it with fewer stages or a smaller CTA tile [kernel-smem]"
        )


def _prepare(name: str, kernel: str, function: Any, shapes: list[LaunchShape], device: driver.Device) -> None:
    cuda = driver.api()
    attribute = cuda.CUfunction_attribute
    static = driver.check(
        cuda.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), f"reading {kernel}"
    )
    dynamic = max(shape.shared_memory for shape in shapes)
    _check_shared_memory(name, kernel, int(static) + dynamic, device)
    if dynamic:
        key = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.check(
            cuda.cuFuncSetAttribute(function, key, dynamic), f"giving {kernel} {dynamic} bytes of shared memory"
        )
    if any(
        shape.cluster and shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > _PORTABLE_CLUSTER for shape in shapes
    ):
        key = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        driver.check(cuda.cuFuncSetAttribute(function, key, 1), f"allowing {kernel} a big cluster")
    most = driver.check(
        cuda.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), f"reading {kernel}"
    )
    for shape in shapes:
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        if threads > int(most):
            raise LaunchError(
                f"kernel {name}: {kernel} has {threads} threads per CTA, its registers allow {int(most)} on"
                f" {device.name}; compile it with fewer warps or a smaller CTA tile [kernel-threads]"
            )
