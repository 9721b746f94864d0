"""Fragments of one value, parts of fragments, and elementwise ops on them."""

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

import numpy as np
from mlir import ir
from mlir.dialects import arith, llvm, nvvm, vector

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.attributes import enum_attribute
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import Fragment, held_type, regroup, shuffle, unpacked, vector_type
from lowtide.passes.support.ir.arithmetic import number_attribute
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.targets import coordinates
from lowtide.targets.tv import extents

_ACCUMULATOR_WIDTH = 4  # elements of C per thread of one m16n8 atom; at most, of other atoms


def lower_splat(context: Context, op: sm.SplatOp) -> None:
    fragment = op.result.type
    _, values = extents(tv_of(fragment.tv))
    width = gcd(values, _ACCUMULATOR_WIDTH)
    type_ = vector_type(width, fragment.element_type)
    value = number_attribute(type_.element_type, ir.FloatAttr(op.value).value)
    register = arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, value))
    context.values[op.result] = Fragment((register,) * (values // width), width, fragment)


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
        raise Refusal(
            op,
            "the threads do not hold the same elements of the sub-tile in both thread-value layouts [extract-layout]",
        )
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
    for result, own in zip(op.mapped, zip(*registers, strict=True), strict=True):
        context.values[result] = Fragment(own, width, result.type)


def _spread(context: Context, value: ir.Value, width: int, count: int) -> Sequence[ir.Value]:
    """A fragment's registers at the common width; a scalar as `count` equal vectors."""
    if isinstance(value.type, sm.FragmentType):
        return regroup(unpacked(context.fragment(value)), width).registers
    return [_broadcast(context, value, width)] * count


def _vectorize(context: Context, body: ir.Block, mapping: dict[ir.Value, ir.Value], width: int) -> list[ir.Value]:
    """Clones a straight-line scalar region on vectors of `width`; returns what it yields."""
    *ops, terminator = body.operations
    for op in ops:
        if isinstance(op, arith.TruncFOp) and held_type(op.out.type) != op.out.type:
            wide = mapping[op.in_] if op.in_ in mapping else _outer(context, op.in_, width)
            mapping[op.out] = _narrow(wide, op.out.type)
            continue
        if isinstance(op, arith.ExtFOp) and held_type(op.in_.type) != op.in_.type:
            held = mapping[op.in_] if op.in_ in mapping else _outer(context, op.in_, width)
            mapping[op.out] = _widen(held, op.in_.type, op.out.type)
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
    return [mapping[value] for value in terminator.operands]


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


def _widen(vector_: ir.Value, element: ir.Type, wider: ir.Type) -> ir.Value:
    """Bytes that hold 8-bit floats as a vector of a wider type: two at a time, by f16, which holds each of them."""
    (width,), halves = vector_.type.shape, []
    pair_type = ir.VectorType.get([2], ir.F16Type.get())
    for i in range(0, width, 2):
        ends = [i, min(i + 1, width - 1)]  # of one by itself, it twice
        pair = nvvm.ConvertF8x2ToF16x2Op(pair_type, shuffle(vector_, vector_, ends), element).dst
        halves += [vector.ExtractOp(pair, [], [at]).result for at in range(min(2, width - i))]
    together = vector.FromElementsOp(vector_type(width, halves[0].type), halves).result
    return arith.extf(vector_type(width, wider), together)


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
