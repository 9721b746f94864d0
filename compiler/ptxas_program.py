"""Finds ptxas: in $LOWTIDE_PTXAS, on PATH, or in NVIDIA's wheel (`nvidia-cuda-nvcc`). It is optional, because the
driver assembles PTX too."""

import importlib.util
import os
import shutil
from pathlib import Path

from lowtide.errors import CompileError

ENVIRONMENT_VARIABLE = "LOWTIDE_PTXAS"


def find_ptxas() -> Path | None:
    """The ptxas to use; None if there is none. Raises CompileError if $LOWTIDE_PTXAS does not name a program."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise CompileError(
                f"{ENVIRONMENT_VARIABLE}={named} is not a program; correct it, or unset it [ptxas-program]"
            )
        return Path(found)
    found = shutil.which("ptxas")
    return Path(found) if found is not None else in_wheel("ptxas")


def in_wheel(program: str) -> Path | None:
    """A program in NVIDIA's wheels: in nvidia/cu13/bin, before CUDA 13 in a folder such as nvidia/cuda_nvcc/bin."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(root).glob(f"*/bin/{program}")):
            if os.access(path, os.X_OK):
                return path
    return None
