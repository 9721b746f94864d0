"""Kernels without roles: cp.async, ldmatrix and mma.sync, on sm_80."""

from case import SM_90, Case, every_kind, multiplied, scaled, trips
from compiled import spec

import lowtide as lt
from lowtide.dialects.levels import Level
from lowtide.passes.pipeline import REGISTRY, STEPS

# The passes on math ops have tests of their own; those on roles leave these kernels as they are, as is tested; so does
# divide-k where K is not divided, carry-staged-loads where no copy goes through registers, swap-operands where D lies
# row by row. PACKING: test_packing.py; SPLITTING: test_split.py; CLEARING: test_amax.py.
MATH = ("expand-math", "convert-math-to-intrinsics")
WITH_ROLES = (
    "overlap-launches",
    "bind-wgmma",
    "store-first-rows",
    "overlap-promotion",
    "peel-first-loads",
    "interleave-parts",
    "verify-mbarriers",
    "verify-registers",
)
PACKING = ("pack-operands", "launch-preparations")
SPLITTING = ("split-operands", "launch-preparations")
CLEARING = ("launch-preparations",)
OURS = {kind.name for kind in REGISTRY}
EVERY = tuple(
    step.name
    for level, steps in STEPS.items()
    if level <= Level.NVVM
    for step in steps
    if step.name in OURS
    and step.name
    not in (*MATH, *WITH_ROLES, *PACKING, *SPLITTING, *CLEARING, "divide-k", "carry-staged-loads", "swap-operands")
    and step.name not in ("fuse-multiply-adds", "overlap-stores", "spread-copies", "stamp-agents")
)

# The passes that a detail of the K loop, of the fragments, or of the epilogue passes through.
LOOP = ("pipeline-mainloop", "split-k-slices", "double-buffer-fragments", "bind-ring", "convert-sm-to-nvvm")
ATOMS = ("bind-mma-atoms", "bind-copy-atoms", "split-k-slices", "convert-sm-to-nvvm")
EPILOGUE = ("tile-to-ctas", "lower-epilogue", "assign-smem-offsets", "convert-sm-to-nvvm")
RASTER = ("tile-to-ctas", "convert-sm-to-nvvm")
# The passes that see a work item's range of K, or the partial sums of a tile.
# Those that see copies through registers.
STAGED = ("bind-copy-atoms", "carry-staged-loads", "bind-ring", "convert-sm-to-nvvm")
K_RANGES = ("tile-to-ctas", "divide-k", "pipeline-mainloop", "bind-mma-atoms", "lower-epilogue", "convert-sm-to-nvvm")

CASES = [
    Case(
        "tn",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3, pack = none",
        ((70, 45, 40), (1, 1, 1)),
        EVERY,
    ),
    Case("tt", "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3", ((45, 37, 40),), EVERY, spec("tt")),
    Case("nn", "grid.tile = [32, 32], k = 32, atoms = [1, 2, 1], stages = 3", ((45, 37, 40),), EVERY, spec("nn")),
    Case("nt", "grid.tile = [32, 32], k = 32, atoms = [2, 2, 1], stages = 3", ((45, 37, 40),), EVERY, spec("nt")),
    # Operands that lie anywhere: vectors around each run, shifted into place; stores of elements.
    Case(
        "anywhere",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3, a.copy = realigned.16, b.copy = realigned.8, "
        "epilogue.store = 2",
        (*trips(3, 32), (45, 37, 40)),
        (*STAGED, "lower-epilogue"),
        spec("tt"),
        anywhere=True,
    ),
    *(
        Case(
            f"swapped-{layout}",
            "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], stages = 2, scheduler = persistent",
            ((45, 101, 40), (1, 1, 1)),
            ("swap-operands", "tile-to-ctas") if layout == "tt" else ("swap-operands",),
            spec(layout, epilogue=every_kind, d_order="column"),
        )
        for layout in ("tn", "tt", "nn", "nt")
    ),
    Case(
        "multiply-adds",
        "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], stages = 2",
        ((23, 29, 29),),
        ("fuse-multiply-adds",),
        spec(epilogue=multiplied),
    ),
    Case("two-stages", "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], stages = 2", trips(2, 32), LOOP),
    # Where a step of K is one slice there is nothing to split.
    Case(
        "three-stages",
        "grid.tile = [32, 32], k = 16, atoms = [2, 1, 1], stages = 3",
        trips(3, 16),
        LOOP,
        idle=("split-k-slices",),
    ),
    Case(
        "five-stages-one-fragment-buffer",
        "grid.tile = [32, 32], k = 16, atoms = [1, 1, 1], stages = 5, fragment_buffers = 1",
        trips(5, 16),
        LOOP,
        idle=("split-k-slices", "double-buffer-fragments"),
    ),
    Case(
        "two-stages-one-fragment-buffer",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 2, fragment_buffers = 1",
        trips(2, 32),
        LOOP,
        idle=("double-buffer-fragments",),
    ),
    # Copies through registers: alone, and beside cp.async; at every trip count of the loop that carries them.
    Case(
        "staged-two-stages",
        "grid.tile = [32, 32], k = 16, atoms = [2, 1, 1], stages = 2, a.copy = staged.16, b.copy = staged.8",
        trips(2, 16),
        STAGED,
        idle=("split-k-slices",),
    ),
    Case(
        "staged-beside-cp-async",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3, b.copy = staged.4",
        trips(3, 32),
        STAGED,
        spec("nt"),
    ),
    Case(
        "staged-persistent",
        "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], stages = 3, scheduler = persistent, grid.ctas_per_sm = 1, "
        "a.copy = staged.16, b.copy = staged.16, fragment_buffers = 1",
        ((90, 75, 40),),
        STAGED[1:],
        spec("tt"),
    ),
    # At most one CTA fits an SM, and two SMs are at hand: nine work tiles are four or five for each CTA.
    Case(
        "persistent",
        "grid.tile = [32, 32], k = 64, atoms = [1, 1, 1], stages = 12, scheduler = persistent",
        ((70, 90, 100),),
        EVERY,
    ),
    Case(
        "persistent-direct",
        "grid.tile = [32, 32], k = 64, atoms = [2, 1, 1], stages = 12, scheduler = persistent, epilogue.path = direct",
        ((70, 90, 50),),
        (*LOOP, "lower-epilogue"),
    ),
    # The ring stays filled from tile to tile: K steps fewer, as many and more than run ahead.
    Case(
        "prologue-once",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 7, prologue = once",
        ((150, 70, 70), (150, 70, 384), (70, 40, 520)),
        (*LOOP, "lower-epilogue"),
        idle=("double-buffer-fragments",),
    ),
    # B, or A, is loaded once and stays in the ring.
    Case(
        "b-loaded-once",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 4, prologue = once, b.load = once",
        ((500, 30, 250),),
        ("pipeline-mainloop", "bind-ring", "convert-sm-to-nvvm"),
        lt.GemmSpec(m=None, n=30, k=250, a="bf16", b="bf16", d="bf16"),
    ),
    # Eight slots for four K steps: the ring runs ahead by two tiles, and slots share B.
    Case(
        "b-loaded-once-deeper",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 8, prologue = once, b.load = once",
        ((700, 30, 250),),
        ("pipeline-mainloop", "bind-ring", "assign-smem-offsets", "convert-sm-to-nvvm"),
        lt.GemmSpec(m=None, n=30, k=250, a="bf16", b="bf16", d="bf16"),
    ),
    # Each tile is stored among the products of the next one; CTAs have three tiles, or one.
    *(
        Case(
            f"stores-held-{name}",
            "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 7, prologue = once, unroll = full, "
            "epilogue.path = direct, epilogue.start = next_tile",
            ((m, 64, 150),),
            ("overlap-stores", "spread-copies"),
            lt.GemmSpec(m=m, n=64, k=150, a="bf16", b="bf16", d="bf16"),
        )
        for name, m in (("three", 192), ("one", 64))
    ),
    Case(
        "a-loaded-once",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 2, prologue = once, a.load = once",
        ((50, 300, 120),),
        ("pipeline-mainloop", "convert-sm-to-nvvm"),
        lt.GemmSpec(m=50, n=None, k=120, a="bf16", b="bf16", d="bf16"),
    ),
    # A thread holds 16 neighbouring bytes of a row of D in four atoms.
    Case(
        "neighbouring-columns",
        "grid.tile = [32, 64], k = 32, atoms = [1, 2, 1], stages = 2, epilogue.path = direct, "
        "permutation = [16, #tile.layout<(2,4,2,4):(4,8,32,1)>, 16]",
        ((45, 61, 40), (33, 80, 24)),
        ("bind-mma-atoms", "lower-epilogue", "convert-sm-to-nvvm"),
    ),
    # Each CTA stays on one of two columns of tiles, and keeps its part of B.
    Case(
        "b-loaded-once-per-column",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 2, prologue = once, b.load = once, order = row, "
        "epilogue.path = direct",
        ((500, 62, 100),),
        ("pipeline-mainloop", "convert-sm-to-nvvm"),
        lt.GemmSpec(m=None, n=62, k=100, a="bf16", b="bf16", d="bf16"),
    ),
    Case(
        "prologue-once-direct-even-split",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 7, prologue = once, scheduler = even_split, "
        "epilogue.path = direct",
        ((150, 88, 450),),
        ("pipeline-mainloop", "convert-sm-to-nvvm"),
    ),
    Case(
        "prologue-once-sliced-k",
        "grid.tile = [64, 32], k = 64, atoms = [2, 1, 2], stages = 7, prologue = once",
        ((150, 70, 70),),
        ("lower-epilogue", "convert-sm-to-nvvm"),
    ),
    Case(
        "raster-row",
        "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], order = row",
        ((70, 90, 24),),
        RASTER,
    ),
    Case(
        "raster-column",
        "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], order = column",
        ((70, 90, 24),),
        RASTER,
    ),
    Case(
        "raster-grouped",
        "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], order = grouped(2)",
        ((70, 90, 24),),
        RASTER,
    ),
    Case(
        "raster-hilbert",
        "grid.tile = [32, 32], k = 64, atoms = [1, 1, 1], stages = 12, order = hilbert, scheduler = persistent",
        ((150, 90, 24),),
        RASTER,
    ),
    # 5 × 3 tiles in groups of 2 × 2: ragged groups at both edges; over 2 CTAs, runs of 8 and of 7 tiles.
    Case(
        "raster-groups-even-split",
        "grid.tile = [32, 32], k = 64, atoms = [1, 1, 1], stages = 12, order = groups(2, 2), scheduler = even_split",
        ((150, 90, 24),),
        ("tile-to-ctas", "lower-epilogue", "convert-sm-to-nvvm"),
    ),
    # More parts than K steps in the first shape; parts of unequal length in the others.
    Case(
        "split",
        "grid.tile = [32, 32], k = 16, atoms = [2, 1, 1], stages = 3, k_division = split(3)",
        ((45, 37, 24), (45, 37, 16 * 7 + 3)),
        K_RANGES,
        spec(epilogue=every_kind),
    ),
    # Every part adds half of the columns.
    Case(
        "scatter",
        "grid.tile = [32, 64], k = 32, atoms = [2, 1, 1], stages = 3, scheduler = persistent, k_division = scatter(2)",
        ((45, 70, 100),),
        K_RANGES,
        spec(epilogue=every_kind),
    ),
    # Two CTAs, made three: the parts of a tile are items of one round.
    Case(
        "split-persistent",
        "grid.tile = [32, 32], k = 64, atoms = [1, 1, 1], stages = 12, scheduler = persistent, k_division = split(3)",
        ((70, 90, 350),),
        ("tile-to-ctas", "divide-k", "convert-sm-to-nvvm"),
    ),
    Case(
        "stream-k",
        "grid.tile = [32, 32], k = 64, atoms = [1, 2, 1], stages = 9, scheduler = persistent, k_division = stream_k",
        ((70, 40, 300), (20, 20, 64)),
        ("tile-to-ctas", "divide-k", "convert-sm-to-nvvm"),
    ),
    # Five tiles for two CTAs: a wave of whole tiles and three tiles in shares; then as many as fill the waves.
    Case(
        "hybrid",
        "grid.tile = [32, 32], k = 64, atoms = [2, 1, 1], stages = 12, scheduler = persistent, k_division = hybrid, "
        "epilogue.path = direct",
        ((150, 20, 200), (60, 40, 70)),
        ("tile-to-ctas", "divide-k", "convert-sm-to-nvvm"),
    ),
    # Five tiles for two CTAs: two waves of whole tiles, and one in two parts; then fewer tiles than CTAs.
    Case(
        "tail-k",
        "grid.tile = [32, 32], k = 64, atoms = [2, 1, 1], stages = 12, scheduler = persistent, k_division = tail(2), "
        "epilogue.path = direct",
        ((150, 20, 200), (20, 20, 130)),
        ("tile-to-ctas", "divide-k", "convert-sm-to-nvvm"),
    ),
    # The same tiles; both CTAs of the one in two parts store half of its columns.
    Case(
        "scatter-tail",
        "grid.tile = [32, 32], k = 64, atoms = [2, 1, 1], stages = 2, scheduler = persistent, "
        "k_division = scatter_tail(2), epilogue.path = direct",
        ((150, 20, 200),),
        K_RANGES,
        spec(epilogue=every_kind),
    ),
    Case(
        "epilogue-in-registers",
        "grid.tile = [64, 32], k = 32, atoms = [2, 1, 1], epilogue.math = registers, epilogue.tile = [32, 32]",
        ((45, 27, 24), (70, 40, 24)),
        EPILOGUE,
        spec(epilogue=every_kind),
    ),
    Case(
        "epilogue-on-rows",
        "grid.tile = [64, 32], k = 32, atoms = [2, 1, 1], epilogue.math = rows, epilogue.tile = [32, 32]",
        ((45, 27, 24), (70, 40, 24)),
        EPILOGUE,
        spec(epilogue=every_kind),
    ),
    Case(
        "epilogue-direct",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], epilogue.path = direct",
        ((45, 27, 24), (32, 40, 24)),
        EPILOGUE,
        spec(epilogue=every_kind),
    ),
    # The scratch is larger than the ring, so it is a buffer of its own; and persistent, so it is filled again.
    Case(
        "epilogue-beside-the-ring",
        "grid.tile = [64, 64], k = 16, atoms = [2, 2, 1], stages = 2, epilogue.tile = [64, 64], scheduler = persistent",
        ((70, 66, 24),),
        EPILOGUE,
        spec(d="f32"),
    ),
    Case(
        "f16-accumulators",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3",
        ((45, 37, 40),),
        (*ATOMS, "lower-epilogue"),
        spec(dtype="f16", acc="f16"),
    ),
    Case(
        "f16-accumulators-on-rows",
        "grid.tile = [32, 32], k = 32, atoms = [1, 2, 1], stages = 3, epilogue.math = rows",
        ((45, 37, 40),),
        (*ATOMS, "lower-epilogue"),
        spec(dtype="f16", acc="f16", epilogue=every_kind),
    ),
    Case(
        "f32-output",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3",
        ((45, 37, 40),),
        (*ATOMS, "lower-epilogue"),
        spec(dtype="f16", d="f32"),
    ),
    Case(
        "short-atom",
        "grid.tile = [32, 32], k = 16, atoms = [2, 1, 1], atom = mma.m16n8k8, stages = 3",
        ((45, 37, 40),),
        LOOP,
    ),
    Case(
        "narrow-copies",
        "grid.tile = [32, 32], k = 16, atoms = [2, 1, 1], a.copy = cp.async.8, b.copy = cp.async.8, stages = 3",
        ((45, 37, 40),),
        ("bind-copy-atoms", "bind-ring", "convert-sm-to-nvvm"),
    ),
    Case(
        "one-n-atom-a-step",
        "grid.tile = [32, 32], k = 32, atoms = [1, 2, 1], permutation = [16, 16, 16], stages = 3",
        ((45, 37, 40),),
        ATOMS,
    ),
    Case(
        "unswizzled",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], a.swizzle = <0,3,3>, b.swizzle = <1,3,3>, "
        "epilogue.swizzle = <0,3,3>",
        ((45, 37, 40),),
        ("assign-smem-layouts", "lower-epilogue", "convert-sm-to-nvvm"),
    ),
    # Fragments straight from global memory: levels smem and pipelined are as level cta.
    Case(
        "direct",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], a.copy = ld.global.16, b.copy = ld.global.16",
        ((45, 37, 40), (1, 1, 1)),
        ("assign-smem-layouts", "bind-mma-atoms", "bind-copy-atoms", "lower-epilogue", "convert-sm-to-nvvm"),
        spec(epilogue=every_kind),
        idle=("assign-smem-layouts", "bind-copy-atoms"),
    ),
    Case(
        "direct-nt",
        "grid.tile = [32, 32], k = 32, atoms = [1, 2, 1], permutation = [16, 32, 16], a.copy = ld.global.2, "
        "b.copy = ld.global.2, epilogue.path = direct, scheduler = persistent",
        ((45, 37, 40), (70, 90, 24)),
        ("bind-mma-atoms", "split-k-slices", "convert-sm-to-nvvm"),
        spec("nt"),
    ),
    Case(
        "direct-tt-f64",
        "grid.tile = [16, 32], k = 8, atoms = [1, 2, 1], a.copy = ld.global.16, b.copy = ld.global.8",
        ((45, 37, 21),),
        ("bind-mma-atoms", "convert-sm-to-nvvm"),
        spec("tt", dtype="f64", d="f64", acc="f64"),
    ),
    # Warps along K, whose sums meet in shared memory.
    Case(
        "sliced-k",
        "grid.tile = [32, 32], k = 64, atoms = [1, 1, 2], stages = 3",
        ((45, 37, 140), (20, 30, 300)),
        ("bind-mma-atoms", "split-k-slices", "double-buffer-fragments", "lower-epilogue", "convert-sm-to-nvvm"),
        spec(epilogue=every_kind),
    ),
    Case(
        "sliced-k-of-four",
        "grid.tile = [32, 32], k = 64, atoms = [1, 2, 4], stages = 2, scheduler = persistent, epilogue.tile = [32, 32]",
        ((70, 90, 72),),
        ("bind-mma-atoms", "lower-epilogue", "assign-smem-offsets", "convert-sm-to-nvvm"),
        spec("nt"),
    ),
    Case(
        "sliced-k-f64",
        "grid.tile = [32, 32], k = 16, atoms = [2, 1, 2], stages = 3",
        ((45, 37, 21),),
        ("bind-mma-atoms", "lower-epilogue", "convert-sm-to-nvvm"),
        spec(dtype="f64", d="f64", acc="f64"),
    ),
    # f64: no ldmatrix. With K contiguous in an operand its order is permuted, for 16-byte loads; else loads are of 8.
    Case(
        "f64",
        "grid.tile = [32, 32], k = 16, atoms = [2, 2, 1], stages = 3",
        ((45, 37, 21), (1, 1, 1)),
        ("bind-mma-atoms", "split-k-slices", "double-buffer-fragments", "lower-epilogue", "convert-sm-to-nvvm"),
        spec(dtype="f64", d="f64", acc="f64", epilogue=scaled),
    ),
    Case(
        "f64-nt",
        "grid.tile = [32, 32], k = 8, atoms = [2, 1, 1], stages = 2, epilogue.path = direct",
        ((45, 37, 21),),
        ("bind-mma-atoms", "convert-sm-to-nvvm"),
        spec("nt", dtype="f64", d="f64", acc="f64"),
    ),
    Case(
        "f64-large-shapes",
        "grid.tile = [32, 32], k = 16, atoms = [1, 2, 1], atom = mma.m16n8k16, stages = 3",
        ((45, 37, 40),),
        ("bind-mma-atoms", "convert-sm-to-nvvm"),
        spec("tt", dtype="f64", d="f64", acc="f64"),
        SM_90,
    ),
    # With rows contiguous, neighbouring rows go to one thread.
    Case(
        "f64-pairs-of-rows",
        "grid.tile = [32, 64], k = 8, atoms = [2, 2, 1], stages = 2",
        ((45, 70, 20),),
        ("bind-mma-atoms", "lower-epilogue", "convert-sm-to-nvvm"),
        spec("nt", dtype="f64", d="f64", acc="f64"),
        SM_90,
    ),
    Case(
        "f64-short-shapes",
        "grid.tile = [32, 32], k = 16, atoms = [2, 2, 1], atom = mma.m16n8k4, stages = 3, fragment_buffers = 1",
        ((45, 37, 24),),
        ("split-k-slices", "convert-sm-to-nvvm"),
        spec("nn", dtype="f64", d="f64", acc="f64"),
        SM_90,
    ),
    Case(
        "static-extents",
        "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3",
        ((45, 37, 40),),
        EVERY,
        spec(m=45, n=37, k=40),
    ),
]
