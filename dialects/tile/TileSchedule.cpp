// #tile.schedule: the table of its fields, and how their values are parsed and printed.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

namespace {
enum class FieldKind { extents2, extents3, permutation, integer, word, words3, call, swizzle };

struct Field {
  StringRef name;
  FieldKind kind;
  StringRef form; // what a value looks like, for messages
};

// The one table of fields, in printing order.
constexpr Field kFields[] = {
    {"cta", FieldKind::extents3, "[M, N, K]"},
    {"warps", FieldKind::extents3, "[M, N, K]"},
    {"permutation", FieldKind::permutation, "[M, N, K], each an extent or a layout"},
    {"mma", FieldKind::word, "an atom's name, e.g. mma.m16n8k16"},
    {"copy", FieldKind::word, "an atom's name, e.g. cp.async.16"},
    {"stages", FieldKind::integer, "an integer"},
    {"roles", FieldKind::call, "single or cooperative(n)"},
    {"registers", FieldKind::extents2, "[producer, consumer]"},
    {"fragment_buffers", FieldKind::integer, "1 or 2"},
    {"swizzle_a", FieldKind::swizzle, "<B,M,S> or auto"},
    {"swizzle_b", FieldKind::swizzle, "<B,M,S> or auto"},
    {"swizzle_d", FieldKind::swizzle, "<B,M,S> or auto"},
    {"raster", FieldKind::call, "row, column, grouped(n) or groups(m, n)"},
    {"scheduler", FieldKind::word, "one_shot, persistent or even_split"},
    {"cache_hints", FieldKind::words3, "[A, B, D], each a word, e.g. evict_first"},
    {"epilogue", FieldKind::word, "smem, direct or tma"},
    {"epilogue_math", FieldKind::word, "registers or rows"},
    {"epilogue_tile", FieldKind::extents2, "[M, N]"},
    {"epilogue_buffers", FieldKind::integer, "an integer"},
};

const Field *findField(StringRef name) {
  for (const Field &field : kFields)
    if (field.name == name)
      return &field;
  return nullptr;
}

bool isExtents(Attribute value, size_t count) {
  auto array = dyn_cast<DenseI64ArrayAttr>(value);
  return array && static_cast<size_t>(array.size()) == count;
}

bool fits(FieldKind kind, Attribute value) {
  switch (kind) {
  case FieldKind::extents2:
    return isExtents(value, 2);
  case FieldKind::extents3:
    return isExtents(value, 3);
  case FieldKind::permutation: {
    auto array = dyn_cast<ArrayAttr>(value);
    return isExtents(value, 3) || (array && array.size() == 3 &&
                                   llvm::all_of(array, [](Attribute a) { return isa<IntegerAttr, LayoutAttr>(a); }));
  }
  case FieldKind::integer:
    return isa<IntegerAttr>(value);
  case FieldKind::word:
    return isa<StringAttr>(value);
  case FieldKind::words3: {
    auto array = dyn_cast<ArrayAttr>(value);
    return array && array.size() == 3 && llvm::all_of(array, [](Attribute a) { return isa<StringAttr>(a); });
  }
  case FieldKind::call: {
    auto array = dyn_cast<ArrayAttr>(value);
    return isa<StringAttr>(value) || (array && array.size() >= 2 && isa<StringAttr>(array[0]) &&
                                      llvm::all_of(array.getValue().drop_front(), llvm::IsaPred<IntegerAttr>));
  }
  case FieldKind::swizzle:
    return isa<SwizzleAttr>(value) || (isa<StringAttr>(value) && cast<StringAttr>(value).getValue() == "auto");
  }
  llvm_unreachable("all kinds are listed");
}

// A value is 3, <3,3,3>, word, word(8), word(16, 8), [1, 2], [word, word, word] or [16, #tile.layout<…>].
Attribute parseFieldValue(AsmParser &parser) {
  Builder builder(parser.getContext());
  int64_t integer;
  OptionalParseResult parsed = parser.parseOptionalInteger(integer);
  if (parsed.has_value())
    return failed(*parsed) ? Attribute() : builder.getI64IntegerAttr(integer);
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word))) {
    StringAttr name = builder.getStringAttr(word);
    if (failed(parser.parseOptionalLParen()))
      return name;
    SmallVector<Attribute> call = {name};
    auto parseArgument = [&]() -> ParseResult {
      int64_t argument;
      if (parser.parseInteger(argument))
        return failure();
      call.push_back(builder.getI64IntegerAttr(argument));
      return success();
    };
    if (parser.parseCommaSeparatedList(parseArgument) || parser.parseRParen())
      return {};
    return builder.getArrayAttr(call);
  }
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> elements;
    auto parseElement = [&]() -> ParseResult {
      int64_t extent;
      OptionalParseResult isInteger = parser.parseOptionalInteger(extent);
      if (isInteger.has_value()) {
        elements.push_back(builder.getI64IntegerAttr(extent));
        return *isInteger;
      }
      StringRef element;
      if (succeeded(parser.parseOptionalKeyword(&element))) {
        elements.push_back(builder.getStringAttr(element));
        return success();
      }
      return parser.parseAttribute(elements.emplace_back());
    };
    if (parser.parseCommaSeparatedList(parseElement) || parser.parseRSquare())
      return {};
    if (!llvm::all_of(elements, [](Attribute a) { return isa<IntegerAttr>(a); }))
      return builder.getArrayAttr(elements);
    SmallVector<int64_t> extents;
    for (Attribute element : elements)
      extents.push_back(cast<IntegerAttr>(element).getInt());
    return builder.getDenseI64ArrayAttr(extents);
  }
  return parseBareSwizzle(parser);
}

void printFieldValue(AsmPrinter &printer, Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    printer << integer.getInt();
  } else if (auto word = dyn_cast<StringAttr>(value)) {
    printer << word.getValue();
  } else if (auto swizzle = dyn_cast<SwizzleAttr>(value)) {
    printBareSwizzle(printer, swizzle);
  } else if (auto extents = dyn_cast<DenseI64ArrayAttr>(value)) {
    printer << "[";
    llvm::interleaveComma(extents.asArrayRef(), printer);
    printer << "]";
  } else if (auto array = dyn_cast<ArrayAttr>(value);
             array && array.size() >= 2 && isa<StringAttr>(array[0]) && isa<IntegerAttr>(array[1])) {
    printer << cast<StringAttr>(array[0]).getValue() << "(";
    llvm::interleaveComma(array.getValue().drop_front(), printer,
                          [&](Attribute argument) { printer << cast<IntegerAttr>(argument).getInt(); });
    printer << ")";
  } else {
    printer << "[";
    llvm::interleaveComma(cast<ArrayAttr>(value), printer, [&](Attribute element) {
      if (auto extent = dyn_cast<IntegerAttr>(element))
        printer << extent.getInt();
      else if (auto word = dyn_cast<StringAttr>(element))
        printer << word.getValue();
      else
        printer << element;
    });
    printer << "]";
  }
}
} // namespace

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  NamedAttrList fields;
  auto parseField = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (fields.get(name))
      return parser.emitError(loc) << "schedule field '" << name << "' is given twice";
    std::string key = name.str(); // the keyword's storage ends with the next token
    Attribute value = parseFieldValue(parser);
    if (!value)
      return failure();
    fields.append(key, value);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  return parser.getChecked<ScheduleAttr>(parser.getContext(), fields.getDictionary(parser.getContext()));
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << "<";
  bool first = true;
  for (const Field &field : kFields) {
    Attribute value = getFields().get(field.name);
    if (!value)
      continue;
    printer << (first ? "" : ", ") << field.name << " = ";
    printFieldValue(printer, value);
    first = false;
  }
  printer << ">";
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, DictionaryAttr fields) {
  for (NamedAttribute entry : fields) {
    const Field *field = findField(entry.getName());
    if (!field) {
      auto diagnostic = emitError() << "unknown schedule field '" << entry.getName().getValue() << "'; the fields are ";
      llvm::interleaveComma(kFields, diagnostic, [&](const Field &f) { diagnostic << f.name; });
      return diagnostic;
    }
    if (!fits(field->kind, entry.getValue()))
      return emitError() << "schedule field '" << field->name << "' takes " << field->form;
  }
  return success();
}
