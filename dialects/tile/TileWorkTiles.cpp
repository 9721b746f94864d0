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

// `(%a, %b)` or `(%a, %b, …)`.
template <typename Item> static ParseResult parseTuple(OpAsmParser &parser, SmallVectorImpl<Item> &items) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
    if constexpr (std::is_same_v<Item, OpAsmParser::Argument>)
      return parser.parseArgument(items.emplace_back());
    else
      return parser.parseOperand(items.emplace_back());
  });
}

// `split 8 (%part of %parts at %slot)`: the division of K, and what the body takes of it.
static ParseResult parseDivision(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::Argument> &arguments,
                                 KDivisionKind &division, int64_t &parts) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<KDivisionKind> kind = symbolizeKDivisionKind(word);
  if (!kind || *kind == KDivisionKind::none)
    return parser.emitError(loc) << "expected split, scatter, stream_k, hybrid, tail or scatter_tail, not '" << word << "'"
                                 << " [division-word]";
  division = *kind;
  if (isCounted(*kind) && parser.parseInteger(parts))
    return failure();
  return failure(parser.parseLParen() || parser.parseArgument(arguments.emplace_back()) ||
                 parser.parseKeyword("of") || parser.parseArgument(arguments.emplace_back()) ||
                 parser.parseKeyword("at") || parser.parseArgument(arguments.emplace_back()) || parser.parseRParen());
}

ParseResult WorkTilesOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments, carried;
  SmallVector<OpAsmParser::UnresolvedOperand> extents, inits;
  SmallVector<Type> types;
  SmallVector<int64_t> tile, cluster;
  Builder &builder = parser.getBuilder();
  Type index = builder.getIndexType();
  auto parseExtents = [&](SmallVectorImpl<int64_t> &sides) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          [&] { return parser.parseInteger(sides.emplace_back()); });
  };
  SMLoc places = parser.getCurrentLocation();
  if (parseTuple(parser, arguments))
    return failure();
  bool divided = arguments.size() >= 4, batched = arguments.size() % 2;
  if (arguments.size() < 2 || arguments.size() > 5)
    return parser.emitError(places) << "expected (row, column), or (row, column, begin of K, end of K), in a batch after "
                                       "the number of the matrix [work-coordinates]";
  SMLoc of = parser.getCurrentLocation();
  if (parser.parseKeyword("of") || parseTuple(parser, extents) || parser.parseKeyword("by") ||
      parseExtents(tile))
    return failure();
  if (extents.size() != (batched ? 1u : 0u) + (divided ? 3 : 2))
    return parser.emitError(of) << "expected the extents of " << (batched ? "the batch, " : "")
                                << (divided ? "M, N and K" : "M and N") << " [work-extents]";
  if (succeeded(parser.parseOptionalKeyword("cluster"))) {
    if (parseExtents(cluster))
      return failure();
    result.addAttribute(getClusterAttrName(result.name), builder.getDenseI64ArrayAttr(cluster));
  }
  if (divided) {
    KDivisionKind division;
    int64_t parts = 0;
    if (parseDivision(parser, arguments, division, parts))
      return failure();
    result.addAttribute(getKDivisionAttrName(result.name), KDivisionKindAttr::get(builder.getContext(), division));
    if (parts)
      result.addAttribute(getKPartsAttrName(result.name), builder.getI64IntegerAttr(parts));
  }
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
  result.addAttribute(getTileAttrName(result.name), builder.getDenseI64ArrayAttr(tile));
  result.addAttribute(getOrderAttrName(result.name), order);
  result.addAttribute(getSchedulerAttrName(result.name), SchedulerKindAttr::get(builder.getContext(), *scheduler));
  if (parsePart(parser, result, getPartAttrName(result.name)))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("in_turn")))
    result.addAttribute(getInTurnAttrName(result.name), builder.getUnitAttr());
  if (parseIterArgs(parser, carried, inits, types) || parser.resolveOperands(extents, index, result.operands) ||
      parser.resolveOperands(inits, types, loc, result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  result.addAttribute(getOperandSegmentSizesAttrName(result.name),
                      builder.getDenseI32ArrayAttr({batched, 1, 1, divided, static_cast<int32_t>(inits.size())}));
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
  printer << " (";
  unsigned outer = getBatch() ? 1 : 0;
  list(block.getArguments().take_front(outer + (getDepth() ? 4 : 2)));
  printer << ") of (";
  if (getBatch())
    printer << getBatch() << ", ";
  printer << getRows() << ", " << getColumns();
  if (getDepth())
    printer << ", " << getDepth();
  printer << ") by [";
  list(getTile());
  printer << "] ";
  if (getCluster()) {
    printer << "cluster [";
    list(*getCluster());
    printer << "] ";
  }
  if (getDepth()) {
    printer << stringifyKDivisionKind(*getKDivision());
    if (getKParts())
      printer << " " << *getKParts();
    printer << " (" << block.getArgument(outer + 4) << " of " << block.getArgument(outer + 5) << " at "
            << block.getArgument(outer + 6) << ") ";
  }
  printer << "order(";
  getOrder().print(printer);
  printer << ") " << stringifySchedulerKind(getScheduler());
  if (getPart())
    printer << " part(" << stringifyWorkPart(*getPart()) << ")";
  printer << (getInTurn() ? " in_turn" : "");
  if (!getInits().empty()) {
    printer << " iter_args(";
    llvm::interleaveComma(llvm::zip(block.getArguments().drop_front(getNumPlaces()), getInits()), printer,
                          [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
    printer << ") -> (" << getResultTypes() << ")";
  }
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getTileAttrName(), getClusterAttrName(), getOrderAttrName(), getSchedulerAttrName(), getPartAttrName(),
       getInTurnAttrName(), getKDivisionAttrName(), getKPartsAttrName(), getOperandSegmentSizesAttrName()});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
}

void WorkTilesOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  static constexpr StringLiteral kNames[] = {"batch", "m", "n", "k0", "k1", "part", "parts", "slot"};
  if (region.empty() || region.getNumArguments() < getNumPlaces())
    return;
  for (unsigned place = 0; place < getNumPlaces(); ++place)
    setName(region.getArgument(place), kNames[place + (getBatch() ? 0 : 1)]);
}

LogicalResult WorkTilesOp::verify() {
  bool divided = static_cast<bool>(getDepth());
  if (getTile().size() != (divided ? 3 : 2) || llvm::any_of(getTile(), [](int64_t extent) { return extent < 1; }))
    return emitOpError() << "needs a tile of " << (divided ? "three" : "two") << " positive extents [work-tile]";
  if (getInTurn() && getScheduler() == SchedulerKind::one_shot)
    return emitOpError() << "a CTA has one tile, which cannot be taken in turn; use persistent or even_split"
                         << " [one-shot-turns]";
  if (getPart().value_or(WorkPart::all) != WorkPart::all && getScheduler() != SchedulerKind::persistent)
    return emitOpError() << "has part(" << stringifyWorkPart(*getPart()) << "), which parts the waves of a persistent "
                         << "grid; it is " << stringifySchedulerKind(getScheduler()) << " [part-scheduler]";
  if (divided != getKDivision().has_value() || (divided && *getKDivision() == KDivisionKind::none))
    return emitOpError() << "has a K extent where a division of K says how it is divided, and only there"
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
  unsigned places = getNumPlaces();
  if (block.getNumArguments() != places + getInits().size() ||
      !llvm::all_of(block.getArguments().take_front(places), [](auto place) { return place.getType().isIndex(); }))
    return emitOpError() << "body takes " << (getBatch() ? "the matrix's number, " : "")
                         << "the tile's first row and first column"
                         << (divided ? ", begin and end of K, part, parts and slot, all" : getBatch() ? ", all" : ", both")
                         << " index, and what is carried [work-arguments]";
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  auto differ = [&](TypeRange types) { return !llvm::equal(types, getResultTypes()); };
  if (!yield || differ(getInits().getTypes()) || differ(yield.getValues().getTypes()) ||
      differ(TypeRange(block.getArgumentTypes()).drop_front(places)))
    return emitOpError() << "must yield what it carries: initial values, body arguments, yielded values and results "
                            "have one list of types [work-yield]";
  return success();
}
