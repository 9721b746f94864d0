"""How the multiply of a schedule is chosen: the atom and the tiled mma, from the CTA tile and its warps."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.asked_for import wgmma_width
from lowtide.targets.atoms import WGMMA_ROWS


def follow(schedule: Schedule) -> Mapping[str, Any]:
    """The fields that follow from the tile and the consumers, or the warps, by path."""
    consumers, (_, n, _) = schedule.consumers, schedule.tile_mnk
    if consumers:
        return {
            "multiply.atoms": (consumers, 1, 1),
            "multiply.permutation": (WGMMA_ROWS * consumers, wgmma_width(schedule) or n, 16),
            "multiply.atom": f"wgmma.m64n{n}k16",
            "multiply.fragment_buffers": 1,
        }
    assert schedule.multiply.atoms is not None
    warps_m, warps_n, _ = schedule.multiply.atoms
    depth = 8 if schedule.multiply.atom == "mma.m16n8k8" else 16
    return {
        "multiply.atom": "mma.m16n8k16",
        # Two n-atoms per step, so that B's registers pair up into ldmatrix.x4.
        "multiply.permutation": (16 * warps_m, 16 * warps_n, depth),
        "multiply.fragment_buffers": 2,
    }


def reasons(schedule: Schedule) -> Mapping[str, str]:
    """Why the fields are what `follow` gives."""
    if schedule.consumers:
        return {
            "multiply.atom": "wgmma as wide as the tile: the fewest reads of A from shared memory",
            "multiply.atoms": "one per consumer warpgroup",
            "multiply.permutation": "blocks of 64 rows go round-robin to the consumers; columns in order",
            "multiply.fragment_buffers": "wgmma reads shared memory: no fragments of A and B",
        }
    return {
        "multiply.atom": "the largest mma.sync of 16-bit operands",
        "multiply.atoms": "four or eight warps, each with a tile near square, to read the fewest fragment bytes",
        "multiply.permutation": "two n-atoms per step, so that B's registers pair up into ldmatrix.x4",
        "multiply.fragment_buffers": "the next k-slice loads while this one is multiplied",
    }
