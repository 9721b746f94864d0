"""Runs saved kernels with numpy and cuda-python alone; importing it imports neither cuda-python nor a compiler.

Load a saved kernel and call it on torch or CuPy arrays, or any arrays with DLPack; bind it for repeated launches:

    kernel = lowtide.runtime.load("gemm.lowtide")
    d = kernel(a, b)
    launch = kernel.bind(a, b, out=d)
    launch()
"""

from __future__ import annotations

import os

from lowtide.errors import LoadError
from lowtide.keywords import check_keywords
from lowtide.runtime.bundle import Bundle, load_bundle
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.host_program import HostProgram, LaunchRecord
from lowtide.runtime.kernel import Kernel
from lowtide.runtime.operands import Operand
from lowtide.runtime.plan import Launch
from lowtide.runtime.storage import read, save

__all__ = [
    "Bundle",
    "HostProgram",
    "Kernel",
    "Launch",
    "LaunchRecord",
    "Operand",
    "compile_host",
    "load",
    "load_bundle",
    "save",
]


@check_keywords
def load(path: str | os.PathLike[str]) -> Kernel:
    """The kernel saved in the directory `path`; touches no driver.

    Raises LoadError if it is missing, truncated, damaged, or from another version of the format; the message names the
    file and the entry.
    """
    manifest, ptx, cubin = read(path)
    try:
        return Kernel(manifest, ptx, cubin)
    except LoadError as error:  # an impossible launch, or code of another kernel
        raise LoadError(f"{os.fspath(path)}: {error}") from None
