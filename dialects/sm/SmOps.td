// Operations of the sm dialect.
#ifndef LOWTIDE_SM_OPS_TD
#define LOWTIDE_SM_OPS_TD

include "SmAttrs.td"
include "TileAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Sm_Op<string mnemonic, list<Trait> traits = []> : Op<Sm_Dialect, mnemonic, traits>;

// Barriers, waits, commits and ring operations read and write a dedicated resource, so that upstream passes move no
// memory access across them.
def Sm_Sync : Resource<"::lowtide::sm::SyncResource">;
def Sm_Ordering : MemoryEffects<[MemRead<Sm_Sync>, MemWrite<Sm_Sync>]>;

def Sm_SharedMemRef : Type<And<[AnyMemRef.predicate, CPred<"::lowtide::sm::isShared($_self)">]>,
                           "memref in shared memory", "::mlir::MemRefType">;
def Sm_ReadShared : Arg<Sm_SharedMemRef, "buffer read", [MemRead]>;
def Sm_WriteShared : Arg<Sm_SharedMemRef, "buffer written", [MemWrite]>;

//===--- shared memory ------------------------------------------------------------------------------------------===//

def Sm_AllocOp : Sm_Op<"alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A buffer in shared memory";
  let description = [{
    `at` is the offset in bytes from the start of dynamic shared memory; `assign-smem-offsets` sets it. In a role with
    several instances each has its own buffer: that of instance i is at `at` plus i times the size of the buffer, rounded
    up to a multiple of 1024 bytes.

    ```mlir
    %as = sm.alloc : memref<128x64xbf16, #tile.layout<(128,64):(64,1)>, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$at);
  let results = (outs Sm_SharedMemRef:$result);
  let assemblyFormat = "(`at` $at^)? attr-dict `:` qualified(type($result))";
}

def Sm_CopyOp : Sm_Op<"copy"> {
  let summary = "Copies a window of global memory into shared memory, with all threads of the CTA";
  let description = [{
    Elements outside the matrix become zero. The copy is synchronous: a thread sees the data it copied after the op, and
    other threads see it after a barrier.

    ```mlir
    sm.copy %at to %as : !tile.view<128x64xbf16>, memref<128x64xbf16, #layout, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "window read", [MemRead]>:$source, Sm_WriteShared:$destination);
  let assemblyFormat = "$source `to` $destination attr-dict `:` qualified(type($source)) `,` qualified(type($destination))";
  let hasVerifier = 1;
}

def Sm_CopyAsyncOp : Sm_Op<"copy_async"> {
  let summary = "Starts a copy of a window of global memory into a slot of a ring";
  let description = [{
    Like `sm.copy`, but asynchronous: the data is complete after the slot has been committed and waited for.

    ```mlir
    sm.copy_async %at to %a : !tile.view<128x64xbf16>, memref<128x64xbf16, #layout, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "window read", [MemRead]>:$source, Sm_WriteShared:$destination);
  let assemblyFormat = "$source `to` $destination attr-dict `:` qualified(type($source)) `,` qualified(type($destination))";
  let hasVerifier = 1;
}

def Sm_BarrierOp : Sm_Op<"barrier", [Sm_Ordering]> {
  let summary = "Synchronizes all threads of the CTA; writes to shared memory before it are visible after it";
  let description = [{
    Lowers to bar.sync (PTX ISA, "bar, barrier"). Within a role it synchronizes the threads of the role. With
    `warpgroup`, each warpgroup synchronizes on its own.

    ```mlir
    sm.barrier
    sm.barrier warpgroup
    ```
  }];
  let arguments = (ins UnitAttr:$warpgroup);
  let assemblyFormat = "(`warpgroup` $warpgroup^)? attr-dict";
}

//===--- the ring and its operations ----------------------------------------------------------------------------===//

def Sm_RingOp : Sm_Op<"ring", [MemoryEffects<[MemAlloc]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "A ring of stages in shared memory";
  let description = [{
    `at` is the offset in bytes of the first stage of each buffer of a slot. Stage s is at this offset plus s times the
    size of the buffer.

    ```mlir
    %ring = sm.ring : !sm.ring<3 x [memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>]>
    ```

    `kept` are buffers that a slot keeps when it is acquired again, so that they can be written once and read in every
    round. All others lose what they hold.

    ```mlir
    %ring = sm.ring kept [1] : !sm.ring<4 x [memref<…>, memref<…>]>
    ```
  }];
  let arguments = (ins OptionalAttr<DenseI64ArrayAttr>:$at, OptionalAttr<DenseI64ArrayAttr>:$kept);
  let results = (outs Sm_RingType:$result);
  let assemblyFormat = "(`kept` $kept^)? (`at` $at^)? attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

class Sm_SlotGivingOp<string mnemonic> : Sm_Op<mnemonic, [Sm_Ordering,
    DeclareOpInterfaceMethods<InferTypeOpInterface, ["inferReturnTypes"]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let arguments = (ins Sm_RingType:$ring, Index:$index, Index:$phase);
  let results = (outs Sm_SlotType:$slot, Variadic<AnyMemRef>:$buffers);
  let assemblyFormat = "$ring `[` $index `,` $phase `]` attr-dict `:` qualified(type($ring))";
}

def Sm_ProducerAcquireOp : Sm_SlotGivingOp<"producer_acquire"> {
  let summary = "Waits until the readers have released a slot; returns a writable slot and its buffers";
  let description = [{
    `index` is the slot. `phase` is the number of times that the ring has wrapped around, modulo 2.

    ```mlir
    %slot, %a, %b = sm.producer_acquire %ring[%w, %wp] : !sm.ring<…>
    ```
  }];
}

def Sm_ConsumerWaitOp : Sm_SlotGivingOp<"consumer_wait"> {
  let summary = "Waits until the copies into a slot are complete; returns a readable slot and its buffers";
  let description = [{
    Every thread of the CTA may read the buffers.

    ```mlir
    %slot, %a, %b = sm.consumer_wait %ring[%r, %rp] : !sm.ring<…>
    ```
  }];
}

class Sm_SlotTakingOp<string mnemonic> : Sm_Op<mnemonic, [Sm_Ordering]> {
  let hasVerifier = 1;
}

def Sm_ProducerCommitOp : Sm_SlotTakingOp<"producer_commit"> {
  let arguments = (ins Sm_RingType:$ring, Sm_SlotType:$slot);
  let assemblyFormat = "$ring `,` $slot attr-dict `:` qualified(type($ring)) `,` qualified(type($slot))";
  let summary = "Marks the end of the copies into a slot";
  let description = [{
    ```mlir
    sm.producer_commit %ring, %slot : !sm.ring<…>, !sm.slot<write>
    ```
  }];
}

def Sm_ConsumerReleaseOp : Sm_SlotTakingOp<"consumer_release"> {
  let summary = "Releases a slot that is no longer read";
  let description = [{
    If an asynchronous mma reads the slot, the release needs the `!sm.retired` token of `sm.mma_wait`.

    ```mlir
    sm.consumer_release %ring, %slot : !sm.ring<…>, !sm.slot<read>
    sm.consumer_release %ring, %slot after %retired : !sm.ring<…>, !sm.slot<read>
    ```
  }];
  let arguments = (ins Sm_RingType:$ring, Sm_SlotType:$slot, Optional<Sm_RetiredType>:$retired);
  let assemblyFormat = [{
    $ring `,` $slot (`after` $retired^)? attr-dict `:` qualified(type($ring)) `,` qualified(type($slot))
  }];
}

def Sm_ProducerTailOp : Sm_Op<"producer_tail", [Sm_Ordering]> {
  let summary = "Drains the ring: waits until all copies are complete and all readers of the CTA are done";
  let description = [{
    Afterwards `sm.ring_reuse` may reuse the storage of the ring, or the ring may be filled again from its first slot.

    ```mlir
    sm.producer_tail %ring : !sm.ring<…>
    ```
  }];
  let arguments = (ins Sm_RingType:$ring);
  let assemblyFormat = "$ring attr-dict `:` qualified(type($ring))";
}

def Sm_RingAdvanceOp : Sm_Op<"ring_advance", [Pure,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "Returns the next slot and its phase";
  let description = [{
    Returns index + 1 and the same phase. After the last slot it returns 0 and the flipped phase. With `by` it advances
    by this number of slots, at least 0.

    ```mlir
    %index2, %phase2 = sm.ring_advance %ring[%index, %phase] : !sm.ring<…>
    %index3, %phase3 = sm.ring_advance %ring[%index, %phase] by %steps : !sm.ring<…>
    ```
  }];
  let arguments = (ins Sm_RingType:$ring, Index:$index, Index:$phase, Optional<Index>:$count);
  let results = (outs Index:$next_index, Index:$next_phase);
  let assemblyFormat = "$ring `[` $index `,` $phase `]` (`by` $count^)? attr-dict `:` qualified(type($ring))";
}

def Sm_RingSlotOp : Sm_Op<"ring_slot", [Pure,
    DeclareOpInterfaceMethods<InferTypeOpInterface, ["inferReturnTypes"]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "Returns the buffers of one slot, after the ring operations are bound to instructions";
  let description = [{
    ```mlir
    %a, %b = sm.ring_slot %ring[%index] : !sm.ring<…>
    ```
  }];
  let arguments = (ins Sm_RingType:$ring, Index:$index);
  let results = (outs Variadic<AnyMemRef>:$buffers);
  let assemblyFormat = "$ring `[` $index `]` attr-dict `:` qualified(type($ring))";
}

def Sm_RingReuseOp : Sm_Op<"ring_reuse", [Pure]> {
  let summary = "Reuses the storage of a drained ring as another buffer";
  let description = [{
    The buffer starts at the ring's first buffer. It may be used only while the ring is drained: after
    `sm.producer_tail` and before the ring is filled again, with a barrier between the last access and the refill.

    ```mlir
    %scratch = sm.ring_reuse %ring : !sm.ring<…> to memref<32x128xbf16, #layout, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Sm_RingType:$ring);
  let results = (outs Sm_SharedMemRef:$result);
  let assemblyFormat = "$ring attr-dict `:` qualified(type($ring)) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_PrefixOp : Sm_Op<"prefix", [Pure]> {
  let summary = "The first bytes of a buffer, as a smaller buffer with a layout of its own";
  let description = [{
    A slot of a ring serves tiles of several sizes: a smaller tile uses the first bytes of the slot's buffer. The right
    to read or write is that of the whole buffer.

    ```mlir
    %half = sm.prefix %a : memref<256x64xbf16, #layout, #gpu.address_space<workgroup>> to memref<128x64xbf16, #layout1, #gpu.address_space<workgroup>>
    ```
  }];
  let arguments = (ins Sm_SharedMemRef:$source);
  let results = (outs Sm_SharedMemRef:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `to` qualified(type($result))";
  let hasVerifier = 1;
}

//===--- cp.async -----------------------------------------------------------------------------------------------===//

def Sm_CpAsyncOp : Sm_Op<"cp_async"> {
  let summary = "Copies a window into shared memory with cp.async, as a tiled copy";
  let description = [{
    Each thread issues one cp.async per run of its values. Bytes outside the matrix are filled with zeros (PTX ISA,
    "cp.async"). The issuing thread sees the data after a `sm.cp_async_wait` that covers the group; other threads see
    it after a barrier that follows the wait.

    ```mlir
    sm.cp_async %at to %a by <cp.async.16, #tv> : !tile.view<128x32xbf16>, memref<…>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "window read", [MemRead]>:$source, Sm_WriteShared:$destination,
                       Sm_TiledCopyAttr:$copy);
  let assemblyFormat = "$source `to` $destination `by` $copy attr-dict `:` qualified(type($source)) `,` qualified(type($destination))";
  let hasVerifier = 1;
}

def Sm_CpAsyncCommitOp : Sm_Op<"cp_async_commit", [Sm_Ordering]> {
  let summary = "Commits a group per thread: the cp.async that the thread issued since its last commit";
  let description = [{
    Lowers to cp.async.commit_group. The group may be empty.

    ```mlir
    sm.cp_async_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Sm_CpAsyncWaitOp : Sm_Op<"cp_async_wait", [Sm_Ordering]> {
  let summary = "Waits until at most `pending` cp.async groups per thread are in flight";
  let description = [{
    Lowers to cp.async.wait_group. A thread waits only for its own copies; to read those of other threads, a barrier
    must follow.

    ```mlir
    sm.cp_async_wait 1
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

//===--- fragments ----------------------------------------------------------------------------------------------===//

def Sm_SplatOp : Sm_Op<"splat", [Pure]> {
  let summary = "A fragment with the same value in every element";
  let description = [{
    ```mlir
    %zero = sm.splat 0.0 : !sm.fragment<128x128xf32, #tv>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($result))";
}

def Sm_LdmatrixOp : Sm_Op<"ldmatrix"> {
  let summary = "Loads the fragment of an mma operand from shared memory with ldmatrix";
  let description = [{
    Reads the part of the buffer that starts at `offsets` and has the fragment's shape. With `trans` it reads the
    transpose: the buffer is stored with the fragment's rows contiguous. One instruction loads up to four 8×8 matrices
    of 16-bit elements (PTX ISA, "ldmatrix").

    ```mlir
    %fa = sm.ldmatrix %a[0, 16] by "ldmatrix.x4" : memref<128x32xbf16, …> to !sm.fragment<128x16xbf16, #tv>
    ```
  }];
  let arguments = (ins Sm_ReadShared:$source, DenseI64ArrayAttr:$offsets, StrAttr:$atom, UnitAttr:$trans);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $source `` $offsets `by` $atom (`trans` $trans^)? attr-dict `:` qualified(type($source)) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_MmaSyncOp : Sm_Op<"mma_sync", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + A · B on fragments, with mma.sync or FMA";
  let description = [{
    A is M×K, B is N×K and the accumulator is M×N. The tiled mma determines their thread-value layouts, and its atom the
    instruction: mma.sync of a warp, or fma of a thread, which adds the products one after the other, in order of K.

    ```mlir
    %c2 = sm.mma_sync %fa, %fb, %c by <mma.m16n8k16.f32.bf16, atoms [2, 2, 1]>
        : !sm.fragment<128x16xbf16, #tv>, !sm.fragment<128x16xbf16, #tv1>, !sm.fragment<128x128xf32, #tv2>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$a, Sm_FragmentType:$b, Sm_FragmentType:$acc, Sm_TiledMmaAttr:$mma);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = "$a `,` $b `,` $acc `by` $mma attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `,` qualified(type($acc))";
  let hasVerifier = 1;
}

def Sm_SumOverKOp : Sm_Op<"sum_over_k", [Sm_Ordering]> {
  let summary = "The sum of what the warps along K have accumulated, shared out among all threads of the CTA";
  let description = [{
    With several atoms along K in the tiled mma, warps that differ only in their place along K hold partial sums of the
    same elements. They are added in the order of their places along K, so that bits repeat. In the result each element
    is held by one thread. `lower-epilogue` makes it a pass through shared memory.

    ```mlir
    %sum = sm.sum_over_k %acc by <mma.m16n8k16.f32.bf16, atoms [2, 2, 2]>
        : !sm.fragment<128x128xf32, #tv> to !sm.fragment<128x128xf32, #rows>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$partial, Sm_TiledMmaAttr:$mma);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = "$partial `by` $mma attr-dict `:` qualified(type($partial)) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_StackOp : Sm_Op<"stack", [Pure]> {
  let summary = "The partial sums of the warps along K as one fragment: a tile below the other, in their order";
  let description = [{
    The registers stay where they are. The result has as many times the rows as there are warps along K.

    ```mlir
    %stacked = sm.stack %part : !sm.fragment<32x128xf32, #tv> to !sm.fragment<64x128xf32, #tv1>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$partial);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = "$partial attr-dict `:` qualified(type($partial)) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_ExtractOp : Sm_Op<"extract", [Pure]> {
  let summary = "Extracts the part of a fragment that lies in a sub-tile";
  let description = [{
    The sub-tile starts at `offsets` and has the result's shape. In the result, each thread must hold exactly the
    elements of the sub-tile that it holds in the source.

    ```mlir
    %part = sm.extract %acc[32, 0] : !sm.fragment<128x128xf32, #tv> to !sm.fragment<32x128xf32, #tv1>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$source, DenseI64ArrayAttr:$offsets);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = "$source `` $offsets attr-dict `:` qualified(type($source)) `to` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_MapOp : Sm_Op<"map", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Applies a scalar region to every element of fragments";
  let description = [{
    The inputs are fragments of the same shape and thread-value layout, or scalars that all elements share.

    ```mlir
    %y = sm.map %x, %bias : !sm.fragment<32x128xf32, #tv>, !sm.fragment<32x128xf32, #tv> {
    ^bb0(%e: f32, %b: f32):
      %0 = arith.addf %e, %b : f32
      tile.yield %0 : f32
    } : !sm.fragment<32x128xf32, #tv>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs);
  let results = (outs Sm_FragmentType:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$inputs `:` type($inputs) $body attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Sm_StoreSharedOp : Sm_Op<"store_shared"> {
  let summary = "Stores a fragment into shared memory";
  let description = [{
    The buffer has the fragment's shape: an epilogue's scratch, or a slot of the ring that a copy through registers fills.
    Values of a thread that are contiguous in memory are combined into stores of at most the atom's size. `stmatrix.x4`
    stores four 8×8 matrices of 16-bit elements per instruction; each lane provides the address of one row (PTX ISA,
    "stmatrix").

    ```mlir
    sm.store_shared %y to %scratch by "st.shared.4" : !sm.fragment<32x128xbf16, #tv>, memref<…>
    sm.store_shared %ra to %a by "st.shared.4" : !sm.fragment<128x16xf32, #tv2>, memref<…>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$value, Sm_WriteShared:$destination, StrAttr:$atom);
  let assemblyFormat = "$value `to` $destination `by` $atom attr-dict `:` qualified(type($value)) `,` qualified(type($destination))";
  let hasVerifier = 1;
}

def Sm_LoadSharedOp : Sm_Op<"load_shared"> {
  let summary = "Loads a fragment from shared memory";
  let description = [{
    Reads the part of the buffer that starts `at` the given element and has the fragment's shape; by default the buffer
    has that shape. With `trans` it reads the transpose: the buffer is stored with the fragment's rows contiguous. The
    values that a thread holds side by side in memory are combined into loads of the atom's size.

    ```mlir
    %rows = sm.load_shared %scratch by "ld.shared.16" : memref<…> to !sm.fragment<32x128xbf16, #tv1>
    %fa = sm.load_shared %a at [0, 8] by "ld.shared.16" : memref<128x16xf64, …> to !sm.fragment<128x8xf64, #tv>
    ```
  }];
  let arguments = (ins Sm_ReadShared:$source, OptionalAttr<DenseI64ArrayAttr>:$offsets, StrAttr:$atom,
                       UnitAttr:$trans);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $source (`at` $offsets^)? `by` $atom (`trans` $trans^)? attr-dict `:` qualified(type($source)) `to`
    qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_LoadGlobalOp : Sm_Op<"load_global"> {
  let summary = "Loads a fragment from a window of global memory";
  let description = [{
    Elements outside the matrix become zero. The values that a thread holds side by side in memory are combined into
    loads of the atom's size if the base and the row stride of the window are aligned at run time. Otherwise each load is
    one element. With `aligned` they are known to be, by what the kernel asks of A and B, and nothing is checked. With
    `realigned` they may lie anywhere: the two aligned vectors around each are loaded, and registers shifted into place.
    With `trans` it reads the transpose: the rows of the window are the fragment's columns. The operands of an mma come
    so in a kernel without shared memory, copies that go through registers and the fragments of an epilogue's operands
    in any.

    ```mlir
    %c = sm.load_global %cv by "ld.global.16" : !tile.view<32x128xbf16> to !sm.fragment<32x128xbf16, #tv1>
    %fa = sm.load_global %at by "ld.global.2" trans : !tile.view<16x128xbf16> to !sm.fragment<128x16xbf16, #tv>
    %ra = sm.load_global %av by "ld.global.16" aligned : !tile.view<128x16xf32> to !sm.fragment<128x16xf32, #tv2>
    %rb = sm.load_global %bv by "ld.global.16" realigned : !tile.view<128x16xf32> to !sm.fragment<128x16xf32, #tv2>
    ```
  }];
  let arguments = (ins Arg<Tile_ViewType, "window read", [MemRead]>:$source, StrAttr:$atom, UnitAttr:$trans,
                       UnitAttr:$aligned, UnitAttr:$realigned);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $source `by` $atom (`trans` $trans^)? (`aligned` $aligned^)? (`realigned` $realigned^)? attr-dict `:`
    qualified(type($source)) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_StoreGlobalOp : Sm_Op<"store_global"> {
  let summary = "Stores a fragment into a window of global memory";
  let description = [{
    Elements outside the matrix are dropped. `cache` selects st.global.cs (`streaming`) or st.global.wt
    (`write_through`).

    ```mlir
    sm.store_global %rows to %dv by "st.global.16" : !sm.fragment<32x128xbf16, #tv1>, !tile.view<32x128xbf16>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$value, Arg<Tile_ViewType, "window written", [MemWrite]>:$destination,
                       StrAttr:$atom, OptionalAttr<Tile_CacheHint>:$cache);
  let assemblyFormat = [{
    $value `to` $destination `by` $atom (`cache` `(` $cache^ `)`)? attr-dict `:` qualified(type($value)) `,`
    qualified(type($destination))
  }];
  let hasVerifier = 1;
}

// Roles, mbarriers, TMA, wgmma, and instructions that the nvvm dialect lacks. They use the classes above.
include "SmHopperOps.td"

#endif // LOWTIDE_SM_OPS_TD
