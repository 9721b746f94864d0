#include "Positions.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace {
class Positions {
public:
  Positions(StringRef text, const AsmParserState &state, bool isWhole)
      : text(text), state(state), isWhole(isWhole) {}

  void take(LowtidePositions &found) {
    for (const auto &op : state.getOpDefs())
      takeOp(op, found);
    for (const auto &block : state.getBlockDefs()) {
      // A block without a label is listed at the opening brace.
      if (block.definition.loc.isValid() && *block.definition.loc.Start.getPointer() == '^')
        take(block.definition, "", found);
      for (auto [number, argument] : llvm::enumerate(block.arguments))
        take(argument, isWhole ? printed(block.block->getArgument(number).getType()) : "", found);
    }
    for (const auto &alias : state.getAttributeAliasDefs())
      take(alias.definition, printed(alias.value), found);
    for (const auto &alias : state.getTypeAliasDefs())
      take(alias.definition, printed(alias.value), found);
  }

private:
  void takeOp(const AsmParserState::OperationDefinition &op, LowtidePositions &found) {
    LowtideRange place = rangeOf(op.loc);
    // Ops of a text that does not parse no longer exist.
    std::string name = isWhole ? op.op->getName().getStringRef().str()
                               : text.substr(place.first, place.second - place.first).trim('"').str();
    found.ops.push_back({place, rangeOf(op.scopeLoc), name});
    for (const auto *group = op.resultGroups.begin(); group != op.resultGroups.end(); ++group) {
      unsigned past = group + 1 == op.resultGroups.end() ? ~0u : group[1].startIndex;
      take(group->definition, isWhole ? typesOf(op.op, group->startIndex, past) : "", found);
    }
    if (auto symbol = isWhole ? dyn_cast<SymbolOpInterface>(op.op) : SymbolOpInterface()) {
      std::string written = ("@" + symbol.getName()).str();
      size_t at = text.find(written, place.second);
      if (at < static_cast<size_t>(op.scopeLoc.End.getPointer() - text.begin()))
        found.definitions.push_back({{at, at + written.size()}, rangesOf(op.symbolUses), ""});
    }
  }

  void take(const AsmParserState::SMDefinition &definition, std::string meaning, LowtidePositions &found) {
    if (definition.loc.isValid())
      found.definitions.push_back({rangeOf(definition.loc), rangesOf(definition.uses), std::move(meaning)});
  }

  std::string typesOf(Operation *op, unsigned first, unsigned past) {
    std::string types;
    for (unsigned i = first; i < std::min(past, op->getNumResults()); ++i)
      types += (types.empty() ? "" : ", ") + printed(op->getResult(i).getType());
    return types;
  }

  template <typename T> std::string printed(T value) {
    std::string result;
    llvm::raw_string_ostream(result) << value;
    return result;
  }

  LowtideRange rangeOf(SMRange range) {
    return {range.Start.getPointer() - text.begin(), range.End.getPointer() - text.begin()};
  }

  std::vector<LowtideRange> rangesOf(ArrayRef<SMRange> ranges) {
    std::vector<LowtideRange> found;
    for (SMRange range : ranges)
      found.push_back(rangeOf(range));
    return found;
  }

  StringRef text;
  const AsmParserState &state;
  bool isWhole;
};
} // namespace

LowtidePositions lowtidePositions(MlirContext handle, std::string_view text, std::string_view file) {
  MLIRContext *context = unwrap(handle);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, file), llvm::SMLoc());
  StringRef copy = sources.getMemoryBuffer(sources.getMainFileID())->getBuffer();
  Block block;
  AsmParserState state;
  // The parser's state aborts on some modules that do not verify, such as those with two symbols of one name.
  ParserConfig config(context, /*verifyAfterParse=*/true);
  bool isWhole = succeeded(parseAsmSourceFile(sources, &block, config, &state));
  LowtidePositions found{{nullptr}, {}, {}};
  Positions(copy, state, isWhole).take(found);
  if (isWhole) {
    auto location = FileLineColLoc::get(context, file, 1, 1);
    auto module = mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(&block, context, location);
    found.module = wrap(module.release());
  }
  return found;
}

std::vector<std::string> lowtideKnownOps(MlirContext context) {
  std::vector<std::string> names;
  for (RegisteredOperationName name : unwrap(context)->getRegisteredOperations())
    names.push_back(name.getStringRef().str());
  return names;
}
