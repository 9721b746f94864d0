"""Instruction atoms as data: the effect of one mma or copy instruction, by name.

An mma atom has the thread-value (TV) layout of each operand: (thread, value) to the column-major index in the operand's
atom tile, `row + column * rows`, with a: (M, K), b: (N, K), c: (M, N). Values are in the order of the instruction's
registers. Source of the layouts: PTX ISA, "Matrix Fragments for mma.m8n8k4", "mma.m16n8k4", "mma.m16n8k8" and
"mma.m16n8k16", as tabled in `tensor_layouts.atoms_nv`. The FMA atom is one thread's `fma.rn`: one element of each
operand.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import Literal

from tensor_layouts import Layout, atoms_nv

from lowtide.elements import element_type
from lowtide.errors import TargetError

Operand = Literal["a", "b", "c"]
MemorySpace = Literal["gmem", "smem", "rmem"]
Issuer = Literal["thread", "warp", "warpgroup"]  # the threads that execute an instruction together
Completion = Literal["in order", "groups"]  # its end is known to the next instruction, or by a wait for its group

# The unit of wgmma: four warps, which multiply 64 rows of A (PTX ISA, "Warpgroup").
WARPGROUP_WARPS, WARPGROUP_THREADS, WGMMA_ROWS = 4, 128, 64


_ISSUERS: Mapping[str, Issuer] = MappingProxyType({"fma": "thread", "mma": "warp", "wgmma": "warpgroup"})


def issuer_of(name: str | None) -> Issuer | None:
    """The threads that execute the mma atom of this name, with or without types; None for no name or an unknown
    kind."""
    return _ISSUERS.get((name or "").partition(".")[0])


@dataclass(frozen=True)
class MmaAtom:
    """One mma instruction of a warp, a warpgroup (wgmma) or a thread (fma).

    It computes c += a @ b.T with a: (M, K), b: (N, K), c: (M, N). The sums are in registers. For an operand in shared
    memory, the layout gives each thread the whole tile.
    """

    name: str
    """`mma.<shape>.<accumulator dtype>.<operand dtype>`, `wgmma.…`, or `fma.…`; both operand dtypes if they differ."""
    shape_mnk: tuple[int, int, int]
    a_dtype: str
    b_dtype: str
    c_dtype: str
    a_layout: Layout
    b_layout: Layout
    c_layout: Layout
    ptx: str
    threads: int = 32
    compute_capability: tuple[int, int] = (8, 0)
    """The lowest compute capability that has it (PTX ISA, "mma", "Target ISA Notes")."""
    ptx_version: int = 70
    """The lowest PTX version that has it, times 10 (PTX ISA, "mma", "PTX ISA Notes")."""
    rate: int = 1024
    """Multiply-adds per cycle and SM on the usual GPU; used only in estimates."""
    hiding_warps: float | None = None
    """Warps per SM at which the latency of results takes as long as the atoms at their rate; used only in estimates.
    None if four warps reach the rate."""
    intrinsic: str = ""
    """The LLVM intrinsic of an instruction that nvvm.mma.sync lacks."""
    keeps_loads_ahead: bool = False
    """Whether fragments that are read one K step ahead stay there; otherwise LLVM moves them behind the back edge of
    the loop. Only for products that are then faster (measured on an H200)."""
    k_is_contiguous: bool = False
    """Whether K must be contiguous in operands in shared memory: wgmma transposes only those of 16 bits."""
    a_in: tuple[MemorySpace, ...] = ("rmem",)
    """The memory spaces that A may come from."""
    b_in: tuple[MemorySpace, ...] = ("rmem",)
    """The memory spaces that B may come from."""
    completion: Completion = "in order"

    @property
    def issuer(self) -> Issuer:
        return _ISSUERS[self.name.partition(".")[0]]

    def takes(self, k_is_last: tuple[bool, bool]) -> bool:
        """Whether the atom takes operands of a layout. `k_is_last`: whether K is contiguous in A, and in B."""
        a_by_k, b_by_k = k_is_last
        return not self.k_is_contiguous or (b_by_k and (a_by_k or "rmem" in self.a_in))

    def holds_a(self, k_is_last: tuple[bool, bool]) -> bool:
        """Whether threads load A to registers, because wgmma cannot read an A of this layout from shared memory."""
        return self.k_is_contiguous and not k_is_last[0] and self.takes(k_is_last)

    def layout(self, operand: Operand) -> Layout:
        """The TV layout of `operand`: (thread, value) to its atom tile."""
        return {"a": self.a_layout, "b": self.b_layout, "c": self.c_layout}[operand]

    def dtype(self, operand: Operand) -> str:
        """The element type of `operand`, a row's name in `lowtide.elements`."""
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
        return self.values(operand) * element_type(self.dtype(operand)).bits // 32

    @property
    def accumulators(self) -> int:
        """Accumulator elements that each thread holds."""
        return self.values("c")


@dataclass(frozen=True)
class CopyAtom:
    """One copy instruction of a thread (`ld`, `st`, `cp.async`) or of a warp (`ldmatrix`, `stmatrix`).

    `staged` is two instructions of a thread: an `ld.global` to registers and, later, stores to shared memory.
    `realigned` is a staged copy from unaligned addresses: two aligned loads around each run, then register shifts.
    """

    name: str
    source: MemorySpace
    destination: MemorySpace
    bytes_per_thread: int
    """Bytes that one thread moves; for ldmatrix and stmatrix, that it receives or gives: four per matrix."""
    threads: int = 1
    """Threads that execute it together."""
    matrices: int = 0
    """8x8 matrices of 16-bit elements, for ldmatrix and stmatrix."""
    transposed: bool = False
    tensor_rank: int = 0
    """Dimensions of the tensor map of a TMA copy; 0 for other copies."""

    @property
    def family(self) -> str:
        """The name without size and number: `cp.async`, `ldmatrix`, `tma`."""
        return family_of(self.name)

    @property
    def is_cp_async(self) -> bool:
        return self.family == "cp.async"

    @property
    def is_staged(self) -> bool:
        """Whether it goes through registers."""
        return self.family in ("staged", "realigned")

    @property
    def realigns(self) -> bool:
        """Whether it copies from any address in global memory."""
        return self.family == "realigned"


_FAMILY = re.compile(r"[a-z]+(\.(async|shared|global))?")


def family_of(name: str | None) -> str:
    """The name of a copy atom without size and number; empty for no name."""
    found = _FAMILY.match(name or "")
    return found[0] if found else ""


def loads_registers(name: str | None) -> bool:
    """Whether a copy of an operand goes directly from global memory to registers."""
    return family_of(name) == "ld.global"


def is_by_threads(name: str | None) -> bool:
    """Whether all threads of a role, or of a CTA, make a copy to a stage of a ring."""
    return family_of(name) in ("cp.async", "staged", "realigned")


# mma.sync of 16-bit operands by (accumulator, operands, K).
_MMA_SOURCES = {
    ("f32", "f16", 8): atoms_nv.SM80_16x8x8_F32F16F16F32_TN,
    ("f32", "f16", 16): atoms_nv.SM80_16x8x16_F32F16F16F32_TN,
    ("f32", "bf16", 8): atoms_nv.SM80_16x8x8_F32BF16BF16F32_TN,
    ("f32", "bf16", 16): atoms_nv.SM80_16x8x16_F32BF16BF16F32_TN,
    ("f16", "f16", 8): atoms_nv.SM80_16x8x8_F16F16F16F16_TN,
    ("f16", "f16", 16): atoms_nv.SM80_16x8x16_F16F16F16F16_TN,
}

_BYTES = ("s8", "u8")
_FP8 = ("e4m3", "e5m2")
# mma.sync of elements of 8 bits, each A with each B: accumulator, types, shape, lowest compute capability, lowest PTX
# version. PTX ISA, "Matrix Fragments for mma.m16n8k32": .e4m3 and .e5m2 have the fragments of .s8 and .u8.
_BYTE_SOURCES = (
    ("s32", _BYTES, atoms_nv.SM80_16x8x16_S32S8S8S32_TN, (8, 0), 70),
    ("s32", _BYTES, atoms_nv.SM80_16x8x32_S32S8S8S32_TN, (8, 0), 70),
    ("f32", _FP8, atoms_nv.SM80_16x8x32_S32S8S8S32_TN, (8, 9), 84),
)

# mma.sync of tf32, by K, at half the rate of 16-bit operands.
_TF32_SOURCES = {4: atoms_nv.SM80_16x8x4_F32TF32TF32F32_TN, 8: atoms_nv.SM80_16x8x8_F32TF32TF32F32_TN}

# mma.sync of f64. For each shape: lowest compute capability and PTX version, its rate there, the warps that hide its
# latency, and whether loads are kept ahead. Power limits f64: from registers alone m16n8k4, m16n8k8 and m16n8k16 have
# 63.7, 65.4 and 66.2 TFLOP/s (H200). Fragments of m16n8k16 leave too few registers. Warps are measured on an H100.
_F64_SOURCES = (
    (atoms_nv.SM80_8x8x4_F64F64F64F64_TN, (8, 0), 70, 64, None, False),
    (atoms_nv.SM90_16x8x4_F64F64F64F64_TN, (9, 0), 78, 128, 2, True),
    (atoms_nv.SM90_16x8x8_F64F64F64F64_TN, (9, 0), 78, 128, 2, True),
    (atoms_nv.SM90_16x8x16_F64F64F64F64_TN, (9, 0), 78, 110, 2, True),
)

# wgmma by (accumulator, A, B). K is 32 bytes of the operands.
_WGMMA_TYPES = (
    ("f32", "f16", "f16"),
    ("f16", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    *(("f32", a, b) for a, b in product(_FP8, _FP8)),
    *(("s32", a, b) for a, b in product(_BYTES, _BYTES)),
    ("f32", "tf32", "tf32"),
)
_WGMMA_K_BITS = 256
# A in registers, by its bits: each warp has 16 rows, as in mma.m16n8k16 and mma.m16n8k8 (PTX ISA, "Register Fragments
# for wgmma.mma_async.m64nNk16" and "… .m64nNk8", "Matrix A"). Threads transpose 4-byte elements as they load them.
_A_IN_REGISTERS = {
    16: Layout(((4, 8, 4), (2, 2, 2)), ((128, 1, 16), (64, 8, 512))),
    32: Layout(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 256))),
}
# s8 by u8 (PTX ISA, "wgmma.mma_async", "PTX ISA Notes").
_PTX_OF_MIXED_BYTES = 84
# For integers, larger widths are multiples of 16 (PTX ISA, "wgmma.mma_async", "Shape").
_NARROW_INTEGER_N = 32
_wgmma_ab_layout, _wgmma_c_layout = cache(atoms_nv.gmma_ab_layout), cache(atoms_nv.gmma_c_layout)  # of all types
_TRANSPOSED_BITS = 16  # operands of this width may have M or N contiguous


# fma of one thread.
FMA = "fma.m1n1k1"
FMA_TYPES = ("f32",)


def types_of_atom(c_dtype: str, a_dtype: str, b_dtype: str) -> str:
    """The types in an atom's name, after its shape: `f32.bf16`, or with the types of A and B if they differ."""
    return f"{c_dtype}.{a_dtype}" if a_dtype == b_dtype else f"{c_dtype}.{a_dtype}.{b_dtype}"


def _mma_atoms() -> dict[str, MmaAtom]:
    atoms = {}
    tf32 = {("f32", "tf32", k): source for k, source in _TF32_SOURCES.items()}
    for (c_dtype, ab_dtype, _), source in (_MMA_SOURCES | tf32).items():
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
            ptx=f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{c_dtype}.{ab_dtype}.{ab_dtype}.{c_dtype}",
            rate=1024 * 16 // element_type(ab_dtype).bits,
        )
    return atoms


def _byte_atoms() -> dict[str, MmaAtom]:
    atoms = {}
    for c, types, source, compute_capability, ptx_version in _BYTE_SOURCES:
        shape = "m{}n{}k{}".format(*source.shape_mnk)
        for a, b in product(types, types):
            name, operands = f"mma.{shape}.{types_of_atom(c, a, b)}", f"{c}.{a}.{b}.{c}"
            atoms[name] = MmaAtom(
                name=name,
                shape_mnk=source.shape_mnk,
                a_dtype=a,
                b_dtype=b,
                c_dtype=c,
                a_layout=source.a_layout,
                b_layout=source.b_layout,
                c_layout=source.c_layout,
                ptx=f"mma.sync.aligned.{shape}.row.col.{operands}",
                compute_capability=compute_capability,
                ptx_version=ptx_version,
                rate=2048,
                intrinsic=f"llvm.nvvm.mma.{shape}.row.col.{operands}" if element_type(a).is_float else "",
            )
    return atoms


def _f64_atoms() -> dict[str, MmaAtom]:
    atoms = {}
    for source, compute_capability, ptx_version, rate, hiding_warps, keeps_loads_ahead in _F64_SOURCES:
        shape = "m{}n{}k{}".format(*source.shape_mnk)
        name = f"mma.{shape}.f64.f64"
        atoms[name] = MmaAtom(
            name=name,
            shape_mnk=source.shape_mnk,
            a_dtype="f64",
            b_dtype="f64",
            c_dtype="f64",
            a_layout=source.a_layout,
            b_layout=source.b_layout,
            c_layout=source.c_layout,
            ptx=f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64",
            compute_capability=compute_capability,
            ptx_version=ptx_version,
            rate=rate,
            intrinsic=f"llvm.nvvm.mma.{shape}.row.col.f64",
            keeps_loads_ahead=keeps_loads_ahead,
            hiding_warps=hiding_warps,
        )
    return atoms


def _wgmma_atoms() -> dict[str, MmaAtom]:
    """wgmma of every N, 8 … 256, A and B from shared memory (PTX ISA, "wgmma.mma_async")."""
    atoms = (wgmma_atom(n, *types) for types in _WGMMA_TYPES for n in range(8, 257, 8) if _has_width(n, types[0]))
    return {atom.name: atom for atom in atoms}


def _has_width(n: int, c_dtype: str) -> bool:
    return element_type(c_dtype).is_float or n <= _NARROW_INTEGER_N or n % 16 == 0


@cache
def wgmma_atom(n: int, c_dtype: str, a_dtype: str, b_dtype: str) -> MmaAtom:
    """wgmma m64nNk…: A (64, K) and B (N, K) of types of one width in shared memory, C (64, N) in registers."""
    a, b, c = (element_type(name) for name in (a_dtype, b_dtype, c_dtype))
    k = _WGMMA_K_BITS // a.bits
    shape = f"m{WGMMA_ROWS}n{n}k{k}"
    return MmaAtom(
        name=f"wgmma.{shape}.{types_of_atom(c_dtype, a_dtype, b_dtype)}",
        shape_mnk=(WGMMA_ROWS, n, k),
        a_dtype=a_dtype,
        b_dtype=b_dtype,
        c_dtype=c_dtype,
        a_layout=_wgmma_ab_layout(WGMMA_ROWS, k),
        b_layout=_wgmma_ab_layout(n, k),
        c_layout=_wgmma_c_layout(n),
        ptx=f"wgmma.mma_async.sync.aligned.{shape}.{c.ptx}.{a.ptx}.{b.ptx}",
        threads=WARPGROUP_THREADS,
        compute_capability=(9, 0),
        ptx_version=_PTX_OF_MIXED_BYTES if a_dtype != b_dtype and not c.is_float else 80,
        rate=2048 * 16 // a.bits,
        k_is_contiguous=a.bits != _TRANSPOSED_BITS,
        a_in=("smem", "rmem") if a.bits in _A_IN_REGISTERS else ("smem",),
        b_in=("smem",),
        completion="groups",
    )


def with_a_in_registers(atom: MmaAtom) -> MmaAtom:
    """A wgmma of operands of 16 or 32 bits that takes A from registers."""
    return replace(atom, a_layout=_A_IN_REGISTERS[element_type(atom.a_dtype).bits])


def _fma_atoms() -> dict[str, MmaAtom]:
    """fma.rn of one thread (PTX ISA, "fma"), by the type of its operands and accumulator."""
    one = Layout((1, 1), (0, 0))
    return {
        name: MmaAtom(
            name,
            (1, 1, 1),
            dtype,
            dtype,
            dtype,
            one,
            one,
            one,
            f"fma.rn.{element_type(dtype).ptx}",
            threads=1,
            rate=128,
            hiding_warps=8,
        )
        for dtype in FMA_TYPES
        for name in (f"{FMA}.{dtype}.{dtype}",)
    }


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
    atoms += [CopyAtom(f"staged.{size}", "gmem", "smem", size) for size in (16, 8, 4, 2)]
    atoms += [CopyAtom(f"realigned.{size}", "gmem", "smem", size) for size in (16, 8, 4)]
    # One box at a time, of any size; of two dimensions, or of the named number.
    for rank in (2, 3, 4, 5):
        atoms.append(CopyAtom("tma" if rank == 2 else f"tma.{rank}d", "gmem", "smem", 0, tensor_rank=rank))
    return {atom.name: atom for atom in atoms}


_WGMMA = _wgmma_atoms()
_MMA = {**_mma_atoms(), **_fma_atoms(), **_f64_atoms(), **_byte_atoms(), **_WGMMA}
WGMMA_ATOMS: Mapping[str, MmaAtom] = MappingProxyType(_WGMMA)
MMA_ATOMS: Mapping[str, MmaAtom] = MappingProxyType(_MMA)
COPY_ATOMS: Mapping[str, CopyAtom] = MappingProxyType(_copy_atoms())


@cache
def threads_of_atom(shape_name: str | None) -> int:
    """Threads that execute an atom together, by its name without types, e.g. `mma.m16n8k16`; 32 for an unknown one."""
    return next((atom.threads for name, atom in MMA_ATOMS.items() if name.startswith(f"{shape_name}.")), 32)


@cache
def operand_types() -> tuple[str, ...]:
    """The element types that some mma instruction multiplies."""
    return tuple(dict.fromkeys(dtype for atom in MMA_ATOMS.values() for dtype in (atom.a_dtype, atom.b_dtype)))


@cache
def partner_types(a_dtype: str) -> tuple[str, ...]:
    """The types of B that some mma instruction multiplies with an A of this type."""
    return tuple(dict.fromkeys(atom.b_dtype for atom in MMA_ATOMS.values() if atom.a_dtype == a_dtype))


@cache
def accumulator_types(a_dtype: str | None = None, b_dtype: str | None = None) -> tuple[str, ...]:
    """The element types in which mma instructions sum; if given, only for these types of A and B."""
    atoms = (
        atom
        for atom in MMA_ATOMS.values()
        if (a_dtype is None or atom.a_dtype == a_dtype) and (b_dtype is None or atom.b_dtype == b_dtype)
    )
    return tuple(dict.fromkeys(atom.c_dtype for atom in atoms))


@cache
def has_wgmma(a_dtype: str, b_dtype: str, c_dtype: str, k_is_last: tuple[bool, bool] = (True, True)) -> bool:
    """Whether wgmma multiplies these types with these accumulators. `k_is_last`: whether K is contiguous in A, and in
    B."""
    types, atoms = (a_dtype, b_dtype, c_dtype), WGMMA_ATOMS.values()
    return any((atom.a_dtype, atom.b_dtype, atom.c_dtype) == types and atom.takes(k_is_last) for atom in atoms)


@cache
def has_mma_sync(a_dtype: str, b_dtype: str, c_dtype: str) -> bool:
    """Whether mma.sync multiplies these types with these accumulators, on some target."""
    types = a_dtype, b_dtype, c_dtype
    warps = (atom for atom in MMA_ATOMS.values() if atom.issuer == "warp")
    return any((atom.a_dtype, atom.b_dtype, atom.c_dtype) == types for atom in warps)


@cache
def multiplies_by_wgmma(a_dtype: str, b_dtype: str) -> bool:
    """Whether wgmma multiplies operands of these types, with some accumulators."""
    return any((atom.a_dtype, atom.b_dtype) == (a_dtype, b_dtype) for atom in WGMMA_ATOMS.values())


@cache
def wgmma_widths(a_dtype: str, b_dtype: str, c_dtype: str) -> tuple[int, ...]:
    """The values of N of the wgmma of these types, in order."""
    types = a_dtype, b_dtype, c_dtype
    atoms = (atom for atom in WGMMA_ATOMS.values() if (atom.a_dtype, atom.b_dtype, atom.c_dtype) == types)
    return tuple(sorted(atom.shape_mnk[1] for atom in atoms))


def wgmma_k(a_dtype: str) -> int:
    """The K of one wgmma with operands of this type."""
    return _WGMMA_K_BITS // element_type(a_dtype).bits


def families(names: Iterable[str]) -> str:
    """The names as a list for messages; the 32 widths of wgmma are one entry."""
    return ", ".join(dict.fromkeys(re.sub(r"^wgmma\.m64n\d+", "wgmma.m64nN", name) for name in names))


@cache
def _unknown(kind: str, name: str, known: tuple[str, ...]) -> str:
    """The error for an unknown atom. A search meets the same one in thousands of schedules."""
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return f"unknown {kind} atom {name!r}; known are {families(known)}; did you mean {nearest!r}? [unknown-atom]"


def mma_atom(name: str) -> MmaAtom:
    """The mma atom `name`, e.g. `mma.m16n8k16.f32.bf16`. Raises TargetError for an unknown name."""
    if name not in MMA_ATOMS:
        raise TargetError(_unknown("mma", str(name), tuple(MMA_ATOMS)))
    return MMA_ATOMS[name]


def copy_atom(name: str) -> CopyAtom:
    """The copy atom `name`, e.g. `cp.async.16`. Raises TargetError for an unknown name."""
    if name not in COPY_ATOMS:
        raise TargetError(_unknown("copy", str(name), tuple(COPY_ATOMS)))
    return COPY_ATOMS[name]
