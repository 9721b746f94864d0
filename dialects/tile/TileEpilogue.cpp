// Results and operands of an epilogue: their assembly, what each kind asks for, and the region; tile.store.
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

//===--- results ------------------------------------------------------------------------------------------------===//

ResultKind lowtide::tile::resultKindOf(Attribute kind) {
  return static_cast<ResultKind>(cast<IntegerAttr>(kind).getInt());
}

bool lowtide::tile::isReduction(ResultKind kind) {
  return kind != ResultKind::full && kind != ResultKind::amax && kind != ResultKind::absent;
}

ParseResult lowtide::tile::parseResults(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &results,
                                        ArrayAttr &kinds) {
  SmallVector<int32_t> values;
  auto parseOne = [&]() -> ParseResult {
    ResultKind kind = ResultKind::full;
    StringRef word;
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword(&word))) {
      std::optional<ResultKind> said = symbolizeResultKind(word);
      if (!said)
        return parser.emitError(loc) << "expected " << wordsOf<ResultKind>() << ", not '" << word << "'"
                                     << " [result-kind-word]";
      kind = *said;
    }
    values.push_back(static_cast<int32_t>(kind));
    return parser.parseOperand(results.emplace_back());
  };
  if (succeeded(parser.parseOptionalLParen())) {
    if (parser.parseCommaSeparatedList(parseOne) || parser.parseRParen())
      return failure();
  } else if (parseOne()) {
    return failure();
  }
  kinds = parser.getBuilder().getI32ArrayAttr(values);
  return success();
}

void lowtide::tile::printResults(OpAsmPrinter &printer, Operation *, OperandRange results, ArrayAttr kinds) {
  printer << (results.size() == 1 ? "" : "(");
  llvm::interleaveComma(llvm::zip(results, kinds), printer, [&](auto entry) {
    auto [result, kind] = entry;
    if (resultKindOf(kind) != ResultKind::full)
      printer << stringifyResultKind(resultKindOf(kind)) << " ";
    printer << result;
  });
  printer << (results.size() == 1 ? "" : ")");
}

ParseResult lowtide::tile::parseResultTypes(OpAsmParser &parser, SmallVectorImpl<Type> &types) {
  return parser.parseTypeList(types);
}

void lowtide::tile::printResultTypes(OpAsmPrinter &printer, Operation *, TypeRange types) {
  llvm::interleaveComma(types, printer);
}

bool lowtide::tile::isColumnMajor(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  return succeeded(type.getStridesAndOffset(strides, offset)) && strides.size() > 1 &&
         strides[strides.size() - 2] == 1 && strides.back() != 1;
}

bool lowtide::tile::isList(Type type) {
  auto matrices = dyn_cast<MemRefType>(type);
  auto space = matrices ? dyn_cast_or_null<StringAttr>(matrices.getMemorySpace()) : StringAttr();
  return space && space.getValue() == "list" && matrices.getRank() == 3;
}

SmallVector<MemRefType> lowtide::tile::fullResults(OperandRange results, ArrayAttr kinds) {
  SmallVector<MemRefType> full;
  for (auto [result, kind] : llvm::zip(results, kinds))
    if (resultKindOf(kind) == ResultKind::full || resultKindOf(kind) == ResultKind::absent)
      full.push_back(cast<MemRefType>(result.getType()));
  return full;
}

LogicalResult lowtide::tile::verifyResults(Operation *op, OperandRange results, ArrayAttr kinds) {
  if (results.empty() || kinds.size() != results.size())
    return op->emitOpError() << "has " << results.size() << " results but " << kinds.size()
                             << " kinds of them; it has as many, and at least one [result-kinds]";
  int64_t maxima = 0;
  for (auto [index, result, kind] : llvm::enumerate(results, kinds)) {
    if (!symbolizeResultKind(static_cast<uint32_t>(cast<IntegerAttr>(kind).getInt())))
      return op->emitOpError() << "result " << index << " has the kind " << cast<IntegerAttr>(kind).getInt()
                               << "; the kinds are 0 to " << getMaxEnumValForResultKind() << ": "
                               << wordsOf<ResultKind>("and") << " [result-kind-number]";
    auto memref = cast<MemRefType>(result.getType());
    if (isReduction(resultKindOf(kind)) && !memref.getElementType().isF32())
      return op->emitOpError() << "a reduction has elements of f32, not " << memref.getElementType()
                               << " [reduction-elements]";
    if (resultKindOf(kind) != ResultKind::amax)
      continue;
    if (memref.getShape() != ArrayRef<int64_t>{1} || !memref.getElementType().isF32())
      return op->emitOpError() << "an amax is one f32, a memref<1xf32>, not " << memref << " [amax-memref]";
    ++maxima;
  }
  if (maxima > 1)
    return op->emitOpError() << "has " << maxima << " results amax; there is one largest absolute value [one-amax]";
  SmallVector<MemRefType> full = fullResults(results, kinds);
  for (MemRefType other : ArrayRef(full).drop_front(full.empty() ? 0 : 1)) {
    MemRefType first = full.front();
    bool alike = other.getRank() == first.getRank() && isColumnMajor(other) == isColumnMajor(first) &&
                 llvm::all_of(llvm::zip(other.getShape(), first.getShape()),
                              [](auto pair) { return agree(std::get<0>(pair), std::get<1>(pair)); });
    if (!alike)
      return op->emitOpError() << "full results have the same extents and lie in the same way: " << first
                               << " and " << other << " do not [full-results-alike]";
  }
  return success();
}

//===--- kinds of operands --------------------------------------------------------------------------------------===//

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
  case OperandKind::ends:
  case OperandKind::target:
  case OperandKind::a_rows:
  case OperandKind::d_rows:
  case OperandKind::arrived:
  case OperandKind::turn:
  case OperandKind::status:
  case OperandKind::peers:
  case OperandKind::sent:
    return false;
  }
  llvm_unreachable("all kinds are above");
}

bool lowtide::tile::actsInTheSum(OperandKind kind) {
  return kind == OperandKind::group_scale || kind == OperandKind::group_zero || isBlockScale(kind);
}

bool lowtide::tile::isOfArrivals(OperandKind kind) {
  return kind == OperandKind::arrived || kind == OperandKind::turn || kind == OperandKind::status;
}

bool lowtide::tile::isOfSends(OperandKind kind) { return kind == OperandKind::peers || kind == OperandKind::sent; }

bool lowtide::tile::isReadByTheRegion(OperandKind kind) {
  return !actsInTheSum(kind) && kind != OperandKind::ends && kind != OperandKind::target &&
         kind != OperandKind::a_rows && kind != OperandKind::d_rows && !isOfArrivals(kind) &&
         !isOfSends(kind);
}

bool lowtide::tile::isOfColumns(OperandKind kind) {
  switch (kind) {
  case OperandKind::per_column:
  case OperandKind::group_scale:
  case OperandKind::group_zero:
  case OperandKind::column_scale:
  case OperandKind::column_block_scale:
    return true;
  default:
    return false;
  }
}

int64_t lowtide::tile::rankOf(OperandKind kind) {
  if (kind == OperandKind::scalar)
    return 0;
  return kind == OperandKind::full || actsInTheSum(kind) ? 2 : 1;
}

// The accumulators, then each operand by its kind.
static void nameEpilogueArguments(Region &region, ArrayAttr kinds, bool pairs, OpAsmSetValueNameFn setName) {
  unsigned sums = pairs ? 2 : 1;
  SmallVector<OperandKind> taken;
  for (Attribute kind : kinds)
    if (OperandKind word = kindOf(kind); isReadByTheRegion(word))
      taken.push_back(word);
  if (region.empty() || region.getNumArguments() != taken.size() + sums)
    return;
  for (Value sum : region.getArguments().take_front(sums))
    setName(sum, "acc");
  for (auto [argument, kind] : llvm::zip(region.getArguments().drop_front(sums), taken))
    setName(argument, stringifyOperandKind(kind));
}

void GemmOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameEpilogueArguments(region, getKinds(), getPairs(), setName);
}
void StoreOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameEpilogueArguments(region, getKinds(), getPairs(), setName);
}

// The type of what the region yields for a result.
static Type yieldedFor(Value result, ResultKind kind) {
  auto memref = cast<MemRefType>(result.getType());
  switch (kind) {
  case ResultKind::full:
    return valueTypeOf(memref.getElementType());
  default:
    return memref.getElementType();
  }
}

static LogicalResult verifyYield(Operation *op, Block &block, OperandRange results, ArrayAttr kinds) {
  SmallVector<Type> wanted;
  for (auto [result, kind] : llvm::zip(results, kinds))
    if (resultKindOf(kind) != ResultKind::absent)
      wanted.push_back(yieldedFor(result, resultKindOf(kind)));
  auto yield = yieldOf(block);
  if (!yield || yield.getValues().getTypes() != TypeRange(wanted))
    return op->emitOpError() << "epilogue must end in tile.yield of one value for each result, of "
                             << ArrayRef<Type>(wanted) << " [epilogue-yield]";
  return success();
}

LogicalResult lowtide::tile::verifyEpilogue(Operation *op, Region &region, Type acc, OperandRange operands,
                                            ArrayAttr kinds, OperandRange results, ArrayAttr resultKinds, bool pairs,
                                            std::optional<int64_t> batch) {
  if (kinds.size() != operands.size())
    return op->emitOpError() << "has " << operands.size() << " operands but " << kinds.size() << " kinds"
                             << " [operand-kinds]";
  for (auto [index, kind] : llvm::enumerate(kinds.getAsValueRange<IntegerAttr>()))
    if (!symbolizeOperandKind(static_cast<uint32_t>(kind.getZExtValue())))
      return op->emitOpError() << "operand " << index << " has the kind " << kind.getSExtValue() << "; the kinds are 0 to "
                               << getMaxEnumValForOperandKind() << ": " << wordsOf<OperandKind>("and")
                               << " [operand-kind-number]";
  auto isValue = [](Attribute kind) {
    return resultKindOf(kind) == ResultKind::row_value || resultKindOf(kind) == ResultKind::column_value;
  };
  auto isTarget = [](Attribute kind) { return kindOf(kind) == OperandKind::target; };
  if (llvm::count_if(kinds, isTarget) != (llvm::any_of(resultKinds, isValue) ? 1 : 0))
    return op->emitOpError() << "has one target operand if a result is row_value or column_value, and no other"
                             << " [target-of-value]";
  // In groups of rows, only operands of columns may have a part for each group: the others have rows, or none.
  bool byGroup = llvm::any_of(kinds, [](Attribute kind) { return kindOf(kind) == OperandKind::ends; }) &&
                 llvm::none_of(fullResults(results, resultKinds), isBatch);
  auto mayHaveOneMore = [&](OperandKind kind) { return batch && (!byGroup || isOfColumns(kind)); };
  Block &block = region.front();
  unsigned taken = llvm::count_if(kinds, [](Attribute kind) { return isReadByTheRegion(kindOf(kind)); });
  unsigned sums = pairs ? 2 : 1;
  if (block.getNumArguments() != taken + sums)
    return op->emitOpError() << "epilogue takes " << (pairs ? "two accumulators" : "the accumulator")
                             << " and one element for each of " << taken << " operands, but its block has "
                             << block.getNumArguments() << " arguments [epilogue-arguments]";
  for (Value sum : block.getArguments().take_front(sums))
    if (sum.getType() != acc)
      return op->emitOpError() << "epilogue's first argument" << (pairs ? "s are accumulators, " : " is the accumulator, ")
                               << acc << ", not " << sum.getType() << " [epilogue-first]";
  unsigned place = sums - 1;
  for (auto [index, operand, kindAttr] : llvm::enumerate(operands, kinds)) {
    OperandKind kind = kindOf(kindAttr);
    bool isRead = isReadByTheRegion(kind);
    int64_t rank = rankOf(kind);
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (rank == 0 ? static_cast<bool>(memref)
                  : (!memref || (memref.getRank() != rank && !(mayHaveOneMore(kind) && memref.getRank() == rank + 1))))
      return op->emitOpError() << "epilogue operand " << index << " is " << stringifyOperandKind(kind) << " and must be "
                               << (rank == 0   ? "a scalar"
                                   : rank == 1 ? "a memref of one dimension"
                                               : "a memref of two dimensions")
                               << (!rank || !mayHaveOneMore(kind) ? ""
                                   : byGroup                      ? ", or of one more, the group"
                                                                  : ", or of one more, the batch")
                               << " [operand-dimensions]";
    if (rank && memref.getRank() > rank && !agree(memref.getDimSize(0), *batch))
      return op->emitOpError() << "epilogue operand " << index << " has a " << (byGroup ? "part for each of " : "batch of ")
                               << memref.getDimSize(0) << (byGroup ? " groups but B " : " but D one of ") << *batch
                               << (byGroup ? " matrices" : "") << " [operand-batch]";
    Type element = valueTypeOf(elementTypeOf(operand.getType()));
    if (isRead && block.getArgument(++place).getType() != element)
      return op->emitOpError() << "epilogue argument " << place << " must be " << element << ", its operand's element"
                               << " [epilogue-element]";
  }
  return verifyYield(op, block, results, resultKinds);
}

//===--- tile.store ---------------------------------------------------------------------------------------------===//

LogicalResult StoreOp::verify() {
  if (failed(verifyResults(*this, getOuts(), getOutKinds())))
    return failure();
  SmallVector<MemRefType> full = fullResults(getOuts(), getOutKinds());
  if (full.empty())
    return emitOpError() << "has no full result, whose edges say which elements there are [stored-results]";
  MemRefType d = full.front();
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
  if (auto tile = dyn_cast<TileType>(getValue().getType()); tile && getPairs() && tile.getShape().back() % 2)
    return emitOpError() << "takes pairs from halves of " << tile.getShape().back() << " columns; their number is even"
                         << " [stored-halves]";
  for (Attribute kind : getKinds())
    if (!isReadByTheRegion(kindOf(kind)) && kindOf(kind) != OperandKind::target)
      return emitOpError() << stringifyOperandKind(kindOf(kind))
                           << " is not for the epilogue: tile.promote, tile.mma or tile.work_tiles takes it"
                           << " [sum-operand]";
  return verifyEpilogue(*this, getEpilogue(), acc, getEpilogueOperands(), getKinds(), getOuts(), getOutKinds(), getPairs(),
                        isBatch(d) ? std::optional(d.getDimSize(0)) : std::nullopt);
}
