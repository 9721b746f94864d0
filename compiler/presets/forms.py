"""Problems of other forms: batches, D by columns, few rows, operands whose K is not contiguous."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lowtide.compiler.presets.hopper import PINGPONG, TMA_STORES
from lowtide.compiler.presets.mma_sync import BANDS
from lowtide.dialects.tile.schedule import Schedule

BATCH: Mapping[str, Any] = MappingProxyType({"batch": None})
BY_COLUMNS: Mapping[str, Any] = MappingProxyType({"d_order": "column"})

SM80_BATCH = {
    "sm80-batch": (
        "small tiles for a batch of small matrices; CTAs continue from matrix to matrix",
        Schedule().with_(grid_tile=(64, 64), k=32, atoms=(2, 2, 1), stages=4, order="row", scheduler="persistent"),
    )
}
SM80_BY_COLUMNS = {
    "sm80-by-columns": ("D by columns, computed as its transpose", BANDS.with_(stages=4, operands="swapped"))
}
FEW_ROWS: Mapping[str, Any] = MappingProxyType({"m": 16})
SM80_FEW_ROWS = {
    "sm80-few-rows": (
        "the transpose of D, in tiles as narrow as D has rows, stored by columns",
        Schedule().with_(
            grid_tile=(64, 16), k=64, atoms=(4, 1, 1), stages=6, order="row", k_division="split(2)", operands="swapped"
        ),
    )
}
SM90A_FEW_ROWS = {
    "sm90-few-rows": (
        "the transpose of D, in tiles as narrow as D has rows, stored by columns",
        Schedule().with_(
            grid_tile=(64, 16),
            k=64,
            roles="cooperative(1)",
            scheduler="persistent",
            order="row",
            k_division="split(2)",
            operands="swapped",
        ),
    )
}
SM90A_BATCH = {
    "sm90-batch": (
        "consumers that take the tiles of a batch in turn; tensor maps have one more dimension",
        PINGPONG.with_(grid_tile=(128, 128), stages=5, order="row", launch="serialized", buffers=2),
    )
}
SM90A_BY_COLUMNS = {
    "sm90-by-columns": (
        "D by columns, computed as its transpose, stored by TMA",
        TMA_STORES.with_(order="grouped(16)", operands="swapped"),
    )
}

TRANSPOSED: Mapping[str, Any] = MappingProxyType({"layout": "nt"})
SM90A_TRANSPOSED = {
    "sm90-transposed": (
        "operands whose K is not contiguous: a launch before the kernel writes their transposes to workspaces",
        Schedule().with_(
            order="grouped(16)",
            scheduler="persistent",
            launch="programmatic",
            roles="cooperative(2)",
            a_pack="transposed",
            b_pack="transposed",
        ),
    ),
}
