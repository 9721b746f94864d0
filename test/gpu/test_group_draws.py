"""The draws of test_random_groups_gpu.py: how many, that every word and every split is there, and some of them at small
sizes on the interpreter. No GPU."""

import pytest
from group_draws import EPILOGUES, KERNELS, KINDS, LAYOUTS, ROADS, RUNS, TYPES, draws

from lowtide.verification.checking.interpretation import run
from lowtide.verification.checking.splits import COUNTS, SPLITS
from lowtide.verification.checking.verdicts import against_float64


def test_at_least_300_runs_of_different_kernels_are_drawn() -> None:
    drawn = draws()
    combinations = {(*each.words, number) for each in drawn for number in range(RUNS)}
    print(f"{len(combinations)} combinations of kernel and split, of {KERNELS} kernels")
    assert len(combinations) == KERNELS * RUNS >= 300


def test_every_word_and_every_split_is_drawn() -> None:
    drawn = draws()
    for place, words in enumerate((KINDS, TYPES, LAYOUTS, ROADS, EPILOGUES)):
        assert {each.words[place] for each in drawn} == {*words}
    named = {each.spec.counts: set() for each in drawn}
    for each in drawn:
        named[each.spec.counts] |= {each.split(number) for number in range(RUNS)}
    assert named == {False: {None, *SPLITS}, True: {None, *COUNTS}}


@pytest.mark.parametrize("number", [0, 9, 14, 18, 23, 27, 36])  # of different kinds of groups
def test_small_ones_agree_on_the_interpreter(number: int) -> None:
    drawn = draws()[number]
    kernel = drawn.kernel(small=True)
    for each in range(2):
        given = drawn.inputs(each, drawn.unit(kernel), small=True)
        found = run(kernel.levels["atoms"], drawn.spec, given, sms=2)
        verdict = against_float64(drawn.spec, given, found)
        assert verdict.ok, (str(drawn), drawn.split(each), verdict.message)
