"""Instructions on integers that are computed lane by lane, on Python's integers, which do not wrap."""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.numbers.registers import SIGNED, canonical, raw
from lowtide.interpreter.ptx.table import Form


def each_lane(
    form: Form,
    function: Callable[..., Any],
    like: Callable[..., Any] | None = None,
    *,
    sources: Sequence[tuple[int, bool]] = (),
    outs: Sequence[int] = (),
) -> Callable[..., Any]:
    """The function of integers on registers: its result, or a tuple of them, wrapped to `outs` bits.

    `sources`: the bits of each source, and whether it is signed; those that it lacks have the type's bits and are
    unsigned. `like` has the function's parameters, if that does not name them.
    """
    domain, bits = form.domain, form.bits
    named = signature(like or function)
    kinds = [*sources, *[(bits, False)] * (len(named.parameters) - len(sources))]
    widths = tuple(outs) or (bits,)

    def seen(value: int, kind: tuple[int, bool]) -> int:
        return int(canonical(value, kind[0])) if kind[1] else int(value) & (1 << kind[0]) - 1

    def compute(*values: Any) -> Any:
        rows = [raw(value, kind[0], domain) for value, kind in zip(values, kinds, strict=True)]
        if not any(isinstance(row, np.ndarray) for row in rows):
            found = function(*(seen(row, kind) for row, kind in zip(rows, kinds, strict=True)))
            single = found if isinstance(found, tuple) else (found,)
            made: Any = tuple(canonical(int(part), width) for part, width in zip(single, widths, strict=True))
        else:
            lanes = max(np.size(row) for row in rows)
            lists = [by_lane(row, lanes).tolist() for row in rows]
            results = [function(*map(seen, each, kinds)) for each in zip(*lists, strict=True)]
            parts = list(zip(*results, strict=True)) if isinstance(results[0], tuple) else [results]
            made = tuple(
                np.array([canonical(int(each), width) for each in part], SIGNED[width])
                for part, width in zip(parts, widths, strict=True)
            )
        return made if len(made) > 1 else made[0]

    compute.__signature__ = named  # type: ignore[attr-defined]
    return compute
