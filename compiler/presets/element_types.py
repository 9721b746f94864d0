"""Operands other than 16-bit floats: f64, tf32, f32 in pieces, 8-bit integers and floats, packed weights."""

from types import MappingProxyType

from lowtide.compiler.block_scales import BlockScales
from lowtide.dialects.tile.schedule import Schedule

_F64 = Schedule().with_(k=16, stages=4, order="grouped(8)")
SM80_F64 = {
    "sm80-f64": (
        "mma.m8n8k4 of f64, operands by 16-byte loads without ldmatrix",
        _F64.with_(grid_tile=(128, 64), atoms=(2, 2, 1)),
    ),
}
SM90A_F64 = {
    "sm90-f64": (
        "the larger mma.sync of f64, eight warps on a tile twice as wide",
        _F64.with_(grid_tile=(128, 128), atoms=(4, 2, 1)),
    ),
    "sm90-f64-tma": (
        "a producer that loads by TMA; rows and K in an order in which warps load fragments without bank conflicts",
        _F64.with_(
            grid_tile=(128, 64), roles="cooperative(2)", scheduler="persistent", atom="mma.m16n8k16", atoms=(4, 2, 1)
        ),
    ),
    "sm90-f64-best": ("everything chosen for the shape", Schedule()),
}

SM80_TF32 = {
    "sm80-tf32": (
        "mma.m16n8k8 of tf32, operands by loads of pairs along K",
        Schedule().with_(grid_tile=(128, 128), order="grouped(8)", k=32, stages=3, atom="mma.m16n8k8", atoms=(2, 2, 1)),
    ),
}
SM90A_TF32 = {
    "sm90-tf32": (
        "wgmma of tf32, K steps of 32",
        Schedule().with_(
            grid_tile=(128, 256), order="grouped(16)", scheduler="persistent", k=32, stages=4, roles="cooperative(2)"
        ),
    ),
    "sm90-tf32-best": ("everything chosen for the shape", Schedule()),
}

_PIECES = Schedule().with_(
    grid_tile=(256, 128),
    k=64,
    roles="cooperative(2)",
    scheduler="persistent",
    launch="programmatic",
    order="grouped(8)",
)
SM90A_TF32X3 = {"sm90-f32-tf32x3": ("f32 as three products of tf32 pieces, summed in registers", _PIECES)}
SM90A_BF16X6 = {"sm90-f32-bf16x6": ("f32 as six products of bf16 pieces, summed in registers", _PIECES.with_(k=128))}

BYTES = ("s8", "u8")
SM80_INT8 = {
    "sm80-int8": (
        "mma.m16n8k32 of bytes, loaded in pairs by ldmatrix",
        Schedule().with_(
            grid_tile=(128, 128), order="grouped(8)", k=64, stages=4, atom="mma.m16n8k32", atoms=(2, 2, 1)
        ),
    ),
}
SM90A_INT8 = {
    "sm90-int8": (
        "wgmma of bytes, K steps of 128 bytes, D by TMA",
        Schedule().with_(
            grid_tile=(128, 256), order="grouped(16)", scheduler="persistent", k=128, stages=4, roles="cooperative(2)"
        ),
    ),
    "sm90-int8-best": ("everything chosen for the shape", Schedule()),
}

WEIGHTS = MappingProxyType({"b": "s4", "group": 128})
SM80_WEIGHTS = {
    "sm80-weights": (
        "packed weights, converted on their way from shared memory to mma.sync: few rows of A, 16 columns per warp",
        Schedule().with_(grid_tile=(16, 128), k=128, stages=4, atoms=(1, 8, 1), epilogue_path="direct"),
    ),
}

SM90A_WEIGHTS = {
    "sm90-weights": (
        "packed weights as A of the transpose of D, converted in registers of wgmma: up to 64 rows of A at a time",
        Schedule().with_(
            grid_tile=(256, 64),
            k=128,
            roles="cooperative(2)",
            scheduler="persistent",
            order="row",
            operands="swapped",
            epilogue_path="direct",
        ),
    ),
}

SM89_FP8 = {
    "sm89-fp8": (
        "mma.m16n8k32 of 8-bit floats; sums of 64 products are added in registers unless sums are fast",
        Schedule().with_(
            grid_tile=(128, 128), order="grouped(8)", k=64, stages=4, atom="mma.m16n8k32", atoms=(2, 4, 1)
        ),
    ),
}

_FP8 = Schedule().with_(
    k=128, roles="cooperative(2)", scheduler="persistent", launch="programmatic", order="grouped(16)"
)
SM90A_FP8 = {
    "sm90-fp8": (
        "wgmma m64n192k32 of 8-bit floats; sums of 128 products are added in registers unless sums are fast",
        _FP8.with_(grid_tile=(128, 192)),
    ),
    "sm90-fp8-tall": (
        "tiles of 256 rows: two blocks of 64 per consumer, added one block after the other",
        _FP8.with_(grid_tile=(256, 128), order="grouped(8)"),
    ),
    "sm90-fp8-best": ("everything chosen for the shape", Schedule()),
}
SM90A_FP8_BLOCKS = {
    "sm90-fp8-blocks": (
        "block scales of 8-bit floats: promotion multiplies the sum of each 128 of K by them",
        _FP8.with_(grid_tile=(128, 192), scales="direct"),
    ),
    "sm90-fp8-staged-scales": (
        "scales through the ring of stages; two wgmmas of 96 columns: one multiplies while the other is added",
        _FP8.with_(grid_tile=(128, 192), atom="wgmma.m64n96k32", promote="per_step", scales="staged"),
    ),
}
SM90A_FP8_SCATTER_TAIL = {
    "sm90-fp8-scatter-tail": (
        "tiles of a last wave in three parts of K; each CTA adds and stores a share of the columns; scales are read a "
        "K step ahead",
        _FP8.with_(
            grid_tile=(128, 192),
            atom="wgmma.m64n192k32",
            promote="overlapped",
            scales="staged",
            k_division="scatter_tail(3)",
        ),
    ),
}
SCALED = {"block_scales": BlockScales()}
SCALED_TO_BF16 = {**SCALED, "d": "bf16"}
