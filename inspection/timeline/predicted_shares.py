"""The share of a kernel's time in which each resource works, as the cost model predicts it."""

from collections.abc import Callable

from lowtide.inspection.timeline.shares import FIELDS, Predicted, Share
from lowtide.passes.schedules.cost.spans import GridSpans, TileSpans


def predicted_shares(spans: GridSpans, clock_mhz: int) -> Predicted:
    """The resources in the order of `FIELDS`."""
    cycles = {
        "tensor cores": _sum(spans, lambda tile: tile.steps * tile.tensor),
        "shared memory": _sum(spans, lambda tile: tile.steps * tile.shared),
        "L2": _sum(spans, lambda tile: tile.steps * tile.loads),
        "memory": _sum(spans, lambda tile: tile.steps * tile.memory),
        "waits": _sum(spans, _waits),
        "epilogue": _sum(spans, _epilogue),
        "launch": spans.launch,
        "idle SMs": _sum(spans, lambda tile: (1 - tile.busy) * tile.total),
    }
    scale = spans.slowdown / clock_mhz
    total = spans.total / clock_mhz
    shares = tuple(Share(name, cycles[name] * scale, cycles[name] * scale / total) for name in FIELDS)
    return Predicted(total, 1 / spans.slowdown, shares)


def _sum(spans: GridSpans, of: Callable[[TileSpans], float]) -> float:
    """The sum of a number of each tile, over the tiles of all waves."""
    return sum(tile.waves * of(tile) for tile in spans.tiles)


def _epilogue(tile: TileSpans) -> float:
    """The part of the epilogue that no products of another consumer hide."""
    mainloop = tile.steps * (max(tile.products, tile.loads, tile.memory) + tile.beside)
    return max(0.0, min(tile.epilogue, tile.total - mainloop))


def _waits(tile: TileSpans) -> float:
    """The time in which none of the resources of the mainloop works at its full rate."""
    return max(0.0, tile.total - _epilogue(tile) - tile.steps * max(tile.tensor, tile.shared, tile.loads, tile.memory))
