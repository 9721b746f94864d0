"""The targets that have an instruction (PTX ISA, "Target ISA Notes" of each): those of Hopper and later, and of Ampere.

Instructions that are not listed are in all targets that are interpreted.
"""

import re
from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from lowtide.errors import InterpreterError
from lowtide.interpreter.ptx.function_addresses import reached
from lowtide.interpreter.ptx.syntax import Entry, Instruction, Module

_LEAST: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("cp.async", "mbarrier", "redux.sync", "createpolicy"), 80),
        **dict.fromkeys(("cp.async.bulk", "cp.reduce.async.bulk", "barrier.cluster", "mapa", "getctarank"), 90),
        **dict.fromkeys(("stmatrix", "elect.sync", "griddepcontrol", "fence.proxy.async", "st.async", "wgmma"), 90),
        **dict.fromkeys(("setmaxnreg", "multimem", "tensormap", "mbarrier.try_wait"), 90),
        **dict.fromkeys(("red.async", "membar.proxy.async", "fence.proxy.tensormap::generic"), 90),
    }
)
_ARCHITECTURE_SPECIFIC: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"wgmma": (90,), **dict.fromkeys(("setmaxnreg", "tensormap.replace"), (90, 100, 101, 103, 110, 120, 121))}
)
"""Only in targets with an `a`, of these numbers."""
_TARGET = re.compile(r"sm_(\d+)([af]?)")


def check_targets(module: Module, entry: Entry) -> None:
    """Raises InterpreterError for the first instruction of a kernel, or of a function that it calls, that the module's
    target lacks, as ptxas does."""
    target = module.target
    if not target:
        raise InterpreterError(
            "the text has no .target; begin it with .version and .target, such as .target sm_90a [ptx-no-target]"
        )
    found = _TARGET.fullmatch(target)
    if found is None:
        return
    number, suffix = int(found[1]), found[2]
    for each in chain.from_iterable(body.body for body in reached(module, entry)):
        if not isinstance(each, Instruction):
            continue
        if (needed := _needed(each.name, number, suffix)) is not None:
            raise InterpreterError(
                f"{each.describe()}: {target} lacks it; it needs {needed}: change .target [instruction-target]"
            )


def _needed(name: str, number: int, suffix: str) -> str | None:
    """The target that an instruction needs, if another one."""
    parts = name.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    least = next((_LEAST[each] for each in names if each in _LEAST), 0)
    special = next((_ARCHITECTURE_SPECIFIC[each] for each in names if each in _ARCHITECTURE_SPECIFIC), None)
    if special is not None and (not suffix or number not in special):
        return f"sm_{special[0]}a"
    return f"sm_{least}" if number < least else None
