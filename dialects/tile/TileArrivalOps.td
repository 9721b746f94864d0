// Operations that wait for shards of A which other GPUs fill. Included by TileOps.td, whose classes they use.
#ifndef LOWTIDE_TILE_ARRIVAL_OPS_TD
#define LOWTIDE_TILE_ARRIVAL_OPS_TD

def Tile_AwaitArrivalOp : Tile_Op<"await_arrival", [HasParent<"WorkTilesOp">]> {
  let summary = "Waits until a shard has arrived; returns the shard that may be read";
  let description = [{
    Blocks until `arrived[shard]` − `turn[1]`, in 32 bits, is not negative, and acquires what was written before that
    number, also by other GPUs (scope .sys). The result is then `shard`. `turn[1]` is the epoch, which grows from launch to
    launch and may wrap.

    The wait ends without the shard if it takes more than `turn[2]` ms, or if `status[0]` is not 0. If `status[0]` is 0,
    `status` becomes 1, the shard, the number that was seen in `arrived`, and the epoch. The result is then `turn[0]`, the
    shard of this GPU: its elements may be read, but no result may be stored (`tile.is_late`). Agents at the levels of
    warps execute the op by all threads that read the shard.

    ```mlir
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] batch(%batch of %B from %rank) order(<row>) persistent {
      %from = tile.await_arrival %batch of %arrived, %turn, %status : memref<8xi32>, memref<3xi32>, memref<4xi32>
      …
    }
    ```
  }];
  let arguments = (ins Index:$shard, Arg<MemRefRankOf<[I32], [1]>, "epochs of shards", [MemRead]>:$arrived,
                       Arg<MemRefRankOf<[I32], [1]>, "rank, epoch and time limit", [MemRead]>:$turn,
                       Arg<MemRefRankOf<[I32], [1]>, "status", [MemRead, MemWrite]>:$status);
  let results = (outs Index:$source);
  let assemblyFormat = [{
    $shard `of` $arrived `,` $turn `,` $status attr-dict `:` type($arrived) `,` type($turn) `,` type($status)
  }];
  let hasVerifier = 1;
}

def Tile_IsLateOp : Tile_Op<"is_late", [HasParent<"WorkTilesOp">]> {
  let summary = "Whether a wait for a shard has ended without it";
  let description = [{
    Whether `status[0]` is not 0. Agents that store a tile ask behind the K loop: what they multiplied was read behind the
    wait of the same work item, so the answer covers it.

    ```mlir
    %late = tile.is_late %status : memref<4xi32>
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[I32], [1]>, "status", [MemRead]>:$status);
  let results = (outs I1:$late);
  let assemblyFormat = "$status attr-dict `:` type($status)";
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_ARRIVAL_OPS_TD
