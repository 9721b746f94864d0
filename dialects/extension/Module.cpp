// The Python module: registers the dialects and gives typed access to their attributes and types.
#include "CAPI.h"

#include "mlir-c/IR.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mlir::python::nanobind_adaptors;

static std::string text(MlirStringRef ref) { return std::string(ref.data, ref.length); }

// None for a null attribute.
static nb::object orNone(MlirAttribute attribute) {
  return mlirAttributeIsNull(attribute) ? nb::none() : nb::cast(attribute);
}

// Raises ValueError for a null attribute; why stands in the diagnostics of the context.
static MlirAttribute orInvalid(MlirAttribute attribute, const char *what) {
  if (mlirAttributeIsNull(attribute))
    throw nb::value_error(what);
  return attribute;
}

static nb::tuple shapeOf(MlirType type) {
  return nb::make_tuple(lowtideShapeExtent(type, 0), lowtideShapeExtent(type, 1));
}

NB_MODULE(_lowtide, m) {
  m.doc() = "Registers the tile and sm dialects; typed attributes and types.";
  m.def("register_dialects", [](MlirDialectRegistry registry) { lowtideRegisterDialects(registry); });

  mlir_attribute_subclass(m, "SwizzleAttr", lowtideIsSwizzle, lowtideSwizzleTypeId)
      .def_property_readonly("bms", [](MlirAttribute self) {
        int64_t bits, base, shift;
        lowtideSwizzleGet(self, &bits, &base, &shift);
        return nb::make_tuple(bits, base, shift);
      });
  mlir_attribute_subclass(m, "LayoutAttr", lowtideIsLayout, lowtideLayoutTypeId)
      .def_property_readonly("shape", &lowtideLayoutShape)
      .def_property_readonly("stride", &lowtideLayoutStride)
      .def_property_readonly("swizzle", [](MlirAttribute self) { return orNone(lowtideLayoutSwizzle(self)); });
  mlir_attribute_subclass(m, "ThreadValueAttr", lowtideIsThreadValue, lowtideThreadValueTypeId)
      .def_property_readonly("thread_shape", [](MlirAttribute self) { return lowtideThreadValuePart(self, 0); })
      .def_property_readonly("thread_stride", [](MlirAttribute self) { return lowtideThreadValuePart(self, 1); })
      .def_property_readonly("value_shape", [](MlirAttribute self) { return lowtideThreadValuePart(self, 2); })
      .def_property_readonly("value_stride", [](MlirAttribute self) { return lowtideThreadValuePart(self, 3); });
  mlir_attribute_subclass(m, "ScheduleAttr", lowtideIsSchedule, lowtideScheduleTypeId)
      .def_property_readonly("fields", &lowtideScheduleFields)
      .def_classmethod("get", [](nb::object cls, MlirAttribute fields) {
        return cls(orInvalid(lowtideScheduleGet(fields), "not the fields of a schedule"));
      });
  mlir_attribute_subclass(m, "ProblemAttr", lowtideIsProblem, lowtideProblemTypeId)
      .def_property_readonly("layout", [](MlirAttribute self) { return text(lowtideProblemLayout(self)); })
      .def_property_readonly("types",
                             [](MlirAttribute self) {
                               nb::list types;
                               for (int i = 0; i < 4; ++i)
                                 types.append(lowtideProblemType(self, i));
                               return nb::tuple(types);
                             })
      .def_property_readonly("operands",
                             [](MlirAttribute self) {
                               nb::list operands;
                               for (intptr_t i = 0, e = lowtideProblemOperandCount(self); i < e; ++i)
                                 operands.append(nb::make_tuple(text(lowtideProblemOperandKind(self, i)),
                                                                lowtideProblemOperandType(self, i)));
                               return operands;
                             })
      .def_classmethod("get", [](nb::object cls, int layout, MlirType a, MlirType b, MlirType acc, MlirType d,
                                 const std::vector<int> &kinds, const std::vector<MlirType> &operands) {
        if (kinds.size() != operands.size())
          throw nb::value_error("as many kinds as operands");
        return cls(orInvalid(lowtideProblemGet(layout, a, b, acc, d, kinds.size(), kinds.data(), operands.data()),
                             "not a problem"));
      });
  mlir_attribute_subclass(m, "RasterAttr", lowtideIsRaster, lowtideRasterTypeId)
      .def_property_readonly("kind", [](MlirAttribute self) { return text(lowtideRasterKind(self)); })
      .def_property_readonly("group", &lowtideRasterGroup)
      .def_property_readonly("columns", &lowtideRasterColumns)
      .def_classmethod(
          "get",
          [](nb::object cls, int kind, int64_t group, int64_t columns, MlirContext context) {
            return cls(orInvalid(lowtideRasterGet(context, kind, group, columns), "not a rasterization order"));
          },
          nb::arg("cls"), nb::arg("kind"), nb::arg("group") = 0, nb::arg("columns") = 0,
          nb::arg("context") = nb::none());
  mlir_attribute_subclass(m, "TiledMmaAttr", lowtideIsTiledMma, lowtideTiledMmaTypeId)
      .def_property_readonly("atom", [](MlirAttribute self) { return text(lowtideTiledMmaAtom(self)); })
      .def_property_readonly("atoms", &lowtideTiledMmaAtoms)
      .def_property_readonly("permutation", [](MlirAttribute self) { return orNone(lowtideTiledMmaPermutation(self)); });
  mlir_attribute_subclass(m, "TiledCopyAttr", lowtideIsTiledCopy, lowtideTiledCopyTypeId)
      .def_property_readonly("atom", [](MlirAttribute self) { return text(lowtideTiledCopyAtom(self)); })
      .def_property_readonly("tv", &lowtideTiledCopyTv);

  mlir_type_subclass(m, "TileType", lowtideIsTile, lowtideTileTypeId)
      .def_property_readonly("shape", &shapeOf)
      .def_property_readonly("element_type", &lowtideElementType);
  mlir_type_subclass(m, "ViewType", lowtideIsView, lowtideViewTypeId)
      .def_property_readonly("shape", &shapeOf)
      .def_property_readonly("element_type", &lowtideElementType);
  mlir_type_subclass(m, "FragmentType", lowtideIsFragment, lowtideFragmentTypeId)
      .def_property_readonly("shape", &shapeOf)
      .def_property_readonly("element_type", &lowtideElementType)
      .def_property_readonly("tv", &lowtideFragmentTv);
  mlir_type_subclass(m, "PendingType", lowtideIsPending, lowtidePendingTypeId)
      .def_property_readonly("fragment", &lowtidePendingFragment);
  mlir_type_subclass(m, "RetiredType", lowtideIsRetired, lowtideRetiredTypeId);
  mlir_type_subclass(m, "TensorMapType", lowtideIsTensorMap, lowtideTensorMapTypeId)
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
      .def_property_readonly("count", &lowtideMbarriersCount);
  mlir_type_subclass(m, "SlotType", lowtideIsSlot, lowtideSlotTypeId)
      .def_property_readonly("use", [](MlirType self) { return text(lowtideSlotUse(self)); });
  mlir_type_subclass(m, "RingType", lowtideIsRing, lowtideRingTypeId)
      .def_property_readonly("stages", &lowtideRingStages)
      .def_property_readonly("buffers", [](MlirType self) {
        nb::list buffers;
        for (intptr_t i = 0, e = lowtideRingBufferCount(self); i < e; ++i)
          buffers.append(lowtideRingBuffer(self, i));
        return buffers;
      });
}
