"""Kernels of other element types, with other instructions, fragments and stages; of f32 pieces; and with scales."""

from lowtide.compiler.block_scales import BlockScales
from lowtide.elements import WEIGHT_BLOCK, WEIGHT_ROWS
from lowtide.verification.mutation.kernels.kernel import (
    FILL,
    ROLES,
    Kernel,
    Shape,
    bias_relu,
    by_fields,
    parts_of,
    sm80,
    sm90,
    spec_of,
)

BYTES: tuple[Kernel, ...] = (
    sm90(
        "sm90, transposed",
        spec_of("e4m3", layout="nt", d="f32"),
        f"{ROLES}, grid.tile = [64, 32], epilogue.path = smem, a.pack = transposed, b.pack = transposed",
        (130, 40, 150),
        (40, 24, 61),
        parts=(*parts_of(64, 32, 64)[::8], (128, 128, 128)),
    ),
    by_fields(
        "sm_89",
        "sm89, fp8",
        spec_of("e4m3", b="e5m2", d="f32"),
        f"{FILL}, k = 64",
        (75, 47, 208),
        (20, 24, 80),
        parts=parts_of(32, 32, 32)[::4],
    ),
)


# Other element types, with other instructions, fragments and stages; and f32 pieces.
_INT8, _TF32 = spec_of("s8", d="s32", acc="s32"), spec_of("tf32", d="f32")
_PIECES = spec_of("f32", layout="nt", precision="tf32x3")
TYPES: tuple[Kernel, ...] = (
    sm80("sm80-int8", _INT8, f"{FILL}, k = 32", (75, 47, 133), (20, 24, 40), parts=4),
    sm80("sm80-tf32", _TF32, f"{FILL}, k = 16", (75, 47, 70), (20, 24, 20), parts=3),
    sm90(
        "sm90-fp8",
        spec_of("e4m3", d="bf16"),
        "roles = cooperative(1), grid.tile = [64, 32], k = 128, stages = 2",
        (130, 40, 300),
        (40, 24, 61),
        parts=4,
    ),
    sm90(
        "sm90-f32-tf32x3",
        _PIECES,
        "roles = cooperative(1), grid.tile = [64, 32], k = 32, stages = 3",
        (130, 40, 50),
        (40, 24, 9),
        parts=parts_of(64, 32, 16)[::4],
    ),
)


def _whole(shapes: tuple[Shape, ...], rows: int, group: int) -> tuple[Shape, ...]:
    """Shapes with N a multiple of `rows`, as 4-bit weights require, and K of whole groups."""
    return tuple((m, -(-n // rows) * rows, -(-k // group) * group) for m, n, k in shapes)


_BLOCKS = "roles = cooperative(1), grid.tile = [64, 32], k = 128, stages = 2"
_DIRECT = f"{_BLOCKS}, scales = direct"

# Block scales, and weights that are converted.
SCALED: tuple[Kernel, ...] = (
    sm80(
        "sm80-weights",
        spec_of(b="s4", group=64, zero_points=True, epilogue=bias_relu),
        "grid.tile = [16, 64], k = 64, atoms = [1, 4, 1], stages = 3",
        (37, 80, 448),
        (16, 48, 64),
        parts=_whole(parts_of(16, 64, 64)[::4], WEIGHT_ROWS, 64),
    ),
    sm80(
        "sm80, weights of bytes",
        spec_of("f16", b="u8", d="f32"),
        "grid.tile = [32, 64], k = 64, atoms = [2, 2, 1], stages = 2, k_division = split(2)",
        (45, 79, 320),
        (16, 48, 64),
        parts=_whole(parts_of(32, 64, 64)[::5], 1, WEIGHT_BLOCK),
    ),
    sm90(
        "sm90-fp8-blocks",
        spec_of("e4m3", d="f32", block_scales=BlockScales(a=(1, 128), b=(128, 128)), epilogue=bias_relu),
        _DIRECT,
        (130, 72, 600),
        (40, 24, 125),
        parts=4,
    ),
    sm90(
        "sm90-fp8-staged-scales",
        spec_of("e4m3", d="f32", block_scales=BlockScales(a=(1, 128), b=(128, 128)), epilogue=bias_relu),
        f"{_BLOCKS}, scales = staged",
        (130, 72, 600),
        (40, 24, 125),
        (24, 136, 125),
        parts=4,
    ),
    sm90(
        "sm90, scales of rows of B",
        spec_of("e5m2", b="e4m3", d="bf16", d_order="column", block_scales=BlockScales(a=(128, 128), b=(1, 128))),
        _DIRECT,
        (72, 300, 300),
        (24, 40, 125),
        parts=parts_of(32, 64, 128)[::8],
    ),
    sm90(
        "sm90-weights",
        spec_of(b="s4", group=64, zero_points=True, epilogue=bias_relu),
        "roles = cooperative(1), grid.tile = [64, 16], k = 64, stages = 3, operands = swapped, epilogue.path = direct",
        (37, 144, 448),
        (12, 48, 64),
        parts=_whole(parts_of(16, 64, 64)[::4], WEIGHT_ROWS, 64),
    ),
    # Float weights, whose bits are moved and multiplied, with groups and without.
    sm80(
        "sm80, weights of e4m3",
        spec_of(b="e4m3", d="f32", group=64, epilogue=bias_relu),
        "grid.tile = [16, 64], k = 64, atoms = [1, 4, 1], stages = 3",
        (37, 79, 448),
        (16, 48, 64),
        parts=_whole(parts_of(16, 64, 64)[::3], 1, 64),
    ),
    sm90(
        "sm90, weights of e4m3",
        spec_of(b="e4m3", d="f32", epilogue=bias_relu),
        "roles = cooperative(1), grid.tile = [64, 16], k = 64, stages = 3, operands = swapped, epilogue.path = direct",
        (37, 141, 448),
        (12, 48, 64),
        parts=_whole(parts_of(16, 64, 64)[::3], 1, WEIGHT_BLOCK),
    ),
)
