"""The table of known targets. A newer target has the mma.sync and copy atoms of the older ones."""

import difflib
import re

from lowtide.errors import TargetError
from lowtide.targets.atoms import COPY_ATOMS, MMA_ATOMS, WGMMA_ATOMS
from lowtide.targets.target import Target

_KIB = 1024

# All later targets inherit them.
_SM80_MMA, _SM89_MMA, _SM90_MMA = (
    tuple(name for name, atom in MMA_ATOMS.items() if name not in WGMMA_ATOMS and atom.compute_capability <= capability)
    for capability in ((8, 0), (8, 9), (9, 0))
)
_SM80_COPY = tuple(name for name in COPY_ATOMS if not name.startswith(("tma", "stmatrix")))
_SM90_COPY = tuple(name for name in COPY_ATOMS if not name.startswith("tma"))


def _sm90(name: str) -> Target:
    """H100 and H200: `sm_90` and `sm_90a` differ only in the instructions that they accept."""
    return Target(
        name=name,
        compute_capability=(9, 0),
        smem_bytes_per_cta=227 * _KIB,
        smem_bytes_per_sm=228 * _KIB,
        max_threads_per_sm=2048,
        max_ctas_per_sm=32,
        max_cluster=8,
        clusters_at_once=((4, 30), (8, 15)),  # cuOccupancyMaxActiveClusters on an H200
        sm_count=132,
        l2_bytes=60 * _KIB * _KIB,
        clock_mhz=1980,
        memory_bytes_per_cycle=2300,
        # wgmma is architecture-specific; TMA is not, but is useful only with wgmma.
        mma_atoms=(*_SM90_MMA, *WGMMA_ATOMS) if name.endswith("a") else _SM90_MMA,
        copy_atoms=tuple(COPY_ATOMS) if name.endswith("a") else _SM90_COPY,
    )


KNOWN: tuple[Target, ...] = (
    Target(  # A100
        name="sm_80",
        compute_capability=(8, 0),
        smem_bytes_per_cta=163 * _KIB,
        smem_bytes_per_sm=164 * _KIB,
        max_threads_per_sm=2048,
        max_ctas_per_sm=32,
        sm_count=108,
        l2_bytes=40 * _KIB * _KIB,
        clock_mhz=1410,
        memory_bytes_per_cycle=1370,  # with 80 GB
        mma_atoms=_SM80_MMA,
        copy_atoms=_SM80_COPY,
    ),
    Target(  # A40
        name="sm_86",
        compute_capability=(8, 6),
        smem_bytes_per_cta=99 * _KIB,
        smem_bytes_per_sm=100 * _KIB,
        max_threads_per_sm=1536,
        max_ctas_per_sm=16,
        sm_count=84,
        l2_bytes=6 * _KIB * _KIB,
        clock_mhz=1740,
        memory_bytes_per_cycle=380,
        mma_atoms=_SM80_MMA,
        copy_atoms=_SM80_COPY,
    ),
    Target(  # L40S
        name="sm_89",
        compute_capability=(8, 9),
        smem_bytes_per_cta=99 * _KIB,
        smem_bytes_per_sm=100 * _KIB,
        max_threads_per_sm=1536,
        max_ctas_per_sm=24,
        sm_count=142,
        l2_bytes=96 * _KIB * _KIB,
        clock_mhz=2520,
        memory_bytes_per_cycle=325,
        mma_atoms=_SM89_MMA,
        copy_atoms=_SM80_COPY,
        ptx_version=81,  # for conversions to 8-bit floats (PTX ISA, "cvt", "PTX ISA Notes")
    ),
    _sm90("sm_90"),
    _sm90("sm_90a"),
)


def get(name: str) -> Target:
    """The known target `name`. Raises TargetError, which lists the known ones and the target for other GPUs."""
    for target in KNOWN:
        if target.name == name:
            return target
    names = [target.name for target in KNOWN]
    raise TargetError(
        f"unknown target {name!r}; known are {', '.join(names)}{_hint(str(name), names)} [unknown-target]"
    )


def _hint(name: str, names: list[str]) -> str:
    """The target for a GPU of this architecture; the nearest name if it is not an architecture."""
    number = re.fullmatch(r"sm_(\d+)(\d)[af]?", name)
    if number is None:
        close = difflib.get_close_matches(name, names, n=1)
        return f"; did you mean {close[0]!r}?" if close else ""
    capability = int(number[1]), int(number[2])
    running = [target for target in KNOWN if target.compute_capability <= capability]
    if not running:
        return f"; kernels need a GPU of compute capability {'.'.join(map(str, KNOWN[0].compute_capability))} or later"
    newest = [target.name for target in running if not target.architecture_specific][-1]
    return f"; take {newest!r}, whose kernels run on later GPUs too, or 'native' for the GPU at hand"
