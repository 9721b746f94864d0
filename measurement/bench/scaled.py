"""Products of 8-bit floats with scales beside torch._scaled_mm: A and B of e4m3, D of bf16, tn.

Scales are per tensor, per row of A and of B, or per block: 1×128 of A and 128×128 of B. Sums are the tensor cores' own
(fast), or sums of at most 128 products are added in f32; torch has both as `use_fast_accum`. Before it is timed, D of
each contender is compared with float64 on sampled rows.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.operands import PerColumn, PerRow, Scalar
from lowtide.compiler.spec import GemmSpec
from lowtide.measurement.bench.gpu_timing import (
    CHECKED_ROWS,
    Contender,
    Operands,
    operand_sets,
    race,
    torch_with_gpu,
)

Size = tuple[int, int, int]
Launch = Callable[[int], Any]  # takes the index of the operand set

SUMS = ("fast", "f32")
SCALES = ("tensor", "rows", "blocks")
MOST_ERROR = {"fast": 6e-3, "f32": 2.5e-3}  # relative, for D in bf16 of normal operands up to K = 16384, on an H200
BLOCK = 128  # of K, and of the columns of B; torch needs the rows of B's scales at multiples of four blocks
ROW_OF_BLOCKS = 4

if TYPE_CHECKING:
    _ROW_SCALES = Any
    _COLUMN_SCALES = Any
else:  # annotations for the tracer, not types
    _ROW_SCALES, _COLUMN_SCALES = PerRow["f32"], PerColumn["f32"]


def by_tensor(acc: Any, scale_a: Scalar, scale_b: Scalar) -> Any:
    return acc * scale_a * scale_b


def by_rows(acc: Any, scale_a: _ROW_SCALES, scale_b: _COLUMN_SCALES) -> Any:
    return acc * scale_a * scale_b


EPILOGUES: Mapping[str, Callable[..., Any] | None] = MappingProxyType(
    {"tensor": by_tensor, "rows": by_rows, "blocks": None}
)


def asked(kinds: Collection[str]) -> list[tuple[str, str]]:
    """The supported pairs of sums and scales: with block scales, sums of blocks are added in f32."""
    return [(sums, kind) for sums in SUMS for kind in SCALES if kind in kinds and (sums, kind) != ("fast", "blocks")]


def problem(size: Size, sums: str, kind: str) -> GemmSpec:
    """The product with one kind of scales."""
    m, n, k = size
    blocks = BlockScales() if kind == "blocks" else None
    epilogue = EPILOGUES[kind]
    return GemmSpec(m=m, n=n, k=k, a="e4m3", b="e4m3", d="bf16", acc=sums, epilogue=epilogue, block_scales=blocks)


def scales(torch: Any, kind: str, size: Size) -> tuple[Any, Any]:
    """Scales of A and of B, about 1, as torch takes them. Block scales are (M, K / 128) and (K / 128, N / 128), with M
    and K contiguous."""
    m, n, k = size
    if kind == "tensor":
        return torch.full((), 0.75, device="cuda"), torch.full((), 1.5, device="cuda")
    if kind == "rows":
        return tuple(torch.rand(shape, device="cuda") + 0.5 for shape in ((m, 1), (1, n)))
    blocks = -(-k // BLOCK)
    row = -(-blocks // ROW_OF_BLOCKS) * ROW_OF_BLOCKS
    of_a, of_b = (torch.rand(shape, device="cuda") + 0.5 for shape in ((blocks, m), (-(-n // BLOCK), row)))
    return of_a.t(), of_b[:, :blocks].t()


def as_taken(kind: str, scale: Any) -> Any:
    """A scale as Lowtide takes it, made from torch's."""
    if kind == "blocks":
        return scale.t()
    return scale.item() if scale.ndim == 0 else scale.reshape(-1)


def scaled(one: Any, kind: str, scale: Any, is_b: bool) -> Any:
    """Rows of A, or of B = (N, K), in float64, multiplied by their scales."""
    if kind != "blocks":
        return one.double() * (scale.double().t() if is_b and scale.ndim else scale.double())
    by_row = scale.t().repeat_interleave(BLOCK, 0)[: one.shape[0]] if is_b else scale
    return one.double() * by_row.double().repeat_interleave(BLOCK, 1)[:, : one.shape[1]]


@dataclass(frozen=True)
class Case:
    """A kernel that is timed."""

    name: str
    sums: str
    kind: str
    kernel: Any


def raced(
    size: Size, kinds: Collection[str], cases: Iterable[Case], rounds: int, seed: int, say: Callable[[str], None]
) -> dict[tuple[str, str], list[Contender]]:
    """torch's kernel and the given ones, timed together, by sums and kind of scales. A wrong kernel is reported by
    `say` and left out. Raises DeviceError."""
    torch = torch_with_gpu()
    sets = operand_sets(problem(size, "f32", "tensor"), seed)
    given = {kind: scales(torch, kind, size) for kind in kinds}
    found: dict[tuple[str, str], list[Contender]] = {}

    def add(name: str, sums: str, kind: str, launch: Launch) -> None:
        contender = Contender(name, launch)
        error = error_of(torch, contender, sets, kind, *given[kind])
        if error < MOST_ERROR[sums]:
            found.setdefault((sums, kind), []).append(contender)
        else:
            say(f"{name}: left out: relative error {error:.1e}")

    for sums, kind in asked(kinds):
        add(f"torch {sums} {kind}", sums, kind, of_torch(torch, sets, sums == "fast", *given[kind]))
    for case in cases:
        add(case.name, case.sums, case.kind, of_kernel(sets, case.kernel, case.kind, *given[case.kind]))
    race([one for each in found.values() for one in each], len(sets), rounds, seed)
    return found


def of_torch(torch: Any, sets: Sequence[Operands], fast: bool, scale_a: Any, scale_b: Any) -> Launch:
    """The launches of torch's product with scales, for each operand set."""

    def launch(i: int) -> None:
        one = sets[i]
        given = {"scale_a": scale_a, "scale_b": scale_b, "out_dtype": one.d.dtype, "use_fast_accum": fast}
        torch._scaled_mm(one.a, one.b.t(), **given, out=one.d)

    return launch


def of_kernel(sets: Sequence[Operands], kernel: Any, kind: str, scale_a: Any, scale_b: Any) -> Launch:
    """The launches of a kernel of `problem`, or of a function with its signature, with torch's scales."""

    a, b = as_taken(kind, scale_a), as_taken(kind, scale_b)

    def launch(i: int) -> None:
        kernel(sets[i].a, sets[i].b, scale_a=a, scale_b=b, out=sets[i].d)

    return launch


def error_of(
    torch: Any, contender: Contender, sets: Sequence[Operands], kind: str, scale_a: Any, scale_b: Any
) -> float:
    """The relative error of sampled rows of D; NaN if an element was not written."""
    one = sets[0]
    one.d.fill_(float("nan"))
    contender.launch(0)
    rows = torch.randperm(one.d.shape[0], device="cuda")[:CHECKED_ROWS]
    of_rows = scale_a[rows] if scale_a.ndim else scale_a
    expected = scaled(one.a[rows], kind, of_rows, False) @ scaled(one.b, kind, scale_b, True).t()
    whole = float("nan") if bool(one.d.isnan().any()) else 1.0
    return float((one.d[rows].double() - expected).norm() / expected.norm()) * whole
