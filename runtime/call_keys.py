"""The key of a call on torch tensors: everything that the call depends on, as one tuple, and a cache for such keys.

The key is made at each call from the tensors' current state, so that a tensor that is resized, moved or given other
memory in place has another key. The tuple is generated as source and compiled, because a loop over the operands takes
longer than the launch. For inputs a, b, a scalar and the output it is

    (context()[1], v0.shape, v0.stride(), v0.dtype, v0.device, v0.data_ptr(), …, *scalar(2, v2), …)
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lowtide.runtime.checks import check_scalar

_MEMREF = ("v{0}.shape", "v{0}.stride()", "v{0}.dtype", "v{0}.device", "v{0}.data_ptr()")
_SCALAR_ENTRIES = 2
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class CallKeys:
    """The keys of one kernel's calls. `of(values)` is the whole key. `signature(key)` omits addresses and scalars,
    except the remainders of addresses that `placed` asks for, as (argument, divisor). `calls(key)` has only addresses
    and scalars, in the order of the arguments. The current context comes first in `of` and `signature`."""

    def __init__(
        self,
        arguments: Sequence[Mapping[str, Any]],
        context: Callable[[], tuple[Any, Any]],
        placed: Sequence[tuple[int, int]] = (),
        more: Sequence[str] = (),
        names: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """`more`: expressions of the values `v0`, `v1`, … and of `names` that are added to both."""
        parts, stays, varies = ["context()[1]", *more], [*range(1 + len(more))], []
        size = len(parts)
        for index, argument in enumerate(arguments):
            if argument["kind"] == "scalar":
                parts.append(f"*scalar({index}, v{index})")
                varies.append(size)
                size += _SCALAR_ENTRIES
            else:
                parts += [part.format(index) for part in _MEMREF]
                size += len(_MEMREF)
                stays += range(size - len(_MEMREF), size - 1)
                varies.append(size - 1)

        def scalar(index: int, value: Any) -> tuple[int | float, float]:
            number = check_scalar(arguments[index], value)
            return number, math.copysign(1.0, number)  # 0.0 and -0.0 are equal but different

        values = "".join(f"v{index}, " for index in range(len(arguments)))
        source = f"def of(values):\n  {values}= values\n  return ({', '.join(parts)})\n"
        scope: dict[str, Any] = {**names, "context": context, "scalar": scalar}
        exec(compile(source, "<key of a call>", "exec"), scope)
        #: Raises LaunchError for a scalar that does not fit, and the errors of objects that are not torch tensors.
        self.of: Callable[[Sequence[Any]], tuple[Any, ...]] = scope["of"]
        unplaced: Callable[[tuple[Any, ...]], tuple[Any, ...]] = operator.itemgetter(*stays)
        remainders = [(varies[number], unit) for number, unit in placed]
        self.signature: Callable[[tuple[Any, ...]], tuple[Any, ...]] = (
            (lambda key: (*unplaced(key), *[key[at] % unit for at, unit in remainders])) if placed else unplaced
        )
        self.calls: Callable[[tuple[Any, ...]], tuple[Any, ...]] = operator.itemgetter(*varies)


class Recent(dict[Any, Any]):
    """A dict that keeps the `most` / 2 entries used last, and at most `most` entries.

    A missing key gives None. There are two generations, so that a lookup costs no more than in a dict: a full young
    generation becomes the old one, and an entry found in the old one becomes young again. Threads may share it.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._half = most // 2
        self._old: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def __missing__(self, key: Any) -> Any:
        found = self._old.get(key)
        if found is not None:
            self[key] = found
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._lock:
            if len(self) >= self._half and key not in self:
                self._old = dict(self)
                self.clear()
            super().__setitem__(key, value)
