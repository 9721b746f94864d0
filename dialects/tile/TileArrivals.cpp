// Verifiers of the operations that wait for shards, and of the one that sends a shard.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

static LogicalResult verifyStatus(Operation *op, Value status) {
  if (auto type = cast<MemRefType>(status.getType()); !agree(type.getDimSize(0), 4))
    return op->emitOpError() << "has a status of 4 numbers, not " << type << " [arrival-status]";
  return success();
}

static LogicalResult verifyTurn(Operation *op, Value turn) {
  if (auto type = cast<MemRefType>(turn.getType()); !agree(type.getDimSize(0), 3))
    return op->emitOpError() << "has a turn of 3 numbers, rank, epoch and limit, not " << type << " [arrival-turn]";
  return success();
}

LogicalResult AwaitArrivalOp::verify() {
  if (failed(verifyTurn(*this, getTurn())))
    return failure();
  if (!cast<WorkTilesOp>((*this)->getParentOp()).getBatches())
    return emitOpError() << "waits for a matrix of a batch, but its work tiles have no batch [arrival-batch]";
  return verifyStatus(*this, getStatus());
}

LogicalResult IsLateOp::verify() { return verifyStatus(*this, getStatus()); }

LogicalResult SendShardOp::verify() {
  auto a = cast<MemRefType>(getA().getType()), peers = cast<MemRefType>(getPeers().getType());
  auto sent = cast<MemRefType>(getSent().getType());
  if (failed(verifyTurn(*this, getTurn())))
    return failure();
  if (isList(a) || isColumnMajor(a))
    return emitOpError() << "sends a shard that lies by rows in one array with the others, not " << a << " [send-shard]";
  if (!agree(peers.getDimSize(1), 4) || !agree(peers.getDimSize(0), a.getDimSize(0)) ||
      !agree(sent.getDimSize(0), a.getDimSize(0)))
    return emitOpError() << "has 4 numbers in peers and one in sent for each shard, not " << peers << " and " << sent
                         << " for " << a << " [send-peers]";
  int64_t unit = getUnit(), element = a.getElementTypeBitWidth() / 8;
  if (unit < element || unit > 16 || !llvm::isPowerOf2_64(unit))
    return emitOpError() << "moves " << unit << " bytes by an access; take a power of two from " << element
                         << ", an element, to 16 [send-unit]";
  if (int64_t columns = a.getDimSize(2); unit > element && (ShapedType::isDynamic(columns) || columns * element % unit))
    return emitOpError() << "moves " << unit << " bytes by an access, but rows are not known to be multiples of it; take "
                         << element << " [send-row-unit]";
  return success();
}
