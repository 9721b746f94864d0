// Attributes and types of the tile dialect.
#ifndef LOWTIDE_TILE_ATTRS_TD
#define LOWTIDE_TILE_ATTRS_TD

include "TileSchedule.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

def Tile_SwizzleAttr : Tile_Attr<"Swizzle", "swizzle"> {
  let summary = "An exclusive-or permutation of shared-memory addresses, counted in elements";
  let description = [{
    `<B,M,S>` xors bits `M` to `M+B-1` of an element offset with bits `M+S` to `M+S+B-1`, like CuTe's
    `Swizzle<B,M,S>`. Offsets count elements, not bytes. `<0,M,S>` is the identity.

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
    Maps a coordinate to an element offset. The nested shape splits the coordinate, the inner product with the strides
    gives an offset, and the swizzle permutes that offset. The layout of a memref has one top-level mode per dimension.

    ```mlir
    #tile.layout<(128,64):(64,1), swizzle<3,3,3>>
    #tile.layout<((8,16),64):((64,512),1)>
    ```
  }];
  let genMnemonicAlias = 1;
  let parameters = (ins "::mlir::Attribute":$shape, "::mlir::Attribute":$stride,
                        OptionalParameter<"SwizzleAttr">:$swizzle);
  let assemblyFormat = "`<` custom<ShapeStride>($shape, $stride) (`,` `swizzle` `` custom<BareSwizzle>($swizzle)^)? `>`";
  let genVerifyDecl = 1;
}

def Tile_ThreadValueAttr : Tile_Attr<"ThreadValue", "tv"> {
  let summary = "The thread of each element: a layout from (thread, value) into a tile";
  let description = [{
    Two layouts, one for threads and one for values. Their sum maps a thread and the index of one of its values to the
    column-major linear index of an element of the tile (row + column · rows), like CuTe's TV layouts.

    ```mlir
    #tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>
    ```
  }];
  let genMnemonicAlias = 1;
  let parameters = (ins "::mlir::Attribute":$threadShape, "::mlir::Attribute":$threadStride,
                        "::mlir::Attribute":$valueShape, "::mlir::Attribute":$valueStride);
  let assemblyFormat = [{
    `<` `threads` custom<ShapeStride>($threadShape, $threadStride) `,`
        `values` custom<ShapeStride>($valueShape, $valueStride) `>`
  }];
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
    Reads outside the matrix return zero; writes outside it are dropped.

    ```mlir
    !tile.view<128x64xbf16>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` custom<ShapedElement>($shape, $elementType) `>`";
  let genVerifyDecl = 1;
}

#endif // LOWTIDE_TILE_ATTRS_TD
