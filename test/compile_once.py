#!/usr/bin/env python3
"""A compiler launcher for CI: reuses the output of a compilation in later build folders.

    CMAKE_CXX_COMPILER_LAUNCHER=$PWD/test/compile_once.py COMPILE_ONCE=FOLDER pip install -e '.[test]'

CI builds the extension in pip's temporary environment, as a wheel, and in the checkout. The output of a compilation is
kept in FOLDER under a hash of the preprocessed text, the compiler and its options other than paths; so an output is
taken only if the compiler would write the same one. The preprocessor runs in any case and writes the list of included
files. Without COMPILE_ONCE, the compiler runs as if it had been called directly.

The CPU seconds of the compilation are kept beside its output. When an output is taken, they are added to the file that
COMPILE_TAKEN names, if it is set: test/edit_loop.py counts them as if the compiler had run.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

NAMES = ("-o", "-c", "-MF", "-MT", "-isystem", "-include")  # options followed by a path
JOINED = ("-I", "-fmacro-prefix-map=")  # options that end in a path
SECONDS = ".seconds"


def without_names(command: list[str]) -> list[str]:
    """The command with assertions that name files without the folder: relative to the checkout, or to the headers'."""
    after = {word[2:] for word in command if word.startswith("-I")}
    after |= {path for word, path in pairwise(command) if word == "-isystem"}
    folders = [str(Path.cwd().parent.parent), *sorted(after)]  # the build folder is build/TAG in a checkout
    return [*command, *(f"-fmacro-prefix-map={folder}/=" for folder in folders)]


def options_of(command: list[str]) -> list[str]:
    """The options that are no paths: the output depends on them, given the preprocessed text."""
    found, words = [], iter(command[1:])
    for word in words:
        if word in NAMES:
            next(words)
        elif not word.startswith(JOINED):
            found.append(word)
    return found


def key_of(command: list[str], output: str) -> str | None:
    """The hash of all that the output depends on. None if the text cannot be preprocessed."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        preprocess = ["-E" if word == "-c" else str(text) if word == output else word for word in command]
        if subprocess.run([*preprocess, "-P"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return None
        digest = hashlib.sha256(text.read_bytes())
    # Behind the name: c++ and g++ are one compiler.
    version = subprocess.run([command[0], "--version"], capture_output=True, check=True).stdout
    digest.update(version.partition(b" ")[2] + "\0".join(options_of(command)).encode())
    return digest.hexdigest()


def main(command: list[str]) -> int:
    folder = os.environ.get("COMPILE_ONCE")
    if not folder or "-c" not in command or "-o" not in command:
        return subprocess.run(command, check=False).returncode
    command, output = without_names(command), command[command.index("-o") + 1]
    key = key_of(command, output)
    kept = Path(folder) / (key or "")
    seconds = kept.with_suffix(SECONDS)
    if key is not None and kept.exists() and seconds.exists():
        shutil.copyfile(kept, output)
        tell(seconds)
        return 0
    before = children_cpu()
    status = subprocess.run(command, check=False).returncode
    if status == 0 and key is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        seconds.write_text(f"{children_cpu() - before}\n")
        shutil.copyfile(output, part)
        part.replace(kept)
    return status


def children_cpu() -> float:
    """CPU seconds of all finished child processes, theirs included."""
    times = os.times()
    return times.children_user + times.children_system


def tell(seconds: Path) -> None:
    """Add the CPU seconds of a compilation that is not repeated to the file that COMPILE_TAKEN names, if it is set."""
    if taken := os.environ.get("COMPILE_TAKEN"):
        with open(taken, "a", encoding="utf-8") as file:
            file.write(seconds.read_text())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
