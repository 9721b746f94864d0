// Operations of the sm dialect.
#ifndef LOWTIDE_SM_OPS_TD
#define LOWTIDE_SM_OPS_TD

include "SmAttrs.td"
include "TileAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Nothing builds these ops in C++, and the default builders take a third of the time to compile them. TableGen asks for
// at least one builder: an empty one.
class Sm_Op<string mnemonic, list<Trait> traits = []> : Op<Sm_Dialect, mnemonic, traits> {
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins), [{ }]>];
}

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
    several instances, each has its own buffer: that of instance i is at `at` plus i times the size of the buffer,
    rounded up to a multiple of 1024 bytes.

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

    `kept` lists buffers that keep their contents when the slot is acquired again, so that they can be written once and
    read in every round. All other buffers lose their contents.

    ```mlir
    %ring = sm.ring kept [1] : !sm.ring<4 x [memref<…>, memref<…>]>
    ```

    Slots may share their kept buffers: with `of n`, which divides the stages, slot s has the kept buffers of slot s mod
    n. So the ring can be deeper than the kept buffers.

    ```mlir
    %ring = sm.ring kept [1] of 4 : !sm.ring<8 x [memref<…>, memref<…>]>
    ```
  }];
  let arguments = (ins OptionalAttr<DenseI64ArrayAttr>:$at, OptionalAttr<DenseI64ArrayAttr>:$kept,
                       OptionalAttr<I64Attr>:$kept_stages);
  let results = (outs Sm_RingType:$result);
  let assemblyFormat = "(`kept` $kept^)? (`of` $kept_stages^)? (`at` $at^)? attr-dict `:` qualified(type($result))";
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
    "cp.async"). The issuing thread sees the data after an `sm.cp_async_wait` that covers the group; other threads see
    it after a barrier that follows the wait. Threads that wait for the phase of an `sm.cp_async_arrive` see it, too.

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

// Fragments; roles, mbarriers, TMA, wgmma, and instructions that the nvvm dialect lacks. These use the classes above.
include "SmFragmentOps.td"
include "SmHopperOps.td"
include "SmPtxOps.td"

#endif // LOWTIDE_SM_OPS_TD
