// Operations of the sm dialect for Hopper: roles, mbarriers, TMA, wgmma. Included by SmOps.td.
#ifndef LOWTIDE_SM_HOPPER_OPS_TD
#define LOWTIDE_SM_HOPPER_OPS_TD

//===--- roles --------------------------------------------------------------------------------------------------===//

def Sm_RolesOp : Sm_Op<"roles", [RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "Splits the warps of a CTA into roles that run concurrently";
  let description = [{
    Each region is one role and runs on `warps` consecutive warps (a multiple of four). If `registers` is not 0, each
    thread of the role requests this number of registers with setmaxnreg. Roles exchange no SSA values; they communicate
    through the ring, which they use from outside the region.

    A `producer` runs one thread, which starts TMA loads. `copiers` fill the ring with all their threads, by cp.async or
    through registers; one of them starts the TMA loads.

    A role with `instances(n)` runs n times, each time on `warps` warps of its own. Each instance is a role of its own:
    ops that synchronize, multiply or store together within a role do so within an instance, and a buffer that is
    allocated in the region exists once per instance. `sm.role_instance` is the index of the instance.

    ```mlir
    sm.roles {
      producer warps(4) registers(40) {
        …
      }
      consumer warps(8) registers(232) {
        …
      }
    }
    sm.roles {
      producer warps(4) registers(40) {
        …
      }
      consumer warps(4) instances(2) registers(232) {
        …
      }
    }
    ```
  }];
  let arguments = (ins StrArrayAttr:$names, DenseI64ArrayAttr:$warps, DenseI64ArrayAttr:$registers,
                       OptionalAttr<DenseI64ArrayAttr>:$instances);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sm_RoleInstanceOp : Sm_Op<"role_instance", [Pure,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "The index of this instance of the role: 0 to instances - 1";
  let description = [{
    ```mlir
    %instance = sm.role_instance : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===--- mbarriers ----------------------------------------------------------------------------------------------===//

def Sm_MbarriersOp : Sm_Op<"mbarriers", [MemoryEffects<[MemAlloc, MemRead<Sm_Sync>, MemWrite<Sm_Sync>]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "Initializes mbarrier objects in shared memory and makes them visible to all threads of the CTA";
  let description = [{
    A phase of an mbarrier completes after `arrivals` arrivals and all the bytes that they expect (PTX ISA, "mbarrier").
    Other CTAs of the cluster may use the objects after an `sm.cluster_barrier`.

    ```mlir
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$arrivals, OptionalAttr<I64Attr>:$at);
  let results = (outs Sm_MbarriersType:$result);
  let assemblyFormat = "`arrivals` `(` $arrivals `)` (`at` $at^)? attr-dict `:` qualified(type($result))";
}

def Sm_MbarrierWaitOp : Sm_Op<"mbarrier_wait", [Sm_Ordering]> {
  let summary = "Waits until the phase with this parity has completed";
  let description = [{
    An mbarrier starts in phase 0, so a wait for parity 1 returns immediately.

    ```mlir
    sm.mbarrier_wait %full[%slot, %phase] : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_MbarriersType:$barriers, Index:$index, Index:$phase);
  let assemblyFormat = "$barriers `[` $index `,` $phase `]` attr-dict `:` qualified(type($barriers))";
}

def Sm_MbarrierArriveOp : Sm_Op<"mbarrier_arrive", [Sm_Ordering, AttrSizedOperandSegments]> {
  let summary = "Arrives once per warpgroup of the role; with `bytes`, also sets the number of bytes to expect";
  let description = [{
    In a role of consumers or copiers, one thread per warpgroup arrives. In a producer role, one thread arrives. `after`
    is the token that the wgmma operations that read the slot are complete; a role that uses wgmma needs it to release a
    slot.

    With `each_warp`, one thread of each warp arrives. This is needed if the threads of a warp read the slot themselves:
    an arrival only follows the reads of its own warp.

    `to` names the CTAs of the cluster that receive the arrival, each at its own object of this index: those of the
    arriving CTA's `row` of the cluster, those of its `column`, or both (`cross`), including the CTA itself. By default
    only the CTA itself receives it. Only the CTA that waits for the bytes may expect them.

    `plus` is a number of bytes that is computed at run time, to expect in addition to `bytes`: the bytes of loads with
    `rows`. Without other loads, `bytes` is 0.

    ```mlir
    sm.mbarrier_arrive %empty[%slot] after %retired : !sm.mbarriers<4>
    sm.mbarrier_arrive %full[%slot] expects 49152 : !sm.mbarriers<4>
    sm.mbarrier_arrive %full[%slot] expects 16384 plus %bytes : !sm.mbarriers<4>
    sm.mbarrier_arrive %empty[%slot] to(column) after %retired : !sm.mbarriers<4>
    sm.mbarrier_arrive %empty[%slot] each_warp after %retired : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_MbarriersType:$barriers, Index:$index, OptionalAttr<I64Attr>:$bytes, UnitAttr:$each_warp,
                       OptionalAttr<Sm_ClusterLine>:$receivers, Optional<Index>:$more,
                       Optional<Sm_RetiredType>:$retired);
  let assemblyFormat = [{
    $barriers `[` $index `]` (`each_warp` $each_warp^)? (`expects` $bytes^)? (`plus` $more^)? (`to` `(` $receivers^ `)`)?
    (`after` $retired^)? attr-dict `:` qualified(type($barriers))
  }];
  let hasVerifier = 1;
}

def Sm_CpAsyncArriveOp : Sm_Op<"cp_async_arrive", [Sm_Ordering]> {
  let summary = "Each thread of the role arrives when its copies by cp.async so far have landed";
  let description = [{
    Lowers to cp.async.mbarrier.arrive.noinc (PTX ISA, "cp.async.mbarrier.arrive"). The threads do not wait, so they can
    start the copies of the next slot. A thread that waits for the phase sees the copied data. wgmma reads through the
    async proxy, so a thread that multiplies by wgmma then needs an `sm.fence_proxy_async`.

    ```mlir
    sm.cp_async_arrive %full[%slot] : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_MbarriersType:$barriers, Index:$index);
  let assemblyFormat = "$barriers `[` $index `]` attr-dict `:` qualified(type($barriers))";
}

def Sm_ClusterBarrierOp : Sm_Op<"cluster_barrier", [Sm_Ordering]> {
  let summary = "All threads of all CTAs of the cluster arrive and wait for each other";
  let description = [{
    A kernel whose CTAs use each other's shared memory has one before the first use, after its mbarriers are
    initialized, and one at its end: a CTA's shared memory is freed when the CTA ends (PTX ISA, "barrier.cluster").

    ```mlir
    sm.cluster_barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===--- TMA ----------------------------------------------------------------------------------------------------===//

def Sm_TensorMapOp : Sm_Op<"tensor_map", [Pure]> {
  let summary = "The tensor map of a matrix (host side)";
  let description = [{
    cuTensorMapEncodeTiled encodes it at kernel launch. The boxes have the result's shape. Their last dimension is the
    contiguous one of the matrix: boxes of a matrix by columns have columns first. The boxes of a batch have one more
    dimension, the first, which is 1; or the number of matrices, if a box has rows of each of them. Boxes of two batches
    have rows of one matrix of each, and begin with 2 and 1.

    With `rows`, the boxes have this number of rows: at least 1, and at most that of the result's shape. `sm.tma_load`
    with `rows` takes such a map for the last tile of a matrix, if fewer rows are left than a tile has.

    ```mlir
    %map = sm.tensor_map %a : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
    %last = sm.tensor_map %a rows(%rows) : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
    %mapd = sm.tensor_map %d : memref<?x?xbf16, strided<[1, ?]>> to !sm.tensor_map<72x64xbf16, swizzle<3,3,3>>
    %maps = sm.tensor_map %c : memref<?x?x?xbf16, strided<[?, ?, 1]>> to !sm.tensor_map<1x128x64xbf16, swizzle<3,3,3>>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Optional<Index>:$rows);
  let results = (outs Sm_TensorMapType:$result);
  let assemblyFormat = "$source (`rows` `(` $rows^ `)`)? attr-dict `:` type($source) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_MakeMapsOp : Sm_Op<"make_maps"> {
  let summary = "Makes a tensor map of each matrix of a list, in memory (a kernel of its own)";
  let description = [{
    CTA i of the launch has one warp, and makes the tensor map of matrix i. The map has 128 bytes: the 32 elements of
    `maps` from 32·i on. Its address, extents and row stride are those in the table of the list; its boxes, swizzle and type
    are those of `map_type`. It is made in `scratch`, copied to `maps`, and released to the tensormap proxy (PTX ISA,
    "tensormap.replace", "tensormap.cp_fenceproxy"). A kernel that reads it must acquire it (`sm.listed_map`). A matrix
    without elements gets a map of one element; only boxes outside of it may be loaded.

    ```mlir
    sm.make_maps %maps of %list as !sm.tensor_map<128x64xbf16, swizzle<3,3,3>> through %scratch
        : memref<?xi32>, memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">, memref<1x32xi32, …>
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[I32], [1]>, "maps", [MemWrite]>:$maps,
                       Arg<MemRefRankOf<[AnyType], [3]>, "list", [MemRead]>:$matrices, TypeAttr:$map_type,
                       Sm_WriteShared:$scratch);
  let assemblyFormat = [{
    $maps `of` $matrices `as` $map_type `through` $scratch attr-dict `:` type($maps) `,` type($matrices) `,` type($scratch)
  }];
  let hasVerifier = 1;
}

def Sm_ListedMapOp : Sm_Op<"listed_map"> {
  let summary = "The tensor map that sm.make_maps has made of a matrix of a list";
  let description = [{
    Acquires the map for the tensormap proxy, so that later TMA loads of this thread see it as it was made (PTX ISA,
    "membar, fence": fence.proxy.tensormap). The map is of a single matrix, so loads have no index of a matrix.

    ```mlir
    %map = sm.listed_map %maps[%batch] : memref<?xi32> to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
    sm.tma_load %map[%m, %k] to %a signals %full[%slot] : …
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[I32], [1]>, "maps", [MemRead, MemWrite]>:$maps, Index:$number);
  let results = (outs Sm_TensorMapType:$result);
  let assemblyFormat = "$maps `[` $number `]` attr-dict `:` type($maps) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_TmaLoadOp : Sm_Op<"tma_load", [AttrSizedOperandSegments]> {
  let summary = "Starts, from one thread, the TMA loads that fill a buffer in shared memory";
  let description = [{
    Issues one load per box of the tensor map. If the buffer is wider than a box, the boxes are adjacent columns of the
    matrix and consecutive panels of the buffer; the layout of the buffer must match. Elements outside the matrix become
    zero, but the mbarrier counts the bytes of full boxes in any case (PTX ISA, "cp.async.bulk.tensor"). `cache` is the
    L2 eviction priority.

    With `multicast`, the CTAs of a `row` or a `column` of the cluster need the same tile. Each CTA loads an equal share
    of the tile's rows, in the order of the CTAs, and sends it to all of them: it is written to the same offset in the
    shared memory of each CTA and signals the mbarrier of each CTA. A CTA's mbarrier expects the whole tile.

    With `rows`, only the first `rows` rows of the tile are loaded, and the mbarrier counts only their bytes. The other
    rows of the buffer are unchanged. The boxes of the map must have the same number of rows at run time, and there must
    be one box for each panel. Such a load cannot be a multicast.

    In a batch, the index of the matrix comes first, and the first dimension of the boxes is 1. If it is 2, a box has
    rows of two matrices, and the buffer's rows are those of one matrix followed by those of the next. With a map of two
    batches, the index is the same in both.

    ```mlir
    sm.tma_load %map[%m, %k] to %a signals %full[%slot]
        : !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, memref<128x64xbf16, …>, !sm.mbarriers<4>
    sm.tma_load %map[%m, %k] rows(%rows) to %a signals %full[%slot]
        : !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, memref<128x64xbf16, …>, !sm.mbarriers<4>
    sm.tma_load %map[%n, %k] to %b signals %full[%slot] multicast(column)
        : !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>, memref<128x64xbf16, …>, !sm.mbarriers<4>
    sm.tma_load %map[%batch, %m, %k] to %a signals %full[%slot]
        : !sm.tensor_map<1x128x64xbf16, swizzle<3,3,3>>, memref<128x64xbf16, …>, !sm.mbarriers<4>
    sm.tma_load %pair[%c0, %n, %k] to %b signals %full[%slot]
        : !sm.tensor_map<2x128x64xbf16, swizzle<3,3,3>>, memref<256x64xbf16, …>, !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_TensorMapType:$map, Optional<Index>:$batch, Index:$row, Index:$column, Optional<Index>:$rows,
                       Sm_WriteShared:$destination, Sm_MbarriersType:$barriers, Index:$index,
                       OptionalAttr<Sm_ClusterLine>:$multicast, OptionalAttr<Tile_CacheHint>:$cache);
  let assemblyFormat = [{
    $map `[` custom<Place>($batch, $row, $column) `]` (`rows` `(` $rows^ `)`)? `to` $destination `signals` $barriers `[` $index `]`
    (`multicast` `(` $multicast^ `)`)? (`cache` `(` $cache^ `)`)? attr-dict `:` qualified(type($map)) `,`
    type($destination) `,` qualified(type($barriers))
  }];
  let hasVerifier = 1;
}

def Sm_ZeroRowsOp : Sm_Op<"zero_rows", [MemoryEffects<[MemRead<Sm_Sync>, MemWrite<Sm_Sync>]>]> {
  let summary = "Stores zeros in the last rows of the operands' buffers in all slots of a ring"
                ", and makes them visible to TMA and wgmma";
  let description = [{
    In each slot, all threads of the CTA store zeros in the rows of A from row `a` on, and in the rows of B from row `b`
    on. `sm.tma_load` with `rows` does not write these rows. Kernels whose threads read whole slots need zeros there; wgmma
    may read any number. The op must be outside of `sm.roles`, and a barrier must follow before the ring is filled.

    ```mlir
    sm.zero_rows %ring from(%a, %b) : !sm.ring<4 x [memref<128x64xbf16, …>, memref<256x64xbf16, …>]>
    ```
  }];
  let arguments = (ins Sm_RingType:$ring, Index:$a, Index:$b);
  let assemblyFormat = "$ring `from` `(` $a `,` $b `)` attr-dict `:` qualified(type($ring))";
}

def Sm_TmaStoreOp : Sm_Op<"tma_store", [MemoryEffects<[MemRead<Sm_Sync>, MemWrite<Sm_Sync>, MemWrite]>]> {
  let summary = "Starts the TMA stores of a buffer, as one group per warpgroup";
  let description = [{
    The warpgroups of the role divide the rows of the buffer evenly, in order. One thread per warpgroup issues one store
    per box of the tensor map and commits the group (PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group").
    Elements outside the matrix are dropped. Writes to the buffer must be followed by `sm.fence_proxy_async` and a
    barrier before this op. The buffer may be written again after `sm.tma_store_wait read` covers the group.

    If the matrix lies by columns, so does the buffer, in panels of its rows. Row and column are in this order in any
    case.

    ```mlir
    sm.tma_store %scratch to %map[%m, %n] cache(evict_first)
        : memref<128x64xbf16, …>, !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
    sm.tma_store %scratch to %map[%batch, %m, %n] : memref<128x64xbf16, …>, !sm.tensor_map<1x64x64xbf16, …>
    sm.tma_store %columns to %mapd[%m, %n] : memref<128x72xbf16, …>, !sm.tensor_map<72x64xbf16, swizzle<3,3,3>>
    ```
  }];
  let arguments = (ins Sm_ReadShared:$source, Sm_TensorMapType:$map, Optional<Index>:$batch, Index:$row, Index:$column,
                       OptionalAttr<Tile_CacheHint>:$cache);
  let assemblyFormat = [{
    $source `to` $map `[` custom<Place>($batch, $row, $column) `]` (`cache` `(` $cache^ `)`)? attr-dict `:` type($source) `,`
    qualified(type($map))
  }];
  let hasVerifier = 1;
}

def Sm_TmaStoreWaitOp : Sm_Op<"tma_store_wait", [Sm_Ordering]> {
  let summary = "Waits until at most `pending` groups of a warpgroup's TMA stores are in flight";
  let description = [{
    With `read`, it waits only until the stores have read shared memory. Only the issuing thread waits; a barrier must
    follow before other threads write the buffer (PTX ISA, "cp.async.bulk.wait_group").

    ```mlir
    sm.tma_store_wait read 1
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, UnitAttr:$read);
  let assemblyFormat = "(`read` $read^)? $pending attr-dict";
}

def Sm_FenceProxyAsyncOp : Sm_Op<"fence_proxy_async", [Sm_Ordering]> {
  let summary = "Makes the writes of each thread to shared memory visible to TMA and wgmma";
  let description = [{
    Lowers to fence.proxy.async.shared::cta (PTX ISA, "membar/fence"). Each thread orders its own writes; a barrier must
    follow before another thread starts the asynchronous access.

    ```mlir
    sm.fence_proxy_async
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===--- wgmma --------------------------------------------------------------------------------------------------===//

def Sm_WgmmaOp : Sm_Op<"wgmma"> {
  let summary = "acc + A · B with wgmma.mma_async, B in shared memory; the result is pending";
  let description = [{
    A and B are stored in shared memory as the layout letters specify; A may also be a fragment, which is M×K. Blocks of
    64 rows of M are assigned to the consumer warpgroups in turn. Each warpgroup executes a fence, one wgmma.mma_async
    per k-slice and block of 64 rows, and a commit: one wgmma group (PTX ISA, "Asynchronous Warpgroup Level Matrix
    Instructions").

    With `row_groups` each warpgroup processes its blocks of 64 rows one after the other, and commits each as a separate
    group: the sums of the first block are complete while those of the others are still being computed.

    ```mlir
    %p = sm.wgmma tn %a, %b, %c by <wgmma.m64n256k16.f32.bf16, atoms [2, 1, 1]>
        : memref<128x64xbf16, …>, memref<256x64xbf16, …>, !sm.fragment<128x256xf32, #tv>
    %q = sm.wgmma tn %fa, %b, %c by <wgmma.m64n64k16.f32.bf16, atoms [4, 1, 1]>
        : !sm.fragment<256x64xbf16, #tv1>, memref<64x64xbf16, …>, !sm.fragment<256x64xf32, #tv>
    %r = sm.wgmma tn %a, %b, %p by <wgmma.m64n192k16.f32.bf16, atoms [2, 1, 1]> row_groups
        : memref<256x64xbf16, …>, memref<192x64xbf16, …>, !sm.pending<!sm.fragment<256x192xf32, #tv>>
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout, Arg<AnyTypeOf<[Sm_SharedMemRef, Sm_FragmentType]>, "A", [MemRead]>:$a,
                       Sm_ReadShared:$b,
                       AnyTypeOf<[Sm_FragmentType, Sm_PendingType]>:$acc, Sm_TiledMmaAttr:$mma, UnitAttr:$row_groups);
  let results = (outs Sm_PendingType:$result);
  let assemblyFormat = [{
    $layout $a `,` $b `,` $acc `by` $mma (`row_groups` $row_groups^)? attr-dict
    `:` type($a) `,` type($b) `,` qualified(type($acc)) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_WgmmaPromoteOp : Sm_Op<"wgmma_promote", [Sm_Ordering, AttrSizedOperandSegments, AllTypesMatch<["sum", "result"]>]> {
  let summary = "sum + A · B with wgmma.mma_async: each block of 64 rows is summed from zero, then added in registers";
  let description = [{
    Each warpgroup processes its blocks of 64 rows one after the other: a wgmma group, which sums all of K from zero, a
    wait, and an addition to the block's registers. So the imprecise sums of the tensor cores stay short, and only one
    block of them occupies registers besides the accumulators. Afterwards nothing is in flight, and the slot of A and B
    may be released.

    With scales of rows and of columns, each element of A · B is multiplied by their rounded product, in a fused
    multiply-add.

    ```mlir
    %sum2, %retired = sm.wgmma_promote tn %a, %b into %sum by <wgmma.m64n128k32.f32.e4m3, atoms [2, 1, 1]>
        : memref<256x128xf8E4M3FN, …>, memref<128x128xf8E4M3FN, …>, !sm.fragment<256x128xf32, #tv>
    %sum3, %retired3 = sm.wgmma_promote tn %a, %b into %sum scaled(%sa : !sm.fragment<256x128xf32, #tv>,
        %sb : !sm.fragment<256x128xf32, #tv>) by <wgmma.m64n128k32.f32.e4m3, atoms [2, 1, 1]> : …
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout, Sm_ReadShared:$a, Sm_ReadShared:$b, Sm_FragmentType:$sum,
                       Optional<Sm_FragmentType>:$rows, Optional<Sm_FragmentType>:$columns, Sm_TiledMmaAttr:$mma);
  let results = (outs Sm_FragmentType:$result, Sm_RetiredType:$retired);
  let assemblyFormat = [{
    $layout $a `,` $b `into` $sum
    (`scaled` `(` $rows^ `:` qualified(type($rows)) `,` $columns `:` qualified(type($columns)) `)`)? `by` $mma
    attr-dict `:` type($a) `,` type($b) `,` qualified(type($sum))
  }];
  let hasVerifier = 1;
}

def Sm_MmaWaitOp : Sm_Op<"mma_wait", [Sm_Ordering]> {
  let summary = "Waits until at most `pending` groups of wgmma are in flight";
  let description = [{
    With 0, the accumulator becomes readable. With more, it stays pending, but the reads of the older groups are
    complete, so the slot that they read may be released.

    ```mlir
    %p2, %retired = sm.mma_wait 1, %p : !sm.pending<…> -> !sm.pending<…>
    %c, %last = sm.mma_wait 0, %p2 : !sm.pending<…> -> !sm.fragment<128x256xf32, #tv>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, Sm_PendingType:$acc);
  let results = (outs AnyTypeOf<[Sm_FragmentType, Sm_PendingType]>:$result, Sm_RetiredType:$retired);
  let assemblyFormat = "$pending `,` $acc attr-dict `:` qualified(type($acc)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_MmaWaitRowsOp : Sm_Op<"mma_wait_rows", [Sm_Ordering, AllTypesMatch<["acc", "rest"]>]> {
  let summary = "Waits until at most `pending` groups of wgmma are in flight, and makes the first rows readable";
  let description = [{
    The accumulators are those of an `sm.wgmma` with `row_groups`. `rows` holds the accumulators of the first rows of
    the tile, whose groups must be complete. `rest` stays pending; only `sm.mma_wait 0` accepts it, and makes all rows
    readable.

    ```mlir
    %top, %rest = sm.mma_wait_rows 1, %p : !sm.pending<!sm.fragment<256x192xf32, #tv>> -> !sm.fragment<128x192xf32, #tv1>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$pending, Sm_PendingType:$acc);
  let results = (outs Sm_FragmentType:$rows, Sm_PendingType:$rest);
  let assemblyFormat = "$pending `,` $acc attr-dict `:` qualified(type($acc)) `->` qualified(type($rows))";
  let hasVerifier = 1;
}

#endif // LOWTIDE_SM_HOPPER_OPS_TD
