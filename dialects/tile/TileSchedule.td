// The problem of a kernel (`#tile.problem`) and its schedule (`#tile.schedule` and its parts).
#ifndef LOWTIDE_TILE_SCHEDULE_TD
#define LOWTIDE_TILE_SCHEDULE_TD

include "TileDialect.td"
include "mlir/IR/EnumAttr.td"

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::lowtide::tile";
}

def Tile_GemmLayout : Tile_Enum<"GemmLayout", "layout of A and B in memory, in BLAS's letters", [
    I32EnumAttrCase<"tn", 0>, I32EnumAttrCase<"tt", 1>, I32EnumAttrCase<"nn", 2>, I32EnumAttrCase<"nt", 3>]>;

def Tile_OperandKind : Tile_Enum<"OperandKind", "the part of D or of K that each element of an operand belongs to", [
    I32EnumAttrCase<"full", 0>, I32EnumAttrCase<"per_row", 1>, I32EnumAttrCase<"per_column", 2>,
    I32EnumAttrCase<"scalar", 3>, I32EnumAttrCase<"group_scale", 4>, I32EnumAttrCase<"group_zero", 5>,
    I32EnumAttrCase<"row_scale", 6>, I32EnumAttrCase<"column_scale", 7>, I32EnumAttrCase<"row_block_scale", 8>,
    I32EnumAttrCase<"column_block_scale", 9>, I32EnumAttrCase<"ends", 10>, I32EnumAttrCase<"target", 11>,
    I32EnumAttrCase<"a_rows", 12>, I32EnumAttrCase<"d_rows", 13>,
    I32EnumAttrCase<"arrived", 14>, I32EnumAttrCase<"turn", 15>, I32EnumAttrCase<"status", 16>,
    I32EnumAttrCase<"peers", 17>, I32EnumAttrCase<"sent", 18>]>;

// A reduction's word names the part of A · B that each of its elements is computed from, a row, a column or all of it, and
// then the operation. An absent result is a D that is not stored: it only has extents.
def Tile_ResultKind : Tile_Enum<"ResultKind", "the kind of a result; for a reduction, its part of A · B and its operation", [
    I32EnumAttrCase<"full", 0>, I32EnumAttrCase<"amax", 1>,
    I32EnumAttrCase<"row_sum", 2>, I32EnumAttrCase<"row_max", 3>, I32EnumAttrCase<"row_min", 4>,
    I32EnumAttrCase<"row_logsumexp", 5>, I32EnumAttrCase<"row_value", 6>,
    I32EnumAttrCase<"column_sum", 7>, I32EnumAttrCase<"column_max", 8>, I32EnumAttrCase<"column_min", 9>,
    I32EnumAttrCase<"column_logsumexp", 10>, I32EnumAttrCase<"column_value", 11>,
    I32EnumAttrCase<"all_sum", 12>, I32EnumAttrCase<"all_max", 13>, I32EnumAttrCase<"all_min", 14>,
    I32EnumAttrCase<"all_logsumexp", 15>, I32EnumAttrCase<"absent", 16>]>;

def Tile_RasterKind : Tile_Enum<"RasterKind", "order in which work tiles are assigned", [
    I32EnumAttrCase<"row", 0>, I32EnumAttrCase<"column", 1>, I32EnumAttrCase<"grouped", 2>,
    I32EnumAttrCase<"groups", 3>, I32EnumAttrCase<"hilbert", 4>]>;

def Tile_SchedulerKind : Tile_Enum<"SchedulerKind", "how CTAs take work tiles", [
    I32EnumAttrCase<"one_shot", 0>, I32EnumAttrCase<"persistent", 1>, I32EnumAttrCase<"even_split", 2>]>;

def Tile_LaunchKind : Tile_Enum<"LaunchKind", "when a kernel may start", [
    I32EnumAttrCase<"serialized", 0>, I32EnumAttrCase<"programmatic", 1>]>;

def Tile_TailKind : Tile_Enum<"TailKind", "how a persistent grid runs a last wave that is not full", [
    I32EnumAttrCase<"whole", 0>, I32EnumAttrCase<"halves", 1>]>;

def Tile_WavesKind : Tile_Enum<"WavesKind", "how the CTAs of a persistent grid keep in step", [
    I32EnumAttrCase<"free", 0>, I32EnumAttrCase<"synchronized", 1>]>;

def Tile_OperandsKind : Tile_Enum<"OperandsKind", "which of the two operands provides the rows of the product", [
    I32EnumAttrCase<"as_given", 0>, I32EnumAttrCase<"swapped", 1>]>;

def Tile_SenderKind : Tile_Enum<"SenderKind", "who sends this GPU's shard of A to other GPUs", [
    I32EnumAttrCase<"copy_engine", 0>, I32EnumAttrCase<"kernel", 1>]>;

// In the order of the arguments of the body of tile.work_tiles.
def Tile_Coordinate : Tile_Enum<"Coordinate", "coordinate of a work item", [
    I32EnumAttrCase<"m", 0>, I32EnumAttrCase<"n", 1>, I32EnumAttrCase<"batch", 2>, I32EnumAttrCase<"group", 3>,
    I32EnumAttrCase<"rows_end", 4>, I32EnumAttrCase<"k0", 5>, I32EnumAttrCase<"k1", 6>, I32EnumAttrCase<"part", 7>,
    I32EnumAttrCase<"parts", 8>, I32EnumAttrCase<"slot", 9>]>;

def Tile_WorkPart : Tile_Enum<"WorkPart", "the tiles that a loop over work tiles takes", [
    I32EnumAttrCase<"all", 0>, I32EnumAttrCase<"full_waves", 1>, I32EnumAttrCase<"tail_halves", 2>]>;

def Tile_RepeatKind : Tile_Enum<"RepeatKind", "how often a CTA does something: for each of its work tiles, or once", [
    I32EnumAttrCase<"per_tile", 0>, I32EnumAttrCase<"once", 1>]>;

def Tile_PromoteKind : Tile_Enum<"PromoteKind", "where sums of products get the precision of the accumulators' type", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"per_step", 1>, I32EnumAttrCase<"overlapped", 2>]>;

def Tile_Precision : Tile_Enum<"Precision", "sums of products of narrower pieces that compute A · B", [
    I32EnumAttrCase<"tf32x3", 0>, I32EnumAttrCase<"bf16x6", 1>]>;

def Tile_Side : Tile_Enum<"Side", "which of the two operands of a product", [
    I32EnumAttrCase<"left", 0>, I32EnumAttrCase<"right", 1>]>;

def Tile_UnrollKind : Tile_Enum<"UnrollKind", "whether the loop over K steps is unrolled", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"full", 1>]>;

def Tile_ScalesKind : Tile_Enum<"ScalesKind", "how block scales reach the threads that multiply by them", [
    I32EnumAttrCase<"direct", 0>, I32EnumAttrCase<"staged", 1>]>;

def Tile_KOrderKind : Tile_Enum<"KOrderKind", "order of the K steps of a CTA's work tiles", [
    I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"serpentine", 1>]>;

def Tile_PackKind : Tile_Enum<"PackKind", "how a matrix is copied before the kernel reads it, or after it is written", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"rows", 1>, I32EnumAttrCase<"transposed", 2>]>;

def Tile_StorePath : Tile_Enum<"StorePath", "how the accumulators reach D", [
    I32EnumAttrCase<"smem", 0>, I32EnumAttrCase<"direct", 1>, I32EnumAttrCase<"tma", 2>]>;

def Tile_EpilogueStart : Tile_Enum<"EpilogueStart", "when the epilogue of a tile starts", [
    I32EnumAttrCase<"all_sums", 0>, I32EnumAttrCase<"first_rows", 1>, I32EnumAttrCase<"next_tile", 2>]>;

def Tile_EpilogueMath : Tile_Enum<"EpilogueMath", "where the epilogue region runs", [
    I32EnumAttrCase<"registers", 0>, I32EnumAttrCase<"rows", 1>]>;

def Tile_CacheHint : Tile_Enum<"CacheHint", "cache policy of an access", [
    I32EnumAttrCase<"normal", 0>, I32EnumAttrCase<"evict_first", 1>, I32EnumAttrCase<"evict_last", 2>,
    I32EnumAttrCase<"streaming", 3>, I32EnumAttrCase<"write_through", 4>]>;

def Tile_KDivisionKind : Tile_Enum<"KDivisionKind", "how CTAs divide the K of a tile", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"split", 1>, I32EnumAttrCase<"stream_k", 2>,
    I32EnumAttrCase<"hybrid", 3>, I32EnumAttrCase<"scatter", 4>, I32EnumAttrCase<"tail", 5>,
    I32EnumAttrCase<"scatter_tail", 6>]>;

def Tile_KDivisionAttr : Tile_Attr<"KDivision", "k_division"> {
  let summary = "How CTAs divide the K of a tile; partial sums are added";
  let description = [{
    - `none`: one CTA computes a tile.
    - `split n`: n CTAs, each with an equal share of the K steps; fewer CTAs if there are fewer steps. The division does
      not depend on the GPU.
    - `scatter n`: as `split n`, but each CTA adds the partial sums of its share of the tile's columns.
    - `stream_k`: each CTA of the launch computes an equal share of the K steps of all tiles: the end of one tile, whole
      tiles, and the beginning of another. The division depends on the number of CTAs.
    - `hybrid`: whole tiles first, and the steps of the last one to two waves of tiles as in `stream_k`.
    - `tail n`: whole tiles in waves first, then the tiles of an incomplete last wave in n parts each, as in `split n`.
      The number of CTAs determines these tiles.
    - `scatter_tail n`: as `tail n`, but each CTA adds the partial sums of its share of the tile's columns.

    ```mlir
    #tile.k_division<split 8>
    ```
  }];
  let parameters = (ins EnumParameter<Tile_KDivisionKind>:$kind, DefaultValuedParameter<"int64_t", "0">:$parts);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_StageOrder : Tile_Enum<"StageOrder", "order of an operand's elements in a stage", [
    I32EnumAttrCase<"as_loaded", 0>, I32EnumAttrCase<"transposed", 1>]>;

def Tile_RasterAttr : Tile_Attr<"Raster", "raster"> {
  let summary = "Rasterization order: the order in which work tiles are assigned";
  let description = [{
    - `row`: row by row.
    - `column`: column by column.
    - `grouped n`: in bands of `n` tile rows, and column by column within a band. Tiles that run at the same time share
      operands in L2.
    - `groups m, n`: in bands of `m` tile rows, divided into groups of `m` × `n` tiles; row by row within a group.
    - `hilbert`: along a Hilbert curve, generalized to any grid of tiles. Tiles that run at the same time form a compact
      region, and consecutive tiles are neighbours.

    ```mlir
    #tile.raster<grouped 8>
    #tile.raster<groups 16, 8>
    ```
  }];
  let parameters = (ins EnumParameter<Tile_RasterKind>:$kind, DefaultValuedParameter<"int64_t", "0">:$group,
                        DefaultValuedParameter<"int64_t", "0">:$columns);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // The number of arguments of a word.
    static unsigned numbersOf(RasterKind kind) {
      return kind == RasterKind::grouped ? 1 : kind == RasterKind::groups ? 2 : 0;
    }
  }];
}

// `choose-schedule` chooses omitted fields.
def Tile_OptionalInt : OptionalParameter<"std::optional<int64_t>">;
class Tile_OptionalEnum<string name> : OptionalParameter<"std::optional<" # name # ">">;
class Tile_OptionalAttr<string name> : OptionalParameter<name>;

// A part of the schedule: `<name = value, …>`, each field at most once and in any order.
class Tile_SchedulePart<string className, string keyword> : Tile_Attr<className, keyword> {
  let hasCustomAssemblyFormat = 1;
}

def Tile_GridAttr : Tile_SchedulePart<"Grid", "grid"> {
  let summary = "The grid part of a schedule: the tiles of D, their order and their CTAs";
  let description = [{
    | field | value | meaning |
    |---|---|---|
    | `tile` | `[M, N]` | CTA tile of D, in elements |
    | `cluster` | `[m, n]` | CTAs of a cluster, which compute m × n neighbouring tiles and share the loads of A and B; default `[1, 1]` |
    | `order` | `row`, `column`, `grouped(n)`, `groups(m, n)`, `hilbert` | order of work tiles, as in `#tile.raster` |
    | `scheduler` | `one_shot`, `persistent`, `even_split` | `one_shot`: one CTA per work tile. `persistent`: as many CTAs as fit at once; CTA i of g computes tiles i, i + g, …. `even_split`: as many CTAs; each computes a run of consecutive tiles of equal length |
    | `ctas_per_sm` | integer | CTAs that must fit on an SM at once: registers per thread are limited to their share, and a persistent grid without clusters has at least as many on each SM; default 1 |
    | `launch` | `serialized`, `programmatic` | `serialized`: the kernel starts after the kernels before it in the stream have ended. `programmatic`: it may start earlier, and waits before it accesses global memory; default `serialized` |
    | `tail` | `whole`, `halves` | `halves`: a last wave that is at most half full runs as half tiles, so that twice as many CTAs take part; default `whole` |
    | `k_division` | `none`, `split(n)`, `scatter(n)`, `stream_k`, `hybrid`, `tail(n)`, `scatter_tail(n)` | how CTAs divide the K of a tile, as in `#tile.k_division`; default `none` |
    | `waves` | `free`, `synchronized` | `synchronized`: before each work tile a CTA waits, for a bounded time, until the others have started as many; default `free` |
    | `operands` | `as_given`, `swapped` | `swapped`: the kernel computes Dᵀ = Bᵀ · Aᵀ, and all other fields refer to that product, whose A is B and whose M is N; default `as_given` |
    | `sender` | `copy_engine`, `kernel` | who sends this GPU's shard of A to other GPUs. `kernel`: all threads do, before the first work tile. `copy_engine`: the caller copies it, and the kernel reads neither `peers` nor `sent`; default `copy_engine` |

    ```mlir
    #tile.grid<tile = [128, 256], order = grouped(16), scheduler = persistent>
    #tile.grid<tile = [256, 192], order = grouped(8), scheduler = persistent, tail = halves>
    ```
  }];
  let parameters = (ins Tile_OptionalAttr<"::mlir::DenseI64ArrayAttr">:$tile,
                        Tile_OptionalAttr<"::mlir::DenseI64ArrayAttr">:$cluster, Tile_OptionalAttr<"RasterAttr">:$order,
                        Tile_OptionalEnum<"SchedulerKind">:$scheduler, Tile_OptionalInt:$ctasPerSm,
                        Tile_OptionalEnum<"LaunchKind">:$launch, Tile_OptionalEnum<"TailKind">:$tail,
                        Tile_OptionalAttr<"KDivisionAttr">:$kDivision, Tile_OptionalEnum<"WavesKind">:$waves,
                        Tile_OptionalEnum<"OperandsKind">:$operands, Tile_OptionalEnum<"SenderKind">:$sender);
}

def Tile_AgentAttr : Tile_SchedulePart<"Agent", "agent"> {
  let summary = "A set of warps that run one program: a part of the agents";
  let description = [{
    | field | value | meaning |
    |---|---|---|
    | `warps` | integer | warps of one instance, which share each work tile |
    | `instances` | integer | instances, which take work tiles in turn; default 1 |
    | `registers` | integer | registers per thread that the agent requests with setmaxnreg; 0: no setmaxnreg |

    ```mlir
    #tile.agent<warps = 8, instances = 1, registers = 232>
    ```
  }];
  let parameters = (ins Tile_OptionalInt:$warps, Tile_OptionalInt:$instances, Tile_OptionalInt:$registers);
}

def Tile_AgentsAttr : Tile_SchedulePart<"Agents", "agents"> {
  let summary = "Which warps of a CTA do what: a part of the mainloop";
  let description = [{
    Either a `producer` and a `consumer`, or a `single` agent.

    | field | value | meaning |
    |---|---|---|
    | `producer` | `<…>` | the agent that copies the operands to the stages of the ring, as in `#tile.agent` |
    | `consumer` | `<…>` | the agent that multiplies, and runs the epilogue |
    | `single` | `<…>` | the agent that does all; `warps` may be left out: as many as `multiply.atoms` take |

    ```mlir
    #tile.agents<producer = <warps = 4, registers = 40>, consumer = <warps = 8, instances = 1, registers = 232>>
    #tile.agents<producer = <warps = 4, registers = 40>, consumer = <warps = 4, instances = 2, registers = 232>>
    #tile.agents<single = <instances = 1>>
    ```
  }];
  let parameters = (ins Tile_OptionalAttr<"AgentAttr">:$producer, Tile_OptionalAttr<"AgentAttr">:$consumer,
                        Tile_OptionalAttr<"AgentAttr">:$single);
}

def Tile_OperandAttr : Tile_SchedulePart<"Operand", "operand"> {
  let summary = "How A or B is copied to shared memory: a part of the mainloop";
  let description = [{
    | field | value | meaning |
    |---|---|---|
    | `copy` | name | copy atom, e.g. `cp.async.16`, `tma`, `tma.3d` |
    | `swizzle` | `<B,M,S>` | swizzle of the stage in shared memory |
    | `stage` | `as_loaded`, `transposed` | the contiguous dimension of the stage: the same as in global memory, or the other; default `as_loaded` |
    | `padding` | integer | elements between consecutive rows of the stage; default 0 |
    | `cache` | `normal`, `evict_first`, `evict_last` | L2 eviction policy of the TMA loads; default `normal` |
    | `load` | `per_tile`, `once` | `once`: a CTA loads the operand for its first work tile and keeps it in the slots of the ring for the others; default `per_tile` |
    | `pack` | `none`, `rows`, `transposed` | `rows`: if base or rows of the operand are not aligned for the copy, another kernel first copies it to a workspace with aligned rows. `transposed`: another kernel first writes its transpose there, so that K is contiguous; default `none` |

    ```mlir
    #tile.operand<copy = tma, swizzle = <3,3,3>, cache = evict_last>
    ```
  }];
  let parameters = (ins Tile_OptionalAttr<"::mlir::StringAttr">:$copy, Tile_OptionalAttr<"SwizzleAttr">:$swizzle,
                        Tile_OptionalEnum<"StageOrder">:$stage, Tile_OptionalInt:$padding,
                        Tile_OptionalEnum<"CacheHint">:$cache, Tile_OptionalEnum<"RepeatKind">:$load,
                        Tile_OptionalEnum<"PackKind">:$pack);
}

def Tile_MainloopAttr : Tile_SchedulePart<"Mainloop", "mainloop"> {
  let summary = "The mainloop part of a schedule: the stages of the loop over K, and the warps that fill them";
  let description = [{
    | field | value | meaning |
    |---|---|---|
    | `k` | integer | K of one step, in elements |
    | `stages` | integer ≥ 2 | number of slots of the ring in shared memory |
    | `agents` | `<…>` | which warps copy and which multiply, as in `#tile.agents` |
    | `prologue` | `per_tile`, `once` | with a single agent. `per_tile`: the first stages of each work tile are filled before its K loop. `once`: for the first tile of a CTA only; the last K steps of a tile start the copies of the next one; default `per_tile` |
    | `unroll` | `none`, `full` | with a single agent. `full`: the loop over K is unrolled, so that loads, products and stores of its steps are scheduled together; default `none` |
    | `scales` | `direct`, `staged` | with a producer. `direct`: a consumer loads the scales of a K step from global memory. `staged`: the producer copies them by TMA to the slot of the step; default `direct` |
    | `k_order` | `forward`, `serpentine` | with a producer. `serpentine`: every second work tile of a CTA takes its K steps from the last to the first, and so begins with what L2 keeps of the tile before it; default `forward` |
    | `a`, `b` | `<…>` | how the operand is copied, as in `#tile.operand` |

    Two shorthands may be written, and are read as agents. `roles = single` is a single agent. `roles = cooperative(n)` is a
    producer of one warpgroup, and a consumer of n warpgroups that share each tile. `roles = pingpong(n)` is such a producer,
    and n instances of a consumer of one warpgroup. `registers = [40, 232]` are the registers of the producer and of the
    consumer.

    ```mlir
    #tile.mainloop<k = 64, stages = 4, agents = <producer = <warps = 4, registers = 40>, consumer = <warps = 8, instances = 1, registers = 232>>,
      a = <copy = tma, swizzle = <3,3,3>>,
      b = <copy = tma, swizzle = <3,3,3>>>
    ```
  }];
  let parameters = (ins Tile_OptionalInt:$k, Tile_OptionalInt:$stages, Tile_OptionalAttr<"AgentsAttr">:$agents,
                        Tile_OptionalEnum<"RepeatKind">:$prologue,
                        Tile_OptionalEnum<"UnrollKind">:$unroll, Tile_OptionalEnum<"ScalesKind">:$scales,
                        Tile_OptionalEnum<"KOrderKind">:$kOrder,
                        Tile_OptionalAttr<"OperandAttr">:$a, Tile_OptionalAttr<"OperandAttr">:$b);
}

def Tile_MultiplyAttr : Tile_SchedulePart<"Multiply", "multiply"> {
  let summary = "The multiply part of a schedule: the mma instruction, and its warps";
  let description = [{
    | field | value | meaning |
    |---|---|---|
    | `atom` | name | mma atom, e.g. `mma.m16n8k16`, `wgmma.m64n256k16` |
    | `atoms` | `[M, N, K]` | number of atoms in each dimension; each runs on its own warp (wgmma: warpgroup; fma: thread) |
    | `atom_order` | layout | the index of the warp (thread) of atom (m, n, k); default: M fastest, then N, then K |
    | `permutation` | `[M, N, K]`, each an extent or a layout | permutation of the tiled mma; its extents are one step of the tiled mma |
    | `fragment_buffers` | 1 or 2 | 2: the fragments of the next k-slice are loaded while this one is multiplied |
    | `promote` | `none`, `per_step`, `overlapped` | `per_step`: the mma instructions sum each K step from zero, and `tile.promote` adds these sums in registers; `overlapped`: the same with wgmma, and the slot of the next K step is awaited and read while this one is multiplied; default `none` |

    ```mlir
    #tile.multiply<atom = mma.m16n8k16, atoms = [2, 2, 1], permutation = [32, 32, 16], fragment_buffers = 2>
    ```
  }];
  let parameters = (ins Tile_OptionalAttr<"::mlir::StringAttr">:$atom,
                        Tile_OptionalAttr<"::mlir::DenseI64ArrayAttr">:$atoms, Tile_OptionalAttr<"LayoutAttr">:$atomOrder,
                        Tile_OptionalAttr<"::mlir::Attribute">:$permutation, Tile_OptionalInt:$fragmentBuffers,
                        Tile_OptionalEnum<"PromoteKind">:$promote);
}

def Tile_EpilogueAttr : Tile_SchedulePart<"Epilogue", "epilogue"> {
  let summary = "The epilogue part of a schedule: how the accumulators become D";
  let description = [{
    | field | value | meaning |
    |---|---|---|
    | `path` | `smem`, `direct`, `tma` | `smem`: stores through shared memory. `direct`: stores from the fragments. `tma`: asynchronous TMA stores from shared memory |
    | `math` | `registers`, `rows` | where the epilogue region runs: `registers`, on the accumulator fragments; `rows`, on whole rows read back from shared memory |
    | `tile` | `[M, N]` | the part of the CTA tile that one scratch buffer in shared memory holds |
    | `buffers` | integer | with `tma`: number of scratch buffers, used in turn; default 1 |
    | `swizzle` | `<B,M,S>` | swizzle of the scratch buffers |
    | `store` | 16, 8, 4 or 2 | the most bytes that a thread stores at once (`smem`, `direct`); default 16 |
    | `cache` | `normal`, `evict_first`, `evict_last` (`tma`), `streaming`, `write_through` (otherwise) | cache policy of the stores; default `normal` |
    | `pack` | `none`, `rows` | `rows`: if base or rows of D or of a full operand are not aligned, the kernel accesses a workspace with aligned rows, and another kernel copies it from or to the matrix; default `none` |
    | `prefetch` | integer | how many parts ahead a full operand is loaded (`rows`); default 0 |
    | `start` | `all_sums`, `first_rows`, `next_tile` | `first_rows`: with a producer; the last K step multiplies the rows of a tile block by block, and the first part is stored once the sums of its rows are complete. `next_tile`: with `direct`; a thread holds D of a tile in registers, and stores it among the products of the CTA's next tile; default `all_sums` |

    ```mlir
    #tile.epilogue<path = tma, math = registers, tile = [128, 64], buffers = 4, swizzle = <3,3,3>>
    ```
  }];
  let parameters = (ins Tile_OptionalEnum<"StorePath">:$path, Tile_OptionalEnum<"EpilogueMath">:$math,
                        Tile_OptionalAttr<"::mlir::DenseI64ArrayAttr">:$tile, Tile_OptionalInt:$buffers,
                        Tile_OptionalAttr<"SwizzleAttr">:$swizzle, Tile_OptionalInt:$store,
                        Tile_OptionalEnum<"CacheHint">:$cache, Tile_OptionalEnum<"PackKind">:$pack,
                        Tile_OptionalInt:$prefetch, Tile_OptionalEnum<"EpilogueStart">:$start);
}

def Tile_ScheduleAttr : Tile_SchedulePart<"Schedule", "schedule"> {
  let summary = "All scheduling decisions: grid, mainloop, multiply, epilogue";
  let description = [{
    The parts are the grid of CTAs (`#tile.grid`), the loop over K (`#tile.mainloop`), the multiply (`#tile.multiply`)
    and the epilogue (`#tile.epilogue`). A schedule written by hand may omit parts and fields; `choose-schedule` fills
    them in.

    ```mlir
    #tile.schedule<
      grid = <tile = [128, 256], order = grouped(16), scheduler = persistent>,
      mainloop = <k = 64, stages = 4, roles = cooperative(2), registers = [40, 232],
        a = <copy = tma, swizzle = <3,3,3>>,
        b = <copy = tma, swizzle = <3,3,3>>>,
      multiply = <atom = wgmma.m64n256k16, atoms = [2, 1, 1], permutation = [128, 256, 16], fragment_buffers = 1>,
      epilogue = <path = tma, math = registers, tile = [128, 64], buffers = 4, swizzle = <3,3,3>>>
    ```
  }];
  let genMnemonicAlias = 1;
  let parameters = (ins Tile_OptionalAttr<"GridAttr">:$grid, Tile_OptionalAttr<"MainloopAttr">:$mainloop,
                        Tile_OptionalAttr<"MultiplyAttr">:$multiply, Tile_OptionalAttr<"EpilogueAttr">:$epilogue);
}

def Tile_ProblemAttr : Tile_Attr<"Problem", "problem"> {
  let summary = "The problem of a kernel: layout and element types of A, B, the accumulator, the results and the epilogue's operands";
  let description = [{
    The host function has the requested problem, from the first pass on that exchanges, transposes or splits A and B. A
    kernel has the problem of its products, from level `cta` on, so that passes need not infer types from the remaining
    ops. The arguments of both are A, B, the `results` and the `operands`, in this order. With `fast`, sums may have the
    lower precision of mma instructions. The memrefs give the extents. `empty` names the extents among M, N and K that
    are known to be 0. The kernel treats such an extent as a run-time extent that may be 0. The caller checks it and, if
    K is empty, passes zeros of another K, so that D is the epilogue of 0. A kernel's problem is `swapped` if its A is
    the requested B, as after `swap-operands`. Full results and operands are stored `by_columns` or by rows. A `b` that
    cannot be multiplied by A's type is the type of packed weights, which are converted to A's; with `group`, sums over
    that much of K are scaled. With `by`, A · B is computed as a sum of products of pieces; A and B of a kernel are the
    pieces, as after `split-operands`. With `pairs`, two columns of B belong to each column of the results, `interleaved`
    or in two halves.

    ```mlir
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], operands = [per_column bf16, scalar f32]>
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], empty = [k]>
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], swapped>
    #tile.problem<tn, a = f8E4M3FN, b = f8E5M2, acc = f32, results = [full bf16], fast>
    #tile.problem<tn, a = bf16, b = si4, acc = f32, results = [full bf16], operands = [group_scale bf16], group = 128>
    #tile.problem<tn, a = tf32, b = tf32, acc = f32, results = [full f32], by = tf32x3>
    #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full bf16], pairs, interleaved>
    ```
  }];
  let genMnemonicAlias = 1;
  let parameters = (ins EnumParameter<Tile_GemmLayout>:$layout, "::mlir::Type":$a, "::mlir::Type":$b,
                        "::mlir::Type":$acc, ArrayRefParameter<"ResultKind">:$result_kinds,
                        ArrayRefParameter<"::mlir::Type">:$results, ArrayRefParameter<"OperandKind">:$kinds,
                        ArrayRefParameter<"::mlir::Type">:$operands, ArrayRefParameter<"::mlir::StringAttr">:$empty,
                        DefaultValuedParameter<"bool", "false">:$swapped,
                        DefaultValuedParameter<"bool", "false">:$fast,
                        DefaultValuedParameter<"bool", "false">:$by_columns,
                        DefaultValuedParameter<"int64_t", "0">:$group, Tile_OptionalEnum<"Precision">:$precision,
                        DefaultValuedParameter<"bool", "false">:$pairs,
                        DefaultValuedParameter<"bool", "false">:$interleaved);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // LOWTIDE_TILE_SCHEDULE_TD
