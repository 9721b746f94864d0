// The sm dialect: how one streaming multiprocessor computes a CTA tile.
#ifndef LOWTIDE_SM_DIALECT_TD
#define LOWTIDE_SM_DIALECT_TD

include "mlir/IR/OpBase.td"

def Sm_Dialect : Dialect {
  let name = "sm";
  let cppNamespace = "::lowtide::sm";
  let summary = "How one SM computes a CTA tile: shared memory, rings, copies, fragments, instruction atoms, barriers";
  let description = [{
    Levels `smem` to `epilogue` use this dialect. Each op describes the work of the whole CTA: a *tiled* copy or mma is
    one op, regardless of the number of threads and instructions. The lowering to level `nvvm` expands it into the
    program of one thread.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::lowtide::tile::TileDialect"];
}

#endif // LOWTIDE_SM_DIALECT_TD
