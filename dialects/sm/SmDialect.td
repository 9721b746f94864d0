// The sm dialect: how one streaming multiprocessor does it.
#ifndef LOWTIDE_SM_DIALECT_TD
#define LOWTIDE_SM_DIALECT_TD

include "mlir/IR/OpBase.td"

def Sm_Dialect : Dialect {
  let name = "sm";
  let cppNamespace = "::lowtide::sm";
  let summary = "How one SM computes a CTA tile: shared memory, rings, copies, fragments, instruction atoms, barriers";
  let description = [{
    Levels `smem` to `epilogue` are written in this dialect. Every op still speaks for the whole CTA: one op for each
    *tiled* copy or mma, whatever number of threads and instructions it takes. It is unrolled into one thread's program
    only on the way to level `nvvm`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::lowtide::tile::TileDialect"];
}

#endif // LOWTIDE_SM_DIALECT_TD
