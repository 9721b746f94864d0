// The fields of attributes and types, listed once for each: Python reads and makes them by name (CAPI.cpp), and the
// parts of a schedule are parsed and printed by these lists (TileSchedule.cpp).
#ifndef LOWTIDE_DIALECTS_EXTENSION_FIELDS_H
#define LOWTIDE_DIALECTS_EXTENSION_FIELDS_H

#include "mlir/IR/Builders.h"

#include <tuple>

namespace lowtide::fields {
using namespace mlir;

// `form` is what messages show: the names of the numbers, or an example.
template <typename Get> struct Field {
  StringLiteral name;
  Get get;
  bool isOptional;
  StringLiteral form;
};
template <typename Get> constexpr Field<Get> field(StringLiteral name, Get get) { return {name, get, false, ""}; }
template <typename Get> constexpr Field<Get> optional(StringLiteral name, Get get, StringLiteral form = "") {
  return {name, get, true, form};
}

// Specialized for each attribute and type: `list()` is a tuple of its fields, in the order of its parameters.
template <typename T> struct FieldsOf;

template <typename V> struct Owned {
  using Value = V;
};
template <typename E> struct Owned<ArrayRef<E>> {
  using Value = SmallVector<E>;
};
template <typename T, typename Get>
using ValueOf = typename Owned<std::decay_t<std::invoke_result_t<Get, const T &>>>::Value;
template <typename T, typename... Gets> std::tuple<ValueOf<T, Gets>...> valuesFor(const std::tuple<Field<Gets>...> &);
// A value for each field.
template <typename T> using Values = decltype(valuesFor<T>(FieldsOf<T>::list()));

template <typename T> Values<T> valuesOf(T whole) {
  return std::apply([&](const auto &...field) { return Values<T>((whole.*field.get)()...); }, FieldsOf<T>::list());
}

// Calls `body(field, value)` for each field.
template <typename T, typename Body> void forEach(Values<T> &values, Body &&body) {
  std::apply(
      [&](const auto &...field) { std::apply([&](auto &...value) { (body(field, value), ...); }, values); },
      FieldsOf<T>::list());
}

template <typename V> const V &view(const V &value) { return value; }
template <typename E> ArrayRef<E> view(const SmallVector<E> &value) { return value; }

template <typename T, typename = void> struct HasVerifier : std::false_type {};
template <typename T> struct HasVerifier<T, std::void_t<decltype(&T::verify)>> : std::true_type {};

// Null, with an error, for values that do not verify.
template <typename T>
T make(function_ref<InFlightDiagnostic()> emitError, MLIRContext *context, const Values<T> &values) {
  return std::apply(
      [&](const auto &...value) {
        if constexpr (HasVerifier<T>::value)
          if (failed(T::verify(emitError, view(value)...)))
            return T();
        return T::get(context, view(value)...);
      },
      values);
}

template <typename V> struct IsOptional : std::false_type {};
template <typename V> struct IsOptional<std::optional<V>> : std::true_type {};

// A value as a builtin attribute: words are strings, types and lists attributes of such. Null for a value that is absent.
template <typename V> Attribute toAttribute(MLIRContext *context, const V &value) {
  if constexpr (std::is_base_of_v<Attribute, V>)
    return value;
  else if constexpr (std::is_base_of_v<Type, V>)
    return TypeAttr::get(value);
  else if constexpr (std::is_same_v<V, bool>)
    return BoolAttr::get(context, value);
  else if constexpr (std::is_integral_v<V>)
    return Builder(context).getI64IntegerAttr(value);
  else if constexpr (std::is_enum_v<V>)
    return StringAttr::get(context, stringifyEnum(value));
  else if constexpr (IsOptional<V>::value)
    return value ? toAttribute(context, *value) : Attribute();
  else
    return ArrayAttr::get(context, llvm::map_to_vector(value, [&](auto each) { return toAttribute(context, each); }));
}

// The inverse; a word may be given as its number, and a DenseI64ArrayAttr as a list. False for an attribute of another
// kind.
template <typename V> bool fromAttribute(Attribute given, V &value) {
  if constexpr (std::is_same_v<V, DenseI64ArrayAttr>) {
    SmallVector<int64_t> numbers;
    if (fromAttribute(given, numbers))
      value = DenseI64ArrayAttr::get(given.getContext(), numbers);
    else
      value = dyn_cast<DenseI64ArrayAttr>(given);
    return bool(value);
  } else if constexpr (std::is_base_of_v<Attribute, V>) {
    return bool(value = dyn_cast<V>(given));
  } else if constexpr (std::is_base_of_v<Type, V>) {
    auto type = dyn_cast<TypeAttr>(given);
    return bool(value = type ? dyn_cast<V>(type.getValue()) : V());
  } else if constexpr (std::is_integral_v<V>) {
    auto number = dyn_cast<IntegerAttr>(given);
    if (number)
      value = number.getInt();
    return bool(number);
  } else if constexpr (std::is_enum_v<V>) {
    auto word = dyn_cast<StringAttr>(given);
    auto number = dyn_cast<IntegerAttr>(given);
    for (int64_t index = 0; !stringifyEnum(static_cast<V>(index)).empty(); ++index)
      if ((word && word == stringifyEnum(static_cast<V>(index))) || (number && number.getInt() == index)) {
        value = static_cast<V>(index);
        return true;
      }
    return false;
  } else if constexpr (IsOptional<V>::value) {
    return fromAttribute(given, value.emplace());
  } else {
    auto list = dyn_cast<ArrayAttr>(given);
    return list && llvm::all_of(list, [&](Attribute each) { return fromAttribute(each, value.emplace_back()); });
  }
}
} // namespace lowtide::fields

#endif // LOWTIDE_DIALECTS_EXTENSION_FIELDS_H
