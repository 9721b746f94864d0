"""Operands that the host function must refuse: their extents disagree, or the kernel does not support them.

The interpreter itself checks operands if a module has its problem. Here the problem is removed, so that only the
assertions of the host function can refuse wrong operands.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.compiler.dtypes import numpy_dtype
from lowtide.errors import Error
from lowtide.interpreter import Loaded, interpret
from lowtide.verification.checking import interpretation
from lowtide.verification.mutation.kernels import Kernel

_MATRICES = 2  # in a batch
_MORE = 8  # added to an extent: rows remain multiples of 16 bytes
_PROBLEM = re.compile(r" attributes \{tile\.problem = #problem\}")
_PLACE = re.compile(r"loc\([^)]*\):? ?")

Inputs = Mapping[str, Any]


def accepted_wrongly(kernel: Kernel, text: str, original: str) -> str:
    """The operands that a level's text accepts, or refuses for another reason, although the original refuses them; ""
    if there are none."""
    if text.partition("gpu.module")[0] == original.partition("gpu.module")[0]:
        return ""
    one, other = (Loaded(_PROBLEM.sub("", each)) for each in (original, text))
    for what, inputs in _wrong(kernel):
        right = _refusal(one, inputs)
        if right and _refusal(other, inputs) != right:
            return f"accepts {what}, which the kernel refuses: {right}"
    return ""


def _refusal(loaded: Loaded, inputs: Inputs) -> str:
    """Why operands are refused, without locations; "" if they are accepted."""
    try:
        interpret(loaded, inputs, sms=1, domain="exact")
    except Error as error:
        return _PLACE.sub("", str(error))
    return ""


def _wrong(kernel: Kernel) -> Iterator[tuple[str, Inputs]]:
    """Operands with one extent that is too large; then shapes that only some kernels support."""
    m, n, k = kernel.trials[0].shape
    given, larger = (_operands(kernel, (m + more, n + more, k + more), _MATRICES + more) for more in (0, _MORE))
    for name, value in given.items():
        for axis, extent in enumerate(getattr(value, "shape", ())):
            keep = tuple(slice(None) if at == axis else slice(size) for at, size in enumerate(value.shape))
            yield (
                f"{name} with {extent + _MORE} in place of {extent} along axis {axis}",
                given | {name: larger[name][keep]},
            )
    for shape in ((m, n + 1, k), (m, n, k + 1), (m, n, 1)):
        yield "x".join(map(str, shape)), _operands(kernel, shape)


def _operands(kernel: Kernel, shape: tuple[int, int, int], matrices: int = _MATRICES) -> dict[str, Any]:
    """The operands in the order of the host function's arguments, with D; also for extents that the kernel does not
    support."""
    batch = interpretation.Batch(matrices) if kernel.spec.is_batched else None
    spec = replace(kernel.spec, m=None, n=None, k=None)
    inputs = interpretation.inputs_for(spec, shape, "exact", 0, interpretation.Placement(batch=batch))
    rows, columns = shape[:2] if kernel.spec.d_order == "row" else shape[1::-1]
    outer = interpretation.batch_of(kernel.spec, batch)
    d = np.zeros((*outer, rows, -(-columns // 8) * 8), numpy_dtype(kernel.spec.d))[..., :columns]
    rest = {name: value for name, value in inputs.items() if name not in ("a", "b")}
    return {"a": inputs["a"], "b": inputs["b"], "d": d, **rest}
