"""How parts of a sum reach their owners: stored by one kernel, or copied while the product of the next part runs.

The kernel's stores to a peer hold up its loads, because the link takes them more slowly than the tiles of a wave are
computed. Copies take no time of an SM, but each part is a grid of its own, with a last wave of its own.
"""

from collections.abc import Sequence
from dataclasses import replace

import lowtide as lt
from lowtide.compiler.chosen import chosen_cycles
from lowtide.compiler.native import native_target
from lowtide.compiler.spec_fields import UNBATCHED

_LINK = 180  # bytes per cycle at the highest clock: copies and stores to a peer, H200 with NVLink 4, 2 GPUs
_START = 6000  # cycles: a kernel's start and end


def sends_copies(spec: lt.GemmSpec, rows: Sequence[int], rank: int, size: int) -> bool:
    """Whether copies are expected to take less time on a rank. `spec`: the kernel that stores all parts. `rows`: the
    number of rows of each part; a row has `size` bytes."""
    target, _ = native_target()
    of_part = {count: chosen_cycles(alone(spec, count), target) if count else 0.0 for count in {*rows}}
    order = [rows[(rank + step) % len(rows)] for step in range(1, len(rows) + 1)]
    products = [_START + of_part[count] for count in order]
    sent = [count * size / _LINK for count in order[:-1]]
    # The copy engine ends after the last product if the last copy takes longer, or if all copies do.
    copied = sum(products) + max(0.0, sent[-1] - products[-1], sum(sent) - sum(products[1:]))
    stored = _START + chosen_cycles(spec, target) + sum(sent)
    return copied < stored


def alone(spec: lt.GemmSpec, rows: int) -> lt.GemmSpec:
    """The product of one part with so many rows."""
    return replace(spec, m=rows, batch=UNBATCHED, arrivals=False, lists=None, counts=False)
