// Attributes and types of the tile dialect: parsing, printing, verification.
#include "Tile.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace lowtide::tile;

//===--- nested integer tuples ----------------------------------------------------------------------------------===//

FailureOr<Attribute> lowtide::tile::parseIntTuple(AsmParser &parser) {
  Builder builder(parser.getContext());
  if (failed(parser.parseOptionalLParen())) {
    int64_t value;
    if (parser.parseInteger(value))
      return failure();
    return Attribute(builder.getI64IntegerAttr(value));
  }
  SmallVector<Attribute> elements;
  auto parseElement = [&]() -> ParseResult {
    FailureOr<Attribute> element = parseIntTuple(parser);
    if (failed(element))
      return failure();
    elements.push_back(*element);
    return success();
  };
  if (parser.parseCommaSeparatedList(parseElement) || parser.parseRParen())
    return failure();
  return Attribute(builder.getArrayAttr(elements));
}

void lowtide::tile::printIntTuple(AsmPrinter &printer, Attribute tuple) {
  if (auto integer = dyn_cast<IntegerAttr>(tuple)) {
    printer << integer.getInt();
    return;
  }
  printer << "(";
  llvm::interleave(
      cast<ArrayAttr>(tuple), [&](Attribute element) { printIntTuple(printer, element); }, [&] { printer << ","; });
  printer << ")";
}

ParseResult lowtide::parseShapeStride(AsmParser &parser, Attribute &shape, Attribute &stride) {
  FailureOr<Attribute> s = parseIntTuple(parser);
  if (failed(s) || parser.parseColon())
    return failure();
  FailureOr<Attribute> d = parseIntTuple(parser);
  if (failed(d))
    return failure();
  shape = *s;
  stride = *d;
  return success();
}

void lowtide::printShapeStride(AsmPrinter &printer, Attribute shape, Attribute stride) {
  printIntTuple(printer, shape);
  printer << ":";
  printIntTuple(printer, stride);
}

bool lowtide::tile::isIntTuple(Attribute tuple) {
  if (auto integer = dyn_cast<IntegerAttr>(tuple))
    return integer.getType().isSignlessInteger(64);
  auto array = dyn_cast<ArrayAttr>(tuple);
  return array && !array.empty() && llvm::all_of(array, isIntTuple);
}

bool lowtide::tile::isCongruent(Attribute a, Attribute b) {
  auto arrayA = dyn_cast<ArrayAttr>(a), arrayB = dyn_cast<ArrayAttr>(b);
  if (!arrayA || !arrayB)
    return !arrayA && !arrayB;
  return arrayA.size() == arrayB.size() &&
         llvm::all_of(llvm::zip(arrayA, arrayB), [](auto p) { return isCongruent(std::get<0>(p), std::get<1>(p)); });
}

int64_t lowtide::tile::sizeOf(Attribute tuple) {
  if (auto integer = dyn_cast<IntegerAttr>(tuple))
    return integer.getInt();
  int64_t size = 1;
  for (Attribute element : cast<ArrayAttr>(tuple))
    size *= sizeOf(element);
  return size;
}

static void collectLeaves(Attribute shape, Attribute stride, SmallVectorImpl<std::pair<int64_t, int64_t>> &leaves) {
  if (auto integer = dyn_cast<IntegerAttr>(shape)) {
    leaves.emplace_back(integer.getInt(), cast<IntegerAttr>(stride).getInt());
    return;
  }
  for (auto [s, d] : llvm::zip(cast<ArrayAttr>(shape), cast<ArrayAttr>(stride)))
    collectLeaves(s, d, leaves);
}

int64_t lowtide::tile::cosizeOf(Attribute shape, Attribute stride) {
  SmallVector<std::pair<int64_t, int64_t>> leaves;
  collectLeaves(shape, stride, leaves);
  int64_t last = 0;
  for (auto [extent, step] : leaves)
    last += (extent - 1) * step;
  return last + 1;
}

static bool allLeaves(Attribute tuple, llvm::function_ref<bool(int64_t)> predicate) {
  if (auto integer = dyn_cast<IntegerAttr>(tuple))
    return predicate(integer.getInt());
  return llvm::all_of(cast<ArrayAttr>(tuple), [&](Attribute e) { return allLeaves(e, predicate); });
}

static LogicalResult verifyShapeStride(function_ref<InFlightDiagnostic()> emitError, Attribute shape,
                                       Attribute stride) {
  if (!isIntTuple(shape) || !isIntTuple(stride))
    return emitError() << "shape and stride must be nested tuples of integers [tuples-of-integers]";
  if (!isCongruent(shape, stride))
    return emitError() << "shape and stride must nest alike [nest-alike]";
  if (!allLeaves(shape, [](int64_t v) { return v > 0; }))
    return emitError() << "every extent of a shape must be positive [positive-extents]";
  if (!allLeaves(stride, [](int64_t v) { return v >= 0; }))
    return emitError() << "every stride must be zero or positive [positive-strides]";
  return success();
}

//===--- shape and element --------------------------------------------------------------------------------------===//

ParseResult lowtide::parseShapedElement(AsmParser &parser, SmallVector<int64_t> &shape, Type &element) {
  return failure(parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(element));
}

void lowtide::printShapedElement(AsmPrinter &printer, ArrayRef<int64_t> shape, Type element) {
  for (int64_t extent : shape)
    printer << extent << "x";
  printer << element;
}

//===--- swizzle ------------------------------------------------------------------------------------------------===//

LogicalResult SwizzleAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t bits, int64_t base,
                                  int64_t shift) {
  if (bits < 0 || base < 0 || bits + base + shift > 30)
    return emitError() << "swizzle<" << bits << "," << base << "," << shift
                       << ">: B and M must not be negative, and B + M + S at most 30 [swizzle-bits]";
  if (shift < bits)
    return emitError() << "swizzle<" << bits << "," << base << "," << shift
                       << ">: S must be at least B, or source and target bits overlap [swizzle-shift]";
  return success();
}

//===--- layout -------------------------------------------------------------------------------------------------===//

SwizzleAttr lowtide::tile::parseBareSwizzle(AsmParser &parser) {
  int64_t bits, base, shift;
  if (parser.parseLess() || parser.parseInteger(bits) || parser.parseComma() || parser.parseInteger(base) ||
      parser.parseComma() || parser.parseInteger(shift) || parser.parseGreater())
    return {};
  return parser.getChecked<SwizzleAttr>(parser.getContext(), bits, base, shift);
}

void lowtide::tile::printBareSwizzle(AsmPrinter &printer, SwizzleAttr swizzle) {
  printer << "<" << swizzle.getBits() << "," << swizzle.getBase() << "," << swizzle.getShift() << ">";
}

ParseResult lowtide::tile::parseBareSwizzle(AsmParser &parser, SwizzleAttr &swizzle) {
  swizzle = parseBareSwizzle(parser);
  return success(static_cast<bool>(swizzle));
}

void lowtide::tile::printPermutation(AsmPrinter &printer, Attribute permutation) {
  printer << "[";
  llvm::interleaveComma(cast<ArrayAttr>(permutation), printer, [&](Attribute mode) {
    if (auto extent = dyn_cast<IntegerAttr>(mode))
      printer << extent.getInt();
    else
      printer << mode;
  });
  printer << "]";
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, Attribute shape, Attribute stride,
                                 SwizzleAttr) {
  return verifyShapeStride(emitError, shape, stride);
}

static SmallVector<Attribute> topModes(Attribute tuple) {
  if (auto array = dyn_cast<ArrayAttr>(tuple))
    return SmallVector<Attribute>(array.begin(), array.end());
  return {tuple};
}

// The layout without its swizzle: an affine map cannot say an exclusive or.
AffineMap LayoutAttr::getAffineMap() const {
  MLIRContext *context = getContext();
  AffineExpr result = getAffineConstantExpr(0, context);
  auto shapes = topModes(getShape()), strides = topModes(getStride());
  for (auto [dim, shape, stride] : llvm::enumerate(shapes, strides)) {
    SmallVector<std::pair<int64_t, int64_t>> leaves;
    collectLeaves(shape, stride, leaves);
    AffineExpr rest = getAffineDimExpr(dim, context);
    for (auto [index, leaf] : llvm::enumerate(leaves)) {
      bool last = index + 1 == leaves.size();
      result = result + (last ? rest : rest % leaf.first) * leaf.second;
      rest = rest.floorDiv(leaf.first);
    }
  }
  return AffineMap::get(shapes.size(), 0, result);
}

bool LayoutAttr::isIdentity() const { return false; }

LogicalResult LayoutAttr::verifyLayout(ArrayRef<int64_t> shape, function_ref<InFlightDiagnostic()> emitError) const {
  auto modes = topModes(getShape());
  if (modes.size() != shape.size())
    return emitError() << "layout has " << modes.size() << " modes, the memref " << shape.size() << " dimensions"
                       << " [layout-modes]";
  for (auto [mode, extent] : llvm::zip(modes, shape))
    if (sizeOf(mode) != extent)
      return emitError() << "layout mode of size " << sizeOf(mode) << " does not fit dimension of size " << extent
                         << " [layout-mode-size]";
  return success();
}

LogicalResult LayoutAttr::getStridesAndOffset(ArrayRef<int64_t> shape, SmallVectorImpl<int64_t> &strides,
                                              int64_t &offset) const {
  if (getSwizzle() && getSwizzle().getBits() != 0)
    return failure(); // no strides can say it
  return mlir::detail::getAffineMapStridesAndOffset(getAffineMap(), shape, strides, offset);
}

//===--- thread-value layout ------------------------------------------------------------------------------------===//

LogicalResult ThreadValueAttr::verify(function_ref<InFlightDiagnostic()> emitError, Attribute threadShape,
                                      Attribute threadStride, Attribute valueShape, Attribute valueStride) {
  if (failed(verifyShapeStride(emitError, threadShape, threadStride)))
    return failure();
  return verifyShapeStride(emitError, valueShape, valueStride);
}

//===--- raster -------------------------------------------------------------------------------------------------===//

Attribute RasterAttr::parse(AsmParser &parser, Type) {
  StringRef word;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return {};
  std::optional<RasterKind> kind = symbolizeRasterKind(word);
  if (!kind) {
    parser.emitError(loc) << "expected " << wordsOf<RasterKind>() << ", not '" << word << "' [raster-word]";
    return {};
  }
  int64_t group = 0, columns = 0;
  OptionalParseResult hasGroup = parser.parseOptionalInteger(group);
  if (hasGroup.has_value() && failed(*hasGroup))
    return {};
  if (hasGroup.has_value() && succeeded(parser.parseOptionalComma()) && parser.parseInteger(columns))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RasterAttr>(parser.getContext(), *kind, group, columns);
}

void RasterAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyRasterKind(getKind());
  if (getGroup() != 0)
    printer << " " << getGroup();
  if (getColumns() != 0)
    printer << ", " << getColumns();
  printer << ">";
}

LogicalResult RasterAttr::verify(function_ref<InFlightDiagnostic()> emitError, RasterKind kind, int64_t group,
                                 int64_t columns) {
  unsigned count = numbersOf(kind);
  if ((count > 0 ? group < 1 : group != 0) || (count > 1 ? columns < 1 : columns != 0))
    return emitError() << stringifyRasterKind(kind) << " takes "
                       << (count == 0   ? "no number"
                           : count == 1 ? "one number, at least 1, e.g. 8"
                                        : "two numbers, at least 1 each, e.g. 16, 8")
                       << " [raster-numbers]";
  return success();
}

//===--- types --------------------------------------------------------------------------------------------------===//

static LogicalResult verifyTileBody(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                    Type elementType) {
  if (shape.size() != 2 || llvm::any_of(shape, [](int64_t extent) { return extent < 1; }))
    return emitError() << "a tile has two positive extents [tile-positive]";
  if (!elementType.isIntOrFloat())
    return emitError() << "a tile's elements are integers or floats, not " << elementType << " [tile-elements]";
  return success();
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape, Type type) {
  return verifyTileBody(emitError, shape, type);
}
LogicalResult ViewType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape, Type type) {
  return verifyTileBody(emitError, shape, type);
}
