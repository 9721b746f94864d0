"""Instruction atoms as data: what one mma or copy instruction does, by name.

An mma atom carries the thread-value (TV) layout of each operand: (thread, value) to the column-major index in the
operand's atom tile, `row + column * rows`, a: (M, K), b: (N, K), c: (M, N). Values count in the order of the
instruction's registers. Source of the layouts: PTX ISA, "Matrix Fragments for mma.m16n8k8 / mma.m16n8k16",
as tabled in `tensor_layouts.atoms_nv`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tensor_layouts import Layout, atoms_nv

from lowtide.errors import TargetError

Operand = Literal["a", "b", "c"]
MemorySpace = Literal["gmem", "smem", "rmem"]

# wgmma's unit: four warps, which multiply 64 rows of A (PTX ISA, "Warpgroup").
WARPGROUP_WARPS, WARPGROUP_THREADS, WGMMA_ROWS = 4, 128, 64

DTYPE_BITS: Mapping[str, int] = MappingProxyType({"f16": 16, "bf16": 16, "f32": 32})


@dataclass(frozen=True)
class MmaAtom:
    """One mma instruction of a warp, or of a warpgroup (wgmma): c += a @ b.T, a: (M, K), b: (N, K), c: (M, N).

    wgmma takes a and b from shared memory: its a and b layouts give every thread the whole tile.
    """

    name: str
    """`mma.<shape>.<accumulator dtype>.<operand dtype>`, or `wgmma.…`."""
    shape_mnk: tuple[int, int, int]
    a_dtype: str
    b_dtype: str
    c_dtype: str
    a_layout: Layout
    b_layout: Layout
    c_layout: Layout
    ptx: str
    threads: int = 32

    def layout(self, operand: Operand) -> Layout:
        """The TV layout of `operand`: (thread, value) to its atom tile."""
        return {"a": self.a_layout, "b": self.b_layout, "c": self.c_layout}[operand]

    def dtype(self, operand: Operand) -> str:
        """The element type of `operand`."""
        return {"a": self.a_dtype, "b": self.b_dtype, "c": self.c_dtype}[operand]

    def tile_shape(self, operand: Operand) -> tuple[int, int]:
        """(rows, columns) of `operand`'s atom tile."""
        m, n, k = self.shape_mnk
        return {"a": (m, k), "b": (n, k), "c": (m, n)}[operand]

    def values(self, operand: Operand) -> int:
        """Elements of `operand` that each thread holds."""
        rows, columns = self.tile_shape(operand)
        return rows * columns // self.threads

    def registers(self, operand: Operand) -> int:
        """32-bit registers of `operand` that each thread holds."""
        return self.values(operand) * DTYPE_BITS[self.dtype(operand)] // 32

    @property
    def accumulators(self) -> int:
        """Accumulator elements that each thread holds."""
        return self.values("c")


@dataclass(frozen=True)
class CopyAtom:
    """One copy instruction of a thread (`ld`, `st`, `cp.async`) or of a warp (`ldmatrix`, `stmatrix`)."""

    name: str
    source: MemorySpace
    destination: MemorySpace
    bytes_per_thread: int
    """What one thread moves; for ldmatrix and stmatrix, what it receives or gives: four bytes a matrix."""
    threads: int = 1
    """Threads that execute it together."""
    matrices: int = 0
    """8x8 matrices of 16-bit elements, for ldmatrix and stmatrix."""
    transposed: bool = False


_MMA_SOURCES = {
    ("f32", "f16", 8): atoms_nv.SM80_16x8x8_F32F16F16F32_TN,
    ("f32", "f16", 16): atoms_nv.SM80_16x8x16_F32F16F16F32_TN,
    ("f32", "bf16", 8): atoms_nv.SM80_16x8x8_F32BF16BF16F32_TN,
    ("f32", "bf16", 16): atoms_nv.SM80_16x8x16_F32BF16BF16F32_TN,
    ("f16", "f16", 8): atoms_nv.SM80_16x8x8_F16F16F16F16_TN,
    ("f16", "f16", 16): atoms_nv.SM80_16x8x16_F16F16F16F16_TN,
}


def _mma_atoms() -> dict[str, MmaAtom]:
    atoms = {}
    for (c_dtype, ab_dtype, _), source in _MMA_SOURCES.items():
        m, n, k = source.shape_mnk
        name = f"mma.m{m}n{n}k{k}.{c_dtype}.{ab_dtype}"
        atoms[name] = MmaAtom(
            name=name,
            shape_mnk=source.shape_mnk,
            a_dtype=ab_dtype,
            b_dtype=ab_dtype,
            c_dtype=c_dtype,
            a_layout=source.a_layout,
            b_layout=source.b_layout,
            c_layout=source.c_layout,
            ptx=source.ptx,
        )
    return atoms


def _wgmma_atoms() -> dict[str, MmaAtom]:
    """wgmma m64nNk16, N = 8 … 256, A and B from shared memory (PTX ISA, "wgmma.mma_async")."""
    atoms = {}
    for ab_dtype in ("f16", "bf16"):
        for n in range(8, 257, 8):
            name = f"wgmma.m64n{n}k16.f32.{ab_dtype}"
            atoms[name] = MmaAtom(
                name=name,
                shape_mnk=(64, n, 16),
                a_dtype=ab_dtype,
                b_dtype=ab_dtype,
                c_dtype="f32",
                a_layout=atoms_nv.gmma_ab_layout(64, 16),
                b_layout=atoms_nv.gmma_ab_layout(n, 16),
                c_layout=atoms_nv.gmma_c_layout(n),
                ptx=f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{ab_dtype}.{ab_dtype}",
                threads=128,
            )
    return atoms


def _copy_atoms() -> dict[str, CopyAtom]:
    atoms = [CopyAtom(f"cp.async.{size}", "gmem", "smem", size) for size in (16, 8, 4)]
    for count in (1, 2, 4):
        for trans in (False, True):
            name = f"ldmatrix.x{count}" + (".trans" if trans else "")
            atoms.append(CopyAtom(name, "smem", "rmem", 4 * count, threads=32, matrices=count, transposed=trans))
        atoms.append(CopyAtom(f"stmatrix.x{count}", "rmem", "smem", 4 * count, threads=32, matrices=count))
    for size in (1, 2, 4, 8, 16):
        atoms.append(CopyAtom(f"ld.shared.{size}", "smem", "rmem", size))
        atoms.append(CopyAtom(f"st.shared.{size}", "rmem", "smem", size))
        atoms.append(CopyAtom(f"ld.global.{size}", "gmem", "rmem", size))
        atoms.append(CopyAtom(f"st.global.{size}", "rmem", "gmem", size))
    # A box at a time, whatever its bytes; of two dimensions, or of the number named.
    atoms += [CopyAtom(name, "gmem", "smem", 0) for name in ("tma", "tma.3d", "tma.4d", "tma.5d")]
    return {atom.name: atom for atom in atoms}


WGMMA_ATOMS: Mapping[str, MmaAtom] = MappingProxyType(_wgmma_atoms())
MMA_ATOMS: Mapping[str, MmaAtom] = MappingProxyType({**_mma_atoms(), **WGMMA_ATOMS})
COPY_ATOMS: Mapping[str, CopyAtom] = MappingProxyType(_copy_atoms())


def families(names: Iterable[str]) -> str:
    """The names as a list for messages, wgmma's 32 widths as one."""
    return ", ".join(dict.fromkeys(re.sub(r"^wgmma\.m64n\d+", "wgmma.m64nN", name) for name in names))


def _unknown(kind: str, name: str, known: Mapping[str, object]) -> TargetError:
    nearest = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.0)[0]
    return TargetError(f"unknown {kind} atom {name!r}; known are {families(known)}; did you mean {nearest!r}?")


def mma_atom(name: str) -> MmaAtom:
    """The mma atom `name`, e.g. `mma.m16n8k16.f32.bf16`. Raises TargetError for an unknown name."""
    if name not in MMA_ATOMS:
        raise _unknown("mma", name, MMA_ATOMS)
    return MMA_ATOMS[name]


def copy_atom(name: str) -> CopyAtom:
    """The copy atom `name`, e.g. `cp.async.16`. Raises TargetError for an unknown name."""
    if name not in COPY_ATOMS:
        raise _unknown("copy", name, COPY_ATOMS)
    return COPY_ATOMS[name]
