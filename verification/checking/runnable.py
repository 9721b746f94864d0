"""A level in the form in which the interpreter runs it.

PTX is device code alone. Its host side is that of level llvm, which is beside it in a dump folder, or follows from the
IR of a saved kernel.
"""

from dataclasses import dataclass
from pathlib import Path

from mlir import ir

from lowtide.compiler.contexts import parse_text, read_text
from lowtide.compiler.driver import lower
from lowtide.dialects.levels import Level
from lowtide.errors import IRError
from lowtide.interpreter import Loaded
from lowtide.runtime.files import read_json
from lowtide.runtime.storage import MANIFEST

SUFFIX = ".ptx"


@dataclass(frozen=True)
class Runnable:
    """A level: its module, for level ptx the one of its host side; and the input of the interpreter."""

    level: str
    module: ir.Module
    source: Loaded


def runnable(level: str, text: str, host: str, context: ir.Context, name: str = "") -> Runnable:
    """A level from its text. `host`: the module of level llvm, for level ptx; `name` is for messages.

    Raises IRError for an illegal module, InterpreterError for illegal PTX.
    """
    shown = name or f"<level {level}>"
    if level != str(Level.PTX):
        module = parse_text(text, context, shown)
        return Runnable(level, module, Loaded(module))
    module = parse_text(host, context, f"<host side of {shown}>")
    return Runnable(level, module, Loaded(module, text, shown))


def host_beside(file: Path) -> str:
    """The host side of a PTX text: the finished level llvm of its dump folder, or that of its saved kernel.

    Raises IRError if there is neither.
    """
    folder = file.resolve().parent.parent / f"{Level.LLVM.value:02d}-{Level.LLVM}"
    found = max(folder.glob("[0-9][0-9]-*.mlir"), default=None)
    if found is not None:
        return read_text(found, "MLIR text")
    origin = saved_origin(file)
    if origin is not None:
        return lower(origin, until=Level.LLVM).levels[str(Level.LLVM)]
    raise IRError(
        f"{file} is device code alone: what launches it, and with which arguments, is in level {Level.LLVM}. Give the "
        f"file in its dump folder ({Level.PTX.value:02d}-{Level.PTX} beside {folder.name}), which --dump-ir makes, or "
        "in the folder of its saved kernel [device-code-alone]"
    )


def saved_origin(file: Path) -> str | None:
    """The IR of the saved kernel to which a file belongs; None if it belongs to none, or it is unknown."""
    manifest = file.resolve().parent / MANIFEST
    if not manifest.exists():
        return None
    try:
        origin = read_json(manifest).get("origin")
    except (OSError, ValueError, AttributeError) as error:
        raise IRError(f"{manifest} cannot be read: {error}; save the kernel again [saved-manifest]") from None
    return origin if isinstance(origin, str) else None
