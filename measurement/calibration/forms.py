"""The schedules that are timed for a calibration, as texts. Extents are run-time values.

They form families: whole tiles, clusters, swapped operands, divided K. Widths of tiles have steps of 8 or 16 where many
are near the best, and larger steps elsewhere.
"""

from collections.abc import Iterator, Sequence

_PACKS = "a.pack=none, b.pack=none, epilogue.pack=none"
_ONE, _TWO, _THREE, _TURNS = "cooperative(1)", "cooperative(2)", "cooperative(3)", "pingpong(2)"
#: Rows of a tile, its consumers, and the widest tile whose sums fit in registers
_TILES = (
    (64, _ONE, 256),
    (128, _TWO, 256),
    (256, _TWO, 192),
    (192, _THREE, 200),
    (128, _TURNS, 192),
    (64, _TURNS, 256),
)
_CLUSTERS = ((2, 1), (1, 2), (4, 1), (1, 4), (2, 2))
_PARTS = (2, 3, 4, 6, 8, 12, 16)
_BY_TILE = ("column", "grouped", "serpentine")
_ORDERS = {
    "column": ", order=column",
    "row": ", order=row",
    "grouped": "",
    "serpentine": ", k_order=serpentine",
}


def texts() -> list[str]:
    """All of them, each once. Some are refused when they are compiled."""
    return list(dict.fromkeys((*_whole(), *_in_clusters(), *_swapped(), *_divided())))


def _whole() -> Iterator[str]:
    for rows, roles, widest in _TILES:
        step = 64 if roles == _TURNS else 8 if roles == _TWO else 16
        yield from _each(rows, roles, range(64, widest + 1, step), _BY_TILE, ", epilogue.path=tma")


def _in_clusters() -> Iterator[str]:
    for rows, roles, widest in _TILES:
        for extents in _CLUSTERS:
            of_cluster = f", epilogue.path=tma, cluster={list(extents)}"
            widths = range(64, widest + 1, 64 if roles == _TURNS else 32)
            yield from _each(rows, roles, widths, _BY_TILE[:2], of_cluster)


def _swapped() -> Iterator[str]:
    narrow = (*range(8, 81, 8), *range(96, 193, 16))
    for rows, roles, _ in _TILES:
        widths = (8, 16, 32, 48, 64, 128) if roles == _TURNS else narrow
        yield from _each(rows, roles, widths, ("row", "column"), ", operands=swapped")
        if roles != _THREE and rows < 256:
            for extent in (2, 4):
                of_cluster = f", operands=swapped, cluster=[{extent}, 1]"
                yield from _each(rows, roles, range(32, 257, 32), ("row", "column"), of_cluster)


def _divided() -> Iterator[str]:
    for rows, roles, _ in _TILES[:2]:
        for parts in _PARTS:
            of_eights = [width for width in range(64, 257, 32) if width % (8 * parts) == 0]
            yield from _each(rows, roles, of_eights, ("row", "column"), f", k_division=scatter({parts})")
            narrow = (8, 16, 24, *range(32, 129, 16))
            yield from _each(rows, roles, narrow, ("row",), f", operands=swapped, k_division=split({parts})")
        for parts in (2, 4, 8):
            for extents in _CLUSTERS[:2]:
                of_cluster = f", k_division=scatter({parts}), cluster={list(extents)}"
                yield from _each(rows, roles, (64, 128, 192, 256), ("row", "column"), of_cluster)


def _each(rows: int, roles: str, widths: Sequence[int], orders: Sequence[str], rest: str) -> Iterator[str]:
    for columns in widths:
        for order in orders:
            yield f"grid.tile=[{rows}, {columns}], roles={roles}{rest}{_ORDERS[order]}, {_PACKS}"
