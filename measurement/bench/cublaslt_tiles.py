"""The tiles of cuBLASLt by number, and an estimate of how well each suits the shape of a result.

cublasLtMatmulTile_t of cublasLt.h (13.1) numbers 634 tiles, rows × columns of its column-major result. The first 35
were added one by one; the others follow two rules, each skipping tiles with a number: columns by 64, then rows by 64.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

UNDEFINED = 0
_FIRST = (
    "8x8 8x16 16x8 8x32 16x16 32x8 8x64 16x32 32x16 64x8 32x32 32x64 64x32 32x128 64x64 128x32 64x128 128x64 64x256 "
    "128x128 256x64 64x512 128x256 256x128 512x64 64x96 96x64 96x128 128x160 160x128 192x128 128x192 128x96 32x256 "
    "256x32"
)
_LAST = "256x512 256x1024 512x512 512x1024"  # for Blackwell's CTA pairs
# The number of products that a CTA could compute while it loads one element for a step of K.
LOAD_WEIGHT = 64


def _numbered() -> Iterator[tuple[int, int]]:
    yield from _shapes(_FIRST)
    yield from ((r, c) for r in range(8, 769, 8) for c in range(64, 769, 64) if r * c <= 49152)
    yield from ((r, c) for r in range(64, 769, 64) for c in range(8, 769, 8) if r * c <= 65536)
    yield from _shapes(_LAST)


def _shapes(text: str) -> Iterator[tuple[int, int]]:
    for word in text.split():
        rows, columns = word.split("x")
        yield int(rows), int(columns)


SHAPES: Mapping[int, tuple[int, int]] = MappingProxyType(dict(enumerate(dict.fromkeys(_numbered()), start=1)))
NUMBERS: Mapping[tuple[int, int], int] = MappingProxyType({shape: number for number, shape in SHAPES.items()})


def tile_name(number: int) -> str:
    """For example `128x256`; the number itself for an unknown tile."""
    return "x".join(map(str, SHAPES[number])) if number in SHAPES else str(number)


def transposed(number: int) -> int | None:
    """The tile with rows and columns exchanged, if there is one."""
    other = NUMBERS.get(SHAPES[number][::-1]) if number in SHAPES else None
    return None if other == number else other


def tile_count(number: int, rows: int, columns: int) -> int:
    """The number of tiles that cover a result of rows × columns; 0 for an unknown tile."""
    if number not in SHAPES:
        return 0
    tile_rows, tile_columns = SHAPES[number]
    return -(-rows // tile_rows) * -(-columns // tile_columns)


def tile_cost(number: int, rows: int, columns: int, multiprocessors: int) -> float:
    """Whole waves times the work per CTA and step of K (products and weighted loads). Only for ordering.

    Large tiles cost least for large results; small tiles cost least if large ones would leave multiprocessors idle. An
    unknown tile comes last.
    """
    if number not in SHAPES:
        return float("inf")
    tile_rows, tile_columns = SHAPES[number]
    waves = -(-tile_count(number, rows, columns) // multiprocessors)
    return waves * (tile_rows * tile_columns + LOAD_WEIGHT * (tile_rows + tile_columns))
