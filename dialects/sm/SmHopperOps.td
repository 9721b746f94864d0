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

def Sm_MbarriersOp : Sm_Op<"mbarriers", [MemoryEffects<[MemAlloc, MemRead<Sm_Sync>, MemWrite<Sm_Sync>]>]> {
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
    One thread of the warpgroup arrives. In a producer role one thread of the role does.

    ```mlir
    sm.mbarrier_arrive %empty[%slot] : !sm.mbarriers<4>
    sm.mbarrier_arrive %full[%slot] expects 49152 : !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_MbarriersType:$barriers, Index:$index, OptionalAttr<I64Attr>:$bytes);
  let assemblyFormat = [{
    $barriers `[` $index `]` (`expects` $bytes^)? attr-dict `:` qualified(type($barriers))
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
  let summary = "One thread starts a TMA load of a box into shared memory";
  let description = [{
    Elements outside the matrix become zero; the full box's bytes are counted on the mbarrier in any case (PTX ISA,
    "cp.async.bulk.tensor").

    ```mlir
    sm.tma_load %map[%m, %k] to %a signals %full[%slot]
        : !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>, memref<128x64xbf16, …>, !sm.mbarriers<4>
    ```
  }];
  let arguments = (ins Sm_TensorMapType:$map, Index:$row, Index:$column, Sm_WriteShared:$destination,
                       Sm_MbarriersType:$barriers, Index:$index);
  let assemblyFormat = [{
    $map `[` $row `,` $column `]` `to` $destination `signals` $barriers `[` $index `]` attr-dict
    `:` qualified(type($map)) `,` type($destination) `,` qualified(type($barriers))
  }];
  let hasVerifier = 1;
}

//===--- wgmma --------------------------------------------------------------------------------------------------===//

def Sm_WgmmaOp : Sm_Op<"wgmma"> {
  let summary = "acc + A · B by wgmma.mma_async, both operands in shared memory; the result is pending";
  let description = [{
    A is M×K, B is N×K in shared memory, K contiguous; the consumer warpgroups of the role share M. One group: fence,
    one wgmma.mma_async for each k-slice, commit (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

    ```mlir
    %p = sm.wgmma %a, %b, %c by <wgmma.m64n256k16.f32.bf16, atoms [2, 1, 1]>
        : memref<128x64xbf16, …>, memref<256x64xbf16, …>, !sm.fragment<128x256xf32, #tv>
    ```
  }];
  let arguments = (ins Sm_ReadShared:$a, Sm_ReadShared:$b, AnyTypeOf<[Sm_FragmentType, Sm_PendingType]>:$acc,
                       Sm_TiledMmaAttr:$mma);
  let results = (outs Sm_PendingType:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc `by` $mma attr-dict `:` type($a) `,` type($b) `,` qualified(type($acc)) `->`
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

#endif // LOWTIDE_SM_HOPPER_OPS_TD
