// Verifiers of the tile dialect's ops of the host: launches, workspaces, and copies of whole matrices.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

//===--- tile.launch --------------------------------------------------------------------------------------------===//

// The kernel that a host op names: in the module or, from level nvvm on, in a gpu.module.
static Operation *lookUpKernel(Operation *user, FlatSymbolRefAttr name, SymbolTableCollection &symbols) {
  auto module = user->getParentOfType<ModuleOp>();
  Operation *kernel = symbols.lookupSymbolIn(module, name);
  for (Operation &op : module.getBody()->getOperations()) {
    if (kernel)
      break;
    if (op.hasTrait<OpTrait::SymbolTable>())
      kernel = symbols.lookupSymbolIn(&op, name);
  }
  return kernel;
}

// What sizes are allowed is the target's to say, and checked by passes.
LogicalResult lowtide::tile::verifyCluster(Operation *op, std::optional<ArrayRef<int64_t>> cluster) {
  if (cluster && (cluster->size() != 2 || llvm::any_of(*cluster, [](int64_t side) { return side < 1; })))
    return op->emitOpError() << "needs a cluster of two positive extents, e.g. [2, 1] [cluster-extents]";
  return success();
}

LogicalResult ClusterCountOp::verify() { return verifyCluster(*this, getCluster()); }

LogicalResult ClusterCountOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!lookUpKernel(*this, getKernelAttr(), symbols))
    return emitOpError() << "asks about @" << getKernel() << ", which is not in the module [kernel-asked]";
  return success();
}

LogicalResult LaunchOp::verify() { return verifyCluster(*this, getCluster()); }

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *kernel = lookUpKernel(*this, getKernelAttr(), symbols);
  if (!kernel)
    return emitOpError() << "launches @" << getKernel() << ", which is not in the module [kernel-launched]";
  if (auto function = dyn_cast<FunctionOpInterface>(kernel)) {
    if (function.getNumArguments() != getArgs().size())
      return emitOpError() << "passes " << getArgs().size() << " arguments to @" << getKernel() << ", which takes "
                           << function.getNumArguments() << " [launch-argument-count]";
    for (auto [index, type, arg] : llvm::enumerate(function.getArgumentTypes(), getArgs()))
      if (isa<KernelOp>(kernel) && arg.getType() != type)
        return emitOpError() << "argument " << index << " is " << arg.getType() << " but @" << getKernel() << " takes "
                             << type << " [launch-argument-type]";
  }
  return success();
}

//===--- tile.workspace -----------------------------------------------------------------------------------------===//

LogicalResult WorkspaceOp::verify() {
  auto type = cast<MemRefType>(getResult().getType());
  if (type.getRank() != 1 || !type.isDynamicDim(0) || !type.getLayout().isIdentity())
    return emitOpError() << "is a vector whose length is known at launch, such as memref<?xf32>, not " << type
                         << " [workspace-vector]";
  if (!type.getElementType().isIntOrFloat())
    return emitOpError() << "holds numbers, not " << type.getElementType() << " [workspace-numbers]";
  return success();
}

//===--- tile.pack, tile.unpack, tile.prepare -------------------------------------------------------------------===//

static LogicalResult verifyRows(Operation *op, Type type) {
  auto matrix = cast<MemRefType>(type);
  SmallVector<int64_t> strides;
  int64_t offset;
  bool isMatrix = matrix.getRank() == 2 || matrix.getRank() == 3;
  if (!isMatrix || failed(matrix.getStridesAndOffset(strides, offset)) || strides.back() != 1)
    return op->emitOpError() << "takes a matrix whose rows are contiguous, such as memref<?x?xbf16, strided<[?, 1]>>, "
                             << "or a batch of these, not " << matrix << " [pack-matrix]";
  return success();
}

// Both have the same rows and the same elements; rows of pieces are of another type, and of another length.
template <typename Op> static LogicalResult verifyPrepared(Op op, Type source, Type target) {
  if (failed(verifyRows(op, source)) || failed(verifyRows(op, target)))
    return failure();
  auto from = cast<MemRefType>(source), to = cast<MemRefType>(target);
  SmallVector<int64_t> shape(from.getShape());
  if (op.getTransposed())
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  bool isOfPieces = op.getPrecision() || op.getSide();
  bool agrees = from.getRank() == to.getRank() && (from.getElementType() == to.getElementType()) != isOfPieces;
  if (isOfPieces)
    agrees = agrees && op.getPrecision() && op.getSide() && agree(shape[shape.size() - 2], to.getDimSize(shape.size() - 2)) &&
             agree(shape[0], to.getDimSize(0));
  else
    agrees = agrees && ArrayRef<int64_t>(shape) == to.getShape();
  if (agrees)
    return success();
  if (isOfPieces)
    return op.emitOpError() << "makes rows of pieces, of another type and as many, of " << from << ", not " << to
                            << " [prepared-pieces]";
  return op.emitOpError() << "gives a matrix of the same elements"
                          << (op.getTransposed() ? " with its last two extents exchanged" : "") << ", not " << to
                          << " for " << from << " [prepared-shape]";
}

LogicalResult PackOp::verify() {
  if (!llvm::isPowerOf2_64(getAlign()))
    return emitOpError() << "aligns rows to a power of two of bytes, not to " << static_cast<int64_t>(getAlign())
                         << " [pack-alignment]";
  if ((getUninitialized() || getWholeRows()) && (getTransposed() || getPrecision()))
    return emitOpError() << "is written in the source's place, so it is no transpose and has no pieces"
                         << " [pack-uninitialized]";
  return verifyPrepared(*this, getSource().getType(), getResult().getType());
}

LogicalResult UnpackOp::verify() {
  auto pack = getSource().getDefiningOp<PackOp>();
  if (!pack || !pack.getUninitialized() || pack.getSource() != getTarget())
    return emitOpError() << "copies what tile.pack gave, uninitialized, for the matrix that it is copied into"
                         << " [unpack-of-pack]";
  return verifyRows(*this, getTarget().getType());
}

LogicalResult FinishOp::verify() {
  auto target = cast<MemRefType>(getTarget().getType()), source = cast<MemRefType>(getSource().getType());
  StringRef word = stringifyResultKind(getKind());
  if (!isReduction(getKind()) || (getPairs() && !word.ends_with("logsumexp")))
    return emitOpError() << "reduces by " << (getPairs() ? "pairs of a logsumexp" : "a reduction") << ", not by " << word
                         << " [finish-kind]";
  bool areVectors = target.getRank() == source.getRank() && target.getRank() <= 2;
  bool isMatrix = target.getRank() == 1 && source.getRank() == 2;
  if (!(areVectors || isMatrix) || !target.getElementType().isF32() || !source.getElementType().isF32())
    return emitOpError() << "reduces a vector or a matrix of f32 to a vector, or a batch of vectors to another, not "
                         << source << " to " << target << " [finish-vectors]";
  return success();
}

LogicalResult PrepareOp::verify() {
  auto target = cast<MemRefType>(getTarget().getType());
  if (getSource())
    return verifyPrepared(*this, getSource().getType(), target);
  if (target.getShape() != ArrayRef<int64_t>{1} || !target.getElementType().isF32() || getTransposed() || getPrecision())
    return emitOpError() << "without a source sets one f32 to zero, a memref<1xf32>, not " << target
                         << " [prepare-zero]";
  return success();
}
