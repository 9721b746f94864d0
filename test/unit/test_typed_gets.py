"""`get` of our attributes and types makes what their text says, and refuses what the parser would refuse."""

from collections.abc import Callable, Iterator

import pytest
from mlir import ir

from lowtide.dialects.sm import (
    FragmentType,
    MbarriersType,
    PendingType,
    RetiredType,
    RingType,
    SlotType,
    SlotUse,
    TensorMapType,
    TiledCopyAttr,
    TiledMmaAttr,
)
from lowtide.dialects.tile import LayoutAttr, SwizzleAttr, ThreadValueAttr, TileType, ViewType

TV = "#tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>"
FRAGMENT = f"!sm.fragment<16x8xf32, {TV}>"
BUFFER = "memref<8x8xf32, #gpu.address_space<workgroup>>"


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with ir.Context(), ir.Location.unknown():
        yield


def tv() -> ThreadValueAttr:
    return ThreadValueAttr.get((4, 8), (32, 1), (2, 2), (16, 8))


def f32() -> ir.Type:
    return ir.F32Type.get()


def fragment() -> FragmentType:
    return FragmentType.get((16, 8), f32(), tv())


def swizzle() -> SwizzleAttr:
    return SwizzleAttr.get(3, 3, 3)


MADE: list[tuple[Callable[[], ir.Attribute | ir.Type], str]] = [
    (swizzle, "#tile.swizzle<3, 3, 3>"),
    (lambda: LayoutAttr.get(8, 1), "#tile.layout<8:1>"),
    (
        lambda: LayoutAttr.get((128, (64, 2)), [64, [1, 8192]], swizzle()),
        "#tile.layout<(128,(64,2)):(64,(1,8192)), swizzle<3,3,3>>",
    ),
    (tv, TV),
    (lambda: TiledMmaAttr.get("mma.m16n8k16", (2, 2, 1)), "#sm.tiled_mma<mma.m16n8k16, atoms [2, 2, 1]>"),
    (
        lambda: TiledMmaAttr.get("mma", (1, 1, 1), [32, LayoutAttr.get((2, 4), (4, 1)), 16]),
        "#sm.tiled_mma<mma, atoms [1, 1, 1], permutation [32, #tile.layout<(2,4):(4,1)>, 16]>",
    ),
    (lambda: TiledCopyAttr.get("cp.async.16", tv()), f"#sm.tiled_copy<cp.async.16, {TV}>"),
    (lambda: TileType.get((3, 4), f32()), "!tile.tile<3x4xf32>"),
    (lambda: ViewType.get((3, 4), f32()), "!tile.view<3x4xf32>"),
    (fragment, FRAGMENT),
    (lambda: PendingType.get(fragment()), f"!sm.pending<{FRAGMENT}>"),
    (RetiredType.get, "!sm.retired"),
    (lambda: RingType.get(3, [ir.Type.parse(BUFFER)] * 2), f"!sm.ring<3 x [{BUFFER}, {BUFFER}]>"),
    (lambda: SlotType.get(SlotUse.read), "!sm.slot<read>"),
    (lambda: TensorMapType.get((128, 64), ir.BF16Type.get(), swizzle()), "!sm.tensor_map<128x64xbf16, swizzle<3,3,3>>"),
    (lambda: TensorMapType.get((4, 64, 8), f32()), "!sm.tensor_map<4x64x8xf32>"),
    (lambda: MbarriersType.get(4), "!sm.mbarriers<4>"),
]


@pytest.mark.parametrize(("make", "text"), MADE, ids=[text for _, text in MADE])
def test_get_makes_what_the_text_says(make: Callable[[], ir.Attribute | ir.Type], text: str) -> None:
    made = make()
    parsed = ir.Attribute.parse(text) if text.startswith("#") else ir.Type.parse(text)
    assert made == parsed and type(made) is type(parsed) and str(made) == text


REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: SwizzleAttr.get(3, 3, 1), ValueError, "S must be at least B"),
    (lambda: LayoutAttr.get((2, 3), 1), ValueError, "must nest alike"),
    (lambda: LayoutAttr.get((), ()), ValueError, "nested tuples of integers"),
    (
        lambda: LayoutAttr.get(2, 1, tv()),
        ValueError,
        r"does not take #tile.tv.* for 'swizzle' \[field-value\]",
    ),
    (lambda: LayoutAttr.get("8", 1), ValueError, "nested tuples of integers"),
    (lambda: LayoutAttr.get(8), ValueError, r"tile.layout needs 'stride' \[field-missing\]"),
    (lambda: LayoutAttr.get(8, 1, None, 2), TypeError, "no such parameter"),
    (lambda: LayoutAttr.get(8, 1, stride=1), TypeError, "gives one twice"),
    (lambda: LayoutAttr.get(8, 1, offset=1), TypeError, "no such parameter"),
    (lambda: LayoutAttr.get(8, 1.0), TypeError, "integers, strings, types, attributes"),
    (lambda: LayoutAttr.get(2**70, 1), TypeError, "64-bit integers"),
    (lambda: LayoutAttr.get((f32(),), (1,)), ValueError, "nested tuples of integers"),
    (lambda: ThreadValueAttr.get(4, -1, 2, 1), ValueError, "zero or positive"),
    (lambda: TiledMmaAttr.get("mma", (1, 1)), ValueError, "three positive counts"),
    (lambda: TiledMmaAttr.get("mma", (1, 1, 1), (1, 2)), ValueError, "three entries"),
    (lambda: TiledCopyAttr.get("cp", swizzle()), ValueError, "does not take #tile.swizzle"),
    (lambda: TileType.get((3,), f32()), ValueError, "two positive extents"),
    (lambda: ViewType.get((3, 0), f32()), ValueError, "two positive extents"),
    (lambda: FragmentType.get((1, 1), f32(), tv()), ValueError, "reaches element 127"),
    (lambda: FragmentType.get((1, 1), f32(), swizzle()), ValueError, "does not take #tile.swizzle"),
    (lambda: PendingType.get(f32()), ValueError, "sm.pending does not take f32"),
    (lambda: RingType.get(0, [ir.Type.parse(BUFFER)]), ValueError, "at least one stage"),
    (lambda: RingType.get(2, [f32()]), ValueError, "memrefs in shared memory"),
    (lambda: SlotType.get(7), ValueError, "sm.slot does not take 7"),
    (lambda: TensorMapType.get((264, 64), f32()), ValueError, "two to five sides"),
    (lambda: TensorMapType.get((8, 64), f32(), tv()), ValueError, "does not take #tile.tv"),
    (lambda: MbarriersType.get(0), ValueError, "at least one mbarrier"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[f"{i} {m}" for i, (_, _, m) in enumerate(REFUSED)])
def test_get_raises_what_the_verifier_says(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
