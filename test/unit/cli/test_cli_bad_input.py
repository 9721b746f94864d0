"""What a command line may say and nothing can make sense of: a message, status 2, and nothing written."""

from pathlib import Path

import pytest
from cli_calls import SMALL, accepted, level_file, refused

import lowtide as lt
from lowtide.cli.expected_diagnostics import expectations
from lowtide.compiler.cache.settings import FOLDER_VARIABLE
from lowtide.compiler.contexts import make_context, parse_source
from lowtide.errors import Error, IRError, LoadError, NotInterpreted
from lowtide.interpreter.machine.global_memory import GlobalMemory


@pytest.mark.parametrize("option", ["--padding", "--rows-between"])
def test_inputs_that_do_not_fit_into_memory_are_refused(option: str) -> None:
    problem = ("--m", "16", "--n", "16", "--k", "16", "--batch", "2", "--target", "sm_80")
    told = refused("interpret", *problem, "--level", "cta", option, "99999999999")
    assert "GiB of host memory to make and to check, this machine has" in told


def test_memory_that_does_not_fit_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(
        NotInterpreted,
        match=r"take the interpreter [\d,]+ GiB, this machine has .*; take a smaller.*\[memory-of-machine\]",
    ):
        GlobalMemory().allocate("d", 1 << 20, 1 << 20, 1 << 20, "f32")


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("compile", "check"):
        assert "the name of a folder is empty; name one, or '.'" in refused(command, *SMALL, "--dump-ir", "")
    assert list(tmp_path.iterdir()) == []
    accepted("compile", *SMALL, "--dump-ir", ".")
    assert level_file(tmp_path, "ptx").exists()


def test_a_command_line_that_does_not_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(accepted("compile", *SMALL, "--emit", "problem"), encoding="utf-8")
    told = refused("reduce", str(file), "-o", str(tmp_path / "out.mlir"), "--check", 'grep -q "x {}')
    assert "is not a command line: No closing quotation; close what is open" in told


def test_a_cache_in_the_home_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, "~no-such-user/x")
    assert "LOWTIDE_CACHE=~no-such-user/x: " in refused("cache", "list")
    with pytest.raises(Error, match=r"name a folder by its whole path, or `off`.*\[cache-folder\]"):
        lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16"), "sm_80")


def test_a_pattern_that_is_no_regular_expression_is_named_with_its_line() -> None:
    with pytest.raises(
        Error, match=r"^2: ' .*' has an invalid regular expression in its braces: unterminated.*\[expected-pattern\]"
    ):
        expectations("\n// expected-error-re {{ {{[}} }}")


def test_null_characters_are_no_module() -> None:
    with pytest.raises(IRError, match=r"<text>:2: a null character, which is no text of IR.*\[null-character\]"):
        parse_source("module {\n\0}", make_context())


@pytest.mark.parametrize("path", [None, "a\0b", b"x", ""])
def test_what_is_no_path_holds_no_bundle(path: object) -> None:
    with pytest.raises(LoadError, match=r"cannot load .*(it is .*; pass a str|\[path-empty\])"):
        lt.runtime.load_bundle(path)
    with pytest.raises(LoadError, match="cannot bundle into "):
        lt.bundle([lt.GemmSpec(a="bf16", b="bf16", d="bf16")], path)


def test_a_kernel_says_what_it_is() -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(m=64, a="bf16", b="bf16", d="f32"), "sm_80", "grid.tile = [64, 64]")
    assert repr(kernel).startswith("<lowtide kernel bf16 x bf16 tn 64x?x? to f32 for sm_80: grid.tile = [64, 64], ")
    assert "\n" not in repr(kernel)
    loaded = lt.runtime.Kernel(kernel.manifest, kernel.ptx)
    assert repr(loaded) == "<lowtide kernel gemm: bf16 x bf16 tn 64x?x? to f32 for sm_80>"
