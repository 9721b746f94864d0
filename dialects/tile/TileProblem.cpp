// `#tile.problem`: parsing, printing and verification.
#include "Tile.h"

using namespace mlir;
using namespace lowtide::tile;

namespace {
// A list of kinds with types, such as `[full bf16, scalar f32]`.
template <typename Kind> struct Kinded {
  SmallVector<Kind> kinds;
  SmallVector<Type> types;

  ParseResult parse(AsmParser &parser, StringRef what) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
      SMLoc at = parser.getCurrentLocation();
      StringRef word;
      if (parser.parseKeyword(&word))
        return failure();
      std::optional<Kind> kind = symbolizeEnum<Kind>(word);
      if (!kind)
        return parser.emitError(at) << "'" << word << "' is not a kind of " << what << "; the kinds are "
                                    << wordsOf<Kind>("and") << " [problem-kind-word]";
      kinds.push_back(*kind);
      return parser.parseType(types.emplace_back());
    });
  }
};

template <typename Kind>
void printKinded(AsmPrinter &printer, StringRef name, ArrayRef<Kind> kinds, ArrayRef<Type> types) {
  printer << ", " << name << " = [";
  llvm::interleaveComma(llvm::zip(kinds, types), printer, [&](auto entry) {
    printer << stringifyEnum(std::get<0>(entry)) << " " << std::get<1>(entry);
  });
  printer << "]";
}
} // namespace

Attribute ProblemAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef letters;
  if (parser.parseLess() || parser.parseKeyword(&letters))
    return {};
  std::optional<GemmLayout> layout = symbolizeGemmLayout(letters);
  if (!layout) {
    parser.emitError(loc) << "'" << letters << "' is not a layout; the layouts are " << wordsOf<GemmLayout>("and")
                          << " [layout-word]";
    return {};
  }
  constexpr StringLiteral names[] = {"a", "b", "acc"};
  Type types[3];
  for (auto [name, type] : llvm::zip(names, types))
    if (parser.parseComma() || parser.parseKeyword(name) || parser.parseEqual() || parser.parseType(type))
      return {};
  Kinded<ResultKind> results;
  Kinded<OperandKind> operands;
  if (parser.parseComma() || parser.parseKeyword("results") || parser.parseEqual() || results.parse(parser, "result"))
    return {};
  SmallVector<StringAttr> empty;
  auto parseLetter = [&]() -> ParseResult {
    StringRef letter;
    if (parser.parseKeyword(&letter))
      return failure();
    empty.push_back(StringAttr::get(parser.getContext(), letter));
    return success();
  };
  bool swapped = false, fast = false, byColumns = false, pairs = false, interleaved = false;
  const std::pair<StringRef, bool *> flags[] = {{"swapped", &swapped}, {"fast", &fast}, {"by_columns", &byColumns},
                                                {"pairs", &pairs}, {"interleaved", &interleaved}};
  int64_t group = 0;
  std::optional<Precision> precision;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef clause;
    if (failed(parser.parseOptionalKeyword(
            &clause,
            {"operands", "empty", "swapped", "fast", "by_columns", "group", "by", "pairs", "interleaved"}))) {
      parser.emitError(parser.getCurrentLocation(), "expected 'operands', 'empty', 'swapped', 'fast', 'by_columns', "
                                                    "'group', 'by', 'pairs' or 'interleaved' [problem-clause]");
      return {};
    }
    if (auto flag = llvm::find_if(flags, [&](auto one) { return one.first == clause; }); flag != std::end(flags)) {
      *flag->second = true;
      continue;
    }
    if (clause == "group") {
      if (parser.parseEqual() || parser.parseInteger(group))
        return {};
      continue;
    }
    if (clause == "by") {
      StringRef word;
      SMLoc at = parser.getCurrentLocation();
      if (parser.parseEqual() || parser.parseKeyword(&word))
        return {};
      precision = symbolizePrecision(word);
      if (!precision) {
        parser.emitError(at) << "'" << word << "' is not a sum of products; there are " << wordsOf<Precision>("and")
                             << " [problem-clause-word]";
        return {};
      }
      continue;
    }
    if (parser.parseEqual() ||
        (clause == "operands" ? operands.parse(parser, "operand")
                              : parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseLetter)))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ProblemAttr>(loc, parser.getContext(), *layout, types[0], types[1], types[2],
                                        ArrayRef(results.kinds), ArrayRef(results.types), ArrayRef(operands.kinds),
                                        ArrayRef(operands.types), ArrayRef<StringAttr>(empty), swapped, fast,
                                        byColumns, group, precision, pairs, interleaved);
}

void ProblemAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyGemmLayout(getLayout()) << ", a = " << getA() << ", b = " << getB() << ", acc = "
          << getAcc();
  printKinded(printer, "results", getResultKinds(), getResults());
  if (!getKinds().empty())
    printKinded(printer, "operands", getKinds(), getOperands());
  if (!getEmpty().empty()) {
    printer << ", empty = [";
    llvm::interleaveComma(getEmpty(), printer, [&](StringAttr letter) { printer << letter.getValue(); });
    printer << "]";
  }
  printer << (getSwapped() ? ", swapped" : "") << (getFast() ? ", fast" : "") << (getByColumns() ? ", by_columns" : "");
  if (getGroup())
    printer << ", group = " << getGroup();
  if (getPrecision())
    printer << ", by = " << stringifyPrecision(*getPrecision());
  printer << (getPairs() ? ", pairs" : "") << (getInterleaved() ? ", interleaved" : "");
  printer << ">";
}

LogicalResult ProblemAttr::verify(function_ref<InFlightDiagnostic()> emitError, GemmLayout, Type a, Type b, Type acc,
                                  ArrayRef<ResultKind> resultKinds, ArrayRef<Type> results,
                                  ArrayRef<OperandKind> kinds, ArrayRef<Type> operands, ArrayRef<StringAttr> empty,
                                  bool, bool, bool, int64_t group, std::optional<Precision>, bool pairs, bool interleaved) {
  if (kinds.size() != operands.size() || resultKinds.size() != results.size())
    return emitError() << "there are " << kinds.size() << " kinds of operands for " << operands.size() << " types, and "
                       << resultKinds.size() << " kinds of results for " << results.size()
                       << " [problem-kinds]";
  auto isElement = [](Type type) { return type && type.isIntOrFloat(); };
  if (!isElement(a) || !isElement(b) || !isElement(acc) || !llvm::all_of(results, isElement) ||
      !llvm::all_of(operands, isElement))
    return emitError() << "the types of a problem are element types: integers or floats [problem-types]";
  if (interleaved && !pairs)
    return emitError() << "interleaved says how columns of pairs lie, and there are no pairs [problem-pairs]";
  if (group < 0)
    return emitError() << "a group is a number of elements of K, not " << group << " [problem-group]";
  for (auto [index, letter] : llvm::enumerate(empty))
    if (!llvm::is_contained({"m", "n", "k"}, letter.getValue()) || llvm::is_contained(empty.drop_front(index + 1), letter))
      return emitError() << "empty names m, n and k, each at most once, not '" << letter.getValue() << "'"
                         << " [empty-letters]";
  return success();
}
