"""Kernels with a producer and consumers: TMA, mbarriers and wgmma, on sm_90a.

One and two consumer warpgroups; every trip count at which the ring does something else; ragged extents and padded rows;
several work tiles per CTA; operands in panels; epilogues through shared memory and straight from the fragments.
"""

from case import Case, every_kind, trips
from compiled import spec

import lowtide as lt
from lowtide import targets

SM_90A = targets.get("sm_90a")
ONE = "roles = cooperative(1), grid.tile = [64, 32], k = 64, stages = 2"
TWO = "roles = cooperative(2), grid.tile = [128, 64], k = 64, stages = 3"
PANELS = "roles = cooperative(2), grid.tile = [256, 96], k = 32, stages = 2, epilogue.path = direct"
PINGPONG = "roles = pingpong(2), grid.tile = [64, 32], k = 64, stages = 3"
FIRST_ROWS = "roles = cooperative(1), grid.tile = [128, 32], k = 64, stages = 2, epilogue.tile = [64, 16]"
FIRST_ROWS_TWO = "roles = cooperative(2), grid.tile = [256, 16], k = 64, stages = 3, epilogue.tile = [128, 16]"
# Products by warps, which load fragments from the panels that TMA fills
WARPS = "roles = cooperative(1), atom = mma.m16n8k16, atoms = [2, 2, 1], grid.tile = [64, 32], k = 32, stages = 3"
BY_WARPS = (
    "pipeline-mainloop",
    "bind-mma-atoms",
    "split-k-slices",
    "double-buffer-fragments",
    "bind-ring",
    "lower-epilogue",
    *("verify-mbarriers", "convert-sm-to-nvvm"),
)
COPIERS = ("bind-copy-atoms", "bind-ring", "convert-sm-to-nvvm")
EVERY = (
    "tile-to-ctas",
    "promote-operands-to-smem",
    "assign-smem-layouts",
    "pipeline-mainloop",
    "bind-wgmma",
    "bind-ring",
    "lower-epilogue",
    "assign-smem-offsets",
    "convert-sm-to-nvvm",
    "peel-first-loads",
)
VERIFY = ("verify-mbarriers", "verify-registers")
TAIL = "roles = cooperative(1), grid.tile = [128, 32], k = 64, stages = 2, tail = halves, epilogue.path = smem"
TAIL_TWO = "roles = cooperative(2), grid.tile = [256, 32], k = 32, stages = 2, tail = halves, epilogue.path = direct"
OPERANDS = ("assign-smem-layouts", "bind-wgmma", "bind-ring", "convert-sm-to-nvvm")
PLAIN, EVERY_KIND = spec(d="f32"), spec(d="f32", epilogue=every_kind)


def biased(acc, row: lt.PerRow["f32"], column: lt.PerColumn):  # noqa: F821
    return lt.relu(acc + row) + column


def added(acc, x: lt.Full):
    return acc + x


def _case(name: str, problem: lt.GemmSpec, schedule: str, passes: tuple[str, ...] = EVERY) -> Case:
    """A case whose last shape has three rows of three tiles."""
    stages = 2 if "stages = 2" in schedule else 3
    tiles = (172, 76, 70) if "grid.tile = [64, 32]" in schedule else (300, 140, 70)
    return Case(name, schedule, (*trips(stages, 64), tiles), passes, problem, SM_90A)


def _panels(layout: str) -> Case:
    return Case(f"roles-panels-{layout}", PANELS, ((259, 90, 70),), OPERANDS, spec(layout, d="f32"), SM_90A)


def _waves(name: str) -> Case:
    """Three work tiles for each of two CTAs, which keep in step."""
    passes = ("tile-to-ctas", "promote-operands-to-smem", "pipeline-mainloop", "bind-ring", "convert-sm-to-nvvm")
    return Case(name, f"{ONE}, waves = synchronized", ((170, 60, 70),), passes, PLAIN, SM_90A)


def _serpentine(name: str, schedule: str, *shapes: tuple[int, int, int]) -> Case:
    """Three work tiles for each of two CTAs, of which the second takes K from the last step to the first."""
    passes = ("pipeline-mainloop", "bind-wgmma", "bind-ring", "convert-sm-to-nvvm")
    return Case(name, f"{schedule}, k_order = serpentine", shapes, passes, PLAIN, SM_90A)


def _first_rows(name: str, steps: int, schedule: str) -> Case:
    """As many K steps as stages or more, and tiles of two blocks of rows for each consumer."""
    fields = f"{schedule}, epilogue.path = tma, epilogue.start = first_rows"
    passes = ("store-first-rows", "assign-smem-offsets", *VERIFY, "convert-sm-to-nvvm")
    return Case(name, fields, ((300, 72, 64 * steps - 3),), passes, spec(k=64 * steps - 3, epilogue=biased), SM_90A)


CASES = [
    _case("roles-warps", PLAIN, WARPS, BY_WARPS),
    _case("roles-warps-every-kind", EVERY_KIND, f"{WARPS}, fragment_buffers = 1", BY_WARPS[-3:]),
    Case(
        "roles-warps-in-turn",
        WARPS.replace("cooperative(1)", "pingpong(2)"),
        ((300, 60, 70),),
        BY_WARPS,
        spec("nt", d="f32"),
        SM_90A,
    ),
    Case(
        "roles-warps-f64",
        WARPS,
        ((130, 60, 70),),
        ("assign-smem-layouts", *BY_WARPS),
        spec(dtype="f64", d="f64"),
        SM_90A,
    ),
    # The producer's threads copy: both operands, or one beside TMA.
    _case("roles-warps-copiers", PLAIN, f"{WARPS}, a.copy = cp.async.16, b.copy = staged.16", COPIERS),
    _case("roles-warps-copiers-tma", PLAIN, f"{WARPS}, a.copy = tma, b.copy = cp.async.8", COPIERS),
    _case("roles-one", PLAIN, ONE, (*EVERY, *VERIFY, "convert-ptx-ops-to-asm")),
    _case("roles-two", PLAIN, TWO),
    _case("roles-direct", PLAIN, f"{TWO}, epilogue.path = direct"),
    _case("roles-one-every-kind", EVERY_KIND, ONE),
    _case("roles-parts", EVERY_KIND, f"{TWO}, epilogue.tile = [128, 16], order = column"),
    # Producer and consumers walk the same runs of tiles.
    _case("roles-even-split", PLAIN, f"{ONE}, order = groups(2, 2), scheduler = even_split"),
    # Each instance of the consumer has its own scratch.
    _case("roles-pingpong", PLAIN, f"{PINGPONG}, epilogue.tile = [64, 16]"),
    *(_first_rows(f"roles-first-rows-{steps}", steps, FIRST_ROWS) for steps in (2, 3, 5)),
    _first_rows("roles-first-rows-two", 4, FIRST_ROWS_TWO),
    _first_rows("roles-first-rows-tail", 3, f"{FIRST_ROWS}, tail = halves"),
    _first_rows("roles-first-rows-cluster", 3, f"{FIRST_ROWS}, cluster = [2, 1]"),
    _serpentine("roles-serpentine", ONE, *((170, 60, k) for k in (64, 130, 300))),
    _serpentine("roles-serpentine-pingpong", PINGPONG, (170, 60, 200)),
    _serpentine("roles-serpentine-tail", TAIL, (600, 29, 200)),
    # TMA loads the full operand, whose rows are multiples of 16 bytes apart.
    Case(
        "roles-staged-operand",
        "roles = pingpong(2), grid.tile = [64, 64], k = 64, stages = 3, epilogue.path = tma, epilogue.pack = none",
        ((172, 72, 70), (1, 8, 64)),
        ("lower-epilogue", "convert-sm-to-nvvm", "interleave-parts", "verify-mbarriers"),
        spec(epilogue=added),
        SM_90A,
        full_padding=8,
    ),
    # A half tile uses the slots of the whole ones before it.
    Case(
        "roles-staged-operand-tail",
        f"{TAIL.replace('smem', 'tma')}, epilogue.pack = none",
        ((600, 24, 125),),
        ("lower-epilogue", "verify-mbarriers", "convert-sm-to-nvvm"),
        spec(epilogue=added),
        SM_90A,
        full_padding=8,
    ),
    _case("roles-pingpong-every-kind", EVERY_KIND, f"{PINGPONG}, epilogue.tile = [64, 16]", ("lower-epilogue",)),
    _case(
        "roles-programmatic",
        PLAIN,
        f"{ONE}, launch = programmatic",
        ("overlap-launches", "convert-sm-to-nvvm", "peel-first-loads"),
    ),
    Case(
        "roles-split",
        f"{TWO}, k_division = split(3)",
        ((130, 70, 300), (130, 70, 100)),
        (
            "divide-k",
            "pipeline-mainloop",
            "bind-wgmma",
            "bind-ring",
            "lower-epilogue",
            "convert-sm-to-nvvm",
            "peel-first-loads",
        ),
        EVERY_KIND,
        SM_90A,
    ),
    Case(
        "roles-scatter",
        f"{TWO}, k_division = scatter(4)",
        ((130, 70, 300),),
        ("divide-k", "pipeline-mainloop", "bind-wgmma", "lower-epilogue", "convert-sm-to-nvvm"),
        EVERY_KIND,
        SM_90A,
    ),
    # The CTAs of a cluster have the same part of two tiles, of which one may lie past the edge.
    Case(
        "roles-scatter-cluster",
        f"{ONE}, cluster = [2, 1], k_division = scatter(2)",
        ((130, 20, 200),),
        ("divide-k", "bind-ring", "convert-sm-to-nvvm"),
        PLAIN,
        SM_90A,
    ),
    Case(
        "roles-stream-k",
        f"{ONE}, k_division = stream_k, epilogue.path = tma",
        ((130, 40, 300),),
        ("divide-k", "pipeline-mainloop", "lower-epilogue", "convert-sm-to-nvvm"),
        spec(),
        SM_90A,
    ),
    Case(
        "roles-cluster",
        f"{ONE}, cluster = [2, 2], epilogue.path = direct",
        ((23, 29, 61), (150, 70, 5 * 64 - 3)),
        ("tile-to-ctas", "pipeline-mainloop", "bind-ring", "verify-mbarriers", "convert-sm-to-nvvm"),
        PLAIN,
        SM_90A,
    ),
    # 8-bit floats: each K step is summed from zero, and added.
    Case(
        "roles-promoted",
        "roles = cooperative(2), grid.tile = [128, 64], k = 128, stages = 3",
        (*trips(3, 128), (300, 140, 150)),
        EVERY,
        spec(dtype="e4m3", b="e5m2", d="f32", epilogue=every_kind),
        SM_90A,
    ),
    # Scales of blocks in the slots of the ring; of two blocks of columns one is added while the other is multiplied.
    Case(
        "roles-scales",
        "roles = cooperative(1), grid.tile = [64, 96], atom = wgmma.m64n48k32, k = 128, stages = 2, scales = staged",
        ((130, 145, 272),),
        (
            "promote-operands-to-smem",
            "pipeline-mainloop",
            "bind-wgmma",
            "bind-ring",
            "verify-mbarriers",
            "convert-sm-to-nvvm",
        ),
        spec(dtype="e4m3", d="f32", block_scales=lt.BlockScales()),
        SM_90A,
    ),
    # The slot of the next step is read while this one is multiplied; of a tile with one step there is none.
    Case(
        "roles-overlapped",
        "roles = cooperative(2), grid.tile = [128, 48], k = 64, stages = 2, scales = staged, promote = overlapped",
        ((150, 140, 272), (130, 50, 16)),
        ("overlap-promotion",),
        spec(dtype="e4m3", d="f32", block_scales=lt.BlockScales()),
        SM_90A,
    ),
    # The producer's threads copy: for consumers that take turns, for half tiles, and beside scales that TMA loads.
    Case("roles-copiers-in-turn", f"{PINGPONG}, a.copy = cp.async.16", ((300, 60, 140),), COPIERS, PLAIN, SM_90A),
    Case("roles-copiers-tail", f"{TAIL}, b.copy = staged.16", ((600, 29, 125),), COPIERS, PLAIN, SM_90A),
    Case(
        "roles-copiers-scales",
        "roles = cooperative(1), grid.tile = [64, 96], k = 128, stages = 2, scales = staged, a.copy = cp.async.16",
        ((130, 145, 272),),
        COPIERS,
        spec(dtype="e4m3", d="f32", block_scales=lt.BlockScales()),
        SM_90A,
    ),
    _panels("nt"),
    _panels("tn"),
    # Two CTAs take two tiles of five each, and a half of the fifth; of one tile, a half each.
    Case("roles-tail", f"{TAIL}, order = row", ((23, 29, 61), (23, 29, 317), (600, 29, 125)), EVERY, PLAIN, SM_90A),
    _waves("roles-waves"),
    # The second half of the fifth tile lies past the edge. The consumers' blocks of rows are one each.
    Case("roles-tail-nt", TAIL_TWO, ((1100, 24, 40),), OPERANDS, spec("nt", d="f32"), SM_90A),
]
