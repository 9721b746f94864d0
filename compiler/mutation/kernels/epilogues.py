"""Kernels of epilogues in several parts, whose full operands are loaded ahead."""

from lowtide.compiler.mutation.kernels.kernel import EVERY, ROLES, Kernel, by_fields, parts_of

EPILOGUES: tuple[Kernel, ...] = (
    by_fields(
        "sm90, operands ahead",
        "sm_90a",
        EVERY,
        f"{ROLES}, grid.tile = [64, 64], epilogue.path = smem, epilogue.math = rows, epilogue.tile = [64, 16], "
        "epilogue.prefetch = 2",
        (130, 72, 150),
        (40, 56, 61),
        parts=parts_of(64, 64, 64)[::8],
    ),
)
