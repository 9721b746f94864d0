"""Scales of rows of A and of columns of B, as an epilogue: scale_a · scale_b · (A · B), then the epilogue of the call.

The scales of A are those of this rank's rows, and are gathered as A is: by the group's own collective, 4 bytes a row,
before the kernel begins. So they add no error: D has the bound of a product of one GPU with this epilogue.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from lowtide.compiler.epilogue.operands import OperandKind, OperandType
from lowtide.compiler.epilogue.signatures import operand_types, parameters_of

SCALE_A, SCALE_B = "scale_a", "scale_b"
_KINDS = {SCALE_A: OperandType(OperandKind.PER_ROW, "f32"), SCALE_B: OperandType(OperandKind.PER_COLUMN, "f32")}


def with_scales(
    epilogue: Callable[..., Any] | None, operands: Mapping[str, Any], scales: Mapping[str, torch.Tensor | None]
) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """The epilogue with the scales that are not None, and its operands by name, with these scales."""
    given = {name: scale for name, scale in scales.items() if scale is not None}
    if not given:
        return epilogue, dict(operands)
    return _scaled(epilogue, tuple(given)), {**given, **operands}


@functools.lru_cache(maxsize=1024)
def _scaled(then: Callable[..., Any] | None, names: tuple[str, ...]) -> Callable[..., Any]:
    def scaled(acc: Any, *given: Any, **more: Any) -> Any:
        value = acc
        for scale in given[: len(names)]:
            value = value * scale
        return value if then is None else then(value, *given[len(names) :], **more)

    types = operand_types(then)
    others = [] if then is None else [each.replace(annotation=types[each.name]) for each in parameters_of(then)[1:]]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    scales = [inspect.Parameter(name, kind, annotation=_KINDS[name]) for name in names]
    scaled.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("acc", kind), *scales, *others]
    )
    return scaled
