"""Analyses of texts that are no IR, of texts that somebody is typing, and of positions in any encoding."""

import pytest
import worker_faults
from editor_client import PROBLEM

from lowtide.compiler.driver import lower
from lowtide.inspection.editor.analysis import Analysis
from lowtide.inspection.editor.analyze import MOST_BYTES, analyze
from lowtide.inspection.editor.hover import hover_at
from lowtide.inspection.editor.text import Text
from lowtide.inspection.editor.worker import Worker, answer


@pytest.fixture(scope="module")
def dump() -> str:
    return lower(PROBLEM, until="pipelined").levels["pipelined"]


def words(text: str, found: Analysis) -> list[tuple[str, str]]:
    """The place and message of each problem."""
    return [(Text(text).part(problem.place), problem.message) for problem in found.problems]


def test_any_beginning_of_a_dump_is_analysed(dump: str) -> None:
    for end in range(0, len(dump) - 3, 331):
        found = analyze(dump[:end])
        assert len(found.problems) <= 1
        assert end < 4000 or len(found.ops) > 10  # what stands before the end is known


def test_what_stands_around_a_half_typed_line_is_known(dump: str) -> None:
    whole = analyze(dump)
    at = dump.index("\n", dump.index("sm.producer_commit"))
    found = analyze(f"{dump[:at]}\n  %more = sm.produ{dump[at:]}")
    assert [message for _, message in words("", found)] == ["custom op 'sm.produ' is unknown"]
    assert [op.name.split(".")[-1] for op in found.ops if op.name.startswith("sm.")] == [
        op.name.split(".")[-1] for op in whole.ops if op.name.startswith("sm.")
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (bytes(range(256)).decode("latin-1"), "null-character"),
        ("".join(map(chr, range(1, 256))), None),
        ("\x7fELF\x02\x01\x01\x00\x00", "null-character"),
        ("(" * 100_000, "nested-brackets"),
        ('"' * 1001, None),
        ("func.func @f() { return }\ud800", "not-unicode"),
        ("\ufeffmodule {}", None),
    ],
    ids=["all bytes", "all but null", "ELF", "brackets", "quotes", "half a character", "byte order mark"],
)
def test_what_is_no_ir_is_one_problem(text: str, code: str | None) -> None:
    [problem] = analyze(text).problems
    assert problem.code == code and problem.message
    line, unit = Text(text).position(problem.place[0])
    assert line >= 0 and unit >= 0


def test_a_text_above_the_limit_is_not_checked() -> None:
    found = analyze("//" + "x" * MOST_BYTES)
    assert [problem.severity for problem in found.problems] == ["information"]
    assert "4 MiB" in found.problems[0].message


def test_an_empty_text_has_no_problem() -> None:
    assert analyze("") == analyze("\r\n\t \r\n") == Analysis()


@pytest.mark.parametrize(("units", "at"), [("utf-8", 19), ("utf-16", 14), ("utf-32", 13)])
def test_positions_are_in_the_units_of_the_client(units: str, at: int) -> None:
    line = '/* × 𝛼 */ "é𝛽" %foo'
    text = Text(f"a\r\n{line}\rb\nc", units)
    offset = text.encoded.index(b"%foo")
    line_of, unit = text.position(offset)
    expected = {"utf-8": line[: line.index("%")].encode(), "utf-16": line[: line.index("%")].encode("utf-16-le")}
    count = len(expected.get(units, b"")) or line.index("%")
    assert (line_of, unit) == (1, count // 2 if units == "utf-16" else count)
    assert text.offset((line_of, unit)) == offset
    assert text.position(text.encoded.index(b"b")) == (2, 0) and text.position(text.encoded.index(b"c")) == (3, 0)
    assert text.offset((1, 1000)) == text.encoded.index(b"\rb") and text.offset((99, 0)) == len(text.encoded)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_problems_have_their_places_behind_tabs_carriage_returns_and_other_alphabets(end: str) -> None:
    lines = [
        "// ärger 𝛼",
        'func.func @f() attributes {a = "𝛽é"} {',
        '\t// ∑\t"x',
        "\t\t%0 = arith.konstant 1 : i32",
        "\treturn",
        "}",
    ]
    text = end.join(lines)
    [problem] = analyze(text).problems
    assert words(text, analyze(text)) == [("arith.konstant", "custom op 'arith.konstant' is unknown")]
    assert Text(text).position(problem.place[0]) == (3, 7)


def test_hover_behind_other_alphabets_is_of_the_value_there() -> None:
    text = (
        'func.func @f(%a: i32) attributes {a = "𝛽é"} { return }\nfunc.func @g(%b: f32) attributes {b = "𝛽"} { return }'
    )
    found = analyze(text)
    shown = hover_at(found, Text(text), Text(text).offset((1, 14)))
    assert shown is not None and "%b: f32" in shown[0]


def test_each_part_of_a_split_file_is_a_module() -> None:
    text = "func.func @f() { return }\n// -----\nfunc.func @f() { retürn }\n// -----\nfunc.func @f() { return }"
    found = analyze(text)
    assert [
        (place, Text(text).position(problem.place[0]))
        for (place, _), problem in zip(words(text, found), found.problems, strict=True)
    ] == [("ü", (2, 20))]
    assert [op.name for op in found.ops].count("func.func") == 2


def test_a_verifier_s_error_has_its_notes() -> None:
    text = "func.func @f() { return }\nfunc.func @f() { return }"
    [problem] = analyze(text).problems
    assert "redefinition of symbol" in problem.message
    assert [Text(text).position(place[0]) for place, _ in problem.notes] == [(0, 0)]
    assert len(analyze(text).ops) == 4
    text = "func.func @f(%a: i32) {\n  %b = arith.addi %a, %a : i32\n  return %b : i32\n}"
    found = analyze(text)
    assert words(text, found)[0][0] == "return"
    value = found.definition(text.index("%b : i32"))
    assert value is not None and value.place[0] == text.index("%b =")


def test_a_schedule_of_a_problem_is_checked_against_the_target() -> None:
    assert analyze(PROBLEM).problems == []
    [problem] = analyze(PROBLEM.replace("stages = 3", "stages = 90")).problems
    assert problem.code == "stages-range"
    assert analyze(PROBLEM.replace(', tile.target = "sm_80"', "").replace("stages = 3", "stages = 90")).problems == []


def test_a_module_of_no_known_level_is_refused() -> None:
    [problem] = analyze('module attributes {tile.level = "ptxx"} {}').problems
    assert problem.code == "unknown-level"
    [problem] = analyze("module attributes {tile.level = 3 : i32} {}").problems
    assert problem.code == "module-attribute"


def test_an_exception_within_an_analysis_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    def faulty(text: str) -> Analysis:
        raise ValueError(f"no {text}")

    [problem] = answer("module", faulty).problems
    assert "Lowtide failed, by ValueError: no module" in problem.message
    assert "Traceback" in capsys.readouterr().err


def test_a_process_that_ends_or_waits_is_replaced() -> None:
    worker = Worker(seconds=5, serve=worker_faults.serve)
    try:
        assert worker.analyze("cta").level == "cta"
        [problem] = worker.analyze("abort").problems
        assert "ended the process" in problem.message
        worker.seconds = 0.2
        [problem] = worker.analyze("wait").problems
        assert "more than 0.2 s" in problem.message
        worker.seconds = 5
        assert worker.analyze("smem").level == "smem"
    finally:
        worker.stop()
