"""Element types by their names in torch."""

import functools

import torch

from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import LaunchError
from lowtide.runtime.dtypes import LIBRARY_NAMES


@functools.cache
def name_of(dtype: torch.dtype) -> str:
    """The name of a torch dtype. Raises LaunchError for a dtype that kernels do not read, such as complex numbers."""
    name = LIBRARY_NAMES.get(str(dtype).rpartition(".")[2])
    if name is None:
        raise LaunchError(
            f"{dtype} is not an element type of matrices; convert it to one of {', '.join(ELEMENTS)} [torch-dtype]"
        )
    return name


@functools.cache
def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a name."""
    found: torch.dtype = getattr(torch, element_type(name).library)
    return found
