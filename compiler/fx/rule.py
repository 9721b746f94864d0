"""Decides which products get a Lowtide kernel instead of the one that Inductor would call.

The rule uses what is known when the graph is compiled: types, strides, extents. docs/pytorch.md has the measurements.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.regions import Region
from lowtide.compiler.fx.values import Value, expected, is_one, value_of
from lowtide.elements import element_type
from lowtide.errors import SpecError

MOST_FULL = 4  # tensors of D's size that an epilogue may read
_FULL = ("none", "alone", "any")
_MATRIX, _LEAST_PADDED = 2, 256  # dimensions; elements
_ALIGNED = 16  # bytes; TMA needs strides and rows of D that are multiples of it, so other matrices are copied
# The multiplications that take as long as the copy of an element (read and written at 3 TB/s), and as one more launch.
# A product does 3·10¹⁴ multiplications in a second; torch's kernels for rows that are not multiples of 16 bytes take
# 5 times as long.
_OF_COPY, _OF_LAUNCH, _OF_TORCH = 400, 2**30, 5
# With at most so many multiplications for each element of A, B and D, memory limits a product, so that Inductor does
# not pad it. By data sheets, Inductor's own limit is 76 for an A100, and higher for later GPUs.
_OF_MEMORY = 64


@dataclass(frozen=True)
class Rule:
    """Which products are taken, with which ops.

    `dtypes`: the element types of A and B, which are equal. `devices`: the devices of the tensors. `least_rows`: the
    least M and N, except in groups. `least`: the least number of multiplications. `full`: which epilogues may read
    tensors of D's size: "none"; "alone", if only results of the graph, products and attention read the result, so that
    Inductor would need a kernel just for it; or "any". `left`: ops that no epilogue computes, because they take longer
    there, while nothing multiplies, than in a kernel of Inductor's. `results`: whether kernels store several values,
    pairs of columns and reductions; their epilogues may read tensors of D's size. `unaligned`: whether a single product
    is taken if its rows are not multiples of 16 bytes, with any M and N, and the copies to aligned rows are estimated
    to take no longer than the kernel saves. torch's kernels for such rows are estimated to take 5 times as long as
    kernels for aligned rows. `collectives`: whether an all-gather before a product, or a reduce-scatter or an
    all-reduce after it, is taken too.

    Raises SpecError for another value of `full`.
    """

    dtypes: tuple[str, ...] = ("bf16", "f16")
    devices: tuple[str, ...] = ("cuda",)
    least_rows: int = 1024
    least: int = 2**26
    full: str = "none"
    left: tuple[str, ...] = ("aten.erf.default",)
    results: bool = True
    unaligned: bool = True
    collectives: bool = True

    def __post_init__(self) -> None:
        if self.full not in _FULL:
            raise SpecError(f"full={self.full!r}; choose one of {', '.join(_FULL)} [rule-full]")

    def may_take(self, values: Iterable[Value | None]) -> bool:
        """Whether a graph with these tensors may have a product that is taken: whether one of them has both a type and
        a device that the rule names. `values` include the results of conversions."""
        return any(
            value is not None and value.dtype in self.dtypes and value.device in self.devices for value in values
        )

    def padded_rows(self, values: Iterable[Value | None]) -> int | None:
        """The number of elements from which rows of a compiled graph's tensors should be padded, so that launches need
        not copy them. It is the length of the shortest row of at least 256 elements, in a matrix of the rule's types
        and devices, that is not a multiple of 16 bytes. None if there is none, or if `unaligned` is False. Shorter rows
        do not count, because padding could add more than a quarter to them."""
        matrices = (value for value in values if value is not None and len(value.shape) == _MATRIX)
        odd = [
            value.shape[1]
            for value in matrices
            if value.dtype in self.dtypes and value.device in self.devices and is_odd(value.shape[1], value.dtype)
        ]
        return min((extent for extent in odd if extent >= _LEAST_PADDED), default=None) if self.unaligned else None

    def most_full(self, region: Region) -> int:
        """The most tensors of D's size that the epilogue of a region may read."""
        return MOST_FULL if self.full == "any" or (self.full == "alone" and region.is_read_by_no_kernel) else 0

    def refusal_of_ops(self, region: Region) -> str | None:
        """Why the ops of a region are not computed in an epilogue; None if they are."""
        found = next((str(node.target) for node in region.nodes if str(node.target) in self.left), None)
        return None if found is None else f"{found} takes less time in a kernel of Inductor's"

    def refusal(self, product: Product) -> str | None:
        """Why a product is left; None if it is taken."""
        for name, value in (("A", product.a_value), ("B", product.b_value), ("D", product.value)):
            if value.device not in self.devices:
                return f"{name} is on {value.device}; kernels run on {', '.join(self.devices)}"
        if product.a_value.dtype != product.b_value.dtype or product.a_value.dtype not in self.dtypes:
            types = f"{product.a_value.dtype} × {product.b_value.dtype}"
            return f"{types}: products of {', '.join(self.dtypes)} are taken"
        for name, value in (("A", product.a_value), ("B", product.b_value)):
            if (reason := _strides(value)) is not None:
                return f"{name}: {reason}"
        refusal = _of_groups(product) if product.form.grouped else None
        least_rows = 0 if product.form.grouped or copied_by(product) else self.least_rows
        return refusal or self._too_small(product, least_rows) or self._not_worth_copies(product)

    def _not_worth_copies(self, product: Product) -> str | None:
        """Why a product with unaligned rows is left; None if it is taken, or if all rows are aligned."""
        copied = copied_by(product)
        if not copied:
            return None
        rows = f"rows of {' and '.join(copied)} are not multiples of {_ALIGNED} bytes"
        batch, m, n, k = (expected(extent) for extent in product.extents)
        if not self.unaligned or product.form.grouped or batch != 1 or m is None or n is None or k is None:
            return f"{rows}; only single products of known extents are taken then"
        elements = {"A": m * k, "B": n * k, "D": m * n}
        least = _OF_COPY * sum(elements[name] for name in copied) + _OF_LAUNCH * len(copied)
        if (_OF_TORCH - 1) * m * n * k >= least:
            return None
        return f"{rows}, and copies would take longer than a kernel of aligned rows saves: {m}×{n}×{k}"

    def gains_by_padding(self, product: Product) -> bool:
        """Whether padding by Inductor, to rows of multiples of 16 bytes, may make a product faster that the rule leaves
        to torch. This is so if memory does not limit the product, and torch's kernel for unpadded rows is estimated to
        lose at least the time of one more launch; also if the size of the product is not known."""
        types = (product.a_value.dtype, product.b_value.dtype, product.value.dtype)
        if product.form.grouped or None in types or self.refusal(product) is None or not copied_by(product):
            return False
        batch, m, n, k = (expected(extent) for extent in product.extents)
        if batch is None or m is None or n is None or k is None:
            return True
        is_limited = m * n * k <= _OF_MEMORY * (m * k + n * k + m * n)
        return not is_limited and (_OF_TORCH - 1) * batch * m * n * k >= _OF_LAUNCH

    def _too_small(self, product: Product, least_rows: int) -> str | None:
        batch, m, n, k = (expected(extent) for extent in product.extents)
        if batch is None or m is None or n is None or k is None:
            return None
        shape = f"{m}×{n}×{k}" if batch == 1 else f"{batch} of {m}×{n}×{k}"
        if 0 in (batch, m, n, k):
            return f"{shape}: it has no elements or no products"
        if min(m, n) < least_rows:
            return f"{shape}: M and N of at least {least_rows} are taken"
        if batch * m * n * k < self.least:
            return f"{shape}: fewer than {self.least} multiplications"
        return None


def _of_groups(product: Product) -> str | None:
    """Why no kernel computes this call of torch._grouped_mm; None if one does."""
    ends, (a, b) = product.of_groups["offs"], (product.a_value, product.b_value)
    of_ends = None if ends is None else value_of(ends)
    if of_ends is None or of_ends.dtype != "s32" or len(a.shape) != 2 or len(b.shape) not in (2, 3):
        return "only groups of rows of A (M, K), or of K, with ends of s32, are taken"
    if a.dtype == "f32":
        return "products of groups of f32 are not taken"
    if product.of_groups["bias"] is not None:
        return "products of groups with a bias are not taken"
    contiguous = (("A", a, "M", 0), ("B", b, "N", 1)) if len(b.shape) == 2 else (("A", a, "K", 1),)
    for name, value, letter, dim in contiguous:
        if not is_one(value.strides[dim]) and not is_one(value.shape[dim]):
            return f"{name} has strides {value.strides}; {letter} must be contiguous in these groups"
    return None


def _strides(value: Value) -> str | None:
    """Why no kernel can read a matrix; None if one can."""
    *_, rows, columns = value.strides
    if not is_one(rows) and not is_one(columns):
        return f"strides {value.strides}: neither rows nor columns are contiguous"
    return None


def copied_by(product: Product) -> tuple[str, ...]:
    """The matrices that a launch copies because of rows that are not multiples of 16 bytes: D if its rows are not; A
    and B if the rows of either are not."""
    of_inputs = ("A", "B") if any(_has_odd_rows(value) for value in (product.a_value, product.b_value)) else ()
    assert product.value.dtype is not None
    return (*of_inputs, "D") if is_odd(product.value.shape[-1], product.value.dtype) else of_inputs


def is_odd(extent: Any, dtype: str) -> bool:
    """Whether rows of `extent` elements are not multiples of 16 bytes; False if the extent is not known."""
    return isinstance(extent, int) and extent * element_type(dtype).bytes % _ALIGNED != 0


def _has_odd_rows(value: Value) -> bool:
    dtype = value.dtype
    assert dtype is not None
    return any(stride not in (0, 1) and is_odd(stride, dtype) for stride in value.strides)
