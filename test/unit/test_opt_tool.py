"""`lowtide-opt`'s own parts that lit does not reach: expectations, status, output files. See also test/lit/opt."""

from pathlib import Path

import pytest

from lowtide.cli.expected_diagnostics import Report, expectations, unmet
from lowtide.cli.opt_tool import main

BAD = "module attributes {test.bad = #tile.schedule<mainloop = <stages = one>>} {}\n"


def error(line: int | None, message: str = "a message") -> Report:
    return Report("error", line, 1, message)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x // expected-error {{a message}}", 1),
        ("// expected-error @+1 {{a message}}\nx", 2),
        ("// expected-error@+2 {{a message}}\n\nx", 3),
        ("x\n// expected-error @-1 {{a message}}", 1),
        ("// expected-error @below {{a message}}\nx", 2),
        ("// expected-error @below {{a message}}\n// expected-note @below {{n}}\nx", 3),
        ("x\n// expected-note @above {{n}}\n// expected-error @above {{a message}}", 1),
        ("// expected-error @unknown {{a message}}", None),
    ],
)
def test_an_expectation_speaks_of_its_line(text: str, line: int | None) -> None:
    expected = [entry for entry in expectations(text) if entry.kind == "error"]
    assert [entry.line for entry in expected] == [line]
    assert unmet(expected, [error(line)]) == []
    assert unmet(expected, [error(77)]) != []


def test_lines_count_from_the_parts_first() -> None:
    (expected,) = expectations("// expected-error @below {{m}}\nx", first_line=10)
    assert (expected.line, expected.written_at) == (11, 10)


@pytest.mark.parametrize("kind", ["error", "warning", "remark", "note"])
def test_kinds_are_told_apart(kind: str) -> None:
    expected = expectations(f"// expected-{kind} {{{{m}}}}")
    for other in ["error", "warning", "remark", "note"]:
        assert (unmet(expected, [Report(other, 1, 1, "m")]) == []) == (kind == other)


def test_a_message_may_be_a_part_but_not_a_pattern_unless_it_says_so() -> None:
    assert unmet(expectations("// expected-error {{es [1]}}"), [error(1, "extents es [1] here")]) == []
    assert unmet(expectations("// expected-error {{e.e}}"), [error(1, "eve")]) != []
    assert unmet(expectations("// expected-error-re {{has {{[0-9]+}} bytes}}"), [error(1, "has 12 bytes")]) == []
    assert unmet(expectations("// expected-error-re {{has {{[0-9]+}} bytes}}"), [error(1, "has no bytes")]) != []


def test_each_expectation_meets_one_report() -> None:
    once = expectations("// expected-error {{m}}")
    assert unmet(once, [error(1, "m"), error(1, "m")]) == ["1:1: unexpected error: m"]
    assert unmet(once * 2, [error(1, "m")]) == ['1: expected error "m" was not produced on line 1']


def write(folder: Path, text: str) -> str:
    path = folder / "in.mlir"
    path.write_text(text)
    return str(path)


def test_the_status_says_whether_all_went_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path, "module {}")]) == 0
    assert capsys.readouterr().out == "module {\n}\n"
    assert main([write(tmp_path, BAD)]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "in.mlir:1:67: error: stages takes an integer" in captured.err
    with pytest.raises(SystemExit) as caught:
        main(["--no-such-flag"])
    assert caught.value.code == 2


def test_with_verify_diagnostics_only_what_is_expected_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([write(tmp_path, "// expected-error @below {{takes an integer}}\n" + BAD), "--verify-diagnostics"]) == 0
    assert main([write(tmp_path, "// expected-error @below {{takes a word}}\n" + BAD), "--verify-diagnostics"]) == 1
    assert 'expected error "takes a word" was not produced' in capsys.readouterr().err
    assert main([write(tmp_path, BAD), "--verify-diagnostics"]) == 1
    assert main([write(tmp_path, "module {} // expected-error {{x}}"), "--verify-diagnostics"]) == 1


def test_an_error_without_a_diagnostic_counts(tmp_path: Path) -> None:
    text = "// expected-error @unknown {{needs a target}}\nmodule {}"
    path = write(tmp_path, text)
    assert main([path, "-p", "choose-schedule", "--verify-diagnostics"]) == 0
    assert main([path, "-p", "cse", "--verify-diagnostics"]) == 1


def test_one_bad_part_fails_but_the_others_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"module @first {{}}\n// -----\n{BAD}// -----\nmodule @third {{}}\n"
    assert main([write(tmp_path, text), "--split-input-file"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "module @first {\n}\n// -----\nmodule @third {\n}\n"
    assert "in.mlir:3:" in captured.err


def test_an_output_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    assert main([write(tmp_path, BAD), "-o", str(out)]) == 1
    assert not out.exists()
    assert main([write(tmp_path, "module {}"), "-o", str(out)]) == 0
    assert out.read_text() == "module {\n}\n"


def test_locations_and_the_generic_form_print_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "module {}")
    assert main([path, "--mlir-print-debuginfo"]) == 0
    assert 'loc("' in capsys.readouterr().out
    assert main([path, "--mlir-print-op-generic"]) == 0
    assert '"builtin.module"' in capsys.readouterr().out


def test_only_a_line_feed_ends_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "// form feed \f, tab \v, separator \u2028\n" + BAD.replace("\n", " // expected-error {{an integer}}\r\n")
    assert main([write(tmp_path, text), "--verify-diagnostics"]) == 0
    assert main([write(tmp_path, text)]) == 1
    assert "in.mlir:2:67: error: stages takes an integer" in (shown := capsys.readouterr().err)
    assert BAD.strip() in shown


RETURNS_I64 = """func.func @f(%a: i32) -> i64 {
  return %a : i32 loc("elsewhere.py":1:3)
}
"""


def test_a_place_in_another_file_keeps_the_name_of_that_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, RETURNS_I64)
    assert main([path]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("elsewhere.py:1:3: error: type of return operand") and "in.mlir" not in shown
    assert main([path, "--verify-diagnostics"]) == 1
    assert "elsewhere.py:1:3: unexpected error: type of return operand" in capsys.readouterr().err
    at_first = write(tmp_path, RETURNS_I64.replace("{\n", "{ // expected-error {{type of return operand}}\n", 1))
    assert main([at_first, "--verify-diagnostics"]) == 1
    nowhere = write(tmp_path, "// expected-error @unknown {{type of return operand}}\n" + RETURNS_I64)
    assert main([nowhere, "--verify-diagnostics"]) == 0


def test_errors_of_lowtide_name_the_file_and_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "\nmodule {} // expected-error {{[module-lacks]}}\n")
    assert main([path, "--check-level"]) == 1
    assert f"{path}:2:1: error: the module lacks tile.level" in capsys.readouterr().err
    assert main([path, "--check-level", "--verify-diagnostics"]) == 0
