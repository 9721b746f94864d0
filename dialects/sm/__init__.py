"""The sm dialect: how one SM does it. Ops are generated from SmOps.td."""

from .._lowtide import (
    FragmentType,
    MbarriersType,
    PendingType,
    RetiredType,
    RingType,
    SlotType,
    TensorMapType,
    TiledCopyAttr,
    TiledMmaAttr,
)  # noqa: F401
from .._sm_ops_gen import *  # noqa: F403
