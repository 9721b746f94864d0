"""Stores of each width, on each path of threads, with each cache operator, give the problem's D at every level."""

from typing import Any

import pytest
from compiled import spec

import lowtide as lt
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.tile import CacheHint, StorePath
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.epilogue import STORE_HINTS
from lowtide.targets import get
from lowtide.verification.checking.trials import Finding, Source, Trial, domains_of, outcomes

_LEVELS = ("epilogue", "nvvm", "llvm", "ptx")
PROBLEMS: dict[str, Any] = {
    "bf16": spec(),
    "f32": spec(d="f32"),
    "f64": spec(dtype="f64", acc="f64"),
    "s32": spec(a="s8", b="s8", d="s32", acc="s32"),
    "s8": spec(a="s8", b="s8", d="s8", acc="s32"),
}
STORES = [
    (d, path, width, cache)
    for d in PROBLEMS
    for path in (StorePath.direct, StorePath.smem)
    for width in (2, 4, 8, 16)
    for cache in STORE_HINTS[path]
    if width >= element_type(d).bytes and (path is StorePath.direct or (width == 8 and cache is not CacheHint.normal))
]


@pytest.mark.parametrize(("d", "path", "width", "cache"), STORES, ids=str)
def test_a_store_of_each_width_and_cache_operator_is_right_at_each_level(
    d: str, path: Any, width: int, cache: Any
) -> None:
    problem, target = PROBLEMS[d], get("sm_80")
    fields = {"grid.tile": "[32, 32]", "epilogue.path": path, "epilogue.store": width, "epilogue.cache": cache}
    schedule = ", ".join(f"{field} = {word}" for field, word in fields.items())
    kernel = lt.compile_gemm(problem, target=target.name, schedule=schedule)
    text = problem_text(problem, target)
    extents = (33, 31, 16)
    sources = [
        Source(level, kernel.ptx if level == "ptx" else kernel.levels[level], "", kernel.levels["llvm"])
        for level in _LEVELS
    ]
    strongest = domains_of(text, extents)[0]
    found = list(outcomes(text, sources, Trial(extents, domain=strongest)))
    assert [(each.level, each.finding, each.message) for each in found if each.finding is not Finding.right] == []
