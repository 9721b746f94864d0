"""Who sends this GPU's shard of A to the other GPUs in less time: the kernel, or the copy engine.

The copy engine has an operation for each copy and each flag, which takes time to start. The kernel has none, but
multiplies no tile before it has sent.
"""

_LARGEST = 2**20
"""Bytes of the largest shard that the kernel sends. Between two H200s, the time of a product whose rows the copy engine
sends, relative to one whose rows the kernel sends, was 1.34 with 256 KiB, 1.16 and 1.22 with 512 KiB, 0.95 to 1.15 with
1 MiB, 0.94 to 1.06 with 2 MiB, and 0.87 to 1.03 with 4 MiB or more (docs/performance.md)."""


def kernel_is_faster(size: int) -> bool:
    """Whether the kernel is expected to take less time for a shard of `size` bytes."""
    return 0 < size <= _LARGEST
