"""Padded groups: `lt.grouped_matmul` with counts of rows, beside torch.bmm of all rows, and a loop of torch.mm of the
rows that count, which needs the counts on the host.

Operands rotate over sets that together exceed L2. The result of each contender is compared with float64 before it is
timed. A copy is timed too, of as many bytes as the rows that count must move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.compiler.matmul.grouped import grouped_matmul
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
from lowtide.measurement.bench.listed import Products, complaint_of

BMM, LOOP, COPY = "torch.bmm of all rows", "loop of torch.mm", "copy"


@dataclass(frozen=True)
class PaddedCase:
    """Each group of A (groups, `most`, K) has the first rows of its matrix: a number drawn uniformly from 0 to twice
    `mean`, at most `most`. B is (groups, N, K) and D (groups, `most`, N)."""

    groups: int
    most: int
    mean: int
    n: int
    k: int
    seed: int = 1
    dtype: str = "bf16"

    def __str__(self) -> str:
        return f"{self.groups} × (0 … {2 * self.mean} of {self.most} rows) × {self.n} × {self.k}"

    @property
    def counts(self) -> list[int]:
        """The rows of each group."""
        drawn = np.random.default_rng(self.seed).integers(0, 2 * self.mean + 1, self.groups)
        return [min(int(count), self.most) for count in drawn]

    @property
    def flops(self) -> float:
        """Of the rows that count."""
        return 2.0 * sum(self.counts) * self.n * self.k

    @property
    def bytes(self) -> int:
        """The bytes of the rows of A and D that count, and of the matrices of groups that have rows."""
        used = sum(count > 0 for count in self.counts)
        elements = sum(self.counts) * (self.k + self.n) + used * self.n * self.k
        return elements * element_type(self.dtype).bytes


# Products of mixtures of experts, at decoding and at prefill.
CASES = (
    PaddedCase(64, 256, 16, 4096, 7168),
    PaddedCase(64, 1024, 256, 4096, 2048),
    PaddedCase(8, 4096, 2048, 7168, 2048),
)


class PaddedRace(CaseRace):
    """The times of a case."""

    PEERS = (BMM, LOOP, COPY)


HEADINGS = PaddedRace.headings("groups × rows × N × K")


def race_case(case: PaddedCase, rounds: int, seed: int, choose_pace: ChoosePace = settled) -> PaddedRace:
    """Race the contenders of a case. Raises DeviceError without torch and a GPU."""
    torch = torch_with_gpu()
    torch.cuda.empty_cache()  # of the case before
    found, generator = PaddedRace(case), torch.Generator(device="cuda").manual_seed(seed)
    sets = [_set_of(torch, case, generator) for _ in range(max(1, -(-L2_MULTIPLE_BYTES // case.bytes)))]

    def complaint(contender: Contender) -> str:
        return "" if contender.name == COPY else complaint_of(torch, case.dtype, contender, sets[0])

    made = {name: lambda launch=launch: launch for name, launch in _launches(torch, case, sets).items()}
    found.run(made, complaint, len(sets), (rounds, seed, choose_pace))
    return found


def _set_of(torch: Any, case: PaddedCase, generator: Any) -> Products:
    """Whole arrays A, B and D, and the parts of them that count."""
    a = torch.stack([random_matrix(torch, (case.most, case.k), case.dtype, generator) for _ in range(case.groups)])
    b = torch.stack([random_matrix(torch, (case.n, case.k), case.dtype, generator) for _ in range(case.groups)])
    d = torch.full((case.groups, case.most, case.n), float("nan"), dtype=a.dtype, device="cuda")
    first = [x[number, :count] for x in (a, d) for number, count in enumerate(case.counts)]
    return Products(first[: case.groups], list(b), first[case.groups :], (a, b, d))


def _launches(torch: Any, case: PaddedCase, sets: Sequence[Products]) -> dict[str, Callable[[int], Any]]:
    """Launches of set i, by contender. Each returns the rows of D that count, except for the copy."""
    counts = torch.tensor(case.counts, dtype=torch.int32, device="cuda")
    source, to = (torch.empty(case.bytes // 2, dtype=torch.uint8, device="cuda") for _ in range(2))

    def own(i: int) -> Any:
        a, b, d = sets[i].whole
        grouped_matmul(a, b.mT, counts=counts, expected_rows=case.mean, out=d)
        return sets[i].d

    def bmm(i: int) -> Any:
        a, b, d = sets[i].whole
        torch.bmm(a, b.mT, out=d)
        return sets[i].d

    def loop(i: int) -> Any:
        one = sets[i]
        for a, b, d in zip(one.a, one.b, one.d, strict=True):
            if d.shape[0]:
                torch.mm(a, b.mT, out=d)
        return one.d

    def copy(i: int) -> Any:
        return to.copy_(source)

    launches: dict[str, Launch] = {OWN: own, BMM: bmm, LOOP: loop, COPY: copy}
    return launches
