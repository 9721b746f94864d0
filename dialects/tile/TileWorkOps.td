// Operations of work tiles: the loop over them, the next one, and the wave. Included by TileOps.td, whose classes they
// use.
#ifndef LOWTIDE_TILE_WORK_OPS_TD
#define LOWTIDE_TILE_WORK_OPS_TD

def Tile_WorkTilesOp : Tile_Op<"work_tiles", [AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects,
    Tile_NamesArguments]> {
  let summary = "Runs its body once for each work tile of the CTA";
  let description = [{
    Divides the `rows`×`columns` extent into tiles of size `tile`, orders them by `order` and assigns them to the CTAs
    of the launch. The last tiles may extend past the edge.

    - `one_shot`: CTA i computes tile i.
    - `persistent`: CTA i computes tiles i, i + CTAs, i + 2·CTAs, ….
    - `even_split`: each CTA computes a run of consecutive tiles. The first (tiles mod CTAs) CTAs compute one more tile
      than the others.

    With `in_turn`, the instances of a role (`sm.roles`) take the tiles of the CTA in turn: instance i of n computes its
    tiles i, i + n, ….

    With `part`, a persistent loop takes some of the tiles. With T tiles on g CTAs, T mod g are left for a last wave. If
    they are at least one and at most half of g, they are split in halves along M; otherwise nothing is split.

    - `full_waves`: the tiles before those that are split, or all tiles if nothing is split.
    - `tail_halves`: the halves, two consecutive ones per tile; CTA i computes half i. `tile` is the extent of a half;
      the order is that of tiles of twice as many rows. A half may be completely past the edge.

    With `cluster [m, n]`, a cluster of m × n CTAs replaces a CTA, and a super-tile of m × n tiles replaces a tile:
    order and scheduler apply to super-tiles. CTA r of a cluster computes the tile in row r / n and column r mod n, even
    if that tile is past the edge; its windows are then empty.

    A work item has named coordinates. They are arguments of the body, followed by the loop-carried values, as in
    scf.for. `m` and `n` are the first row and the first column of the tile. Clauses add others:

    - `batch(%b of %B)`: the tiles of B matrices, one matrix after another. `batch` is the index of the matrix.
      Scheduler, parts and division of K apply to all tiles. With `batch(%b of %B from %first)`, the order of the matrices
      is `first`, `first` + 1, …, B − 1, 0, …, `first` − 1. `first` must be less than B.
    - `groups(%g to %rows_end of %ends)`: the rows are grouped. Group g has the rows from `ends[g - 1]`, or 0, up to
      `ends[g]`. An end is clamped to [the end before, `rows`], and rows after the last end belong to no group. The
      tiles of a group begin at its first row, and follow the tiles of the group before. `group` is the index of the
      group, and `rows_end` the end of its rows: rows of the tile from there on may be loaded, but do not count and are
      not stored. A group without rows has no tiles. With a batch as well, the groups are padded: each group has its own
      matrices. Its rows are the first `ends[g]` of their rows; this number is clamped to [0, `rows`]. `group` is then
      equal to `batch`.
    - `columns_of(%D : memref<…, "list">)`, with padded groups: the matrices of the list have their own numbers of columns,
      at most `columns` each. The tiles of a group cover only the columns of its matrix.
    - `k(%k0 to %k1 of %K by 64)`: a work item is a range of K of a tile, from `k0` to `k1`. It is never empty, because
      agents rely on a first step: K is at least 1, and for K = 0 the host passes A and B of zeros with K = 1.

    The division of K follows (`#tile.k_division`): `split n`, `scatter n`, `stream_k`, `hybrid`, `tail n` or
    `scatter_tail n`. `part` is the index of the item's part of its tile (part 0 begins at K = 0), `parts` the number of
    parts of the tile, and `slot` the slot of part 0; part p has that slot plus p. Slots are less than the number of
    items (`split`, `scatter`), of CTAs (`stream_k`, `hybrid`), or n times the number of CTAs (`tail`, `scatter_tail`).
    For tiles in several parts, the slots of parts 0 are distinct, and so are the slots of all other parts.

    Part 0 of a tile comes last: the other parts are items of CTAs with lower numbers, or earlier items of the same CTA.
    With `scatter`, all parts of a tile are items of one round, in which each CTA has one item, and CTAs with
    neighbouring numbers have the same part of neighbouring tiles. A super-tile of a cluster counts as a tile: its CTAs
    have the same part of it. With `scatter_tail`, the parts of a tile wait for each other too: they are items of one
    round, and items of earlier rounds come first in every CTA.

    ```mlir
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] order(<grouped 16>) persistent {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] cluster [2, 1] order(<grouped 8>) persistent {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] batch(%batch of %B) order(<row>) persistent {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] batch(%batch of %B from %first) order(<row>) persistent {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] groups(%g to %rows_end of %ends : memref<?xi32>) order(<row>)
        persistent {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] batch(%batch of %B)
        groups(%g to %rows_end of %ends : memref<?xi32>) order(<row>) persistent {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] batch(%batch of %B)
        groups(%g to %rows_end of %ends : memref<?xi32>)
        columns_of(%D : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">) order(<row>) persistent {
      …
    }
    %s = tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] order(<row>) persistent iter_args(%slot = %c0) -> (index) {
      …
      tile.yield %next : index
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [256, 192] order(<grouped 8>) persistent part(full_waves) {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 192] order(<grouped 8>) persistent part(tail_halves) {
      …
    }
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] k(%k0 to %k1 of %K by 64) split 8 (%part of %parts at %slot)
        order(<row>) persistent {
      …
    }
    ```
  }];
  let arguments = (ins Index:$rows, Index:$columns, Optional<Index>:$batches, Optional<Index>:$first,
                       Arg<Optional<MemRefRankOf<[I32], [1]>>, "ends of groups", [MemRead]>:$ends,
                       Arg<Optional<MemRefRankOf<[AnyType], [3]>>, "matrices of their own extents", [MemRead]>:$matrices,
                       Optional<Index>:$depth, Variadic<AnyType>:$inits,
                       DenseI64ArrayAttr:$tile, OptionalAttr<DenseI64ArrayAttr>:$cluster, Tile_RasterAttr:$order,
                       Tile_SchedulerKind:$scheduler, OptionalAttr<Tile_WorkPart>:$part, UnitAttr:$in_turn,
                       OptionalAttr<I64Attr>:$k_step, OptionalAttr<Tile_KDivisionKind>:$k_division,
                       OptionalAttr<I64Attr>:$k_parts);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    // The coordinates of its items: the arguments of the body before the loop-carried ones.
    ::llvm::SmallVector<Coordinate> getCoordinates();
    // The body's argument for a coordinate; null if items do not have it.
    ::mlir::Value getCoordinate(Coordinate coordinate);
  }];
}

def Tile_AwaitWaveOp : Tile_Op<"await_wave", [HasParent<"WorkTilesOp">]> {
  let summary = "Counts a started work tile, and waits for a bounded time until the other CTAs have started as many";
  let description = [{
    Keeps the CTAs of a launch in step, so that they read the same steps of their operands from L2 at about the same
    time. It is only a hint: a CTA continues after a bounded number of polls, so neither results nor progress depend on
    it.

    `counter` has one element, initially zero. Each work tile of the loop adds one to it, and the last one resets it to
    zero. With g CTAs, the CTA that adds the n-th one waits for the next multiple of g. In a last wave that is not full,
    no CTA waits.

    ```mlir
    tile.work_tiles (%m, %n) of (%M, %N) by [256, 192] order(<grouped 8>) persistent {
      tile.await_wave %counter : memref<?xi32>
      …
    }
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "counter", [MemRead, MemWrite]>:$counter);
  let assemblyFormat = "$counter attr-dict `:` type($counter)";
  let hasVerifier = 1;
}

def Tile_NextWorkTileOp : Tile_Op<"next_work_tile", [Pure, HasParent<"WorkTilesOp">]> {
  let summary = "The first row and column of a later work tile of the CTA";
  let description = [{
    Copies that run ahead of the products read from it. It is the next tile, or with `ahead n` the n-th one after this
    tile. If the CTA has no such tile, it is this tile. In a batch, the index of its matrix comes first.

    ```mlir
    %next_m, %next_n = tile.next_work_tile
    %later_m, %later_n = tile.next_work_tile ahead 2
    %next_batch, %next_m, %next_n = tile.next_work_tile batched
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$ahead);
  let results = (outs Optional<Index>:$batch, Index:$m, Index:$n);
  let assemblyFormat = "(`ahead` $ahead^)? custom<NextPlace>(type($batch), type($m), type($n)) attr-dict";
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_WORK_OPS_TD
