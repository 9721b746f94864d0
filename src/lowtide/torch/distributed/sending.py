"""Chooses how a rank sends its rows of A to the other ranks, and the parts of a sum to their owners.

The copy engine sends rows of A, or the kernel that multiplies them does (`grid.sender` of its schedule).

For parts of a sum, either one kernel stores all parts in the memory of their owners, or each part is a product of its
own, and the copy engine sends it while the next product runs. The estimate assumes that stores do not overlap with
products: the link is slower than the SMs, so stores to a peer probably hold up the loads of the next tiles. Copies need
no SM, but each part has a grid of its own, and so a last wave of its own.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace

import lowtide as lt
from lowtide.compiler.native import native_target
from lowtide.compiler.sender import kernel_is_sender
from lowtide.compiler.spec_fields import UNBATCHED

KERNEL = "kernel"
SENDERS = ("copy_engine", KERNEL)
"""The words of `grid.sender`. Its enum is not used here, because it imports MLIR."""
_CHOSEN = "lowtide.compiler.chosen"  # imports MLIR, which takes half a second
_LINK = (
    180  # bytes per cycle at the highest clock, of a copy to a peer: 16.8 MB in 47 µs between two H200s, by a profile
)
_START = 6000  # cycles: a kernel's start and end


def kernel_sends(spec: lt.GemmSpec, sender: str | None) -> bool:
    """Whether the kernel of an all-gather sends this rank's shard of A; otherwise the copy engine does. `spec`: the
    problem with `peers`. `sender`: one of SENDERS; None: as in the schedule that is chosen for `spec`. Other ranks may
    choose otherwise."""
    return kernel_is_sender(spec) if sender is None else sender == KERNEL


def sends_copies(spec: lt.GemmSpec, rows: Sequence[int], rank: int, size: int) -> bool:
    """Whether copies are estimated to take less time than stores on this rank; other ranks may choose otherwise.
    `spec`: the problem of the kernel that stores all parts. `rows`: the number of rows of each part. `size`: the bytes
    of a row of D."""
    target, _ = native_target()
    chosen_cycles = importlib.import_module(_CHOSEN).chosen_cycles
    of_part = {count: chosen_cycles(alone(spec, count), target) if count else 0.0 for count in {*rows}}
    order = [rows[(rank + step) % len(rows)] for step in range(1, len(rows) + 1)]
    products = [_START + of_part[count] for count in order]
    sent = [count * size / _LINK for count in order[:-1]]
    # The copy engine ends after the last product if the last copy takes longer, or if all copies do.
    copied = sum(products) + max(0.0, sent[-1] - products[-1], sum(sent) - sum(products[1:]))
    stored = _START + chosen_cycles(spec, target) + sum(sent)
    return copied < stored


def alone(spec: lt.GemmSpec, rows: int) -> lt.GemmSpec:
    """The problem of one part, which has `rows` rows."""
    return replace(spec, m=rows, batch=UNBATCHED, arrivals=False, lists=None, counts=False)
