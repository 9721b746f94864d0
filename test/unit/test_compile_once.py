"""CI's compiler launcher takes an output of another folder only if the compiler would write the same one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).resolve().parents[1] / "compile_once.py"
TEXT = '#include "header.h"\n#include <cassert>\nint f(int x) { assert(x > 0); return x + ADDED + MORE; }\n'


@pytest.fixture
def compiled(tmp_path: Path):
    """Compiles in a checkout of a name. Gives the object, and whether it was taken from another one."""

    def compile_in(
        name: str, *options: str, header: str = "#define ADDED 1\n", folder: str = "kept"
    ) -> tuple[bytes, bool]:
        build = tmp_path / name / "build" / "tag"
        build.mkdir(parents=True, exist_ok=True)
        (source := tmp_path / name / "unit.cpp").write_text(TEXT)
        (source.parent / "header.h").write_text(header)
        count = tmp_path / "count"
        compiler = tmp_path / "compiler"
        compiler.write_text(f'#!/bin/sh\ncase " $* " in *" -c "*) echo >> {count};; esac\nexec c++ "$@"\n')
        compiler.chmod(0o755)
        before = len(count.read_text()) if count.exists() else 0
        listed = ("-MD", "-MT", "unit.o", "-MF", "unit.d")
        command = [str(compiler), "-DMORE=2", *options, *listed, "-o", "unit.o", "-c", str(source)]
        environment = {**os.environ, "COMPILE_ONCE": str(tmp_path / folder) if folder else ""}
        environment["COMPILE_TAKEN"] = str(tmp_path / "seconds")
        subprocess.run([sys.executable, str(LAUNCHER), *command], cwd=build, env=environment, check=True)
        assert str(source.parent / "header.h") in (build / "unit.d").read_text()
        after = len(count.read_text()) if count.exists() else 0
        return (build / "unit.o").read_bytes(), after == before

    return compile_in


def test_the_same_text_in_another_checkout_is_not_compiled_again(compiled, tmp_path: Path) -> None:
    first, was_taken = compiled("one")
    assert not was_taken and not (tmp_path / "seconds").exists()
    assert compiled("two") == compiled("three") == (first, True)
    one, other = map(float, (tmp_path / "seconds").read_text().split())
    assert 0 < one == other < 60


def test_another_header_or_option_is_compiled(compiled) -> None:
    first, _ = compiled("one")
    for options, header in (
        ((), "#define ADDED 5\n"),
        (("-O2",), "#define ADDED 1\n"),
        (("-DNDEBUG",), "#define ADDED 1\n"),
    ):
        other, was_taken = compiled("two", *options, header=header)
        assert not was_taken and other != first


def test_without_a_folder_everything_is_compiled(compiled) -> None:
    assert [compiled(name, folder="")[1] for name in ("one", "one")] == [False, False]
