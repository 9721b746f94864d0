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
    "s8": spec(a="s8", b="s8", d="s8", acc="s32"),
    "f32": spec(d="f32"),
    "f64": spec(dtype="f64", acc="f64"),
    "s32": spec(a="s8", b="s8", d="s32", acc="s32"),
}
WIDTHS = (2, 4, 8, 16)
DIRECT = [(d, width) for d in PROBLEMS for width in WIDTHS if width >= element_type(d).bytes]
ORDER = list(PROBLEMS)
HINTS = [hint for hint in STORE_HINTS[StorePath.direct] if hint is not CacheHint.normal]
# A plain store is another op. A cache operator is a word of an instruction whose form type and width decide: each type
# and each width is tried with both operators.
STORES = [
    *((d, StorePath.direct, width, CacheHint.normal) for d, width in DIRECT),
    *((d, StorePath.direct, width, HINTS[(ORDER.index(d) + WIDTHS.index(width)) % 2]) for d, width in DIRECT),
    *((d, StorePath.smem, 8, HINTS[number % 2]) for number, d in enumerate(ORDER)),
]


@pytest.mark.parametrize("path", [StorePath.direct, StorePath.smem], ids=str)
def test_each_cache_operator_is_tried_with_each_width_and_type_and_each_path(path: Any) -> None:
    found = [(d, width, cache) for d, way, width, cache in STORES if way is path]
    assert {*HINTS, CacheHint.normal} == set(STORE_HINTS[path])
    assert {cache for _, _, cache in found} >= set(HINTS)
    if path is StorePath.direct:
        assert {(width, cache) for _, width, cache in found} >= {(width, hint) for _, width in DIRECT for hint in HINTS}
        assert {(d, cache) for d, _, cache in found} >= {(d, hint) for d in PROBLEMS for hint in HINTS}


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
