"""Kernels with epilogues in several parts, full operands loaded ahead, or an amax."""

from typing import Any

from lowtide.compiler.epilogue.functions import maximum
from lowtide.compiler.epilogue.operands import Full
from lowtide.verification.mutation.kernels.kernel import EVERY, ROLES, Kernel, sm90, spec_of


def _larger_outside(acc: Any, c: Full) -> Any:
    """|acc| + 50 |c| - 1000: elements past an edge, computed from zeros, have the largest absolute value."""
    return maximum(acc, -acc) + 50.0 * maximum(c, -c) - 1000.0


EPILOGUES: tuple[Kernel, ...] = (
    sm90(
        "sm90, operands ahead",
        EVERY,
        f"{ROLES}, grid.tile = [64, 64], epilogue.path = smem, epilogue.math = rows, epilogue.tile = [64, 16], "
        "epilogue.prefetch = 2",
        (130, 72, 150),
        (40, 56, 61),
        parts=8,
    ),
    # Few elements, so that no inside element is computed from zeros; four per thread, each the largest in some run.
    sm90(
        "sm90-amax",
        spec_of(d="f32", epilogue=_larger_outside, amax=True),
        f"{ROLES}, grid.tile = [64, 8], epilogue.path = direct",
        (70, 20, 150),
        parts=(*((9 + 9 * n % 64, n, 84 + n) for n in range(1, 9)), *((16, 8, k) for k in range(60, 68)), (65, 1, 61)),
    ),
)
