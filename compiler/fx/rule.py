"""Which products are worth a kernel of ours beside the one that Inductor would call.

The rule is on what is known when the graph is compiled: types, strides, extents. docs/pytorch.md has the measurements.
"""

from dataclasses import dataclass

from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.regions import Region
from lowtide.compiler.fx.values import Value, expected, is_one
from lowtide.elements import element_type
from lowtide.errors import SpecError

MOST_FULL = 4  # tensors of D's size that an epilogue reads
_FULL = ("none", "alone", "any")
_ALIGNED = 16  # bytes: what TMA asks of strides, and of rows of D


@dataclass(frozen=True)
class Rule:
    """Which products are taken, and with what.

    `dtypes`: the element types of A and B, equal. `devices`: where tensors are. `least_rows`: products with a smaller M
    or N are left, as are those with fewer than `least` multiplications. `full`: where epilogues read tensors of D's
    size: "none", nowhere; "alone", where only results of the graph, products and attention read what they compute, so
    that a kernel of Inductor's would be for them alone; "any", everywhere. `left`: ops that no epilogue
    computes, since it takes longer there, while nothing multiplies, than a kernel of Inductor's does.

    Raises SpecError for another word.
    """

    dtypes: tuple[str, ...] = ("bf16", "f16")
    devices: tuple[str, ...] = ("cuda",)
    least_rows: int = 1024
    least: int = 2**26
    full: str = "none"
    left: tuple[str, ...] = ("aten.erf.default",)

    def __post_init__(self) -> None:
        if self.full not in _FULL:
            raise SpecError(f"full={self.full!r}; it is one of {', '.join(_FULL)} [rule-full]")

    def most_full(self, region: Region) -> int:
        """How many tensors of D's size the epilogue of a region may read."""
        return MOST_FULL if self.full == "any" or (self.full == "alone" and region.is_read_by_no_kernel) else 0

    def refusal_of_ops(self, region: Region) -> str | None:
        """Why the ops of a region are not computed in an epilogue; None where they are."""
        found = next((str(node.target) for node in region.nodes if str(node.target) in self.left), None)
        return None if found is None else f"{found} takes less time in a kernel of Inductor's"

    def refusal(self, product: Product) -> str | None:
        """Why a product is left; None where it is taken."""
        for name, value in (("A", product.a_value), ("B", product.b_value), ("D", product.value)):
            if value.device not in self.devices:
                return f"{name} is on {value.device}; kernels run on {', '.join(self.devices)}"
        if product.a_value.dtype != product.b_value.dtype or product.a_value.dtype not in self.dtypes:
            types = f"{product.a_value.dtype} × {product.b_value.dtype}"
            return f"{types}: products of {', '.join(self.dtypes)} are taken"
        for name, value in (("A", product.a_value), ("B", product.b_value)):
            if (reason := _strides(value)) is not None:
                return f"{name}: {reason}"
        return _rows_of_d(product.value) or self._too_small(product)

    def _too_small(self, product: Product) -> str | None:
        batch, m, n, k = (expected(extent) for extent in product.extents)
        if batch is None or m is None or n is None or k is None:
            return None
        shape = f"{m}×{n}×{k}" if batch == 1 else f"{batch} of {m}×{n}×{k}"
        if 0 in (batch, m, n, k):
            return f"{shape}: it has no elements or no products"
        if min(m, n) < self.least_rows:
            return f"{shape}: M and N of at least {self.least_rows} are taken"
        if batch * m * n * k < self.least:
            return f"{shape}: fewer than {self.least} multiplications"
        return None


def _strides(value: Value) -> str | None:
    """Why no kernel reads a matrix as it lies without copying it."""
    *_, rows, columns = value.strides
    if not is_one(rows) and not is_one(columns):
        return f"strides {value.strides}: neither rows nor columns are contiguous"
    assert value.dtype is not None
    size = element_type(value.dtype).bytes
    apart = [stride for stride in value.strides if isinstance(stride, int) and stride not in (0, 1)]
    if any(stride * size % _ALIGNED for stride in apart):
        return f"strides {value.strides} are not multiples of {_ALIGNED} bytes"
    return None


def _rows_of_d(value: Value) -> str | None:
    assert value.dtype is not None
    columns = value.shape[-1]
    if isinstance(columns, int) and columns * element_type(value.dtype).bytes % _ALIGNED:
        return f"rows of D have {columns} elements, no multiple of {_ALIGNED} bytes"
    return None
