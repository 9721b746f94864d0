"""16-bit operands by mma.sync, from sm_80 on."""

from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule

_SM80 = Schedule().with_(grid_tile=(128, 128), k=32, atoms=(2, 2, 1))
_DIRECT = _SM80.with_(epilogue_path="direct", order="row")
BANDS = _SM80.with_(order="grouped(8)")

SM80 = {
    "sm80-direct": (
        "mma.sync on fragments loaded from global memory, without shared memory",
        _DIRECT.with_(atoms=(2, 4, 1), a_copy="ld.global.16", b_copy="ld.global.16"),
    ),
    "sm80-two-stages": (
        "cp.async, ldmatrix and mma.sync, two stages in shared memory without a swizzle",
        _DIRECT.with_(stages=2, fragment_buffers=1, a_swizzle=NO_SWIZZLE, b_swizzle=NO_SWIZZLE),
    ),
    "sm80-swizzled": ("swizzles without bank conflicts", _DIRECT.with_(stages=2, fragment_buffers=1)),
    "sm80-three-stages": ("a third stage", _DIRECT.with_(stages=3, fragment_buffers=1)),
    "sm80-double-buffered": ("fragments loaded one k-slice ahead", _DIRECT.with_(stages=3)),
    "sm80-smem-epilogue": ("stores of whole rows, through shared memory", _SM80.with_(stages=3, order="row")),
    "sm80-rasterized": ("work tiles in bands of eight rows, for L2", BANDS.with_(stages=3)),
    "sm80-five-stages": ("two more stages", BANDS.with_(stages=5)),
    "sm80-persistent": (
        "one stage less; CTAs that compute many tiles",
        BANDS.with_(stages=4, scheduler="persistent"),
    ),
    "sm80-filled-ring": (
        "the next tile's first copies in flight while this one is stored; fragments loaded when they are needed",
        BANDS.with_(stages=3, scheduler="persistent", prologue="once", epilogue_tile=(64, 128)),
    ),
    "sm80-split-k": (
        "eight warps; K in four parts; one CTA adds the partial sums: for few tiles and a long K",
        BANDS.with_(stages=4, atoms=(2, 4, 1), k_division="split(4)"),
    ),
    "sm80-sliced-k": (
        "one tile per CTA again, for eight warps: two along K share each element",
        BANDS.with_(atoms=(2, 2, 2), stages=4),
    ),
    "sm80-unaligned": (
        "unaligned operands: copies through registers and stores of single elements, neighbours by neighbours",
        BANDS.with_(atoms=(2, 4, 1), stages=3, a_copy="staged.2", b_copy="staged.2", epilogue_store=2),
    ),
    "sm80-large-tile": (
        "a tile twice as wide and deep, eight warps, one tile per CTA",
        Schedule().with_(grid_tile=(128, 256), k=64, atoms=(2, 4, 1), stages=3, order="grouped(8)"),
    ),
    "sm80-best": ("everything chosen for the shape", Schedule()),
}
