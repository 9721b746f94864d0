"""The estimated time of a launch that packs operands, in cycles of one SM at its highest clock."""

from lowtide.targets import Target

_LAUNCH = 3000  # at 4096³ in tt, tf32 with a packed B takes 418 µs, and with a B from registers 374 (H200)


def packing_cycles(size: int, target: Target) -> float:
    """Estimated cycles of a launch that reads and writes `size` bytes; 0 if there are none."""
    return _LAUNCH + 2 * size / target.memory_bytes_per_cycle if size else 0.0
