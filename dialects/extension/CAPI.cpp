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

// An attribute or type of these parameters; null, and an error reported, where they do not verify.
template <typename T, typename... Parameters> static auto make(MlirContext context, Parameters... parameters) {
  MLIRContext *own = unwrap(context);
  auto emitError = mlir::detail::getDefaultDiagnosticEmitFn(UnknownLoc::get(own));
  using Kind = std::conditional_t<std::is_base_of_v<Attribute, T>, Attribute, Type>;
  return wrap(Kind(T::getChecked(emitError, own, parameters...)));
}

// Whether an attribute or type, where there is one, is of a kind; says so where not.
template <typename T, typename Handle> static bool expect(MlirContext context, Handle handle, const char *what) {
  if (!handle.ptr || isa<T>(unwrap(handle)))
    return true;
  emitError(UnknownLoc::get(unwrap(context))) << "expected " << what << ", not " << unwrap(handle);
  return false;
}

// The attribute as one of its kind; null for null.
template <typename T> static T orNull(MlirAttribute attribute) { return dyn_cast_or_null<T>(unwrap(attribute)); }

static ArrayRef<int64_t> array(intptr_t size, const int64_t *values) { return {values, static_cast<size_t>(size)}; }

//===--- attributes ---------------------------------------------------------------------------------------------===//

MlirAttribute lowtideMakeSwizzle(MlirContext context, int64_t bits, int64_t base, int64_t shift) {
  return make<tile::SwizzleAttr>(context, bits, base, shift);
}
void lowtideSwizzleGet(MlirAttribute attribute, int64_t *bits, int64_t *base, int64_t *shift) {
  auto swizzle = as<tile::SwizzleAttr>(attribute);
  *bits = swizzle.getBits();
  *base = swizzle.getBase();
  *shift = swizzle.getShift();
}

MlirAttribute lowtideMakeLayout(MlirContext context, MlirAttribute shape, MlirAttribute stride, MlirAttribute swizzle) {
  if (!expect<tile::SwizzleAttr>(context, swizzle, "#tile.swizzle"))
    return {};
  return make<tile::LayoutAttr>(context, unwrap(shape), unwrap(stride), orNull<tile::SwizzleAttr>(swizzle));
}
MlirAttribute lowtideLayoutShape(MlirAttribute attribute) { return wrap(as<tile::LayoutAttr>(attribute).getShape()); }
MlirAttribute lowtideLayoutStride(MlirAttribute attribute) { return wrap(as<tile::LayoutAttr>(attribute).getStride()); }
MlirAttribute lowtideLayoutSwizzle(MlirAttribute attribute) {
  return wrap(Attribute(as<tile::LayoutAttr>(attribute).getSwizzle()));
}

MlirAttribute lowtideMakeThreadValue(MlirContext context, MlirAttribute threadShape, MlirAttribute threadStride,
                                     MlirAttribute valueShape, MlirAttribute valueStride) {
  return make<tile::ThreadValueAttr>(context, unwrap(threadShape), unwrap(threadStride), unwrap(valueShape),
                                     unwrap(valueStride));
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
  Type types[] = {problem.getA(), problem.getB(), problem.getAcc()};
  return wrap(types[position]);
}
intptr_t lowtideProblemResultCount(MlirAttribute attribute) {
  return as<tile::ProblemAttr>(attribute).getResultKinds().size();
}
MlirStringRef lowtideProblemResultKind(MlirAttribute attribute, intptr_t position) {
  return wrap(tile::stringifyResultKind(as<tile::ProblemAttr>(attribute).getResultKinds()[position]));
}
MlirType lowtideProblemResultType(MlirAttribute attribute, intptr_t position) {
  return wrap(as<tile::ProblemAttr>(attribute).getResults()[position]);
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
intptr_t lowtideProblemEmptyCount(MlirAttribute attribute) {
  return as<tile::ProblemAttr>(attribute).getEmpty().size();
}
MlirStringRef lowtideProblemEmpty(MlirAttribute attribute, intptr_t position) {
  return wrap(as<tile::ProblemAttr>(attribute).getEmpty()[position].getValue());
}
bool lowtideProblemSwapped(MlirAttribute attribute) { return as<tile::ProblemAttr>(attribute).getSwapped(); }
int64_t lowtideProblemGroup(MlirAttribute attribute) { return as<tile::ProblemAttr>(attribute).getGroup(); }
bool lowtideProblemFast(MlirAttribute attribute) { return as<tile::ProblemAttr>(attribute).getFast(); }
MlirStringRef lowtideProblemPrecision(MlirAttribute attribute) {
  std::optional<tile::Precision> precision = as<tile::ProblemAttr>(attribute).getPrecision();
  return wrap(precision ? tile::stringifyPrecision(*precision) : StringRef());
}
bool lowtideProblemByColumns(MlirAttribute attribute) { return as<tile::ProblemAttr>(attribute).getByColumns(); }
// Kinds and types of results, or of operands.
template <typename Kind> static std::pair<SmallVector<Kind>, SmallVector<Type>> kinded(LowtideKinded list) {
  std::pair<SmallVector<Kind>, SmallVector<Type>> found;
  for (intptr_t i = 0; i < list.count; ++i) {
    found.first.push_back(static_cast<Kind>(list.kinds[i]));
    found.second.push_back(unwrap(list.types[i]));
  }
  return found;
}

MlirAttribute lowtideProblemGet(int layout, MlirType a, MlirType b, MlirType acc, LowtideKinded results,
                                LowtideKinded operands, MlirStringRef empty, bool swapped, bool fast, bool byColumns,
                                int64_t group, int precision) {
  auto [resultKinds, resultTypes] = kinded<tile::ResultKind>(results);
  auto [operandKinds, types] = kinded<tile::OperandKind>(operands);
  SmallVector<StringAttr> letters;
  for (char letter : unwrap(empty))
    letters.push_back(StringAttr::get(unwrap(a).getContext(), StringRef(&letter, 1)));
  MLIRContext *context = unwrap(a).getContext();
  Location loc = UnknownLoc::get(context);
  std::optional<tile::Precision> by;
  if (precision >= 0)
    by = static_cast<tile::Precision>(precision);
  return wrap(Attribute(tile::ProblemAttr::getChecked([&] { return emitError(loc); }, context,
                                                      static_cast<tile::GemmLayout>(layout), unwrap(a), unwrap(b),
                                                      unwrap(acc), ArrayRef(resultKinds), ArrayRef(resultTypes),
                                                      ArrayRef(operandKinds), ArrayRef(types),
                                                      ArrayRef<StringAttr>(letters), swapped, fast, byColumns, group, by)));
}

MlirStringRef lowtideRasterKind(MlirAttribute attribute) {
  return wrap(tile::stringifyRasterKind(as<tile::RasterAttr>(attribute).getKind()));
}
int64_t lowtideRasterGroup(MlirAttribute attribute) { return as<tile::RasterAttr>(attribute).getGroup(); }
int64_t lowtideRasterColumns(MlirAttribute attribute) { return as<tile::RasterAttr>(attribute).getColumns(); }
unsigned lowtideRasterNumbersOf(int kind) {
  return tile::RasterAttr::numbersOf(static_cast<tile::RasterKind>(kind));
}
MlirAttribute lowtideRasterGet(MlirContext context, int kind, int64_t group, int64_t columns) {
  Location loc = UnknownLoc::get(unwrap(context));
  return wrap(Attribute(tile::RasterAttr::getChecked([&] { return emitError(loc); }, unwrap(context),
                                                     static_cast<tile::RasterKind>(kind), group, columns)));
}

MlirAttribute lowtideMakeTiledMma(MlirContext context, MlirStringRef atom, intptr_t rank, const int64_t *atoms,
                                  MlirAttribute order, MlirAttribute permutation) {
  if (!mlirAttributeIsNull(order) && !expect<tile::LayoutAttr>(context, order, "#tile.layout"))
    return {};
  MLIRContext *own = unwrap(context);
  return make<sm::TiledMmaAttr>(context, StringAttr::get(own, unwrap(atom)),
                                DenseI64ArrayAttr::get(own, array(rank, atoms)),
                                dyn_cast_or_null<tile::LayoutAttr>(unwrap(order)), unwrap(permutation));
}
MlirStringRef lowtideTiledMmaAtom(MlirAttribute attribute) {
  return wrap(as<sm::TiledMmaAttr>(attribute).getAtom().getValue());
}
MlirAttribute lowtideTiledMmaAtoms(MlirAttribute attribute) {
  return wrap(Attribute(as<sm::TiledMmaAttr>(attribute).getAtoms()));
}
MlirAttribute lowtideTiledMmaOrder(MlirAttribute attribute) {
  return wrap(Attribute(as<sm::TiledMmaAttr>(attribute).getOrder()));
}
MlirAttribute lowtideTiledMmaPermutation(MlirAttribute attribute) {
  return wrap(as<sm::TiledMmaAttr>(attribute).getPermutation());
}

MlirAttribute lowtideMakeTiledCopy(MlirContext context, MlirStringRef atom, MlirAttribute tv) {
  if (!expect<tile::ThreadValueAttr>(context, tv, "#tile.tv"))
    return {};
  MLIRContext *own = unwrap(context);
  return wrap(Attribute(
      sm::TiledCopyAttr::get(own, StringAttr::get(own, unwrap(atom)), as<tile::ThreadValueAttr>(tv))));
}
MlirStringRef lowtideTiledCopyAtom(MlirAttribute attribute) {
  return wrap(as<sm::TiledCopyAttr>(attribute).getAtom().getValue());
}
MlirAttribute lowtideTiledCopyTv(MlirAttribute attribute) {
  return wrap(Attribute(as<sm::TiledCopyAttr>(attribute).getTv()));
}

//===--- types --------------------------------------------------------------------------------------------------===//

MlirType lowtideMakeTile(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType) {
  return make<tile::TileType>(context, array(rank, shape), unwrap(elementType));
}
MlirType lowtideMakeView(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType) {
  return make<tile::ViewType>(context, array(rank, shape), unwrap(elementType));
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

MlirType lowtideMakeFragment(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType,
                             MlirAttribute tv) {
  if (!expect<tile::ThreadValueAttr>(context, tv, "#tile.tv"))
    return {};
  return make<sm::FragmentType>(context, array(rank, shape), unwrap(elementType), as<tile::ThreadValueAttr>(tv));
}
MlirAttribute lowtideFragmentTv(MlirType type) {
  return wrap(Attribute(cast<sm::FragmentType>(unwrap(type)).getTv()));
}

MlirType lowtideMakePending(MlirContext context, MlirType fragment) {
  if (!expect<sm::FragmentType>(context, fragment, "!sm.fragment"))
    return {};
  return wrap(Type(sm::PendingType::get(unwrap(context), cast<sm::FragmentType>(unwrap(fragment)))));
}
MlirType lowtidePendingFragment(MlirType type) {
  return wrap(Type(cast<sm::PendingType>(unwrap(type)).getFragment()));
}

MlirType lowtideMakeRetired(MlirContext context) { return wrap(Type(sm::RetiredType::get(unwrap(context)))); }

MlirType lowtideMakeRing(MlirContext context, int64_t stages, intptr_t count, const MlirType *buffers) {
  SmallVector<Type> types;
  return make<sm::RingType>(context, stages, unwrapList(count, buffers, types));
}
int64_t lowtideRingStages(MlirType type) { return cast<sm::RingType>(unwrap(type)).getStages(); }
intptr_t lowtideRingBufferCount(MlirType type) { return cast<sm::RingType>(unwrap(type)).getBuffers().size(); }
MlirType lowtideRingBuffer(MlirType type, intptr_t index) {
  return wrap(cast<sm::RingType>(unwrap(type)).getBuffers()[index]);
}

MlirType lowtideMakeSlot(MlirContext context, uint32_t use) {
  if (std::optional<sm::SlotUse> known = sm::symbolizeSlotUse(use))
    return wrap(Type(sm::SlotType::get(unwrap(context), *known)));
  emitError(UnknownLoc::get(unwrap(context))) << "no use of a slot has the number " << use;
  return {};
}
MlirStringRef lowtideSlotUse(MlirType type) {
  return wrap(sm::stringifySlotUse(cast<sm::SlotType>(unwrap(type)).getUse()));
}

MlirType lowtideMakeTensorMap(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType,
                              MlirAttribute swizzle) {
  if (!expect<tile::SwizzleAttr>(context, swizzle, "#tile.swizzle"))
    return {};
  return make<sm::TensorMapType>(context, array(rank, shape), unwrap(elementType), orNull<tile::SwizzleAttr>(swizzle));
}
int lowtideTensorMapRank(MlirType type) { return cast<sm::TensorMapType>(unwrap(type)).getShape().size(); }
MlirAttribute lowtideTensorMapSwizzle(MlirType type) {
  return wrap(Attribute(cast<sm::TensorMapType>(unwrap(type)).getSwizzle()));
}

MlirType lowtideMakeMbarriers(MlirContext context, int64_t count) { return make<sm::MbarriersType>(context, count); }
int64_t lowtideMbarriersCount(MlirType type) { return cast<sm::MbarriersType>(unwrap(type)).getCount(); }
