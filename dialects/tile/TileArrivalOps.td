// Operations that wait for shards of A which other GPUs fill, and that send this GPU's shard to them. Included by
// TileOps.td, whose classes they use.
#ifndef LOWTIDE_TILE_ARRIVAL_OPS_TD
#define LOWTIDE_TILE_ARRIVAL_OPS_TD

def Tile_AwaitArrivalOp : Tile_Op<"await_arrival", [HasParent<"WorkTilesOp">]> {
  let summary = "Waits until a shard has arrived; returns the shard that may be read";
  let description = [{
    `turn` holds the rank of this GPU, the epoch and the time limit in ms. The epoch grows from launch to launch and may
    wrap around. The op waits until `arrived[shard]` − epoch, in 32 bits, is not negative, and returns `shard`. It acquires
    at the scope .sys: threads that execute it then see what other GPUs wrote before they wrote `arrived[shard]`.

    If the shard does not arrive within the limit, or if `status[0]` is not 0 while the op waits, it returns the rank
    instead: the shard of this GPU may always be read, but no result may be stored (`tile.is_late`). After the limit, if
    `status[0]` is still 0, the op sets `status` to 1, the shard, the number that it read in `arrived`, and the epoch. From
    level atoms on, all threads that read the shard execute the op.

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
    Returns whether `status[0]` is not 0. Agents that store a tile execute the op after the K loop. The loop has read the
    shard after the wait of the same work item, so the result is true if that wait has ended without the shard.

    ```mlir
    %late = tile.is_late %status : memref<4xi32>
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[I32], [1]>, "status", [MemRead]>:$status);
  let results = (outs I1:$late);
  let assemblyFormat = "$status attr-dict `:` type($status)";
  let hasVerifier = 1;
}

def Tile_SendShardOp : Tile_Op<"send_shard", [HasParent<"KernelOp">]> {
  let summary = "Copies this GPU's shard to the memory of other GPUs, and then sets its flag on each of them";
  let description = [{
    Sends shard `turn[0]` of A, which is the rank's own; `turn` is that of `tile.await_arrival`. Row q of `peers` has two
    addresses on rank q, each as its lower and then its higher 32 bits. The first is the place of the shard there, where
    rows are as far apart as in A. The second is the flag of the shard there. Nothing is sent to a rank whose place is 0.
    The row of this rank is not read.

    All threads of all CTAs execute the op, before the roles begin. They send to rank − 1 first, which needs the shard
    first, then to rank − 2, and so on. For each rank q:

    1. Each CTA copies its part of the shard.
    2. It adds one to `sent[q]`, with acquire and release at the scope .gpu.
    3. The last CTA to do so sets `sent[q]` back to 0, and writes the epoch to the flag by a release at the scope .sys.

    The op waits for no other CTA and for no other GPU. Each access moves `unit` bytes. A, its rows and the places on other
    GPUs are aligned to that.

    ```mlir
    tile.send_shard %a to %peers in_turn %turn counting %sent by 16
        : memref<8x?x512xbf16, strided<[?, ?, 1]>>, memref<8x4xi32, strided<[?, 1]>>, memref<3xi32>, memref<8xi32>
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[AnyType], [3]>, "shards", [MemRead]>:$a,
                       Arg<MemRefRankOf<[I32], [2]>, "addresses on the other GPUs", [MemRead]>:$peers,
                       Arg<MemRefRankOf<[I32], [1]>, "rank, epoch and time limit", [MemRead]>:$turn,
                       Arg<MemRefRankOf<[I32], [1]>, "numbers of CTAs", [MemRead, MemWrite]>:$sent, I64Attr:$unit);
  let assemblyFormat = [{
    $a `to` $peers `in_turn` $turn `counting` $sent `by` $unit attr-dict
    `:` type($a) `,` type($peers) `,` type($turn) `,` type($sent)
  }];
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_ARRIVAL_OPS_TD
