"""The ladders in the documentation: the problem of each, and the targets of its presets."""

from dataclasses import dataclass
from typing import Any

from lowtide.compiler.presets import Preset, ladder_of
from lowtide.compiler.spec import GemmSpec
from lowtide.measurement.bench.torch_matmul import product_of
from lowtide.targets import accumulator_types


@dataclass(frozen=True)
class LadderPage:
    """docs/NAME.md: the presets of the targets, in this order, on one problem."""

    name: str
    heading: str
    targets: tuple[str, ...]
    spec: GemmSpec

    def presets(self) -> dict[str, Preset]:
        """Its rows."""
        return {name: preset for target in self.targets for name, preset in ladder_of(target, self.spec.a).items()}


def product(dtype: str, m: int, n: int, k: int, acc: str | None = None, **others: Any) -> GemmSpec:
    """A and B of one type, D of that type or the one that torch returns; `acc` is by default the first accumulator type
    of the mma instructions. `others`: fields of the spec, such as `layout`."""
    sums, d = acc or accumulator_types(dtype, dtype)[0], next(iter(product_of(dtype).d), dtype)
    return GemmSpec(m=m, n=n, k=k, a=dtype, b=dtype, d=d, acc=sums, **others)


def cube(dtype: str, extent: int, acc: str | None = None, **others: Any) -> GemmSpec:
    """A product with three equal extents."""
    return product(dtype, extent, extent, extent, acc, **others)


LADDER_PAGES = (
    LadderPage("ladder-4096", "The ladder of sm_90a at 4096³", ("sm_90a",), cube("bf16", 4096)),
    LadderPage("ladder-8192", "The ladder of sm_90a at 8192³", ("sm_90a",), cube("bf16", 8192)),
    LadderPage("ladder-sm80", "The ladder of sm_80 at 4096³", ("sm_80",), cube("bf16", 4096)),
    LadderPage("ladder-f32", "The ladder of f32 at 4096³", ("sm_80",), cube("f32", 4096)),
    LadderPage("ladder-f64", "The ladder of f64 at 4096³", ("sm_80", "sm_90a"), cube("f64", 4096)),
    LadderPage("ladder-fp8", "The ladder of e4m3 at 8192³", ("sm_89", "sm_90a"), cube("e4m3", 8192)),
)
