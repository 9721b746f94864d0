// The Python module: registers the dialects and gives typed access to their attributes and types.
#include "CAPI.h"
#include "Outline.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mlir::python::nanobind_adaptors;

static std::string text(MlirStringRef ref) { return std::string(ref.data, ref.length); }

// None for a null attribute.
static nb::object orNone(MlirAttribute attribute) {
  return mlirAttributeIsNull(attribute) ? nb::none() : nb::cast(attribute);
}

static MlirStringRef stringRef(const std::string &text) { return mlirStringRefCreate(text.data(), text.size()); }

static MlirAttribute orNull(const std::optional<MlirAttribute> &attribute) {
  return attribute ? *attribute : mlirAttributeGetNull();
}

// The errors that a context reports while this lives, as one text.
class Errors {
public:
  explicit Errors(MlirContext context)
      : context(context), handler(mlirContextAttachDiagnosticHandler(context, take, &text, nullptr)) {}
  ~Errors() { mlirContextDetachDiagnosticHandler(context, handler); }
  std::string text;

private:
  static MlirLogicalResult take(MlirDiagnostic diagnostic, void *text) {
    auto append = [](MlirStringRef part, void *text) {
      static_cast<std::string *>(text)->append(part.data, part.length);
    };
    mlirDiagnosticPrint(diagnostic, append, text);
    return mlirLogicalResultSuccess();
  }
  MlirContext context;
  MlirDiagnosticHandlerID handler;
};

// What a C function makes, as an object of its class; a ValueError with the verifier's message where it makes null.
template <typename Make> static nb::object checked(nb::object cls, MlirContext context, Make make) {
  Errors errors(context);
  auto made = make();
  if (!made.ptr)
    throw nb::value_error(errors.text.c_str());
  return cls(made);
}

// Nested tuples of integers, and of layouts where a permutation has them, as attributes.
static MlirAttribute tuple(MlirContext context, nb::handle value) {
  MlirAttribute attribute;
  int64_t integer;
  if (nb::try_cast(value, integer))
    return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), integer);
  if (nb::isinstance<nb::tuple>(value) || nb::isinstance<nb::list>(value)) {
    std::vector<MlirAttribute> elements;
    for (nb::handle element : value)
      elements.push_back(tuple(context, element));
    return mlirArrayAttrGet(context, elements.size(), elements.data());
  }
  if (nb::try_cast(value, attribute))
    return attribute;
  throw nb::type_error("expected 64-bit integers, attributes, or tuples of them");
}

// Pairs of a kind and a type, as two arrays.
struct Kinded {
  explicit Kinded(const std::vector<std::pair<int, MlirType>> &pairs) {
    for (auto &[kind, type] : pairs) {
      kinds.push_back(kind);
      types.push_back(type);
    }
  }
  LowtideKinded list() const { return {static_cast<intptr_t>(kinds.size()), kinds.data(), types.data()}; }
  std::vector<int> kinds;
  std::vector<MlirType> types;
};

static nb::tuple shapeOf(MlirType type) {
  return nb::make_tuple(lowtideShapeExtent(type, 0), lowtideShapeExtent(type, 1));
}

NB_MODULE(_lowtide, m) {
  m.doc() = "Registers the tile and sm dialects; typed attributes and types.";
  m.def("register_dialects", [](MlirDialectRegistry registry) { lowtideRegisterDialects(registry); });
  addOutline(m);

  mlir_attribute_subclass(m, "SwizzleAttr", lowtideIsSwizzle, lowtideSwizzleTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, int64_t bits, int64_t base, int64_t shift, MlirContext context) {
            return checked(cls, context, [&] { return lowtideMakeSwizzle(context, bits, base, shift); });
          },
          nb::arg("cls"), nb::arg("bits"), nb::arg("base"), nb::arg("shift"), nb::arg("context") = nb::none())
      .def_property_readonly("bms", [](MlirAttribute self) {
        int64_t bits, base, shift;
        lowtideSwizzleGet(self, &bits, &base, &shift);
        return nb::make_tuple(bits, base, shift);
      });
  mlir_attribute_subclass(m, "LayoutAttr", lowtideIsLayout, lowtideLayoutTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, nb::object shape, nb::object stride, std::optional<MlirAttribute> swizzle,
             MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeLayout(context, tuple(context, shape), tuple(context, stride), orNull(swizzle));
            });
          },
          nb::arg("cls"), nb::arg("shape"), nb::arg("stride"), nb::arg("swizzle") = nb::none(),
          nb::arg("context") = nb::none())
      .def_property_readonly("shape", &lowtideLayoutShape)
      .def_property_readonly("stride", &lowtideLayoutStride)
      .def_property_readonly("swizzle", [](MlirAttribute self) { return orNone(lowtideLayoutSwizzle(self)); });
  mlir_attribute_subclass(m, "ThreadValueAttr", lowtideIsThreadValue, lowtideThreadValueTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, nb::object threadShape, nb::object threadStride, nb::object valueShape,
             nb::object valueStride, MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeThreadValue(context, tuple(context, threadShape), tuple(context, threadStride),
                                            tuple(context, valueShape), tuple(context, valueStride));
            });
          },
          nb::arg("cls"), nb::arg("thread_shape"), nb::arg("thread_stride"), nb::arg("value_shape"),
          nb::arg("value_stride"), nb::arg("context") = nb::none())
      .def_property_readonly("thread_shape", [](MlirAttribute self) { return lowtideThreadValuePart(self, 0); })
      .def_property_readonly("thread_stride", [](MlirAttribute self) { return lowtideThreadValuePart(self, 1); })
      .def_property_readonly("value_shape", [](MlirAttribute self) { return lowtideThreadValuePart(self, 2); })
      .def_property_readonly("value_stride", [](MlirAttribute self) { return lowtideThreadValuePart(self, 3); });
  mlir_attribute_subclass(m, "ScheduleAttr", lowtideIsSchedule, lowtideScheduleTypeId)
      .def_property_readonly("fields", &lowtideScheduleFields)
      .def_classmethod("get", [](nb::object cls, MlirAttribute fields) {
        return checked(cls, mlirAttributeGetContext(fields), [&] { return lowtideScheduleGet(fields); });
      });
  mlir_attribute_subclass(m, "ProblemAttr", lowtideIsProblem, lowtideProblemTypeId)
      .def_property_readonly("layout", [](MlirAttribute self) { return text(lowtideProblemLayout(self)); })
      .def_property_readonly("types",
                             [](MlirAttribute self) {
                               nb::list types;
                               for (int i = 0; i < 3; ++i)
                                 types.append(lowtideProblemType(self, i));
                               return nb::tuple(types);
                             })
      .def_property_readonly("results",
                             [](MlirAttribute self) {
                               nb::list results;
                               for (intptr_t i = 0, e = lowtideProblemResultCount(self); i < e; ++i)
                                 results.append(nb::make_tuple(text(lowtideProblemResultKind(self, i)),
                                                               lowtideProblemResultType(self, i)));
                               return results;
                             })
      .def_property_readonly("operands",
                             [](MlirAttribute self) {
                               nb::list operands;
                               for (intptr_t i = 0, e = lowtideProblemOperandCount(self); i < e; ++i)
                                 operands.append(nb::make_tuple(text(lowtideProblemOperandKind(self, i)),
                                                                lowtideProblemOperandType(self, i)));
                               return operands;
                             })
      .def_property_readonly("swapped", &lowtideProblemSwapped)
      .def_property_readonly("fast", &lowtideProblemFast)
      .def_property_readonly("group", &lowtideProblemGroup)
      .def_property_readonly("precision", [](MlirAttribute self) { return text(lowtideProblemPrecision(self)); })
      .def_property_readonly("by_columns", &lowtideProblemByColumns)
      .def_property_readonly("empty",
                             [](MlirAttribute self) {
                               std::string letters;
                               for (intptr_t i = 0, e = lowtideProblemEmptyCount(self); i < e; ++i)
                                 letters += lowtideProblemEmpty(self, i).data[0];
                               return letters;
                             })
      .def_classmethod("get", [](nb::object cls, int layout, MlirType a, MlirType b, MlirType acc,
                                 const std::vector<std::pair<int, MlirType>> &results,
                                 const std::vector<std::pair<int, MlirType>> &operands, const std::string &empty,
                                 bool swapped, bool fast, bool byColumns, int64_t group, int precision) {
        return checked(cls, mlirTypeGetContext(a), [&] {
          Kinded ofResults(results), ofOperands(operands);
          return lowtideProblemGet(layout, a, b, acc, ofResults.list(), ofOperands.list(),
                                   mlirStringRefCreate(empty.data(), empty.size()), swapped, fast, byColumns, group,
                                   precision);
        });
      });
  mlir_attribute_subclass(m, "RasterAttr", lowtideIsRaster, lowtideRasterTypeId)
      .def_property_readonly("kind", [](MlirAttribute self) { return text(lowtideRasterKind(self)); })
      .def_property_readonly("group", &lowtideRasterGroup)
      .def_property_readonly("columns", &lowtideRasterColumns)
      .def_staticmethod("numbers_of", &lowtideRasterNumbersOf, nb::arg("kind"))
      .def_classmethod(
          "get",
          [](nb::object cls, int kind, int64_t group, int64_t columns, MlirContext context) {
            return checked(cls, context, [&] { return lowtideRasterGet(context, kind, group, columns); });
          },
          nb::arg("cls"), nb::arg("kind"), nb::arg("group") = 0, nb::arg("columns") = 0,
          nb::arg("context") = nb::none());
  mlir_attribute_subclass(m, "TiledMmaAttr", lowtideIsTiledMma, lowtideTiledMmaTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, std::string atom, std::vector<int64_t> atoms, nb::object permutation, nb::object order,
             MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeTiledMma(context, stringRef(atom), atoms.size(), atoms.data(),
                                         order.is_none() ? mlirAttributeGetNull() : nb::cast<MlirAttribute>(order),
                                         permutation.is_none() ? mlirAttributeGetNull() : tuple(context, permutation));
            });
          },
          nb::arg("cls"), nb::arg("atom"), nb::arg("atoms"), nb::arg("permutation") = nb::none(),
          nb::arg("order") = nb::none(), nb::arg("context") = nb::none())
      .def_property_readonly("atom", [](MlirAttribute self) { return text(lowtideTiledMmaAtom(self)); })
      .def_property_readonly("atoms", &lowtideTiledMmaAtoms)
      .def_property_readonly("order", [](MlirAttribute self) { return orNone(lowtideTiledMmaOrder(self)); })
      .def_property_readonly("permutation",
                             [](MlirAttribute self) { return orNone(lowtideTiledMmaPermutation(self)); });
  mlir_attribute_subclass(m, "TiledCopyAttr", lowtideIsTiledCopy, lowtideTiledCopyTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, std::string atom, MlirAttribute tv, MlirContext context) {
            return checked(cls, context, [&] { return lowtideMakeTiledCopy(context, stringRef(atom), tv); });
          },
          nb::arg("cls"), nb::arg("atom"), nb::arg("tv"), nb::arg("context") = nb::none())
      .def_property_readonly("atom", [](MlirAttribute self) { return text(lowtideTiledCopyAtom(self)); })
      .def_property_readonly("tv", &lowtideTiledCopyTv);

  mlir_type_subclass(m, "TileType", lowtideIsTile, lowtideTileTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, std::vector<int64_t> shape, MlirType elementType, MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeTile(context, shape.size(), shape.data(), elementType);
            });
          },
          nb::arg("cls"), nb::arg("shape"), nb::arg("element_type"), nb::arg("context") = nb::none())
      .def_property_readonly("shape", &shapeOf)
      .def_property_readonly("element_type", &lowtideElementType);
  mlir_type_subclass(m, "ViewType", lowtideIsView, lowtideViewTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, std::vector<int64_t> shape, MlirType elementType, MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeView(context, shape.size(), shape.data(), elementType);
            });
          },
          nb::arg("cls"), nb::arg("shape"), nb::arg("element_type"), nb::arg("context") = nb::none())
      .def_property_readonly("shape", &shapeOf)
      .def_property_readonly("element_type", &lowtideElementType);
  mlir_type_subclass(m, "FragmentType", lowtideIsFragment, lowtideFragmentTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, std::vector<int64_t> shape, MlirType elementType, MlirAttribute tv, MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeFragment(context, shape.size(), shape.data(), elementType, tv);
            });
          },
          nb::arg("cls"), nb::arg("shape"), nb::arg("element_type"), nb::arg("tv"), nb::arg("context") = nb::none())
      .def_property_readonly("shape", &shapeOf)
      .def_property_readonly("element_type", &lowtideElementType)
      .def_property_readonly("tv", &lowtideFragmentTv);
  mlir_type_subclass(m, "PendingType", lowtideIsPending, lowtidePendingTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, MlirType fragment, MlirContext context) {
            return checked(cls, context, [&] { return lowtideMakePending(context, fragment); });
          },
          nb::arg("cls"), nb::arg("fragment"), nb::arg("context") = nb::none())
      .def_property_readonly("fragment", &lowtidePendingFragment);
  mlir_type_subclass(m, "RetiredType", lowtideIsRetired, lowtideRetiredTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, MlirContext context) {
            return checked(cls, context, [&] { return lowtideMakeRetired(context); });
          },
          nb::arg("cls"), nb::arg("context") = nb::none());
  mlir_type_subclass(m, "TensorMapType", lowtideIsTensorMap, lowtideTensorMapTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, std::vector<int64_t> shape, MlirType elementType, std::optional<MlirAttribute> swizzle,
             MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeTensorMap(context, shape.size(), shape.data(), elementType, orNull(swizzle));
            });
          },
          nb::arg("cls"), nb::arg("shape"), nb::arg("element_type"), nb::arg("swizzle") = nb::none(),
          nb::arg("context") = nb::none())
      .def_property_readonly("shape",
                             [](MlirType self) {
                               nb::list sides;
                               for (int i = 0, e = lowtideTensorMapRank(self); i < e; ++i)
                                 sides.append(lowtideShapeExtent(self, i));
                               return nb::tuple(sides);
                             })
      .def_property_readonly("element_type", &lowtideElementType)
      .def_property_readonly("swizzle", [](MlirType self) { return orNone(lowtideTensorMapSwizzle(self)); });
  mlir_type_subclass(m, "MbarriersType", lowtideIsMbarriers, lowtideMbarriersTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, int64_t count, MlirContext context) {
            return checked(cls, context, [&] { return lowtideMakeMbarriers(context, count); });
          },
          nb::arg("cls"), nb::arg("count"), nb::arg("context") = nb::none())
      .def_property_readonly("count", &lowtideMbarriersCount);
  mlir_type_subclass(m, "SlotType", lowtideIsSlot, lowtideSlotTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, uint32_t use, MlirContext context) {
            return checked(cls, context, [&] { return lowtideMakeSlot(context, use); });
          },
          nb::arg("cls"), nb::arg("use"), nb::arg("context") = nb::none())
      .def_property_readonly("use", [](MlirType self) { return text(lowtideSlotUse(self)); });
  mlir_type_subclass(m, "RingType", lowtideIsRing, lowtideRingTypeId)
      .def_classmethod(
          "get",
          [](nb::object cls, int64_t stages, std::vector<MlirType> buffers, MlirContext context) {
            return checked(cls, context, [&] {
              return lowtideMakeRing(context, stages, buffers.size(), buffers.data());
            });
          },
          nb::arg("cls"), nb::arg("stages"), nb::arg("buffers"), nb::arg("context") = nb::none())
      .def_property_readonly("stages", &lowtideRingStages)
      .def_property_readonly("buffers", [](MlirType self) {
        nb::list buffers;
        for (intptr_t i = 0, e = lowtideRingBufferCount(self); i < e; ++i)
          buffers.append(lowtideRingBuffer(self, i));
        return buffers;
      });
}
