"""Estimates of kernels that are not compiled."""

from typing import Any

import lowtide as lt
from lowtide import targets
from lowtide.compiler.chosen import chosen_cycles


def _cycles(k: int, **more: Any) -> float:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", m=2048, n=4096, k=k, **more)
    return chosen_cycles(spec, targets.get("sm_90a"))


def test_more_work_takes_more_cycles() -> None:
    one = _cycles(1024)
    assert 1.7 * one < _cycles(2048) < 2.1 * one
    assert 3.0 * one < _cycles(1024, batch=4) < 4.2 * one
