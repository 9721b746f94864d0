// Operations of the sm dialect that Hopper brings: roles, mbarriers, TMA, wgmma. Included by SmOps.td.
#ifndef LOWTIDE_SM_HOPPER_OPS_TD
#define LOWTIDE_SM_HOPPER_OPS_TD

//===--- roles --------------------------------------------------------------------------------------------------===//

def Sm_RolesOp : Sm_Op<"roles", [RecursiveMemoryEffects, NoRegionArguments]> {
  let summary = "Splits the warps of a CTA into roles that run side by side";
  let description = [{
    Each region is one role, run by `warps` warps (a multiple of four, in order); `registers`, where not 0, is what each
    of its threads asks for by setmaxnreg. No value passes from role to role: they meet in the ring that they capture.

    ```mlir
    sm.roles {
      producer warps(4) registers(40) {
        …
      }
      consumer warps(8) registers(232) {
        …
      }
    }
    ```
  }];
  let arguments = (ins StrArrayAttr:$names, DenseI64ArrayAttr:$warps, DenseI64ArrayAttr:$registers);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

//===--- mbarriers ----------------------------------------------------------------------------------------------===//

def Sm_MbarriersOp : Sm_Op<"mbarriers", [MemoryEffects<[MemAlloc, MemRead<Sm_Sync>, MemWrite<Sm_Sync>]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "mbarrier objects in shared memory, initialised and seen by all threads of the CTA";
  let description = [{
    Each completes a phase after `arrivals` arrivals and all bytes that they expected (PTX ISA, "mbarrier").

    ```mlir
    %full = sm.mbarriers arrivals(1) : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$arrivals, OptionalAttr<I64Attr>:$at);
  let results = (outs Sm_MbarriersType:$result);
  let assemblyFormat = "`arrivals` `(` $arrivals `)` (`at` $at^)? attr-dict `:` qualified(type($result))";
}

def Sm_MbarrierWaitOp : Sm_Op<"mbarrier_wait", [Sm_Ordering]> {
  let summary = "Waits until the phase of this parity has completed";
  let description = [{
    A barrier starts in the middle of phase 0, so waiting for parity 1 passes at once.

    ```mlir
    sm.mbarrier_wait %full[%slot, %phase] : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_MbarriersType:$barriers, Index:$index, Index:$phase);
  let assemblyFormat = "$barriers `[` $index `,` $phase `]` attr-dict `:` qualified(type($barriers))";
}

def Sm_MbarrierArriveOp : Sm_Op<"mbarrier_arrive", [Sm_Ordering]> {
  let summary = "One arrival for each warpgroup of the role; with `bytes`, also expects so many bytes";
  let description = [{
    One thread of the warpgroup arrives. In a producer role one thread of the role does. `after` is the proof that the
    wgmma that read the slot are done; where a role multiplies by wgmma, it releases no slot without.

    ```mlir
    sm.mbarrier_arrive %empty[%slot] after %retired : !sm.mbarriers<4>
    sm.mbarrier_arrive %full[%slot] expects 49152 : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_MbarriersType:$barriers, Index:$index, OptionalAttr<I64Attr>:$bytes,
                       Optional<Sm_RetiredType>:$retired);
  let assemblyFormat = [{
    $barriers `[` $index `]` (`expects` $bytes^)? (`after` $retired^)? attr-dict `:` qualified(type($barriers))
  }];
}

//===--- TMA ----------------------------------------------------------------------------------------------------===//

def Sm_TensorMapOp : Sm_Op<"tensor_map", [Pure]> {
  let summary = "The tensor map of a matrix (host side)";
  let description = [{
    Encoded by cuTensorMapEncodeTiled when the kernel is launched; boxes have the result's shape.

    ```mlir
    %map = sm.tensor_map %a : memref<?x?xbf16, strided<[?, 1]>> to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
    ```
  }];
  let arguments = (ins AnyMemRef:$source);
  let results = (outs Sm_TensorMapType:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_TmaLoadOp : Sm_Op<"tma_load"> {
  let summary = "One thread starts the TMA loads that fill a buffer in shared memory";
  let description = [{
    One load for each box of the tensor map that the buffer holds; where the buffer is wider than a box, the boxes lie
    side by side in the matrix and one after the other in the buffer, panel by panel, as its layout must say. Elements
    outside the matrix become zero; the full boxes' bytes are counted on the mbarrier in any case (PTX ISA,
    "cp.async.bulk.tensor"). `cache` is the L2 eviction priority.

    ```mlir
    sm.tma_load %map[%m, %k] to %a signals %full[%slot]
        : !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, memref<128x64xbf16, …>, !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_TensorMapType:$map, Index:$row, Index:$column, Sm_WriteShared:$destination,
                       Sm_MbarriersType:$barriers, Index:$index, OptionalAttr<Tile_CacheHint>:$cache);
  let assemblyFormat = [{
    $map `[` $row `,` $column `]` `to` $destination `signals` $barriers `[` $index `]` (`cache` `(` $cache^ `)`)? attr-dict
    `:` qualified(type($map)) `,` type($destination) `,` qualified(type($barriers))
  }];
  let hasVerifier = 1;
}

def Sm_TmaStoreOp : Sm_Op<"tma_store", [MemoryEffects<[MemRead<Sm_Sync>, MemWrite<Sm_Sync>, MemWrite]>]> {
  let summary = "Each warpgroup starts the TMA stores of its rows of a buffer, as one group";
  let description = [{
    The buffer's rows are dealt out to the role's warpgroups in order, evenly; one thread of each starts a store for
    each box of the tensor map in them and commits the group (PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group").
    What lies outside the matrix is dropped. Before it, what threads wrote into the buffer needs `sm.fence_proxy_async`
    and a barrier; the buffer may be written again once `sm.tma_store_wait read` covers the group.

    ```mlir
    sm.tma_store %scratch to %map[%m, %n] cache(evict_first)
        : memref<128x64xbf16, …>, !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
    ```
  }];
  let arguments = (ins Sm_ReadShared:$source, Sm_TensorMapType:$map, Index:$row, Index:$column,
                       OptionalAttr<Tile_CacheHint>:$cache);
  let assemblyFormat = [{
    $source `to` $map `[` $row `,` $column `]` (`cache` `(` $cache^ `)`)? attr-dict `:` type($source) `,`
    qualified(type($map))
  }];
  let hasVerifier = 1;
}

def Sm_TmaStoreWaitOp : Sm_Op<"tma_store_wait", [Sm_Ordering]> {
  let summary = "Waits until at most `pending` groups of a warpgroup's TMA stores are in flight";
  let description = [{
    With `read`: until they have read shared memory. It is the thread that started them that waits: a barrier must
    follow before others write the buffer (PTX ISA, "cp.async.bulk.wait_group").

    ```mlir
    sm.tma_store_wait read 1
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, UnitAttr:$read);
  let assemblyFormat = "(`read` $read^)? $pending attr-dict";
}

def Sm_FenceProxyAsyncOp : Sm_Op<"fence_proxy_async", [Sm_Ordering]> {
  let summary = "What each thread wrote into shared memory becomes visible to TMA and wgmma";
  let description = [{
    fence.proxy.async.shared::cta (PTX ISA, "membar/fence"). Each thread orders its own writes; a barrier must follow
    before another thread starts the asynchronous access.

    ```mlir
    sm.fence_proxy_async
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===--- wgmma --------------------------------------------------------------------------------------------------===//

def Sm_WgmmaOp : Sm_Op<"wgmma"> {
  let summary = "acc + A · B by wgmma.mma_async, both operands in shared memory; the result is pending";
  let description = [{
    A and B lie in shared memory as the layout letters say; the consumer warpgroups of the role share M, 64 rows each
    in turn. One group: fence, one wgmma.mma_async for each k-slice and each 64 rows of a warpgroup, commit (PTX ISA,
    "Asynchronous Warpgroup Level Matrix Instructions").

    ```mlir
    %p = sm.wgmma tn %a, %b, %c by <wgmma.m64n256k16.f32.bf16, atoms [2, 1, 1]>
        : memref<128x64xbf16, …>, memref<256x64xbf16, …>, !sm.fragment<128x256xf32, #tv>
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout, Sm_ReadShared:$a, Sm_ReadShared:$b,
                       AnyTypeOf<[Sm_FragmentType, Sm_PendingType]>:$acc, Sm_TiledMmaAttr:$mma);
  let results = (outs Sm_PendingType:$result);
  let assemblyFormat = [{
    $layout $a `,` $b `,` $acc `by` $mma attr-dict `:` type($a) `,` type($b) `,` qualified(type($acc)) `->`
    qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_MmaWaitOp : Sm_Op<"mma_wait", [Sm_Ordering]> {
  let summary = "Waits until at most `pending` groups of wgmma are in flight";
  let description = [{
    With 0 the accumulator becomes readable. With more it stays pending, but what the older groups read is retired, and
    the slot that they read may be released.

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

//===--- instructions that the nvvm dialect lacks ---------------------------------------------------------------===//

def Sm_PtxWgmmaWaitOp : Sm_Op<"ptx_wgmma_wait", [Sm_Ordering, AllTypesMatch<["acc", "result"]>]> {
  let summary = "wgmma.wait_group that the accumulator registers are threaded through (level nvvm)";
  let description = [{
    Nothing that reads the result can be moved above the wait. Becomes inline assembly in one place,
    `convert-ptx-ops-to-asm`.

    ```mlir
    %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32, f32, f32)>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, AnyType:$acc);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$pending `,` $acc attr-dict `:` type($acc)";
}

def Sm_PtxStoreOp : Sm_Op<"ptx_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "st.global with a cache operator (level nvvm)";
  let description = [{
    Stores a vector of at most 16 bytes by st.global.cs (streaming) or st.global.wt (write_through) (PTX ISA, "Cache
    Operators").

    ```mlir
    sm.ptx_store write_through %v to %p : vector<8xbf16>, !llvm.ptr<1>
    ```
  }];
  let arguments = (ins Tile_CacheHint:$cache, AnyType:$value, AnyType:$pointer);
  let assemblyFormat = "$cache $value `to` $pointer attr-dict `:` type($value) `,` type($pointer)";
}

#endif // LOWTIDE_SM_HOPPER_OPS_TD
