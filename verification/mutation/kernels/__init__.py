"""The kernels for fault injection: the default schedule of each target, and each family of presets.

Presets get smaller tiles, so that a CTA computes several of them within a second of the interpreter. The features of a
preset, such as its roles, its division of K or its copies, are kept. Shapes are ragged, with several work tiles per CTA
and enough steps of K for the ring to wrap around.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lowtide.verification.mutation.kernels.elements import BYTES, SCALED, TYPES
from lowtide.verification.mutation.kernels.epilogues import EPILOGUES
from lowtide.verification.mutation.kernels.groups import GROUPS, PADDED, TAKEN_ROWS
from lowtide.verification.mutation.kernels.kernel import Kernel, Shape, Trial
from lowtide.verification.mutation.kernels.pairs import PAIRS
from lowtide.verification.mutation.kernels.places import PLACES
from lowtide.verification.mutation.kernels.ranks import RANKS
from lowtide.verification.mutation.kernels.sm80 import SM80
from lowtide.verification.mutation.kernels.sm90a import SM90A
from lowtide.verification.mutation.operators.operator import THREAD_LEVELS

_TIMED = {
    "sm90-wave-sync": ("ptx",),  # its bounded wait, as instructions
    # Threads branch on ends, or read at an index, that they load. The analysis treats all loaded values as data of
    # other threads.
    **dict.fromkeys(("sm80-groups", "sm90-groups", "sm80-padded-groups", "sm90-taken-rows"), (*THREAD_LEVELS, "ptx")),
}

# What is drawn for a kernel depends on those before it, so new ones come last.
_ALL = (*SM80, *SM90A, *PLACES, *BYTES, *TYPES, *SCALED, *EPILOGUES, *GROUPS, *PAIRS, *PADDED, *TAKEN_ROWS, *RANKS)

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {kernel.name: replace(kernel, timed=_TIMED.get(kernel.name, ())) for kernel in _ALL}
)

__all__ = ["KERNELS", "Kernel", "Shape", "Trial"]
