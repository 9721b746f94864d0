"""Kernels of FMA atoms: f32 without tensor cores, on sm_80."""

from case import Case, every_kind, trips
from cases import ATOMS, EPILOGUE, EVERY, LOOP, STAGED
from compiled import spec

F32 = spec(dtype="f32")
ONE_WARP = "atom = fma.m1n1k1, grid.tile = [32, 16], k = 8, atoms = [8, 4, 1], fragment_buffers = 2"
IDLE = ("split-k-slices", "double-buffer-fragments")

CASES = [
    # Stages of A and B transposed by the copies; the whole road.
    Case("simt-tn", f"{ONE_WARP}, stages = 3", ((45, 37, 20), (1, 1, 1)), EVERY, F32),
    # What lies with M and N contiguous is copied 16 bytes at a time; two stages, persistent: three or more tiles a CTA.
    Case(
        "simt-nt",
        f"{ONE_WARP}, stages = 2, scheduler = persistent, grid.ctas_per_sm = 2",
        ((70, 66, 20),),
        (*LOOP, *ATOMS[:2], "tile-to-ctas"),
        spec("nt", dtype="f32"),
    ),
    Case("simt-tt", f"{ONE_WARP}, stages = 3", ((45, 37, 20),), (*ATOMS, "assign-smem-layouts"), spec("tt", "f32")),
    Case("simt-nn", f"{ONE_WARP}, stages = 3", ((45, 37, 20),), (*ATOMS, "assign-smem-layouts"), spec("nn", "f32")),
    Case("simt-four-stages", f"{ONE_WARP}, stages = 4", trips(4, 8), LOOP[:-1], F32),
    # A ring that stays filled from tile to tile: K steps fewer than run ahead, and more.
    Case(
        "simt-prologue-once",
        f"{ONE_WARP}, stages = 4, scheduler = persistent, grid.ctas_per_sm = 2, prologue = once".replace(
            "fragment_buffers = 2", "fragment_buffers = 1"
        ),
        ((70, 66, 10), (70, 34, 40)),
        ("pipeline-mainloop", "convert-sm-to-nvvm"),
        F32,
    ),
    # Loads of 16 bytes along K, through registers, stored element by element into transposed stages.
    Case(
        "simt-staged-tn",
        f"{ONE_WARP}, stages = 3, a.copy = staged.16, b.copy = staged.8",
        trips(3, 8),
        STAGED,
        F32,
    ),
    Case(
        "simt-staged-tt",
        f"{ONE_WARP}, stages = 2, a.copy = staged.16",
        ((45, 37, 20), (32, 40, 8)),
        STAGED,
        spec("tt", "f32"),
    ),
    # 16 × 16 threads in order, each with 2 × 2 elements: a register holds columns of its own.
    Case(
        "simt-in-order",
        "atom = fma.m1n1k1, grid.tile = [32, 32], k = 8, atoms = [16, 16, 1], "
        "atom_order = #tile.layout<(16,16,1):(1,16,256)>, fragment_buffers = 1, stages = 2",
        ((45, 37, 12),),
        (*ATOMS, "lower-epilogue"),
        F32,
        idle=IDLE[1:],
    ),
    # Stages as loaded, K contiguous: slices of four, which a thread loads along K.
    Case(
        "simt-along-k",
        "atom = fma.m1n1k1, grid.tile = [32, 16], k = 8, atoms = [8, 4, 1], permutation = [8, 4, 4], stages = 3, "
        "a.copy = cp.async.16, b.copy = cp.async.16, fragment_buffers = 2",
        ((45, 37, 20),),
        (*LOOP, "bind-mma-atoms"),
        F32,
    ),
    Case(
        "simt-through-shared-memory",
        f"{ONE_WARP}, stages = 2, epilogue.path = smem, epilogue.math = registers",
        ((45, 27, 20),),
        EPILOGUE,
        spec(dtype="f32", d="bf16", epilogue=every_kind),
    ),
    Case(
        "simt-on-rows",
        f"{ONE_WARP}, stages = 2, epilogue.path = smem, epilogue.math = rows",
        ((45, 27, 20),),
        EPILOGUE[1:],
        spec(dtype="f32", epilogue=every_kind),
    ),
    Case(
        "simt-direct",
        f"{ONE_WARP}, stages = 2",
        ((45, 27, 20), (32, 40, 8)),
        EPILOGUE[1:],
        spec(dtype="f32", epilogue=every_kind),
    ),
    # Each part adds a share of two rows and one column per thread: registers of two values, not of four.
    Case(
        "simt-scatter",
        "atom = fma.m1n1k1, grid.tile = [16, 8], k = 8, atoms = [8, 4, 1], permutation = [8, 4, 4], stages = 2, "
        "a.copy = cp.async.16, b.copy = cp.async.8, scheduler = persistent, k_division = scatter(2)",
        ((21, 26, 20),),
        ("convert-sm-to-nvvm",),
        F32,
    ),
]
