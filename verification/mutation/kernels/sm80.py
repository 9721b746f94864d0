"""Kernels of sm_80: the default schedule and the families of its presets."""

from lowtide.verification.mutation.kernels.kernel import (
    BIAS,
    BIAS_NT,
    EVERY,
    F32,
    F64,
    FILL,
    PLAIN,
    SIX_TILES,
    THREADS,
    Kernel,
    parts_of,
    rows_of,
    sm80,
    small,
)

SM80: tuple[Kernel, ...] = (
    sm80(
        "sm_80, default",
        EVERY,
        "order = grouped(8)",
        (140, 300, 133),
        parts=(*parts_of(128, 256, 64)[1:80:20], *rows_of(128, 8)),
    ),
    small("sm80-direct", BIAS, (75, 47, 79), (20, 24, 40)),
    small("sm80-two-stages", BIAS, (75, 47, 133), (20, 24, 40)),
    small("sm80-double-buffered", BIAS_NT, (75, 47, 133), (20, 24, 40)),
    small("sm80-smem-epilogue", EVERY, (75, 47, 133), (20, 24, 40)),
    small("sm80-rasterized", PLAIN, (70, 103, 133), (20, 24, 40), order="grouped(2)"),
    small("sm80-persistent", BIAS, (100, 47, 200), (20, 24, 40)),
    small("sm80-filled-ring", BIAS, (100, 47, 133), (20, 40, 40), epilogue_tile=(32, 32)),
    small("sm80-split-k", EVERY, (75, 47, 300), (20, 24, 40), k_division="split(3)"),
    small("sm80-sliced-k", BIAS, (75, 47, 140), (20, 24, 40), atoms=(1, 1, 2)),
    small("sm80-f64", F64, (75, 37, 43), (20, 30, 16), k=16, atoms=(2, 2, 1), stages=3),
    sm80(
        "sm80, scatter",
        EVERY,
        "grid.tile = [32, 64], atoms = [2, 1, 1], stages = 3, k = 32,  scheduler = persistent, k_division = scatter(4)",
        (75, 79, 200),
        parts=parts_of(32, 64, 32, 96),
    ),
    sm80("sm80, stream-K", PLAIN, f"{FILL}, k = 32, scheduler = persistent, k_division = stream_k", (75, 47, 200)),
    sm80(
        "sm80, staged copies",
        BIAS,
        f"{FILL}, k = 16, a.copy = staged.16, b.copy = staged.8",
        (75, 47, 90),
        (20, 12, 16),
    ),
    sm80(
        "sm80, tiles held",
        SIX_TILES,
        "grid.tile = [64, 32], order = row, k = 64, atoms = [2, 1, 1], stages = 6, prologue = once, unroll = full, "
        "b.load = once, epilogue.path = direct, epilogue.start = next_tile",
        (384, 32, 192),
        parts=(),
    ),
    sm80("sm80-simt", F32, f"{THREADS}, fragment_buffers = 2", (75, 39, 37), (20, 12, 16)),
    sm80(
        "sm80-simt-staged",
        F32,
        f"{THREADS}, a.copy = staged.16, b.copy = staged.8, fragment_buffers = 1",
        (75, 39, 37),
        (20, 12, 16),
    ),
)
