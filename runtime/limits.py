"""CUDA's limits on a launch, for checks without a driver.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

import functools
import re

from lowtide.errors import LoadError

MAX_GRID = (2**31 - 1, 65535, 65535)  # CTAs on each axis
MAX_BLOCK = (1024, 1024, 64)  # threads on each axis
MAX_THREADS = 1024  # per CTA
MAX_EXTENT = 2**31 - 1  # of a problem: kernels index with 32 bits inside a tile
MAX_CLUSTER = 16  # CTAs; more than 8 is allowed kernel by kernel, on request
_FIRST_CLUSTERS = (9, 0)
_KIB = 1024
_LARGEST_SHARED_MEMORY = 227 * _KIB
#: Dynamic shared memory per CTA after opt-in, in bytes, for capabilities below the largest limit.
_SHARED_MEMORY: dict[tuple[int, int], int] = {
    (7, 5): 64 * _KIB,
    (8, 0): 163 * _KIB,
    (8, 6): 99 * _KIB,
    (8, 7): 163 * _KIB,
    (8, 9): 99 * _KIB,
    (12, 0): 99 * _KIB,
    (12, 1): 99 * _KIB,
}


def max_shared_memory(capability: tuple[int, int]) -> int:
    """The maximum of dynamic shared memory per CTA in bytes; for an unknown capability, the largest known one."""
    return _SHARED_MEMORY.get(capability, _LARGEST_SHARED_MEMORY)


def max_cluster(capability: tuple[int, int]) -> int:
    """The maximum of CTAs per cluster; 1 if the capability has no clusters."""
    return MAX_CLUSTER if capability >= _FIRST_CLUSTERS else 1


@functools.cache
def capability_of(target: str) -> tuple[int, int, str]:
    """Major and minor capability and suffix ("", "a", "f") of a target's name, e.g. sm_90a → (9, 0, "a")."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", target)
    if match is None:
        raise LoadError(f"target {target!r} is not of the form sm_NN, sm_NNa or sm_NNf [target-form]")
    return int(match[1]), int(match[2]), match[3]
