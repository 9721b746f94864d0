// The op tile.work_tiles: its custom assembly, which has a clause for each way to hand out tiles, and its verifier.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

// `iter_args(%x = %init, …) -> (type, …)`: the arguments of the body, the operands and their types.
static ParseResult parseIterArgs(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::Argument> &arguments,
                                 SmallVectorImpl<OpAsmParser::UnresolvedOperand> &inits,
                                 SmallVectorImpl<Type> &types) {
  if (failed(parser.parseOptionalKeyword("iter_args")))
    return success();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAssignmentList(arguments, inits) || parser.parseArrow() || parser.parseLParen() ||
      parser.parseTypeList(types) || parser.parseRParen())
    return failure();
  if (types.size() != inits.size())
    return parser.emitError(loc) << inits.size() << " values are carried but " << types.size() << " types are given"
                                 << " [carried-types]";
  for (auto [argument, type] : llvm::zip(arguments, types))
    argument.type = type;
  return success();
}

// `part(full_waves)`, if it is there.
static ParseResult parsePart(OpAsmParser &parser, OperationState &result, StringAttr name) {
  StringRef word;
  if (failed(parser.parseOptionalKeyword("part")))
    return success();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLParen() || parser.parseKeyword(&word) || parser.parseRParen())
    return failure();
  std::optional<WorkPart> part = symbolizeWorkPart(word);
  if (!part)
    return parser.emitError(loc) << "part(" << word << ") is not " << wordsOf<WorkPart>() << " [part-word]";
  result.addAttribute(name, WorkPartAttr::get(parser.getContext(), *part));
  return success();
}

namespace {
// What the clauses of the assembly give: a body argument for each coordinate, in the order of `Coordinate`, and the
// extents.
struct Clauses {
  OpAsmParser &parser;
  OperationState &result;
  SmallVector<OpAsmParser::Argument> coordinates;
  SmallVector<OpAsmParser::UnresolvedOperand> extents, first, ends, matrices;
  Type endsType, matricesType;
  bool isBatch = false, isDivided = false;

  ParseResult coordinate() { return parser.parseArgument(coordinates.emplace_back()); }
  ParseResult extent() { return parser.parseOperand(extents.emplace_back()); }
  ParseResult integers(SmallVectorImpl<int64_t> &sides) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          [&] { return parser.parseInteger(sides.emplace_back()); });
  }
  bool opens(StringRef clause) { return succeeded(parser.parseOptionalKeyword(clause)); }

  // `(%m, %n) of (%M, %N) by [128, 256]`
  ParseResult tiles() {
    SmallVector<int64_t> tile;
    if (parser.parseLParen() || coordinate() || parser.parseComma() || coordinate() || parser.parseRParen() ||
        parser.parseKeyword("of") || parser.parseLParen() || extent() || parser.parseComma() || extent() ||
        parser.parseRParen() || parser.parseKeyword("by") || integers(tile))
      return failure();
    result.addAttribute(WorkTilesOp::getTileAttrName(result.name), parser.getBuilder().getDenseI64ArrayAttr(tile));
    return success();
  }
  // `batch(%b of %B from %first)`
  ParseResult batch() {
    isBatch = true;
    return failure(parser.parseLParen() || coordinate() || parser.parseKeyword("of") || extent() ||
                   (opens("from") && parser.parseOperand(first.emplace_back())) || parser.parseRParen());
  }
  // `groups(%g to %rows_end of %ends : memref<?xi32>)`
  ParseResult groups() {
    return failure(parser.parseLParen() || coordinate() || parser.parseKeyword("to") || coordinate() ||
                   parser.parseKeyword("of") || parser.parseOperand(ends.emplace_back()) ||
                   parser.parseColonType(endsType) || parser.parseRParen());
  }
  // `columns_of(%D : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">)`
  ParseResult columns() {
    return failure(parser.parseLParen() || parser.parseOperand(matrices.emplace_back()) ||
                   parser.parseColonType(matricesType) || parser.parseRParen());
  }
  // `k(%k0 to %k1 of %K by 64)`, and how K is divided: `split 8 (%part of %parts at %slot)`
  ParseResult division() {
    int64_t step = 0, parts = 0;
    StringRef word;
    if (parser.parseLParen() || coordinate() || parser.parseKeyword("to") || coordinate() ||
        parser.parseKeyword("of") || extent() || parser.parseKeyword("by") || parser.parseInteger(step) ||
        parser.parseRParen())
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<KDivisionKind> kind = symbolizeKDivisionKind(word);
    if (!kind || *kind == KDivisionKind::none)
      return parser.emitError(loc) << "expected split, scatter, stream_k, hybrid, tail or scatter_tail, not '" << word
                                   << "' [division-word]";
    isDivided = true;
    Builder &builder = parser.getBuilder();
    result.addAttribute(WorkTilesOp::getKStepAttrName(result.name), builder.getI64IntegerAttr(step));
    result.addAttribute(WorkTilesOp::getKDivisionAttrName(result.name),
                        KDivisionKindAttr::get(builder.getContext(), *kind));
    if (isCounted(*kind)) {
      if (parser.parseInteger(parts))
        return failure();
      result.addAttribute(WorkTilesOp::getKPartsAttrName(result.name), builder.getI64IntegerAttr(parts));
    }
    return failure(parser.parseLParen() || coordinate() || parser.parseKeyword("of") || coordinate() ||
                   parser.parseKeyword("at") || coordinate() || parser.parseRParen());
  }
  ParseResult cluster() {
    SmallVector<int64_t> sides;
    if (integers(sides))
      return failure();
    result.addAttribute(WorkTilesOp::getClusterAttrName(result.name), parser.getBuilder().getDenseI64ArrayAttr(sides));
    return success();
  }
  ParseResult parse() {
    return failure(tiles() || (opens("batch") && batch()) || (opens("groups") && groups()) ||
                   (opens("columns_of") && columns()) || (opens("k") && division()) || (opens("cluster") && cluster()));
  }
};
} // namespace

ParseResult WorkTilesOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> carried;
  SmallVector<OpAsmParser::UnresolvedOperand> inits;
  SmallVector<Type> types;
  Builder &builder = parser.getBuilder();
  Type index = builder.getIndexType();
  Clauses clauses{parser, result};
  if (clauses.parse())
    return failure();
  if (parser.parseKeyword("order") || parser.parseLParen())
    return failure();
  Attribute order = RasterAttr::parse(parser, Type());
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (!order || parser.parseRParen() || parser.parseKeyword(&word))
    return failure();
  std::optional<SchedulerKind> scheduler = symbolizeSchedulerKind(word);
  if (!scheduler)
    return parser.emitError(loc) << "expected one_shot, persistent or even_split, not '" << word << "'"
                                 << " [scheduler-word]";
  result.addAttribute(getOrderAttrName(result.name), order);
  result.addAttribute(getSchedulerAttrName(result.name), SchedulerKindAttr::get(builder.getContext(), *scheduler));
  if (parsePart(parser, result, getPartAttrName(result.name)))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("in_turn")))
    result.addAttribute(getInTurnAttrName(result.name), builder.getUnitAttr());
  ArrayRef<OpAsmParser::UnresolvedOperand> extents = clauses.extents;
  SmallVector<OpAsmParser::Argument> arguments = clauses.coordinates;
  if (parseIterArgs(parser, carried, inits, types) ||
      parser.resolveOperands(extents.take_front(clauses.isBatch ? 3 : 2), index, result.operands) ||
      parser.resolveOperands(clauses.first, index, result.operands) ||
      parser.resolveOperands(clauses.ends, clauses.endsType, result.operands) ||
      parser.resolveOperands(clauses.matrices, clauses.matricesType, result.operands) ||
      parser.resolveOperands(extents.drop_front(clauses.isBatch ? 3 : 2), index, result.operands) ||
      parser.resolveOperands(inits, types, loc, result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  result.addAttribute(
      getOperandSegmentSizesAttrName(result.name),
      builder.getDenseI32ArrayAttr({1, 1, clauses.isBatch, static_cast<int32_t>(clauses.first.size()),
                                    static_cast<int32_t>(clauses.ends.size()),
                                    static_cast<int32_t>(clauses.matrices.size()), clauses.isDivided, static_cast<int32_t>(inits.size())}));
  result.addTypes(types);
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = index;
  llvm::append_range(arguments, carried);
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    return parser.emitError(loc) << "expected a body [work-body]";
  if (body->back().empty() || !body->back().back().hasTrait<OpTrait::IsTerminator>()) {
    OpBuilder inner(parser.getContext());
    inner.setInsertionPointToEnd(&body->back());
    YieldOp::create(inner, result.location, ValueRange());
  }
  return success();
}

void WorkTilesOp::print(OpAsmPrinter &printer) {
  Block &block = getBody().front();
  auto list = [&](auto values) { llvm::interleaveComma(values, printer); };
  auto at = [&](Coordinate coordinate) { return getCoordinate(coordinate); };
  printer << " (" << at(Coordinate::m) << ", " << at(Coordinate::n) << ") of (" << getRows() << ", " << getColumns()
          << ") by [";
  list(getTile());
  printer << "] ";
  if (getBatches())
    printer << "batch(" << at(Coordinate::batch) << " of " << getBatches();
  if (getFirst())
    printer << " from " << getFirst();
  if (getBatches())
    printer << ") ";
  if (getEnds())
    printer << "groups(" << at(Coordinate::group) << " to " << at(Coordinate::rows_end) << " of " << getEnds() << " : "
            << getEnds().getType() << ") ";
  if (getMatrices())
    printer << "columns_of(" << getMatrices() << " : " << getMatrices().getType() << ") ";
  if (getDepth()) {
    printer << "k(" << at(Coordinate::k0) << " to " << at(Coordinate::k1) << " of " << getDepth() << " by "
            << *getKStep() << ") " << stringifyKDivisionKind(*getKDivision());
    if (getKParts())
      printer << " " << *getKParts();
    printer << " (" << at(Coordinate::part) << " of " << at(Coordinate::parts) << " at " << at(Coordinate::slot)
            << ") ";
  }
  if (getCluster()) {
    printer << "cluster [";
    list(*getCluster());
    printer << "] ";
  }
  printer << "order(";
  getOrder().print(printer);
  printer << ") " << stringifySchedulerKind(getScheduler());
  if (getPart())
    printer << " part(" << stringifyWorkPart(*getPart()) << ")";
  printer << (getInTurn() ? " in_turn" : "");
  if (!getInits().empty()) {
    printer << " iter_args(";
    llvm::interleaveComma(llvm::zip(block.getArguments().drop_front(getCoordinates().size()), getInits()), printer,
                          [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
    printer << ") -> (" << getResultTypes() << ")";
  }
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getTileAttrName(), getClusterAttrName(), getOrderAttrName(), getSchedulerAttrName(), getPartAttrName(),
       getInTurnAttrName(), getKStepAttrName(), getKDivisionAttrName(), getKPartsAttrName(),
       getOperandSegmentSizesAttrName()});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
}

SmallVector<Coordinate> WorkTilesOp::getCoordinates() {
  SmallVector<Coordinate> found = {Coordinate::m, Coordinate::n};
  if (getBatches())
    found.push_back(Coordinate::batch);
  if (getEnds())
    found.append({Coordinate::group, Coordinate::rows_end});
  if (getDepth())
    found.append({Coordinate::k0, Coordinate::k1, Coordinate::part, Coordinate::parts, Coordinate::slot});
  return found;
}

Value WorkTilesOp::getCoordinate(Coordinate coordinate) {
  SmallVector<Coordinate> found = getCoordinates();
  const auto *place = llvm::find(found, coordinate);
  return place == found.end() ? Value() : Value(getBody().getArgument(place - found.begin()));
}

void WorkTilesOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  SmallVector<Coordinate> coordinates = getCoordinates();
  if (region.empty() || region.getNumArguments() < coordinates.size())
    return;
  for (auto [coordinate, argument] : llvm::zip(coordinates, region.getArguments()))
    setName(argument, stringifyCoordinate(coordinate));
}

LogicalResult WorkTilesOp::verify() {
  bool divided = static_cast<bool>(getDepth());
  if (getTile().size() != 2 || llvm::any_of(getTile(), [](int64_t extent) { return extent < 1; }))
    return emitOpError() << "needs a tile of two positive extents [work-tile]";
  bool sharesColumns = getCluster() && getCluster()->front() > 1;
  bool dividedOtherwise = divided && getKDivision().value_or(KDivisionKind::none) != KDivisionKind::split;
  if (getEnds() && (dividedOtherwise || sharesColumns || getPart() || getScheduler() == SchedulerKind::one_shot))
    return emitOpError() << "has groups, whose tiles are counted on the device: they go with persistent or even_split, "
                            "and with no part, no division of K but split, and no cluster of several tiles along M [work-groups]";
  if (getFirst() && !getBatches())
    return emitOpError() << "begins with a matrix of a batch, but has no batch [work-first]";
  if (getMatrices() && !(getEnds() && getBatches() && isList(getMatrices().getType())))
    return emitOpError() << "takes columns_of a list of matrices, one for each of its padded groups: give batch and groups "
                            "as well [work-matrices]";
  if (getInTurn() && getScheduler() == SchedulerKind::one_shot)
    return emitOpError() << "a CTA has one tile, which cannot be taken in turn; use persistent or even_split"
                         << " [one-shot-turns]";
  if (getPart().value_or(WorkPart::all) != WorkPart::all && getScheduler() != SchedulerKind::persistent)
    return emitOpError() << "has part(" << stringifyWorkPart(*getPart()) << "), which parts the waves of a persistent "
                         << "grid; it is " << stringifySchedulerKind(getScheduler()) << " [part-scheduler]";
  bool isWhole = getKDivision().value_or(KDivisionKind::none) == KDivisionKind::none;
  if (divided == isWhole || divided != getKStep().has_value() || getKStep().value_or(1) < 1)
    return emitOpError() << "has an extent of K, a positive step and a division of K together, or none of them"
                         << " [work-k-extent]";
  if ((divided && isCounted(*getKDivision())) != getKParts().has_value() ||
      (getKParts() && *getKParts() < 1))
    return emitOpError() << "has a number of parts where K is split, at least 1, and only there [work-parts]";
  if (divided && getPart().value_or(WorkPart::all) != WorkPart::all)
    return emitOpError() << "divides K of all tiles; a part of the tiles has whole sums [part-and-division]";
  if (divided && getCluster() && !isCounted(*getKDivision()))
    return emitOpError() << "divides the K of all tiles evenly among CTAs, but the CTAs of a cluster compute the same K"
                         << " [division-and-cluster]";
  bool ofTail = divided && (*getKDivision() == KDivisionKind::tail || *getKDivision() == KDivisionKind::scatter_tail);
  if (ofTail && getScheduler() != SchedulerKind::persistent)
    return emitOpError() << "divides the tail of a persistent grid; it is " << stringifySchedulerKind(getScheduler())
                         << " [tail-and-scheduler]";
  if (failed(verifyCluster(*this, getCluster())))
    return failure();
  Block &block = getBody().front();
  SmallVector<Coordinate> coordinates = getCoordinates();
  unsigned places = coordinates.size();
  if (block.getNumArguments() != places + getInits().size() ||
      !llvm::all_of(block.getArguments().take_front(places), [](auto place) { return place.getType().isIndex(); })) {
    std::string names = llvm::join(llvm::map_range(coordinates, stringifyCoordinate), ", ");
    return emitOpError() << "body takes " << names << ", all index, and what is carried [work-arguments]";
  }
  auto yield = yieldOf(block);
  auto differ = [&](TypeRange types) { return !llvm::equal(types, getResultTypes()); };
  if (!yield || differ(getInits().getTypes()) || differ(yield.getValues().getTypes()) ||
      differ(TypeRange(block.getArgumentTypes()).drop_front(places)))
    return emitOpError() << "must yield what it carries: initial values, body arguments, yielded values and results "
                            "have one list of types [work-yield]";
  return success();
}
