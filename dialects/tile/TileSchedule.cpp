// `#tile.schedule` and its parts: parsing and printing. A part is `<name = value, …>`.
#include "ScheduleParts.h"

using namespace mlir;
using namespace lowtide::tile;
using lowtide::fields::FieldsOf;
using lowtide::fields::Values;

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

template <typename Part> Part parsePart(AsmParser &parser);

constexpr int64_t warpgroupWarps = 4;

// The agents that a word of `roles` means; the word is an error if there are none.
ParseResult agentsOf(AsmParser &parser, SMLoc loc, StringRef word, ArrayRef<int64_t> numbers, AgentsAttr &agents) {
  MLIRContext *context = parser.getContext();
  if (numbers.size() > 1)
    return parser.emitError(loc) << "roles take at most one number, e.g. cooperative(2) [roles-numbers]";
  bool inTurn = word == "pingpong";
  int64_t count = numbers.empty() ? 0 : numbers[0], least = inTurn ? 2 : 1;
  if (word == "single" && numbers.empty()) {
    agents = AgentsAttr::get(context, nullptr, nullptr, AgentAttr::get(context, std::nullopt, 1, std::nullopt));
    return success();
  }
  if (word == "single")
    return parser.emitError(loc) << "roles = single takes no number; take single, or cooperative(" << count
                                 << ") [roles-single-number]";
  if (word != "cooperative" && !inTurn)
    return parser.emitError(loc) << "roles = " << word << " is not single, cooperative or pingpong [roles-word]";
  if (count < least || count > std::numeric_limits<int32_t>::max())
    return parser.emitError(loc) << "roles = " << word << " needs the number of consumer warpgroups, at least " << least
                                 << ", e.g. " << word << "(2) [roles-number]";
  auto producer = AgentAttr::get(context, warpgroupWarps, std::nullopt, std::nullopt);
  auto consumer =
      AgentAttr::get(context, inTurn ? warpgroupWarps : warpgroupWarps * count, inTurn ? count : 1, std::nullopt);
  agents = AgentsAttr::get(context, producer, consumer, nullptr);
  return success();
}

// Adds the fields of a part, and of its parts, to those of another one. False if both give one.
template <typename Part> bool add(Part &whole, Part more);
bool add(std::optional<int64_t> &whole, std::optional<int64_t> more) {
  bool once = !whole || !more;
  whole = whole ? whole : more;
  return once;
}
template <typename Part> bool add(Part &whole, Part more) {
  if (!whole || !more) {
    whole = whole ? whole : more;
    return true;
  }
  bool once = true;
  Values<Part> values = lowtide::fields::valuesOf(whole), others = lowtide::fields::valuesOf(more);
  std::apply(
      [&](auto &...value) {
        std::apply([&](auto &...other) { ((once = once && add(value, other)), ...); }, others);
      },
      values);
  whole = std::apply([&](auto... value) { return Part::get(whole.getContext(), value...); }, values);
  return once;
}

// Reads values of fields, by their types.
struct Parse {
  AsmParser &parser;
  StringRef field, form;
  SMLoc loc = parser.getCurrentLocation();

  ParseResult operator()(DenseI64ArrayAttr &slot) {
    SmallVector<int64_t> numbers;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&] { return parseNumber(parser, field, numbers.emplace_back()); }))
      return failure();
    if (numbers.size() != form.count(',') + 1)
      return parser.emitError(loc) << field << " takes " << form << " [field-form-of]";
    slot = parser.getBuilder().getDenseI64ArrayAttr(numbers);
    return success();
  }
  ParseResult operator()(std::optional<int64_t> &slot) { return parseNumber(parser, field, slot.emplace()); }
  ParseResult operator()(StringAttr &slot) {
    StringRef word;
    if (parser.parseOptionalKeyword(&word))
      return parser.emitError(loc) << field << " takes the name of an atom, e.g. " << form << " [field-atom]";
    slot = parser.getBuilder().getStringAttr(word);
    return success();
  }
  template <typename Enum> ParseResult operator()(std::optional<Enum> &slot) {
    StringRef word;
    return failure(parser.parseKeyword(&word) || parseEnum(parser, loc, word, field, slot.emplace()));
  }
  ParseResult operator()(SwizzleAttr &slot) { return success(bool(slot = parseBareSwizzle(parser))); }
  template <typename Enum> ParseResult call(Enum &kind, SmallVectorImpl<int64_t> &numbers) {
    StringRef word;
    return failure(parseCall(parser, field, word, numbers) || parseEnum(parser, loc, word, field, kind));
  }
  ParseResult operator()(RasterAttr &slot) {
    SmallVector<int64_t> numbers;
    RasterKind kind;
    if (call(kind, numbers))
      return failure();
    if (numbers.size() > 2)
      return parser.emitError(loc) << "an order takes at most two numbers, e.g. groups(16, 8) [order-numbers]";
    numbers.resize(2, 0);
    auto emit = [&] { return parser.emitError(loc); };
    return success(bool(slot = RasterAttr::getChecked(emit, parser.getContext(), kind, numbers[0], numbers[1])));
  }
  ParseResult operator()(KDivisionAttr &slot) {
    SmallVector<int64_t> numbers;
    KDivisionKind kind;
    if (call(kind, numbers))
      return failure();
    if (numbers.size() > 1)
      return parser.emitError(loc) << "k_division takes at most one number, e.g. split(8) [division-numbers]";
    auto emit = [&] { return parser.emitError(loc); };
    int64_t parts = numbers.empty() ? 0 : numbers[0];
    return success(bool(slot = KDivisionAttr::getChecked(emit, parser.getContext(), kind, parts)));
  }
  ParseResult operator()(LayoutAttr &slot) { return parser.parseAttribute(slot); }
  // A permutation: an integer is an extent, anything else a layout.
  ParseResult operator()(Attribute &slot) {
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
  }
  template <typename Part, typename = decltype(FieldsOf<Part>::list())> ParseResult operator()(Part &slot) {
    Part given;
    OptionalParseResult alias = parser.parseOptionalAttribute(given);
    if (alias.has_value() ? failed(*alias) : !(given = parsePart<Part>(parser)))
      return failure();
    if constexpr (std::is_same_v<Part, AgentsAttr>)
      return addAgents(slot, given);
    slot = given;
    return success();
  }

  ParseResult addAgents(AgentsAttr &slot, AgentsAttr more) {
    if (add(slot, more))
      return success();
    return parser.emitError(loc) << "gives a field of the agents twice; `roles` and `registers` are short for `agents`, "
                                    "give these or that [agents-twice]";
  }
  ParseResult roles(AgentsAttr &slot) {
    StringRef word;
    SmallVector<int64_t> numbers;
    if (parseCall(parser, field, word, numbers))
      return failure();
    AgentsAttr agents;
    return failure(agentsOf(parser, loc, word, numbers, agents) || addAgents(slot, agents));
  }
  ParseResult registers(AgentsAttr &slot) {
    DenseI64ArrayAttr both;
    if ((*this)(both))
      return failure();
    auto agent = [&](int64_t registers) {
      return AgentAttr::get(parser.getContext(), std::nullopt, std::nullopt, registers);
    };
    return addAgents(slot, AgentsAttr::get(parser.getContext(), agent(both[0]), agent(both[1]), nullptr));
  }
};

template <typename Part> Part parsePart(AsmParser &parser) {
  Values<Part> values;
  SmallVector<std::string> given;
  auto parseField = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::string wanted = word.str(); // the keyword's storage ends with the next token
    if (llvm::is_contained(given, wanted))
      return parser.emitError(loc) << "field '" << wanted << "' of " << Part::getMnemonic() << " is given twice"
                                   << " [field-twice]";
    given.push_back(wanted);
    if (parser.parseEqual())
      return failure();
    SmallVector<StringRef> names;
    std::optional<ParseResult> result;
    lowtide::fields::forEach<Part>(values, [&](const auto &field, auto &slot) {
      names.push_back(field.name);
      if (field.name == wanted)
        result = Parse{parser, field.name, field.form}(slot);
    });
    if constexpr (std::is_same_v<Part, MainloopAttr>) {
      names.append({"roles", "registers"});
      Parse parse{parser, wanted, "[producer, consumer]"};
      if (wanted == "roles" || wanted == "registers")
        result = wanted == "roles" ? parse.roles(std::get<AgentsAttr>(values))
                                   : parse.registers(std::get<AgentsAttr>(values));
    }
    return result ? *result
                  : ParseResult(parser.emitError(loc) << Part::getMnemonic() << " has no field '" << wanted
                                                      << "'; its fields are " << llvm::join(names, ", ")
                                                      << " [field-of-part]");
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  return std::apply([&](auto... value) { return Part::get(parser.getContext(), value...); }, values);
}

//===--- printing -----------------------------------------------------------------------------------------------===//

template <typename Part> void printPart(AsmPrinter &printer, Part part, int depth);

// Prints values of fields, by their types.
struct Print {
  AsmPrinter &printer;
  int depth;

  void call(StringRef word, int64_t first, int64_t second) {
    printer << word;
    if (second)
      printer << "(" << first << ", " << second << ")";
    else if (first)
      printer << "(" << first << ")";
  }
  void operator()(DenseI64ArrayAttr slot) {
    printer << "[";
    llvm::interleaveComma(slot.asArrayRef(), printer);
    printer << "]";
  }
  void operator()(std::optional<int64_t> slot) { printer << *slot; }
  void operator()(StringAttr slot) { printer << slot.getValue(); }
  template <typename Enum> void operator()(std::optional<Enum> slot) { printer << stringifyEnum(*slot); }
  void operator()(SwizzleAttr slot) { printBareSwizzle(printer, slot); }
  void operator()(RasterAttr slot) { call(stringifyRasterKind(slot.getKind()), slot.getGroup(), slot.getColumns()); }
  void operator()(KDivisionAttr slot) { call(stringifyKDivisionKind(slot.getKind()), slot.getParts(), 0); }
  void operator()(LayoutAttr slot) { printer << slot; }
  void operator()(Attribute slot) { printPermutation(printer, slot); }
  template <typename Part, typename = decltype(FieldsOf<Part>::list())> void operator()(Part slot) {
    printPart(printer, slot, depth + 1);
  }
};

// The parts of the schedule stand on lines of their own, and so do the agents and operands of the mainloop.
template <typename Value>
constexpr bool hasOwnLine = llvm::is_one_of<Value, GridAttr, MainloopAttr, MultiplyAttr, EpilogueAttr, AgentsAttr,
                                            OperandAttr>::value;

template <typename Part> void printPart(AsmPrinter &printer, Part part, int depth) {
  printer << "<";
  bool first = true;
  Values<Part> values = lowtide::fields::valuesOf(part);
  lowtide::fields::forEach<Part>(values, [&](const auto &field, auto &value) {
    if (!value)
      return;
    constexpr bool ownLine = hasOwnLine<std::decay_t<decltype(value)>>;
    printer << (first ? "" : ownLine ? "," : ", ");
    if (ownLine)
      (printer.getStream() << "\n").indent(2 * (depth + 1));
    first = false;
    printer << field.name << " = ";
    Print{printer, depth}(value);
  });
  printer << ">";
}
} // namespace

#define LOWTIDE_PART(name)                                                                                             \
  Attribute name##Attr::parse(AsmParser &parser, Type) { return parsePart<name##Attr>(parser); }                         \
  void name##Attr::print(AsmPrinter &printer) const { printPart(printer, *this, 0); }
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
