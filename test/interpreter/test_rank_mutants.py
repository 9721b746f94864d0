"""Faults that `lowtide mutate` plants in kernels on several ranks: each is found, and right kernels have no finding."""

from dataclasses import replace
from functools import cache

import pytest

from lowtide.compiler.driver import Lowered, lower
from lowtide.verification.mutation.detectors import find
from lowtide.verification.mutation.kernels import KERNELS
from lowtide.verification.mutation.kernels.ranks import RANKS as ON_RANKS
from lowtide.verification.mutation.operators.operator import Operator
from lowtide.verification.mutation.operators.ranks import RANKS
from lowtide.verification.mutation.sites import sites

LEVELS = (("sm80-shards", ("ptx",)), ("sm90-shards", ("cta", "nvvm", "llvm")), ("sm80-sends", ("ptx",)))
CASES = [
    (name, level, operator)
    for name, levels in LEVELS
    for level in levels
    for operator in RANKS
    if level in operator.levels and (" sent" in operator.name) is (name == "sm80-sends")
]


@cache
def lowered(name: str) -> Lowered:
    return lower(KERNELS[name].problem())


@pytest.mark.parametrize(("name", "level", "operator"), CASES, ids=lambda each: getattr(each, "name", each))
def test_a_fault_of_a_wait_or_of_a_sent_shard_is_found(name: str, level: str, operator: Operator) -> None:
    text = lowered(name).levels[level]
    places = sites(operator, text)
    assert places
    faulty = operator.edit(text, places[0])
    assert faulty is not None and faulty != text
    found = find(KERNELS[name], level, faulty, lowered(name))
    assert found is not None and "3 ranks" in found.why


@pytest.mark.parametrize("name", [kernel.name for kernel in ON_RANKS])
def test_a_right_kernel_has_no_finding(name: str) -> None:
    once = replace(KERNELS[name], trials=KERNELS[name].trials[:1])
    assert find(once, "cta", lowered(name).levels["cta"], lowered(name)) is None
