"""The peers of benchmarks/grouped.py on the CPU: the check takes their results, and finds a wrong element."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.measurement.bench import grouped
from lowtide.measurement.bench.gpu_timing import Contender
from lowtide.measurement.bench.grouped import GROUPED_MM, LOOP, Case

torch = pytest.importorskip("torch", reason="torch is not installed; pip install torch")


CASES = (
    Case(3, 30, 8, 16, False),
    Case(3, 30, 8, 16, False, is_gated=True),
    Case(3, 30, 8, 16, False, tokens=15),
)


def of_torch(case: Case, contender: str) -> list[str]:
    """The complaints about a contender on the CPU, and about the same with one element of its result changed."""
    ends = case.ends(1)
    of_a, of_b = (case.tokens or case.rows, case.k), (case.groups, case.n, case.k)
    a, b = (torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16() for shape in (of_a, of_b))
    index = torch.from_numpy(case.index(1)) if case.tokens else None
    d = torch.empty(case.rows, case.columns).bfloat16()
    one = grouped._Set(a, b, d, torch.tensor(ends, dtype=torch.int32), index)
    launch = grouped._launches(torch, case, [one], ends, "sm_90a")[contender]

    def wrong(i: int) -> Any:
        found = launch(i).clone()
        found.flatten(0, -2)[0, 0] += 1000
        return found

    return [grouped._complaint(torch, case, Contender("", tried), (one, ends)) for tried in (launch, wrong)]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("contender", [LOOP, GROUPED_MM])
def test_peers_pass_the_check_and_a_wrong_element_does_not(case: Case, contender: str) -> None:
    right, wrong = of_torch(case, contender)
    assert not right and wrong.startswith("row 0, of group")
