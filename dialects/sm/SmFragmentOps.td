// Operations on fragments: values in the registers of a CTA's threads. Included by SmOps.td, whose classes they use.
#ifndef LOWTIDE_SM_FRAGMENT_OPS_TD
#define LOWTIDE_SM_FRAGMENT_OPS_TD

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

def Sm_UnpackWeightsOp : Sm_Op<"unpack_weights", [Pure]> {
  let summary = "Converts packed weights that each thread holds to the elements of an mma's operand";
  let description = [{
    The source holds bytes of packed weights (docs/weights.md): a row of bytes is one row of 8-bit weights, or two rows
    of 4-bit weights, two weights per byte. The result begins at K `at` of the source. Each thread converts bytes that
    it holds, so no data moves. The result's type holds the weights, integers or floats, exactly. `less` subtracts a
    zero point for each row; each thread holds the zero points of its rows in every column.

    ```mlir
    %fb = sm.unpack_weights %packed at 16 of si4 : !sm.fragment<64x32xui8, #tv> to !sm.fragment<128x16xbf16, #tv1>
    %fz = sm.unpack_weights %packed at 16 of ui4 less %zeros : !sm.fragment<128x16xui8, #tv1>
        : !sm.fragment<64x32xui8, #tv> to !sm.fragment<128x16xbf16, #tv1>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$packed, Optional<Sm_FragmentType>:$zeros, I64Attr:$offset, TypeAttr:$weights);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $packed `at` $offset `of` $weights (`less` $zeros^ `:` qualified(type($zeros)))? attr-dict `:`
    qualified(type($packed)) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_MmaSyncOp : Sm_Op<"mma_sync", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + A · B on fragments, with mma.sync or FMA";
  let description = [{
    A is M×K, B is N×K and the accumulator is M×N. The tiled mma determines their thread-value layouts, and its atom the
    instruction: mma.sync of a warp, or fma of a thread, which adds the products one after the other, in ascending K.

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
  let summary = "The sum of the accumulators of the warps along K, distributed over all threads of the CTA";
  let description = [{
    With several atoms along K in the tiled mma, warps that differ only in their position along K hold partial sums of
    the same elements. These are added in the order of their positions, so that the bits are reproducible. In the
    result, each element is held by one thread. `lower-epilogue` lowers it to an exchange through shared memory.

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
  let summary = "The partial sums of the warps along K as one fragment: their tiles stacked in order";
  let description = [{
    Registers do not move. The number of rows is multiplied by the number of warps along K.

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
    The inputs are fragments of the same shape and thread-value layout, or scalars that all elements share. There is one
    result for each value that the region yields.

    ```mlir
    %y = sm.map %x, %bias : !sm.fragment<32x128xf32, #tv>, !sm.fragment<32x128xf32, #tv> {
    ^bb0(%e: f32, %b: f32):
      %0 = arith.addf %e, %b : f32
      tile.yield %0 : f32
    } : !sm.fragment<32x128xf32, #tv>
    %d, %before = sm.map %x : !sm.fragment<32x128xf32, #tv> {
    ^bb0(%e: f32):
      %0 = arith.truncf %e : f32 to bf16
      tile.yield %0, %e : bf16, f32
    } : !sm.fragment<32x128xbf16, #tv>, !sm.fragment<32x128xf32, #tv>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs);
  let results = (outs Variadic<Sm_FragmentType>:$mapped);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$inputs `:` type($inputs) $body attr-dict `:` qualified(type($mapped))";
  let hasVerifier = 1;
}

def Sm_MaxAbsOp : Sm_Op<"max_abs", [Pure, AllTypesMatch<["most", "result"]>]> {
  let summary = "The largest absolute value of each thread's elements inside a matrix, and of a previous value";
  let description = [{
    The result of each thread is the maximum of its previous value, `most`, and the absolute values of its elements of
    the fragment. Elements of the window outside the matrix do not count. NaN is larger than all numbers.

    ```mlir
    %m1 = sm.max_abs %y in %dv, %m0 : !sm.fragment<32x128xf32, #tv>, !tile.view<32x128xbf16>, !sm.fragment<128x1xf32, #tv1>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$value, Tile_ViewType:$window, Sm_FragmentType:$most);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $value `in` $window `,` $most attr-dict `:` qualified(type($value)) `,` qualified(type($window)) `,`
    qualified(type($most))
  }];
  let hasVerifier = 1;
}

def Sm_RaiseMaxOp : Sm_Op<"raise_max"> {
  let summary = "Raises one element in global memory to the largest of the threads' values";
  let description = [{
    Each thread has one value that is not negative, or NaN. Each warp finds its largest, and updates the element once,
    with an atomic operation; the order of the updates does not matter.

    ```mlir
    sm.raise_max %m into %amax : !sm.fragment<128x1xf32, #tv1>, memref<1xf32>
    ```
  }];
  let arguments = (ins Sm_FragmentType:$most, Arg<AnyMemRef, "element raised", [MemRead, MemWrite]>:$target);
  let assemblyFormat = "$most `into` $target attr-dict `:` qualified(type($most)) `,` type($target)";
  let hasVerifier = 1;
}

def Sm_ReduceOp : Sm_Op<"reduce", [AttrSizedOperandSegments]> {
  let summary = "Reduces each thread's elements of each row (or column) to partial results";
  let description = [{
    A thread has a partial result for each row (`row_…`) or column (`column_…`) of the fragment in which it has elements,
    in the order of their indices; for a `logsumexp`, a maximum and then a sum for each (`tile.finish`). The result holds
    them. With `into`, it also includes earlier partial results. Elements of the window outside the matrix do not count.
    For `row_value` (`column_value`), only the element counts that is in the column (row) that `target` gives for its row
    (column). The target is a window of a vector.

    ```mlir
    %r0 = sm.reduce row_sum %y in %dv
      : !sm.fragment<128x64xf32, #tv>, !tile.view<128x64xbf16>, !sm.fragment<256x2xf32, #tv1>
    %r1 = sm.reduce row_sum %z in %dw into %r0 : …
    %v0 = sm.reduce row_value %y in %dv at %targets : !tile.view<128x64xi32> : …
    ```
  }];
  let arguments = (ins Tile_ResultKind:$kind, Sm_FragmentType:$value, Tile_ViewType:$window,
                       Arg<Optional<Tile_ViewType>, "targets", [MemRead]>:$target, Optional<Sm_FragmentType>:$partial);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $kind $value `in` $window (`at` $target^ `:` qualified(type($target)))?
    (`into` $partial^ `:` qualified(type($partial)))? attr-dict `:` qualified(type($value)) `,`
    qualified(type($window)) `,` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_StoreReducedOp : Sm_Op<"store_reduced"> {
  let summary = "Reduces partial results among the lanes of each warp, and stores those of each warp";
  let description = [{
    The partial results are those of `sm.reduce` for fragments of the type `of`. Lanes that have elements of the same row
    (or column) exchange their partial results by shuffles: first lanes whose numbers differ in the lowest bit, then in
    the next one. If w warps have elements of the same rows, they store the rows `slot`, …, `slot` + w − 1 of the matrix,
    in the order of their first columns; for a `logsumexp`, two rows each, from 2 · slot on. The first row of the
    fragment is element `first` of such a row. Elements past its end are not stored.

    ```mlir
    sm.store_reduced row_sum %r of !sm.fragment<128x64xf32, #tv> into %partials[%slot, %m]
      : !sm.fragment<256x2xf32, #tv1>, memref<?x?xf32, strided<[?, 1]>>
    sm.store_reduced row_sum %r of !sm.fragment<128x64xf32, #tv> into %partials[%slot, %m] batch(%b) : …
    ```
  }];
  let arguments = (ins Tile_ResultKind:$kind, Sm_FragmentType:$partial, TypeAttr:$layout,
                       Arg<AnyMemRef, "partial results written", [MemWrite]>:$target, Index:$slot, Index:$first,
                       Optional<Index>:$batch);
  let assemblyFormat = [{
    $kind $partial `of` $layout `into` $target `[` $slot `,` $first `]` (`batch` `(` $batch^ `)`)? attr-dict `:`
    qualified(type($partial)) `,` type($target)
  }];
  let hasVerifier = 1;
}

def Sm_StoreSharedOp : Sm_Op<"store_shared"> {
  let summary = "Stores a fragment into shared memory";
  let description = [{
    The buffer has the fragment's shape: an epilogue's scratch, or a slot of the ring filled by a copy through registers.
    Values of a thread that are contiguous in memory are combined into stores of at most the atom's size. `stmatrix.x4`
    stores four 8×8 matrices of 16-bit elements per instruction, transposed if the columns of the buffer are contiguous;
    each lane provides the address of one row (PTX ISA, "stmatrix").

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
    has that shape. With `trans` it reads the transpose: the buffer is stored with the fragment's rows contiguous.
    Values of a thread that are contiguous in memory are combined into loads of the atom's size.

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

def Sm_LoadScalesOp : Sm_Op<"load_scales"> {
  let summary = "Loads the scales of a fragment's rows, or columns";
  let description = [{
    The source is a matrix of scales in global memory, or a buffer in shared memory that holds a part of one. In global
    memory a row or column beyond the last one gets the last one's scale: what it scales is not stored.

    The buffer holds the scales of one K step, in the order of their matrix: for a `row_scale` or a `column_scale`, a
    row with an element for each row or column; for a `row_block_scale` or a `column_block_scale`, a row for each block
    of 128 of them, with an element for each 128 of K. The fragment begins at row or column `first` and at K `k`,
    counted from the beginning of the source. All values of a row, or of a column, are the same.

    ```mlir
    %r = sm.load_scales row_scale %scales[%m, %k]
      : memref<?x?xf32, strided<[?, 1]>> to !sm.fragment<128x192xf32, #tv>
    %s = sm.load_scales row_scale %sas[%c0, %c0] : memref<1x128xf32, …> to !sm.fragment<128x192xf32, #tv>
    %t = sm.load_scales column_block_scale %sbs[%first, %k] : memref<2x16xf32, …> to !sm.fragment<128x192xf32, #tv>
    ```
  }];
  let arguments = (ins Tile_OperandKind:$kind, Arg<AnyMemRef, "scales read", [MemRead]>:$source, Index:$first,
                       Index:$k);
  let results = (outs Sm_FragmentType:$result);
  let assemblyFormat = [{
    $kind $source `[` $first `,` $k `]` attr-dict `:` qualified(type($source)) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Sm_LoadGlobalOp : Sm_Op<"load_global"> {
  let summary = "Loads a fragment from a window of global memory";
  let description = [{
    Elements outside the matrix become zero. Values of a thread that are contiguous in memory are combined into loads of
    the atom's size if the base and the row stride of the window are aligned at run time; otherwise each load is one
    element. With `aligned` they are known to be aligned, because the kernel requires it of A and B, and nothing is
    checked. With `realigned` no alignment is needed: the two aligned vectors around each vector are loaded, and
    registers are shifted into place. With `trans` it reads the transpose: the rows of the window are the fragment's
    columns. This op loads the operands of an mma in a kernel without shared memory, copies that go through registers,
    and the operands of an epilogue.

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

#endif // LOWTIDE_SM_FRAGMENT_OPS_TD
