"""SwiGLU as one kernel, beside Lowtide's plain product of the same A and B, and torch.compile's product and activation.

Operands rotate over sets that together exceed L2. The result of each contender is compared with float64 before it is
timed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.epilogue.gated import swiglu
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
    torch_with_gpu,
)

PLAIN, COMPILED = "plain product", "torch.compile"
_CHECKED_ROWS = 16
_MOST_ERROR = 2.0**-6  # relative to the norm of a row: peers round the product to bf16 before the activation


@dataclass(frozen=True)
class Case:
    """A is (M, K); B is (`both`, K), the rows of gate and then those of up; D is (M, `both` / 2)."""

    m: int
    both: int
    k: int
    dtype: str = "bf16"

    def __str__(self) -> str:
        return f"{self.m}×{self.both}×{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.both * self.k

    @property
    def set_bytes(self) -> int:
        """The bytes of A, B and the result of the plain product."""
        elements = self.m * self.k + self.both * self.k + self.m * self.both
        return elements * element_type(self.dtype).bytes

    @property
    def spec(self) -> GemmSpec:
        """The gated product."""
        dtype, n = self.dtype, self.both // 2
        return GemmSpec(m=self.m, n=n, k=self.k, a=dtype, b=dtype, d=dtype, pairs="stacked", epilogue=swiglu)

    @property
    def plain(self) -> GemmSpec:
        """The product alone, with all columns."""
        return GemmSpec(m=self.m, n=self.both, k=self.k, a=self.dtype, b=self.dtype, d=self.dtype)


CASES = (Case(8192, 28672, 4096), Case(128, 28672, 4096), Case(16, 28672, 4096))


class Race(CaseRace):
    """The times of a case."""

    PEERS = (PLAIN, COMPILED)


HEADINGS = Race.headings("M × N of both × K")


def race_case(case: Case, rounds: int, seed: int, choose_pace: ChoosePace = settled) -> Race:
    """Race the contenders of a case. Raises DeviceError without torch and a GPU."""
    torch = torch_with_gpu()
    torch.cuda.empty_cache()  # of the case before
    found, sets = Race(case), _sets(torch, case, seed)
    expected = _expected(torch, sets[0])
    made = {name: partial(make, found) for name, make in _contenders(torch, case, sets).items()}
    found.run(made, lambda one: _complaint(torch, one, expected), len(sets), (rounds, seed, choose_pace))
    return found


def _sets(torch: Any, case: Case, seed: int) -> list[tuple[Any, Any]]:
    """Sets of random A and B, together larger than L2. One is enough if it is larger alone."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    count = max(1, -(-L2_MULTIPLE_BYTES // case.set_bytes))
    shapes = (case.m, case.k), (case.both, case.k)
    return [tuple(random_matrix(torch, shape, case.dtype, generator) for shape in shapes) for _ in range(count)]


def _contenders(torch: Any, case: Case, sets: Sequence[tuple[Any, Any]]) -> dict[str, Callable[[Race], Launch]]:
    """By name: makes the launch of set i, which returns D."""
    target = native_target()[0].name

    def of_kernel(spec: GemmSpec, race: Race | None) -> Launch:
        kernel = compile_gemm(spec, target)
        out = [torch.full((spec.m, spec.n), torch.nan, dtype=a.dtype, device="cuda") for a, _ in sets]
        if race is not None:
            race.schedule = " ".join(str(kernel.schedule).split())
        return lambda i: kernel(*sets[i], out=out[i])

    def compiled(race: Race) -> Launch:
        def gated(x: Any, weights: Any) -> Any:
            gate, up = (x @ weights.mT).chunk(2, dim=-1)
            return torch.nn.functional.silu(gate) * up

        function = torch.compile(gated, dynamic=False)
        return lambda i: function(*sets[i])

    return {
        OWN: lambda race: of_kernel(case.spec, race),
        PLAIN: lambda race: of_kernel(case.plain, None),
        COMPILED: compiled,
    }


def _expected(torch: Any, one: tuple[Any, Any]) -> tuple[list[int], Any]:
    """Some rows, and their sums in float64: (rows, N of both)."""
    a, b = one
    rows = [0, len(a) - 1, *torch.randperm(len(a))[:_CHECKED_ROWS].tolist()]
    return rows, a[rows].double() @ b.double().mT


def _complaint(torch: Any, contender: Contender, expected: tuple[list[int], Any]) -> str:
    """The fault in the result on the first set, or "": elements that are not written, or rows that are wrong."""
    d: Any = contender.launch(0)
    torch.cuda.synchronize()
    if bool(d.isnan().any()):
        return "elements of D were not written, or are NaN"
    rows, sums = expected
    gate, up = sums.chunk(2, dim=-1)
    wanted = sums if contender.name == PLAIN else torch.nn.functional.silu(gate) * up
    error = ((d[rows].double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max().item()
    return "" if error <= _MOST_ERROR else f"relative error {error:.1e}, more than {_MOST_ERROR:.1e}"
