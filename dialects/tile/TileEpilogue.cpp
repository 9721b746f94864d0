// Operands of an epilogue: their assembly, what each kind asks for, and the region that they act in; tile.store.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

//===--- epilogue operands --------------------------------------------------------------------------------------===//

OperandKind lowtide::tile::kindOf(Attribute kind) {
  return static_cast<OperandKind>(cast<IntegerAttr>(kind).getInt());
}

ParseResult lowtide::tile::parseKindedOperands(OpAsmParser &parser,
                                               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                                               SmallVectorImpl<Type> &types, ArrayAttr &kinds) {
  Builder &builder = parser.getBuilder();
  SmallVector<int32_t> values;
  auto parseOne = [&]() -> ParseResult {
    StringRef word;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<OperandKind> kind = symbolizeOperandKind(word);
    if (!kind)
      return parser.emitError(loc) << "expected " << wordsOf<OperandKind>() << ", not '" << word << "'"
                                   << " [operand-kind-word]";
    values.push_back(static_cast<int32_t>(*kind));
    return failure(parser.parseOperand(operands.emplace_back()) || parser.parseColonType(types.emplace_back()));
  };
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  kinds = builder.getI32ArrayAttr(values);
  return success();
}

void lowtide::tile::printKindedOperands(OpAsmPrinter &printer, Operation *, OperandRange operands, TypeRange types,
                                        ArrayAttr kinds) {
  llvm::interleaveComma(llvm::zip(operands, types, kinds), printer, [&](auto entry) {
    auto [operand, type, kind] = entry;
    printer << stringifyOperandKind(kindOf(kind)) << " " << operand << " : " << type;
  });
}

bool lowtide::tile::isBlockScale(OperandKind kind) {
  switch (kind) {
  case OperandKind::row_scale:
  case OperandKind::column_scale:
  case OperandKind::row_block_scale:
  case OperandKind::column_block_scale:
    return true;
  case OperandKind::full:
  case OperandKind::per_row:
  case OperandKind::per_column:
  case OperandKind::scalar:
  case OperandKind::group_scale:
  case OperandKind::group_zero:
  case OperandKind::amax:
    return false;
  }
  llvm_unreachable("all kinds are above");
}

bool lowtide::tile::actsInTheSum(OperandKind kind) {
  return kind == OperandKind::group_scale || kind == OperandKind::group_zero || isBlockScale(kind);
}

bool lowtide::tile::isReadByTheRegion(OperandKind kind) { return kind != OperandKind::amax && !actsInTheSum(kind); }

int64_t lowtide::tile::rankOf(OperandKind kind) {
  if (kind == OperandKind::scalar)
    return 0;
  return kind == OperandKind::full || actsInTheSum(kind) ? 2 : 1;
}

// The accumulator, then each operand by its kind.
static void nameEpilogueArguments(Region &region, ArrayAttr kinds, OpAsmSetValueNameFn setName) {
  SmallVector<OperandKind> taken;
  for (Attribute kind : kinds)
    if (OperandKind word = kindOf(kind); isReadByTheRegion(word))
      taken.push_back(word);
  if (region.empty() || region.getNumArguments() != taken.size() + 1)
    return;
  setName(region.getArgument(0), "acc");
  for (auto [argument, kind] : llvm::zip(region.getArguments().drop_front(), taken))
    setName(argument, stringifyOperandKind(kind));
}

void GemmOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameEpilogueArguments(region, getKinds(), setName);
}
void StoreOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameEpilogueArguments(region, getKinds(), setName);
}

// What the region yields beside D's element, where there is an amax: the value before it is converted to D's type.
static LogicalResult verifyAmax(Operation *op, OperandRange operands, ArrayAttr kinds, ArrayRef<Type> yielded) {
  int64_t count = 0;
  for (auto [operand, kind] : llvm::zip(operands, kinds)) {
    if (kindOf(kind) != OperandKind::amax)
      continue;
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (!memref || memref.getShape() != ArrayRef<int64_t>{1} || !memref.getElementType().isF32())
      return op->emitOpError() << "an amax is one f32, a memref<1xf32>, not " << operand.getType() << " [amax-memref]";
    ++count;
  }
  if (count > 1)
    return op->emitOpError() << "has " << count << " operands amax; D has one largest absolute value [one-amax]";
  if (count && !(yielded.size() == 2 && yielded[1].isF32()))
    return op->emitOpError() << "with an amax the epilogue must also yield the f32 that D's element is converted from"
                             << " [amax-yield]";
  return success();
}

LogicalResult lowtide::tile::verifyEpilogue(Operation *op, Region &region, Type acc, OperandRange operands,
                                            ArrayAttr kinds, MemRefType d) {
  Type result = valueTypeOf(d.getElementType());
  bool batched = isBatch(d);
  if (kinds.size() != operands.size())
    return op->emitOpError() << "has " << operands.size() << " operands but " << kinds.size() << " kinds"
                             << " [operand-kinds]";
  for (auto [index, kind] : llvm::enumerate(kinds.getAsValueRange<IntegerAttr>()))
    if (!symbolizeOperandKind(static_cast<uint32_t>(kind.getZExtValue())))
      return op->emitOpError() << "operand " << index << " has the kind " << kind.getSExtValue() << "; the kinds are 0 to "
                               << getMaxEnumValForOperandKind() << ": " << wordsOf<OperandKind>("and")
                               << " [operand-kind-number]";
  Block &block = region.front();
  unsigned taken = llvm::count_if(kinds, [](Attribute kind) { return isReadByTheRegion(kindOf(kind)); });
  bool hasAmax = llvm::any_of(kinds, [](Attribute kind) { return kindOf(kind) == OperandKind::amax; });
  if (block.getNumArguments() != taken + 1)
    return op->emitOpError() << "epilogue takes the accumulator and one element for each of " << taken
                             << " operands, but its block has " << block.getNumArguments() << " arguments"
                             << " [epilogue-arguments]";
  if (block.getArgument(0).getType() != acc)
    return op->emitOpError() << "epilogue's first argument is the accumulator, " << acc << ", not "
                             << block.getArgument(0).getType() << " [epilogue-first]";
  unsigned place = 0;
  for (auto [index, operand, kindAttr] : llvm::enumerate(operands, kinds)) {
    OperandKind kind = kindOf(kindAttr);
    bool isRead = isReadByTheRegion(kind);
    int64_t rank = rankOf(kind);
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (rank == 0 ? static_cast<bool>(memref)
                  : (!memref || (memref.getRank() != rank && !(batched && memref.getRank() == rank + 1))))
      return op->emitOpError() << "epilogue operand " << index << " is " << stringifyOperandKind(kind) << " and must be "
                               << (rank == 0   ? "a scalar"
                                   : rank == 1 ? "a memref of one dimension"
                                               : "a memref of two dimensions")
                               << (rank && batched ? ", or of one more, the batch" : "") << " [operand-dimensions]";
    if (rank && memref.getRank() > rank && !agree(memref.getDimSize(0), d.getDimSize(0)))
      return op->emitOpError() << "epilogue operand " << index << " has a batch of " << memref.getDimSize(0)
                               << " but D one of " << d.getDimSize(0) << " [operand-batch]";
    Type element = valueTypeOf(elementTypeOf(operand.getType()));
    if (isRead && block.getArgument(++place).getType() != element)
      return op->emitOpError() << "epilogue argument " << place << " must be " << element << ", its operand's element"
                               << " [epilogue-element]";
  }
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().size() != (hasAmax ? 2 : 1) || yield.getValues()[0].getType() != result)
    return op->emitOpError() << "epilogue must end in tile.yield of one " << result
                             << (hasAmax ? ", and of the f32 that it is converted from" : "") << " [epilogue-yield]";
  return verifyAmax(op, operands, kinds, llvm::to_vector(yield.getValues().getTypes()));
}

//===--- tile.store ---------------------------------------------------------------------------------------------===//

LogicalResult StoreOp::verify() {
  auto d = cast<MemRefType>(getD().getType());
  if (d.getRank() != 2 && !isBatch(d))
    return emitOpError() << "D must have two dimensions, or three in a batch, not " << d.getRank()
                         << " [stored-dimensions]";
  if (isBatch(d) != static_cast<bool>(getBatch()))
    return emitOpError() << "says which matrix of D it stores to where D is a batch, and only there [stored-batch]";
  // The value is a tile, or a fragment of the sm dialect, which this dialect does not know; both end their
  // epilogue's first argument in the element that they hold.
  Type acc = getEpilogue().front().getNumArguments() ? getEpilogue().front().getArgument(0).getType() : Type();
  if (auto tile = dyn_cast<TileType>(getValue().getType()); tile && tile.getElementType() != acc)
    return emitOpError() << "epilogue's first argument must be " << tile.getElementType() << ", the accumulator's element"
                         << " [stored-accumulator]";
  for (Attribute kind : getKinds())
    if (actsInTheSum(kindOf(kind)))
      return emitOpError() << stringifyOperandKind(kindOf(kind)) << " acts in the sum: tile.promote and tile.mma take it"
                           << " [sum-operand]";
  return verifyEpilogue(*this, getEpilogue(), acc, getEpilogueOperands(), getKinds(), d);
}
