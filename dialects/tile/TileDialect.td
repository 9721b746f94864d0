// The tile dialect: the GEMM and the tiles that CTAs compute. Target-independent.
#ifndef LOWTIDE_TILE_DIALECT_TD
#define LOWTIDE_TILE_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::lowtide::tile";
  let summary = "A GEMM and the tiles that CTAs compute, independent of the target";
  let description = [{
    Levels `problem` and `cta` use this dialect. At `problem`, `tile.gemm` works on whole matrices. At `cta`, work tiles,
    views and CTA-wide values specify what each CTA computes. Layouts are CuTe's: nested `shape:stride`, with an
    optional swizzle that counts elements.

    A memref of three dimensions in the memory space `"list"` is a list of matrices. Its base is the address of a table,
    with a row of 64-bit integers for each matrix: its address, its rows, its columns, and the elements from row to row.
    An extent that the type gives is that of every matrix; any other extent is at most that of the memref. The strides
    of the type have no meaning.
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
