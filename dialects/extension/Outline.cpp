// An op and all that is in it, numbered: what an interpreter needs of IR, without a Python object for each value.
#include "Outline.h"

#include "mlir-c/IR.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"

#include <nanobind/stl/string.h>

#include <unordered_map>
#include <vector>

namespace nb = nanobind;

namespace {

// Ops in the order of the text, values and types in that in which they are first met. Lives no longer than its module.
class Outline {
public:
  explicit Outline(MlirOperation root) { regions = regionsOf(root); }

  MlirOperation operation(size_t number) const { return operations.at(number); }

  // A number that is equal for equal attributes; 0 where the op has none of this name.
  uintptr_t attributeNumber(size_t number, const std::string &name) const {
    MlirAttribute found = mlirOperationGetAttributeByName(operations.at(number), mlirStringRefCreate(name.data(), name.size()));
    return reinterpret_cast<uintptr_t>(found.ptr);
  }
  MlirAttribute attribute(uintptr_t number) const { return MlirAttribute{reinterpret_cast<const void *>(number)}; }

  size_t values() const { return valueTypes.size(); }

  nb::list regions;
  nb::list types;               // each once
  std::vector<int> valueTypes;  // by value: the number of its type

private:
  int numberOf(MlirValue value) {
    auto [found, isNew] = numbers.try_emplace(value.ptr, numbers.size());
    if (isNew) {
      MlirType type = mlirValueGetType(value);
      auto [known, isNewType] = typeNumbers.try_emplace(type.ptr, typeNumbers.size());
      if (isNewType)
        types.append(type);
      valueTypes.push_back(known->second);
    }
    return found->second;
  }

  // A tuple of the numbers of `count` values.
  template <typename Get> nb::tuple numbersOf(intptr_t count, Get get) {
    if (!count)
      return empty;
    nb::list found;
    for (intptr_t i = 0; i < count; ++i)
      found.append(numberOf(get(i)));
    return nb::tuple(found);
  }

  nb::object nameOf(MlirOperation op) {
    MlirIdentifier name = mlirOperationGetName(op);
    auto [found, isNew] = names.try_emplace(name.ptr);
    if (isNew) {
      MlirStringRef text = mlirIdentifierStr(name);
      found->second = nb::str(text.data, text.length);
    }
    return found->second;
  }

  // Of each region its blocks: (arguments, ops).
  nb::list regionsOf(MlirOperation op) {
    nb::list found;
    for (intptr_t i = 0, e = mlirOperationGetNumRegions(op); i < e; ++i) {
      nb::list blocks;
      std::unordered_map<const void *, int> places;
      MlirRegion region = mlirOperationGetRegion(op, i);
      for (MlirBlock block = mlirRegionGetFirstBlock(region); block.ptr; block = mlirBlockGetNextInRegion(block))
        places.try_emplace(block.ptr, places.size());
      for (MlirBlock block = mlirRegionGetFirstBlock(region); block.ptr; block = mlirBlockGetNextInRegion(block)) {
        nb::tuple arguments = numbersOf(mlirBlockGetNumArguments(block), [&](intptr_t at) { return mlirBlockGetArgument(block, at); });
        nb::list ops;
        for (MlirOperation each = mlirBlockGetFirstOperation(block); each.ptr; each = mlirOperationGetNextInBlock(each))
          ops.append(entryOf(each, places));
        blocks.append(nb::make_tuple(arguments, ops));
      }
      found.append(blocks);
    }
    return found;
  }

  // (number, name, operands, results, regions, successors by their number in the region)
  nb::tuple entryOf(MlirOperation op, const std::unordered_map<const void *, int> &places) {
    size_t number = operations.size();
    operations.push_back(op);
    nb::tuple operands = numbersOf(mlirOperationGetNumOperands(op), [&](intptr_t at) { return mlirOperationGetOperand(op, at); });
    nb::tuple results = numbersOf(mlirOperationGetNumResults(op), [&](intptr_t at) { return mlirOperationGetResult(op, at); });
    nb::object regions = empty, successors = empty;
    if (mlirOperationGetNumRegions(op))
      regions = regionsOf(op);
    if (intptr_t count = mlirOperationGetNumSuccessors(op)) {
      nb::list numbers;
      for (intptr_t i = 0; i < count; ++i)
        numbers.append(places.at(mlirOperationGetSuccessor(op, i).ptr));
      successors = numbers;
    }
    return nb::make_tuple(number, nameOf(op), operands, results, regions, successors);
  }

  nb::tuple empty = nb::make_tuple();
  std::vector<MlirOperation> operations;
  std::unordered_map<const void *, int> numbers, typeNumbers;
  std::unordered_map<const void *, nb::object> names;
};

} // namespace

void addOutline(nb::module_ &m) {
  nb::class_<Outline>(m, "Outline")
      .def(nb::init<MlirOperation>())
      .def("operation", &Outline::operation)
      .def("attribute_number", &Outline::attributeNumber)
      .def("attribute", &Outline::attribute)
      .def_prop_ro("values", &Outline::values)
      .def_ro("regions", &Outline::regions)
      .def_ro("types", &Outline::types)
      .def_prop_ro("value_types", [](const Outline &self) {
        nb::list found;
        for (int type : self.valueTypes)
          found.append(type);
        return found;
      });
}
