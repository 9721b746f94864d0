"""The sm dialect: how one SM does it. Ops are generated from SmOps.td."""

from .._lowtide import FragmentType, RingType, SlotType, TiledCopyAttr, TiledMmaAttr  # noqa: F401
from .._sm_ops_gen import *  # noqa: F403
