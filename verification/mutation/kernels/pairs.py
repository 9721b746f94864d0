"""Kernels of pairs of columns, whose epilogue tells one accumulator from the other, with and without a producer."""

from typing import Any

from lowtide.compiler.epilogue.operands import PerColumn
from lowtide.verification.mutation.kernels.kernel import ROLES, Kernel, parts_of, sm80, sm90, spec_of


def _both(gate: Any, up: Any, bias: PerColumn) -> Any:
    return gate + 2.0 * up + bias


PAIRS: tuple[Kernel, ...] = (
    sm80(
        "sm80-pairs",
        spec_of(pairs="interleaved", epilogue=_both),
        "grid.tile = [32, 64], atoms = [2, 1, 1], grid.ctas_per_sm = 1, stages = 3, k = 32",
        (70, 47, 100),
        (60, 24, 40),
        parts=parts_of(32, 32, 32)[::4],
    ),
    sm90(
        "sm90-pairs",
        spec_of(pairs="stacked", epilogue=_both),
        f"{ROLES}, grid.tile = [128, 48], epilogue.path = tma, epilogue.tile = [64, 8], epilogue.buffers = 2",
        (300, 48, 100),
        (200, 24, 61),
        parts=(*((200, 24, k) for k in range(30, 38)), *((129 + 9 * m, 24, 40) for m in range(8))),
    ),
)
