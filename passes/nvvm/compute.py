"""mma.sync, FMA, and elementwise ops on fragments."""

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

import numpy as np
from mlir import ir
from mlir.dialects import arith, llvm, math, nvvm, vector
from numpy.typing import NDArray

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.elements import element_type
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.attributes import enum_attribute, mma_shape
from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.values import Fragment, element_of, held_type, regroup, vector_type
from lowtide.passes.support.arithmetic import number_attribute
from lowtide.passes.support.atoms import tiled_mma_of
from lowtide.passes.support.rewriting import defining_op
from lowtide.targets import MmaAtom, TiledMma, coordinates
from lowtide.targets.tv import extents

_ACCUMULATOR_WIDTH = 4  # elements of C per thread of one m16n8 atom; at most, of other atoms
_REGISTER_BITS = 32  # of the registers that hold several narrow operands


def lower_splat(context: Context, op: sm.SplatOp) -> None:
    fragment = op.result.type
    _, values = extents(tv_of(fragment.tv))
    width = gcd(values, _ACCUMULATOR_WIDTH)
    type_ = vector_type(width, fragment.element_type)
    value = number_attribute(type_.element_type, ir.FloatAttr(op.value).value)
    register = arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, value))
    context.values[op.result] = Fragment((register,) * (values // width), width, fragment)


def lower_mma_sync(context: Context, op: sm.MmaSyncOp) -> None:
    """The instructions of each atom, on fragments that are held as the tiled mma needs them."""
    tiled = tiled_mma_of(op.mma)
    a, b, c = (context.fragment(value) for value in (op.a, op.b, op.acc))
    for name, fragment, shape in (("a", a, op.a.type.shape), ("b", b, op.b.type.shape), ("c", c, op.acc.type.shape)):
        expected = tiled.tv(name, shape)  # type: ignore[arg-type]
        if not np.array_equal(coordinates(expected, shape), coordinates(tv_of(fragment.type.tv), shape)):
            raise Refusal(op, f"operand {name} is not held as the tiled mma needs it: {expected}")
    lower = _fma if tiled.atom.threads == 1 else _mma_sync
    context.values[op.result] = lower(tiled, a, b, c)


def _atom_values(tiled: TiledMma, a: Fragment, b: Fragment, c: Fragment) -> dict[str, NDArray[np.int64]]:
    return {name: tiled.atom_values(name, f.type.shape) for name, f in (("a", a), ("b", b), ("c", c))}  # type: ignore[arg-type]


def _fma(tiled: TiledMma, a: Fragment, b: Fragment, c: Fragment) -> Fragment:
    """Vectors of fma, K outermost: one for each register of accumulators, with its rows of A and its columns of B.

    Back and forth along M, so that consecutive ones share an operand: by this order ptxas also finds registers that
    leave fewer of its bank conflicts.
    """
    atoms = _atom_values(tiled, a, b, c)
    accumulators, width = list(c.registers), c.width
    row, column = (np.empty(c.width * len(accumulators), np.int64) for _ in "mn")
    for (m, n), value in np.ndenumerate(atoms["c"][..., 0]):
        row[value], column[value] = m, n
    first_row, first_column = row[::width], column[::width]
    order = np.lexsort((np.where(first_column % 2, -first_row, first_row), first_column))
    for k in range(atoms["a"].shape[1]):
        vectors_a, vectors_b = _Picked(a), _Picked(b)
        for place in order.tolist():
            own = slice(place * width, (place + 1) * width)
            x = vectors_a.of(atoms["a"][row[own], k, 0])
            y = vectors_b.of(atoms["b"][column[own], k, 0])
            accumulators[place] = math.fma(x, y, accumulators[place])
    return replace(c, registers=tuple(accumulators))


class _Picked:
    """Vectors of a fragment's values, made once each: a register as it is, one value for all, or any others."""

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        self.made: dict[tuple[int, ...], ir.Value] = {}

    def of(self, values: NDArray[np.int64]) -> ir.Value:
        wanted = tuple(values.tolist())
        if wanted not in self.made:
            self.made[wanted] = self._make(wanted)
        return self.made[wanted]

    def _make(self, wanted: tuple[int, ...]) -> ir.Value:
        registers, width = self.fragment.registers, self.fragment.width
        if len(wanted) == width and wanted[0] % width == 0 and wanted == tuple(range(wanted[0], wanted[0] + width)):
            return registers[wanted[0] // width]
        type_ = vector_type(len(wanted), self.fragment.type.element_type)
        elements = [element_of(registers[value // width], value % width) for value in dict.fromkeys(wanted)]
        if len(elements) == 1:
            return vector.BroadcastOp(type_, elements[0]).result
        by_value = dict(zip(dict.fromkeys(wanted), elements, strict=True))
        return vector.FromElementsOp(type_, [by_value[value] for value in wanted]).result


def _mma_sync(tiled: TiledMma, a: Fragment, b: Fragment, c: Fragment) -> Fragment:
    """One mma.sync per atom of the warp, back and forth along N, so that consecutive ones share an operand."""
    atoms = _atom_values(tiled, a, b, c)
    width, held = tiled.atom.accumulators, regroup(c, tiled.atom.accumulators)
    accumulators = list(held.registers)
    rest_m, rest_k, _ = atoms["a"].shape
    rest_n = atoms["b"].shape[0]
    instruction = _Instruction(tiled.atom)
    packed = instruction.operands_per_register
    a, b = (fragment if fragment.packed else regroup(fragment, packed) for fragment in (a, b))
    for k in range(rest_k):
        for m in range(rest_m):
            for n in range(rest_n) if m % 2 == 0 else reversed(range(rest_n)):
                fa = [a.registers[v // packed] for v in atoms["a"][m, k, ::packed]]
                fb = [b.registers[v // packed] for v in atoms["b"][n, k, ::packed]]
                place = int(atoms["c"][m, n, 0]) // width
                accumulators[place] = instruction.emit(fa, fb, accumulators[place])
    return regroup(replace(held, registers=tuple(accumulators)), c.width)


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


def lower_extract(context: Context, op: sm.ExtractOp) -> None:
    """The registers of the sub-tile, found by the coordinates of their values; split where it needs a part of them."""
    source, target = context.fragment(op.source), op.result.type
    row, column = op.offsets
    held = coordinates(tv_of(source.type.tv), source.type.shape)
    wanted = coordinates(tv_of(target.tv), target.shape) + np.array([row, column])
    index = {tuple(place): value for value, place in enumerate(held[0].tolist())}
    try:
        values = [index[tuple(place)] for place in wanted[0].tolist()]
    except KeyError:
        values = []
    if not values or not np.array_equal(held[:, values], wanted):
        raise Refusal(op, "the threads do not hold the same elements of the sub-tile in both thread-value layouts")
    width = source.width
    while not _are_whole_registers(values, width):
        width //= 2
    registers = regroup(source, width).registers
    context.values[op.result] = Fragment(tuple(registers[first // width] for first in values[::width]), width, target)


def _are_whole_registers(values: list[int], width: int) -> bool:
    """Whether the values are, in order, those of whole registers of `width` values."""
    firsts = np.array(values[::width])
    runs = (firsts[:, None] + np.arange(width)).ravel().tolist()
    return not np.any(firsts % width) and values == runs


def lower_stack(context: Context, op: sm.StackOp) -> None:
    """The same registers, of a thread whose tile lies further down."""
    context.values[op.result] = replace(context.fragment(op.partial), type=op.result.type)


def lower_map(context: Context, op: sm.MapOp) -> None:
    """The region, once for each register, on vectors."""
    fragments = [context.fragment(v) for v in op.inputs if isinstance(v.type, sm.FragmentType)]
    width = max(fragment.width for fragment in fragments)
    count = len(fragments[0].registers) * fragments[0].width // width
    inputs = [_spread(context, value, width, count) for value in op.inputs]
    body = op.body.blocks[0]
    registers = [
        _vectorize(context, body, dict(zip(body.arguments, parts, strict=True)), width)
        for parts in zip(*inputs, strict=True)
    ]
    context.values[op.result] = Fragment(tuple(registers), width, op.result.type)


def _spread(context: Context, value: ir.Value, width: int, count: int) -> Sequence[ir.Value]:
    """A fragment's registers at the common width; a scalar as `count` equal vectors."""
    if isinstance(value.type, sm.FragmentType):
        return regroup(context.fragment(value), width).registers
    return [_broadcast(context, value, width)] * count


def _vectorize(context: Context, body: ir.Block, mapping: dict[ir.Value, ir.Value], width: int) -> ir.Value:
    """Clones a straight-line scalar region on vectors of `width`; returns what it yields."""
    *ops, terminator = body.operations
    for op in ops:
        if isinstance(op, arith.TruncFOp) and held_type(op.out.type) != op.out.type:
            wide = mapping[op.in_] if op.in_ in mapping else _outer(context, op.in_, width)
            mapping[op.out] = _narrow(wide, op.out.type)
            continue
        results = [vector_type(width, result.type) for result in op.results]
        if isinstance(op, arith.ConstantOp):
            attributes = {"value": ir.DenseElementsAttr.get_splat(results[0], op.value)}
            operands = []
        else:
            attributes = {name: op.attributes[name] for name in op.attributes}
            operands = [
                mapping[operand] if operand in mapping else _outer(context, operand, width) for operand in op.operands
            ]
        clone = ir.Operation.create(op.operation.name, results=results, operands=operands, attributes=attributes)
        mapping.update(zip(op.results, clone.results, strict=True))
    return mapping[terminator.operands[0]]


def _narrow(vector_: ir.Value, element: ir.Type) -> ir.Value:
    """A vector of f32, an even number of them, as bytes that hold 8-bit floats: two at a time, clamped."""
    i16, (width,) = ir.IntegerType.get_signless(16), vector_.type.shape
    modes = {
        "rnd": enum_attribute(nvvm.FPRoundingMode.RN),
        "sat": enum_attribute(nvvm.SaturationMode.SATFINITE),
    }
    pairs = []
    for i in range(0, width, 2):
        low, high = (vector.ExtractOp(vector_, [], [at]).result for at in (i, i + 1))
        pairs.append(nvvm.ConvertF32x2ToF8x2Op(i16, high, low, element, **modes).dst)
    packed = vector.FromElementsOp(vector_type(len(pairs), i16), pairs).result
    return llvm.BitcastOp(vector_type(width, element), packed).result


def _outer(context: Context, value: ir.Value, width: int) -> ir.Value:
    """A value from outside the region, as a vector."""
    op = defining_op(value)
    if isinstance(op, arith.ConstantOp):  # canonicalize hoists constants out of regions
        type_ = vector_type(width, value.type)
        return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, op.value))
    return _broadcast(context, value, width)


def _broadcast(context: Context, value: ir.Value, width: int) -> ir.Value:
    scalar = context.scalar(value)
    return vector.BroadcastOp(vector_type(width, scalar.type), scalar).result
