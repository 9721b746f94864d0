// Operations of the host function. Included by TileOps.td, whose classes they use.
#ifndef LOWTIDE_TILE_HOST_OPS_TD
#define LOWTIDE_TILE_HOST_OPS_TD

def Tile_PackOp : Tile_Op<"pack", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A matrix in the form that the kernel reads, made from one in another form";
  let description = [{
    By default the result is the source itself if its base and its row stride are multiples of `align` bytes; otherwise
    it is a matrix of the same extents in a workspace with such rows. It has the source's elements, unless it is
    `uninitialized`: then the kernel writes it in place of the source, and `tile.unpack` copies it there. With
    `whole_rows`, rows must also be a multiple of `align` bytes long, because the kernel writes whole units of that
    size.

    `transposed`: element (i, j) of the result is element (j, i) of the source. The result is in a workspace, unless
    the source is known to have one column, whose elements are contiguous and begin at a multiple of `align` bytes.

    `pieces(left of tf32x3)`: each element of the source is the sum of pieces of a narrower type; each piece is the
    rounded remainder after the pieces before it. A product of two elements is a sum of products of pieces. A row of the
    result has one block for each of these products, with the piece of A (`left`) or of B (`right`) in it, so that the
    product of both results is that sum. Blocks have the length of K, padded with zeros to whole units of 16 bytes. The
    products of the smallest pieces come first. Rows of the result are those of A along M, or of B along N, so that K is
    contiguous; if K is the first dimension of the source, it is also `transposed`. The last block, with the largest
    pieces, keeps infinities and NaN, and the others have zeros in their place, so that sums are infinite or NaN as
    without pieces.

    In a batch each matrix is prepared, and the batch stride must also be a multiple of `align` bytes. A matrix that all
    products share, with batch stride 0, is in the workspace once.

    ```mlir
    %packed = tile.pack %a align(16) : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
    %output = tile.pack %d align(16) whole_rows uninitialized
      : memref<?x?xbf16, strided<[?, 1]>> to memref<?x?xbf16, strided<[?, 1]>>
    %turned = tile.pack %a transposed align(16)
      : memref<?x512xf8E4M3FN, strided<[?, 1]>> to memref<512x?xf8E4M3FN, strided<[?, 1]>>
    %pieces = tile.pack %b transposed pieces(right of bf16x6) align(16)
      : memref<64x128xf32, strided<[?, 1]>> to memref<128x384xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins Tile_InputMemRef:$source, UnitAttr:$transposed, OptionalAttr<Tile_Side>:$side,
                       OptionalAttr<Tile_Precision>:$precision, I64Attr:$align, UnitAttr:$whole_rows,
                       UnitAttr:$uninitialized);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = [{
    $source (`transposed` $transposed^)? (`pieces` `(` $side^ `of` $precision `)`)? `align` `(` $align `)`
    (`whole_rows` $whole_rows^)? (`uninitialized` $uninitialized^)? attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_UnpackOp : Tile_Op<"unpack", [AllTypesMatch<["source", "target"]>]> {
  let summary = "Copies the result of `tile.pack` to the matrix that it replaced";
  let description = [{
    Does nothing if the two are the same matrix.

    ```mlir
    %output = tile.pack %d align(16) uninitialized : …
    …
    tile.unpack %output into %d : memref<?x?xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins Tile_InputMemRef:$source, Tile_OutputMemRef:$target);
  let assemblyFormat = "$source `into` $target attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Tile_SmCountOp : Tile_Op<"sm_count", [Pure]> {
  let summary = "The number of streaming multiprocessors that the launch may use";
  let description = [{
    Known at launch: the number of SMs of the GPU, or the interpreter's argument `sms`.

    ```mlir
    %sms = tile.sm_count : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_WorkspaceOp : Tile_Op<"workspace", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Scratch memory on the GPU for the launches of this call";
  let description = [{
    A vector of `size` elements in global memory, aligned to 256 bytes. The runtime owns it and reuses it from call to
    call in the same stream; calls in two streams never share one. Its contents are undefined, unless it is `zeroed`:
    then they are zero, and the launches must leave them zero for the next call.

    ```mlir
    %partials = tile.workspace %elements : memref<?xf32>
    %counters = tile.workspace %tiles zeroed : memref<?xi32>
    ```
  }];
  let arguments = (ins Index:$size, UnitAttr:$zeroed);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$size (`zeroed` $zeroed^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_ClusterCountOp : Tile_Op<"cluster_count", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The number of clusters of a kernel that can be resident at once";
  let description = [{
    Known at launch: the driver's answer for the kernel's threads, registers and shared memory, or the interpreter's
    `sms` divided by the size of the cluster, at least 1.

    ```mlir
    %clusters = tile.cluster_count @gemm_kernel cluster [2, 1] : index
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, DenseI64ArrayAttr:$cluster);
  let results = (outs Index:$result);
  let assemblyFormat = "$kernel `cluster` $cluster attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_LaunchOp : Tile_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Launches a kernel on a grid of CTAs";
  let description = [{
    `threads` is the number of threads per CTA. `shared_memory` is the size of its dynamic shared memory in bytes, known
    from level `epilogue` on. `cluster` is the shape of a cluster in tiles of D: with `[m, n]`, m·n consecutive CTAs run
    together, and the grid is a multiple of m·n. A `programmatic` launch may start before the kernels before it in the
    stream have ended (CUDA C++ Programming Guide, "Programmatic Dependent Launch"); its kernel waits with
    `tile.grid_dependency_wait`. A `cooperative` launch is refused unless all CTAs can run at the same time, so any CTA
    may wait for any other (CUDA C++ Programming Guide, "Grid Synchronization").

    ```mlir
    tile.launch @gemm_kernel grid(%ctas) threads(128) shared_memory(49152) args(%a, %b, %d)
        : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.launch @gemm_kernel grid(%ctas) threads(384) cluster [2, 1] args(%a, %b, %d) : …
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Index:$grid, I64Attr:$threads,
                       OptionalAttr<DenseI64ArrayAttr>:$cluster, OptionalAttr<I64Attr>:$shared_memory,
                       UnitAttr:$programmatic, UnitAttr:$cooperative, Variadic<AnyType>:$args);
  let assemblyFormat = [{
    $kernel `grid` `(` $grid `)` `threads` `(` $threads `)` (`cluster` $cluster^)?
    (`shared_memory` `(` $shared_memory^ `)`)? (`programmatic` $programmatic^)? (`cooperative` $cooperative^)?
    `args` `(` $args `)` attr-dict (`:` type($args)^)?
  }];
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_HOST_OPS_TD
