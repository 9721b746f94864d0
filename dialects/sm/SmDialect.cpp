// The sm dialect: registration.
#include "Sm.h"

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lowtide;
using namespace lowtide::sm;
using lowtide::tile::printPermutation;

// An atom's name, e.g. mma.m16n8k16.f32.bf16.
static ParseResult parseAtomName(AsmParser &parser, StringAttr &atom) {
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  atom = parser.getBuilder().getStringAttr(name);
  return success();
}
static void printAtomName(AsmPrinter &printer, StringAttr atom) { printer << atom.getValue(); }

// A permutation: an array of extents (IntegerAttr) and layouts.
static ParseResult parsePermutation(AsmParser &parser, Attribute &permutation) {
  SmallVector<Attribute> elements;
  Builder &builder = parser.getBuilder();
  auto parseElement = [&]() -> ParseResult {
    int64_t extent;
    OptionalParseResult isInteger = parser.parseOptionalInteger(extent);
    if (!isInteger.has_value())
      return parser.parseAttribute(elements.emplace_back());
    elements.push_back(builder.getI64IntegerAttr(extent));
    return *isInteger;
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseElement))
    return failure();
  permutation = builder.getArrayAttr(elements);
  return success();
}
#include "SmDialect.cpp.inc"
#include "SmEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "SmAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "SmTypes.cpp.inc"

// The registers of a wgmma are a struct of up to 128 equal types. Many ops of levels nvvm and llvm print this type, so
// it has an alias.
struct NamesRegisters : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Type type, raw_ostream &os) const override {
    auto registers = dyn_cast<LLVM::LLVMStructType>(type);
    if (!registers || registers.isIdentified() || registers.getBody().size() <= 8 || !all_equal(registers.getBody()))
      return AliasResult::NoAlias;
    os << "registers";
    return AliasResult::FinalAlias;
  }
};

void SmDialect::initialize() {
  addInterfaces<NamesRegisters>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "SmAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "SmTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "SmOps.cpp.inc"
      >();
}
