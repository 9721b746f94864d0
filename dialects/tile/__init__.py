"""The tile dialect: what is computed, on which tile. Ops are generated from TileOps.td."""

from .._lowtide import (  # noqa: F401
    LayoutAttr,
    RasterAttr,
    ScheduleAttr,
    SwizzleAttr,
    ThreadValueAttr,
    TileType,
    ViewType,
)
from .._tile_enum_gen import GemmLayout, OperandKind, RasterKind, SchedulerKind  # noqa: F401
from .._tile_ops_gen import *  # noqa: F403
