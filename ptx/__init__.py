"""Kernels in PTX, of any compiler, on a CPU under the rules of the hardware. Needs no MLIR and no GPU.

    import lowtide as lt

    kernel = lt.ptx.load(text)["scale"]
    (y,) = kernel.run(grid=(4,), block=(128,), args=[x, 2.0, 512])        # x: a numpy array, which is not changed
    report = kernel.check(grid=(4,), block=(128,), args=[x, 2.0, 512])    # report.kind: "ok", "race", "deadlock", …

`run` raises the error of a broken rule; `check` reports it, with the lines of the PTX and of the kernel's source.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.ptx.arguments import Bytes, Scratch, TensorMap, Unwritten
    from lowtide.ptx.kernels import Kernel, Module, load
    from lowtide.ptx.kinds import KINDS
    from lowtide.ptx.recorders.driver import record_driver
    from lowtide.ptx.recorders.launch import RecordOptions
    from lowtide.ptx.recorders.tensors import DeviceArray
    from lowtide.ptx.recorders.triton import launch_of_triton, record_triton
    from lowtide.ptx.reports import Place, Report
    from lowtide.ptx.settings import Settings

_HOMES = {
    "arguments": ("Bytes", "Scratch", "TensorMap", "Unwritten"),
    "kernels": ("Kernel", "Module", "load"),
    "kinds": ("KINDS",),
    "recorders.driver": ("record_driver",),
    "recorders.launch": ("RecordOptions",),
    "recorders.tensors": ("DeviceArray",),
    "recorders.triton": ("launch_of_triton", "record_triton"),
    "reports": ("Place", "Report"),
    "settings": ("Settings",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "KINDS",
    "Bytes",
    "DeviceArray",
    "Kernel",
    "Module",
    "Place",
    "RecordOptions",
    "Report",
    "Scratch",
    "Settings",
    "TensorMap",
    "Unwritten",
    "launch_of_triton",
    "load",
    "record_driver",
    "record_triton",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
