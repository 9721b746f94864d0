"""Families of products. Products of a family differ in M only.

The kernel of a call depends on its family and its M, never on earlier calls. All extents are run-time arguments of
every kernel, but schedules are chosen for the family's N, K and number of products (`planning.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.results import gives_d_alone
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.numerics_words import BATCH_INVARIANT
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import SCALES, UNBATCHED, WEIGHT_LAYOUTS, ZEROS
from lowtide.elements import element_type, weight_types
from lowtide.errors import LaunchError, SpecError
from lowtide.runtime.operands import Operand
from lowtide.targets import accumulator_types

_BYTES = "u8"  # the type of an array of packed weights
_DEPTHS, _LEAST_DEPTH = 32, 64  # sizes of K between powers of two, and their least unit
_LINE_BITS, _SECTOR_BITS = 1024, 256  # of L2
_SMALLEST_CLASS, _CLASSES_PER_OCTAVE = 8, 8  # of rows


@dataclass(frozen=True)
class Family:
    """`batch`: the number of products; None for one without a batch. The fields from `precision` on are those of
    `GemmSpec`."""

    a: str
    b: str
    d: str
    layout: str
    d_order: str
    batch: int | None
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
    operands_aligned: bool = True

    def spec(self, epilogue: Callable[..., Any] | None) -> GemmSpec:
        """The problem with run-time extents. Raises SpecError, LaunchError."""
        return self._spec(epilogue, None, None, None, None)

    def example(self, epilogue: Callable[..., Any] | None, m: int | None) -> GemmSpec:
        """The problem of an M; None: with a run-time M, and the other extents of the family. A batch of 0 is a run-time
        one: a spec has at least 1."""
        return self._spec(epilogue, m, self.n, self.k, self.batch or None)

    @property
    def extents(self) -> dict[str, int]:
        """The extents that all products of the family have, by name. Schedules are chosen for extents of at least 1."""
        batch = {} if self.batch is None else {"batch": self.batch}
        return {name: max(1, extent) for name, extent in ({"n": self.n, "k": self.k} | batch).items()}

    def _spec(
        self, epilogue: Callable[..., Any] | None, m: int | None, n: int | None, k: int | None, batch: int | None
    ) -> GemmSpec:
        spec = GemmSpec(
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
        if not gives_d_alone(spec.results):
            raise SpecError(
                f"the epilogue returns {', '.join(result.name for result in spec.full_results)}, but lt.matmul returns "
                "only D: for several results, compile a GemmSpec [matmul-results]"
            )
        return spec

    @property
    def unit(self) -> int:
        """The choice distinguishes M that are multiples of this from other M. If M is contiguous in A, it is the number
        of elements in a sector of L2. Otherwise it is 1, also for unaligned matrices, because these are packed."""
        is_along_m = self.layout[0] == "n" and self.inputs_aligned
        return max(1, _SECTOR_BITS // element_type(self.a).bits) if is_along_m else 1

    @property
    def planned(self) -> "Family":
        """The family whose plan serves this one: its K is rounded up to one of 32 sizes between powers of two.

        A longer K makes all whole tiles slower by the same factor, so the estimate has the same order. K is not rounded
        if rows along it do not start on lines of L2, which changes the choice, or if K has groups.
        """
        is_contiguous = self.layout[0] == "t" or self.layout[1] == "n"
        if self.group or (is_contiguous and self.k * element_type(self.a).bits % _LINE_BITS):
            return self
        unit = max((1 << max(0, self.k - 1).bit_length()) // 2 // _DEPTHS, _LEAST_DEPTH)
        return replace(self, k=-(-self.k // unit) * unit)

    @property
    def given(self) -> str:
        """The schedule fields that the family fixes, as text, or "": unaligned matrices are packed, and threads load
        unaligned full operands."""
        fields = [] if self.inputs_aligned else ["a.pack = rows", "b.pack = rows"]
        fields += [] if self.d_aligned else ["epilogue.pack = rows"]
        fields += [] if self.operands_aligned else ["epilogue.path = smem"]
        return ", ".join(fields)

    @property
    def reference(self) -> "Family | None":
        """The family that determines the order of sums with `INVARIANT_ROWS` rows: aligned, one product, D by rows.
        None if the order may depend on M, or if it does not matter, because integers are added."""
        if self.numerics != BATCH_INVARIANT or not element_type(self.a).is_float:
            return None
        return replace(self, batch=None, d_order="row", inputs_aligned=True, d_aligned=True, operands_aligned=True)

    def __str__(self) -> str:
        batch = "" if self.batch is None else f"{self.batch} of "
        order = "" if self.d_order == "row" else " by columns"
        lie = {(True, True): "aligned", (True, False): "D unaligned", (False, True): "A or B unaligned"}
        return (
            f"{self.a} x {self.b} {self.layout} to {self.d}{order}{self._more()},"
            f" {batch}Mx{self.n}x{self.k}, {lie.get((self.inputs_aligned, self.d_aligned), 'unaligned')},"
            f" {self.numerics}, {self.target}"
        )

    def _more(self) -> str:
        zeros = " with zero points" if self.zero_points else ""
        return "".join(
            (
                "" if self.operands_aligned else ", operands unaligned",
                f", precision {self.precision}" if self.precision else "",
                f", groups of {self.group} scaled by {self.scales}{zeros}" if self.group else "",
                f", blocks of {self.block_scales.a} and {self.block_scales.b} scaled" if self.block_scales else "",
            )
        )


def family_of(
    product: Product, options: Options, target: str, operands: Mapping[str, Operand] = MappingProxyType({})
) -> Family:
    """The family of a product. `operands`: by name; the scales and zero points of packed weights determine their types.
    Raises LaunchError for types that cannot be multiplied, and for weights that do not fit."""
    b = options.weights or product.b
    if options.weights is None:
        check_not_packed(product.a, b)
    sums_of(product.a, b)
    return Family(
        a=product.a,
        b=b,
        d=product.d,
        layout=product.layout,
        d_order=product.d_order,
        batch=product.batch,
        n=product.n,
        k=product.k,
        inputs_aligned=product.inputs_aligned,
        d_aligned=product.d_aligned,
        operands_aligned=product.operands_aligned,
        numerics=options.numerics,
        target=target,
        precision=None if options.precision == product.a else options.precision,
        block_scales=options.block_scales,
        **(fields_of_weights((product.layout, product.b), product.n, product.k, operands) if options.weights else {}),
    )


def check_not_packed(a: str, b: str) -> None:
    """Raises LaunchError for a type of B that is multiplied by A's only as packed weights."""
    if b in weight_types(a):
        raise LaunchError(
            f"operands a and b: {a} is multiplied by {b} only if B is packed: pass lt.pack_weights(weights, "
            f'"{b}") transposed, and weights="{b}", or convert B [packed-types]'
        )


def fields_of_weights(
    given: tuple[str, str], n: int, k: int, operands: Mapping[str, Operand], *, groups: bool = False
) -> dict[str, Any]:
    """The fields of `GemmSpec` that packed weights and their scales determine. `given`: the layout, and the type of B's
    array. `groups`: whether rows are in groups, which may have scales of their own. Raises LaunchError."""
    layout, b = given
    if layout not in WEIGHT_LAYOUTS or b != _BYTES:
        raise LaunchError(
            f"operand b: packed weights are bytes with K contiguous, as lt.pack_weights makes them, not {b} of"
            f" layout {layout}: pass packed.mT [packed-layout]"
        )
    scales = operands.get(SCALES)
    if scales is None:
        return {"zero_points": ZEROS in operands}
    count = scales.shape[-2] if 2 <= len(scales.shape) <= 2 + groups else 0
    if not count or k % count or scales.shape[-1] != n:
        raise LaunchError(
            f"operand {SCALES}: shape is {scales.shape}; scales must be ({'groups, ' * groups}K / group, N), one for "
            f"each group and column, with K = {k} and N = {n} [group-scales]"
        )
    return {"group": k // count, "scales": scales.dtype, "zero_points": ZEROS in operands}


def rows_to_choose_for(rows: int) -> int:
    """The number of rows, at least 1, rounded up so that each factor of 2 has eight classes, of at least 8 rows: calls
    of a class share a schedule."""
    step = max(_SMALLEST_CLASS, (1 << (rows - 1).bit_length()) // (2 * _CLASSES_PER_OCTAVE))
    return -(-rows // step) * step


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
