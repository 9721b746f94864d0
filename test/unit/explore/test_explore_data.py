"""What a page of `lowtide explore` holds: texts, links, diffs, counts, a verdict; and what is left out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from explored_kernel import GUILTY

import lowtide as lt
from lowtide.compiler.driver import lower
from lowtide.compiler.origins.origins import Origins
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error, IRError
from lowtide.inspection.explore import data as data_module
from lowtide.inspection.explore import page as page_module
from lowtide.inspection.explore.counts import counts_of
from lowtide.inspection.explore.data import page_data, shortened
from lowtide.inspection.explore.explore import explore
from lowtide.inspection.explore.lexer import CLASSES, LevelLexer, PtxLexer, coloured
from lowtide.inspection.explore.page import is_of_these_assets, page_text
from lowtide.inspection.explore.schedule import schedule_of
from lowtide.inspection.explore.steps import Shown, Steps, steps_in, steps_of
from lowtide.inspection.explore.verdict import read_report, verdict_of
from lowtide.inspection.timeline.timeline import Interval, Timeline, What
from lowtide.targets import get

Data = dict[str, Any]


def texts(data: Data) -> dict[str, list[str]]:
    """The lines of each step, made as page.js makes them: by applying the changes of each step in turn."""
    plain = ["".join(tokens[1::2]) for tokens in data["lines"]]
    found, before = {}, list[str]()
    for step in data["steps"]:
        after, at = [], 0
        for start, end, lines in step["changes"]:
            after += before[at:start] + [plain[line] for line in lines]
            at = end
        before = after + before[at:]
        found[step["place"]] = before
    return found


def step_of(steps: Steps, place: str) -> Shown:
    return next(each for each in steps.shown if each.place == place)


def origins_of(steps: Steps, place: str, line: int) -> list[int]:
    (found,) = (row.origins for row in step_of(steps, place).rows if row.line == line)
    return list(found)


def line_of(steps: Steps, place: str, words: str) -> int:
    """The line of a step's text that has the words."""
    (found,) = (at for at, line in enumerate(step_of(steps, place).text.split("\n"), 1) if words in line)
    return found


@pytest.fixture(scope="module")
def data(dumped: tuple[Path, Origins]) -> Data:
    return page_data("kernel", steps_in(dumped[0]))


def test_changes_of_steps_give_the_texts_that_were_dumped(data: Data, dumped: tuple[Path, Origins]) -> None:
    found = texts(data)
    assert list(found) == [each.place for each in dumped[1].steps]
    for each in dumped[1].steps:
        after = f'tile.after = "{each.place.partition("/")[2][3:]}", '
        assert "\n".join(found[each.place]) == each.text.replace(after, "").rstrip("\n"), each.place
    changed = {step["place"] for step in data["steps"] if step["changes"]}
    assert "05-atoms/06-double-buffer-fragments" in changed and "02-cta/02-divide-k" not in changed


def test_ops_link_to_those_that_they_come_from(data: Data, dumped: tuple[Path, Origins]) -> None:
    origins = dumped[1]
    assert data["notes"] == []
    for found, before, each in zip(data["steps"][1:], origins.steps, origins.steps[1:], strict=False):
        assert data["steps"][found["before"]]["place"] == before.place
        rows = [(row.line, row.op, *row.origins) for row in each.rows]
        assert [(line, data["names"][name], *own) for line, name, *own in found["ops"]] == rows


def test_a_kernel_has_the_same_steps_as_its_dumps(dumped: tuple[Path, Origins]) -> None:
    assert steps_in(dumped[0]) == steps_of(dumped[1])


def test_links_go_past_steps_that_are_missing(folder: Path, dumped: tuple[Path, Origins]) -> None:
    for place in ("05-atoms/07-bind-ring", "05-atoms/06-double-buffer-fragments"):
        (folder / f"{place}.mlir").unlink()
    found, before = steps_in(folder), "05-atoms/05-split-k-slices"
    assert step_of(found, GUILTY).before == before
    for op in dumped[1].ops(GUILTY):
        assert sorted(origins_of(found, op.place, op.line)) == sorted(each.line for each in dumped[1].of(op, before))


def test_a_step_of_its_own_in_the_folder_breaks_no_links(folder: Path, dumped: tuple[Path, Origins]) -> None:
    extra = folder / "05-atoms/07-edited.mlir"
    extra.write_text((folder / "05-atoms/07-bind-ring.mlir").read_text())
    found = steps_in(folder)
    assert step_of(found, "05-atoms/07-edited").before is None
    assert step_of(found, GUILTY) == step_of(steps_of(dumped[1]), GUILTY)


def test_ops_of_an_edited_dump_keep_their_links(race: tuple[Path, Data], dumped: tuple[Path, Origins]) -> None:
    found, origins, after = steps_in(race[0]), dumped[1], "06-epilogue/01-lower-epilogue"
    assert [each.place for each in found.shown if each.edited] == [GUILTY]
    line = line_of(found, GUILTY, "sm.ldmatrix %a_4[0, 0]")
    (own,) = (op for op in origins.ops(GUILTY) if "sm.ldmatrix %a_4[0, 0]" in op.text)
    assert line == own.line - 1  # one line was removed above
    assert origins_of(found, GUILTY, line) == [op.line for op in origins.of(own)]
    for op in origins.became(own, after):
        assert origins_of(found, after, op.line) == [line]
    *_, barrier = (op for op in origins.ops(GUILTY) if op.name == "sm.barrier" and op.line < own.line)
    for op in origins.became(barrier, after):
        assert origins_of(found, after, op.line) == []


def test_a_folder_without_some_levels_shows_the_others_and_says_which_are_missing(folder: Path) -> None:
    for name in ("01-problem", "06-epilogue", "09-ptx"):
        for path in (folder / name).iterdir():
            path.unlink()
    found = page_data("copy", steps_in(folder))
    assert {each["level"] for each in found["steps"]} == {"cta", "smem", "pipelined", "atoms", "nvvm", "llvm"}
    notes = "\n".join(found["notes"])
    assert "not in the folder: level problem, epilogue, ptx" in notes
    assert "they are counted at level epilogue" in notes and "reasons of the schedule are left out" in notes
    assert step_of(steps_in(folder), "07-nvvm/01-convert-sm-to-nvvm").before == GUILTY


def test_dumps_of_another_version_are_shown_without_what_cannot_be_read(folder: Path) -> None:
    (folder / "origins/05-atoms/08-simplify.json").write_text('{"version": 9}')
    dump = folder / "06-epilogue/08-verify-smem-offsets.mlir"
    dump.write_text(dump.read_text().replace("sm.ldmatrix", "sm.load_matrix_of_1999"))
    found = page_data("copy", steps_in(folder))
    notes = "\n".join(found["notes"])
    assert "08-simplify.json does not have origins as a compilation writes them; compile again [origins-file]" in notes
    assert "06-epilogue/08-verify-smem-offsets: ops have no links: not a legal module" in notes
    assert "registers, conflicts and bytes are left out: not a legal module" in notes
    assert len(found["notes"]) == 3 and found["counts"]["ops"] == found["pictures"] == []
    assert any("sm.load_matrix_of_1999" in line for line in texts(found)["06-epilogue/08-verify-smem-offsets"])
    assert found["schedule"]["reasons"]["mainloop.stages"] == "given"
    assert found["steps"][22]["place"] == GUILTY and found["steps"][22]["before"] is None


def test_faults_that_many_steps_share_are_named_once(folder: Path) -> None:
    files = list(folder.glob("origins/*/*.json"))
    for path in files:
        path.write_text('{"version": 9}')
    found = steps_in(folder)
    assert len(found.notes) == 4 and "compile again [origins-file]" in found.notes[0]
    assert found.notes[-1] == f"and {len(files) - 3} other steps, for reasons of the same kind"


def test_dumps_without_origins_are_shown_without_links(folder: Path) -> None:
    for path in folder.glob("origins/*/*.json"):
        path.unlink()
    found = steps_in(folder)
    assert any("ops have no links" in note for note in found.notes)
    assert all(each.before is None for each in found.shown)


@pytest.mark.parametrize("level", ["problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx"])
def test_lines_are_coloured_whole_and_ops_as_ops(level: str, dumped: tuple[Path, Origins]) -> None:
    last = dumped[1].step(level)
    colour = coloured(PtxLexer() if level == "ptx" else LevelLexer())
    for text in last.lines:
        assert "".join(map(str, colour(text)[1::2])) == text
    ops = [(row.op, colour(last.lines[row.line - 1])) for row in last.rows]
    shown = [(op, tokens) for op, tokens in ops if any(op in str(part) for part in tokens[1::2])]
    assert len(shown) > 0.5 * len(ops)
    kinds = {CLASSES[int(kind)] for op, tokens in shown for kind, part in zip(tokens[::2], tokens[1::2], strict=True)
             if str(part).strip() == op}  # fmt: skip
    assert "op" in kinds and kinds <= {"op", "word"}


def test_counts_are_on_the_ops_that_they_belong_to(data: Data, dumped: tuple[Path, Origins]) -> None:
    place = data["steps"][data["counts"]["step"]]["place"]
    lines = dumped[1].step(place).lines
    reads = [count for count in data["counts"]["ops"] if "sm.ldmatrix" in lines[count["line"] - 1]]
    conflicts = [count for count in reads if count["is_bad"]]
    assert {count["short"] for count in conflicts} == {"4-way conflict"} and len(conflicts) < len(reads)
    assert all(["a, read", "ldmatrix.x4"] in count["rows"] for count in conflicts)  # only A has no swizzle
    (kernel,) = (count for count in data["counts"]["ops"] if lines[count["line"] - 1].strip().startswith("tile.kernel"))
    assert kernel["short"].endswith(" registers") and ["threads", "128"] in kernel["rows"]


def test_cycles_of_products_are_no_fault() -> None:
    """Also where the products read more from shared memory than it delivers at full rate."""
    given = Schedule.parse("grid.tile = [64, 16], operands = as_given")
    text = problem_text(lt.GemmSpec(m=256, n=256, k=256, a="bf16", b="bf16", d="bf16"), get("sm_90a"), given)
    found = counts_of(lower(text, until=Level.EPILOGUE).levels[str(Level.EPILOGUE)], None)
    products = [count for count in found if count["short"].endswith(" cycles")]
    assert products and not any(count["is_bad"] for count in products)
    (cycles, reads) = (dict(products[0]["rows"])[name] for name in ("a K step", "its reads of shared memory"))
    assert int(cycles.split()[0]) < int(reads.split()[2])


def test_the_schedule_has_reasons_and_candidates_with_estimates() -> None:
    spec = lt.GemmSpec(m=8192, n=8192, k=8192, a="bf16", b="bf16", d="bf16")
    steps = Steps((Shown("01-problem/00-input", None, problem_text(spec, get("sm_90a")), ()),))
    found = schedule_of(steps, None, [])
    assert found["reasons"]["mainloop.stages"] == (
        "shared memory holds 3 beside the epilogue's scratch; a 4th needs 57,360 bytes and 11,216 are left"
    )
    assert found["reasons"]["mainloop.k"] == "see grid.tile"
    cycles = [candidate["cycles"] for candidate in found["candidates"]]
    assert len(cycles) > 10 and cycles == sorted(cycles)
    assert found["candidates"][0]["fields"] == {} and all(candidate["fields"] for candidate in found["candidates"][1:])
    assert (
        f"candidates by the cost model ({cycles[0]:,} cycles at the highest clock); next: "
        in found["reasons"]["grid.tile"]
    )
    assert not any("grid.operands" in one["fields"] for one in found["candidates"])  # their estimates are the same
    assert any(None in one["fields"].values() for one in found["candidates"])  # a field that a candidate leaves open


def test_both_accesses_of_a_race_are_named(race: tuple[Path, Data]) -> None:
    steps = steps_in(race[0])
    verdict, shown = verdict_of(race[1], steps), steps.shown
    assert not verdict["ok"] and (verdict["step"], verdict["level"]) == ("simplify", "atoms")
    assert shown[verdict["right"]].place == "05-atoms/07-bind-ring" and shown[verdict["wrong"]].place == GUILTY
    named = [shown[at].text.split("\n")[line - 1] for at, line in verdict["at"]]
    assert len(named) == 2 and "sm.ldmatrix" in named[0] and "sm.cp_async" in named[1]
    assert f" at line {verdict['at'][0][1]} of {GUILTY}" in verdict["message"] and "loc(" not in verdict["message"]
    assert verdict["op"].endswith(f" at line {verdict['at'][0][1]} of {GUILTY}")
    assert verdict["edited"] and verdict["verdict"].startswith(f"WRONG from {GUILTY} on. This file was edited")


def test_a_fix_that_ends_the_message_stands_alone(race: tuple[Path, Data]) -> None:
    said = (
        "`a; b` at x, CTA 0: race (read after write): reads what warp 1 wrote, with no barrier between; it wrote by `c`"
    )
    where = " (shared memory address 0x0, byte 0 of %ring buffer 1)"
    for fix in ("wait for that phase before this", ""):
        message = f"{said}; {fix}{where} [shared-race]" if fix else f"{said}{where} [shared-race]"
        outcome = race[1]["guilty"]["outcome"] | {"message": message}
        found = verdict_of(race[1] | {"guilty": race[1]["guilty"] | {"outcome": outcome}}, steps_in(race[0]))
        assert (found["message"], found["fix"]) == (said + where, fix)


@pytest.mark.parametrize(
    ("said", "short"),
    [
        (
            "consumer warpgroup 0: race (read after write): reads what TMA on %full[1] wrote, with no wait for the"
            " mbarrier's phase before; it wrote by `sm.tma_load` at a.mlir:3:1; wait for that phase before this",
            "consumer warpgroup 0 reads byte 64 of %ring buffer 1, which TMA on %full[1] wrote, with no wait for the"
            " mbarrier's phase before",
        ),
        (
            "warp 1: in flight: reads what an asynchronous copy of warp 3 fills, before a wait for its group; it was"
            " started by `sm.cp_async`",
            "warp 1 reads byte 64 of %ring buffer 1, which an asynchronous copy of warp 3 fills, before a wait for its"
            " group",
        ),
        (
            "warp 0: race (write after read): writes what warp 2 may still read by `sm.wgmma` at a.mlir:3:1; let it"
            " wait for that group, then put a barrier or an mbarrier's phase before this",
            "warp 0 writes byte 64 of %ring buffer 1, which warp 2 may still read",
        ),
        ("warp 0: reads past the end", ""),
    ],
)
def test_a_race_is_said_in_short(said: str, short: str, race: tuple[Path, Data]) -> None:
    message = f"`a` at x, level atoms, CTA 0 {said} (shared memory address 0x40, byte 64 of %ring buffer 1)"
    outcome = race[1]["guilty"]["outcome"] | {"message": message}
    found = verdict_of(race[1] | {"guilty": race[1]["guilty"] | {"outcome": outcome}}, Steps(()))
    assert found["short"] == (f"CTA 0 {short}" if short else "")


def test_a_verdict_on_files_that_are_not_shown_names_the_level(race: tuple[Path, Data]) -> None:
    report = race[1] | {"guilty": race[1]["guilty"] | {"after": "other/05-atoms/99-level.mlir", "before": None}}
    steps = steps_in(race[0]).without([GUILTY])
    verdict = verdict_of(report, steps)
    assert steps.shown[verdict["wrong"]].place == "05-atoms/07-bind-ring"
    assert verdict["right"] is None and verdict["at"] == []


def test_reports_of_another_form_are_refused(tmp_path: Path, race: tuple[Path, Data]) -> None:
    file = tmp_path / "report.json"
    for content in ("", "[]", '{"verdict": 1}'):
        file.write_text(content)
        with pytest.raises(Error, match=r"\[check-report\]"):
            read_report(file)
    file.write_text(json.dumps(race[1]))
    assert read_report(file) == race[1]
    with pytest.raises(Error, match=r"the report does not have the form of lowtide check --json; .* \[check-form\]"):
        verdict_of({"verdict": "ok", "guilty": {}}, steps_in(race[0]))


def test_texts_that_are_too_long_are_left_out_with_a_note(
    dumped: tuple[Path, Origins], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = steps_of(dumped[1])
    sizes = {each.place: len(each.text) for each in steps.shown}
    ends = {each.level: each.place for each in steps.shown}.values()
    longest = max(sizes, key=lambda place: (place not in ends, sizes[place]))
    notes: list[str] = []
    monkeypatch.setattr(data_module, "MOST_CHARACTERS", sum(sizes.values()) - 1)
    found = shortened(steps, notes)
    assert {each.place for each in found.shown} == {*sizes} - {longest}
    assert len(notes) == 1 and notes[0].endswith(f"characters: {longest}")
    assert [each.before for each in found.shown[1:]] == [each.place for each in found.shown[:-1]]
    monkeypatch.setattr(data_module, "MOST_CHARACTERS", 3)
    with pytest.raises(Error, match=r"\[explored-length\]"):
        shortened(steps, notes)


def test_a_page_that_is_too_large_is_refused(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(page_text(data)) < 1_000_000
    monkeypatch.setattr(page_module, "MOST_BYTES", 1000)
    with pytest.raises(Error, match=r"the page would have [\d,]+ bytes; the most is 1,000; .* \[explored-size\]"):
        page_text(data)


def test_equal_data_are_equal_pages_that_name_nothing_outside(data: Data) -> None:
    text = page_text(data)
    assert text == page_text(data)
    assert is_of_these_assets(text) and not is_of_these_assets(text.replace("'sha256-", "'sha256-0"))
    assert "http:" not in text and "https:" not in text and "src=" not in text


def test_markup_in_names_is_text(data: Mapping[str, Any]) -> None:
    hostile = "</title></script><script>alert(1)</script>"
    text = page_text({**data, "title": hostile, "name": hostile, "lowtide": '"><img src=x>'})
    assert hostile not in text and text.count("<script") == 2 and "<img" not in text


def test_subjects_that_are_not_a_kernel_or_a_folder_are_refused(tmp_path: Path, folder: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(IRError, match=r"has no dumps of steps; name a folder that .* \[explored-folder\]"):
        explore(tmp_path / "copy" / "05-atoms", page)
    with pytest.raises(IRError, match=r"\[not-dumps\]"):
        explore(tmp_path / "nothing", page)
    with pytest.raises(Error, match=r"\[explored-kind\]"):
        explore(3, page)  # type: ignore[arg-type]
    with pytest.raises(Error, match=r"page.pdf: a page is an HTML file; end the name in .html \[page-format\]"):
        explore(folder, tmp_path / "page.pdf")
    assert not page.exists()
    explore(folder, page)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_the_predicted_timeline_is_there_or_those_of_a_trace(data: Data, dumped: tuple[Path, Origins]) -> None:
    (predicted,) = data["schedule"]["times"]
    intervals = [each for agent in predicted["agents"] for each in agent["intervals"]]
    assert predicted["title"].startswith("predicted") and {"multiply", "epilogue"} <= {each[0] for each in intervals}
    assert max(end for _, _, end, _, _ in intervals) == predicted["total"]
    measured = Timeline("measured, CTA 0", (Interval("consumer", What.MULTIPLY, 0.0, 2.5, 0),))
    found = page_data("kernel", steps_in(dumped[0]), measured=[measured])["schedule"]["times"]
    agents = [{"agent": "consumer", "intervals": [["multiply", 0.0, 2.5, 0, None]]}]
    assert found == [{"title": "measured, CTA 0", "total": 2.5, "agents": agents}]
