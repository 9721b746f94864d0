// The C interface of the dialects.
#include "CAPI.h"

#include "../sm/Sm.h"
#include "../tile/Tile.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace lowtide;

void lowtideRegisterDialects(MlirDialectRegistry registry) { unwrap(registry)->insert<tile::TileDialect, sm::SmDialect>(); }

#define LOWTIDE_ATTRIBUTE(ns, name)                                                                                    \
  bool lowtideIs##name(MlirAttribute attribute) { return isa<ns::name##Attr>(unwrap(attribute)); }                     \
  MlirTypeID lowtide##name##TypeId() { return wrap(TypeID::get<ns::name##Attr>()); }
#define LOWTIDE_TYPE(ns, name)                                                                                         \
  bool lowtideIs##name(MlirType type) { return isa<ns::name##Type>(unwrap(type)); }                                    \
  MlirTypeID lowtide##name##TypeId() { return wrap(TypeID::get<ns::name##Type>()); }

LOWTIDE_ATTRIBUTE(tile, Swizzle)
LOWTIDE_ATTRIBUTE(tile, Layout)
LOWTIDE_ATTRIBUTE(tile, ThreadValue)
LOWTIDE_ATTRIBUTE(tile, Schedule)
LOWTIDE_ATTRIBUTE(tile, Problem)
LOWTIDE_ATTRIBUTE(tile, Raster)
LOWTIDE_ATTRIBUTE(sm, TiledMma)
LOWTIDE_ATTRIBUTE(sm, TiledCopy)
LOWTIDE_TYPE(tile, Tile)
LOWTIDE_TYPE(tile, View)
LOWTIDE_TYPE(sm, Ring)
LOWTIDE_TYPE(sm, Slot)
LOWTIDE_TYPE(sm, Fragment)
LOWTIDE_TYPE(sm, Pending)
LOWTIDE_TYPE(sm, Retired)
LOWTIDE_TYPE(sm, TensorMap)
LOWTIDE_TYPE(sm, Mbarriers)

template <typename T> static T as(MlirAttribute attribute) { return cast<T>(unwrap(attribute)); }

void lowtideSwizzleGet(MlirAttribute attribute, int64_t *bits, int64_t *base, int64_t *shift) {
  auto swizzle = as<tile::SwizzleAttr>(attribute);
  *bits = swizzle.getBits();
  *base = swizzle.getBase();
  *shift = swizzle.getShift();
}

MlirAttribute lowtideLayoutShape(MlirAttribute attribute) { return wrap(as<tile::LayoutAttr>(attribute).getShape()); }
MlirAttribute lowtideLayoutStride(MlirAttribute attribute) { return wrap(as<tile::LayoutAttr>(attribute).getStride()); }
MlirAttribute lowtideLayoutSwizzle(MlirAttribute attribute) {
  return wrap(Attribute(as<tile::LayoutAttr>(attribute).getSwizzle()));
}

MlirAttribute lowtideThreadValuePart(MlirAttribute attribute, int part) {
  auto tv = as<tile::ThreadValueAttr>(attribute);
  Attribute parts[] = {tv.getThreadShape(), tv.getThreadStride(), tv.getValueShape(), tv.getValueStride()};
  return wrap(parts[part]);
}

MlirAttribute lowtideScheduleFields(MlirAttribute attribute) {
  return wrap(Attribute(tile::fieldsOf(as<tile::ScheduleAttr>(attribute))));
}
MlirAttribute lowtideScheduleGet(MlirAttribute fields) {
  Location loc = UnknownLoc::get(unwrap(fields).getContext());
  return wrap(Attribute(tile::scheduleOf(as<DictionaryAttr>(fields), [&] { return emitError(loc); })));
}

MlirStringRef lowtideProblemLayout(MlirAttribute attribute) {
  return wrap(tile::stringifyGemmLayout(as<tile::ProblemAttr>(attribute).getLayout()));
}
MlirType lowtideProblemType(MlirAttribute attribute, int position) {
  auto problem = as<tile::ProblemAttr>(attribute);
  Type types[] = {problem.getA(), problem.getB(), problem.getAcc(), problem.getD()};
  return wrap(types[position]);
}
intptr_t lowtideProblemOperandCount(MlirAttribute attribute) {
  return as<tile::ProblemAttr>(attribute).getKinds().size();
}
MlirStringRef lowtideProblemOperandKind(MlirAttribute attribute, intptr_t position) {
  return wrap(tile::stringifyOperandKind(as<tile::ProblemAttr>(attribute).getKinds()[position]));
}
MlirType lowtideProblemOperandType(MlirAttribute attribute, intptr_t position) {
  return wrap(as<tile::ProblemAttr>(attribute).getOperands()[position]);
}
MlirAttribute lowtideProblemGet(int layout, MlirType a, MlirType b, MlirType acc, MlirType d, intptr_t count,
                                const int *kinds, const MlirType *operands) {
  SmallVector<tile::OperandKind> operandKinds;
  SmallVector<Type> types;
  for (intptr_t i = 0; i < count; ++i) {
    operandKinds.push_back(static_cast<tile::OperandKind>(kinds[i]));
    types.push_back(unwrap(operands[i]));
  }
  MLIRContext *context = unwrap(a).getContext();
  Location loc = UnknownLoc::get(context);
  return wrap(Attribute(tile::ProblemAttr::getChecked([&] { return emitError(loc); }, context,
                                                      static_cast<tile::GemmLayout>(layout), unwrap(a), unwrap(b),
                                                      unwrap(acc), unwrap(d), ArrayRef<tile::OperandKind>(operandKinds),
                                                      ArrayRef<Type>(types))));
}

MlirStringRef lowtideRasterKind(MlirAttribute attribute) {
  return wrap(tile::stringifyRasterKind(as<tile::RasterAttr>(attribute).getKind()));
}
int64_t lowtideRasterGroup(MlirAttribute attribute) { return as<tile::RasterAttr>(attribute).getGroup(); }
int64_t lowtideRasterColumns(MlirAttribute attribute) { return as<tile::RasterAttr>(attribute).getColumns(); }
MlirAttribute lowtideRasterGet(MlirContext context, int kind, int64_t group, int64_t columns) {
  Location loc = UnknownLoc::get(unwrap(context));
  return wrap(Attribute(tile::RasterAttr::getChecked([&] { return emitError(loc); }, unwrap(context),
                                                     static_cast<tile::RasterKind>(kind), group, columns)));
}

MlirStringRef lowtideTiledMmaAtom(MlirAttribute attribute) {
  return wrap(as<sm::TiledMmaAttr>(attribute).getAtom().getValue());
}
MlirAttribute lowtideTiledMmaAtoms(MlirAttribute attribute) {
  return wrap(Attribute(as<sm::TiledMmaAttr>(attribute).getAtoms()));
}
MlirAttribute lowtideTiledMmaPermutation(MlirAttribute attribute) {
  return wrap(as<sm::TiledMmaAttr>(attribute).getPermutation());
}
MlirStringRef lowtideTiledCopyAtom(MlirAttribute attribute) {
  return wrap(as<sm::TiledCopyAttr>(attribute).getAtom().getValue());
}
MlirAttribute lowtideTiledCopyTv(MlirAttribute attribute) {
  return wrap(Attribute(as<sm::TiledCopyAttr>(attribute).getTv()));
}

int64_t lowtideShapeExtent(MlirType type, int dim) {
  Type t = unwrap(type);
  if (auto tileType = dyn_cast<tile::TileType>(t))
    return tileType.getShape()[dim];
  if (auto view = dyn_cast<tile::ViewType>(t))
    return view.getShape()[dim];
  if (auto map = dyn_cast<sm::TensorMapType>(t))
    return map.getShape()[dim];
  return cast<sm::FragmentType>(t).getShape()[dim];
}

MlirType lowtideElementType(MlirType type) {
  Type t = unwrap(type);
  if (auto tileType = dyn_cast<tile::TileType>(t))
    return wrap(tileType.getElementType());
  if (auto view = dyn_cast<tile::ViewType>(t))
    return wrap(view.getElementType());
  if (auto map = dyn_cast<sm::TensorMapType>(t))
    return wrap(map.getElementType());
  return wrap(cast<sm::FragmentType>(t).getElementType());
}

MlirAttribute lowtideFragmentTv(MlirType type) {
  return wrap(Attribute(cast<sm::FragmentType>(unwrap(type)).getTv()));
}
int64_t lowtideRingStages(MlirType type) { return cast<sm::RingType>(unwrap(type)).getStages(); }
intptr_t lowtideRingBufferCount(MlirType type) { return cast<sm::RingType>(unwrap(type)).getBuffers().size(); }
MlirType lowtideRingBuffer(MlirType type, intptr_t index) {
  return wrap(cast<sm::RingType>(unwrap(type)).getBuffers()[index]);
}
MlirStringRef lowtideSlotUse(MlirType type) {
  return wrap(sm::stringifySlotUse(cast<sm::SlotType>(unwrap(type)).getUse()));
}
MlirType lowtidePendingFragment(MlirType type) {
  return wrap(Type(cast<sm::PendingType>(unwrap(type)).getFragment()));
}
int lowtideTensorMapRank(MlirType type) { return cast<sm::TensorMapType>(unwrap(type)).getShape().size(); }
MlirAttribute lowtideTensorMapSwizzle(MlirType type) {
  return wrap(Attribute(cast<sm::TensorMapType>(unwrap(type)).getSwizzle()));
}
int64_t lowtideMbarriersCount(MlirType type) { return cast<sm::MbarriersType>(unwrap(type)).getCount(); }
