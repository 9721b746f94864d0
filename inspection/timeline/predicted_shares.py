"""The share of a kernel's time in which each resource works, as the cost model predicts it."""

from lowtide.inspection.timeline.shares import FIELDS, Predicted, Share
from lowtide.passes.schedules.cost.spans import GridSpans, TileSpans


def predicted_shares(spans: GridSpans, clock_mhz: int) -> Predicted:
    """The resources in the order of `FIELDS`."""
    cycles = {
        "tensor cores": sum(tile.steps * tile.tensor for tile in spans.tiles),
        "shared memory": sum(tile.steps * tile.shared for tile in spans.tiles),
        "L2": sum(tile.steps * tile.loads for tile in spans.tiles),
        "memory": sum(tile.steps * tile.memory for tile in spans.tiles),
        "waits": sum(map(_waits, spans.tiles)),
        "epilogue": sum(map(_epilogue, spans.tiles)),
        "launch": spans.launch,
        "idle SMs": sum((1 - tile.busy) * tile.total for tile in spans.tiles),
    }
    scale = spans.slowdown / clock_mhz
    total = spans.total / clock_mhz
    shares = tuple(Share(name, cycles[name] * scale, cycles[name] * scale / total) for name in FIELDS)
    return Predicted(total, 1 / spans.slowdown, shares)


def _epilogue(tile: TileSpans) -> float:
    """The part of the epilogue that no products of another consumer hide."""
    mainloop = tile.steps * (max(tile.products, tile.loads, tile.memory) + tile.beside)
    return max(0.0, min(tile.epilogue, tile.total - mainloop))


def _waits(tile: TileSpans) -> float:
    """The time in which none of the resources of the mainloop works at its full rate."""
    return max(0.0, tile.total - _epilogue(tile) - tile.steps * max(tile.tensor, tile.shared, tile.loads, tile.memory))
