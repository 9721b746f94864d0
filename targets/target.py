"""The resources of a GPU: limits, shared memory, and instruction atoms.

A target is an argument of the compiler; `compiler/native.py` chooses one by default. `known.py` has the values of the
known targets.
"""

from dataclasses import dataclass

from lowtide.errors import TargetError
from lowtide.targets.atoms import CopyAtom, MmaAtom, copy_atom, families, mma_atom


@dataclass(frozen=True)
class Target:
    """One compilation target.

    Sizes are in bytes. Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and
    PTX ISA, ".target" (the first PTX version with the target).
    """

    name: str
    """The name in `#nvvm.target` and in PTX: `sm_80`, `sm_90a`."""
    compute_capability: tuple[int, int]
    smem_bytes_per_cta: int
    """Largest dynamic shared memory of one CTA, after opt-in."""
    smem_bytes_per_sm: int
    max_threads_per_sm: int
    max_ctas_per_sm: int
    sm_count: int
    """SMs of the usual product; used only in estimates, no code depends on it."""
    l2_bytes: int
    """L2 of the usual product; likewise."""
    clock_mhz: int
    """The highest clock of an SM of the usual product; likewise."""
    memory_bytes_per_cycle: int
    """Bytes that all SMs of the usual product together read and write in memory, per cycle of that clock: 0.95 of the
    bandwidth in its data sheet. The factor was measured on an H200; likewise."""
    mma_atoms: tuple[str, ...]
    copy_atoms: tuple[str, ...]
    smem_bytes_reserved_per_cta: int = 1024
    """Shared memory that the system reserves in each CTA; it counts only against `smem_bytes_per_sm`."""
    max_threads_per_cta: int = 1024
    max_cluster: int = 1
    """The largest number of CTAs in a cluster that each GPU of the target supports (CUDA C++ Programming Guide, "Thread
    Block Clusters"); 1 without clusters."""
    clusters_at_once: tuple[tuple[int, int], ...] = ()
    """(cluster size, clusters that are resident at once with one CTA per SM) on the usual product; used only in
    estimates. For other sizes, the number of SMs divided by the size; GPCs lose the SMs left over."""
    registers_per_thread: int = 255
    registers_per_sm: int = 65536
    sub_cores: int = 4
    """Sub-cores of an SM: each issues the instructions of its own warps, from its own quarter of the registers."""
    warp_size: int = 32
    ptx_version: int = 80
    """The PTX version times 10, known to all targets here and to any recent driver; a kernel whose atoms need a later
    version uses that one."""

    @property
    def chip(self) -> str:
        """The name as LLVM's `-mcpu` and ptxas's `-arch` take it."""
        return self.name

    @property
    def architecture_specific(self) -> bool:
        """Whether its code runs on this architecture alone (the `a` targets)."""
        return self.name.endswith("a")

    def mma(self, name: str) -> MmaAtom:
        """The mma atom `name`. Raises TargetError if the target lacks it or it is unknown."""
        atom = mma_atom(name)
        if name not in self.mma_atoms:
            raise TargetError(f"{self.name} has no {name}; it has {families(self.mma_atoms)} [target-mma]")
        return atom

    def copy(self, name: str) -> CopyAtom:
        """The copy atom `name`. Raises TargetError if the target lacks it or it is unknown."""
        atom = copy_atom(name)
        if name not in self.copy_atoms:
            raise TargetError(f"{self.name} has no {name}; it has {', '.join(self.copy_atoms)} [target-copy]")
        return atom

    def ctas_per_sm(self, threads: int, smem_bytes: int, registers: int = 1) -> int:
        """The number of CTAs that fit on one SM at once; 0 if not even one fits.

        `threads` per CTA, `smem_bytes` of dynamic shared memory per CTA, `registers` per thread.
        """
        if (
            threads > self.max_threads_per_cta
            or smem_bytes > self.smem_bytes_per_cta
            or registers > self.registers_per_thread
        ):
            return 0
        warps = -(-threads // self.warp_size)
        # Registers are allocated to a warp in units of 256 (CUDA occupancy calculator).
        registers_per_warp = -(-registers * self.warp_size // 256) * 256
        return min(
            self.max_ctas_per_sm,
            self.max_threads_per_sm // (warps * self.warp_size),
            self.smem_bytes_per_sm // (smem_bytes + self.smem_bytes_reserved_per_cta),
            self.registers_per_sm // (warps * registers_per_warp),
        )
