"""Classes of products that share a kernel. The class depends on the operands only, never on earlier calls.

Extents are run-time arguments of every kernel. A class holds the extents that its schedule is chosen for: those of the
product, rounded up to one of a few sizes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.numerics_words import BATCH_INVARIANT, INVARIANT_ROWS
from lowtide.compiler.spec import SCALES, UNBATCHED, WEIGHT_LAYOUTS, ZEROS, GemmSpec
from lowtide.elements import element_type, weight_types
from lowtide.errors import LaunchError
from lowtide.runtime.operands import Operand
from lowtide.targets import accumulator_types

_LEAST = 16  # the least extent that schedules are chosen for
_MOST_ROWS, _MOST = 16384, 65536  # the largest for M, and for N and K; beyond, the choice is the same
_STEPS = 8  # sizes of N and K between powers of two
_ROW_STEPS = ((64, 1), (128, 2), (_MOST_ROWS, 4))  # the same for M, each up to an extent
_MOST_BATCH = 1024
_BYTES = "u8"  # the type of an array of packed weights
_INVARIANT_SIZES = (128, 512, INVARIANT_ROWS)  # sizes of M that keep the order of sums of the last


@dataclass(frozen=True)
class ShapeClass:
    """`m`, `n`, `k` and `batch` are the extents that the schedule is chosen for; `batch` is None for one product.

    The fields from `precision` on are those of `GemmSpec`.
    """

    a: str
    b: str
    d: str
    layout: str
    d_order: str
    batch: int | None
    m: int
    n: int
    k: int
    inputs_aligned: bool
    d_aligned: bool
    numerics: str
    target: str
    precision: str | None = None
    group: int | None = None
    scales: str | None = None
    zero_points: bool = False
    block_scales: BlockScales | None = None

    def spec(self, epilogue: Callable[..., Any] | None) -> GemmSpec:
        """The problem with run-time extents. Raises SpecError, LaunchError."""
        return self._spec(epilogue, None, None, None, None)

    def example(self, epilogue: Callable[..., Any] | None) -> GemmSpec:
        """The problem that the schedule is chosen for."""
        return self._spec(epilogue, self.m, self.n, self.k, self.batch)

    @property
    def extents(self) -> dict[str, int]:
        """The extents that the schedule is chosen for, by name."""
        batch = {} if self.batch is None else {"batch": self.batch}
        return {"m": self.m, "n": self.n, "k": self.k, **batch}

    def _spec(
        self, epilogue: Callable[..., Any] | None, m: int | None, n: int | None, k: int | None, batch: int | None
    ) -> GemmSpec:
        return GemmSpec(
            m=m,
            n=n,
            k=k,
            batch=UNBATCHED if self.batch is None else batch,
            a=self.a,
            b=self.b,
            d=self.d,
            acc=sums_of(self.a, self.b),
            precision=self.precision,
            layout=self.layout,
            d_order=self.d_order,
            group=self.group,
            scales=self.scales,
            zero_points=self.zero_points,
            block_scales=self.block_scales,
            epilogue=epilogue,
        )

    @property
    def given(self) -> str:
        """The schedule fields that the class fixes, as text, or "": unaligned matrices are packed, and fields that must
        not depend on M are set."""
        fields = [] if self.inputs_aligned else ["a.pack = rows", "b.pack = rows"]
        fields += [] if self.d_aligned else ["epilogue.pack = rows"]
        fields += ["k_division = none"] if self.numerics == BATCH_INVARIANT else []
        return ", ".join(fields)

    @property
    def reference(self) -> "ShapeClass | None":
        """The class that determines the order of sums: one aligned product of many rows. None if this class determines
        it itself."""
        if self.numerics != BATCH_INVARIANT:
            return None
        whole = {"m": INVARIANT_ROWS, "batch": None, "d_order": "row", "inputs_aligned": True, "d_aligned": True}
        return replace(self, **whole)  # type: ignore[arg-type]

    def __str__(self) -> str:
        batch = "" if self.batch is None else f"{self.batch} of "
        order = "" if self.d_order == "row" else " by columns"
        lie = {(True, True): "aligned", (True, False): "D unaligned", (False, True): "A or B unaligned"}
        return (
            f"{self.a} x {self.b} {self.layout} to {self.d}{order}{self._more()}, about"
            f" {batch}{self.m}x{self.n}x{self.k}, {lie.get((self.inputs_aligned, self.d_aligned), 'unaligned')},"
            f" {self.numerics}, {self.target}"
        )

    def _more(self) -> str:
        zeros = " with zero points" if self.zero_points else ""
        return "".join(
            (
                f", precision {self.precision}" if self.precision else "",
                f", groups of {self.group} scaled by {self.scales}{zeros}" if self.group else "",
                f", blocks of {self.block_scales.a} and {self.block_scales.b} scaled" if self.block_scales else "",
            )
        )


def class_of(
    product: Product, options: Options, target: str, operands: Mapping[str, Operand] = MappingProxyType({})
) -> ShapeClass:
    """The class of a product. `operands`: by name; the scales and zero points of packed weights determine their types.
    Raises LaunchError for types that cannot be multiplied, and for weights that do not fit."""
    b = options.weights or product.b
    if options.weights is None and b in weight_types(product.a):
        raise LaunchError(
            f"operands a and b: {product.a} is multiplied by {b} only if B is packed: pass lt.pack_weights(weights, "
            f'"{b}") transposed, and weights="{b}", or convert B [packed-types]'
        )
    sums_of(product.a, b)
    rows = _invariant_rows if options.numerics == BATCH_INVARIANT else _rows
    return ShapeClass(
        a=product.a,
        b=b,
        d=product.d,
        layout=product.layout,
        d_order=product.d_order,
        batch=None if product.batch is None else rounded_up(product.batch, 1, 1, _MOST_BATCH),
        m=rows(product.m),
        n=rounded_up(product.n, _STEPS, _LEAST, _MOST),
        k=rounded_up(product.k, _STEPS, _LEAST, _MOST),
        inputs_aligned=product.inputs_aligned,
        d_aligned=product.d_aligned,
        numerics=options.numerics,
        target=target,
        precision=None if options.precision == product.a else options.precision,
        block_scales=options.block_scales,
        **(_groups(product, operands) if options.weights else {}),
    )


def _groups(product: Product, operands: Mapping[str, Operand]) -> dict[str, Any]:
    """The fields that the scales of packed weights determine. Raises LaunchError."""
    if product.layout not in WEIGHT_LAYOUTS or product.b != _BYTES:
        raise LaunchError(
            f"operand b: packed weights are bytes with K contiguous, as lt.pack_weights makes them, not {product.b} of"
            f" layout {product.layout}: pass packed.mT [packed-layout]"
        )
    scales = operands.get(SCALES)
    if scales is None:
        return {"zero_points": ZEROS in operands}
    count = scales.shape[0] if len(scales.shape) == 2 else 0
    if not count or product.k % count or scales.shape[1] != product.n:
        raise LaunchError(
            f"operand {SCALES}: shape is {scales.shape}; scales must be (K / group, N), one for each group and column,"
            f" with K = {product.k} and N = {product.n} [group-scales]"
        )
    return {"group": product.k // count, "scales": scales.dtype, "zero_points": ZEROS in operands}


def rounded_up(extent: int, steps: int, least: int, most: int) -> int:
    """The next size up. Sizes are multiples of `least`, with `steps` of them from each power of two to the next."""
    if extent <= least or extent >= most:
        return least if extent <= least else most
    power = 1 << ((extent - 1).bit_length() - 1)  # below the extent
    unit = max(power // steps, least)
    return -(-extent // unit) * unit


def _rows(extent: int) -> int:
    """The size for M; it may also lie a quarter of the way between two sizes. Missing rows of a tile cost time too, so
    one schedule for both ends would be bad for problems of few tiles."""
    steps = next((steps for most, steps in _ROW_STEPS if extent <= most), 1)
    size = rounded_up(extent, steps, _LEAST, _MOST_ROWS)
    if extent >= size or size == _LEAST:
        return size
    power = 1 << ((extent - 1).bit_length() - 1)
    return size - 3 * max(power // steps, _LEAST) // 4


def _invariant_rows(extent: int) -> int:
    return next((size for size in _INVARIANT_SIZES if extent <= size), INVARIANT_ROWS)


def sums_of(a: str, b: str) -> str:
    """The type of the sums. Raises LaunchError for types that cannot be multiplied."""
    found = accumulator_types(a, a if b in weight_types(a) else b)
    if not found:
        raise LaunchError(
            f"operands a and b: {a} and {b} are not multiplied by each other; convert one of them [product-types]"
        )
    return found[0]


def result_type(a: str, b: str) -> str:
    """D's element type if there is no `out`: s32 for integers, bf16 for 8-bit floats, otherwise that of A. Raises
    LaunchError."""
    sums = sums_of(a, b)
    if not element_type(a).is_float:
        return sums
    return "bf16" if element_type(a).bits == 8 else element_type(a).stored_as
