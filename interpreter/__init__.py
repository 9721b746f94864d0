"""Runs every level on a CPU under the rules of the hardware: `interpret`, and `run` for PTX without a compiler.

Names are imported when they are first used, so that PTX runs without an installed MLIR.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.interpreter.api import Loaded, interpret, launch_record
    from lowtide.interpreter.launching import run
    from lowtide.interpreter.machine.exploration import Explored, Explorer, explore
    from lowtide.interpreter.machine.interleavings import Report
    from lowtide.interpreter.machine.options import MAX_STEPS, Observers, Options
    from lowtide.interpreter.machine.paths import Paths
    from lowtide.interpreter.machine.traces import Trace
    from lowtide.interpreter.ranks import interpret_ranks
    from lowtide.interpreter.turns import Sending
    from lowtide.interpreter.windows import Calls

_HOMES = {
    "api": ("Loaded", "interpret", "launch_record"),
    "launching": ("run",),
    "machine.exploration": ("Explored", "Explorer", "explore"),
    "machine.interleavings": ("Report",),
    "machine.options": ("MAX_STEPS", "Observers", "Options"),
    "machine.paths": ("Paths",),
    "machine.traces": ("Trace",),
    "ranks": ("interpret_ranks",),
    "turns": ("Sending",),
    "windows": ("Calls",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "MAX_STEPS",
    "Calls",
    "Explored",
    "Explorer",
    "Loaded",
    "Observers",
    "Options",
    "Paths",
    "Report",
    "Sending",
    "Trace",
    "explore",
    "interpret",
    "interpret_ranks",
    "launch_record",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
