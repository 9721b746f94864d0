"""The draws of test_random_features.py: how many, and that every feature is there, alone and with others. No GPU."""

from itertools import combinations

import pytest
from feature_draws import FORMS, KERNELS, KINDS, ROADS, Draw, draw, refusal
from save_draws import features


@pytest.fixture(scope="module")
def draws() -> list[Draw]:
    return [draw(number) for number in range(KERNELS)]


def test_at_least_two_hundred_combinations_are_drawn_no_two_alike(draws):
    assert KERNELS >= 200
    assert len({(drawn.spec, drawn.target, drawn.schedule) for drawn in draws}) == KERNELS
    assert sum(len(drawn.sizes) for drawn in draws) >= 2 * KERNELS


def test_what_the_rules_refuse_is_drawn_again(draws):
    assert all(refusal(drawn.spec, drawn.schedule, drawn.target) is None for drawn in draws[: len(KINDS)])
    assert sum(drawn.refused for drawn in draws) > KERNELS


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_every_feature_is_drawn_in_every_way(draws, kind):
    road, feature = kind
    own = [drawn.schedule for drawn in draws if "-".join(kind) in features(drawn)]
    assert len(own) >= 7
    for fields in ROADS[road].features[feature]:
        assert any(schedule.with_(**fields) == schedule for schedule in own), fields


def test_features_meet(draws):
    """Some pairs that no rule keeps apart."""
    pairs = {pair for drawn in draws for pair in combinations(sorted(drawn.features), 2)}
    assert {
        ("cluster", "hilbert"),
        ("cluster", "pingpong"),
        ("cluster", "programmatic"),
        ("cluster", "scatter"),
        ("cluster", "split"),
        ("cluster", "waves"),
        ("hilbert", "prologue"),
        ("hilbert", "stream_k"),
        ("pingpong", "waves"),
        ("programmatic", "tail"),
        ("tail", "waves"),
    } <= pairs


def test_batches_and_d_by_columns_are_drawn_on_every_road(draws):
    forms = {(KINDS[drawn.number % len(KINDS)][0], drawn.form) for drawn in draws}
    assert forms == {(road, form) for road in ROADS for form in FORMS}
    assert {drawn.spec.batch for drawn in draws if drawn.form == "batch"} == {None, 1, 4}


def test_an_amax_is_drawn_with_every_feature_that_may_have_one(draws):
    kinds = {KINDS[drawn.number % len(KINDS)] for drawn in draws if drawn.spec.amax}
    assert kinds == {(road, feature) for road, feature in KINDS if road != "f64"}


def test_types_layouts_and_epilogues_are_drawn_in_every_way(draws):
    assert {drawn.spec.layout for drawn in draws} == {"tn", "tt", "nn", "nt"}
    for road in ROADS.values():
        own = [drawn for drawn in draws if ROADS[KINDS[drawn.number % len(KINDS)][0]] is road]
        assert {(drawn.spec.a, drawn.spec.acc) for drawn in own} == set(road.types)
        assert {drawn.epilogue for drawn in own} == set(road.epilogues)
        assert {drawn.target for drawn in own} == set(road.targets)
