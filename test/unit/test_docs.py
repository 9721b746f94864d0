"""The pages match the code: generated ones are current, reference ones complete, links and paths valid."""

import argparse
import functools
import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import fields, replace
from enum import IntEnum
from pathlib import Path
from types import ModuleType

import pytest

import lowtide as lt
from lowtide.cli import opt_tool
from lowtide.compiler.presets import PRESETS, ladder_of
from lowtide.dialects.tile import CacheHint, EpilogueMath, RasterKind, SchedulerKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.interpreter.numbers import domains
from lowtide.measurement.bench import ladder_pages
from lowtide.passes.pipeline import STEPS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a path begins with, as the pages write it: relative to the repository's root.
FOLDERS = "benchmarks|compiler|dialects|docs|examples|interpreter|passes|runtime|src|targets|test"


# The caption of a table of measurements.
RESULT = r"\[data\]\(\.\./benchmarks/results/[\w-]+\.json\)"


@functools.cache
def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_code_blocks(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def without_write_a_pass(page: Path, text: str) -> str:
    """README's chapter on passes names the files of a pass that is not there."""
    return (
        re.sub(r"## Write a pass.*?(?=^## )", "", text, flags=re.DOTALL | re.MULTILINE)
        if page.name == "README.md"
        else text
    )


def test_generated_pages_and_the_ir_in_the_readme_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    status = load_generator().main(["--check"])
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", ["docs/schedule.md", "docs/dialects/tile.md"])
@pytest.mark.parametrize("enum", [CacheHint, EpilogueMath, RasterKind, SchedulerKind, StorePath])
def test_every_word_of_a_schedule_is_described(page: str, enum: type[IntEnum]) -> None:
    missing = [word for word in map(str, enum) if not re.search(rf"`{word}\b", text_of(page))]
    assert not missing, f"{page} does not describe {', '.join(missing)}"


def test_pages_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = load_generator()
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "inspection" / "editor" / "vscode", tmp_path / "inspection" / "editor" / "vscode")
    for page in generator.PAGES:
        path = tmp_path / "docs" / page
        path.write_text(
            re.sub(
                f"tile.mma|stages = 2|sm[89]0-|mul.wide|Any shape|support.function|DecompressionStream|{RESULT}",
                "",
                path.read_text(encoding="utf-8"),
            ),
            encoding="utf-8",
        )
    assert generator.main(["--check", "--folder", str(tmp_path / "docs")]) == 1
    named = re.findall(r"^(.*): out of date", capsys.readouterr().out, re.MULTILINE)
    assert named == [page for page in generator.PAGES if page != "dialects/sm.md"]  # which says nothing of tile.mma


def test_the_first_page_of_the_documentation_leads_to_every_other() -> None:
    index = ROOT / "docs" / "README.md"
    led_to = {(index.parent / target).resolve() for target in links(index)}
    assert set((ROOT / "docs").rglob("*.md")) - {index} <= led_to


def test_links_lead_to_files() -> None:
    broken = [
        f"{page.name}: {target}" for page in PAGES for target in links(page) if not (page.parent / target).exists()
    ]
    assert broken == []


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", without_code_blocks(page.read_text(encoding="utf-8"))):
        if not target.startswith(("http:", "https:")):
            yield target


def test_paths_that_are_named_exist() -> None:
    pattern = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
    missing = []
    for page in PAGES:
        text = without_write_a_pass(page, without_code_blocks(page.read_text(encoding="utf-8")))
        missing += [f"{page.name}: {path}" for path in pattern.findall(text) if not (ROOT / path).exists()]
    assert missing == []


def test_dumps_that_are_named_are_the_last_of_their_level() -> None:
    named = [name for page in PAGES for name in re.findall(r"\bdump/\d\d-[\w/.-]+", page.read_text(encoding="utf-8"))]
    last = {f"dump/{level.value:02d}-{level}/{len(steps):02d}-{steps[-1].name}.mlir" for level, steps in STEPS.items()}
    assert named and set(named) <= last


def test_ci_runs_the_readmes_own_command_for_the_tests() -> None:
    commands = re.findall(r"^python3 -m venv .*$", text_of("README.md"), re.MULTILINE)
    tests = [command for command in commands if "test/run.py" in command]
    assert tests and set(tests) <= set(text_of(".ci/run").splitlines())


def test_the_schedule_page_has_every_field_and_preset() -> None:
    page = text_of("docs/schedule.md")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([\w.-]+)`", row)}
    assert names == set(Schedule.paths()) | set(PRESETS)


def test_the_page_on_lowtide_opt_has_every_flag_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?) \|", text_of("docs/lowtide-opt.md"), re.MULTILINE)
    named = {flag for row in rows for flag in re.findall(r"`([\w-]+)`", row)}
    actions = [action for action in opt_tool._parser()._actions if not isinstance(action, argparse._HelpAction)]
    assert named == {flag for action in actions for flag in (action.option_strings or [action.dest])}


def test_the_page_on_the_python_api_has_every_name_of_the_root() -> None:
    page = text_of("docs/python-api.md")
    missing = [name for name in lt.__all__ if f"lt.{name}" not in page and f"`{name}`" not in page]
    assert missing == []


def test_the_page_on_the_python_api_has_every_field_of_a_spec() -> None:
    page = text_of("docs/python-api.md")
    block = page.partition("lt.GemmSpec(\n")[2].partition("\n)\n")[0]
    rows = "\n".join(row.split(" | ")[0] for row in page.splitlines() if row.startswith("| `"))
    names = [field.name for field in fields(lt.GemmSpec) if field.init]
    assert re.findall(r"^    (\w+)=", block, re.MULTILINE) == names
    assert [name for name in names if f"`{name}`" not in rows] == []


def test_the_page_on_the_interpreter_has_every_domain() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", text_of("docs/interpreter.md"), re.MULTILINE)
    named = set(rows) - {"problem"}
    assert named and all(domains.domain(name).name == name for name in named)


def test_the_rows_of_each_seed_are_numbered_without_gaps() -> None:
    notes = re.split(r"^## S(\d):.*$", text_of("docs/seeds.md"), flags=re.MULTILINE)[1:]
    for note, text in zip(notes[::2], notes[1::2], strict=True):
        rows = re.findall(r"^\| (S\d\.\d+) \|", text, re.MULTILINE)
        assert rows and rows == [f"S{note}.{row}" for row in range(1, len(rows) + 1)]


def test_a_preset_that_was_not_timed_stands_in_the_ladder_as_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = load_generator()
    steps = ladder_of("sm_90a")
    new = {"sm90-new": replace(steps["sm90-best"], adds="something new")}
    monkeypatch.setattr(ladder_pages, "ladder_of", lambda target, dtype: {**new, **steps})
    ladder = ladder_pages.LADDER_PAGES[0]
    page = generator.ladder_page(ladder, generator.results()[ladder.name])
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| sm90-")]
    assert [row[0].removeprefix("| ") for row in rows] == ["sm90-new", *steps]
    assert rows[0][1] == "not measured" and set(rows[0][2:-1]) == {""} and rows[0][-1] == "something new |"
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("page", [page.name for page in ladder_pages.LADDER_PAGES])
def test_the_charts_show_the_figures_of_their_pages(page: str) -> None:
    lines = [line for line in text_of(f"docs/{page}.md").splitlines() if re.match(r"\| [^|]* \| [\d.]+ \(", line)]
    # A page without figures has no chart, and does not show one.
    chart = text_of(f"docs/{page}.svg") if lines else ""
    assert (ROOT / "docs" / f"{page}.svg").exists() == bool(lines)
    for row in (line.split(" | ") for line in lines):
        assert f">{row[0].removeprefix('| ')}<" in chart
        assert all(f">{row[column].split()[0]}<" in chart for column in (1, 4))


RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_each_file_of_results_has_device_date_and_command_and_stands_as_it_is_written(path: Path) -> None:
    result = load_generator().record.load(path)
    assert result.device and result.date and result.command and result.rows
    assert path.suffix == ".json" and path.read_text(encoding="utf-8") == result.text()


def test_each_result_is_on_a_page_and_each_area_too() -> None:
    generator = load_generator()
    named = {name for page in PAGES for name in re.findall(r"<!-- results: (.*) -->", page.read_text(encoding="utf-8"))}
    shown = named | {page.name for page in ladder_pages.LADDER_PAGES}
    for page in ("docs/any-shape.md", "docs/corners.md", "docs/models.md", "docs/energy.md"):
        shown |= set(re.findall(r"results/([\w-]+)\.json", text_of(page)))
    lost = [
        name
        for name, result in generator.results().items()
        if name not in shown and not {f"area {result.area}", f"cases {result.area}"} & named
    ]
    assert lost == []
    # A page with blocks is among those that are made.
    with_blocks = {
        page.relative_to(ROOT / "docs").as_posix()
        for page in PAGES
        if "<!-- results: " in page.read_text(encoding="utf-8")
    }
    assert with_blocks == set(generator.RESULT_PAGES)


@pytest.mark.parametrize("page", ["docs/performance.md", "docs/verification.md"])
def test_figures_stand_in_tables_alone(page: str) -> None:
    text = without_code_blocks(re.sub(r"(?s)<!-- results: .*?<!-- end of results -->", "", text_of(page)))
    # Ratios, dates, times and speeds; the bounds of the verdicts and how cells look are explained in words.
    explained = {f"{bound}" for bound in (load_generator().verdicts.FASTER, load_generator().verdicts.SLOWER)}
    figures = re.findall(
        r"\b\d\.\d{2,3}\b|\b20\d\d-\d\d-\d\d\b|\b[\d.]+ (?:µs|TFLOP/s|TB/s)", text.replace("`1.05 / 1.06`", "")
    )
    assert set(figures) <= explained


def test_one_version_is_named_everywhere() -> None:
    (version,) = re.findall(r'(?m)^version = "(.*)"$', text_of("pyproject.toml"))
    releases = re.findall(r"(?m)^## (.*)$", text_of("CHANGELOG.md"))
    assert releases[0] == "Unreleased" and releases[1].split(" (")[0] == version
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", release) for release in releases[1:])
    assert set(re.findall(r"\bVersion (\d+\.\d+\.\d+)", text_of("README.md"))) == {version}


def test_anchors_that_are_linked_exist() -> None:
    generator = load_generator()
    anchors = {
        page: {
            generator.verdicts.anchor(title) for title in re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
        }
        for page in PAGES
    }
    broken = []
    for page in PAGES:
        text = without_code_blocks(page.read_text(encoding="utf-8"))
        for target, name in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", text):
            there = (page.parent / target).resolve() if target else page
            if there in anchors and name not in anchors[there]:
                broken.append(f"{page.name}: {target}#{name}")
    assert broken == []


def test_presets_named_in_seeds_exist() -> None:
    named = set(re.findall(r"`(sm\d\d-[\w-]+)`", text_of("docs/seeds.md")))
    assert {name.partition("-")[0] for name in named} == {"sm80", "sm90"} and named <= set(PRESETS)


def test_each_technique_leads_to_its_pass_its_preset_and_its_test() -> None:
    rows = dict(re.findall(r"^\| (S\d\.\d+) \| (.*) \|$", text_of("docs/seeds.md"), re.MULTILINE))
    parts = {
        "pass": r"\]\(\.\./passes/\w[\w/]*\.py\)",
        "preset": r"`sm[89]0-",
        "test": r"(\]\(\.\./|`)test/\w[\w/.-]*[)`]",
    }
    lacking = [
        f"{name}: {part}"
        for name, row in rows.items()
        for part, pattern in parts.items()
        if not re.search(pattern, row)
    ]
    assert {name[:2] for name in rows} == {"S0", "S1", "S2", "S3", "S4"} and lacking == []
