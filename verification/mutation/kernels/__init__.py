"""The kernels in which faults are planted: the default schedule of each target, and each family of presets.

The tiles of presets are made smaller, so that a CTA computes several of them within a second of the interpreter. What a
preset is there for, such as its roles, its division of K or its copies, stays. Shapes are ragged, with several work
tiles for each CTA and enough steps of K for the ring to go round.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lowtide.verification.mutation.kernels.elements import BYTES, SCALED, TYPES
from lowtide.verification.mutation.kernels.epilogues import EPILOGUES
from lowtide.verification.mutation.kernels.kernel import Kernel, Shape, Trial
from lowtide.verification.mutation.kernels.places import PLACES
from lowtide.verification.mutation.kernels.sm80 import SM80
from lowtide.verification.mutation.kernels.sm90a import SM90A

_TIMED = {"sm90-wave-sync": ("ptx",)}  # its bounded wait, as instructions

# What is drawn of a kernel depends on those before it: new ones come last.
_ALL = (*SM80, *SM90A, *PLACES, *BYTES, *TYPES, *SCALED, *EPILOGUES)

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {kernel.name: replace(kernel, timed=_TIMED.get(kernel.name, ())) for kernel in _ALL}
)

__all__ = ["KERNELS", "Kernel", "Shape", "Trial"]
