// The tile dialect: declarations, and the nested integer tuples that its layouts are made of.
#ifndef LOWTIDE_TILE_H
#define LOWTIDE_TILE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

#include "TileDialect.h.inc"
#include "TileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "TileTypes.h.inc"
#define GET_OP_CLASSES
#include "TileOps.h.inc"

namespace lowtide::tile {

// Every word of an enum, for messages: "row, column or grouped". The values count from 0.
template <typename Enum> std::string wordsOf(llvm::StringRef conjunction = "or") {
  llvm::SmallVector<llvm::StringRef> words;
  for (uint32_t value = 0; !stringifyEnum(static_cast<Enum>(value)).empty(); ++value)
    words.push_back(stringifyEnum(static_cast<Enum>(value)));
  std::string last = words.pop_back_val().str();
  return words.empty() ? last : llvm::join(words, ", ") + " " + conjunction.str() + " " + last;
}

// A nested integer tuple is an i64 IntegerAttr or an ArrayAttr of such; it prints as 8 or (4,(2,1)).
mlir::FailureOr<mlir::Attribute> parseIntTuple(mlir::AsmParser &parser);
void printIntTuple(mlir::AsmPrinter &printer, mlir::Attribute tuple);
bool isIntTuple(mlir::Attribute tuple);
bool isCongruent(mlir::Attribute a, mlir::Attribute b);
int64_t sizeOf(mlir::Attribute tuple);
// The largest offset + 1 of shape:stride, all strides ≥ 0.
int64_t cosizeOf(mlir::Attribute shape, mlir::Attribute stride);

// Whether a division of K says into how many parts.
inline bool isCounted(KDivisionKind kind) {
  return kind != KDivisionKind::none && kind != KDivisionKind::stream_k && kind != KDivisionKind::hybrid;
}

// `<B,M,S>` without the attribute's own prefix.
SwizzleAttr parseBareSwizzle(mlir::AsmParser &parser);
mlir::ParseResult parseBareSwizzle(mlir::AsmParser &parser, SwizzleAttr &swizzle);
void printBareSwizzle(mlir::AsmPrinter &printer, SwizzleAttr swizzle);

// A permutation: an array of extents, which are integers, and layouts.
void printPermutation(mlir::AsmPrinter &printer, mlir::Attribute permutation);

// A kind from its number in an op's array of kinds.
OperandKind kindOf(mlir::Attribute kind);
ResultKind resultKindOf(mlir::Attribute kind);

// Dimensions of an operand of a kind, without a batch.
int64_t rankOf(OperandKind kind);
// Whether a result is a reduction of rows, of columns or of all elements.
bool isReduction(ResultKind kind);

// `kind %operand : type, …`, shared by the ops that carry epilogue operands.
mlir::ParseResult parseKindedOperands(mlir::OpAsmParser &parser,
                                      llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &operands,
                                      llvm::SmallVectorImpl<mlir::Type> &types, mlir::ArrayAttr &kinds);
void printKindedOperands(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange operands,
                         mlir::TypeRange types, mlir::ArrayAttr kinds);

// `%d`, or `(%d, amax %amax)`: results that are not full say their kind. Then their types.
mlir::ParseResult parseResults(mlir::OpAsmParser &parser,
                               llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &results,
                               mlir::ArrayAttr &kinds);
void printResults(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange results, mlir::ArrayAttr kinds);
mlir::ParseResult parseResultTypes(mlir::OpAsmParser &parser, llvm::SmallVectorImpl<mlir::Type> &types);
void printResultTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::TypeRange types);

// `row, column`, in a batch after the number of the matrix, shared by the ops that name a place in one.
mlir::ParseResult parsePlace(mlir::OpAsmParser &parser, std::optional<mlir::OpAsmParser::UnresolvedOperand> &batch,
                             mlir::OpAsmParser::UnresolvedOperand &row, mlir::OpAsmParser::UnresolvedOperand &column);
void printPlace(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Value batch, mlir::Value row,
                mlir::Value column);

// The type of the elements of a memref, tile or view; a scalar's own type.
mlir::Type elementTypeOf(mlir::Type type);

// The type of one element as an SSA value: integers of matrices have a sign, those that arith computes on have none.
mlir::Type valueTypeOf(mlir::Type element);

// Bits of an element in memory: tf32 lies as f32 does.
unsigned storageBitsOf(mlir::Type element);

// Whether a memref is a batch of matrices: of three dimensions, the batch first.
bool isBatch(mlir::MemRefType matrix);
// How many packed weights of a type a byte holds.
int64_t weightsPerByte(mlir::Type weights);

// Checks packed weights: of a type, in bytes, that become the type of what they are multiplied by.
mlir::LogicalResult verifyWeightTypes(mlir::Operation *op, mlir::Type weights, mlir::Type bytes, mlir::Type converted);

// Checks that packed weights of a type may be less by zero points.
mlir::LogicalResult verifyZeroPoints(mlir::Operation *op, mlir::Type weights);

// Whether two extents are equal or may be, one being known at run time only.
bool agree(int64_t x, int64_t y);

// Whether an operand scales sums of blocks of K.
bool isBlockScale(OperandKind kind);

// Whether an operand has elements for the columns of D, as B has: with groups of rows it may have a part for each.
bool isOfColumns(OperandKind kind);

// Whether an operand acts in the sum of products, and has no argument in the epilogue.
bool actsInTheSum(OperandKind kind);
// Whether an operand says when shards of A arrive.
bool isOfArrivals(OperandKind kind);
// Whether an operand says where this GPU's shard is sent.
bool isOfSends(OperandKind kind);
// Whether the epilogue's region has an argument for it.
bool isReadByTheRegion(OperandKind kind);

// Checks an epilogue region: block arguments (an element of the accumulator, or two in `pairs`, and one of each
// operand), a yield of one value for each result. In a batch (of as many matrices) operands may be batches too.
mlir::LogicalResult verifyEpilogue(mlir::Operation *op, mlir::Region &region, mlir::Type acc,
                                   mlir::OperandRange operands, mlir::ArrayAttr kinds, mlir::OperandRange results,
                                   mlir::ArrayAttr resultKinds, bool pairs, std::optional<int64_t> batch);

// Checks a list of results: their kinds, full ones that are alike, one amax at most.
mlir::LogicalResult verifyResults(mlir::Operation *op, mlir::OperandRange results, mlir::ArrayAttr kinds);

// The types of the full ones among results.
llvm::SmallVector<mlir::MemRefType> fullResults(mlir::OperandRange results, mlir::ArrayAttr kinds);

// Whether the columns of a matrix, or of those of a batch, are contiguous, and rows not known to be.
bool isColumnMajor(mlir::MemRefType type);

// Whether it is a list of matrices, each with its own address and extents (dialects/tile/lists.py).
bool isList(mlir::Type type);

// The tile.yield that ends a block; null if there is none. `getTerminator` aborts if the last op is no terminator.
inline YieldOp yieldOf(mlir::Block &block) {
  return block.empty() ? YieldOp() : llvm::dyn_cast<YieldOp>(block.back());
}

// Checks a `cluster` clause: two positive extents, if it is there.
mlir::LogicalResult verifyCluster(mlir::Operation *op, std::optional<llvm::ArrayRef<int64_t>> cluster);

} // namespace lowtide::tile

namespace lowtide {

// Parts of the assembly of attributes and types of both dialects, for custom<…>.

// shape:stride, e.g. (4,(2,1)):(1,(4,0))
mlir::ParseResult parseShapeStride(mlir::AsmParser &parser, mlir::Attribute &shape, mlir::Attribute &stride);
void printShapeStride(mlir::AsmPrinter &printer, mlir::Attribute shape, mlir::Attribute stride);

// 128x64xbf16
mlir::ParseResult parseShapedElement(mlir::AsmParser &parser, llvm::SmallVector<int64_t> &shape, mlir::Type &element);
void printShapedElement(mlir::AsmPrinter &printer, llvm::ArrayRef<int64_t> shape, mlir::Type element);

} // namespace lowtide

#endif // LOWTIDE_TILE_H
