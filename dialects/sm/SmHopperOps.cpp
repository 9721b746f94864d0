// Operations that Hopper brings: custom assembly and verifiers. What depends on the target is checked by passes.
#include "Sm.h"

#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace lowtide;
using namespace lowtide::sm;

//===--- roles --------------------------------------------------------------------------------------------------===//

ParseResult RolesOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<StringRef> names;
  SmallVector<int64_t> warps, registers, instances;
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parser.parseLBrace())
    return failure();
  while (failed(parser.parseOptionalRBrace())) {
    StringRef name;
    int64_t count, wanted = 0, times = 1;
    if (parser.parseKeyword(&name) || parser.parseKeyword("warps") || parser.parseLParen() ||
        parser.parseInteger(count) || parser.parseRParen())
      return failure();
    names.push_back(builder.getStringAttr(name).getValue());
    if (succeeded(parser.parseOptionalKeyword("instances")) &&
        (parser.parseLParen() || parser.parseInteger(times) || parser.parseRParen()))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("registers")) &&
        (parser.parseLParen() || parser.parseInteger(wanted) || parser.parseRParen()))
      return failure();
    warps.push_back(count);
    registers.push_back(wanted);
    instances.push_back(times);
    Region *body = result.addRegion();
    if (parser.parseRegion(*body))
      return failure();
    if (body->empty())
      body->emplaceBlock();
    if (body->back().empty() || !body->back().back().hasTrait<OpTrait::IsTerminator>()) {
      OpBuilder inner(parser.getContext());
      inner.setInsertionPointToEnd(&body->back());
      tile::YieldOp::create(inner, result.location, ValueRange());
    }
  }
  result.addAttribute(getNamesAttrName(result.name), builder.getStrArrayAttr(names));
  result.addAttribute(getWarpsAttrName(result.name), builder.getDenseI64ArrayAttr(warps));
  result.addAttribute(getRegistersAttrName(result.name), builder.getDenseI64ArrayAttr(registers));
  if (llvm::any_of(instances, [](int64_t number) { return number != 1; }))
    result.addAttribute(getInstancesAttrName(result.name), builder.getDenseI64ArrayAttr(instances));
  return success();
}

void RolesOp::print(OpAsmPrinter &printer) {
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {getNamesAttrName(), getWarpsAttrName(), getRegistersAttrName(), getInstancesAttrName()});
  printer << " {";
  printer.increaseIndent();
  for (auto [i, name, warps, registers] : llvm::enumerate(getNames(), getWarps(), getRegisters())) {
    printer.printNewline();
    printer << cast<StringAttr>(name).getValue() << " warps(" << warps << ") ";
    if (getInstances() && (*getInstances())[i] != 1)
      printer << "instances(" << (*getInstances())[i] << ") ";
    if (registers)
      printer << "registers(" << registers << ") ";
    printer.printRegion(getBodies()[i], /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
  }
  printer.decreaseIndent();
  printer.printNewline();
  printer << "}";
}

LogicalResult RolesOp::verify() {
  size_t count = getBodies().size();
  if (getNames().size() != count || getWarps().size() != count || getRegisters().size() != count)
    return emitOpError() << "needs a name, a number of warps and of registers for each role [role-lists]";
  if (getInstances() && (getInstances()->size() != count || llvm::any_of(*getInstances(), [](int64_t n) { return n < 1; })))
    return emitOpError() << "needs a number of instances, at least 1, for each role [role-instances]";
  for (auto [name, warps, registers] : llvm::zip(getNames(), getWarps(), getRegisters())) {
    StringRef role = cast<StringAttr>(name).getValue();
    if (role != "producer" && role != "copiers" && role != "consumer")
      return emitOpError() << "knows the roles producer, copiers and consumer, not " << role << " [role-name]";
    if (warps < 4 || warps % 4)
      return emitOpError() << "role " << role << " has " << warps << " warps; a role is made of warpgroups of four"
                           << " [role-warps]";
    if (registers != 0 && (registers % 8 || registers < 24 || registers > 256))
      return emitOpError() << "role " << role << " asks for " << registers
                           << " registers; setmaxnreg takes multiples of 8 from 24 to 256 [role-registers]";
  }
  return success();
}

void RoleInstanceOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getResult(), "instance"); }

LogicalResult RoleInstanceOp::verify() {
  if (!(*this)->getParentOfType<RolesOp>())
    return emitOpError() << "is the number of an instance of a role; it stands in sm.roles [instance-in-roles]";
  return success();
}

// The region of sm.roles that holds an operation; null outside of roles.
static Region *roleOf(Operation *op) {
  Region *region = op->getParentRegion();
  while (region && !isa<RolesOp>(region->getParentOp()))
    region = region->getParentRegion();
  return region;
}

//===--- mbarriers ----------------------------------------------------------------------------------------------===//

// Where bytes are expected, slots become full; where nothing but threads arrives, they become empty. Where a role arrives
// and waits, its instances take turns.
void MbarriersOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  bool isFull = false, isEmpty = false;
  llvm::SmallPtrSet<Region *, 4> arriving, waiting;
  for (Operation *user : getResult().getUsers()) {
    auto arrive = dyn_cast<MbarrierArriveOp>(user);
    isFull |= isa<TmaLoadOp, CpAsyncArriveOp>(user) || (arrive && arrive.getBytes());
    isEmpty |= arrive && !arrive.getBytes();
    if (Region *role = roleOf(user))
      (isa<MbarrierWaitOp>(user) ? waiting : arriving).insert(role);
  }
  bool isTurn = llvm::any_of(arriving, [&](Region *role) { return waiting.contains(role); });
  setName(getResult(), isFull ? "full" : isTurn ? "turn" : isEmpty ? "empty" : "mbarriers");
}

LogicalResult MbarrierArriveOp::verify() {
  if (getBytes() && getReceivers())
    return emitOpError() << "expects bytes of other CTAs; the CTA that waits for them expects them itself"
                         << " [bytes-of-other-ctas]";
  if (getMore() && !getBytes())
    return emitOpError() << "has `plus` without `expects`; if there are no other bytes, write expects 0 plus …"
                         << " [plus-bytes]";
  if (getBytes() && getEachWarp())
    return emitOpError() << "expects bytes as often as there are warps; let one thread expect them [bytes-each-warp]";
  return success();
}

//===--- TMA ----------------------------------------------------------------------------------------------------===//

LogicalResult TensorMapOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  ArrayRef<int64_t> box = getType().getShape();
  if (source.getRank() < 2 || source.getRank() > 4)
    return emitOpError() << "maps matrices, not " << source << " [map-of-matrices]";
  if (source.getRank() == 4 && (box.size() != 4 || source.getDimSize(0) != 2 || box[0] != 2 || box[1] != 1))
    return emitOpError() << "maps boxes of two matrices, one of each of two batches, whose first sides are 2 and 1, not "
                         << getType() << " [map-pair-box]";
  if (tile::isBatch(source) && (box.size() < 3 || (box[0] != 1 && box[0] != source.getDimSize(0))))
    return emitOpError() << "maps boxes of one matrix of a batch, whose first side is 1, or of all matrices, not "
                         << getType() << " [map-batch-box]";
  if (source.getElementType() != getType().getElementType())
    return emitOpError() << "maps boxes of " << getType().getElementType() << " onto a matrix of "
                         << source.getElementType() << " [map-elements]";
  return success();
}

// The extents of a buffer as it lies: the last one is contiguous.
static SmallVector<int64_t> shapeAsItLies(MemRefType buffer) {
  SmallVector<int64_t> shape(buffer.getShape());
  auto layout = dyn_cast<tile::LayoutAttr>(buffer.getLayout());
  if (layout && shape.size() == 2 && shape[0] > 1 && layout.getAffineMap().compose({1, 0})[0] == 1 &&
      layout.getAffineMap().compose({0, 1})[0] != 1)
    std::swap(shape[0], shape[1]);
  return shape;
}

// Boxes of the map tile the buffer; both swizzle alike.
static LogicalResult verifyBoxes(Operation *op, TensorMapType map, MemRefType buffer, bool batched) {
  ArrayRef<int64_t> box = map.getShape();
  SmallVector<int64_t> tile = shapeAsItLies(buffer);
  bool isPair = box.size() > 2 && box[0] == 2 && isa<TmaLoadOp>(op);
  if (batched && (box.size() < 3 || (box[0] != 1 && !isPair)))
    return op->emitOpError() << "moves boxes of one matrix of a batch; the first side of the map's must be 1"
                             << ", or 2 to load rows of two matrices [moved-batch-box]";
  ArrayRef<int64_t> ofMatrix = batched ? box.drop_front() : box;
  int64_t rows = ofMatrix[ofMatrix.size() - 2] * (batched ? box[0] : 1);
  int64_t columns = box.back() * (ofMatrix.size() > 2 ? ofMatrix[ofMatrix.size() - 3] : 1);
  if (tile.size() != 2 || tile[0] % rows || tile[1] % columns)
    return op->emitOpError() << "moves boxes of " << rows << "x" << columns << ", which do not tile the buffer's "
                             << tile[0] << "x" << tile.back() << " [moved-boxes]";
  if (map.getElementType() != buffer.getElementType())
    return op->emitOpError() << "moves elements of " << map.getElementType() << " to a tile of "
                             << buffer.getElementType() << " [moved-elements]";
  auto layout = dyn_cast<tile::LayoutAttr>(buffer.getLayout());
  tile::SwizzleAttr swizzle = layout ? layout.getSwizzle() : tile::SwizzleAttr();
  int64_t wanted = swizzle ? swizzle.getBits() : 0, given = map.getSwizzle() ? map.getSwizzle().getBits() : 0;
  if (wanted != given)
    return op->emitOpError() << "the tensor map swizzles " << given << " bits, the buffer's layout " << wanted
                             << " [moved-swizzle]";
  return success();
}

LogicalResult MakeMapsOp::verify() {
  auto map = dyn_cast<TensorMapType>(getMapType());
  auto matrices = cast<MemRefType>(getMatrices().getType()), scratch = cast<MemRefType>(getScratch().getType());
  if (!tile::isList(matrices) || !map || map.getShape().size() != 2 ||
      map.getElementType() != matrices.getElementType())
    return emitOpError() << "makes maps of boxes of two sides for a list of matrices of the same type, not " << getMapType()
                         << " for " << matrices << " [list-maps]";
  if (!scratch.getElementType().isInteger(32) || scratch.getNumElements() != 32)
    return emitOpError() << "makes a map of 128 bytes in 32 elements of i32 of shared memory, not in " << scratch
                         << " [list-map-scratch]";
  return success();
}

LogicalResult ListedMapOp::verify() {
  if (getResult().getType().getShape().size() != 2)
    return emitOpError() << "is the map of one matrix, whose boxes have two sides, not " << getResult().getType()
                         << " [listed-map]";
  return success();
}

LogicalResult TmaLoadOp::verify() {
  if (getMulticast() == ClusterLine::cross)
    return emitOpError() << "shares a tile with a row or a column of the cluster, not with both [multicast-sides]";
  auto buffer = cast<MemRefType>(getDestination().getType());
  ArrayRef<int64_t> box = getMap().getType().getShape();
  bool isOfOnePanel = box.size() == (getBatch() ? 3 : 2);
  if (getRows() && (getMulticast() || !isOfOnePanel || box[box.size() - 2] != shapeAsItLies(buffer)[0]))
    return emitOpError() << "has `rows`; then the map must have one box for each panel, with as many rows as the tile, "
                         << "and the load must not be a multicast [rows-of-boxes]";
  return verifyBoxes(*this, getMap().getType(), cast<MemRefType>(getDestination().getType()),
                     static_cast<bool>(getBatch()));
}
LogicalResult TmaStoreOp::verify() {
  return verifyBoxes(*this, getMap().getType(), cast<MemRefType>(getSource().getType()), static_cast<bool>(getBatch()));
}

//===--- wgmma --------------------------------------------------------------------------------------------------===//

static FragmentType fragmentOf(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    return pending.getFragment();
  return cast<FragmentType>(type);
}

// Of a pending accumulator carried by the loop: the values inside and after it.
static LogicalResult followIntoLoop(Operation *user, OpOperand &use, SmallVectorImpl<Value> &found) {
  if (auto loop = dyn_cast<LoopLikeOpInterface>(user)) {
    found.append({Value(loop.getTiedLoopRegionIterArg(&use)), Value(loop.getTiedLoopResult(&use))});
    return success(found.end()[-2] && found.back());
  }
  auto loop = dyn_cast_or_null<LoopLikeOpInterface>(user->getParentOp());
  if (!loop || !user->hasTrait<OpTrait::IsTerminator>() || !loop.getLoopResults())
    return failure();
  found.append({loop.getRegionIterArgs()[use.getOperandNumber()], (*loop.getLoopResults())[use.getOperandNumber()]});
  return success();
}

// wgmma writes the registers of a pending accumulator until it is waited for, so it is used in one place: it is
// accumulated to, waited for, or carried by a loop, in which the same holds.
static LogicalResult verifyOneUser(Operation *op, Value pending) {
  SmallVector<Value> values{pending};
  llvm::SmallDenseSet<Value> seen{pending};
  while (!values.empty()) {
    Value value = values.pop_back_val();
    if (value.use_empty())
      continue;
    if (!value.hasOneUse()) {
      InFlightDiagnostic error = op->emitOpError()
                                 << "accumulates in registers that are in flight, so the pending result has one user, "
                                    "not "
                                 << std::distance(value.use_begin(), value.use_end())
                                 << "; read what sm.mma_wait makes of it [pending-one-user]";
      for (Operation *user : value.getUsers())
        error.attachNote(user->getLoc()) << "used here";
      return error;
    }
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (isa<WgmmaOp, MmaWaitOp, MmaWaitRowsOp>(user))
      continue;
    SmallVector<Value> carried;
    if (failed(followIntoLoop(user, use, carried)))
      return op->emitOpError() << "is pending in " << user->getName()
                               << "; only sm.wgmma, sm.mma_wait and loops that carry it take what is in flight"
                               << " [pending-user]";
    for (Value next : carried)
      if (seen.insert(next).second)
        values.push_back(next);
  }
  return success();
}

static ArrayRef<int64_t> shapeOf(Type type) {
  if (auto fragment = dyn_cast<FragmentType>(type))
    return fragment.getShape();
  return cast<MemRefType>(type).getShape();
}

static Type elementOf(Type type) {
  if (auto fragment = dyn_cast<FragmentType>(type))
    return fragment.getElementType();
  return cast<MemRefType>(type).getElementType();
}

static unsigned bitsOf(Type type) { return elementOf(type).getIntOrFloatBitWidth(); }

// A product of buffers in shared memory, or of an A in registers, that a fragment holds.
static LogicalResult verifyProduct(Operation *op, tile::GemmLayout layout, Type typeA, Type typeB, FragmentType acc) {
  ArrayRef<int64_t> a = shapeOf(typeA), b = shapeOf(typeB);
  if (a.size() != 2 || b.size() != 2)
    return op->emitOpError() << "A and B must have two dimensions [wgmma-dimensions]";
  bool aIsMK = layout == tile::GemmLayout::tn || layout == tile::GemmLayout::tt;
  bool bIsNK = layout == tile::GemmLayout::tn || layout == tile::GemmLayout::nn;
  bool mayBeHeld = bitsOf(typeA) == 16 || elementOf(typeA).isTF32();
  if (isa<FragmentType>(typeA) && (!aIsMK || !mayBeHeld))
    return op->emitOpError() << "takes an A in registers as M×K of 16-bit elements or tf32, in the layouts tn and tt"
                             << " [wgmma-held-a]";
  int64_t m = a[aIsMK ? 0 : 1], ka = a[aIsMK ? 1 : 0];
  int64_t n = b[bIsNK ? 0 : 1], kb = b[bIsNK ? 1 : 0];
  if (ka != kb)
    return op->emitOpError() << "K is " << ka << " in A but " << kb << " in B [wgmma-k]";
  if (m != acc.getShape()[0] || n != acc.getShape()[1])
    return op->emitOpError() << "computes " << m << "x" << n << " but the accumulator is " << acc.getShape()[0] << "x"
                             << acc.getShape()[1] << " [wgmma-extents]";
  if (bitsOf(typeA) != bitsOf(typeB))
    return op->emitOpError() << "elements of A and B must have as many bits [wgmma-elements]";
  return success();
}

LogicalResult WgmmaOp::verify() {
  FragmentType acc = fragmentOf(getAcc().getType());
  if (acc != getType().getFragment())
    return emitOpError() << "must yield the pending form of its accumulator [wgmma-pending]";
  if (failed(verifyProduct(*this, getLayout(), getA().getType(), getB().getType(), acc)))
    return failure();
  return verifyOneUser(*this, getResult());
}

LogicalResult WgmmaPromoteOp::verify() {
  if (static_cast<bool>(getRows()) != static_cast<bool>(getColumns()))
    return emitOpError() << "takes scales of rows and of columns, or neither [promote-scales]";
  if (getRows() && (getRows().getType() != getSum().getType() || getColumns().getType() != getSum().getType()))
    return emitOpError() << "adds " << getSum().getType() << ", but its scales are " << getRows().getType() << " and "
                         << getColumns().getType() << " [promote-scale-types]";
  return verifyProduct(*this, getLayout(), getA().getType(), getB().getType(), getSum().getType());
}

LogicalResult MmaWaitRowsOp::verify() {
  FragmentType all = getAcc().getType().getFragment(), rows = getRows().getType();
  if (rows.getElementType() != all.getElementType() || rows.getShape()[1] != all.getShape()[1])
    return emitOpError() << "makes rows readable of " << all << ", not " << rows << " [wait-rows-shape]";
  if (rows.getShape()[0] >= all.getShape()[0])
    return emitOpError() << "makes " << rows.getShape()[0] << " of " << all.getShape()[0]
                         << " rows readable, and leaves none pending; take sm.mma_wait 0 [wait-rows-count]";
  Operation *source = getAcc().getDefiningOp();
  while (auto wait = dyn_cast_or_null<MmaWaitOp>(source))
    source = wait.getAcc().getDefiningOp();
  auto product = dyn_cast_or_null<WgmmaOp>(source);
  if (!product || !product.getRowGroups())
    return emitOpError() << "takes accumulators of one group; let an sm.wgmma with row_groups give them"
                         << " [wait-rows-group]";
  for (Operation *user : getRest().getUsers()) {
    auto wait = dyn_cast<MmaWaitOp>(user);
    if (!wait || wait.getPending() != 0)
      return emitOpError() << "leaves rows pending, which only sm.mma_wait 0 takes, not " << user->getName()
                           << " [wait-rows-left]";
  }
  return verifyOneUser(*this, getRest());
}

LogicalResult MmaWaitOp::verify() {
  bool readable = isa<FragmentType>(getResult().getType());
  if (fragmentOf(getResult().getType()) != getAcc().getType().getFragment())
    return emitOpError() << "must yield its own accumulator [wait-accumulator]";
  if (readable != (getPending() == 0))
    return emitOpError() << "makes the accumulator readable exactly when no group stays in flight [wait-readable]";
  return readable ? success() : verifyOneUser(*this, getResult());
}
