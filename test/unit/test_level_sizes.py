"""The levels that people read stay readable: short, and each reads back to itself."""

import pytest

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.targets import get

READ_LEVELS = [level for level in Level if level <= Level.EPILOGUE]


@pytest.fixture(scope="module")
def default_kernel() -> Lowered:
    """The default kernel of 4096³, down to level epilogue."""
    spec = GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16")
    return lower(problem_text(spec, get("sm_80")), until=Level.EPILOGUE)


@pytest.mark.parametrize("level", READ_LEVELS, ids=str)
def test_a_level_of_the_default_kernel_prints_in_less_than_200_lines(default_kernel: Lowered, level: Level) -> None:
    assert len(default_kernel.levels[str(level)].splitlines()) < 200


@pytest.mark.parametrize("level", READ_LEVELS, ids=str)
def test_a_level_of_the_default_kernel_reads_back_to_itself(default_kernel: Lowered, level: Level) -> None:
    text = default_kernel.levels[str(level)]
    assert str(parse_text(text, make_context(), "<test>")) == text
