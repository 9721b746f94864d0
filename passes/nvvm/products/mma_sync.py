"""mma.sync and FMA on fragments."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from mlir import ir
from mlir.dialects import llvm, math, nvvm, vector
from numpy.typing import NDArray

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.elements import element_type
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.attributes import enum_attribute, mma_shape
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import Fragment, element_of, regroup, vector_type
from lowtide.passes.support.agents.atoms import tiled_mma_of
from lowtide.targets import MmaAtom, TiledMma, coordinates

_REGISTER_BITS = 32  # of the registers that hold several narrow operands


def lower_mma_sync(context: Context, op: sm.MmaSyncOp) -> None:
    """The instructions of each atom, on fragments that are held as the tiled mma needs them."""
    tiled = tiled_mma_of(op.mma)
    a, b, c = (context.fragment(value) for value in (op.a, op.b, op.acc))
    for name, fragment, shape in (("a", a, op.a.type.shape), ("b", b, op.b.type.shape), ("c", c, op.acc.type.shape)):
        expected = tiled.tv(name, shape)  # type: ignore[arg-type]
        if not np.array_equal(coordinates(expected, shape), coordinates(tv_of(fragment.type.tv), shape)):
            raise Refusal(op, f"operand {name} is not held as the tiled mma needs it: {expected} [operand-held]")
    if tiled.atom.threads == 1:
        context.values[op.result] = _fma(tiled, a, b, c, second_half_first=context.second_half_first)
    else:
        context.values[op.result] = _mma_sync(tiled, a, b, c)


def _atom_values(tiled: TiledMma, a: Fragment, b: Fragment, c: Fragment) -> dict[str, NDArray[np.int64]]:
    return {name: tiled.atom_values(name, f.type.shape) for name, f in (("a", a), ("b", b), ("c", c))}  # type: ignore[arg-type]


def _fma(tiled: TiledMma, a: Fragment, b: Fragment, c: Fragment, *, second_half_first: bool) -> Fragment:
    """One scalar fma for each element of the sums, K outermost, in the order of `_order_of_fmas`.

    Any two consecutive fmas share an element of B or of A, which ptxas marks for reuse. So an fma reads only two more
    registers, one from each of the two banks of a sub-core. LLVM would split an fma of vectors into scalar ones that
    share less.
    """
    atoms = _atom_values(tiled, a, b, c)
    place, width = atoms["c"][..., 0], c.width
    sums = [element_of(register, lane) for register in c.registers for lane in range(width)]
    rows, columns = place.shape
    for k in range(atoms["a"].shape[1]):
        of_a, of_b = (_elements(one, atoms[name][:, k, 0]) for name, one in (("a", a), ("b", b)))
        for m, n in _order_of_fmas(rows, columns, second_half_first=second_half_first):
            sums[place[m, n]] = math.fma(of_a[m], of_b[n], sums[place[m, n]])
    type_ = vector_type(width, c.type.element_type)
    held = [vector.FromElementsOp(type_, sums[i : i + width]).result for i in range(0, len(sums), width)]
    return replace(c, registers=tuple(held))


def _order_of_fmas(rows: int, columns: int, *, second_half_first: bool) -> Iterator[tuple[int, int]]:
    """Column by column, back and forth along M, starting at the first row or at the middle one."""
    first = rows // 2 if second_half_first else 0
    order = [*range(first, rows), *range(first)]
    yield from ((order[place], n) for place, n in _back_and_forth(rows, columns, along_n=False))


def _elements(fragment: Fragment, values: NDArray[np.int64]) -> list[ir.Value]:
    return [element_of(fragment.registers[value // fragment.width], value % fragment.width) for value in values]


def _mma_sync(tiled: TiledMma, a: Fragment, b: Fragment, c: Fragment) -> Fragment:
    """One mma.sync per atom of the warp."""
    atoms = _atom_values(tiled, a, b, c)
    width, held = tiled.atom.accumulators, regroup(c, tiled.atom.accumulators)
    accumulators = list(held.registers)
    rest_m, rest_k, _ = atoms["a"].shape
    rest_n = atoms["b"].shape[0]
    instruction = _Instruction(tiled.atom)
    packed = instruction.operands_per_register
    a, b = (fragment if fragment.packed else regroup(fragment, packed) for fragment in (a, b))
    for k in range(rest_k):
        for m, n in _there_and_back(tiled.atom, rest_m, rest_n):
            fa = [a.registers[v // packed] for v in atoms["a"][m, k, ::packed]]
            fb = [b.registers[v // packed] for v in atoms["b"][n, k, ::packed]]
            place = int(atoms["c"][m, n, 0]) // width
            accumulators[place] = instruction.emit(fa, fb, accumulators[place])
    return regroup(replace(held, registers=tuple(accumulators)), c.width)


def _there_and_back(atom: MmaAtom, rest_m: int, rest_n: int) -> Iterator[tuple[int, int]]:
    """The places of a warp's atoms, in an order in which consecutive ones share an operand.

    Along M they share B, which is faster where A has no more registers than the accumulators: by 3 % for f32 sums of
    bf16 (H200, 4096³). Else along N they share A: by 1 % for f16 sums, and for the larger atoms of f64.
    """
    return _back_and_forth(rest_m, rest_n, along_n=atom.registers("a") > atom.registers("c"))


def _back_and_forth(rows: int, columns: int, *, along_n: bool) -> Iterator[tuple[int, int]]:
    if along_n:
        for m in range(rows):
            yield from ((m, n) for n in (range(columns) if m % 2 == 0 else reversed(range(columns))))
        return
    for n in range(columns):
        yield from ((m, n) for m in (range(rows) if n % 2 == 0 else reversed(range(rows))))


class _Instruction:
    """nvvm.mma.sync of one atom, or the intrinsic of one that it does not know; its attributes made once."""

    def __init__(self, atom: MmaAtom) -> None:
        m, n, k = atom.shape_mnk
        operands, accumulators = element_type(atom.dtype("a")), element_type(atom.dtype("c"))
        self.operand, self.accumulator = (ir.Type.parse(row.mma_register) for row in (operands, accumulators))
        self.operands_per_register = max(1, _REGISTER_BITS // operands.bits)
        per_register = max(1, _REGISTER_BITS // accumulators.bits)
        self.registers = atom.values("c") // per_register
        self.result = llvm.StructType.get_literal([self.accumulator] * self.registers)
        self.shape = mma_shape(m, n, k)
        self.layouts = enum_attribute(nvvm.MMALayout.row), enum_attribute(nvvm.MMALayout.col)
        self.intrinsic = atom.intrinsic
        self.types = {} if self.intrinsic else self._types(atom)

    @staticmethod
    def _types(atom: MmaAtom) -> dict[str, ir.Attribute]:
        """Attributes of nvvm.mma.sync."""
        types = {
            f"multiplicand{name.upper()}PtxType": enum_attribute(nvvm.MMATypes[element_type(atom.dtype(name)).ptx])
            for name in ("a", "b")
        }
        if not element_type(atom.dtype("c")).is_float:
            types["intOverflowBehavior"] = enum_attribute(nvvm.MMAIntOverflow.wrapped)
        return types

    def emit(self, a: list[ir.Value], b: list[ir.Value], c: ir.Value) -> ir.Value:
        a, b = ([self._register(value) for value in fragment] for fragment in (a, b))
        is_packed = isinstance(self.accumulator, ir.VectorType)
        if is_packed:
            parts = [vector.ShuffleOp(c, c, [i, i + 1], results=[self.accumulator]).result for i in (0, 2)]
        else:
            parts = [vector.ExtractOp(c, [], [i]).result for i in range(self.registers)]
        product = self._product(a, b, parts)
        sums = [llvm.ExtractValueOp(self.accumulator, product, [i]).result for i in range(self.registers)]
        if is_packed:
            return vector.ShuffleOp(*sums, [0, 1, 2, 3], results=[c.type]).result
        return vector.FromElementsOp(c.type, sums).result

    def _register(self, value: ir.Value) -> ir.Value:
        """What a fragment holds, as the instruction takes it."""
        if value.type == self.operand:
            return value
        if self.operands_per_register == 1:
            value = vector.ExtractOp(value, [], [0]).result
        return value if value.type == self.operand else llvm.BitcastOp(self.operand, value).result

    def _product(self, a: list[ir.Value], b: list[ir.Value], c: list[ir.Value]) -> ir.Value:
        if self.intrinsic:
            return llvm.CallIntrinsicOp(self.result, self.intrinsic, [*a, *b, *c], [], []).result
        return nvvm.MmaOp(self.result, self.shape, *self.layouts, a, b, c, **self.types).result
