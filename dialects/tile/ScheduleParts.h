// The parts of `#tile.schedule` as C++ structs. Each lists its fields once, in `visit`; the parser, the printer
// (TileSchedule.cpp) and the conversions to and from a dictionary (ScheduleFields.cpp) walk that list. `roles` and
// `registers` are shorthands of `agents`, which only the parser knows.
#ifndef LOWTIDE_DIALECTS_TILE_SCHEDULEPARTS_H
#define LOWTIDE_DIALECTS_TILE_SCHEDULEPARTS_H

#include "Tile.h"

namespace lowtide::tile::parts {
using namespace mlir;

struct Grid {
  using Attr = GridAttr;
  static constexpr StringLiteral name = "grid";
  DenseI64ArrayAttr tile, cluster;
  RasterAttr order;
  std::optional<SchedulerKind> scheduler;
  std::optional<int64_t> ctasPerSm;
  std::optional<LaunchKind> launch;
  std::optional<TailKind> tail;
  KDivisionAttr kDivision;
  std::optional<WavesKind> waves;
  std::optional<OperandsKind> operands;

  Grid() = default;
  explicit Grid(GridAttr a)
      : tile(a.getTile()), cluster(a.getCluster()), order(a.getOrder()), scheduler(a.getScheduler()),
        ctasPerSm(a.getCtasPerSm()), launch(a.getLaunch()), tail(a.getTail()), kDivision(a.getKDivision()),
        waves(a.getWaves()), operands(a.getOperands()) {}
  GridAttr build(MLIRContext *context) const {
    return GridAttr::get(context, tile, cluster, order, scheduler, ctasPerSm, launch, tail, kDivision, waves,
                         operands);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.extents("tile", tile, 2, "[M, N]");
    visitor.extents("cluster", cluster, 2, "[m, n]");
    visitor.value("order", order);
    visitor.word("scheduler", scheduler);
    visitor.integer("ctas_per_sm", ctasPerSm);
    visitor.word("launch", launch);
    visitor.word("tail", tail);
    visitor.value("k_division", kDivision);
    visitor.word("waves", waves);
    visitor.word("operands", operands);
  }
};

struct Operand {
  using Attr = OperandAttr;
  static constexpr StringLiteral name = "operand";
  StringAttr copy;
  SwizzleAttr swizzle;
  std::optional<StageOrder> stage;
  std::optional<int64_t> padding;
  std::optional<CacheHint> cache;
  std::optional<RepeatKind> load;
  std::optional<PackKind> pack;

  Operand() = default;
  explicit Operand(OperandAttr a)
      : copy(a.getCopy()), swizzle(a.getSwizzle()), stage(a.getStage()), padding(a.getPadding()),
        cache(a.getCache()), load(a.getLoad()), pack(a.getPack()) {}
  OperandAttr build(MLIRContext *context) const {
    return OperandAttr::get(context, copy, swizzle, stage, padding, cache, load, pack);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.atom("copy", copy, "cp.async.16");
    visitor.value("swizzle", swizzle);
    visitor.word("stage", stage);
    visitor.integer("padding", padding);
    visitor.word("cache", cache);
    visitor.word("load", load);
    visitor.word("pack", pack);
  }
};

struct Agent {
  using Attr = AgentAttr;
  static constexpr StringLiteral name = "agent";
  std::optional<int64_t> warps, instances, registers;

  Agent() = default;
  explicit Agent(AgentAttr a) : warps(a.getWarps()), instances(a.getInstances()), registers(a.getRegisters()) {}
  AgentAttr build(MLIRContext *context) const { return AgentAttr::get(context, warps, instances, registers); }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.integer("warps", warps);
    visitor.integer("instances", instances);
    visitor.integer("registers", registers);
  }
};

struct Agents {
  using Attr = AgentsAttr;
  static constexpr StringLiteral name = "agents";
  AgentAttr producer, consumer, single;

  Agents() = default;
  explicit Agents(AgentsAttr a) : producer(a.getProducer()), consumer(a.getConsumer()), single(a.getSingle()) {}
  AgentsAttr build(MLIRContext *context) const { return AgentsAttr::get(context, producer, consumer, single); }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.template part<Agent>("producer", producer);
    visitor.template part<Agent>("consumer", consumer);
    visitor.template part<Agent>("single", single);
  }
};

struct Mainloop {
  using Attr = MainloopAttr;
  static constexpr StringLiteral name = "mainloop";
  std::optional<int64_t> k, stages;
  AgentsAttr agents;
  std::optional<RepeatKind> prologue;
  std::optional<UnrollKind> unroll;
  std::optional<ScalesKind> scales;
  std::optional<KOrderKind> kOrder;
  OperandAttr a, b;

  Mainloop() = default;
  explicit Mainloop(MainloopAttr m)
      : k(m.getK()), stages(m.getStages()), agents(m.getAgents()), prologue(m.getPrologue()),
        unroll(m.getUnroll()), scales(m.getScales()), kOrder(m.getKOrder()), a(m.getA()), b(m.getB()) {}
  MainloopAttr build(MLIRContext *context) const {
    return MainloopAttr::get(context, k, stages, agents, prologue, unroll, scales, kOrder, a, b);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.integer("k", k);
    visitor.integer("stages", stages);
    visitor.template part<Agents>("agents", agents);
    visitor.roles("roles", agents);
    visitor.registers("registers", agents);
    visitor.word("prologue", prologue);
    visitor.word("unroll", unroll);
    visitor.word("scales", scales);
    visitor.word("k_order", kOrder);
    visitor.template part<Operand>("a", a);
    visitor.template part<Operand>("b", b);
  }
};

struct Multiply {
  using Attr = MultiplyAttr;
  static constexpr StringLiteral name = "multiply";
  StringAttr atom;
  DenseI64ArrayAttr atoms;
  LayoutAttr atomOrder;
  Attribute permutation;
  std::optional<int64_t> fragmentBuffers;
  std::optional<PromoteKind> promote;

  Multiply() = default;
  explicit Multiply(MultiplyAttr m)
      : atom(m.getAtom()), atoms(m.getAtoms()), atomOrder(m.getAtomOrder()), permutation(m.getPermutation()),
        fragmentBuffers(m.getFragmentBuffers()), promote(m.getPromote()) {}
  MultiplyAttr build(MLIRContext *context) const {
    return MultiplyAttr::get(context, atom, atoms, atomOrder, permutation, fragmentBuffers, promote);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.atom("atom", atom, "mma.m16n8k16");
    visitor.extents("atoms", atoms, 3, "[M, N, K]");
    visitor.value("atom_order", atomOrder);
    visitor.permutation("permutation", permutation);
    visitor.integer("fragment_buffers", fragmentBuffers);
    visitor.word("promote", promote);
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
  std::optional<int64_t> store;
  std::optional<CacheHint> cache;
  std::optional<PackKind> pack;
  std::optional<int64_t> prefetch;
  std::optional<EpilogueStart> start;

  Epilogue() = default;
  explicit Epilogue(EpilogueAttr e)
      : path(e.getPath()), math(e.getMath()), tile(e.getTile()), buffers(e.getBuffers()), swizzle(e.getSwizzle()),
        store(e.getStore()), cache(e.getCache()), pack(e.getPack()), prefetch(e.getPrefetch()), start(e.getStart()) {}
  EpilogueAttr build(MLIRContext *context) const {
    return EpilogueAttr::get(context, path, math, tile, buffers, swizzle, store, cache, pack, prefetch, start);
  }
  template <typename Visitor> void visit(Visitor &&visitor) {
    visitor.word("path", path);
    visitor.word("math", math);
    visitor.extents("tile", tile, 2, "[M, N]");
    visitor.integer("buffers", buffers);
    visitor.value("swizzle", swizzle);
    visitor.integer("store", store);
    visitor.word("cache", cache);
    visitor.word("pack", pack);
    visitor.integer("prefetch", prefetch);
    visitor.word("start", start);
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
} // namespace lowtide::tile::parts

#endif // LOWTIDE_DIALECTS_TILE_SCHEDULEPARTS_H
