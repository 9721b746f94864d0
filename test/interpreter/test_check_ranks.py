"""`lowtide check --ranks`: right kernels on several ranks, and one that reads its flags at the scope of one GPU."""

from dataclasses import replace
from functools import cache

import pytest

import lowtide as lt
from lowtide.errors import SpecError
from lowtide.verification.checking.ranks import (
    FAULTS,
    IN_ORDER,
    OF_COPIES,
    OF_SUMS,
    ONE_SLOT,
    WRONG_PLACE,
    check_ranks,
    lines,
)
from lowtide.verification.checking.subjects import Subject, of_kernel

TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}


@cache
def subject(lists: str | None = None) -> Subject:
    """As test_ranks.py and test_peers.py compile it; levels cta, llvm and ptx."""
    spec = lt.GemmSpec(batch=None, arrivals=True, lists=lists, **TYPES)
    whole = of_kernel(lt.compile_gemm(spec, "sm_80", "grid.tile = [32, 32], k = 32, stages = 2"))
    return replace(whole, levels={level: whole.levels[level] for level in ("cta", "llvm", "ptx")})


@pytest.mark.parametrize(("lists", "more"), [(None, ()), ("d", (ONE_SLOT,))])
def test_all_levels_are_right_and_all_faults_are_found(lists: str | None, more: tuple[str, ...]) -> None:
    runs = check_ranks(subject(lists), 2)
    assert all(run.ok for run in runs)
    by_copies = {("cta", of + name) for of in (OF_COPIES, OF_SUMS) for name in (*FAULTS, WRONG_PLACE) if lists}
    assert {(run.level, run.copies) for run in runs} == by_copies | {
        (level, copies) for level in ("cta", "llvm", "ptx") for copies in (IN_ORDER, *FAULTS, WRONG_PLACE, *more)
    }
    assert [text.split()[0] for text in lines(runs)] == ["cta", "llvm", "ptx"]


def test_a_kernel_that_reads_flags_at_a_narrow_scope_is_not_right() -> None:
    ptx = subject().levels["ptx"]
    narrow = replace(subject(), levels={**subject().levels, "ptx": ptx.replace("ld.acquire.sys", "ld.acquire.gpu")})
    runs = check_ranks(narrow, 2)
    assert {run.level for run in runs if not run.ok} == {"ptx"}
    assert any(r"widen them to .sys" in text for text in lines(runs))


def test_a_kernel_that_stores_all_parts_to_one_owner_is_not_right() -> None:
    text = subject("d").levels["cta"].replace("into %D[%batch,", "into %D[%c0,")
    runs = check_ranks(replace(subject("d"), levels={"cta": text}), 2)
    assert any(run.copies == IN_ORDER and not run.ok and "race" in run.message for run in runs)


def test_other_kernels_and_numbers_of_ranks_are_refused() -> None:
    with pytest.raises(SpecError, match=r"\[check-ranks-number\]"):
        check_ranks(subject(), 1)
    for fixed, code in (({"batch": 17}, "check-ranks-batch"), ({"batch": 2, "k": 0}, "check-ranks-empty")):
        kernel = lt.compile_gemm(lt.GemmSpec(arrivals=True, **fixed, **TYPES), "sm_80", "grid.tile = [32, 32], k = 32")
        with pytest.raises(SpecError, match=rf"\[{code}\]"):
            check_ranks(of_kernel(kernel), fixed["batch"])
    plain = lt.compile_gemm(lt.GemmSpec(batch=None, **TYPES), "sm_80", "grid.tile = [32, 32], k = 32, stages = 2")
    with pytest.raises(SpecError, match=r"\[check-ranks-arrivals\]"):
        check_ranks(of_kernel(plain), 2)


def test_shards_that_arrive_cannot_be_tuned_yet() -> None:
    with pytest.raises(SpecError, match=r"\[arrivals-tuned\]"):
        lt.tune(lt.GemmSpec(batch=2, arrivals=True, **TYPES), "sm_90a")
