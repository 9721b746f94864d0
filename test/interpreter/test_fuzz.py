"""`lowtide fuzz`: what it draws, how cases end, and that a fault planted in a pass is found and shrunk to few words."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.dialects.tile import CacheHint, KDivisionKind, RasterKind, SchedulerKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.atoms.bind_ring import BindRing
from lowtide.passes.cta import launch_preparations
from lowtide.passes.llvm import convert_ptx_ops_to_asm
from lowtide.targets import COPY_ATOMS
from lowtide.verification.fuzz.case import Case, Ended, Result, refusal, run_case
from lowtide.verification.fuzz.search import Journal, fuzz
from lowtide.verification.fuzz.words import (
    COMPANIONS,
    Pair,
    all_pairs,
    factors,
    fields_of,
    pairs_of,
    schedule_words,
    text_of,
)

ENUMS = {
    "grid.order": RasterKind,
    "grid.scheduler": SchedulerKind,
    "grid.k_division": KDivisionKind,
    "epilogue.path": StorePath,
    "epilogue.cache": CacheHint,
}


def test_every_word_of_a_schedule_is_drawn_in_a_form_that_is_read() -> None:
    assert {path: tuple(map(str, enum)) for path, enum in ENUMS.items()}.items() <= schedule_words().items()
    for path, words in schedule_words().items():
        for word in words:
            value = Schedule().set(fields_of({path: word})).get(path)
            assert str(getattr(value, "kind", value)) == word


def test_copies_of_each_family_are_drawn() -> None:
    families = {name.partition(".")[0] for name in COPY_ATOMS} - {"ldmatrix", "stmatrix", "st"}  # to and from registers
    for operand in ("a", "b"):
        assert {word.partition(".")[0] for word in schedule_words()[f"mainloop.{operand}.copy"]} == families


def test_pairs_are_of_two_factors() -> None:
    assert len(set(map(text_of, all_pairs()))) == len(all_pairs())
    words = {factor: own[-1] for factor, own in factors().items()}
    assert set(pairs_of(words)) <= set(all_pairs())
    assert len(list(pairs_of(words))) == len(words) * (len(words) - 1) // 2


def test_a_case_ends_right_or_refused() -> None:
    small = (("columns", "ragged"), ("steps", "1"))
    right = run_case(Case((*small, ("epilogue.path", "direct"))))
    assert (right.ended, right.words["epilogue.path"]) == (Ended.right, "direct"), right.message
    refused = run_case(Case((("epilogue.path", "tma"),)))
    assert refused.ended is Ended.refused and "tma" in refused.message


def test_groups_of_rows_are_split_as_the_words_say() -> None:
    tile = (("target", "sm_90a"), ("grid.tile", "[64, 32]"), ("steps", "1"), ("known", "n"))
    case = Case((*tile, ("groups", "3"), ("split", "groups end 1 after a tile"), ("rows", "two tiles")), seed=1)
    assert case.spec.groups == 3 and case.spec.layout == "tn"
    found = run_case(case)
    assert found.ended is Ended.right and found.words["split"] == "groups end 1 after a tile"
    assert refusal(Case((*tile, ("groups", "3"), ("layout", "nn")))) == ""
    assert refusal(Case((*tile, ("groups", "3"), ("d_order", "column")))) == ""
    assert refusal(Case((*tile, ("groups", "3 of K"), ("d_order", "column")))) != ""


def test_shards_that_arrive_are_products_of_a_batch() -> None:
    tile = (("target", "sm_90a"), ("grid.tile", "[64, 32]"), ("steps", "1"), ("rows", "two tiles"))
    case = Case((*tile, ("arrivals", "while it runs")), seed=1)
    assert case.spec.arrivals and case.spec.batch is None and case.spec.layout == "tn"
    found = run_case(case)
    assert found.ended is Ended.right, found.message
    assert "arrivals-field" in refusal(Case((*tile, ("arrivals", "while it runs"), ("grid.tail", "halves"))))


def test_ranks_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = (("target", "sm_90a"), ("grid.tile", "[64, 32]"), ("steps", "1"), ("known", "n"))
    for word, sends in (("on ranks", False), ("on ranks, with peers", True)):
        case = Case((*tile, ("arrivals", word)), seed=3)
        assert case.spec.arrivals and case.spec.peers is sends
        found = run_case(case)
        assert (found.ended, found.words["arrivals"]) == (Ended.right, word), found.message
    listed = run_case(Case((*tile, ("arrivals", "on ranks"), ("lists", "d")), seed=3))
    assert (listed.ended, listed.words["lists"]) == (Ended.right, "d"), listed.message
    assert "[peers-beside]" in refusal(Case((*tile, ("arrivals", "on ranks, with peers"), ("lists", "d"))))
    wait = convert_ptx_ops_to_asm._AWAIT_ARRIVAL
    monkeypatch.setattr(convert_ptx_ops_to_asm, "_AWAIT_ARRIVAL", wait.replace("acquire.sys", "relaxed.sys"))
    early = run_case(Case((*tile, ("arrivals", "on ranks")), seed=3))
    assert early.ended is Ended.failed and "level ptx" in early.message and "race" in early.message


def test_groups_of_k_are_split_as_the_words_say() -> None:
    tile = (("target", "sm_90a"), ("grid.tile", "[64, 32]"), ("mainloop.k", "32"), ("steps", "stages"))
    words = (*tile, ("groups", "3 of K"), ("split", "groups end 1 after a tile"), ("rows", "one tile"))
    case = Case(words, seed=1)
    assert case.spec.k_is_grouped and case.spec.layout == "nt"
    found = run_case(case)
    assert found.ended is Ended.right, found.message
    assert found.words["split"] == "groups end 1 after a tile"
    assert refusal(Case((*words, ("mainloop.prologue", "once")))) != ""


def test_rows_of_a_batch_count_as_the_words_say() -> None:
    words = (("target", "sm_90a"), ("grid.tile", "[64, 32]"), ("steps", "1"), ("known", "n"), ("rows", "two tiles"))
    case = Case((*words, ("counts", "of each product"), ("split", "groups end 1 after a tile")), seed=1)
    assert case.spec.counts and case.spec.batch is None and case.spec.layout == "tn"
    found = run_case(case)
    assert found.ended is Ended.right and found.words["split"] == "groups end 1 after a tile", found.message
    assert refusal(Case((*words, ("counts", "of each product"), ("grid.tail", "halves")))) != ""


def test_packed_weights_have_a_step_of_k() -> None:
    words = (("weights", "s4"), ("layout", "tn"), ("steps", "0"), ("rows", "ragged"), ("columns", "one tile"))
    found = run_case(Case(words))
    assert found.ended is Ended.right, found.message


def test_a_planted_fault_is_found_and_its_test_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BindRing, "run", lambda self, module, target: None)
    failed = run_case(Case((("steps", "stages"),)))
    assert failed.ended is Ended.failed
    assert failed.test.startswith("// RUN: lowtide ") and "tile.gemm" in failed.test


def test_an_amax_is_drawn_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (("amax", "of D"), ("rows", "ragged"), ("columns", "ragged"))
    assert set(factors()["amax"]) == {"none", "of D"}
    right = run_case(Case((*words, ("dtype", "s8"), ("d", "s32"))))
    assert right.ended is Ended.right, right.message
    monkeypatch.setattr(launch_preparations, "results_of", lambda store, kind: [])
    for more in ((), (("dtype", "s8"), ("d", "s32"))):
        failed = run_case(Case((*words, *more)))
        assert failed.ended is Ended.failed and "amax" in failed.message


def fails_with_pairs(case: Case) -> Result:
    """Wrong where an epilogue meets the layout nt."""
    words = case.full
    wrong = words["epilogue"] == "bias" and words["layout"] == "nt"
    return Result(Ended.failed if wrong else Ended.right, "wrong" if wrong else "", words)


def test_a_failure_is_shrunk_to_the_words_that_it_needs() -> None:
    failure = fuzz(Journal(), budget=600, examples=3000, run=fails_with_pairs)
    assert failure is not None
    assert set(failure.case.words) == {("epilogue", "bias"), ("layout", "nt")}
    assert (failure.case.others, failure.case.seed, failure.case.numbers) == ((), 0, 0)


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    path, journal = tmp_path / "journal.json", Journal()
    fuzz(journal, budget=60, examples=10, run=lambda case: Result(Ended.right, "", case.full))
    journal.write(path)
    again = Journal.read(path)
    assert again == journal and again.covered
    fuzz(again, budget=60, examples=10, seed=1, run=lambda case: Result(Ended.right, "", case.full))
    assert journal.covered < again.covered
    path.write_text("[]")
    with pytest.raises(lt.Error, match=r"no journal.*\[fuzz-journal\]"):
        Journal.read(path)


def test_a_pair_that_is_refused_again_and_again_is_given_up() -> None:
    journal, pair = Journal(), text_of(all_pairs()[0])
    for _ in range(8):
        assert not journal.refused
        journal.note(pair, Result(Ended.refused, "a rule", {}))
    assert journal.refused == {pair: "a rule"} and not journal.covered


def test_other_fields_are_given_where_the_rules_allow_them() -> None:
    others = (("epilogue.path", "tma"), ("grid.scheduler", "persistent"), ("grid.scheduler", "one_shot"))
    assert Case((), others=others).legal == Case((("grid.scheduler", "persistent"),))


def test_words_come_with_what_they_need_and_words_that_no_rule_lets_through_are_given_up() -> None:
    assert not any(refusal(Case((word,))) for word in COMPANIONS)
    journal = Journal(covered={text_of(pair) for pair in all_pairs() if not _has(pair, "mainloop.a.cache")})
    journal.give_up_words()
    given_up = {word for pair in journal.refused for word in pair.split(" & ") if word.startswith("mainloop.a.cache")}
    assert given_up == {"mainloop.a.cache=streaming", "mainloop.a.cache=write_through"}


def _has(pair: Pair, path: str) -> bool:
    return any(factor == path for factor, _ in pair)


def test_journals_of_runs_that_began_apart_are_merged(tmp_path: Path) -> None:
    first, second, third = (text_of(pair) for pair in all_pairs()[:3])
    mine, other = Journal({first}, {second: "rule"}, ended={"right": 1}), Journal({second}, ended={"right": 2})
    other.covered.add("gone=word & other=word")
    other.failures = [{"words": "k=1", "message": "wrong"}]
    mine.write(tmp_path / "mine.json")
    other.write(tmp_path / "other.json")
    words = ["fuzz", "--journal", str(tmp_path / "mine.json"), "--budget", "0"]
    done = CliRunner().invoke(app, [*words, "--merge", str(tmp_path / "other.json")])
    assert done.exit_code == 0, done.output
    merged = Journal.read(tmp_path / "mine.json")
    assert (merged.covered, merged.refused, merged.ended) == ({first, second}, {}, {"right": 3})
    assert merged.failures == other.failures and third not in merged.covered
    assert CliRunner().invoke(app, [*words, "--merge", str(tmp_path / "missing.json")]).exit_code == 2
