"""The tile dialect: computation on tiles. Ops are generated from TileOps.td."""

from .._lowtide import (  # noqa: F401
    LayoutAttr,
    ProblemAttr,
    RasterAttr,
    ScheduleAttr,
    SwizzleAttr,
    ThreadValueAttr,
    TileType,
    ViewType,
)
from .._tile_enum_gen import (  # noqa: F401
    CacheHint,
    EpilogueMath,
    EpilogueStart,
    GemmLayout,
    KDivisionKind,
    KOrderKind,
    LaunchKind,
    OperandKind,
    OperandsKind,
    PackKind,
    Precision,
    PromoteKind,
    RasterKind,
    RepeatKind,
    RolesKind,
    ScalesKind,
    SchedulerKind,
    Side,
    StageOrder,
    StorePath,
    TailKind,
    UnrollKind,
    WavesKind,
    WorkPart,
)
from .._tile_ops_gen import *  # noqa: F403
