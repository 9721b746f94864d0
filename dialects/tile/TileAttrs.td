// Attributes and types of the tile dialect.
#ifndef LOWTIDE_TILE_ATTRS_TD
#define LOWTIDE_TILE_ATTRS_TD

include "TileDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"

class Tile_Attr<string className, string keyword, list<Trait> traits = []>
    : AttrDef<Tile_Dialect, className, traits> {
  let mnemonic = keyword;
}

class Tile_Type<string className, string keyword, list<Trait> traits = []>
    : TypeDef<Tile_Dialect, className, traits> {
  let mnemonic = keyword;
}

def Tile_SwizzleAttr : Tile_Attr<"Swizzle", "swizzle"> {
  let summary = "An exclusive-or permutation of shared-memory addresses, counted in elements";
  let description = [{
    `<B,M,S>`: with element offset `x`, the `B` bits from bit `M` upward are xor-ed with the `B` bits from bit `M+S`
    upward, as CuTe's `Swizzle<B,M,S>`. `<0,M,S>` is the identity.

    ```mlir
    #tile.swizzle<3,3,3>
    ```
  }];
  let parameters = (ins "int64_t":$bits, "int64_t":$base, "int64_t":$shift);
  let assemblyFormat = "`<` $bits `,` $base `,` $shift `>`";
  let genVerifyDecl = 1;
}

def Tile_LayoutAttr : Tile_Attr<"Layout", "layout", [
    DeclareAttrInterfaceMethods<MemRefLayoutAttrInterface,
                                ["isIdentity", "verifyLayout", "getStridesAndOffset"]>]> {
  let summary = "CuTe's layout: nested shape:stride, with an optional swizzle";
  let description = [{
    Maps a coordinate to an element offset: the inner product of the coordinate, taken apart by the nested shape, with
    the strides, then permuted by the swizzle. As the layout of a memref it has one top mode for each dimension.

    ```mlir
    #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
    #tile.layout<((8,16),64):((64,512),1)>
    ```
  }];
  let parameters = (ins "::mlir::Attribute":$shape, "::mlir::Attribute":$stride,
                        OptionalParameter<"SwizzleAttr">:$swizzle);
  let assemblyFormat = "`<` custom<ShapeStride>($shape, $stride) (`,` `swizzle` `` custom<BareSwizzle>($swizzle)^)? `>`";
  let genVerifyDecl = 1;
}

def Tile_ThreadValueAttr : Tile_Attr<"ThreadValue", "tv"> {
  let summary = "Which thread holds which element: a layout from (thread, value) into a tile";
  let description = [{
    Two layouts whose sum maps a thread and the index of one of its values to the column-major linear index of an
    element of the tile (row + column · rows), as CuTe's TV layouts.

    ```mlir
    #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
    ```
  }];
  let parameters = (ins "::mlir::Attribute":$threadShape, "::mlir::Attribute":$threadStride,
                        "::mlir::Attribute":$valueShape, "::mlir::Attribute":$valueStride);
  let assemblyFormat = [{
    `<` `threads` custom<ShapeStride>($threadShape, $threadStride) `,`
        `values` custom<ShapeStride>($valueShape, $valueStride) `>`
  }];
  let genVerifyDecl = 1;
}

def Tile_ScheduleAttr : Tile_Attr<"Schedule", "schedule"> {
  let summary = "Every decision that the passes read: tile, warps, stages, atoms, swizzles, order, epilogue";
  let description = [{
    A list of named fields, each at most once, in any order; printed in the order of the table below. The pass
    `choose-schedule` writes all of them; a schedule written by hand may leave fields out, or `auto`, to be chosen.

    | field | value | meaning |
    |---|---|---|
    | `cta` | `[M, N, K]` | CTA tile in elements |
    | `warps` | `[M, N, K]` | atom layout: how many atoms lie side by side, one warp each |
    | `permutation` | `[M, N, K]`, each an extent or a layout | the tiled mma's permutation; its extents are one step of the tiled mma |
    | `mma` | word | mma atom, e.g. `mma.m16n8k16` |
    | `copy` | word | atom that fills shared memory, e.g. `cp.async.16`, `tma`, `tma.3d` |
    | `stages` | integer ≥ 2 | slots of the ring |
    | `roles` | `single`, `cooperative(n)` | all warps copy and multiply, or one producer warpgroup feeds n consumer warpgroups that share a tile |
    | `registers` | `[producer, consumer]` | registers a thread of each role asks for by setmaxnreg; `[0, 0]` leaves them |
    | `fragment_buffers` | 1 or 2 | 2: the next k-slice's fragments are loaded while this one is multiplied |
    | `swizzle_a`, `swizzle_b`, `swizzle_d` | `<B,M,S>` or `auto` | swizzle of each operand's stage and of the epilogue's scratch |
    | `raster` | `row`, `column`, `grouped(n)`, `groups(m, n)` | order of work tiles |
    | `scheduler` | `one_shot`, `persistent`, `even_split` | one CTA a work tile; as many CTAs as fit, each with every so many-th tile; the same, each with an even run of neighbouring tiles |
    | `cache_hints` | `[A, B, D]` | how L2 keeps them: `normal`, `evict_first`, `evict_last` (TMA), for D also `streaming`, `write_through` (stores of threads); absent: normal |
    | `epilogue` | `smem`, `direct`, `tma` | stores through shared memory, from the fragments, or through shared memory by TMA, not waited for |
    | `epilogue_math` | `registers`, `rows` | where the epilogue region runs: on the accumulator fragments, or after shared memory on whole rows |
    | `epilogue_tile` | `[M, N]` | the part of the CTA tile that the scratch holds at a time |
    | `epilogue_buffers` | integer | scratch buffers that the parts take in turn (`tma`); absent: 1 |

    ```mlir
    #tile.schedule<cta = [128, 128, 32], warps = [2, 2, 1], stages = 3, swizzle_a = <2,3,3>, raster = grouped(8)>
    ```
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$fields);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_GemmLayout : I32EnumAttr<"GemmLayout", "how A and B lie in memory, in BLAS's letters", [
    I32EnumAttrCase<"tn", 0>, I32EnumAttrCase<"tt", 1>, I32EnumAttrCase<"nn", 2>, I32EnumAttrCase<"nt", 3>]> {
  let cppNamespace = "::lowtide::tile";
}

def Tile_OperandKind : I32EnumAttr<"OperandKind", "what an epilogue operand has one element for", [
    I32EnumAttrCase<"full", 0>, I32EnumAttrCase<"per_row", 1>, I32EnumAttrCase<"per_column", 2>,
    I32EnumAttrCase<"scalar", 3>]> {
  let cppNamespace = "::lowtide::tile";
}

def Tile_RasterKind : I32EnumAttr<"RasterKind", "order in which work tiles are handed out", [
    I32EnumAttrCase<"row", 0>, I32EnumAttrCase<"column", 1>, I32EnumAttrCase<"grouped", 2>,
    I32EnumAttrCase<"groups", 3>]> {
  let cppNamespace = "::lowtide::tile";
}

def Tile_SchedulerKind : I32EnumAttr<"SchedulerKind", "how CTAs take work tiles", [
    I32EnumAttrCase<"one_shot", 0>, I32EnumAttrCase<"persistent", 1>, I32EnumAttrCase<"even_split", 2>]> {
  let cppNamespace = "::lowtide::tile";
}

def Tile_RasterAttr : Tile_Attr<"Raster", "raster"> {
  let summary = "Rasterization order: in which order work tiles are handed out";
  let description = [{
    `row`: along a row of output tiles first; `column`: down a column first; `grouped n`: bands of `n` tile rows, down
    the band first, so that tiles in flight together share operands in L2; `groups m, n`: the same bands, cut into
    groups of `m` × `n` tiles, each walked row by row.

    ```mlir
    #tile.raster<grouped 8>
    #tile.raster<groups 16, 8>
    ```
  }];
  let parameters = (ins EnumParameter<Tile_RasterKind>:$kind, DefaultValuedParameter<"int64_t", "0">:$group,
                        DefaultValuedParameter<"int64_t", "0">:$columns);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_TileType : Tile_Type<"Tile", "tile"> {
  let summary = "A CTA-wide value: a two-dimensional tile held by all threads together";
  let description = [{
    ```mlir
    !tile.tile<128x256xf32>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` custom<ShapedElement>($shape, $elementType) `>`";
  let genVerifyDecl = 1;
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "A window of a matrix in global memory, clipped at the matrix's edge";
  let description = [{
    Reads outside the matrix give zero, writes outside are dropped.

    ```mlir
    !tile.view<128x64xbf16>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` custom<ShapedElement>($shape, $elementType) `>`";
  let genVerifyDecl = 1;
}

#endif // LOWTIDE_TILE_ATTRS_TD
