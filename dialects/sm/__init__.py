"""The sm dialect: copies, barriers and multiplies as an SM executes them. Ops are generated from SmOps.td."""

from .._lowtide import (  # noqa: F401
    FragmentType,
    MbarriersType,
    PendingType,
    RetiredType,
    RingType,
    SlotType,
    TensorMapType,
    TiledCopyAttr,
    TiledMmaAttr,
)
from .._sm_enum_gen import ClusterLine, CopyIssue, SlotRead, SlotUse, StepForm, StoreStart  # noqa: F401
from .._sm_ops_gen import *  # noqa: F403
