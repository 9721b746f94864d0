// The sm dialect: declarations.
#ifndef LOWTIDE_SM_H
#define LOWTIDE_SM_H

#include "../tile/Tile.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

namespace lowtide::sm {

// What barriers, waits, commits and the verbs of a ring read and write.
struct SyncResource : public mlir::SideEffects::Resource::Base<SyncResource> {
  llvm::StringRef getName() final { return "sm.sync"; }
};

// A memref in the GPU's shared memory.
bool isShared(mlir::Type type);
// Bytes that a memref's layout spans.
int64_t byteSize(mlir::MemRefType type);
// Whether an op moves a tile to one of the same shape and element; says so where not.
llvm::LogicalResult verifySameTile(mlir::Operation *op, llvm::ArrayRef<int64_t> shapeA, mlir::Type elementA,
                                   llvm::ArrayRef<int64_t> shapeB, mlir::Type elementB);

} // namespace lowtide::sm

namespace lowtide::sm {
using tile::parsePlace;
using tile::printPlace;
} // namespace lowtide::sm

#include "SmDialect.h.inc"
#include "SmEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "SmAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "SmTypes.h.inc"
#define GET_OP_CLASSES
#include "SmOps.h.inc"

#endif // LOWTIDE_SM_H
