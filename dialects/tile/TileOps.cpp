// Operations of the tile dialect: custom assembly and verifiers. What depends on the target is checked by passes.
#include "Tile.h"

#include "mlir/IR/BuiltinDialect.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace lowtide::tile;

//===--- places -------------------------------------------------------------------------------------------------===//

ParseResult lowtide::tile::parsePlace(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &batch,
                                      OpAsmParser::UnresolvedOperand &row, OpAsmParser::UnresolvedOperand &column) {
  SmallVector<OpAsmParser::UnresolvedOperand> places;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(places))
    return failure();
  if (places.size() != 2 && places.size() != 3)
    return parser.emitError(loc) << "expected a row and a column, in a batch after the number of the matrix";
  if (places.size() == 3)
    batch = places[0];
  row = places[places.size() - 2];
  column = places.back();
  return success();
}

void lowtide::tile::printPlace(OpAsmPrinter &printer, Operation *, Value batch, Value row, Value column) {
  if (batch)
    printer << batch << ", ";
  printer << row << ", " << column;
}

// Where the types of a place are not written: `batched` says that there are three.
static ParseResult parseNextPlace(OpAsmParser &parser, Type &batch, Type &row, Type &column) {
  row = column = parser.getBuilder().getIndexType();
  if (succeeded(parser.parseOptionalKeyword("batched")))
    batch = row;
  return success();
}

static void printNextPlace(OpAsmPrinter &printer, Operation *, Type batch, Type, Type) {
  if (batch)
    printer << "batched";
}

//===--- epilogue operands --------------------------------------------------------------------------------------===//

static OperandKind kindOf(Attribute kind) { return static_cast<OperandKind>(cast<IntegerAttr>(kind).getInt()); }

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
      return parser.emitError(loc) << "expected " << wordsOf<OperandKind>() << ", not '" << word << "'";
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
    return false;
  }
  llvm_unreachable("all kinds are above");
}

bool lowtide::tile::actsInTheSum(OperandKind kind) {
  return kind == OperandKind::group_scale || kind == OperandKind::group_zero || isBlockScale(kind);
}

// Dimensions of an operand without a batch.
static int64_t rankOf(OperandKind kind) {
  if (kind == OperandKind::scalar)
    return 0;
  return kind == OperandKind::full || actsInTheSum(kind) ? 2 : 1;
}

// The accumulator, then each operand by its kind.
static void nameEpilogueArguments(Region &region, ArrayAttr kinds, OpAsmSetValueNameFn setName) {
  SmallVector<OperandKind> taken;
  for (Attribute kind : kinds)
    if (OperandKind word = kindOf(kind); !actsInTheSum(word))
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

// Whether two extents can be equal.
bool lowtide::tile::agree(int64_t x, int64_t y) {
  return ShapedType::isDynamic(x) || ShapedType::isDynamic(y) || x == y;
}

bool lowtide::tile::isBatch(MemRefType matrix) { return matrix.getRank() == 3; }

Type lowtide::tile::valueTypeOf(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  return integer ? IntegerType::get(element.getContext(), integer.getWidth()) : element;
}

unsigned lowtide::tile::storageBitsOf(Type element) {
  return isa<FloatTF32Type>(element) ? 32 : element.getIntOrFloatBitWidth();
}

static Type elementTypeOf(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getElementType();
  if (auto tile = dyn_cast<TileType>(type))
    return tile.getElementType();
  if (auto view = dyn_cast<ViewType>(type))
    return view.getElementType();
  return type;
}

LogicalResult lowtide::tile::verifyEpilogue(Operation *op, Region &region, Type acc, OperandRange operands,
                                            ArrayAttr kinds, MemRefType d) {
  Type result = valueTypeOf(d.getElementType());
  bool batched = isBatch(d);
  if (kinds.size() != operands.size())
    return op->emitOpError() << "has " << operands.size() << " operands but " << kinds.size() << " kinds";
  for (auto [index, kind] : llvm::enumerate(kinds.getAsValueRange<IntegerAttr>()))
    if (!symbolizeOperandKind(static_cast<uint32_t>(kind.getZExtValue())))
      return op->emitOpError() << "operand " << index << " has the kind " << kind.getSExtValue() << "; the kinds are 0 to "
                               << getMaxEnumValForOperandKind() << ": " << wordsOf<OperandKind>("and");
  Block &block = region.front();
  unsigned taken = llvm::count_if(kinds, [](Attribute kind) { return !actsInTheSum(kindOf(kind)); });
  if (block.getNumArguments() != taken + 1)
    return op->emitOpError() << "epilogue takes the accumulator and one element for each of " << taken
                             << " operands, but its block has " << block.getNumArguments() << " arguments";
  if (block.getArgument(0).getType() != acc)
    return op->emitOpError() << "epilogue's first argument is the accumulator, " << acc << ", not "
                             << block.getArgument(0).getType();
  unsigned place = 0;
  for (auto [index, operand, kindAttr] : llvm::enumerate(operands, kinds)) {
    OperandKind kind = kindOf(kindAttr);
    bool acts = !actsInTheSum(kind);
    int64_t rank = rankOf(kind);
    auto memref = dyn_cast<MemRefType>(operand.getType());
    if (rank == 0 ? static_cast<bool>(memref)
                  : (!memref || (memref.getRank() != rank && !(batched && memref.getRank() == rank + 1))))
      return op->emitOpError() << "epilogue operand " << index << " is " << stringifyOperandKind(kind) << " and must be "
                               << (rank == 0   ? "a scalar"
                                   : rank == 1 ? "a memref of one dimension"
                                               : "a memref of two dimensions")
                               << (rank && batched ? ", or of one more, the batch" : "");
    if (rank && memref.getRank() > rank && !agree(memref.getDimSize(0), d.getDimSize(0)))
      return op->emitOpError() << "epilogue operand " << index << " has a batch of " << memref.getDimSize(0)
                               << " but D one of " << d.getDimSize(0);
    Type element = valueTypeOf(elementTypeOf(operand.getType()));
    if (acts && block.getArgument(++place).getType() != element)
      return op->emitOpError() << "epilogue argument " << place << " must be " << element << ", its operand's element";
  }
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().size() != 1 || yield.getValues()[0].getType() != result)
    return op->emitOpError() << "epilogue must end in tile.yield of one " << result;
  return success();
}

//===--- tile.gemm ----------------------------------------------------------------------------------------------===//

// Whether columns are contiguous, and rows not known to be.
static bool isColumnMajor(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  return succeeded(type.getStridesAndOffset(strides, offset)) && strides.size() == 2 && strides[0] == 1 &&
         strides[1] != 1;
}

int64_t lowtide::tile::weightsPerByte(Type weights) { return 8 / weights.getIntOrFloatBitWidth(); }

LogicalResult lowtide::tile::verifyWeightTypes(Operation *op, Type weights, Type bytes, Type converted) {
  if (!weights.isIntOrFloat() || (weights.getIntOrFloatBitWidth() != 4 && weights.getIntOrFloatBitWidth() != 8))
    return op->emitOpError() << "weights have 4 or 8 bits, those of " << weights << " have not";
  if (!bytes.isUnsignedInteger(8) || !(converted.isF16() || converted.isBF16()))
    return op->emitOpError() << "packed weights lie in ui8 and become f16 or bf16, not in " << bytes << " to become "
                             << converted;
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

static LogicalResult verifyWeights(GemmOp op, MemRefType a, MemRefType b, int64_t k) {
  auto count = [&](OperandKind wanted) {
    return llvm::count_if(op.getKinds(), [&](Attribute kind) { return kindOf(kind) == wanted; });
  };
  int64_t scales = count(OperandKind::group_scale), zeros = count(OperandKind::group_zero);
  int64_t group = op.getGroup().value_or(0);
  if (zeros > 1 || (zeros && !group))
    return op.emitOpError() << "has at most one group_zero operand, where it has groups";
  if (scales != (group ? 1 : 0))
    return op.emitOpError() << "has one group_scale operand where it has groups, and only there";
  if (!op.getWeights())
    return group ? op.emitOpError() << "groups are those of packed weights" : success();
  if (failed(verifyWeightsBeside(op, *op.getWeights(), a.getElementType(), b.getElementType())))
    return failure();
  bool areA = weightsAreA(a.getElementType());
  if (areA != op.getSwapped())
    return op.emitOpError() << "packed weights are B, or A where the operands are swapped";
  if (!hasContiguousK(op.getLayout(), areA) || isBatch(b))
    return op.emitOpError() << "packed weights are one matrix with K contiguous: take tn or nn, and no batch";
  if (group % 32 || (group && !ShapedType::isDynamic(k) && k % group))
    return op.emitOpError() << "groups of " << group << " must be of 32 times a number, and divide K";
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
    return op.emitOpError() << "has two scales, one of rows and one of columns, behind all other operands";
  auto isOfRows = [](Attribute kind) {
    return kindOf(kind) == OperandKind::row_scale || kindOf(kind) == OperandKind::row_block_scale;
  };
  if (isOfRows(kinds.back()) == isOfRows(kinds.drop_back().back()))
    return op.emitOpError() << "has two scales of " << (isOfRows(kinds.back()) ? "rows" : "columns")
                            << "; give one of rows and one of columns";
  for (Value scale : op.getEpilogueOperands().take_back(2))
    if (elementTypeOf(scale.getType()) != op.getAcc())
      return op.emitOpError() << "scales are of the accumulators' type, " << op.getAcc() << ", not "
                              << elementTypeOf(scale.getType());
  return success();
}

LogicalResult GemmOp::verify() {
  auto a = cast<MemRefType>(getA().getType()), b = cast<MemRefType>(getB().getType()),
       d = cast<MemRefType>(getD().getType());
  for (auto [name, type] : {std::pair("A", a), std::pair("B", b), std::pair("D", d)})
    if (type.getRank() != 2 && type.getRank() != 3)
      return emitOpError() << name << " must have two dimensions, or three in a batch, not " << type.getRank();
  if (a.getRank() != d.getRank() || b.getRank() != d.getRank())
    return emitOpError() << "A, B and D are one matrix each, or a batch of them: their ranks are " << a.getRank() << ", "
                         << b.getRank() << " and " << d.getRank();
  unsigned outer = isBatch(d) ? 1 : 0;
  for (auto [name, type] : {std::pair("A", a), std::pair("B", b)})
    if (outer && !agree(type.getDimSize(0), d.getDimSize(0)))
      return emitOpError() << "the batch is " << type.getDimSize(0) << " in " << name << " but " << d.getDimSize(0)
                           << " in D";
  bool aIsMK = getLayout() == GemmLayout::tn || getLayout() == GemmLayout::tt;
  bool bIsNK = getLayout() == GemmLayout::tn || getLayout() == GemmLayout::nn;
  int64_t m = a.getDimSize(outer + (aIsMK ? 0 : 1)), ka = a.getDimSize(outer + (aIsMK ? 1 : 0));
  int64_t n = b.getDimSize(outer + (bIsNK ? 0 : 1)), kb = b.getDimSize(outer + (bIsNK ? 1 : 0));
  if (failed(verifyWeights(*this, a, b, ka)))
    return failure();
  if (int64_t &rows = weightsAreA(a.getElementType()) ? m : n; getWeights() && !ShapedType::isDynamic(rows))
    rows *= weightsPerByte(*getWeights());
  if (!agree(ka, kb))
    return emitOpError() << "K is " << ka << " in A but " << kb << " in B";
  if (!agree(m, d.getDimSize(outer)))
    return emitOpError() << "M is " << m << " in A but " << d.getDimSize(outer) << " in D";
  if (!agree(n, d.getDimSize(outer + 1)))
    return emitOpError() << "N is " << n << " in B but " << d.getDimSize(outer + 1) << " in D";
  for (auto [index, operand] : llvm::enumerate(getEpilogueOperands())) {
    auto full = dyn_cast<MemRefType>(operand.getType());
    if (index >= getKinds().size())
      break; // verifyEpilogue says so
    bool lies = kindOf(getKinds()[index]) == OperandKind::full;
    if (lies && full && full.getRank() == 2 && isColumnMajor(full) != isColumnMajor(d))
      return emitOpError() << "epilogue operand " << index << " is full and must lie as D does, "
                           << (isColumnMajor(d) ? "column by column" : "row by row");
  }
  if (!getWeights() && a.getElementTypeBitWidth() != b.getElementTypeBitWidth())
    return emitOpError() << "A is " << a.getElementType() << " but B is " << b.getElementType()
                         << ": their elements must have as many bits";
  if (!isa<FloatType, IntegerType>(getAcc()))
    return emitOpError() << "the accumulator must be a float or an integer, not " << getAcc();
  if (failed(verifyEpilogue(*this, getEpilogue(), getAcc(), getEpilogueOperands(), getKinds(), d)))
    return failure();
  return verifyBlockScales(*this);
}

//===--- tile.kernel --------------------------------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

// The matrices A, B and D come first; what is neither memref nor scalar goes by its type's name.
void KernelOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  static constexpr StringLiteral kMatrices[] = {"A", "B", "D"};
  if (region.empty())
    return;
  auto isMatrix = [](BlockArgument argument) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    return type && (type.getRank() == 2 || isBatch(type));
  };
  ArrayRef<BlockArgument> arguments = region.getArguments();
  bool hasMatrices = arguments.size() >= 3 && llvm::all_of(arguments.take_front(3), isMatrix);
  for (auto [position, argument] : llvm::enumerate(arguments)) {
    Type type = argument.getType();
    if (hasMatrices && position < std::size(kMatrices))
      setName(argument, kMatrices[position]);
    else if (!isa<BuiltinDialect>(type.getDialect()))
      setName(argument, type.getAbstractType().getName().rsplit('.').second);
  }
}

LogicalResult KernelOp::verify() {
  if (!getFunctionType().getResults().empty())
    return emitOpError() << "must not return values";
  if (getBody().empty())
    return emitOpError() << "must have a body";
  return success();
}

//===--- semaphores ---------------------------------------------------------------------------------------------===//

static LogicalResult verifySemaphores(Operation *op, Value semaphores) {
  auto type = cast<MemRefType>(semaphores.getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return op->emitOpError() << "needs semaphores in a vector of i32, not " << type;
  return success();
}

LogicalResult SemaphoreArriveOp::verify() { return verifySemaphores(*this, getSemaphores()); }
LogicalResult SemaphoreWaitOp::verify() { return verifySemaphores(*this, getSemaphores()); }
LogicalResult SemaphoreLeaveOp::verify() { return verifySemaphores(*this, getSemaphores()); }

//===--- tile.await_wave ----------------------------------------------------------------------------------------===//

LogicalResult AwaitWaveOp::verify() {
  auto type = cast<MemRefType>(getCounter().getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return emitOpError() << "counts in a vector of i32, not " << type;
  if (cast<WorkTilesOp>((*this)->getParentOp()).getScheduler() == SchedulerKind::one_shot)
    return emitOpError() << "waits for CTAs that run at the same time; those of one_shot do not";
  return success();
}

//===--- tile.next_work_tile ------------------------------------------------------------------------------------===//

LogicalResult NextWorkTileOp::verify() {
  if (static_cast<bool>(cast<WorkTilesOp>((*this)->getParentOp()).getBatch()) != static_cast<bool>(getBatch()))
    return emitOpError() << "is batched where its work tiles are those of a batch, and only there";
  return success();
}

//===--- tile.view ----------------------------------------------------------------------------------------------===//

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  OperandKind kind = getKind().value_or(OperandKind::full);
  if (kind == OperandKind::scalar || kind == OperandKind::group_scale || kind == OperandKind::group_zero)
    return emitOpError() << "a " << stringifyOperandKind(kind) << " has no window";
  int64_t rank = rankOf(kind);
  if ((source.getRank() != rank && source.getRank() != rank + 1) ||
      static_cast<int64_t>(getOffsets().size()) != source.getRank())
    return emitOpError() << "of kind " << stringifyOperandKind(kind) << " needs a source of " << rank
                         << " dimensions, or one more in a batch, and as many offsets, not " << source.getRank()
                         << " and " << getOffsets().size();
  if (source.getElementType() != getType().getElementType())
    return emitOpError() << "window of " << getType().getElementType() << " on a matrix of " << source.getElementType();
  return success();
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
    return emitOpError() << "A and B must have two dimensions";
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
      return emitOpError() << "packed weights have K contiguous; take tn or " << (areA ? "tt" : "nn");
    rows *= weightsPerByte(*getWeights());
  }
  if (getZeros() && (!getWeights() || getZeros().getType().getShape() != ArrayRef<int64_t>{rows, kb}))
    return emitOpError() << "zero points are a window of as many rows and columns as the packed weights have";
  if (getZeros() && !getZeros().getType().getElementType().isInteger(8))
    return emitOpError() << "zero points have 8 bits, those of " << getZeros().getType().getElementType() << " have not";
  if (ka != kb)
    return emitOpError() << "K is " << ka << " in A but " << kb << " in B";
  if (m != c[0] || n != c[1])
    return emitOpError() << "computes " << m << "x" << n << " but the accumulator is " << c[0] << "x" << c[1];
  if (!getWeights() && elementA.getIntOrFloatBitWidth() != elementB.getIntOrFloatBitWidth())
    return emitOpError() << "elements of A and B must have as many bits";
  return success();
}

//===--- tile.promote -------------------------------------------------------------------------------------------===//

LogicalResult PromoteOp::verify() {
  if (getScale() && getRows())
    return emitOpError() << "is scaled by a window of factors, or by scales of rows and of columns, not both";
  if (static_cast<bool>(getRows()) != static_cast<bool>(getColumns()))
    return emitOpError() << "takes scales of rows and of columns, or neither";
  for (Value scales : {getRows(), getColumns()}) {
    if (!scales)
      continue;
    auto view = cast<ViewType>(scales.getType());
    if (view.getShape() != getType().getShape() || view.getElementType() != getType().getElementType())
      return emitOpError() << "adds " << getType() << ", but its scales are " << view;
  }
  if (!getScale())
    return success();
  if (getScale().getType().getShape() != getResult().getType().getShape())
    return emitOpError() << "scales by a window of another shape than that of the sums";
  if (!isa<FloatType>(getResult().getType().getElementType()) ||
      !isa<FloatType>(getScale().getType().getElementType()))
    return emitOpError() << "scales floats by floats";
  return success();
}

//===--- tile.store ---------------------------------------------------------------------------------------------===//

LogicalResult StoreOp::verify() {
  auto d = cast<MemRefType>(getD().getType());
  if (d.getRank() != 2 && !isBatch(d))
    return emitOpError() << "D must have two dimensions, or three in a batch, not " << d.getRank();
  if (isBatch(d) != static_cast<bool>(getBatch()))
    return emitOpError() << "says which matrix of D it stores to where D is a batch, and only there";
  // The value is a tile, or a fragment of the sm dialect, which this dialect does not know; both end their
  // epilogue's first argument in the element that they hold.
  Type acc = getEpilogue().front().getNumArguments() ? getEpilogue().front().getArgument(0).getType() : Type();
  if (auto tile = dyn_cast<TileType>(getValue().getType()); tile && tile.getElementType() != acc)
    return emitOpError() << "epilogue's first argument must be " << tile.getElementType() << ", the accumulator's element";
  for (Attribute kind : getKinds())
    if (actsInTheSum(kindOf(kind)))
      return emitOpError() << stringifyOperandKind(kindOf(kind)) << " acts in the sum: tile.promote and tile.mma take it";
  return verifyEpilogue(*this, getEpilogue(), acc, getEpilogueOperands(), getKinds(), d);
}

#define GET_OP_CLASSES
#include "TileOps.cpp.inc"
