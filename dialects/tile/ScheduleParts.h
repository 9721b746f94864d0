// The fields of the parts of `#tile.schedule`. `roles` and `registers` are shorthands of `agents`, which only the parser
// knows.
#ifndef LOWTIDE_DIALECTS_TILE_SCHEDULEPARTS_H
#define LOWTIDE_DIALECTS_TILE_SCHEDULEPARTS_H

#include "../extension/Fields.h"
#include "Tile.h"

namespace lowtide::fields {
template <> struct FieldsOf<tile::GridAttr> {
  using Part = tile::GridAttr;
  static constexpr auto list() {
    return std::tuple(optional("tile", &Part::getTile, "[M, N]"), optional("cluster", &Part::getCluster, "[m, n]"),
                      optional("order", &Part::getOrder), optional("scheduler", &Part::getScheduler),
                      optional("ctas_per_sm", &Part::getCtasPerSm), optional("launch", &Part::getLaunch),
                      optional("tail", &Part::getTail), optional("k_division", &Part::getKDivision),
                      optional("waves", &Part::getWaves), optional("operands", &Part::getOperands),
                      optional("sender", &Part::getSender));
  }
};
template <> struct FieldsOf<tile::OperandAttr> {
  using Part = tile::OperandAttr;
  static constexpr auto list() {
    return std::tuple(optional("copy", &Part::getCopy, "cp.async.16"), optional("swizzle", &Part::getSwizzle),
                      optional("stage", &Part::getStage), optional("padding", &Part::getPadding),
                      optional("cache", &Part::getCache), optional("load", &Part::getLoad),
                      optional("pack", &Part::getPack));
  }
};
template <> struct FieldsOf<tile::AgentAttr> {
  using Part = tile::AgentAttr;
  static constexpr auto list() {
    return std::tuple(optional("warps", &Part::getWarps), optional("instances", &Part::getInstances),
                      optional("registers", &Part::getRegisters));
  }
};
template <> struct FieldsOf<tile::AgentsAttr> {
  using Part = tile::AgentsAttr;
  static constexpr auto list() {
    return std::tuple(optional("producer", &Part::getProducer), optional("consumer", &Part::getConsumer),
                      optional("single", &Part::getSingle));
  }
};
template <> struct FieldsOf<tile::MainloopAttr> {
  using Part = tile::MainloopAttr;
  static constexpr auto list() {
    return std::tuple(optional("k", &Part::getK), optional("stages", &Part::getStages),
                      optional("agents", &Part::getAgents), optional("prologue", &Part::getPrologue),
                      optional("unroll", &Part::getUnroll), optional("scales", &Part::getScales),
                      optional("k_order", &Part::getKOrder), optional("a", &Part::getA), optional("b", &Part::getB));
  }
};
template <> struct FieldsOf<tile::MultiplyAttr> {
  using Part = tile::MultiplyAttr;
  static constexpr auto list() {
    return std::tuple(optional("atom", &Part::getAtom, "mma.m16n8k16"), optional("atoms", &Part::getAtoms, "[M, N, K]"),
                      optional("atom_order", &Part::getAtomOrder), optional("permutation", &Part::getPermutation),
                      optional("fragment_buffers", &Part::getFragmentBuffers), optional("promote", &Part::getPromote));
  }
};
template <> struct FieldsOf<tile::EpilogueAttr> {
  using Part = tile::EpilogueAttr;
  static constexpr auto list() {
    return std::tuple(optional("path", &Part::getPath), optional("math", &Part::getMath),
                      optional("tile", &Part::getTile, "[M, N]"), optional("buffers", &Part::getBuffers),
                      optional("swizzle", &Part::getSwizzle), optional("store", &Part::getStore),
                      optional("cache", &Part::getCache), optional("pack", &Part::getPack),
                      optional("prefetch", &Part::getPrefetch), optional("start", &Part::getStart));
  }
};
template <> struct FieldsOf<tile::ScheduleAttr> {
  using Part = tile::ScheduleAttr;
  static constexpr auto list() {
    return std::tuple(optional("grid", &Part::getGrid), optional("mainloop", &Part::getMainloop),
                      optional("multiply", &Part::getMultiply), optional("epilogue", &Part::getEpilogue));
  }
};
} // namespace lowtide::fields

#endif // LOWTIDE_DIALECTS_TILE_SCHEDULEPARTS_H
