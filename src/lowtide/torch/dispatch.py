"""Detects calls that do not need torch's dispatcher, which takes longer than a launch."""

from collections.abc import Sequence

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_tracing = torch._C._get_tracing_state


def records_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether autograd records an operation on these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def is_transformed() -> bool:
    """Whether a transform of torch.func is active: it takes functions of autograd, not the formulas of an op."""
    return not torch.compiler.is_compiling() and _transforms() is not None


def is_eager(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether an op on these tensors simply computes, and perhaps records a gradient: nothing is compiled, traced,
    transformed or watched by a mode, and no tensor is of a subclass. The caller handles autocast before."""
    if torch.compiler.is_compiling() or _modes() or _transforms() is not None or _tracing() is not None:
        return False
    return all(type(tensor) in _PLAIN for tensor in tensors)
