// Verifiers of the operations that wait for shards.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

static LogicalResult verifyStatus(Operation *op, Value status) {
  if (auto type = cast<MemRefType>(status.getType()); !agree(type.getDimSize(0), 4))
    return op->emitOpError() << "has a status of 4 numbers, not " << type << " [arrival-status]";
  return success();
}

LogicalResult AwaitArrivalOp::verify() {
  if (auto type = cast<MemRefType>(getTurn().getType()); !agree(type.getDimSize(0), 3))
    return emitOpError() << "has a turn of 3 numbers, rank, epoch and limit, not " << type << " [arrival-turn]";
  if (!cast<WorkTilesOp>((*this)->getParentOp()).getBatches())
    return emitOpError() << "waits for a matrix of a batch, but its work tiles have no batch [arrival-batch]";
  return verifyStatus(*this, getStatus());
}

LogicalResult IsLateOp::verify() { return verifyStatus(*this, getStatus()); }
