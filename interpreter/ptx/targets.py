"""The targets that have an instruction (PTX ISA, "Target ISA Notes" of each): those of Hopper and later, and of Ampere.

Instructions that are not listed are in all targets that are interpreted.
"""

import re
from collections.abc import Mapping
from functools import cache
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
# By the whole name, forms of instructions whose other forms have less: the least target, and whether it needs an `a` or
# an `f`. The first that matches counts.
_FORMS = tuple(
    (re.compile(pattern), least, is_special)
    for pattern, least, is_special in (
        (r"redux\.sync\..*f32", 100, True),
        (r"(add|sub|mul|fma)\..*f32x2", 100, False),
        (r"(add|sub|fma)\..*f32\.b?f16", 100, False),
        (r"(ld|st)\..*(v8\.\w32|v4\.\w64)", 100, False),
        (r"st\.bulk.*", 100, False),
        (r"cvt\.(rn|rz)\..*satfinite.*tf32\.f32", 100, False),
        (r"(add|sub|mul)\..*bf16(x2)?", 90, False),
        (r"(add|sub|min|max)\..*[su]16x2", 90, False),
        (r"(min|max)\.relu\.s32", 90, False),
        (r"(ex2|tanh|setp|set)\..*bf16(x2)?", 90, False),
        (r"cvt\..*(bf16\.[su]\d+|[su]\d+\.bf16)", 90, False),
        (r"(atom|red)\..*(v[248]\.\w+|bf16(x2)?|b128)", 90, False),
        (r"[\w.:]*(shared::cluster|multicast::cluster|\.cluster\b)[\w.:]*", 90, False),
        (r"(mma|cvt)\..*(e4m3|e5m2).*", 89, False),
        (r"(min|max)\..*xorsign.*", 86, False),
        (r"(fma|min|max|abs|neg)\..*bf16(x2)?", 80, False),
        (r"(min|max)\..*(f16(x2)?|NaN\.f32)", 80, False),
        (r"fma\..*relu.*", 80, False),
        (r"cvt\..*(b?f16x2|bf16|tf32)\.f32", 80, False),
        (r"(mma\.sync|wmma)\..*(bf16|tf32|f64|and\.popc).*", 80, False),
        (r"mma\.sync\.aligned\.m16n8k(16|32|64|128|256).*", 80, False),
        (r"wmma\..*\.(s4|u4|b1|s8|u8)\b.*", 75, False),
        (r"(ldmatrix|movmatrix|mma\.sync\.aligned\.m(16n8|8n8k(16|32|128))|tanh|ex2\..*f16).*", 75, False),
    )
)
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


@cache
def _needed(name: str, number: int, suffix: str) -> str | None:
    """The target that an instruction needs, if another one."""
    form = next((each for each in _FORMS if each[0].fullmatch(name)), None)
    if form is not None and (number < form[1] or (form[2] and not suffix)):
        return f"sm_{form[1]}{'a' if form[2] else ''}"
    parts = name.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    least = next((_LEAST[each] for each in names if each in _LEAST), 0)
    special = next((_ARCHITECTURE_SPECIFIC[each] for each in names if each in _ARCHITECTURE_SPECIFIC), None)
    if special is not None and (not suffix or number not in special):
        return f"sm_{special[0]}a"
    return f"sm_{least}" if number < least else None
