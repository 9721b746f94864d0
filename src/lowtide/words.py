"""Words of a problem that specs, passes and manifests share."""

from collections.abc import Mapping
from types import MappingProxyType

APART = "apart"  # B of pairs is two matrices (2, N, K), which lie anywhere
PAIRS = ("stacked", "interleaved", APART)  # how the two columns of a pair lie in B
ALL_LISTS, LIST_OF_D = "abd", "d"
LISTS = ("b", LIST_OF_D, ALL_LISTS)  # the matrices that may be lists
# The operands for shards of A that arrive, all s32, with the number of their elements; None: one element for each shard
ARRIVALS: Mapping[str, int | None] = MappingProxyType({"arrived": None, "turn": 3, "status": 4})
# The operands of a kernel that can send this GPU's shard, also s32: the places on the other GPUs, and counters of CTAs
SENDS = ("peers", "sent")
