"""Instruction atoms: the thread that holds each element of an mma's operands, or of a copy's data."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from tensor_layouts import Layout, atoms_nv, upcast
from tensor_layouts.atoms import CopyAtom as CopyTraits

from lowtide.errors import Error
from lowtide.inspection.draw.held import LEGEND, owner_panel
from lowtide.inspection.draw.panels import Panel, Picture
from lowtide.inspection.draw.tiled import mma_picture
from lowtide.targets import CopyAtom, MmaAtom, TiledMma
from lowtide.targets.tv import indices

# The thread-value layouts of both sides, in bits, of copies that a warp executes together.
_TRAITS: Mapping[str, CopyTraits] = MappingProxyType(
    {
        "ldmatrix.x1": atoms_nv.SM75_U32x1_LDSM_N,
        "ldmatrix.x2": atoms_nv.SM75_U32x2_LDSM_N,
        "ldmatrix.x4": atoms_nv.SM75_U32x4_LDSM_N,
        "ldmatrix.x1.trans": atoms_nv.SM75_U16x2_LDSM_T,
        "ldmatrix.x2.trans": atoms_nv.SM75_U16x4_LDSM_T,
        "ldmatrix.x4.trans": atoms_nv.SM75_U16x8_LDSM_T,
        "stmatrix.x1": atoms_nv.SM90_U32x1_STSM_N,
        "stmatrix.x2": atoms_nv.SM90_U32x2_STSM_N,
        "stmatrix.x4": atoms_nv.SM90_U32x4_STSM_N,
    }
)
_MATRIX_BITS, _MATRIX_ROWS = 16, 8
_PLACES = MappingProxyType({"gmem": "global memory", "smem": "shared memory", "rmem": "registers"})
_AXES = ("rows", "columns")


def mma_atom_picture(atom: MmaAtom) -> Picture:
    """A, B and C of one mma instruction."""
    return mma_picture(atom.name, TiledMma(atom))


def copy_atom_picture(atom: CopyAtom) -> Picture:
    """The data that one copy instruction moves. Raises Error for TMA, whose boxes have no fixed size."""
    if atom.tensor_rank:
        raise Error(
            f"{atom.name} moves a box of the size in its tensor map; draw the boxes of a kernel: "
            "lowtide draw --target sm_90a --show load [box-size]"
        )
    if not atom.matrices:
        return _bytes_picture(atom)
    traits = _TRAITS[atom.name]
    title = f"{atom.name}: {atom.matrices} of 8x8 16-bit elements, one below the other; {LEGEND}"
    sides = (("source", traits.src_layout_bits), ("destination", traits.dst_layout_bits))
    panels = tuple(_matrix_panel(atom, side, upcast(layout, _MATRIX_BITS)) for side, layout in sides)
    return Picture(atom.name, title, panels, columns=2)


def _matrix_panel(atom: CopyAtom, side: str, tv: Layout) -> Panel:
    """Rows of all matrices: in shared memory the thread that addresses a row, in registers the thread that holds it."""
    index = indices(tv)
    where = np.stack([index // _MATRIX_ROWS, index % _MATRIX_ROWS], axis=-1)
    threads, values = index.shape
    owners = np.broadcast_to(np.arange(threads)[:, None], index.shape)
    place = atom.source if side == "source" else atom.destination
    what = "thread that addresses each row" if place == "smem" else "thread that holds each element"
    second = None if place == "smem" else ("V", np.arange(values))
    shape = (_MATRIX_ROWS * atom.matrices, _MATRIX_ROWS)
    return owner_panel(f"{side}, {_PLACES[place]}: {what}", _AXES, shape, where, owners, second=second)


def _bytes_picture(atom: CopyAtom) -> Picture:
    """A copy of one thread: its bytes, in order."""
    moved = np.arange(atom.bytes_per_thread)
    labels = np.char.add("T0\nB", moved.astype(str))[None, :]
    route = f"{_PLACES[atom.source]} to {_PLACES[atom.destination]}"
    panel = Panel(f"{route}: {atom.bytes_per_thread} bytes, aligned to as many", _AXES, labels, 0 * moved[None, :])
    return Picture(atom.name, f"{atom.name}: the bytes of one thread; T: thread, B: byte", (panel,))
