"""Reports on PTX speak of warps, not of agents and levels; warps that stand at one place share a line."""

from lowtide.ptx.reports import Report
from lowtide.ptx.words import in_words_of_ptx


def test_a_report_names_neither_agents_nor_levels() -> None:
    report = Report("race", "`x` at k.ptx:3, level ptx, CTA 0 warp 1: race", orders="20 orders of agents were run")
    assert report.message == "`x` at k.ptx:3, CTA 0 warp 1: race"
    assert report.orders == "20 orders of warps were run"


def test_messages_of_other_levels_stay_as_they_are() -> None:
    for text in ("`sm.mma` at 3, level atoms, CTA 0: race", "deadlock, level nvvm: no agent can continue"):
        assert in_words_of_ptx(text) == text


def test_lanes_that_follow_each_other_are_a_range() -> None:
    text = "uses an undefined register in lanes [0, 1, 2, 3, 8], lanes [5]; the CTA 2 warp 0 has run"
    assert in_words_of_ptx(text) == "uses an undefined register in lanes 0-3, 8, lane 5; CTA 2 warp 0 has run"


def test_instructions_have_their_names_in_ptx() -> None:
    text = "wait for all groups (sm.tma_store_wait read 0), put nvvm.fence.mbarrier.init after the init"
    assert in_words_of_ptx(text).startswith("wait for all groups (cp.async.bulk.wait_group.read 0), put fence.mbarrier")


def test_warps_at_one_place_share_a_line() -> None:
    waits = [f"  CTA {cta} warp {warp} waits at `w` at k.ptx:9: for it" for cta in (0, 1) for warp in (0, 1, 2, 5)]
    others = ["  CTA 2 warp 0 is at `bra L;` at k.ptx:4", "  CTA 2 warp 1 has not begun"]
    text = "\n".join(["deadlock, level ptx: no agent can continue", *waits, *others, "  and 3 more"])
    assert in_words_of_ptx(text).split("\n") == [
        "no warp can continue",
        "  CTAs 0-1 warps 0-2, 5 wait at `w` at k.ptx:9: for it",
        *others,
        "  and 3 more",
    ]
