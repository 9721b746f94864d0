// Products, of whole matrices (tile.gemm) and of tiles (tile.mma): extents, packed weights, scales of blocks.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

//===--- packed weights -----------------------------------------------------------------------------------------===//

int64_t lowtide::tile::weightsPerByte(Type weights) { return 8 / weights.getIntOrFloatBitWidth(); }

LogicalResult lowtide::tile::verifyWeightTypes(Operation *op, Type weights, Type bytes, Type converted) {
  if (!weights.isIntOrFloat() || (weights.getIntOrFloatBitWidth() != 4 && weights.getIntOrFloatBitWidth() != 8))
    return op->emitOpError() << "weights have 4 or 8 bits, those of " << weights << " have not [weight-bits]";
  if (isa<FloatType>(weights) && !isa<Float8E4M3FNType>(weights))
    return op->emitOpError() << "weights of floats are of f8E4M3FN, which has no infinity, not of " << weights
                             << " [weight-floats]";
  if (!bytes.isUnsignedInteger(8) || !(converted.isF16() || converted.isBF16()))
    return op->emitOpError() << "packed weights lie in ui8 and become f16 or bf16, not in " << bytes << " to become "
                             << converted << " [weight-bytes]";
  return success();
}

LogicalResult lowtide::tile::verifyZeroPoints(Operation *op, Type weights) {
  if (isa<FloatType>(weights))
    return op->emitOpError() << "weights of " << weights << " have no zero points, which are those of integers"
                             << " [float-zero-points]";
  return success();
}

// Whether A, and not B, is packed weights: where the operands are exchanged.
static bool weightsAreA(Type a) { return a.isUnsignedInteger(8); }

// The weights' bytes, and what they are multiplied by.
static LogicalResult verifyWeightsBeside(Operation *op, Type weights, Type a, Type b) {
  return weightsAreA(a) ? verifyWeightTypes(op, weights, a, b) : verifyWeightTypes(op, weights, b, a);
}

// Whether A, or B, lies with K contiguous.
static bool hasContiguousK(GemmLayout layout, bool ofA) {
  return layout == GemmLayout::tn || layout == (ofA ? GemmLayout::tt : GemmLayout::nn);
}

//===--- tile.gemm ----------------------------------------------------------------------------------------------===//

// The first operand of a kind that is not for the epilogue; null without one.
static Value operandOf(GemmOp op, OperandKind wanted) {
  for (auto [operand, kind] : llvm::zip(op.getEpilogueOperands(), op.getKinds()))
    if (kindOf(kind) == wanted)
      return operand;
  return {};
}

// The operand that says where groups of rows end; null without one.
static Value endsOf(GemmOp op) { return operandOf(op, OperandKind::ends); }

static LogicalResult verifyWeights(GemmOp op, MemRefType a, MemRefType b, int64_t k) {
  auto count = [&](OperandKind wanted) {
    return llvm::count_if(op.getKinds(), [&](Attribute kind) { return kindOf(kind) == wanted; });
  };
  int64_t scales = count(OperandKind::group_scale), zeros = count(OperandKind::group_zero);
  int64_t group = op.getGroup().value_or(0);
  if (zeros > 1 || (zeros && !group))
    return op.emitOpError() << "has at most one group_zero operand, where it has groups [one-group-zero]";
  if (scales != (group ? 1 : 0))
    return op.emitOpError() << "has one group_scale operand where it has groups, and only there [one-group-scale]";
  if (zeros && op.getWeights() && failed(verifyZeroPoints(op, *op.getWeights())))
    return failure();
  if (!op.getWeights())
    return group ? op.emitOpError() << "groups are those of packed weights [groups-of-weights]" : success();
  if (failed(verifyWeightsBeside(op, *op.getWeights(), a.getElementType(), b.getElementType())))
    return failure();
  bool areA = weightsAreA(a.getElementType());
  if (areA != op.getSwapped())
    return op.emitOpError() << "packed weights are B, or A where the operands are swapped [weights-operand]";
  if (!hasContiguousK(op.getLayout(), areA) || (isBatch(b) && !endsOf(op)))
    return op.emitOpError() << "packed weights have K contiguous, and are one matrix, or one for each group of rows: take "
                            << "tn or nn, and no batch [weights-matrix]";
  if (group % 32 || (group && !ShapedType::isDynamic(k) && k % group))
    return op.emitOpError() << "groups of " << group << " must be of 32 times a number, and divide K [weight-groups]";
  return success();
}

// One of rows and one of columns, behind all other operands, of the accumulators' type.
static LogicalResult verifyBlockScales(GemmOp op) {
  ArrayRef<Attribute> kinds = op.getKinds().getValue();
  auto isKindOfScale = [](Attribute kind) { return isBlockScale(kindOf(kind)); };
  size_t count = llvm::count_if(kinds, isKindOfScale);
  if (!count)
    return success();
  if (count != 2 || !llvm::all_of(kinds.take_back(2), isKindOfScale))
    return op.emitOpError() << "has two scales, one of rows and one of columns, behind all other operands [two-scales]";
  auto isOfRows = [](Attribute kind) {
    return kindOf(kind) == OperandKind::row_scale || kindOf(kind) == OperandKind::row_block_scale;
  };
  if (isOfRows(kinds.back()) == isOfRows(kinds.drop_back().back()))
    return op.emitOpError() << "has two scales of " << (isOfRows(kinds.back()) ? "rows" : "columns")
                            << "; give one of rows and one of columns [scales-both-ways]";
  for (Value scale : op.getEpilogueOperands().take_back(2))
    if (elementTypeOf(scale.getType()) != op.getAcc())
      return op.emitOpError() << "scales are of the accumulators' type, " << op.getAcc() << ", not "
                              << elementTypeOf(scale.getType()) << " [scales-of-sums]";
  return success();
}

// The one operand of a kind is a vector of i32.
static bool isOneIndex(GemmOp op, OperandKind wanted) {
  auto index = dyn_cast<MemRefType>(operandOf(op, wanted).getType());
  return llvm::count_if(op.getKinds(), [&](Attribute kind) { return kindOf(kind) == wanted; }) == 1 && index &&
         index.getRank() == 1 && index.getElementType().isSignlessInteger(32);
}

// A's rows are taken at an index: one vector says where, and M is its extent.
static LogicalResult verifyTakenRows(GemmOp op, MemRefType a, MemRefType d) {
  if (!isOneIndex(op, OperandKind::a_rows))
    return op.emitOpError() << "has one vector of i32 that says which rows of A are taken [gemm-a-rows]";
  bool aIsMK = op.getLayout() == GemmLayout::tn || op.getLayout() == GemmLayout::tt;
  if (!aIsMK || a.getRank() != 2 || (d && isBatch(d)) || op.getSwapped() || op.getPrecision())
    return op.emitOpError() << "takes rows of A at an index: A is one matrix with rows of K, and there are no batch, no "
                            << "groups of K, no pieces and no swapped operands [gemm-taken-rows]";
  return success();
}

// Rows of the product are stored into the rows of D at an index: one vector says where, and M is its extent.
static LogicalResult verifyPlacedRows(GemmOp op, MemRefType d, int64_t m) {
  if (!isOneIndex(op, OperandKind::d_rows))
    return op.emitOpError() << "has one vector of i32 that says into which rows of D rows are stored [gemm-d-rows]";
  int64_t places = cast<MemRefType>(operandOf(op, OperandKind::d_rows).getType()).getDimSize(0);
  if (!agree(m, places))
    return op.emitOpError() << "M is " << m << " but d_rows has " << places << " elements [gemm-d-rows-count]";
  auto isTaken = [](Attribute kind) {
    ResultKind own = resultKindOf(kind);
    return own == ResultKind::full || stringifyResultKind(own).starts_with("row_");
  };
  bool areTaken = llvm::all_of(op.getOutKinds(), isTaken);
  if (!d || !areTaken || isBatch(d) || isColumnMajor(d) || op.getSwapped() || op.getPrecision())
    return op.emitOpError() << "stores rows of D at an index: D is one matrix that lies by rows, other results are full "
                            << "ones or reductions of rows, and there are no batch, no groups of K, no pieces and no swapped operands"
                            << " [gemm-placed-rows]";
  return success();
}

// Groups of K: one operand says their ends, and D has a matrix for each.
static LogicalResult verifyGroupsOfK(GemmOp op, MemRefType ends, MemRefType d) {
  // Scales are of blocks of K, and so are groups: they may begin within a row.
  bool isScaled = llvm::any_of(op.getKinds(), [](Attribute kind) { return isBlockScale(kindOf(kind)); });
  bool liesByK = op.getLayout() == GemmLayout::nt || (isScaled && op.getLayout() == GemmLayout::tn);
  if (!liesByK || op.getWeights() || op.getSwapped() || isColumnMajor(d))
    return op.emitOpError() << "has groups of K: the layout is nt, or tn with scales of blocks, D lies by rows, and "
                            << "there are no packed weights and no swapped operands [gemm-groups-of-k]";
  if (!agree(ends.getDimSize(0), d.getDimSize(0)))
    return op.emitOpError() << "has " << ends.getDimSize(0) << " ends but D has " << d.getDimSize(0)
                            << " matrices [gemm-k-group-count]";
  return success();
}

// Groups: one operand says their ends. With groups of rows B has a matrix for each, and with padded groups A and D have
// one, too. With groups of K only D has one.
static LogicalResult verifyGroups(GemmOp op, MemRefType a, MemRefType b, MemRefType d) {
  auto isEnds = [](Attribute kind) { return kindOf(kind) == OperandKind::ends; };
  auto ends = dyn_cast<MemRefType>(endsOf(op).getType());
  if (llvm::count_if(op.getKinds(), isEnds) != 1 || !ends || ends.getRank() != 1 ||
      !ends.getElementType().isSignlessInteger(32))
    return op.emitOpError() << "has one vector of i32 that says where groups of rows end [gemm-ends]";
  if (d && isBatch(d) && a.getRank() == 2 && b.getRank() == 2)
    return verifyGroupsOfK(op, ends, d);
  if (b.getRank() != 3 || op.getSwapped())
    return op.emitOpError() << "has groups of rows: B has three dimensions, the group first, and operands are not swapped"
                            << " [gemm-groups-of-rows]";
  if (!agree(ends.getDimSize(0), b.getDimSize(0)))
    return op.emitOpError() << "has " << ends.getDimSize(0) << " ends but B has " << b.getDimSize(0)
                            << " matrices [gemm-group-count]";
  return success();
}

// Shards of A arrive while the kernel runs: three vectors say which have, when to stop waiting, and whether it has.
static LogicalResult verifyArrivals(GemmOp op, MemRefType a, MemRefType d) {
  auto isVector = [&](OperandKind wanted, int64_t size) {
    auto type = operandOf(op, wanted) ? dyn_cast<MemRefType>(operandOf(op, wanted).getType()) : MemRefType();
    return type && type.getRank() == 1 && type.getElementType().isSignlessInteger(32) && agree(type.getDimSize(0), size);
  };
  bool isOnce = llvm::count_if(op.getKinds(), [](Attribute kind) { return isOfArrivals(kindOf(kind)); }) == 3;
  if (!isOnce || !isVector(OperandKind::arrived, ShapedType::kDynamic) || !isVector(OperandKind::turn, 3) ||
      !isVector(OperandKind::status, 4))
    return op.emitOpError() << "has three vectors of i32 for shards that arrive: arrived, turn of 3 and status of 4"
                            << " [gemm-arrivals]";
  bool aIsMK = op.getLayout() == GemmLayout::tn || op.getLayout() == GemmLayout::tt;
  if (!aIsMK || !isBatch(a) || !d || !isBatch(d) || isColumnMajor(d) || op.getSwapped() || op.getPrecision())
    return op.emitOpError() << "has shards of A that arrive: A and D are batches that lie by rows, and there are no "
                            << "pieces and no swapped operands [gemm-shards]";
  auto arrived = cast<MemRefType>(operandOf(op, OperandKind::arrived).getType());
  if (!agree(arrived.getDimSize(0), a.getDimSize(0)))
    return op.emitOpError() << "has " << arrived.getDimSize(0) << " numbers in arrived but " << a.getDimSize(0)
                            << " shards in A [gemm-shard-count]";
  return success();
}

// The kernel can send this GPU's shard. A matrix of i32 says where to. A vector of i32 counts the CTAs that have sent it.
static LogicalResult verifySends(GemmOp op, MemRefType a) {
  auto isInts = [&](OperandKind wanted, ArrayRef<int64_t> shape) {
    auto type = operandOf(op, wanted) ? dyn_cast<MemRefType>(operandOf(op, wanted).getType()) : MemRefType();
    return type && type.getRank() == static_cast<int64_t>(shape.size()) &&
           type.getElementType().isSignlessInteger(32) &&
           llvm::all_of(llvm::zip(type.getShape(), shape),
                        [](auto pair) { return agree(std::get<0>(pair), std::get<1>(pair)); });
  };
  bool isOnce = llvm::count_if(op.getKinds(), [](Attribute kind) { return isOfSends(kindOf(kind)); }) == 2;
  int64_t ranks = isBatch(a) ? a.getDimSize(0) : ShapedType::kDynamic;
  if (!isOnce || !operandOf(op, OperandKind::arrived) || !isInts(OperandKind::peers, {ranks, 4}) ||
      !isInts(OperandKind::sent, {ranks}))
    return op.emitOpError() << "sends a shard of A, one of those that arrive: it has a matrix peers of 4 numbers of i32 "
                            << "for each shard, and a vector sent of one [gemm-sends]";
  if (isList(a) || llvm::any_of(op.getOuts(), [](Value out) { return isList(out.getType()); }))
    return op.emitOpError() << "sends a shard of A: A and D are no lists [gemm-sends-lists]";
  return success();
}

// Full results are (M, N), and full operands lie as they do.
static LogicalResult verifyFullResults(GemmOp op, int64_t m, int64_t n) {
  SmallVector<MemRefType> full = fullResults(op.getOuts(), op.getOutKinds());
  if (full.empty())
    return success();
  MemRefType d = full.front();
  unsigned outer = isBatch(d) ? 1 : 0;
  if (!operandOf(op, OperandKind::d_rows) && !agree(m, d.getDimSize(outer)))
    return op.emitOpError() << "M is " << m << " in A but " << d.getDimSize(outer) << " in D [gemm-m]";
  if (op.getPairs() && !ShapedType::isDynamic(n)) {
    if (n % 2)
      return op.emitOpError() << "has pairs of columns, but B has " << n << "; their number is even [gemm-pairs]";
    n /= 2;
  }
  if (!agree(n, d.getDimSize(outer + 1)))
    return op.emitOpError() << "N is " << n << " in B but " << d.getDimSize(outer + 1) << " in D [gemm-n]";
  for (auto [index, pair] : llvm::enumerate(llvm::zip(op.getEpilogueOperands(), op.getKinds()))) {
    auto [operand, kind] = pair; // verifyEpilogue says so if one is missing
    auto other = dyn_cast<MemRefType>(operand.getType());
    if (kindOf(kind) == OperandKind::full && other && other.getRank() > 1 && isColumnMajor(other) != isColumnMajor(d))
      return op.emitOpError() << "epilogue operand " << index << " is full and must lie as D does, "
                              << (isColumnMajor(d) ? "column by column" : "row by row") << " [gemm-full-operand]";
  }
  return success();
}

LogicalResult GemmOp::verify() {
  auto a = cast<MemRefType>(getA().getType()), b = cast<MemRefType>(getB().getType());
  if (failed(verifyResults(*this, getOuts(), getOutKinds())))
    return failure();
  SmallVector<std::pair<StringRef, MemRefType>> matrices = {{"A", a}, {"B", b}};
  SmallVector<MemRefType> full = fullResults(getOuts(), getOutKinds());
  MemRefType d = full.empty() ? MemRefType() : full.front();
  if (d)
    matrices.push_back({"D", d});
  for (auto [name, type] : matrices)
    if (type.getRank() != 2 && type.getRank() != 3)
      return emitOpError() << name << " must have two dimensions, or three in a batch, not " << type.getRank()
                           << " [gemm-dimensions]";
  bool isGrouped = static_cast<bool>(endsOf(*this));
  if (isGrouped && failed(verifyGroups(*this, a, b, d)))
    return failure();
  bool isOfK = isGrouped && !isBatch(b);
  unsigned ofOtherRank = isOfK ? matrices.size() : isGrouped && !isBatch(a) ? 2 : 1; // and A, which comes first
  // The two matrices of B, for pairs of columns.
  bool isApart = getPairs() && !getInterleaved() && !isGrouped && !isBatch(a) && isBatch(b) && b.getDimSize(0) == 2;
  for (auto [name, type] : ArrayRef(matrices).drop_front(ofOtherRank)) {
    if (isApart && type == b && name == "B")
      continue;
    if (type.getRank() != a.getRank())
      return emitOpError() << "A, B and D are one matrix each, or a batch of them: A is of rank " << a.getRank() << ", "
                           << name << " of rank " << type.getRank() << " [gemm-ranks]";
    if (isBatch(a) && !agree(type.getDimSize(0), a.getDimSize(0)))
      return emitOpError() << "the batch is " << a.getDimSize(0) << " in A but " << type.getDimSize(0) << " in " << name
                           << " [gemm-batches]";
  }
  unsigned outer = isBatch(a) ? 1 : 0, outerOfB = isBatch(b) ? 1 : 0;
  bool aIsMK = getLayout() == GemmLayout::tn || getLayout() == GemmLayout::tt;
  bool bIsNK = getLayout() == GemmLayout::tn || getLayout() == GemmLayout::nn;
  int64_t m = a.getDimSize(outer + (aIsMK ? 0 : 1)), ka = a.getDimSize(outer + (aIsMK ? 1 : 0));
  if (Value taken = operandOf(*this, OperandKind::a_rows)) {
    if (failed(verifyTakenRows(*this, a, d)))
      return failure();
    m = cast<MemRefType>(taken.getType()).getDimSize(0);
  }
  if (operandOf(*this, OperandKind::d_rows) && failed(verifyPlacedRows(*this, d, m)))
    return failure();
  if (llvm::any_of(getKinds(), [](Attribute kind) { return isOfArrivals(kindOf(kind)); }) &&
      failed(verifyArrivals(*this, a, d)))
    return failure();
  if (llvm::any_of(getKinds(), [](Attribute kind) { return isOfSends(kindOf(kind)); }) && failed(verifySends(*this, a)))
    return failure();
  int64_t n = b.getDimSize(outerOfB + (bIsNK ? 0 : 1)), kb = b.getDimSize(outerOfB + (bIsNK ? 1 : 0));
  if (failed(verifyWeights(*this, a, b, ka)))
    return failure();
  if (int64_t &rows = weightsAreA(a.getElementType()) ? m : n; getWeights() && !ShapedType::isDynamic(rows))
    rows *= weightsPerByte(*getWeights());
  if (isApart && !ShapedType::isDynamic(n))
    n *= 2;
  if (!agree(ka, kb))
    return emitOpError() << "K is " << ka << " in A but " << kb << " in B [gemm-k]";
  if (failed(verifyFullResults(*this, m, n)))
    return failure();
  if (!getWeights() && a.getElementTypeBitWidth() != b.getElementTypeBitWidth())
    return emitOpError() << "A is " << a.getElementType() << " but B is " << b.getElementType()
                         << ": their elements must have as many bits [gemm-elements]";
  if (!isa<FloatType, IntegerType>(getAcc()))
    return emitOpError() << "the accumulator must be a float or an integer, not " << getAcc() << " [gemm-accumulator]";
  std::optional<int64_t> batch;
  if (isGrouped)
    batch = isOfK ? d.getDimSize(0) : b.getDimSize(0);
  else if (outer)
    batch = !a.isDynamicDim(0) ? a.getDimSize(0) : b.getDimSize(0);
  if (failed(verifyEpilogue(*this, getEpilogue(), getAcc(), getEpilogueOperands(), getKinds(), getOuts(), getOutKinds(),
                            getPairs(), batch)))
    return failure();
  return verifyBlockScales(*this);
}

//===--- tile.mma -----------------------------------------------------------------------------------------------===//

static ArrayRef<int64_t> tileShape(Type type) {
  if (auto view = dyn_cast<ViewType>(type))
    return view.getShape();
  return cast<MemRefType>(type).getShape();
}

LogicalResult MmaOp::verify() {
  ArrayRef<int64_t> a = tileShape(getA().getType()), b = tileShape(getB().getType()), c = getAcc().getType().getShape();
  if (a.size() != 2 || b.size() != 2)
    return emitOpError() << "A and B must have two dimensions [tile-mma-dimensions]";
  bool aIsMK = getLayout() == GemmLayout::tn || getLayout() == GemmLayout::tt;
  bool bIsNK = getLayout() == GemmLayout::tn || getLayout() == GemmLayout::nn;
  int64_t m = a[aIsMK ? 0 : 1], ka = a[aIsMK ? 1 : 0], n = b[bIsNK ? 0 : 1], kb = b[bIsNK ? 1 : 0];
  Type elementA = elementTypeOf(getA().getType()), elementB = elementTypeOf(getB().getType());
  bool areA = weightsAreA(elementA);
  int64_t &rows = areA ? m : n;
  if (getWeights()) {
    if (failed(verifyWeightsBeside(*this, *getWeights(), elementA, elementB)))
      return failure();
    if (!hasContiguousK(getLayout(), areA))
      return emitOpError() << "packed weights have K contiguous; take tn or " << (areA ? "tt" : "nn")
                           << " [tile-mma-weights]";
    rows *= weightsPerByte(*getWeights());
  }
  if (getZeros() && (!getWeights() || getZeros().getType().getShape() != ArrayRef<int64_t>{rows, kb}))
    return emitOpError() << "zero points are a window of as many rows and columns as the packed weights have"
                         << " [zero-points-window]";
  if (getZeros() && failed(verifyZeroPoints(*this, *getWeights())))
    return failure();
  if (getZeros() && !getZeros().getType().getElementType().isInteger(8))
    return emitOpError() << "zero points have 8 bits, those of " << getZeros().getType().getElementType() << " have not"
                         << " [zero-points-bits]";
  if (ka != kb)
    return emitOpError() << "K is " << ka << " in A but " << kb << " in B [tile-mma-k]";
  if (m != c[0] || n != c[1])
    return emitOpError() << "computes " << m << "x" << n << " but the accumulator is " << c[0] << "x" << c[1]
                         << " [tile-mma-extents]";
  if (!getWeights() && elementA.getIntOrFloatBitWidth() != elementB.getIntOrFloatBitWidth())
    return emitOpError() << "elements of A and B must have as many bits [tile-mma-elements]";
  return success();
}
