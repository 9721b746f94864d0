"""Reproducers of failing passes: the IR before the pass, and a command that fails in the same way."""

import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

from mlir import ir

from lowtide.compiler.contexts import make_context, parse_file
from lowtide.compiler.dumps import REPRODUCER
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.targets import Target


def write_reproducer(text: str, pipeline: str, target: Target, folder: Path | None, *, level: Level | None) -> Path:
    """Write the IR, below a comment with the command, into `folder` or a new temporary folder."""
    path = (folder or Path(tempfile.mkdtemp(prefix="lowtide-"))).absolute() / REPRODUCER
    write_whole(path, f"// {command_line(path, pipeline, target, level=level)}\n{text}")
    return path


def command_line(path: Path, pipeline: str, target: Target, *, level: Level | None) -> str:
    """The `lowtide-opt` command that runs a pipeline on a file and, if `level` is given, checks the result against
    it."""
    words = ["lowtide-opt", str(path), f"--target={target.name}", f"--pass-pipeline={pipeline}"]
    if level is not None:
        words.append(f"--check-level={level}")
    return shlex.join(words)


def message_at(path: Path, run: Callable[[ir.Module], None]) -> str | None:
    """The message of the failure when it is repeated on the file, with locations in the file. None if it succeeds."""
    try:
        run(parse_file(path, make_context()))
    except Error as error:
        return str(error)
    return None
