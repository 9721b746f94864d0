"""MLIR types decoded once to plain data (types.py), because the bindings are too slow at run time."""

import re
from collections.abc import Callable
from typing import Any

from mlir import ir
from mlir.dialects import llvm

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.layouts import swizzle_bits
from lowtide.dialects.tile.lists import is_list
from lowtide.errors import InterpreterError
from lowtide.interpreter.program.layouts import SharedLayout, ThreadValue
from lowtide.interpreter.program.types import (
    FLOATS,
    Array,
    Fragment,
    Mbarriers,
    MemRef,
    Other,
    PendingType,
    Pointer,
    Ring,
    Scalar,
    Slot,
    Struct,
    TensorMapType,
    Tile,
    Type,
    Vector,
    View,
)

_ARRAY = re.compile(r"(?:!llvm\.)?array<(\d+) x (.*)>")


def decode_type(type: ir.Type) -> Type:
    """The plain form of an MLIR type; `Other` for an opaque type."""
    decoder = _DECODERS.get(type.__class__)
    if decoder is not None:
        return decoder(type)
    text = str(type)
    if text in FLOATS:
        return Scalar(text, FLOATS[text])
    return parsed_type(text, type.context) if _ARRAY.fullmatch(text) else Other(text)


def parsed_type(text: str, context: ir.Context) -> Type:
    """The type that a text means. Arrays of llvm may be nested; the inner ones print without their dialect."""
    if match := _ARRAY.fullmatch(text):
        return Array(int(match[1]), parsed_type(match[2], context))
    return decode_type(ir.Type.parse(text, context))


def _element(type: ir.Type) -> Scalar:
    decoded = decode_type(type)
    if not isinstance(decoded, Scalar):
        raise InterpreterError(
            f"elements of type {type} are not interpreted; use f16, bf16, f32 or integers [element-not-interpreted]"
        )
    return decoded


def _memref(type: ir.MemRefType) -> MemRef:
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = tuple(None if size == dynamic else size for size in type.shape)
    if "workgroup" not in str(type.memory_space or ""):
        is_strided = len(shape) > 1 and isinstance(type.layout, ir.StridedLayoutAttr)
        strides: list[int] = type.get_strides_and_offset()[0][-2:] if is_strided else []
        is_column_major = strides[:1] == [1] and strides[1:] != [1]
        return MemRef(shape, _element(type.element_type), None, is_column_major, is_list(type))
    if isinstance(type.layout, tile.LayoutAttr):
        layout = SharedLayout(type.layout.shape, type.layout.stride, _swizzle(type.layout.swizzle))
    else:
        layout = SharedLayout(tuple(type.shape), tuple(type.get_strides_and_offset()[0]))
    return MemRef(shape, _element(type.element_type), layout)


def decode_tv(tv: tile.ThreadValueAttr) -> ThreadValue:
    return ThreadValue(tv.thread_shape, tv.thread_stride, tv.value_shape, tv.value_stride)


def _pending(type: sm.PendingType) -> PendingType:
    fragment = decode_type(type.fragment)
    assert isinstance(fragment, Fragment)
    return PendingType(fragment)


def _swizzle(swizzle: tile.SwizzleAttr | None) -> tuple[int, int, int] | None:
    return None if swizzle is None else swizzle_bits(swizzle)


_DECODERS: dict[Any, Callable[[Any], Type]] = {
    ir.IndexType: lambda t: Scalar("index", 64),
    ir.IntegerType: lambda t: Scalar(str(t), t.width),
    ir.VectorType: lambda t: Vector(tuple(t.shape), _element(t.element_type)),
    ir.MemRefType: _memref,
    tile.TileType: lambda t: Tile(tuple(t.shape), _element(t.element_type)),
    tile.ViewType: lambda t: View(tuple(t.shape), _element(t.element_type)),
    sm.FragmentType: lambda t: Fragment(tuple(t.shape), _element(t.element_type), decode_tv(t.tv)),
    sm.RingType: lambda t: Ring(t.stages, tuple(map(_memref, t.buffers))),
    sm.SlotType: lambda t: Slot(t.use),
    sm.PendingType: _pending,
    sm.MbarriersType: lambda t: Mbarriers(t.count),
    sm.TensorMapType: lambda t: TensorMapType(tuple(t.shape), _element(t.element_type), _swizzle(t.swizzle)),
    llvm.PointerType: lambda t: Pointer(t.address_space),
    llvm.StructType: lambda t: Struct(tuple(decode_type(element) for element in t.body)),
}
