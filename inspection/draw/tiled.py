"""Tiled mmas, tiled copies and fragments: the thread that multiplies or moves each element of a tile."""

from tensor_layouts import Layout, cosize, flatten, mode

from lowtide.errors import Error
from lowtide.inspection.draw.held import LEGEND, held_panel
from lowtide.inspection.draw.panels import Panel, Picture, check_elements
from lowtide.targets import TiledMma
from lowtide.targets.tv import Shape, extents


def mma_picture(name: str, mma: TiledMma) -> Picture:
    """One step of a tiled mma: B above C, A to its left, as a product is written. For wgmma only C, because A and B
    come from shared memory."""
    m, n, k = mma.tile_mnk
    check_elements(name, max(m * n, m * k, n * k))
    title = f"{name}: {m}x{n}x{k}, {mma.threads} threads; {LEGEND}"
    c = held_panel(f"C ({m}×{n})", ("m", "n"), mma.tv("c", (m, n)), (m, n))
    if "rmem" not in mma.atom.b_in:
        return Picture(name, f"{title}; A ({m}×{k}) and B ({k}×{n}) are read from shared memory", (c,))
    return product_picture(
        name,
        title,
        held_panel(f"A ({m}×{k})", ("m", "k"), mma.tv("a", (m, k)), (m, k)),
        held_panel(f"B ({k}×{n})", ("n", "k"), mma.tv("b", (n, k)), (n, k), transposed=True),
        c,
    )


def product_picture(name: str, title: str, a: Panel, b: Panel, c: Panel) -> Picture:
    """The operands of a product in their places."""
    return Picture(name, title, (None, b, a, c), columns=2)


def fragment_picture(name: str, tv: Layout, shape: Shape) -> Picture:
    """A tile that threads hold. Raises ScheduleError if the layout exceeds it."""
    rows, columns = shape
    threads, values = extents(tv)
    check_elements(name, max(rows * columns, threads * values))
    panel = held_panel(f"{rows}×{columns}", ("rows", "columns"), tv, shape)
    return Picture(name, f"{name}: {threads} threads, {values} values each; {LEGEND}", (panel,))


def shape_of_copy(text: str, tv: Layout) -> Shape:
    """The tile of a tiled copy, whose threads move runs along its rows: a step along a row is its number of rows.

    Raises Error if threads move single elements, so that it does not follow.
    """
    values = flatten(mode(tv, 1))
    steps = (values.stride,) if isinstance(values.stride, int) else values.stride
    lengths = (values.shape,) if isinstance(values.shape, int) else values.shape
    rows = next((step for step, length in zip(steps, lengths, strict=True) if length > 1), 0)
    if lengths[0] < 2 or rows < 1 or cosize(tv) % rows:
        raise Error(f"{text} does not say its tile; give it: --shape ROWSxCOLUMNS [copy-tile]")
    return rows, cosize(tv) // rows
