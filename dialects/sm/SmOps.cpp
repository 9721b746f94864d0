// Operations of the sm dialect: custom assembly and verifiers. What depends on the target is checked by passes.
#include "Sm.h"

using namespace mlir;
using namespace lowtide;
using namespace lowtide::sm;

//===--- shared verification ------------------------------------------------------------------------------------===//

LogicalResult lowtide::sm::verifySameTile(Operation *op, ArrayRef<int64_t> shapeA, Type elementA,
                                          ArrayRef<int64_t> shapeB, Type elementB) {
  auto print = [](ArrayRef<int64_t> shape) {
    std::string text;
    for (int64_t extent : shape)
      text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
  };
  if (shapeA != shapeB)
    return op->emitOpError() << "moves a tile of " << print(shapeA) << " to one of " << print(shapeB)
                             << " [copy-shapes]";
  if (elementA != elementB)
    return op->emitOpError() << "moves elements of " << elementA << " to a tile of " << elementB << " [copy-elements]";
  return success();
}

static LogicalResult verifyCopy(Operation *op, tile::ViewType source, MemRefType destination) {
  return verifySameTile(op, source.getShape(), source.getElementType(), destination.getShape(),
                        destination.getElementType());
}

static LogicalResult verifyWithin(Operation *op, ArrayRef<int64_t> outer, ArrayRef<int64_t> offsets,
                                  ArrayRef<int64_t> inner) {
  if (offsets.size() != 2 || outer.size() != 2)
    return op->emitOpError() << "needs two offsets into two dimensions [window-offsets]";
  for (int dim : {0, 1})
    if (offsets[dim] < 0 || offsets[dim] + inner[dim] > outer[dim])
      return op->emitOpError() << "reaches [" << offsets[dim] << ", " << offsets[dim] + inner[dim] << ") in dimension "
                               << dim << " of extent " << outer[dim] << " [window-reach]";
  return success();
}

//===--- copies -------------------------------------------------------------------------------------------------===//

LogicalResult CopyOp::verify() {
  return verifyCopy(*this, getSource().getType(), cast<MemRefType>(getDestination().getType()));
}
LogicalResult CopyAsyncOp::verify() {
  return verifyCopy(*this, getSource().getType(), cast<MemRefType>(getDestination().getType()));
}
LogicalResult CpAsyncOp::verify() {
  auto view = getSource().getType();
  tile::ThreadValueAttr tv = getCopy().getTv();
  int64_t last = tile::cosizeOf(tv.getThreadShape(), tv.getThreadStride()) +
                 tile::cosizeOf(tv.getValueShape(), tv.getValueStride()) - 1;
  if (last > view.getShape()[0] * view.getShape()[1])
    return emitOpError() << "thread-value layout reaches element " << last - 1 << " of a tile of "
                         << view.getShape()[0] * view.getShape()[1] << " [view-reach]";
  return verifyCopy(*this, view, cast<MemRefType>(getDestination().getType()));
}

//===--- ring ---------------------------------------------------------------------------------------------------===//

LogicalResult RingOp::verify() {
  if (getAt() && getAt()->size() != getType().getBuffers().size())
    return emitOpError() << "has " << getType().getBuffers().size() << " buffers a slot but " << getAt()->size()
                         << " offsets [ring-offsets]";
  int64_t buffers = getType().getBuffers().size();
  for (int64_t buffer : getKept().value_or(ArrayRef<int64_t>()))
    if (buffer < 0 || buffer >= buffers)
      return emitOpError() << "keeps buffer " << buffer << " of a slot, whose buffers are 0 to " << buffers - 1
                           << " [kept-buffer]";
  if (std::optional<uint64_t> count = getKeptStages()) {
    int64_t stages = getType().getStages();
    if (getKept().value_or(ArrayRef<int64_t>()).empty())
      return emitOpError() << "shares what slots keep, but keeps nothing; leave out `of`, or say what is kept"
                           << " [shared-keeps]";
    if (*count < 1 || stages % static_cast<int64_t>(*count))
      return emitOpError() << "keeps buffers of " << *count << " slots, which must divide its " << stages << " stages"
                           << " [kept-slots]";
  }
  return success();
}

void RingOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "ring"); }

static void nameBuffers(ResultRange buffers, OpAsmSetValueNameFn setName) {
  static constexpr StringLiteral kNames[] = {"a", "b", "row_scales", "column_scales"};
  for (auto [index, buffer] : llvm::enumerate(buffers))
    setName(buffer, index < std::size(kNames) ? kNames[index] : StringLiteral("buffer"));
}

static LogicalResult inferSlot(MLIRContext *context, ValueRange operands, SlotUse use, SmallVectorImpl<Type> &types) {
  auto ring = dyn_cast<RingType>(operands[0].getType());
  if (!ring)
    return failure();
  types.push_back(SlotType::get(context, use));
  llvm::append_range(types, ring.getBuffers());
  return success();
}

LogicalResult ProducerAcquireOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, ValueRange operands,
                                                  DictionaryAttr, OpaqueProperties, RegionRange,
                                                  SmallVectorImpl<Type> &types) {
  return inferSlot(context, operands, SlotUse::write, types);
}
void ProducerAcquireOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getSlot(), "slot");
  nameBuffers(getBuffers(), setName);
}

LogicalResult ConsumerWaitOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, ValueRange operands,
                                               DictionaryAttr, OpaqueProperties, RegionRange,
                                               SmallVectorImpl<Type> &types) {
  return inferSlot(context, operands, SlotUse::read, types);
}
void ConsumerWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getSlot(), "slot");
  nameBuffers(getBuffers(), setName);
}

LogicalResult RingSlotOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
                                           OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  auto ring = dyn_cast<RingType>(operands[0].getType());
  if (!ring)
    return failure();
  llvm::append_range(types, ring.getBuffers());
  return success();
}
void RingSlotOp::getAsmResultNames(OpAsmSetValueNameFn setName) { nameBuffers(getBuffers(), setName); }

void RingAdvanceOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getNextIndex(), "index");
  setName(getNextPhase(), "phase");
}

LogicalResult ProducerCommitOp::verify() {
  if (getSlot().getType().getUse() != SlotUse::write)
    return emitOpError() << "takes the slot that sm.producer_acquire gave, to write [slot-to-write]";
  return success();
}

LogicalResult ConsumerReleaseOp::verify() {
  if (getSlot().getType().getUse() != SlotUse::read)
    return emitOpError() << "takes the slot that sm.consumer_wait gave, to read [slot-to-read]";
  return success();
}

LogicalResult RingReuseOp::verify() {
  int64_t available = 0;
  for (Type buffer : getRing().getType().getBuffers())
    available += byteSize(cast<MemRefType>(buffer)) * getRing().getType().getStages();
  int64_t needed = byteSize(cast<MemRefType>(getResult().getType()));
  if (needed > available)
    return emitOpError() << "needs " << needed << " bytes but the ring has " << available << " [ring-reuse-bytes]";
  return success();
}

LogicalResult PrefixOp::verify() {
  auto source = cast<MemRefType>(getSource().getType()), result = cast<MemRefType>(getResult().getType());
  if (source.getElementType() != result.getElementType())
    return emitOpError() << "is a buffer of " << result.getElementType() << " in one of " << source.getElementType()
                         << " [prefix-elements]";
  if (byteSize(result) > byteSize(source))
    return emitOpError() << "needs " << byteSize(result) << " bytes but the buffer has " << byteSize(source)
                         << " [prefix-fits]";
  return success();
}

//===--- fragments ----------------------------------------------------------------------------------------------===//

LogicalResult UnpackWeightsOp::verify() {
  FragmentType packed = getPacked().getType(), result = getType();
  Type weights = getWeights();
  if (failed(tile::verifyWeightTypes(*this, weights, packed.getElementType(), result.getElementType())))
    return failure();
  if (packed.getShape()[0] * tile::weightsPerByte(weights) != result.getShape()[0])
    return emitOpError() << "makes " << result.getShape()[0] << " rows of " << packed.getShape()[0] << " rows of bytes"
                         << " [unpacked-rows]";
  if (getZeros() && failed(tile::verifyZeroPoints(*this, weights)))
    return failure();
  if (getZeros() && (getZeros().getType().getShape()[0] != result.getShape()[0] ||
                     !getZeros().getType().getElementType().isInteger(8)))
    return emitOpError() << "takes zero points of 8 bits, for as many rows as it makes [unpacked-zeros]";
  int64_t offset = getOffset();
  if (offset < 0 || offset + result.getShape()[1] > packed.getShape()[1])
    return emitOpError() << "reaches K " << offset + result.getShape()[1] << " of " << packed.getShape()[1]
                         << " [unpacked-reach]";
  return success();
}

LogicalResult LdmatrixOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  FragmentType fragment = getType();
  if (source.getElementType() != fragment.getElementType())
    return emitOpError() << "loads a fragment of " << fragment.getElementType() << " from a buffer of "
                         << source.getElementType() << " [loaded-elements]";
  unsigned bits = tile::storageBitsOf(source.getElementType());
  if (bits != 16 && (bits != 8 || getTrans()))
    return emitOpError() << "moves 16-bit elements, or without trans 8-bit ones, not " << source.getElementType()
                         << " [ldmatrix-elements]";
  SmallVector<int64_t> shape(fragment.getShape());
  if (getTrans())
    std::swap(shape[0], shape[1]);
  return verifyWithin(*this, source.getShape(), getOffsets(), shape);
}

LogicalResult MmaSyncOp::verify() {
  ArrayRef<int64_t> a = getA().getType().getShape(), b = getB().getType().getShape(), c = getAcc().getType().getShape();
  if (a[1] != b[1])
    return emitOpError() << "K is " << a[1] << " in A but " << b[1] << " in B [mma-k]";
  if (a[0] != c[0] || b[0] != c[1])
    return emitOpError() << "computes " << a[0] << "x" << b[0] << " but the accumulator is " << c[0] << "x" << c[1]
                         << " [mma-extents]";
  if (getA().getType().getElementType().getIntOrFloatBitWidth() !=
      getB().getType().getElementType().getIntOrFloatBitWidth())
    return emitOpError() << "elements of A and B must have as many bits [mma-elements]";
  return success();
}

LogicalResult SumOverKOp::verify() {
  return verifySameTile(*this, getPartial().getType().getShape(), getPartial().getType().getElementType(),
                        getType().getShape(), getType().getElementType());
}

LogicalResult StackOp::verify() {
  ArrayRef<int64_t> from = getPartial().getType().getShape(), to = getType().getShape();
  if (getPartial().getType().getElementType() != getType().getElementType())
    return emitOpError() << "changes the element type [concat-elements]";
  if (to[1] != from[1] || to[0] % from[0] != 0)
    return emitOpError() << "stacks tiles of " << from[0] << "x" << from[1] << ", which do not make one of " << to[0]
                         << "x" << to[1] << " [concat-tiles]";
  return success();
}

LogicalResult ExtractOp::verify() {
  if (getSource().getType().getElementType() != getType().getElementType())
    return emitOpError() << "changes the element type [extract-elements]";
  return verifyWithin(*this, getSource().getType().getShape(), getOffsets(), getType().getShape());
}

LogicalResult MapOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError() << "has " << getInputs().size() << " inputs but its block takes " << block.getNumArguments()
                         << " [compute-inputs]";
  if (getMapped().empty())
    return emitOpError() << "has no result; it computes at least one fragment [compute-results]";
  auto first = cast<FragmentType>(getMapped().front().getType());
  auto isLikeFirst = [&](FragmentType type) { return type.getShape() == first.getShape() && type.getTv() == first.getTv(); };
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    Type element = input.getType();
    if (auto fragment = dyn_cast<FragmentType>(element)) {
      if (!isLikeFirst(fragment))
        return emitOpError() << "input " << index << " must have the result's shape and thread-value layout"
                             << " [compute-input-shape]";
      element = tile::valueTypeOf(fragment.getElementType());
    }
    if (block.getArgument(index).getType() != element)
      return emitOpError() << "block argument " << index << " must be " << element << " [compute-argument]";
  }
  auto yield = tile::yieldOf(block);
  SmallVector<Type> elements;
  for (Type type : getMapped().getTypes()) {
    if (!isLikeFirst(cast<FragmentType>(type)))
      return emitOpError() << "results must have the same shape and thread-value layout [compute-result-shapes]";
    elements.push_back(tile::valueTypeOf(cast<FragmentType>(type).getElementType()));
  }
  if (!yield || llvm::to_vector(yield.getValues().getTypes()) != elements)
    return emitOpError() << "body must end in tile.yield of one " << TypeRange(elements) << " [compute-yield]";
  return success();
}

// One f32 for each thread: a fragment with as many rows as threads, each of which holds its own.
static LogicalResult verifyOneForEachThread(Operation *op, FragmentType most) {
  ArrayRef<int64_t> shape = most.getShape();
  if (shape.size() != 2 || shape[1] != 1 || !most.getElementType().isF32())
    return op->emitOpError() << "takes one f32 for each thread, a fragment of Tx1xf32, not " << most
                             << " [most-per-thread]";
  return success();
}

LogicalResult MaxAbsOp::verify() {
  FragmentType value = getValue().getType();
  if (!value.getElementType().isF32())
    return emitOpError() << "finds the largest of f32, not of " << value.getElementType() << " [most-elements]";
  if (value.getShape() != getWindow().getType().getShape())
    return emitOpError() << "takes the elements of a window of the fragment's shape, not " << getWindow().getType()
                         << " [most-window]";
  return verifyOneForEachThread(*this, getMost().getType());
}

LogicalResult RaiseMaxOp::verify() {
  auto target = cast<MemRefType>(getTarget().getType());
  if (target.getShape() != ArrayRef<int64_t>{1} || !target.getElementType().isF32())
    return emitOpError() << "raises one f32, a memref<1xf32>, not " << target << " [most-target]";
  return verifyOneForEachThread(*this, getMost().getType());
}

LogicalResult ReduceOp::verify() {
  FragmentType value = getValue().getType();
  if (!tile::isReduction(getKind()) || !value.getElementType().isF32() || !getType().getElementType().isF32() ||
      (getPartial() && getPartial().getType() != getType()))
    return emitOpError() << "reduces f32 by the word of a reduction, into results of one type, not " << value.getElementType() << " by "
                         << tile::stringifyResultKind(getKind()) << " [reduced-types]";
  if (value.getShape() != getWindow().getType().getShape())
    return emitOpError() << "takes the elements of a window of the fragment's shape, not " << getWindow().getType()
                         << " [reduced-window]";
  return success();
}

LogicalResult StoreReducedOp::verify() {
  auto target = cast<MemRefType>(getTarget().getType());
  if (!target.getElementType().isF32() || target.getRank() != (getBatch() ? 3 : 2))
    return emitOpError() << "stores rows of a matrix of f32, or of one in a batch, not of " << target
                         << " [reduced-target]";
  if (!isa<FragmentType>(getLayout()))
    return emitOpError() << "takes the type of the fragments that were reduced, not " << getLayout()
                         << " [reduced-layout]";
  return success();
}

LogicalResult StoreSharedOp::verify() {
  auto to = cast<MemRefType>(getDestination().getType());
  return verifySameTile(*this, getValue().getType().getShape(), getValue().getType().getElementType(), to.getShape(),
                        to.getElementType());
}
LogicalResult LoadSharedOp::verify() {
  auto from = cast<MemRefType>(getSource().getType());
  SmallVector<int64_t> shape(getType().getShape());
  if (getTrans())
    std::swap(shape[0], shape[1]);
  if (!getOffsets())
    return verifySameTile(*this, from.getShape(), from.getElementType(), shape, getType().getElementType());
  if (from.getElementType() != getType().getElementType())
    return emitOpError() << "loads a fragment of " << getType().getElementType() << " from a buffer of "
                         << from.getElementType() << " [scales-elements]";
  return verifyWithin(*this, from.getShape(), *getOffsets(), shape);
}
// As many elements as the fragment has rows or columns; those of blocks have a row each.
LogicalResult LoadScalesOp::verify() {
  if (!tile::isBlockScale(getKind()))
    return emitOpError() << "loads scales of blocks, not of the kind " << tile::stringifyOperandKind(getKind())
                         << " [scales-kind-of-blocks]";
  auto from = cast<MemRefType>(getSource().getType());
  if (from.getElementType() != getType().getElementType())
    return emitOpError() << "loads a fragment of " << getType().getElementType() << " from scales of "
                         << from.getElementType() << " [scales-of-blocks-elements]";
  bool ofRows = getKind() == tile::OperandKind::row_scale || getKind() == tile::OperandKind::row_block_scale;
  bool ofBlocks = getKind() == tile::OperandKind::row_block_scale || getKind() == tile::OperandKind::column_block_scale;
  int64_t extent = getType().getShape()[ofRows ? 0 : 1];
  bool holds = from.getRank() == 2;
  if (holds && isShared(from)) // a part of a matrix
    holds = (ofBlocks || from.getDimSize(0) == 1) && from.getDimSize(ofBlocks ? 0 : 1) * (ofBlocks ? 128 : 1) >= extent;
  if (!holds)
    return emitOpError() << "needs a matrix, or a buffer, with the scales of " << extent << (ofRows ? " rows" : " columns") << ", not "
                         << from << " [scales-buffer]";
  return success();
}
LogicalResult LoadGlobalOp::verify() {
  if (getAligned() && getRealigned())
    return emitOpError("is aligned or realigned, not both; drop one of the words [aligned-or-realigned]");
  SmallVector<int64_t> shape(getType().getShape());
  if (getTrans())
    std::swap(shape[0], shape[1]);
  return verifySameTile(*this, getSource().getType().getShape(), getSource().getType().getElementType(), shape,
                        getType().getElementType());
}
LogicalResult StoreGlobalOp::verify() {
  return verifySameTile(*this, getValue().getType().getShape(), getValue().getType().getElementType(),
                        getDestination().getType().getShape(), getDestination().getType().getElementType());
}

#define GET_OP_CLASSES
#include "SmOps.cpp.inc"
