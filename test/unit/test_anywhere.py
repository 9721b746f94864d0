"""What a kernel is compiled once more for, when matrices come that its schedule cannot take where they lie."""

from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler import driver
from lowtide.compiler.anywhere import packing
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.targets import get

pytestmark = pytest.mark.code_at_once

SPEC = lt.GemmSpec(m=64, n=64, k=64, a="bf16", b="bf16", d="bf16")


def packed(fields: str) -> str | None:
    """The schedule that packs, if any, of a kernel with these fields."""
    fixed = Schedule.parse(f"grid.tile = [64, 64], roles = cooperative(1), stages = 2, {fields}")
    lowered = driver.lower(problem_text(SPEC, get("sm_90a"), fixed), target="sm_90a", until=Level.PROBLEM)
    found = packing(lowered)
    return None if found is None else found.levels[str(Level.PROBLEM)]


def test_what_the_schedule_leaves_open_is_packed() -> None:
    text = packed("a.pack = none")
    assert text is not None
    assert text.count("pack = rows") == 2  # B and D
    assert text.count("pack = none") == 1


def test_a_schedule_that_packs_nothing_by_its_own_words_stays() -> None:
    assert packed("a.pack = none, b.pack = none, epilogue.pack = none") is None


def test_threads_store_the_elements_of_a_d_that_cannot_be_packed() -> None:
    """D lies by columns as a kernel with swapped operands computes it."""
    text = packed("operands = swapped, epilogue.path = tma")
    assert text is not None
    assert text.count("pack = rows") == 2  # A and B
    assert "path = direct" in text
    text = packed("operands = swapped, epilogue.path = tma, epilogue.pack = none")
    assert text is not None and "path = tma" in text


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas, which counts spills")
def test_a_smaller_tile_is_chosen_if_ptxas_spills() -> None:
    """Rows of D at an index cannot be packed, and stores of single elements need more registers beside reductions."""

    def epilogue(acc: Any, weight: lt.PerRow) -> Any:
        return {"d": acc * weight, "sums": lt.sum(acc, dim=1), "most": lt.amax(acc * weight, dim=1)}

    spec = lt.GemmSpec(groups=None, a="bf16", b="bf16", d="f32", d_rows=True, epilogue=epilogue)
    own = problem_text(spec, get("sm_90a"), Schedule.parse("grid.tile = [128, 256]"))
    found = packing(driver.lower(own, target="sm_90a", until=Level.PROBLEM))
    assert found is not None
    kernel = lt.compile_ir(found.levels["problem"], target="sm_90a")
    assert kernel.assembly is not None
    assert kernel.schedule.grid.tile[1] < 256
    assert str(kernel.schedule.epilogue.path) == "direct"
