// `#tile.schedule` and its parts: parsing and printing. A part is `<name = value, …>`.
#include "ScheduleParts.h"

using namespace mlir;
using namespace lowtide::tile;
using namespace lowtide::tile::parts;

namespace {
//===--- parsing ------------------------------------------------------------------------------------------------===//

// MLIR's integers may be written true and false; these may not.
ParseResult parseNumber(AsmParser &parser, StringRef field, int64_t &number) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  OptionalParseResult parsed = std::nullopt;
  if (failed(parser.parseOptionalKeyword(&word)))
    parsed = parser.parseOptionalInteger(number);
  return parsed.has_value() ? *parsed : ParseResult(parser.emitError(loc) << field << " takes an integer [field-integer]");
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
    return parser.emitError(loc) << field << " = " << word << " is not " << wordsOf<Enum>() << " [field-word]";
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
  void roles(StringRef f, AgentsAttr &) { names.push_back(f); }
  void registers(StringRef f, AgentsAttr &) { names.push_back(f); }
};

template <typename Part> typename Part::Attr parsePart(AsmParser &parser);

constexpr int64_t warpgroupWarps = 4;

// The agents that a word of `roles` means; the word is an error if there are none.
ParseResult agentsOf(AsmParser &parser, SMLoc loc, StringRef word, ArrayRef<int64_t> numbers, Agents &agents) {
  MLIRContext *context = parser.getContext();
  if (numbers.size() > 1)
    return parser.emitError(loc) << "roles take at most one number, e.g. cooperative(2) [roles-numbers]";
  int64_t count = numbers.empty() ? 0 : numbers[0], least = word == "pingpong" ? 2 : 1;
  if (word == "single" && numbers.empty()) {
    agents.single = AgentAttr::get(context, std::nullopt, 1, std::nullopt);
    return success();
  }
  if (word == "single")
    return parser.emitError(loc) << "roles = single takes no number; take single, or cooperative(" << count
                                 << ") [roles-single-number]";
  if (word != "cooperative" && word != "pingpong")
    return parser.emitError(loc) << "roles = " << word << " is not single, cooperative or pingpong [roles-word]";
  if (count < least || count > std::numeric_limits<int32_t>::max())
    return parser.emitError(loc) << "roles = " << word << " needs the number of consumer warpgroups, at least " << least
                                 << ", e.g. " << word << "(2) [roles-number]";
  agents.producer = AgentAttr::get(context, warpgroupWarps, std::nullopt, std::nullopt);
  bool inTurn = word == "pingpong";
  agents.consumer =
      AgentAttr::get(context, inTurn ? warpgroupWarps : warpgroupWarps * count, inTurn ? count : 1, std::nullopt);
  return success();
}

// The fields of both; null if both give one.
AgentAttr together(AgentAttr one, AgentAttr other) {
  if (!one || !other)
    return one ? one : other;
  Agent whole(one), more(other);
  std::optional<int64_t> *into[] = {&whole.warps, &whole.instances, &whole.registers};
  std::optional<int64_t> *from[] = {&more.warps, &more.instances, &more.registers};
  for (auto [field, value] : llvm::zip(into, from)) {
    if (*field && *value)
      return {};
    if (*value)
      *field = *value;
  }
  return whole.build(one.getContext());
}

// Adds agents to those of a slot.
ParseResult addAgents(AsmParser &parser, SMLoc loc, AgentsAttr &slot, const Agents &more) {
  Agents whole = slot ? Agents(slot) : Agents();
  AgentAttr *into[] = {&whole.producer, &whole.consumer, &whole.single};
  AgentAttr from[] = {more.producer, more.consumer, more.single};
  for (auto [agent, other] : llvm::zip(into, from)) {
    bool given = *agent || other;
    *agent = together(*agent, other);
    if (given && !*agent)
      return parser.emitError(loc) << "gives a field of the agents twice; `roles` and `registers` are short for "
                                      "`agents`, give these or that [agents-twice]";
  }
  slot = whole.build(parser.getContext());
  return success();
}

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
        return parser.emitError(loc) << field << " takes " << form << " [field-form-of]";
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
        return parser.emitError(loc) << field << " takes the name of an atom, e.g. " << example << " [field-atom]";
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
        return parser.emitError(loc) << "an order takes at most two numbers, e.g. groups(16, 8) [order-numbers]";
      numbers.resize(2, 0);
      auto emit = [&] { return parser.emitError(loc); };
      return success(bool(slot = RasterAttr::getChecked(emit, parser.getContext(), kind, numbers[0], numbers[1])));
    });
  }
  void value(StringRef field, KDivisionAttr &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      StringRef word;
      SmallVector<int64_t> numbers;
      KDivisionKind kind;
      if (parseCall(parser, field, word, numbers) || parseEnum(parser, loc, word, field, kind))
        return failure();
      if (numbers.size() > 1)
        return parser.emitError(loc) << "k_division takes at most one number, e.g. split(8) [division-numbers]";
      auto emit = [&] { return parser.emitError(loc); };
      int64_t parts = numbers.empty() ? 0 : numbers[0];
      return success(bool(slot = KDivisionAttr::getChecked(emit, parser.getContext(), kind, parts)));
    });
  }
  void value(StringRef field, LayoutAttr &slot) {
    at(field, [&](SMLoc) { return parser.parseAttribute(slot); });
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
        return parser.emitError(loc) << field << " takes [M, N, K], each an extent or a layout [field-extents]";
      slot = parser.getBuilder().getArrayAttr(modes);
      return success();
    });
  }
  template <typename Part, typename Attr> void part(StringRef field, Attr &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      Attr given;
      OptionalParseResult alias = parser.parseOptionalAttribute(given);
      if (alias.has_value() ? failed(*alias) : !(given = parsePart<Part>(parser)))
        return failure();
      if constexpr (std::is_same_v<Part, Agents>)
        return addAgents(parser, loc, slot, Agents(given));
      slot = given;
      return success();
    });
  }
  void roles(StringRef field, AgentsAttr &slot) {
    at(field, [&](SMLoc loc) -> ParseResult {
      StringRef word;
      SmallVector<int64_t> numbers;
      Agents agents;
      return failure(parseCall(parser, field, word, numbers) || agentsOf(parser, loc, word, numbers, agents) ||
                     addAgents(parser, loc, slot, agents));
    });
  }
  void registers(StringRef field, AgentsAttr &slot) {
    DenseI64ArrayAttr both;
    extents(field, both, 2, "[producer, consumer]");
    if (!both)
      return;
    Agents agents;
    agents.producer = AgentAttr::get(parser.getContext(), std::nullopt, std::nullopt, both[0]);
    agents.consumer = AgentAttr::get(parser.getContext(), std::nullopt, std::nullopt, both[1]);
    result = addAgents(parser, parser.getCurrentLocation(), slot, agents);
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
      return parser.emitError(loc) << "field '" << field << "' of " << Part::name << " is given twice [field-twice]";
    given.push_back(field);
    if (parser.parseEqual())
      return failure();
    Parse reader{parser, field};
    part.visit(reader);
    if (reader.found)
      return reader.result;
    Collect known;
    part.visit(known);
    return parser.emitError(loc) << Part::name << " has no field '" << field << "'; its fields are "
                                 << llvm::join(known.names, ", ") << " [field-of-part]";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  return part.build(parser.getContext());
}

//===--- printing -----------------------------------------------------------------------------------------------===//

template <typename Part> void printPart(AsmPrinter &printer, typename Part::Attr attribute, int depth);

// The parts of the schedule stand on lines of their own, and so do the agents and operands of the mainloop.
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
  void value(StringRef field, KDivisionAttr slot) {
    if (!slot)
      return;
    raw_ostream &os = key(field) << stringifyKDivisionKind(slot.getKind());
    if (slot.getParts())
      os << "(" << slot.getParts() << ")";
  }
  void value(StringRef field, LayoutAttr slot) {
    if (slot)
      key(field), printer << slot;
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
    bool ownLine = !std::is_same_v<Part, Agent>;
    if (slot)
      key(field, ownLine), printPart<Part>(printer, slot, depth + 1);
  }
  void roles(StringRef, AgentsAttr) {}
  void registers(StringRef, AgentsAttr) {}
};

template <typename Part> void printPart(AsmPrinter &printer, typename Part::Attr attribute, int depth) {
  printer << "<";
  Part(attribute).visit(Print{printer, depth});
  printer << ">";
}
} // namespace

#define LOWTIDE_PART(name)                                                                                             \
  Attribute name##Attr::parse(AsmParser &parser, Type) { return parsePart<name>(parser); }                             \
  void name##Attr::print(AsmPrinter &printer) const { printPart<name>(printer, *this, 0); }
LOWTIDE_PART(Grid)
LOWTIDE_PART(Operand)
LOWTIDE_PART(Agent)
LOWTIDE_PART(Agents)
LOWTIDE_PART(Mainloop)
LOWTIDE_PART(Multiply)
LOWTIDE_PART(Epilogue)
LOWTIDE_PART(Schedule)
#undef LOWTIDE_PART

Attribute KDivisionAttr::parse(AsmParser &parser, Type) {
  StringRef word;
  KDivisionKind kind;
  int64_t parts = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&word) || parseEnum(parser, loc, word, "k_division", kind))
    return {};
  OptionalParseResult number = parser.parseOptionalInteger(parts);
  if ((number.has_value() && failed(*number)) || parser.parseGreater())
    return {};
  return parser.getChecked<KDivisionAttr>(loc, parser.getContext(), kind, parts);
}

void KDivisionAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyKDivisionKind(getKind());
  if (getParts())
    printer << " " << getParts();
  printer << ">";
}

LogicalResult KDivisionAttr::verify(function_ref<InFlightDiagnostic()> emitError, KDivisionKind kind, int64_t parts) {
  StringRef word = stringifyKDivisionKind(kind);
  if (isCounted(kind) && parts < 1)
    return emitError() << "k_division = " << word << " needs the number of parts, e.g. " << word << "(8)"
                       << " [division-needs-number]";
  if (!isCounted(kind) && parts != 0)
    return emitError() << "k_division = " << word << " takes no number [division-takes-number]";
  return success();
}
