// Operations of the sm dialect for PTX instructions that the nvvm dialect lacks. Included by SmOps.td.
#ifndef LOWTIDE_SM_PTX_OPS_TD
#define LOWTIDE_SM_PTX_OPS_TD

//===--- instructions that the nvvm dialect lacks ---------------------------------------------------------------===//

def Sm_PtxWgmmaWaitOp : Sm_Op<"ptx_wgmma_wait", [Sm_Ordering, AllTypesMatch<["acc", "result"]>]> {
  let summary = "wgmma.wait_group with the accumulator registers as operand and result (level nvvm)";
  let description = [{
    No use of the result can move above the wait. The pass `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32, f32, f32)>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, AnyType:$acc);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$pending `,` $acc attr-dict `:` type($acc)";
}

def Sm_PtxWgmmaOp : Sm_Op<"ptx_wgmma", [Sm_Ordering, AllTypesMatch<["acc", "result"]>]> {
  let summary = "wgmma.mma_async with A in four registers, of two 16-bit elements or one tf32 each (level nvvm)";
  let description = [{
    With `clears`, the accumulators are set to zero first. B is a matrix descriptor; with `transposed`, N is contiguous
    in B. Nothing else may use the registers of A until a wait covers the wgmma (PTX ISA, "wgmma.mma_async",
    "wgmma.wait_group"). The pass `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    %p = sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" %acc, (%a0, %a1, %a2, %a3), %b : !llvm.struct<(f32, f32, f32, f32)>
    %q = sm.ptx_wgmma "wgmma.m64n8k16.f32.bf16" clears %acc, (%a0, %a1, %a2, %a3), %b transposed : !llvm.struct<…>
    ```
  }];
  let arguments = (ins StrAttr:$atom, UnitAttr:$clears, AnyType:$acc, Variadic<I32>:$a, I64:$b, UnitAttr:$transposed);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $atom (`clears` $clears^)? $acc `,` `(` $a `)` `,` $b (`transposed` $transposed^)? attr-dict `:` type($acc)
  }];
}

def Sm_PtxAwaitWaveOp : Sm_Op<"ptx_await_wave", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Adds one to a counter, and polls it until the wave is complete, a bounded number of times (level nvvm)";
  let description = [{
    The last of `tiles` additions sets the counter to zero (atom.inc; PTX ISA, "atom"). With `ctas` CTAs, the CTA that
    adds the n-th one polls until the counter is at the next multiple of `ctas`, or has been set to zero. The pass
    `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    sm.ptx_await_wave %counter tiles(%tiles) ctas(%ctas) : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$counter, I32:$tiles, I32:$ctas);
  let assemblyFormat = "$counter `tiles` `(` $tiles `)` `ctas` `(` $ctas `)` attr-dict `:` type($counter)";
}

def Sm_PtxAwaitArrivalOp : Sm_Op<"ptx_await_arrival", [MemoryEffects<[MemRead, MemWrite]>,
    AllTypesMatch<["flag", "status"]>]> {
  let summary = "Polls a flag by ld.acquire.sys until an epoch is reached, or a time limit has passed (level nvvm)";
  let description = [{
    Returns false once the number at `flag` minus `epoch`, in 32 bits, is not negative. Returns true if the number at
    `status` is not 0 before that, or if `limit` ms have passed. In the latter case, the first thread to find a 0 at
    `status` sets the four numbers there to 1, `shard`, the number that it read at `flag`, and `epoch`. With `for_tma`, TMA
    loads of the thread come after the writes that it has acquired (fence.proxy.async). The pass `convert-ptx-ops-to-asm`
    converts it to inline assembly.

    ```mlir
    %late = sm.ptx_await_arrival %flag reaches(%epoch) within(%limit) else(%status, %shard) for_tma : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$flag, I32:$epoch, I32:$limit, AnyType:$status, I32:$shard, UnitAttr:$for_tma);
  let results = (outs I1:$late);
  let assemblyFormat = [{
    $flag `reaches` `(` $epoch `)` `within` `(` $limit `)` `else` `(` $status `,` $shard `)` (`for_tma` $for_tma^)? attr-dict
    `:` type($flag)
  }];
}

def Sm_PtxTellLastOp : Sm_Op<"ptx_tell_last", [MemoryEffects<[MemRead, MemWrite]>,
    AllTypesMatch<["counter", "flag"]>]> {
  let summary = "Counts a CTA by atom.acq_rel.gpu; the last one writes a flag by st.release.sys (level nvvm)";
  let description = [{
    One thread of each CTA executes the op, after a barrier of the CTA; there are `last` + 1 CTAs. It adds one to the number
    at `counter`, with acquire and release at the scope .gpu. The thread that finds `last` there is the last one: it sets
    the number to 0 instead, and writes `epoch` to `flag` by a release at the scope .sys. See PTX ISA, "atom", "st". The
    pass `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    sm.ptx_tell_last %counter limit %last then %flag, %epoch : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$counter, I32:$last, AnyType:$flag, I32:$epoch);
  let assemblyFormat = "$counter `limit` $last `then` $flag `,` $epoch attr-dict `:` type($counter)";
}

def Sm_PtxReadStatusOp : Sm_Op<"ptx_read_status", [MemoryEffects<[MemRead]>]> {
  let summary = "ld.relaxed.sys of a number that other threads may write (level nvvm)";
  let description = [{
    The pass `convert-ptx-ops-to-asm` converts it to inline assembly (PTX ISA, "ld").

    ```mlir
    %0 = sm.ptx_read_status %status : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$status);
  let results = (outs I32:$value);
  let assemblyFormat = "$status attr-dict `:` type($status)";
}

def Sm_PtxKeepPairOp : Sm_Op<"ptx_keep_pair", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "Two 16-bit values that stay in one register (level nvvm)";
  let description = [{
    Returns the same bits: each lane reads its own register (PTX ISA, "shfl.sync"). LLVM and ptxas do not look through
    it. Otherwise, values that are converted to 16 bits and stored one at a time are also converted one at a time, at
    their stores; after a wgmma, ptxas then serializes wgmmas (C7514). The pass `convert-ptx-ops-to-asm` converts it to
    `nvvm.shfl.sync`.

    ```mlir
    %kept = sm.ptx_keep_pair %pair : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Sm_PtxMaskOrOp : Sm_Op<"ptx_mask_or", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "(value & mask) | bits, by one lop3 (level nvvm)";
  let description = [{
    With `inverted`, (~value & mask) | bits. For an `and` and an `or` with constants, ptxas would take two instructions.
    The pass `convert-ptx-ops-to-asm` converts it to inline assembly (PTX ISA, "lop3").

    ```mlir
    %y = sm.ptx_mask_or %x, 983055, 1124090624 : i32
    %z = sm.ptx_mask_or inverted %x, 983055, 1124090624 : i32
    ```
  }];
  let arguments = (ins UnitAttr:$inverted, I32:$value, I32Attr:$mask, I32Attr:$bits);
  let results = (outs I32:$result);
  let assemblyFormat = "(`inverted` $inverted^)? $value `,` $mask `,` $bits attr-dict `:` type($value)";
}

def Sm_PtxRoundOp : Sm_Op<"ptx_round", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "Rounds to a type that is stored with more bits: cvt.rna.tf32.f32 (level nvvm)";
  let description = [{
    To nearest, ties away from zero (PTX ISA, "cvt"). Values beyond the range become infinite. The pass
    `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    %high = sm.ptx_round %x to tf32 : f32
    ```
  }];
  let arguments = (ins F32:$value, TypeAttr:$to);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `to` $to attr-dict `:` type($value)";
}

def Sm_PtxReplaceMapOp : Sm_Op<"ptx_replace_map", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "tensormap.replace: sets a field of a tensor map in shared memory (level nvvm)";
  let description = [{
    `field` is the name of the field in PTX. For a field with a value for each dimension, `dim` is the dimension, from the
    innermost one on. The new value is a register, or a constant (`immediate`) for fields that require one in PTX. See PTX
    ISA, "tensormap.replace". The pass `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    sm.ptx_replace_map %p "global_dim" dim 0 value %columns : !llvm.ptr<3>, i32
    sm.ptx_replace_map %p "swizzle_mode" immediate 3 : !llvm.ptr<3>
    ```
  }];
  let arguments = (ins AnyType:$pointer, StrAttr:$field, OptionalAttr<I64Attr>:$dim,
                       Optional<AnyTypeOf<[I32, I64]>>:$value, OptionalAttr<I64Attr>:$immediate);
  let assemblyFormat = [{
    $pointer $field (`dim` $dim^)? (`value` $value^)? (`immediate` $immediate^)? attr-dict `:` type($pointer)
    (`,` type($value)^)?
  }];
}

def Sm_PtxCopyMapOp : Sm_Op<"ptx_copy_map", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "tensormap.cp_fenceproxy: copies a tensor map from shared to global memory, and releases it (level nvvm)";
  let description = [{
    Executed by a whole warp. The tensormap proxy sees the map after an acquire fence. See PTX ISA,
    "tensormap.cp_fenceproxy". The pass `convert-ptx-ops-to-asm` converts it to inline assembly.

    ```mlir
    sm.ptx_copy_map %shared to %global : !llvm.ptr<3>, !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$source, AnyType:$target);
  let assemblyFormat = "$source `to` $target attr-dict `:` type($source) `,` type($target)";
}

def Sm_PtxStoreOp : Sm_Op<"ptx_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "st.global with a cache operator (level nvvm)";
  let description = [{
    Stores a vector of at most 16 bytes with st.global.cs (`streaming`) or st.global.wt (`write_through`). See PTX ISA,
    "Cache Operators".

    ```mlir
    sm.ptx_store write_through %v to %p : vector<8xbf16>, !llvm.ptr<1>
    ```
  }];
  let arguments = (ins Tile_CacheHint:$cache, AnyType:$value, AnyType:$pointer);
  let assemblyFormat = "$cache $value `to` $pointer attr-dict `:` type($value) `,` type($pointer)";
}

def Sm_PtxSemaphoreArriveOp : Sm_Op<"ptx_semaphore_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "red.release.gpu.global.add.s32 of one (level nvvm)";
  let description = [{
    Executed by one thread. Its earlier writes, and those of other threads before a barrier with it, are visible to
    threads that acquire the new value. See PTX ISA, "red" and "Causality Order".

    ```mlir
    sm.ptx_semaphore_arrive %p : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$pointer);
  let assemblyFormat = "$pointer attr-dict `:` type($pointer)";
}

def Sm_PtxSemaphoreWaitOp : Sm_Op<"ptx_semaphore_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ld.acquire.gpu.global.s32 until the value is at least a count (level nvvm)";
  let description = [{
    Executed by one thread; threads that then pass a barrier with it see the same writes. See PTX ISA, "ld" and
    "Causality Order".

    ```mlir
    sm.ptx_semaphore_wait %p until %count : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$pointer, I32:$count);
  let assemblyFormat = "$pointer `until` $count attr-dict `:` type($pointer)";
}

def Sm_PtxSemaphoreLeaveOp : Sm_Op<"ptx_semaphore_leave", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "red.relaxed.gpu.global.inc.u32: adds one, or sets to zero if a limit is reached (level nvvm)";
  let description = [{
    Executed by the thread that waited for the semaphore. See PTX ISA, "red".

    ```mlir
    sm.ptx_semaphore_leave %p limit %last : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins AnyType:$pointer, I32:$last);
  let assemblyFormat = "$pointer `limit` $last attr-dict `:` type($pointer)";
}

def Sm_PtxRaiseMaxOp : Sm_Op<"ptx_raise_max", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "redux.sync.max.u32 and, in one lane, red.relaxed.gpu.global.max.u32 (level nvvm)";
  let description = [{
    Executed by all threads of a warp. The values are NaN or not negative: then their order is that of their bits, with
    NaN last. See PTX ISA, "redux.sync" and "red".

    ```mlir
    sm.ptx_raise_max %value to %p : !llvm.ptr<1>
    ```
  }];
  let arguments = (ins F32:$value, AnyType:$pointer);
  let assemblyFormat = "$value `to` $pointer attr-dict `:` type($pointer)";
}

#endif // LOWTIDE_SM_PTX_OPS_TD
