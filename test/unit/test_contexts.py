"""MLIR contexts end with what made them: a process that compiles all day does not grow."""

import gc
from collections.abc import Callable

import numpy as np
import pytest
from mlir import ir

import lowtide as lt
from lowtide.dialects.tile.schedule import Schedule

SPEC = lt.GemmSpec(m=32, n=32, k=32, a="f16", b="f16", d="f16")


def compiled() -> None:
    assert lt.compile_gemm(SPEC, target="sm_80").ptx


def interpreted() -> None:
    a = np.ones((32, 32), np.float16)
    lt.compile_gemm(SPEC, target="sm_80").interpret(a, a, level="cta")


def refused() -> None:
    with pytest.raises(lt.Error):
        lt.compile_ir("module { func.func @f() { tile.nothing } }")


@pytest.mark.parametrize("act", [compiled, interpreted, refused, lambda: Schedule.parse("stages = 3")])
def test_no_context_outlives_what_made_it(act: Callable[[], object]) -> None:
    act()
    gc.collect()
    before = ir.Context._get_live_count()
    act()
    gc.collect()
    assert ir.Context._get_live_count() == before
