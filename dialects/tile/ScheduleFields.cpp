// `#tile.schedule` as a dictionary of builtin attributes, which Python reads and builds it by.
#include "ScheduleParts.h"

using namespace mlir;
using namespace lowtide::tile;
using namespace lowtide::tile::parts;

namespace {
template <typename Part> DictionaryAttr toDictionary(typename Part::Attr attribute);

// Builtin attributes only: words are strings, swizzles [B, M, S], orders and divisions of K [word, numbers …].
struct Write {
  Builder builder;
  NamedAttrList entries;

  void add(StringRef field, Attribute value) { entries.append(field, value); }
  void extents(StringRef field, DenseI64ArrayAttr slot, size_t, StringRef) {
    if (slot)
      add(field, slot);
  }
  void integer(StringRef field, std::optional<int64_t> slot) {
    if (slot)
      add(field, builder.getI64IntegerAttr(*slot));
  }
  void atom(StringRef field, StringAttr slot, StringRef) {
    if (slot)
      add(field, slot);
  }
  template <typename Enum> void word(StringRef field, std::optional<Enum> slot) {
    if (slot)
      add(field, builder.getStringAttr(stringifyEnum(*slot)));
  }
  void value(StringRef field, SwizzleAttr slot) {
    if (slot)
      add(field, builder.getDenseI64ArrayAttr({slot.getBits(), slot.getBase(), slot.getShift()}));
  }
  void call(StringRef field, StringRef word, ArrayRef<int64_t> numbers) {
    add(field, builder.getArrayAttr({builder.getStringAttr(word), builder.getDenseI64ArrayAttr(numbers)}));
  }
  void value(StringRef field, RasterAttr slot) {
    if (slot)
      call(field, stringifyRasterKind(slot.getKind()), {slot.getGroup(), slot.getColumns()});
  }
  void value(StringRef field, KDivisionAttr slot) {
    if (slot)
      call(field, stringifyKDivisionKind(slot.getKind()), {slot.getParts()});
  }
  void value(StringRef field, LayoutAttr slot) { permutation(field, slot); }
  void permutation(StringRef field, Attribute slot) {
    if (slot)
      add(field, slot);
  }
  template <typename Part, typename Attr> void part(StringRef field, Attr slot) {
    if (slot)
      add(field, toDictionary<Part>(slot));
  }
  void roles(StringRef, AgentsAttr) {}
  void registers(StringRef, AgentsAttr) {}
};

template <typename Part> DictionaryAttr toDictionary(typename Part::Attr attribute) {
  Write writer{Builder(attribute.getContext()), {}};
  Part(attribute).visit(writer);
  return writer.entries.getDictionary(attribute.getContext());
}

template <typename Part>
typename Part::Attr fromDictionary(DictionaryAttr fields, function_ref<InFlightDiagnostic()> emitError);

// The inverse of `Write`. What Python hands over has the right types already; anything else is an error without form.
struct Read {
  DictionaryAttr fields;
  function_ref<InFlightDiagnostic()> emitError;
  bool ok = true;
  size_t found = 0;

  template <typename T> T get(StringRef field) {
    Attribute value = fields.get(field);
    if (!value)
      return {};
    ++found;
    T typed = dyn_cast<T>(value);
    if (!typed)
      fail(field, value);
    return typed;
  }
  void fail(StringRef field, Attribute value) {
    emitError() << "schedule field '" << field << "' does not take " << value << " [field-value]";
    ok = false;
  }
  void extents(StringRef field, DenseI64ArrayAttr &slot, size_t count, StringRef) {
    slot = get<DenseI64ArrayAttr>(field);
    if (slot && static_cast<size_t>(slot.size()) != count)
      fail(field, slot);
  }
  void integer(StringRef field, std::optional<int64_t> &slot) {
    if (auto value = get<IntegerAttr>(field))
      slot = value.getInt();
  }
  void atom(StringRef field, StringAttr &slot, StringRef) { slot = get<StringAttr>(field); }
  template <typename Enum> void word(StringRef field, std::optional<Enum> &slot) {
    if (auto value = get<StringAttr>(field))
      if (!(slot = symbolizeEnum<Enum>(value.getValue())))
        fail(field, value);
  }
  void value(StringRef field, SwizzleAttr &slot) {
    DenseI64ArrayAttr bits;
    extents(field, bits, 3, "");
    if (bits && ok)
      ok = bool(slot = SwizzleAttr::getChecked(emitError, fields.getContext(), bits[0], bits[1], bits[2]));
  }
  // The word and the numbers of an order or a division; no numbers where the field is absent or wrong.
  template <typename Enum> std::pair<std::optional<Enum>, ArrayRef<int64_t>> call(StringRef field, size_t count) {
    auto pair = get<ArrayAttr>(field);
    auto word = pair && pair.size() == 2 ? dyn_cast<StringAttr>(pair[0]) : StringAttr();
    auto numbers = word ? dyn_cast<DenseI64ArrayAttr>(pair[1]) : DenseI64ArrayAttr();
    std::optional<Enum> kind = word ? symbolizeEnum<Enum>(word.getValue()) : std::nullopt;
    if (pair && (!kind || !numbers || static_cast<size_t>(numbers.size()) != count))
      fail(field, pair);
    return {ok ? kind : std::nullopt, numbers ? numbers.asArrayRef() : ArrayRef<int64_t>()};
  }
  void value(StringRef field, RasterAttr &slot) {
    auto [kind, numbers] = call<RasterKind>(field, 2);
    if (kind)
      ok = bool(slot = RasterAttr::getChecked(emitError, fields.getContext(), *kind, numbers[0], numbers[1]));
  }
  void value(StringRef field, KDivisionAttr &slot) {
    auto [kind, numbers] = call<KDivisionKind>(field, 1);
    if (kind)
      ok = bool(slot = KDivisionAttr::getChecked(emitError, fields.getContext(), *kind, numbers[0]));
  }
  void value(StringRef field, LayoutAttr &slot) { slot = get<LayoutAttr>(field); }
  void permutation(StringRef field, Attribute &slot) {
    auto modes = get<ArrayAttr>(field);
    if (modes && (modes.size() != 3 || !llvm::all_of(modes, llvm::IsaPred<IntegerAttr, LayoutAttr>)))
      fail(field, modes);
    slot = modes;
  }
  template <typename Part, typename Attr> void part(StringRef field, Attr &slot) {
    if (auto nested = get<DictionaryAttr>(field))
      ok = bool(slot = fromDictionary<Part>(nested, emitError)) && ok;
  }
  void roles(StringRef, AgentsAttr) {}
  void registers(StringRef, AgentsAttr) {}
};

template <typename Part>
typename Part::Attr fromDictionary(DictionaryAttr fields, function_ref<InFlightDiagnostic()> emitError) {
  Part part;
  Read reader{fields, emitError};
  part.visit(reader);
  if (reader.ok && reader.found != fields.size())
    emitError() << Part::name << " has other fields than those given: " << fields << " [part-fields]";
  return reader.ok && reader.found == fields.size() ? part.build(fields.getContext()) : typename Part::Attr();
}
} // namespace

DictionaryAttr lowtide::tile::fieldsOf(ScheduleAttr schedule) { return toDictionary<Schedule>(schedule); }

ScheduleAttr lowtide::tile::scheduleOf(DictionaryAttr fields, function_ref<InFlightDiagnostic()> emitError) {
  return fromDictionary<Schedule>(fields, emitError);
}
