// Where the values, labels, symbols, aliases and ops of a text are, as MLIR's parser finds them. Positions are offsets in
// bytes. As in CAPI.h, the types are such that the Python module can be built with RTTI.
#ifndef LOWTIDE_DIALECTS_EXTENSION_POSITIONS_H
#define LOWTIDE_DIALECTS_EXTENSION_POSITIONS_H

#include "mlir-c/IR.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using LowtideRange = std::pair<size_t, size_t>; // first and past the last

// What has one definition and any number of uses. `meaning`: types of values, or the value of an alias; empty if the text
// is no legal module.
struct LowtideDefinition {
  LowtideRange place;
  std::vector<LowtideRange> uses;
  std::string meaning;
};

// `place`: of the name; `whole`: with regions and types. If the text is no legal module, `name` is as it is written.
struct LowtideOpPlace {
  LowtideRange place, whole;
  std::string name;
};

struct LowtidePositions {
  MlirModule module; // verified; null if the text is no legal module
  std::vector<LowtideOpPlace> ops;
  std::vector<LowtideDefinition> definitions;
};

// If the text is no legal module, errors are reported. If it does not parse, what stands before the fault is found.
LowtidePositions lowtidePositions(MlirContext context, std::string_view text, std::string_view file);

// The names of all ops of the dialects that are loaded.
std::vector<std::string> lowtideKnownOps(MlirContext context);

#endif // LOWTIDE_DIALECTS_EXTENSION_POSITIONS_H
