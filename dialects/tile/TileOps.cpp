// Operations of the tile dialect: custom assembly and verifiers, but for those of products, epilogues, work tiles and
// the host, which have files of their own. What depends on the target is checked by passes.
#include "Tile.h"

#include "mlir/IR/BuiltinDialect.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace lowtide::tile;

//===--- extents and element types -----------------------------------------------------------------------------===//

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

Type lowtide::tile::elementTypeOf(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getElementType();
  if (auto tile = dyn_cast<TileType>(type))
    return tile.getElementType();
  if (auto view = dyn_cast<ViewType>(type))
    return view.getElementType();
  return type;
}

//===--- places -------------------------------------------------------------------------------------------------===//

ParseResult lowtide::tile::parsePlace(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &batch,
                                      OpAsmParser::UnresolvedOperand &row, OpAsmParser::UnresolvedOperand &column) {
  SmallVector<OpAsmParser::UnresolvedOperand> places;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(places))
    return failure();
  if (places.size() != 2 && places.size() != 3)
    return parser.emitError(loc) << "expected a row and a column, in a batch after the number of the matrix"
                                 << " [store-coordinates]";
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
    return type && type.getRank() >= 2 && type.getRank() <= 4; // of a pair of batches, 4
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
    return emitOpError() << "must not return values [kernel-returns]";
  if (getBody().empty())
    return emitOpError() << "must have a body [kernel-body]";
  return success();
}

//===--- semaphores ---------------------------------------------------------------------------------------------===//

static LogicalResult verifySemaphores(Operation *op, Value semaphores) {
  auto type = cast<MemRefType>(semaphores.getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return op->emitOpError() << "needs semaphores in a vector of i32, not " << type << " [semaphores-type]";
  return success();
}

LogicalResult SemaphoreArriveOp::verify() { return verifySemaphores(*this, getSemaphores()); }
LogicalResult SemaphoreWaitOp::verify() { return verifySemaphores(*this, getSemaphores()); }
LogicalResult SemaphoreLeaveOp::verify() { return verifySemaphores(*this, getSemaphores()); }

//===--- tile.await_wave ----------------------------------------------------------------------------------------===//

LogicalResult AwaitWaveOp::verify() {
  auto type = cast<MemRefType>(getCounter().getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return emitOpError() << "counts in a vector of i32, not " << type << " [wave-counter-type]";
  if (cast<WorkTilesOp>((*this)->getParentOp()).getScheduler() == SchedulerKind::one_shot)
    return emitOpError() << "waits for CTAs that run at the same time; those of one_shot do not [wave-one-shot]";
  return success();
}

//===--- tile.next_work_tile ------------------------------------------------------------------------------------===//

LogicalResult NextWorkTileOp::verify() {
  auto work = cast<WorkTilesOp>((*this)->getParentOp());
  if (work.getEnds())
    return emitOpError() << "asks for the next tile of groups, which are walked as it is begun [next-of-groups]";
  if (static_cast<bool>(work.getBatches()) != static_cast<bool>(getBatch()))
    return emitOpError() << "is batched where its work tiles are those of a batch, and only there [work-batch]";
  if (std::optional<uint64_t> ahead = getAhead(); ahead && static_cast<int64_t>(*ahead) < 1)
    return emitOpError() << "is " << static_cast<int64_t>(*ahead) << " tiles ahead; it needs at least 1 [tiles-ahead]";
  return success();
}

//===--- tile.view ----------------------------------------------------------------------------------------------===//

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  OperandKind kind = getKind().value_or(OperandKind::full);
  if (kind == OperandKind::scalar || kind == OperandKind::group_scale || kind == OperandKind::group_zero)
    return emitOpError() << "a " << stringifyOperandKind(kind) << " has no window [view-kind]";
  int64_t rank = rankOf(kind);
  int64_t outer = source.getRank() - rank;
  if (outer < 0 || outer > (getHalves() ? 2 : 1) || static_cast<int64_t>(getOffsets().size()) != source.getRank())
    return emitOpError() << "of kind " << stringifyOperandKind(kind) << " needs a source of " << rank
                         << " dimensions, or one more in a batch, and as many offsets, not " << source.getRank()
                         << " and " << getOffsets().size() << " [view-rank]";
  if (getHalves() &&
      (outer == 0 || kind != OperandKind::full || source.getDimSize(0) != 2 || getType().getShape().front() % 2))
    return emitOpError() << "takes halves of an even number of rows from the two matrices, or two batches, of a "
                         << "memref<2x…>, not " << getType() << " from " << source << " [view-halves]";
  if (source.getElementType() != getType().getElementType())
    return emitOpError() << "window of " << getType().getElementType() << " on a matrix of " << source.getElementType()
                         << " [view-elements]";
  return success();
}

//===--- tile.take_rows -----------------------------------------------------------------------------------------===//

LogicalResult TakeRowsOp::verify() {
  auto source = cast<MemRefType>(getSource().getType()), taken = cast<MemRefType>(getResult().getType());
  auto index = cast<MemRefType>(getIndex().getType());
  if (source.getRank() != 2 || isColumnMajor(source) || taken.getRank() != 2 ||
      source.getElementType() != taken.getElementType() || source.getLayout() != taken.getLayout() ||
      source.getDimSize(1) != taken.getDimSize(1) || taken.getDimSize(0) != index.getDimSize(0))
    return emitOpError() << "takes rows of a matrix that lies by rows: the result has as many as the index has elements, "
                         << "and is else of the same type; " << taken << " from " << source << " and " << index
                         << " is not [taken-rows-type]";
  return success();
}

//===--- tile.matrix_extent -------------------------------------------------------------------------------------===//

LogicalResult MatrixExtentOp::verify() {
  if (!isList(getMatrices().getType()))
    return emitOpError() << "reads the table of a list of matrices, a memref in the memory space \"list\"; "
                         << getMatrices().getType() << " has memref.dim [matrix-extent-list]";
  return success();
}

//===--- tile.promote -------------------------------------------------------------------------------------------===//

LogicalResult PromoteOp::verify() {
  if (getScale() && getRows())
    return emitOpError() << "is scaled by a window of factors, or by scales of rows and of columns, not both"
                         << " [promoted-scales]";
  if (static_cast<bool>(getRows()) != static_cast<bool>(getColumns()))
    return emitOpError() << "takes scales of rows and of columns, or neither [promoted-scale-pair]";
  for (Value scales : {getRows(), getColumns()}) {
    if (!scales)
      continue;
    auto view = cast<ViewType>(scales.getType());
    if (view.getShape() != getType().getShape() || view.getElementType() != getType().getElementType())
      return emitOpError() << "adds " << getType() << ", but its scales are " << view << " [promoted-scale-views]";
  }
  if (!getScale())
    return success();
  if (getScale().getType().getShape() != getResult().getType().getShape())
    return emitOpError() << "scales by a window of another shape than that of the sums [promoted-factors]";
  if (!isa<FloatType>(getResult().getType().getElementType()) ||
      !isa<FloatType>(getScale().getType().getElementType()))
    return emitOpError() << "scales floats by floats [promoted-floats]";
  return success();
}

#define GET_OP_CLASSES
#include "TileOps.cpp.inc"
