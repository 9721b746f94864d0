// The sm dialect: registration.
#include "Sm.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lowtide;
using namespace lowtide::sm;

#include "SmDialect.cpp.inc"
#include "SmEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "SmAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "SmTypes.cpp.inc"

namespace {
// Types of rings and of what is in flight are long and many: dumps name them once.
struct SmAsmInterface : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Type type, raw_ostream &os) const final {
    if (isa<RingType>(type))
      os << "ring";
    else if (isa<PendingType>(type))
      os << "pending";
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }
  AliasResult getAlias(Attribute attribute, raw_ostream &os) const final {
    if (isa<TiledMmaAttr>(attribute))
      os << "tiled_mma";
    else if (isa<TiledCopyAttr>(attribute))
      os << "tiled_copy";
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void SmDialect::initialize() {
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
  addInterfaces<SmAsmInterface>();
}
