"""The lit suite: `lit -sv test/lit`, or `cmake --build build --target check-lowtide`."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
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

# `lowtide-opt` by a server (tools.py), filecheck by module, so that nothing need be on PATH; each as a word of its own,
# not as part of a path. -E keeps PYTHONPATH from the client, which imports nothing of ours; -S saves its start.
socket = Path(tempfile.mkdtemp(prefix="lowtide-lit-"), "tools")
environment = {**os.environ, **config.environment}
server = subprocess.Popen(
    [sys.executable, here / "tools.py", "serve", socket], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
if server.stdout.readline() != b"ready\n":
    lit_config = globals()["lit_config"]
    lit_config.fatal("lowtide-opt cannot be imported: install Lowtide, or put src/ on PYTHONPATH")


def end() -> None:
    server.terminate()
    server.wait()
    shutil.rmtree(socket.parent)


atexit.register(end)

commands = {"lowtide-opt": f'-S -E "{here / "tools.py"}" run "{socket}"', "filecheck": "-m filecheck"}
for tool, command in commands.items():
    config.substitutions.append((rf"(?<![\w./-]){tool}(?![\w./-])", f'"{sys.executable}" {command}'))
