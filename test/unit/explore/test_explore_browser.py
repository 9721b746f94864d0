"""The page of `lowtide explore` in a browser: links of ops, keys, addresses, themes, a phone; no complaint of the
browser, and nothing from the network. Skipped where there is no Chromium."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from explored_kernel import GUILTY

from lowtide.compiler.origins.origins import Origins
from lowtide.inspection.explore.explore import explore

HOSTILE = "<script>window.hostile = 1</script><img src=x onerror='window.hostile = 1'>"
MARKED = "[...page.panes[{}].text.querySelectorAll('.row.marked')].map((row) => Number(row.dataset.line))"
FOCUSED = "page.panes[page.focused].step.place"


@pytest.fixture(scope="module")
def address(race: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the race, in a folder and with a comment and a verdict that hold markup."""
    folder = tmp_path_factory.mktemp("page") / HOSTILE.replace("/", "")
    shutil.copytree(race[0], folder)
    dump = folder / "02-cta" / "04-simplify.mlir"
    dump.write_text(f"// {HOSTILE}\n{dump.read_text()}")
    report = race[1] | {"notes": [HOSTILE]}
    explore(folder, folder.parent / "page.html", report=report)
    return (folder.parent / "page.html").as_uri()


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Browser]:
    chromium.complaints.clear()
    chromium.requests.clear()
    yield chromium
    assert chromium.complaints == []
    assert {each.partition("#")[0] for each in chromium.requests} == {address}


def marked(page: Browser, pane: int) -> list[int]:
    found: list[int] = page.value(MARKED.format(pane))
    return sorted(found)


def test_a_click_marks_the_op_in_every_pane(page: Browser, address: str, dumped: tuple[Path, Origins]) -> None:
    origins = dumped[1]
    (copy, *_) = (op for op in origins.ops("epilogue") if op.name == "sm.cp_async")
    page.open(f"{address}#level=epilogue&panes=atoms,epilogue,ptx")
    page.click(f".pane:nth-child(2) [data-line='{copy.line}']")
    instructions = [op.line for op in origins.became(copy, "ptx")]
    assert instructions and marked(page, 2) == instructions
    assert marked(page, 1) == [copy.line] and len(marked(page, 0)) == 1
    detail = page.value("document.getElementById('detail').innerText")
    assert "bind-copy-atoms (atoms) introduced sm.cp_async, from\nsm.copy_async, atoms:" in detail
    assert "pipeline-mainloop (pipelined) made that, from\nsm.copy, pipelined:" in detail and "wavefronts" in detail
    page.click(f".pane:nth-child(3) [data-line='{instructions[0]}']")
    assert marked(page, 1) == [copy.line] and marked(page, 2) == instructions[:1]
    assert f"op={instructions[0]}" in page.value("location.hash")
    page.click("#detail dd button")
    titles = "[...document.querySelectorAll('#pictures [data-title]')]"
    above = f"{titles}.filter((one) => Math.abs(one.getBoundingClientRect().top - "
    above += "document.getElementById('pictures').getBoundingClientRect().top) < 40).map((one) => one.innerText)"
    assert page.value("page.view") == "pictures"
    assert [title.partition(":")[0] for title in page.value(above)] == ["a written by cp.async.16"]


def test_an_address_leads_to_an_op(page: Browser, address: str, dumped: tuple[Path, Origins]) -> None:
    (wait, *_) = (op for op in dumped[1].ops("pipelined") if op.name == "sm.consumer_wait")
    page.open(f"{address}#level=pipelined&op={wait.line}")
    assert page.value(FOCUSED) == wait.place and page.value("page.op.line") == wait.line
    shown = page.value("location.hash")
    page.press("j")
    assert page.value("location.hash") != shown
    page.value(f"location.hash = '#level=pipelined&op={wait.line}'")
    assert page.value("new Promise((done) => setTimeout(() => done(page.op.line), 50))") == wait.line


def test_keys_step_through_ops_and_passes(page: Browser, address: str, dumped: tuple[Path, Origins]) -> None:
    origins = dumped[1]
    page.open(f"{address}#level=cta&panes=cta,ptx")
    lines = [op.line for op in origins.ops("01-problem/00-input")]
    for _ in range(9):
        page.press("p")
    assert page.value(FOCUSED) == "01-problem/00-input"
    page.press("j", "j", "j", "k")
    assert page.value("page.op.line") == lines[1]
    page.press("n")
    assert page.value(FOCUSED) == "01-problem/01-split-operands"
    page.press("N", "d")
    assert page.value(FOCUSED) == "01-problem/02-choose-schedule"
    assert page.value("page.panes[0].text.querySelectorAll('.row.added').length") > 3
    assert "~diff" in page.value("location.hash")
    page.press("l")
    assert page.value(FOCUSED) == "09-ptx/kernel"
    page.press("1", "3")
    assert page.value("page.panes.length") == 3
    page.press("?")
    assert page.value("document.getElementById('help').open")
    page.press("Escape")
    assert not page.value("document.getElementById('help').open") and page.value("page.op")
    page.press("Escape")
    assert page.value("page.op") is None
    page.press("s")
    assert page.value("page.view") == "schedule"
    sheet = page.value("document.getElementById('schedule').innerText")
    assert sheet.count("given") > 3 and "swizzles that were weighed" in sheet
    agents = page.value("[...document.querySelectorAll('.times .agent')].map((one) => one.textContent)")
    bars = page.value("[...document.querySelectorAll('.track .multiply')].map((one) => one.title)")
    assert "warps" in agents and bars and "multiply, tile 0" in bars[0]
    page.press("i")
    assert page.value("document.querySelectorAll('#pictures td.witness').length") > 0
    page.press("e", "w")
    assert page.value("document.body.classList.contains('wrap')")


def test_the_pass_that_made_an_op_is_one_key_away(page: Browser, address: str, dumped: tuple[Path, Origins]) -> None:
    (op, *_) = (op for op in dumped[1].ops("nvvm") if op.name == "nvvm.ldmatrix")
    page.open(f"{address}#level=nvvm&op={op.line}")
    page.press("o")
    assert page.value(FOCUSED) == "07-nvvm/01-convert-sm-to-nvvm"
    assert page.value("page.panes[page.focused].text.querySelectorAll('.row.removed.marked').length") == 1
    page.press("o")
    assert page.value(FOCUSED) == "05-atoms/05-split-k-slices"


def test_a_diff_has_each_changed_line_with_its_number(page: Browser, address: str) -> None:
    page.open(f"{address}#level={GUILTY}&panes={GUILTY}~diff")
    rows = "[...page.panes[0].text.querySelectorAll('.row')]"
    assert page.value(
        f"{rows}.every((row) => row.querySelector('.no').nextSibling.nextSibling.innerText.trimEnd() === "
        "page.store.words(page.store.steps[row.dataset.step], Number(row.dataset.line)).trimEnd())"
    )
    step = f"page.store.named('{GUILTY}')"
    assert page.value(f"{rows}.filter((row) => row.classList.contains('added')).length === {step}.added")
    assert page.value(f"{rows}.filter((row) => row.classList.contains('removed')).length === {step}.removed")


def test_the_verdict_comes_first_and_leads_to_both_accesses(page: Browser, address: str) -> None:
    page.open(address)
    assert page.value("page.view") == "verdict"
    said = page.value("document.getElementById('verdict').innerText")
    assert f"WRONG from {GUILTY} on. This file was edited" in said and "first fault that was found" in said
    page.click("#verdict td button + button")
    assert page.value(FOCUSED) == GUILTY
    removed = page.value("[...document.querySelectorAll('.row.removed')].map((row) => row.innerText)")
    assert any("sm.barrier" in row for row in removed)
    page.press("d", "v")
    page.click("#verdict h3 + pre + button")
    assert page.value(FOCUSED) == GUILTY
    accused = page.value("[...document.querySelectorAll('.row.accused')].map((row) => row.innerText)")
    assert len(accused) == 2
    (read,), (copy,) = ([row for row in accused if word in row] for word in ("sm.ldmatrix", "sm.cp_async"))
    assert read.strip().endswith("broke the rule") and copy.strip().endswith("the other access")


def test_the_schedule_says_which_rows_add_up_and_which_sms_are_idle(page: Browser, address: str) -> None:
    page.open(f"{address}#level=problem&view=schedule")
    said = page.value("document.getElementById('schedule').innerText")
    assert re.search(
        r"(\S+) binds? it: (it works|they work) \d+ % of that time; the next resource, [\w ]+, \d+ %\.", said
    )
    assert re.search(r"[\w ,]+ and [\w ]+ add up to the whole time; [\w ,]+ run underneath\.", said)
    grid = "{at_once: 132, full_waves: 3, last_wave: 116, last_wave_halves: 0, tiles: 512}"
    idle = " In the last wave, 16 of 132 SMs have no tile: 12 % of them, 3 % of the whole time."
    assert page.value(f"idleOf({grid}, 1, {{share: 0.0301}})") == idle
    assert page.value(f"idleOf({{...{grid}, last_wave_halves: 8}}, 1, {{share: 0.0301}})") == ""


def test_a_badge_says_what_it_counts(page: Browser, address: str) -> None:
    page.open(f"{address}#level=epilogue&panes=epilogue")
    badges = "[...document.querySelectorAll('.row .tag')].map((one) => [one.innerText, one.title])"
    titles = dict(page.value(badges))
    assert "bank conflicts: 4-way" in titles["4-way conflict"] and "wavefronts: " in titles["16 wavefronts"]


def test_search_finds_lines_and_fields(page: Browser, address: str) -> None:
    page.open(f"{address}#level=smem")
    page.press("/", *"sm.cp_async_commit")
    assert "05-atoms/08-simplify: " in page.value("document.getElementById('results').innerText")
    page.press("Enter")
    assert page.value("page.store.op(page.store.steps[page.op.step], page.op.line).name") == "sm.cp_async_commit"
    assert page.value("document.getElementById('results').hidden")
    page.value("document.getElementById('search').value = ''")
    page.press("/", *"sm.cp_async_commit", "ArrowDown", "ArrowDown")
    second = page.value("document.activeElement.innerText").partition(":")[0]
    page.press("Enter")
    assert str(page.value("page.op.line")) == second
    page.value("document.getElementById('search').value = ''")
    page.press("/", *"mainloop.stages", "Enter")
    assert page.value("page.view") == "schedule"
    page.value("document.getElementById('search').value = ''")
    page.press("/", *"underneath")
    assert "run underneath" in page.value("document.getElementById('results').innerText")


def test_texts_after_an_edit_are_marked(page: Browser, address: str) -> None:
    page.open(f"{address}#level=atoms&panes=cta,atoms,ptx")
    own = "[...pane.head.querySelectorAll('.tag')].filter((one) => !one.hidden).map((one) => one.innerText)"
    tags = f"page.panes.map((pane) => {own})"
    assert page.value(tags) == [["edited"], ["edited"], ["from before the edit"]]
    page.open(f"{address}#level=problem&panes=problem")
    assert page.value(tags) == [[]]


def test_it_is_light_or_dark_as_the_system_or_the_key_says(page: Browser, address: str) -> None:
    light = "(() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);"
    light += " return r + g + b > 600; })()"
    page.open(address)
    page.value("localStorage.clear()")
    page.open(address, dark=True)
    assert not page.value(light)
    page.press("t")
    assert page.value(light)
    page.value("localStorage.clear()")
    page.open(address, dark=False)
    assert page.value(light)


@pytest.mark.parametrize("view", ["levels", "schedule", "verdict", "pictures"])
def test_a_phone_scrolls_only_within_parts(view: str, page: Browser, address: str) -> None:
    page.open(f"{address}#level=atoms&op=60&view={view}", width=390, height=800)
    assert page.value("page.panes.length") == 1
    assert page.value("document.documentElement.scrollWidth") <= 390
    assert page.value(f"document.getElementById('{view}').getBoundingClientRect().bottom") <= 800


def test_markup_in_names_runs_nothing_and_is_shown_as_it_is(page: Browser, address: str) -> None:
    page.open(f"{address}#level=cta&panes=cta")
    assert HOSTILE in page.value("page.panes[0].text.innerText")
    page.press("v")
    assert HOSTILE in page.value("document.getElementById('verdict').innerText")
    page.press("/", *"hostile", "Enter")
    assert page.value("window.hostile === undefined && document.querySelectorAll('img').length === 0")
