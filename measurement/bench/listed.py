"""Lists of products of any sizes: `lt.grouped_matmul` of two lists, beside kernels that threads or TMA fill, with their
lists made before, a loop of torch.mm, and, where all products have the same N and K, torch._grouped_mm.

The matrices of a list are parts of one array, which torch._grouped_mm takes without a copy.
Operands rotate over sets that together exceed L2. The result of each contender is compared with float64 before it is
timed. A copy is timed too, of as many bytes as the products must move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.matmul.grouped import grouped_matmul
from lowtide.compiler.native import native_target
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.measurement.bench.case_races import OWN, CaseRace, Launch
from lowtide.measurement.bench.gpu_timing import (
    L2_MULTIPLE_BYTES,
    ChoosePace,
    Contender,
    random_matrix,
    settled,
    tolerance,
    torch_with_gpu,
)
from lowtide.runtime.lists import matrix_list

BY_THREADS, BY_TMA = "a kernel by threads", "a kernel by TMA"
GROUPED_MM, LOOP, COPY = "torch._grouped_mm", "loop of torch.mm", "copy"
_SCHEDULES = {BY_THREADS: "copy = cp.async.16", BY_TMA: "a.copy = tma, b.copy = tma"}
_UNIT = 64  # extents are drawn in multiples of it
_CHECKED_ROWS = 4  # of each product
Size = tuple[int, int, int]


@dataclass(frozen=True)
class ListedCase:
    """`count` products of A (m, k) and B (n, k). M, N and K are each a number, or drawn uniformly between two."""

    count: int
    m: int | tuple[int, int]
    n: int | tuple[int, int]
    k: int | tuple[int, int]
    seed: int = 1
    dtype: str = "bf16"

    def __str__(self) -> str:
        drawn = " × ".join(str(x) if isinstance(x, int) else f"{x[0]} … {x[1]}" for x in (self.m, self.n, self.k))
        return f"{self.count} products of {drawn}"

    @property
    def sizes(self) -> list[Size]:
        """M, N and K of each product."""
        rng = np.random.default_rng(self.seed)

        def drawn(given: int | tuple[int, int]) -> list[int]:
            low, high = (given, given) if isinstance(given, int) else given
            return [int(x) * _UNIT for x in rng.integers(low // _UNIT, high // _UNIT + 1, self.count)]

        return list(zip(drawn(self.m), drawn(self.n), drawn(self.k), strict=True))

    @property
    def flops(self) -> float:
        """Of all products."""
        return 2.0 * sum(m * n * k for m, n, k in self.sizes)

    @property
    def bytes(self) -> int:
        """The bytes of A, B and D."""
        elements = sum(m * k + n * k + m * n for m, n, k in self.sizes)
        return elements * element_type(self.dtype).bytes

    @property
    def is_even(self) -> bool:
        """Whether all products have the same N and K."""
        return isinstance(self.n, int) and isinstance(self.k, int)

    @property
    def spec(self) -> GemmSpec:
        """The problem, whose N and K are known if they are those of all products."""
        n, k = (extent if isinstance(extent, int) else None for extent in (self.n, self.k))
        a = b = d = self.dtype
        return GemmSpec(n=n, k=k, a=a, b=b, d=d, batch=None, counts=True, lists="abd")


CASES = (
    ListedCase(32, (64, 2048), 4096, 2048),
    ListedCase(32, (64, 2048), (512, 4096), (512, 4096)),
    ListedCase(256, (64, 512), (64, 1024), (64, 1024)),
)


class ListedRace(CaseRace):
    """The times of a case."""

    PEERS = (BY_THREADS, BY_TMA, GROUPED_MM, LOOP, COPY)


HEADINGS = ListedRace.headings("products × M × N × K")


@dataclass(frozen=True)
class Products:
    """The matrices A (m, k), B (n, k) and D (m, n) of each product, and the arrays that they are parts of."""

    a: list[Any]
    b: list[Any]
    d: list[Any]
    whole: tuple[Any, Any, Any]


def race_case(case: ListedCase, rounds: int, seed: int, choose_pace: ChoosePace = settled) -> ListedRace:
    """Race the contenders of a case. Raises DeviceError without torch and a GPU."""
    torch = torch_with_gpu()
    torch.cuda.empty_cache()  # of the case before
    found, generator = ListedRace(case), torch.Generator(device="cuda").manual_seed(seed)
    sets = [_set_of(torch, case, generator) for _ in range(max(1, -(-L2_MULTIPLE_BYTES // case.bytes)))]

    def complaint(contender: Contender) -> str:
        return "" if contender.name == COPY else complaint_of(torch, case.dtype, contender, sets[0])

    found.run(_contenders(torch, case, sets), complaint, len(sets), (rounds, seed, choose_pace))
    return found


def _set_of(torch: Any, case: ListedCase, generator: Any) -> Products:
    """A set of matrices. One array has all A, another all B, and a third all D, one matrix after the other."""
    parts, arrays = [], []
    for shapes in ([(m, k) for m, _, k in case.sizes], [(n, k) for _, n, k in case.sizes]):
        drawn = [random_matrix(torch, shape, case.dtype, generator) for shape in shapes]
        array = torch.cat([each.flatten() for each in drawn])
        arrays.append(array)
        parts.append(_cut(array, shapes))
    of_d = [(m, n) for m, n, _ in case.sizes]
    d = torch.full((sum(m * n for m, n in of_d),), float("nan"), dtype=arrays[0].dtype, device="cuda")
    a, b = parts
    return Products(a, b, _cut(d, of_d), (arrays[0], arrays[1], d))


def _cut(array: Any, shapes: Sequence[tuple[int, int]]) -> list[Any]:
    sizes = [rows * columns for rows, columns in shapes]
    return [part.view(shape) for part, shape in zip(array.split(sizes), shapes, strict=True)]


def _contenders(torch: Any, case: ListedCase, sets: Sequence[Products]) -> dict[str, Callable[[], Launch]]:
    """For each contender, a function that makes its launch. A launch returns the list of D, except for the copy."""
    target = native_target()[0].name

    def own(i: int) -> Any:
        one = sets[i]
        return grouped_matmul(one.a, [each.mT for each in one.b], out=one.d)

    def by_kernel(schedule: str | None) -> Launch:
        kernel = compile_gemm(case.spec, target, schedule)
        counts = torch.tensor([m for m, *_ in case.sizes], dtype=torch.int32, device="cuda")
        launches = []
        for one in sets:
            a, b, d = (matrix_list(each) for each in (one.a, one.b, one.d))
            launches.append(kernel.bind(a, b, counts=counts, out=d))

        def launch(i: int) -> Any:
            launches[i]()
            return sets[i].d

        return launch

    def by_torch(i: int) -> Any:
        a, b, _ = sets[i].whole
        product = torch._grouped_mm(a.view(-1, case.k), b.view(case.count, case.n, case.k).mT, offs=ends)
        return product.split([m for m, *_ in case.sizes])

    def loop(i: int) -> Any:
        one = sets[i]
        for a, b, d in zip(one.a, one.b, one.d, strict=True):
            torch.mm(a, b.mT, out=d)
        return one.d

    source, to = (torch.empty(case.bytes // 2, dtype=torch.uint8, device="cuda") for _ in range(2))
    ends = torch.tensor([m for m, *_ in case.sizes], device="cuda").cumsum(0).to(torch.int32)

    def copy(i: int) -> Any:
        return to.copy_(source)

    found: dict[str, Callable[[], Launch]] = {OWN: lambda: own, LOOP: lambda: loop, COPY: lambda: copy}
    found |= {name: partial(by_kernel, schedule) for name, schedule in _SCHEDULES.items()}
    return found | ({GROUPED_MM: lambda: by_torch} if case.is_even else {})


def complaint_of(torch: Any, dtype: str, contender: Contender, one: Products) -> str:
    """What is wrong with the results on a set, or "": elements that are not written, wrong values in sampled rows."""
    one.whole[2].fill_(float("nan"))
    found: Any = contender.launch(0)
    torch.cuda.synchronize()
    for number, (a, b, d) in enumerate(zip(one.a, one.b, found, strict=True)):
        if not d.numel():
            continue
        if bool(d.isnan().any()):
            return f"elements of product {number} were not written, or are NaN"
        most = tolerance(dtype, "f32", a.shape[1], d=dtype)
        for row in {0, d.shape[0] - 1, *torch.randperm(d.shape[0])[:_CHECKED_ROWS].tolist()}:
            expected = b.double() @ a[row].double()
            error = ((d[row].double() - expected).norm() / expected.norm().clamp(min=1e-30)).item()
            if error > most:
                return f"row {row} of product {number}: relative error {error:.1e}, more than {most:.1e}"
    return ""
