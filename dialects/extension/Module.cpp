// The Python module: registers the dialects and gives typed access to their attributes and types.
#include "CAPI.h"
#include "Outline.h"
#include "Positions.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mlir::python::nanobind_adaptors;

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

// A value of a field, as Python gives it, as an attribute; null for None.
static MlirAttribute toAttribute(MlirContext context, nb::handle value) {
  if (value.is_none())
    return mlirAttributeGetNull();
  if (nb::isinstance<nb::bool_>(value))
    return mlirBoolAttrGet(context, nb::cast<bool>(value));
  int64_t integer;
  if (nb::try_cast(value, integer))
    return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), integer);
  if (nb::isinstance<nb::str>(value)) {
    auto text = nb::cast<std::string>(value);
    return mlirStringAttrGet(context, mlirStringRefCreate(text.data(), text.size()));
  }
  if (nb::isinstance<nb::tuple>(value) || nb::isinstance<nb::list>(value)) {
    std::vector<MlirAttribute> elements;
    for (nb::handle element : value)
      elements.push_back(toAttribute(context, element));
    return mlirArrayAttrGet(context, elements.size(), elements.data());
  }
  nb::module_ ir = nb::module_::import_("mlir.ir");
  if (nb::isinstance(value, ir.attr("Type")))
    return mlirTypeAttrGet(nb::cast<MlirType>(value));
  if (nb::isinstance(value, ir.attr("Attribute")))
    return nb::cast<MlirAttribute>(value);
  throw nb::type_error("expected 64-bit integers, strings, types, attributes, or tuples of them");
}

// The inverse.
static nb::object toPython(MlirAttribute attribute) {
  if (mlirAttributeIsNull(attribute))
    return nb::none();
  if (mlirAttributeIsABool(attribute))
    return nb::bool_(mlirBoolAttrGetValue(attribute));
  if (mlirAttributeIsAInteger(attribute))
    return nb::int_(mlirIntegerAttrGetValueInt(attribute));
  if (mlirAttributeIsAString(attribute)) {
    MlirStringRef text = mlirStringAttrGetValue(attribute);
    return nb::str(text.data, text.length);
  }
  if (mlirAttributeIsAType(attribute))
    return nb::cast(mlirTypeAttrGetValue(attribute));
  nb::list elements;
  if (mlirAttributeIsAArray(attribute)) {
    for (intptr_t i = 0, e = mlirArrayAttrGetNumElements(attribute); i < e; ++i)
      elements.append(toPython(mlirArrayAttrGetElement(attribute, i)));
    return nb::tuple(elements);
  }
  if (mlirAttributeIsADenseI64Array(attribute)) {
    for (intptr_t i = 0, e = mlirDenseArrayGetNumElements(attribute); i < e; ++i)
      elements.append(mlirDenseI64ArrayGetElement(attribute, i));
    return nb::tuple(elements);
  }
  return nb::cast(attribute);
}

// `get` of a class: its fields by position or by name; ValueError, with the verifier's message, if they do not verify.
static nb::object make(const LowtideKind &kind, nb::object cls, nb::args positional, nb::kwargs named) {
  auto context = nb::cast<MlirContext>(named.contains("context") ? nb::object(named["context"]) : nb::none());
  size_t known = positional.size() + named.contains("context");
  std::vector<MlirAttribute> values;
  for (intptr_t i = 0; i < kind.count; ++i) {
    bool isNamed = named.contains(kind.fields[i]), isPlaced = i < static_cast<intptr_t>(positional.size());
    known += isNamed && !isPlaced;
    nb::object value = isPlaced ? nb::object(positional[i]) : isNamed ? nb::object(named[kind.fields[i]]) : nb::none();
    values.push_back(toAttribute(context, value));
  }
  if (known != positional.size() + named.size() || static_cast<intptr_t>(positional.size()) > kind.count)
    throw nb::type_error((std::string(kind.name) + ".get has no such parameter, or gives one twice").c_str());
  Errors errors(context);
  MlirAttribute made = kind.make(context, values.data());
  if (mlirAttributeIsNull(made))
    throw nb::value_error(errors.text.c_str());
  return kind.isType ? cls(mlirTypeAttrGetValue(made)) : cls(made);
}

template <typename Class> static void define(Class cls, const LowtideKind &kind) {
  for (intptr_t field = 0; field < kind.count; ++field)
    cls.def_property_readonly(kind.fields[field], [&kind, field](nb::object self) {
      return toPython(kind.get(kind.isType ? mlirTypeAttrGet(nb::cast<MlirType>(self)) : nb::cast<MlirAttribute>(self),
                               field));
    });
  cls.def_classmethod("get", [&kind](nb::object cls, nb::args positional, nb::kwargs named) {
    return make(kind, cls, positional, named);
  });
}

// The ops with a name, at and below `root`, outer before inner. `math.*` stands for each name with that prefix.
static std::vector<MlirOperation> opsNamed(MlirOperation root, std::string_view name) {
  struct Search {
    std::string_view name;
    size_t star;
    std::vector<MlirOperation> found;
  } search{name, name.find('*'), {}};
  auto visit = [](MlirOperation op, void *data) {
    auto &search = *static_cast<Search *>(data);
    MlirStringRef own = mlirIdentifierStr(mlirOperationGetName(op));
    if (std::string_view(own.data, own.length).substr(0, search.star) == search.name.substr(0, search.star))
      search.found.push_back(op);
    return MlirWalkResultAdvance;
  };
  mlirOperationWalk(root, visit, &search, MlirWalkPreOrder);
  return search.found;
}

// The names of an op and of the ops below it, each once.
static std::set<std::string_view> opNames(MlirOperation root) {
  std::set<std::string_view> names;
  auto visit = [](MlirOperation op, void *names) {
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
    static_cast<std::set<std::string_view> *>(names)->emplace(name.data, name.length);
    return MlirWalkResultAdvance;
  };
  mlirOperationWalk(root, visit, &names, MlirWalkPreOrder);
  return names;
}

// (module or None, ops: (name, place, whole), definitions: (place, uses, meaning))
static nb::tuple positions(const std::string &text, const std::string &file, MlirContext context) {
  LowtidePositions found = lowtidePositions(context, text, file);
  nb::list ops, definitions;
  for (const LowtideOpPlace &op : found.ops)
    ops.append(nb::make_tuple(op.name, op.place, op.whole));
  for (const LowtideDefinition &each : found.definitions)
    definitions.append(nb::make_tuple(each.place, each.uses, each.meaning));
  nb::object module = found.module.ptr ? nb::cast(found.module) : nb::none();
  return nb::make_tuple(module, ops, definitions);
}

NB_MODULE(_lowtide, m) {
  m.doc() = "Registers the tile and sm dialects; typed attributes and types.";
  m.def("register_dialects", [](MlirDialectRegistry registry) { lowtideRegisterDialects(registry); });
  m.def("numbers_of_order", &lowtideNumbersOfOrder);
  m.def("ops_named", &opsNamed,
        "The ops with a name, at and below an op, outer before inner. `math.*` stands for each name with that prefix.");
  m.def("op_names", &opNames, "The names of an op and of the ops below it, each once.");
  m.def("positions", &positions, "The module of a text, and where its ops and definitions are, in bytes.");
  m.def("known_ops", &lowtideKnownOps, "The names of all ops of the dialects that a context has loaded.");
  addOutline(m);
  intptr_t count;
  const LowtideKind *kinds = lowtideKinds(&count);
  for (const LowtideKind *kind = kinds; kind != kinds + count; ++kind)
    if (kind->isType)
      define(mlir_type_subclass(m, kind->name, kind->isType, kind->typeId), *kind);
    else
      define(mlir_attribute_subclass(m, kind->name, kind->isAttribute, kind->typeId), *kind);
}
