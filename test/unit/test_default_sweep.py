"""A few problems that `test/sweep_defaults.py` draws compile by their defaults, and their code spills nothing."""

from pathlib import Path

import pytest
from sweep_defaults import _left, drawn, tried

pytestmark = pytest.mark.code_at_once

# The first choice for each of these problems spills, or once no choice had good code.
SPILLED = (13, 34, 39, 234, 318, 414, 671, 200336)
OTHERS = (2, 3, 15, 20, 24, 35, 200545, 300689, 9290082, 9290106)  # the last two have several results


@pytest.mark.parametrize("number", (*SPILLED, *OTHERS))
def test_a_problem_compiles_by_its_defaults(number: int) -> None:
    found = tried(number)
    assert found.message == "", found


def test_a_journal_whose_last_line_was_cut_off_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "sweep.jsonl"
    journal.write_text('{"number": 7}\n{"numb')
    assert list(_left(6, 3, journal)) == [6, 8] and journal.read_text() == '{"number": 7}\n'


def test_a_number_draws_the_same_problem_again() -> None:
    assert [drawn(number) for number in range(20)] == [drawn(number) for number in range(20)]
