"""The predicted timeline of a CTA follows the ring and ends at the estimate; its shares say which resource binds."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from role_problems import SM_90A, chosen, problem
from typer.testing import CliRunner

from lowtide import targets
from lowtide.cli.main import app
from lowtide.dialects.tile import OperandsKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error
from lowtide.inspection.timeline.measured import means, measured_timeline, stamps_of
from lowtide.inspection.timeline.predicted import predicted_timeline
from lowtide.inspection.timeline.predicted_shares import predicted_shares
from lowtide.inspection.timeline.shares import FIELDS, Predicted, Share
from lowtide.inspection.timeline.timeline import Interval, Timeline, What, read_trace, trace, write_trace
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.cost.cost import cost, estimated
from lowtide.passes.schedules.cost.described import fields_of, grid_of, product_of
from lowtide.passes.schedules.cost.grids import Grids
from lowtide.passes.schedules.cost.spans import GridSpans, spans_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

SM_80 = targets.get("sm_80")
CUBE = problem(4096)
# A problem, a target, and fields of its schedule.
CASES: dict[str, tuple[Problem, Target, str]] = {
    "shared tiles": (CUBE, SM_90A, "grid.tile = [128, 256], roles = cooperative(2)"),
    "turns": (replace(CUBE, k=512), SM_90A, "grid.tile = [128, 128], roles = pingpong(2)"),
    "half tiles": (
        replace(CUBE, m=4096 + 256),
        SM_90A,
        "grid.tile = [256, 128], roles = cooperative(2), tail = halves",
    ),
    "few rows": (replace(CUBE, m=16), SM_90A, ""),
    "divided K": (replace(CUBE, m=128, n=256), SM_90A, "roles = cooperative(1), k_division = split(4)"),
    "warps": (problem(1024), SM_80, ""),
    "warps that load fragments": (problem(256), SM_80, "a.copy = ld.global.2, b.copy = ld.global.2"),
}


def made(name: str) -> tuple[Schedule, GridSpans, Timeline, float]:
    """The schedule, its terms and timeline, and the cycles by which it is chosen."""
    of, target, fields = CASES[name]
    schedule = choose(of, target, Schedule.parse(fields)).schedule
    of = of.swap() if schedule.grid.operands is OperandsKind.swapped else of
    spans = spans_of(schedule, of, target)
    assert spans is not None
    if schedule.agents.has_producer:
        wanted = float(estimated(Grids.of([grid_of(fields_of(schedule), target)]), product_of(of), of, target)[0])
    else:
        wanted = cost(schedule, of, target)
    return schedule, spans, predicted_timeline(schedule, spans, target.clock_mhz, name), wanted


def steps_of(intervals: Sequence[Interval], what: What) -> list[Interval]:
    return [each for each in intervals if each.what is what]


@pytest.mark.parametrize("name", CASES)
def test_the_timeline_ends_at_the_estimate_by_which_schedules_are_chosen(name: str) -> None:
    _, target, _ = CASES[name]
    _, spans, timeline, wanted = made(name)
    assert spans.total == pytest.approx(wanted)
    assert timeline.total == pytest.approx(wanted / target.clock_mhz)
    (load, *_) = steps_of(timeline.intervals, What.LOAD)
    tile = next(spans.one_by_one())
    assert load.duration * target.clock_mhz == pytest.approx(max(tile.loads, tile.memory) * spans.slowdown, rel=0.16)


@pytest.mark.parametrize("name", CASES)
def test_an_agent_does_one_thing_after_the_other(name: str) -> None:
    _, spans, timeline, _ = made(name)
    for agent in timeline.agents:
        intervals = timeline.of(agent)
        assert all(each.duration > 0 for each in intervals)
        assert all(one.end <= other.begin + 1e-9 for one, other in pairwise(intervals))
    (loader,) = {each.agent for each in timeline.intervals if each.what is What.LOAD}
    tiles = list(spans.one_by_one())
    counts = [sum(1 for each in steps_of(timeline.of(loader), What.LOAD) if each.tile == number) for number in (0, 1)]
    assert counts == [tile.steps for tile in tiles[:2]] + [0] * (len(tiles) < 2)
    epilogues = steps_of(timeline.intervals, What.EPILOGUE)
    assert sorted(each.tile for each in epilogues if each.tile is not None) == list(range(len(tiles)))


@pytest.mark.parametrize("name", ["shared tiles", "turns", "warps"])
def test_a_slot_is_multiplied_after_its_load_and_loaded_after_its_product(name: str) -> None:
    schedule, _, timeline, _ = made(name)
    stages = schedule.mainloop.stages
    assert stages is not None
    loads = sorted(steps_of(timeline.intervals, What.LOAD), key=lambda each: each.begin)
    products = sorted(steps_of(timeline.intervals, What.MULTIPLY), key=lambda each: each.begin)
    assert len(loads) == len(products) > 2 * stages
    assert all(load.end <= product.begin + 1e-9 for load, product in zip(loads, products, strict=True))
    assert all(product.end <= load.begin + 1e-9 for product, load in zip(products, loads[stages:], strict=False))
    assert all(one.end <= other.begin + 1e-9 for one, other in pairwise(products))


def test_one_consumer_stores_while_the_other_multiplies() -> None:
    _, _, timeline, _ = made("turns")
    first = steps_of(timeline.of("consumer 0"), What.EPILOGUE)[0]
    others = steps_of(timeline.of("consumer 1"), What.MULTIPLY)
    assert any(each.begin < first.end and each.end > first.begin for each in others)


def test_most_tiles_of_a_long_life_are_shown_whole() -> None:
    of = problem(32768)
    schedule = chosen(of)
    spans = spans_of(schedule, of, SM_90A)
    assert spans is not None
    tiles = list(spans.one_by_one())
    assert len(tiles) > 100
    timeline = predicted_timeline(schedule, spans, 1980, "long")
    products = steps_of(timeline.intervals, What.MULTIPLY)
    assert sum(1 for each in products if each.tile == len(tiles) - 1) == tiles[-1].steps
    (middle,) = [each for each in products if each.tile == 50]
    assert middle.step is None and len(timeline.intervals) < 50 * tiles[0].steps


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=lambda target: target.name)
def test_the_largest_extents_have_shares_but_no_timeline(target: Target) -> None:
    of = problem(2**31 - 1)
    schedule = choose(of, target, Schedule()).schedule
    spans = spans_of(schedule, of, target)
    assert spans is not None and sum(tile.waves for tile in spans.tiles) > 2**39
    assert predicted_shares(spans, target.clock_mhz).binds.share > 0.5
    with pytest.raises(Error, match=r"\[timeline-steps\]"):
        predicted_timeline(schedule, spans, target.clock_mhz, "largest")


@pytest.mark.parametrize(
    ("name", "resource"), [("shared tiles", "tensor cores"), ("few rows", "memory"), ("warps", "L2")]
)
def test_the_resource_that_binds(name: str, resource: str) -> None:
    _, target, _ = CASES[name]
    _, spans, _, _ = made(name)
    found = predicted_shares(spans, target.clock_mhz)
    assert found.binds.resource == resource and found.binds.fields == FIELDS[resource]
    assert all(0 <= share.share <= 1 for share in found.shares)
    assert found.microseconds == pytest.approx(spans.total / target.clock_mhz)
    parts = [share.share for share in found.shares if share.resource in found.parts]
    assert sum(parts) == pytest.approx(1 if found.parts else 0, abs=0.005)
    assert found.parts or name != "shared tiles"


def test_parts_that_do_not_add_up_are_not_named() -> None:
    shares = {"tensor cores": 0.8, "memory": 0.7, "waits": 0.15, "launch": 0.05, "idle SMs": 0.3}
    of = Predicted(10.0, 1.0, tuple(Share(name, 10 * share, share) for name, share in shares.items()))
    assert of.parts == ("tensor cores", "waits", "launch")
    # Of two waves, one is bound by each: more than the busiest works apart from the others.
    assert replace(of, shares=(Share("tensor cores", 6.0, 0.6), *of.shares[1:])).parts == ()


def test_the_fields_are_those_of_schedules() -> None:
    paths = Schedule.paths()
    for fields in FIELDS.values():
        assert all(any(path.startswith(field) for path in paths) for field in fields.split(", "))


def test_promoted_sums_have_no_terms() -> None:
    of = replace(CUBE, a="e4m3", b="e4m3")
    assert spans_of(chosen(of), of, SM_90A) is None


def test_a_trace_has_a_process_for_each_timeline_and_a_thread_for_each_agent(tmp_path: Path) -> None:
    one = Timeline("one", (Interval("producer", What.LOAD, 1.0, 2.5, 0, 3), Interval("consumer", What.IDLE, 2.0, 4.0)))
    write_trace(tmp_path / "t.json", [one, replace(one, title="two")])
    found = json.loads((tmp_path / "t.json").read_text())
    assert found == trace([one, replace(one, title="two")])
    names = [(event["pid"], event["args"]["name"]) for event in found["traceEvents"] if event["ph"] == "M"]
    assert names == [(pid, name) for pid, title in ((1, "one"), (2, "two")) for name in (title, "producer", "consumer")]
    load = found["traceEvents"][2]
    assert (load["name"], load["ts"], load["dur"], load["args"]) == ("load", 1.0, 1.5, {"tile": 0, "step": 3})


# Measured timelines.

AGENTS = ("producer", "consumer")


def words(*rows: tuple[int, int, int, tuple[int, ...]], start: int = 0) -> np.ndarray:
    """A buffer of two CTAs, on SMs 7 and 8, with two tiles per agent. Rows are CTA, agent, tile, and its four clocks;
    the timer counts half of them. `start`: of both counters, which have 32 bits."""
    found = np.zeros((2, 2, 2, 9), np.int64)
    for cta, agent, tile, clocks in rows:
        pairs = [((start + clock) % 2**32, (start + 5 * cta + clock // 2) % 2**32) for clock in clocks]
        found[cta, agent, tile] = [*(word for pair in pairs for word in pair), 7 + cta]
    return found.astype(np.uint32).view(np.int32).reshape(-1)


@pytest.mark.parametrize("start", [100, 2**32 - 150, 2**31 - 150])
def test_stamps_are_times_from_the_first_one_also_where_counters_wrap(start: int) -> None:
    found = stamps_of(
        words((0, 0, 0, (0, 100, 300, 300)), (0, 1, 0, (0, 200, 800, 1000)), (1, 1, 1, (0, 0, 400, 600)), start=start),
        AGENTS,
        2,
    )
    assert found.clock_mhz == pytest.approx(2000) and found.total == pytest.approx(0.5)
    assert found.times[0, 1, 0] == pytest.approx([0, 0.1, 0.4, 0.5])
    assert found.times[1, 1, 1] == pytest.approx([0.005, 0.005, 0.205, 0.305])
    assert np.isnan(found.times[0, 0, 1]).all() and np.isnan(found.times[1, 0]).all()


def test_a_measured_timeline_has_the_phases_of_each_tile() -> None:
    found = stamps_of(words((0, 0, 0, (0, 100, 300, 300)), (0, 1, 0, (0, 200, 800, 1000)), start=7), AGENTS, 2)
    timeline = measured_timeline(found, 0)
    assert timeline.title == "measured, CTA 0 on SM 7"
    assert [(each.agent, each.what, round(each.duration, 3), each.tile) for each in timeline.intervals] == [
        ("producer", What.WAIT, 0.05, 0),
        ("producer", What.LOAD, 0.1, 0),
        ("consumer", What.WAIT, 0.1, 0),
        ("consumer", What.MULTIPLY, 0.3, 0),
        ("consumer", What.EPILOGUE, 0.1, 0),
    ]
    assert found.is_whole and found.tiles == 2
    assert not stamps_of(words((0, 0, 1, (0, 100, 300, 300)), start=7), AGENTS, 2).is_whole
    assert len(found.times) == 1  # the last CTA of the buffer has stamped nothing
    rows = (0, 1, 0, (0, 200, 800, 1000)), (1, 0, 0, (0, 0, 100, 100))
    both = stamps_of(words(*rows, start=7), AGENTS, 2)
    assert both.sms.tolist() == [7, 8]
    assert means(both)["consumer", What.MULTIPLY] == pytest.approx(0.15)  # of two CTAs, one has no tile
    assert means(both)["producer", What.LOAD] == pytest.approx(0.025)


@pytest.mark.parametrize(("given", "code"), [(np.zeros(7, np.int32), "stamp-words"), (words(), "stamps-none")])
def test_a_buffer_without_stamps_is_refused(given: np.ndarray, code: str) -> None:
    with pytest.raises(Error, match=rf"\[{code}\]"):
        stamps_of(given, AGENTS, 2)


def test_explain_writes_the_trace_and_names_what_binds(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    command = "explain --m 512 --n 512 --k 256 --target sm_80 --trace"
    done = CliRunner().invoke(app, [*command.split(), str(file)])
    assert done.exit_code == 0, done.output
    assert "bound by" in done.output and "fields that change it" in done.output
    events = json.loads(file.read_text())["traceEvents"]
    assert {"copies", "warps"} <= {event["args"].get("name") for event in events if event["ph"] == "M"}


def test_explain_refuses_a_trace_of_a_kernel_without_terms(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    command = "explain --m 512 --n 512 --k 256 --dtype e4m3 --target sm_90a --trace"
    done = CliRunner().invoke(app, [*command.split(), str(file)])
    assert done.exit_code == 2 and "[timeline-terms]" in done.output
    assert not file.exists()


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    first = Timeline("one", (Interval("producer", What.LOAD, 0.5, 1.25, 0, 3), Interval("grid", What.LAUNCH, 0.0, 0.5)))
    second = Timeline("two", (Interval("consumer", What.EPILOGUE, 1.0, 2.0, 1),))
    write_trace(tmp_path / "trace.json", [first, second])
    assert read_trace(tmp_path / "trace.json") == [first, second]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"traceEvents": 1}', '{"traceEvents": [{"ph": "X"}]}', '{"traceEvents": [1]}', "\x00"]
)
def test_another_file_is_no_trace(text: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(Error, match=r"\[trace-file\]"):
        read_trace(tmp_path / "trace.json")
    with pytest.raises(Error, match=r"\[trace-file\]"):
        read_trace(tmp_path / "none.json")
