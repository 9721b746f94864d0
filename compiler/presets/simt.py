"""f32 without tensor cores: from one thread for each element to warp tiles and copies through registers."""

from tensor_layouts import Layout

from lowtide.dialects.tile.schedule import Schedule
from lowtide.targets.atoms import FMA

# Layouts of 16 × 16 threads: in order, and as 2 × 4 warps of 8 × 4 threads.
_IN_ORDER = Layout((16, 16, 1), (1, 16, 256))
_IN_WARPS = Layout(((8, 2), (4, 4), 1), ((1, 32), (8, 64), 256))
# In a piece of 64 rows or columns each thread holds four neighbours; in a whole warp tile of 64 × 32 it holds two
# pieces of four.
_PIECES = Layout((16, 4), (4, 1))
_WARP_ROWS, _WARP_COLUMNS = Layout((8, 2, 4, 2), (4, 64, 1, 32)), Layout((4, 4, 4, 2), (4, 32, 1, 16))

_SIMT = Schedule().with_(
    grid_tile=(128, 128),
    ctas_per_sm=1,
    order="row",
    k=8,
    atom=FMA,
    atoms=(16, 16, 1),
    atom_order=_IN_ORDER,
    permutation=(_PIECES, _PIECES, 1),
)
_WARP_TILED = _SIMT.with_(atom_order=_IN_WARPS, permutation=(_WARP_ROWS, _WARP_COLUMNS, 1))
_AHEAD = _WARP_TILED.with_(stages=2, fragment_buffers=2)
_BY_ELEMENT = {"a_copy": "cp.async.4", "b_copy": "cp.async.4"}

SIMT = {
    "sm80-simt": (
        "fma of one thread, 16 × 16 threads in order, pieces of 4 × 4, copies of single elements, two stages",
        _SIMT.with_(stages=2, fragment_buffers=1, **_BY_ELEMENT),
    ),
    "sm80-simt-warp-tiled": (
        "warps of 8 × 4 threads with a tile of 64 × 32 each",
        _WARP_TILED.with_(stages=2, fragment_buffers=1, **_BY_ELEMENT),
    ),
    "sm80-simt-double-buffered": (
        "fragments loaded one k-slice ahead",
        _AHEAD.with_(**_BY_ELEMENT),
    ),
    "sm80-simt-staged": (
        "copies of 16 bytes, through registers that transpose them if K is contiguous; K steps of 16, three stages, "
        "registers for two CTAs per SM",
        # With K steps of 8, the code for tn spills.
        _AHEAD.with_(k=16, stages=3, ctas_per_sm=2),
    ),
    "sm80-simt-best": ("everything else chosen for the shape", Schedule().with_(atom=FMA)),
}
