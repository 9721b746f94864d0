// The C interface of the dialects: the attributes and types that Python knows, with their fields.
#include "CAPI.h"

#include "../sm/Sm.h"
#include "../tile/ScheduleParts.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace lowtide;

void lowtideRegisterDialects(MlirDialectRegistry registry) { unwrap(registry)->insert<tile::TileDialect, sm::SmDialect>(); }

unsigned lowtideNumbersOfOrder(int kind) { return tile::RasterAttr::numbersOf(static_cast<tile::RasterKind>(kind)); }

namespace lowtide::fields {
#define LOWTIDE_FIELDS(name, ...)                                                                                      \
  template <> struct FieldsOf<name> {                                                                                  \
    using T = name;                                                                                                    \
    static constexpr auto list() { return std::tuple(__VA_ARGS__); }                                                   \
  };
LOWTIDE_FIELDS(tile::SwizzleAttr, field("bits", &T::getBits), field("base", &T::getBase), field("shift", &T::getShift))
LOWTIDE_FIELDS(tile::LayoutAttr, field("shape", &T::getShape), field("stride", &T::getStride),
               optional("swizzle", &T::getSwizzle))
LOWTIDE_FIELDS(tile::ThreadValueAttr, field("thread_shape", &T::getThreadShape),
               field("thread_stride", &T::getThreadStride), field("value_shape", &T::getValueShape),
               field("value_stride", &T::getValueStride))
LOWTIDE_FIELDS(tile::RasterAttr, field("kind", &T::getKind), optional("group", &T::getGroup),
               optional("columns", &T::getColumns))
LOWTIDE_FIELDS(tile::KDivisionAttr, field("kind", &T::getKind), optional("parts", &T::getParts))
LOWTIDE_FIELDS(tile::ProblemAttr, field("layout", &T::getLayout), field("a", &T::getA), field("b", &T::getB),
               field("acc", &T::getAcc), field("result_kinds", &T::getResultKinds), field("results", &T::getResults),
               field("kinds", &T::getKinds), field("operands", &T::getOperands), field("empty", &T::getEmpty),
               optional("swapped", &T::getSwapped), optional("fast", &T::getFast),
               optional("by_columns", &T::getByColumns), optional("group", &T::getGroup),
               optional("precision", &T::getPrecision), optional("pairs", &T::getPairs),
               optional("interleaved", &T::getInterleaved))
LOWTIDE_FIELDS(sm::TiledMmaAttr, field("atom", &T::getAtom), field("atoms", &T::getAtoms),
               optional("permutation", &T::getPermutation), optional("order", &T::getOrder))
LOWTIDE_FIELDS(sm::TiledCopyAttr, field("atom", &T::getAtom), field("tv", &T::getTv))
LOWTIDE_FIELDS(tile::TileType, field("shape", &T::getShape), field("element_type", &T::getElementType))
LOWTIDE_FIELDS(tile::ViewType, field("shape", &T::getShape), field("element_type", &T::getElementType))
LOWTIDE_FIELDS(sm::FragmentType, field("shape", &T::getShape), field("element_type", &T::getElementType),
               field("tv", &T::getTv))
LOWTIDE_FIELDS(sm::PendingType, field("fragment", &T::getFragment))
LOWTIDE_FIELDS(sm::RetiredType)
LOWTIDE_FIELDS(sm::TensorMapType, field("shape", &T::getShape), field("element_type", &T::getElementType),
               optional("swizzle", &T::getSwizzle))
LOWTIDE_FIELDS(sm::MbarriersType, field("count", &T::getCount))
LOWTIDE_FIELDS(sm::SlotType, field("use", &T::getUse))
LOWTIDE_FIELDS(sm::RingType, field("stages", &T::getStages), field("buffers", &T::getBuffers))
#undef LOWTIDE_FIELDS
} // namespace lowtide::fields

namespace {
template <typename T> struct Kind {
  static constexpr bool isAttribute = std::is_base_of_v<Attribute, T>;
  static constexpr size_t count = std::tuple_size_v<decltype(fields::FieldsOf<T>::list())>;

  static MlirAttribute get(MlirAttribute handle, intptr_t wanted) {
    Attribute whole = unwrap(handle), found;
    T own;
    if constexpr (isAttribute)
      own = cast<T>(whole);
    else
      own = cast<T>(cast<TypeAttr>(whole).getValue());
    intptr_t place = 0;
    auto take = [&](const auto &field) {
      if (place++ == wanted)
        found = fields::toAttribute(whole.getContext(), (own.*field.get)());
    };
    std::apply([&](const auto &...field) { (take(field), ...); }, fields::FieldsOf<T>::list());
    return wrap(found);
  }

  static MlirAttribute make(MlirContext handle, const MlirAttribute *given) {
    MLIRContext *context = unwrap(handle);
    auto emitError = mlir::detail::getDefaultDiagnosticEmitFn(UnknownLoc::get(context));
    fields::Values<T> values{};
    bool ok = true;
    auto take = [&](const auto &field, auto &value) {
      Attribute attribute = unwrap(*given++);
      if (!ok || (!attribute && field.isOptional) || (attribute && fields::fromAttribute(attribute, value)))
        return;
      ok = false;
      if (attribute)
        emitError() << T::name << " does not take " << attribute << " for '" << field.name << "' [field-value]";
      else
        emitError() << T::name << " needs '" << field.name << "' [field-missing]";
    };
    fields::forEach<T>(values, take);
    T made = ok ? fields::make<T>(emitError, context, values) : T();
    if constexpr (isAttribute)
      return wrap(Attribute(made));
    else
      return made ? wrap(Attribute(TypeAttr::get(made))) : MlirAttribute{nullptr};
  }

  static LowtideKind row(const char *name) {
    static const auto names = std::apply(
        [](const auto &...field) { return std::array<const char *, count>{field.name.data()...}; },
        fields::FieldsOf<T>::list());
    auto id = [] { return wrap(TypeID::get<T>()); };
    if constexpr (isAttribute)
      return {name, [](MlirAttribute each) { return isa<T>(unwrap(each)); }, nullptr, id, count, names.data(), get, make};
    else
      return {name, nullptr, [](MlirType each) { return isa<T>(unwrap(each)); }, id, count, names.data(), get, make};
  }
};
} // namespace

const LowtideKind *lowtideKinds(intptr_t *count) {
#define LOWTIDE_KIND(ns, name) Kind<ns::name>::row(#name)
  static const LowtideKind kinds[] = {
      LOWTIDE_KIND(tile, SwizzleAttr),   LOWTIDE_KIND(tile, LayoutAttr),   LOWTIDE_KIND(tile, ThreadValueAttr),
      LOWTIDE_KIND(tile, RasterAttr),    LOWTIDE_KIND(tile, KDivisionAttr), LOWTIDE_KIND(tile, ProblemAttr),
      LOWTIDE_KIND(tile, GridAttr),      LOWTIDE_KIND(tile, OperandAttr),  LOWTIDE_KIND(tile, AgentAttr),
      LOWTIDE_KIND(tile, AgentsAttr),    LOWTIDE_KIND(tile, MainloopAttr), LOWTIDE_KIND(tile, MultiplyAttr),
      LOWTIDE_KIND(tile, EpilogueAttr),  LOWTIDE_KIND(tile, ScheduleAttr), LOWTIDE_KIND(sm, TiledMmaAttr),
      LOWTIDE_KIND(sm, TiledCopyAttr),   LOWTIDE_KIND(tile, TileType),     LOWTIDE_KIND(tile, ViewType),
      LOWTIDE_KIND(sm, FragmentType),    LOWTIDE_KIND(sm, PendingType),    LOWTIDE_KIND(sm, RetiredType),
      LOWTIDE_KIND(sm, TensorMapType),   LOWTIDE_KIND(sm, MbarriersType),  LOWTIDE_KIND(sm, SlotType),
      LOWTIDE_KIND(sm, RingType),
  };
#undef LOWTIDE_KIND
  *count = std::size(kinds);
  return kinds;
}
