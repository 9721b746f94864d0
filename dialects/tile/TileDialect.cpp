// The tile dialect: registration.
#include "Tile.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lowtide::tile;

#include "TileDialect.cpp.inc"
#include "TileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "TileTypes.cpp.inc"

namespace {
// Layouts and schedules are long and come again and again: dumps name them once.
struct TileAsmInterface : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &os) const final {
    if (isa<LayoutAttr>(attribute))
      os << "layout";
    else if (isa<ThreadValueAttr>(attribute))
      os << "tv";
    else if (isa<ScheduleAttr>(attribute))
      os << "schedule";
    else if (isa<ProblemAttr>(attribute))
      os << "problem";
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void TileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "TileOps.cpp.inc"
      >();
  addInterfaces<TileAsmInterface>();
}
