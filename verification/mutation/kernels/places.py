"""Kernels of unaligned matrices: odd rows, D by columns, batches; and of few rows."""

from lowtide.verification.mutation.kernels.kernel import (
    BIAS,
    BIAS_NT,
    FILL,
    ROLES,
    Kernel,
    bias_relu,
    every_kind,
    parts_of,
    sm80,
    sm90,
    small,
    spec_of,
)

_PACKED = "a.pack = rows, b.pack = rows, epilogue.pack = rows"
_OF_BATCH = spec_of(batch=None, epilogue=every_kind)

PLACES: tuple[Kernel, ...] = (
    sm80(
        "sm80, D by columns",
        spec_of(layout="tt", d_order="column", epilogue=every_kind),
        f"{FILL}, k = 32",
        (75, 47, 133),
        parts=3,
    ),
    small("sm80-unaligned", BIAS, (75, 47, 133), (20, 24, 40), a_copy="realigned.16"),
    sm80("sm80, packed", BIAS, f"{FILL}, k = 32, {_PACKED}", (75, 47, 133), (20, 24, 40), parts=4),
    sm80(
        "sm80, copies by elements",
        BIAS_NT,
        f"{FILL}, k = 16, a.copy = staged.2, b.copy = staged.2, epilogue.store = 2",
        (75, 47, 90),
        (20, 12, 16),
        parts=4,
    ),
    sm80("sm80, batch", _OF_BATCH, f"{FILL}, k = 32, scheduler = persistent", (75, 47, 100), (20, 24, 40), parts=4),
    sm80(
        "sm80, packed batch",
        _OF_BATCH,
        f"{FILL}, k = 32, scheduler = persistent, {_PACKED}",
        (40, 47, 75),
        (20, 24, 40),
        parts=8,
    ),
    sm80(
        "sm80, batch, stream-K",
        spec_of(batch=None),
        f"{FILL}, k = 32, scheduler = persistent, k_division = stream_k",
        (40, 47, 200),
        (20, 24, 100),
        parts=4,
    ),
    sm90(
        "sm90-packed-rows",
        BIAS,
        f"{ROLES}, grid.tile = [64, 32], epilogue.path = tma, epilogue.tile = [64, 32], {_PACKED}",
        (130, 41, 150),
        (40, 24, 61),
        parts=4,
    ),
    sm90(
        "sm90-unaligned",
        BIAS,
        "roles = cooperative(1), k = 32, stages = 3, grid.tile = [64, 32], a.copy = realigned.16, "
        "b.copy = realigned.16, epilogue.path = smem, epilogue.store = 2",
        (130, 41, 150),
        (40, 20, 61),
        parts=4,
    ),
    sm90(
        "sm90, batch",
        _OF_BATCH,
        f"{ROLES}, grid.tile = [64, 32], epilogue.path = smem",
        (130, 41, 150),
        (40, 20, 61),
        parts=4,
    ),
    sm90(
        "sm90, batch by TMA",
        spec_of(batch=None, epilogue=bias_relu),
        f"{ROLES}, grid.tile = [64, 32], epilogue.path = tma, epilogue.tile = [64, 32], cluster = [2, 1]",
        (130, 40, 150),
        (40, 24, 61),
        parts=parts_of(64, 32, 64, columns=8),
    ),
    sm90(
        "sm90, D by columns",
        spec_of(layout="nn", d_order="column", epilogue=every_kind),
        f"{ROLES}, grid.tile = [64, 32], epilogue.path = smem",
        (40, 130, 150),
        (20, 40, 61),
        parts=4,
    ),
    sm80(
        "sm80-few-rows",
        spec_of(layout="nt", epilogue=every_kind),
        f"{FILL}, k = 32, operands = swapped, epilogue.path = direct",
        (47, 75, 133),
        (24, 20, 40),
        parts=3,
    ),
    sm90(
        "sm90-few-rows",
        BIAS,
        f"{ROLES}, grid.tile = [64, 16], operands = swapped, epilogue.path = direct, k_division = split(2)",
        (25, 130, 150),
        (12, 40, 61),
        parts=2,
    ),
)
