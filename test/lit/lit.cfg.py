"""The lit suite: `lit -sv test/lit`, or `cmake --build build --target check-lowtide`."""

import os
import sys
from pathlib import Path

import lit.formats

# `config` is what lit hands to this file.
config = globals()["config"]
here = Path(__file__).resolve().parent

config.name = "lowtide"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(here)
config.test_exec_root = str(here.parents[1] / "build" / "lit")
config.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")

# By module, so that nothing need be on PATH; as a word of its own, not as part of a path.
for tool, module in (("lowtide-opt", "lowtide.compiler.opt_tool"), ("filecheck", "filecheck")):
    config.substitutions.append((rf"(?<![\w./-]){tool}(?![\w./-])", f'"{sys.executable}" -m {module}'))
