// `#tile.schedule` and its parts, `#tile.problem`: parsing, printing, and the dictionaries that Python reads them as.
//
// Each part lists its fields once, in `visit`; a parser, a printer and the conversions to and from a dictionary walk
// that list. A part is `<name = value, …>`.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

namespace {
// Every word of an enum, for messages: "row, column or grouped".
template <typename Enum> std::string wordsOf() {
  SmallVector<StringRef> words;
  for (uint32_t value = 0; !stringifyEnum(static_cast<Enum>(value)).empty(); ++value)
    words.push_back(stringifyEnum(static_cast<Enum>(value)));
  std::string text;
  for (auto [index, word] : llvm::enumerate(words))
    text += (index == 0 ? "" : index + 1 == words.size() ? " or " : ", ") + word.str();
  return text;
}

//===--- the fields of each part --------------------------------------------------------------------------------===//

struct Grid {
  using Attr = GridAttr;
  static constexpr StringLiteral name = "grid";
  DenseI64ArrayAttr tile;
  RasterAttr order;
  std::optional<SchedulerKind> scheduler;

  Grid() = default;
  explicit Grid(GridAttr a) : tile(a.getTile()), order(a.getOrder()), scheduler(a.getScheduler()) {}
  GridAttr build(MLIRContext *context) const { return GridAttr::get(context, tile, order, scheduler); }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.extents("tile", tile, 2, "[M, N]");
    visitor.value("order", order);
    visitor.word("scheduler", scheduler);
  }
};

struct Operand {
  using Attr = OperandAttr;
  static constexpr StringLiteral name = "operand";
  StringAttr copy;
  SwizzleAttr swizzle;
  std::optional<CacheHint> cache;

  Operand() = default;
  explicit Operand(OperandAttr a) : copy(a.getCopy()), swizzle(a.getSwizzle()), cache(a.getCache()) {}
  OperandAttr build(MLIRContext *context) const { return OperandAttr::get(context, copy, swizzle, cache); }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.atom("copy", copy, "cp.async.16");
    visitor.value("swizzle", swizzle);
    visitor.word("cache", cache);
  }
};

struct Mainloop {
  using Attr = MainloopAttr;
  static constexpr StringLiteral name = "mainloop";
  std::optional<int64_t> k, stages;
  RolesAttr roles;
  DenseI64ArrayAttr registers;
  OperandAttr a, b;

  Mainloop() = default;
  explicit Mainloop(MainloopAttr m)
      : k(m.getK()), stages(m.getStages()), roles(m.getRoles()), registers(m.getRegisters()), a(m.getA()),
        b(m.getB()) {}
  MainloopAttr build(MLIRContext *context) const {
    return MainloopAttr::get(context, k, stages, roles, registers, a, b);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.integer("k", k);
    visitor.integer("stages", stages);
    visitor.value("roles", roles);
    visitor.extents("registers", registers, 2, "[producer, consumer]");
    visitor.template part<Operand>("a", a);
    visitor.template part<Operand>("b", b);
  }
};

struct Multiply {
  using Attr = MultiplyAttr;
  static constexpr StringLiteral name = "multiply";
  StringAttr atom;
  DenseI64ArrayAttr atoms;
  Attribute permutation;
  std::optional<int64_t> fragmentBuffers;

  Multiply() = default;
  explicit Multiply(MultiplyAttr m)
      : atom(m.getAtom()), atoms(m.getAtoms()), permutation(m.getPermutation()),
        fragmentBuffers(m.getFragmentBuffers()) {}
  MultiplyAttr build(MLIRContext *context) const {
    return MultiplyAttr::get(context, atom, atoms, permutation, fragmentBuffers);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.atom("atom", atom, "mma.m16n8k16");
    visitor.extents("atoms", atoms, 3, "[M, N, K]");
    visitor.permutation("permutation", permutation);
    visitor.integer("fragment_buffers", fragmentBuffers);
  }
};

struct Epilogue {
  using Attr = EpilogueAttr;
  static constexpr StringLiteral name = "epilogue";
  std::optional<StorePath> path;
  std::optional<EpilogueMath> math;
  DenseI64ArrayAttr tile;
  std::optional<int64_t> buffers;
  SwizzleAttr swizzle;
  std::optional<CacheHint> cache;

  Epilogue() = default;
  explicit Epilogue(EpilogueAttr e)
      : path(e.getPath()), math(e.getMath()), tile(e.getTile()), buffers(e.getBuffers()), swizzle(e.getSwizzle()),
        cache(e.getCache()) {}
  EpilogueAttr build(MLIRContext *context) const {
    return EpilogueAttr::get(context, path, math, tile, buffers, swizzle, cache);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.word("path", path);
    visitor.word("math", math);
    visitor.extents("tile", tile, 2, "[M, N]");
    visitor.integer("buffers", buffers);
    visitor.value("swizzle", swizzle);
    visitor.word("cache", cache);
  }
};

struct Schedule {
  using Attr = ScheduleAttr;
  static constexpr StringLiteral name = "schedule";
  GridAttr grid;
  MainloopAttr mainloop;
  MultiplyAttr multiply;
  EpilogueAttr epilogue;

  Schedule() = default;
  explicit Schedule(ScheduleAttr s)
      : grid(s.getGrid()), mainloop(s.getMainloop()), multiply(s.getMultiply()), epilogue(s.getEpilogue()) {}
  ScheduleAttr build(MLIRContext *context) const {
    return ScheduleAttr::get(context, grid, mainloop, multiply, epilogue);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.template part<Grid>("grid", grid);
    visitor.template part<Mainloop>("mainloop", mainloop);
    visitor.template part<Multiply>("multiply", multiply);
    visitor.template part<Epilogue>("epilogue", epilogue);
  }
};

//===--- parsing ------------------------------------------------------------------------------------------------===//

// MLIR's integers may be written true and false; these may not.
ParseResult parseNumber(AsmParser &parser, StringRef field, int64_t &number) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  OptionalParseResult parsed = std::nullopt;
  if (failed(parser.parseOptionalKeyword(&word)))
    parsed = parser.parseOptionalInteger(number);
  return parsed.has_value() ? *parsed : ParseResult(parser.emitError(loc) << field << " takes an integer");
}

// `word` or `word(8)` or `word(16, 8)`.
ParseResult parseCall(AsmParser &parser, StringRef field, StringRef &word, SmallVectorImpl<int64_t> &numbers) {
  if (parser.parseKeyword(&word))
    return failure();
  if (failed(parser.parseOptionalLParen()))
    return success();
  return failure(parser.parseCommaSeparatedList([&] { return parseNumber(parser, field, numbers.emplace_back()); }) ||
                 parser.parseRParen());
}

template <typename Enum>
ParseResult parseEnum(AsmParser &parser, SMLoc loc, StringRef word, StringRef field, Enum &result) {
  std::optional<Enum> found = symbolizeEnum<Enum>(word);
  if (!found)
    return parser.emitError(loc) << field << " = " << word << " is not " << wordsOf<Enum>();
  result = *found;
  return success();
}

struct Collect { // the names of a part's fields, for messages
  SmallVector<StringRef> names;
  template <typename... Rest> void add(StringRef field, Rest &&...) { names.push_back(field); }
  void extents(StringRef f, DenseI64ArrayAttr &, size_t, StringRef) { names.push_back(f); }
  void atom(StringRef f, StringAttr &, StringRef) { names.push_back(f); }
  void integer(StringRef f, std::optional<int64_t> &) { names.push_back(f); }
  void permutation(StringRef f, Attribute &) { names.push_back(f); }
  template <typename T> void value(StringRef f, T &) { names.push_back(f); }
  template <typename T> void word(StringRef f, std::optional<T> &) { names.push_back(f); }
  template <typename P, typename T> void part(StringRef f, T &) { names.push_back(f); }
};

template <typename Part> typename Part::Attr parsePart(AsmParser &parser);

// Reads the value of one named field.
struct Parse {
  AsmParser &parser;
  StringRef wanted;
  ParseResult result = success();
  bool found = false;

  template <typename Body> void at(StringRef field, Body &&body) {
    if (field != wanted)
      return;
    found = true;
    result = body(parser.getCurrentLocation());
  }
  void extents(StringRef field, DenseI64ArrayAttr &slot, size_t count, StringRef form) {
    at(field, [&](SMLoc loc) -> ParseResult {
      SmallVector<int64_t> numbers;
      if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                         [&] { return parseNumber(parser, field, numbers.emplace_back()); }))
        return failure();
      if (numbers.size() != count)
        return parser.emitError(loc) << field << " takes " << form;
      slot = parser.getBuilder().getDenseI64ArrayAttr(numbers);
      return success();
    });
  }
  void integer(StringRef field, std::optional<int64_t> &slot) {
    at(field, [&](SMLoc) { return parseNumber(parser, field, slot.emplace()); });
  }
  void atom(StringRef field, StringAttr &slot, StringRef example) {
    at(field, [&](SMLoc loc) -> ParseResult {
      StringRef word;
      if (parser.parseOptionalKeyword(&word))
        return parser.emitError(loc) << field << " takes the name of an atom, e.g. " << example;
      slot = parser.getBuilder().getStringAttr(word);
      return success();
    });
  }
  template <typename Enum> void word(StringRef field, std::optional<Enum> &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      StringRef word;
      return failure(parser.parseKeyword(&word) || parseEnum(parser, loc, word, field, slot.emplace()));
    });
  }
  void value(StringRef field, SwizzleAttr &slot) {
    at(field, [&](SMLoc) { return success(bool(slot = parseBareSwizzle(parser))); });
  }
  void value(StringRef field, RasterAttr &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      StringRef word;
      SmallVector<int64_t> numbers;
      RasterKind kind;
      if (parseCall(parser, field, word, numbers) || parseEnum(parser, loc, word, field, kind))
        return failure();
      if (numbers.size() > 2)
        return parser.emitError(loc) << "an order takes two numbers at most: row, column, grouped(n), groups(m, n)";
      numbers.resize(2, 0);
      auto emit = [&] { return parser.emitError(loc); };
      return success(bool(slot = RasterAttr::getChecked(emit, parser.getContext(), kind, numbers[0], numbers[1])));
    });
  }
  void value(StringRef field, RolesAttr &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      StringRef word;
      SmallVector<int64_t> numbers;
      RolesKind kind;
      if (parseCall(parser, field, word, numbers) || parseEnum(parser, loc, word, field, kind))
        return failure();
      if (numbers.size() > 1)
        return parser.emitError(loc) << "roles take one number at most: single, cooperative(n)";
      auto emit = [&] { return parser.emitError(loc); };
      int64_t consumers = numbers.empty() ? 0 : numbers[0];
      return success(bool(slot = RolesAttr::getChecked(emit, parser.getContext(), kind, consumers)));
    });
  }
  // An integer is an extent, anything else a layout.
  void permutation(StringRef field, Attribute &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      SmallVector<Attribute> modes;
      auto parseMode = [&]() -> ParseResult {
        LayoutAttr layout;
        OptionalParseResult isLayout = parser.parseOptionalAttribute(layout);
        if (isLayout.has_value())
          return modes.push_back(layout), *isLayout;
        int64_t extent;
        if (parseNumber(parser, field, extent))
          return failure();
        modes.push_back(parser.getBuilder().getI64IntegerAttr(extent));
        return success();
      };
      if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseMode))
        return failure();
      if (modes.size() != 3 || !llvm::all_of(modes, llvm::IsaPred<IntegerAttr, LayoutAttr>))
        return parser.emitError(loc) << field << " takes [M, N, K], each an extent or a layout";
      slot = parser.getBuilder().getArrayAttr(modes);
      return success();
    });
  }
  template <typename Part, typename Attr> void part(StringRef field, Attr &slot) {
    at(field, [&](SMLoc) -> ParseResult {
      OptionalParseResult alias = parser.parseOptionalAttribute(slot);
      return alias.has_value() ? ParseResult(*alias) : success(bool(slot = parsePart<Part>(parser)));
    });
  }
};

template <typename Part> typename Part::Attr parsePart(AsmParser &parser) {
  Part part;
  SmallVector<std::string> given;
  auto parseField = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::string field = word.str(); // the keyword's storage ends with the next token
    if (llvm::is_contained(given, field))
      return parser.emitError(loc) << "field '" << field << "' of " << Part::name << " is given twice";
    given.push_back(field);
    if (parser.parseEqual())
      return failure();
    Parse reader{parser, field};
    part.visit(reader);
    if (reader.found)
      return reader.result;
    Collect known;
    part.visit(known);
    auto diagnostic = parser.emitError(loc) << Part::name << " has no field '" << field << "'; its fields are ";
    llvm::interleaveComma(known.names, diagnostic);
    return diagnostic;
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  return part.build(parser.getContext());
}

//===--- printing -----------------------------------------------------------------------------------------------===//

template <typename Part> void printPart(AsmPrinter &printer, typename Part::Attr attribute, int depth);

// The parts of the schedule stand on lines of their own, and so do the operands of the mainloop.
struct Print {
  AsmPrinter &printer;
  int depth;
  bool first = true;

  raw_ostream &key(StringRef field, bool ownLine = false) {
    raw_ostream &os = printer.getStream();
    os << (first ? "" : ownLine ? "," : ", ");
    if (ownLine)
      (os << "\n").indent(2 * (depth + 1));
    first = false;
    return os << field << " = ";
  }
  void list(ArrayRef<int64_t> numbers) {
    printer << "[";
    llvm::interleaveComma(numbers, printer);
    printer << "]";
  }
  void extents(StringRef field, DenseI64ArrayAttr slot, size_t, StringRef) {
    if (slot)
      key(field), list(slot);
  }
  void integer(StringRef field, std::optional<int64_t> slot) {
    if (slot)
      key(field) << *slot;
  }
  void atom(StringRef field, StringAttr slot, StringRef) {
    if (slot)
      key(field) << slot.getValue();
  }
  template <typename Enum> void word(StringRef field, std::optional<Enum> slot) {
    if (slot)
      key(field) << stringifyEnum(*slot);
  }
  void value(StringRef field, SwizzleAttr slot) {
    if (slot)
      key(field), printBareSwizzle(printer, slot);
  }
  void value(StringRef field, RasterAttr slot) {
    if (!slot)
      return;
    raw_ostream &os = key(field) << stringifyRasterKind(slot.getKind());
    if (slot.getColumns())
      os << "(" << slot.getGroup() << ", " << slot.getColumns() << ")";
    else if (slot.getGroup())
      os << "(" << slot.getGroup() << ")";
  }
  void value(StringRef field, RolesAttr slot) {
    if (!slot)
      return;
    raw_ostream &os = key(field) << stringifyRolesKind(slot.getKind());
    if (slot.getConsumers())
      os << "(" << slot.getConsumers() << ")";
  }
  void permutation(StringRef field, Attribute slot) {
    if (!slot)
      return;
    key(field) << "[";
    llvm::interleaveComma(cast<ArrayAttr>(slot), printer, [&](Attribute mode) {
      if (auto extent = dyn_cast<IntegerAttr>(mode))
        printer << extent.getInt();
      else
        printer << mode;
    });
    printer << "]";
  }
  template <typename Part, typename Attr> void part(StringRef field, Attr slot) {
    if (slot)
      key(field, /*ownLine=*/true), printPart<Part>(printer, slot, depth + 1);
  }
};

template <typename Part> void printPart(AsmPrinter &printer, typename Part::Attr attribute, int depth) {
  printer << "<";
  Part(attribute).visit(Print{printer, depth});
  printer << ">";
}

//===--- dictionaries -------------------------------------------------------------------------------------------===//

template <typename Part> DictionaryAttr toDictionary(typename Part::Attr attribute);

// Builtin attributes only: words are strings, swizzles [B, M, S], orders and roles [word, numbers …].
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
  void value(StringRef field, RolesAttr slot) {
    if (slot)
      call(field, stringifyRolesKind(slot.getKind()), {slot.getConsumers()});
  }
  void permutation(StringRef field, Attribute slot) {
    if (slot)
      add(field, slot);
  }
  template <typename Part, typename Attr> void part(StringRef field, Attr slot) {
    if (slot)
      add(field, toDictionary<Part>(slot));
  }
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
    emitError() << "schedule field '" << field << "' does not take " << value;
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
  // The word and the numbers of an order or of roles; no numbers where the field is absent or wrong.
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
  void value(StringRef field, RolesAttr &slot) {
    auto [kind, numbers] = call<RolesKind>(field, 1);
    if (kind)
      ok = bool(slot = RolesAttr::getChecked(emitError, fields.getContext(), *kind, numbers[0]));
  }
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
};

template <typename Part>
typename Part::Attr fromDictionary(DictionaryAttr fields, function_ref<InFlightDiagnostic()> emitError) {
  Part part;
  Read reader{fields, emitError};
  part.visit(reader);
  if (reader.ok && reader.found != fields.size())
    emitError() << Part::name << " has other fields than those given: " << fields;
  return reader.ok && reader.found == fields.size() ? part.build(fields.getContext()) : typename Part::Attr();
}
} // namespace

#define LOWTIDE_PART(name)                                                                                             \
  Attribute name##Attr::parse(AsmParser &parser, Type) { return parsePart<name>(parser); }                             \
  void name##Attr::print(AsmPrinter &printer) const { printPart<name>(printer, *this, 0); }
LOWTIDE_PART(Grid)
LOWTIDE_PART(Operand)
LOWTIDE_PART(Mainloop)
LOWTIDE_PART(Multiply)
LOWTIDE_PART(Epilogue)
LOWTIDE_PART(Schedule)
#undef LOWTIDE_PART

DictionaryAttr lowtide::tile::fieldsOf(ScheduleAttr schedule) { return toDictionary<Schedule>(schedule); }

ScheduleAttr lowtide::tile::scheduleOf(DictionaryAttr fields, function_ref<InFlightDiagnostic()> emitError) {
  return fromDictionary<Schedule>(fields, emitError);
}

LogicalResult RolesAttr::verify(function_ref<InFlightDiagnostic()> emitError, RolesKind kind, int64_t consumers) {
  if (kind == RolesKind::single && consumers != 0)
    return emitError() << "roles = single takes no number; take single, or cooperative(" << consumers << ")";
  if (kind == RolesKind::cooperative && consumers < 1)
    return emitError() << "roles = cooperative needs the number of consumer warpgroups, e.g. cooperative(2)";
  return success();
}

//===--- #tile.problem ------------------------------------------------------------------------------------------===//

Attribute ProblemAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef letters;
  if (parser.parseLess() || parser.parseKeyword(&letters))
    return {};
  std::optional<GemmLayout> layout = symbolizeGemmLayout(letters);
  if (!layout) {
    parser.emitError(loc) << "'" << letters << "' is not a layout; the layouts are tn, tt, nn and nt";
    return {};
  }
  constexpr StringLiteral names[] = {"a", "b", "acc", "d"};
  Type types[4];
  for (auto [name, type] : llvm::zip(names, types))
    if (parser.parseComma() || parser.parseKeyword(name) || parser.parseEqual() || parser.parseType(type))
      return {};
  SmallVector<OperandKind> kinds;
  SmallVector<Type> operands;
  auto parseOperand = [&]() -> ParseResult {
    SMLoc at = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<OperandKind> kind = symbolizeOperandKind(word);
    if (!kind)
      return parser.emitError(at) << "'" << word
                                  << "' is not a kind of operand; the kinds are full, per_row, per_column and scalar";
    kinds.push_back(*kind);
    return parser.parseType(operands.emplace_back());
  };
  if (succeeded(parser.parseOptionalComma()))
    if (parser.parseKeyword("operands") || parser.parseEqual() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOperand))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ProblemAttr>(loc, parser.getContext(), *layout, types[0], types[1], types[2], types[3],
                                        ArrayRef<OperandKind>(kinds), ArrayRef<Type>(operands));
}

void ProblemAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyGemmLayout(getLayout()) << ", a = " << getA() << ", b = " << getB() << ", acc = "
          << getAcc() << ", d = " << getD();
  if (!getKinds().empty()) {
    printer << ", operands = [";
    llvm::interleaveComma(llvm::zip(getKinds(), getOperands()), printer, [&](auto operand) {
      printer << stringifyOperandKind(std::get<0>(operand)) << " " << std::get<1>(operand);
    });
    printer << "]";
  }
  printer << ">";
}

LogicalResult ProblemAttr::verify(function_ref<InFlightDiagnostic()> emitError, GemmLayout, Type a, Type b, Type acc,
                                  Type d, ArrayRef<OperandKind> kinds, ArrayRef<Type> operands) {
  if (kinds.size() != operands.size())
    return emitError() << "there are " << kinds.size() << " kinds of operands for " << operands.size() << " types";
  auto isElement = [](Type type) { return type && type.isIntOrFloat(); };
  if (!isElement(a) || !isElement(b) || !isElement(acc) || !isElement(d) || !llvm::all_of(operands, isElement))
    return emitError() << "the types of a problem are element types: integers or floats";
  return success();
}
