// Operations of the division of K: partial sums and semaphores. Included by TileOps.td, whose classes they use.
#ifndef LOWTIDE_TILE_DIVISION_OPS_TD
#define LOWTIDE_TILE_DIVISION_OPS_TD

def Tile_StorePartialOp : Tile_Op<"store_partial"> {
  let summary = "Writes partial sums of a tile into a slot of a workspace";
  let description = [{
    Slot i holds one value of this type, and starts at element i times its number of elements. The order of elements in
    a slot depends on the type and the level, and matters only to the ops that read the slot. With `shares`, the columns
    are divided evenly into as many shares, which are consecutive in the slot.

    ```mlir
    tile.store_partial %acc into %partials[%slot] : !tile.tile<128x256xf32>, memref<?xf32>
    tile.store_partial %acc into %partials[%slot] shares 8 : !tile.tile<128x256xf32>, memref<?xf32>
    ```
  }];
  let arguments = (ins AnyType:$value, Arg<AnyMemRef, "workspace", [MemWrite]>:$partials, Index:$slot,
                       OptionalAttr<I64Attr>:$shares);
  let assemblyFormat = [{
    $value `into` $partials `[` $slot `]` (`shares` $shares^)? attr-dict `:` type($value) `,` type($partials)
  }];
}

def Tile_AddPartialsOp : Tile_Op<"add_partials", [AllTypesMatch<["value", "result"]>]> {
  let summary = "Adds the partial sums in consecutive slots, one after the other";
  let description = [{
    The result is ((value + slot first) + slot first + 1) + …, over `count` slots. The order of the sum is fixed, so its
    bits are reproducible.

    ```mlir
    %sum = tile.add_partials %acc, %partials[%first] count %n : !tile.tile<128x256xf32>, memref<?xf32>
    ```
  }];
  let arguments = (ins AnyType:$value, Arg<AnyMemRef, "workspace", [MemRead]>:$partials, Index:$first, Index:$count);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $value `,` $partials `[` $first `]` `count` $count attr-dict `:` type($value) `,` type($partials)
  }];
}

def Tile_SumSharesOp : Tile_Op<"sum_shares"> {
  let summary = "Adds one share of the partial sums in consecutive slots, one after the other";
  let description = [{
    The result is (slot first + slot first + 1) + …, over `count` slots, in this order. It reads share number `share` of
    each slot, of the shares that `tile.store_partial` wrote.

    ```mlir
    %sum = tile.sum_shares %partials[%first] count %n share %part of 8 : memref<?xf32> to !tile.tile<128x32xf32>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "workspace", [MemRead]>:$partials, Index:$first, Index:$count, Index:$share,
                       I64Attr:$shares);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $partials `[` $first `]` `count` $count `share` $share `of` $shares attr-dict `:` type($partials) `to` type($result)
  }];
}

def Tile_SemaphoreArriveOp : Tile_Op<"semaphore_arrive"> {
  let summary = "Adds one to a semaphore in a zeroed workspace, after all earlier writes of the CTA";
  let description = [{
    All threads of the CTA, or of the role, execute it together. Threads that wait for the semaphore then see their
    earlier writes (red.release.gpu; PTX ISA, "Release and Acquire Patterns").

    ```mlir
    tile.semaphore_arrive %semaphores[%slot] : memref<?xi32>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "semaphores", [MemRead, MemWrite]>:$semaphores, Index:$index);
  let assemblyFormat = "$semaphores `[` $index `]` attr-dict `:` type($semaphores)";
  let hasVerifier = 1;
}

def Tile_SemaphoreWaitOp : Tile_Op<"semaphore_wait"> {
  let summary = "Waits until a semaphore reaches a count";
  let description = [{
    All threads of the CTA, or of the role, execute it together. They continue once the semaphore is at least `count`,
    and then see the writes of the CTAs that arrived. With `reset`, the semaphore is then set to zero for the next
    launch.

    ```mlir
    tile.semaphore_wait %semaphores[%slot] until %count reset : memref<?xi32>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "semaphores", [MemRead, MemWrite]>:$semaphores, Index:$index, Index:$count,
                       UnitAttr:$reset);
  let assemblyFormat = "$semaphores `[` $index `]` `until` $count (`reset` $reset^)? attr-dict `:` type($semaphores)";
  let hasVerifier = 1;
}

def Tile_SemaphoreLeaveOp : Tile_Op<"semaphore_leave"> {
  let summary = "Adds one to a semaphore after the CTA has waited for it; the last one sets it to zero";
  let description = [{
    All threads of the CTA, or of the role, execute it together. If as many CTAs arrive at the semaphore as wait for all
    of them, `count` is twice their number: arrivals plus departures. No CTA waits for the last departure, which finds
    `count` - 1 and leaves zero for the next launch (red.inc; PTX ISA, "red").

    ```mlir
    tile.semaphore_leave %semaphores[%slot] of %count : memref<?xi32>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "semaphores", [MemRead, MemWrite]>:$semaphores, Index:$index, Index:$count);
  let assemblyFormat = "$semaphores `[` $index `]` `of` $count attr-dict `:` type($semaphores)";
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_DIVISION_OPS_TD
