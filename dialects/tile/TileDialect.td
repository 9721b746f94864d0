// The tile dialect: what is computed, on which tile. Target-independent.
#ifndef LOWTIDE_TILE_DIALECT_TD
#define LOWTIDE_TILE_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::lowtide::tile";
  let summary = "What a GEMM computes and on which tile, independent of the target";
  let description = [{
    Levels `problem` and `cta` are written in this dialect: `tile.gemm` on whole matrices, then kernels whose work
    tiles, views and CTA-wide values say who computes what. Layouts are CuTe's: nested `shape:stride`, with an
    optional swizzle that counts elements.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

class Tile_Attr<string className, string keyword, list<Trait> traits = []>
    : AttrDef<Tile_Dialect, className, traits> {
  let mnemonic = keyword;
}

class Tile_Type<string className, string keyword, list<Trait> traits = []>
    : TypeDef<Tile_Dialect, className, traits> {
  let mnemonic = keyword;
}

#endif // LOWTIDE_TILE_DIALECT_TD
