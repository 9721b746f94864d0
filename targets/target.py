"""What a GPU offers one kernel: limits, shared memory, and the instruction atoms it has.

A target is an argument of the compiler; `compiler/native.py` chooses one if none is named. The values of each known
target are in `known.py`.
"""

from dataclasses import dataclass

from lowtide.errors import TargetError
from lowtide.targets.atoms import CopyAtom, MmaAtom, copy_atom, families, mma_atom


@dataclass(frozen=True)
class Target:
    """One compilation target.

    Sizes are in bytes. Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and
    PTX ISA, ".target" (the PTX version that first knows the target).
    """

    name: str
    """As written in `#nvvm.target` and in PTX: `sm_80`, `sm_90a`."""
    compute_capability: tuple[int, int]
    smem_bytes_per_cta: int
    """Largest dynamic shared memory of one CTA, after opt-in."""
    smem_bytes_per_sm: int
    max_threads_per_sm: int
    max_ctas_per_sm: int
    sm_count: int
    """SMs of the usual product; only estimates use it, no code depends on it."""
    l2_bytes: int
    """L2 of the usual product; likewise."""
    mma_atoms: tuple[str, ...]
    copy_atoms: tuple[str, ...]
    smem_bytes_reserved_per_cta: int = 1024
    """What the system takes of each CTA's shared memory; it counts against `smem_bytes_per_sm` only."""
    max_threads_per_cta: int = 1024
    max_cluster: int = 1
    """CTAs of a cluster, at most, that every GPU of the target has room for (CUDA C++ Programming Guide, "Thread Block
    Clusters"); 1 without clusters."""
    clusters_at_once: tuple[tuple[int, int], ...] = ()
    """Sizes of clusters and how many of the usual product's are resident with one CTA per SM; only estimates use it. Of
    sizes left out, as many as the SMs divide into: others lose the SMs left over in each group (GPC)."""
    registers_per_thread: int = 255
    registers_per_sm: int = 65536
    sub_cores: int = 4
    """Of an SM: each issues the instructions of its own warps, from its own quarter of the registers."""
    warp_size: int = 32
    ptx_version: int = 80
    """The PTX version times 10, one that every target here and any recent driver knows; a kernel whose atoms need a
    later one has that."""

    @property
    def chip(self) -> str:
        """The name as LLVM's `-mcpu` and ptxas's `-arch` take it."""
        return self.name

    @property
    def architecture_specific(self) -> bool:
        """Whether code for it runs on this architecture alone (the `a` targets)."""
        return self.name.endswith("a")

    def mma(self, name: str) -> MmaAtom:
        """The mma atom `name`. Raises TargetError where the target lacks it or nobody knows it."""
        atom = mma_atom(name)
        if name not in self.mma_atoms:
            raise TargetError(f"{self.name} has no {name}; it has {families(self.mma_atoms)} [target-mma]")
        return atom

    def copy(self, name: str) -> CopyAtom:
        """The copy atom `name`. Raises TargetError where the target lacks it or nobody knows it."""
        atom = copy_atom(name)
        if name not in self.copy_atoms:
            raise TargetError(f"{self.name} has no {name}; it has {', '.join(self.copy_atoms)} [target-copy]")
        return atom

    def ctas_per_sm(self, threads: int, smem_bytes: int, registers: int = 1) -> int:
        """How many CTAs fit on one SM at once; 0 where not even one does.

        `threads` per CTA, `smem_bytes` of dynamic shared memory per CTA, `registers` per thread.
        """
        if (
            threads > self.max_threads_per_cta
            or smem_bytes > self.smem_bytes_per_cta
            or registers > self.registers_per_thread
        ):
            return 0
        warps = -(-threads // self.warp_size)
        # Registers are handed out to a warp in units of 256 (CUDA occupancy calculator).
        registers_per_warp = -(-registers * self.warp_size // 256) * 256
        return min(
            self.max_ctas_per_sm,
            self.max_threads_per_sm // (warps * self.warp_size),
            self.smem_bytes_per_sm // (smem_bytes + self.smem_bytes_reserved_per_cta),
            self.registers_per_sm // (warps * registers_per_warp),
        )
