// Operations of the kernels before and after the product. Included by TileOps.td, whose classes they use.
#ifndef LOWTIDE_TILE_PREPARE_OPS_TD
#define LOWTIDE_TILE_PREPARE_OPS_TD

def Tile_PrepareOp : Tile_Op<"prepare"> {
  let summary = "Writes a matrix in the form that later kernels read; each CTA of the launch writes a part";
  let description = [{
    Maps windows of the source to windows of the target, with an optional conversion. Only elements of the source are
    read, and only elements of the target are written. Both may be batches of matrices; their parts are numbered one
    matrix after the other.

    - By default the target is a copy. Both matrices have any base and row stride. Each CTA copies a run of consecutive
      units; a unit is in 16 aligned bytes of a row of the target.
    - `transposed`: element (i, j) of the target is element (j, i) of the source. Rows of the target begin at multiples
      of 16 bytes. Each CTA transposes one tile through shared memory; its rows have 128 bytes in both matrices.
    - `pieces(left of tf32x3)`: rows of pieces side by side along K, as `tile.pack` describes them. Rows of the target
      begin at multiples of 16 bytes.
    - Without a source, the target, one f32, is set to zero.

    ```mlir
    tile.prepare %target from %source : memref<?x?xbf16, strided<[?, 1]>> from memref<?x?xbf16, strided<[?, 1]>>
    tile.prepare %target from %source transposed
      : memref<?x?xf8E4M3FN, strided<[?, 1]>> from memref<?x?xf8E4M3FN, strided<[?, 1]>>
    tile.prepare %target from %source transposed pieces(left of tf32x3)
      : memref<?x?xtf32, strided<[?, 1]>> from memref<?x?xf32, strided<[?, 1]>>
    tile.prepare %amax : memref<1xf32>
    ```
  }];
  let arguments = (ins Tile_OutputMemRef:$target, Arg<Optional<AnyMemRef>, "matrix read", [MemRead]>:$source,
                       UnitAttr:$transposed, OptionalAttr<Tile_Side>:$side, OptionalAttr<Tile_Precision>:$precision);
  let assemblyFormat = [{
    $target (`from` $source^)? (`transposed` $transposed^)? (`pieces` `(` $side^ `of` $precision `)`)? attr-dict
    `:` type($target) (`from` type($source)^)?
  }];
  let hasVerifier = 1;
}

def Tile_FinishOp : Tile_Op<"finish"> {
  let summary = "Reduces the partial results of a reduction to its elements, in a fixed order";
  let description = [{
    With L elements of the target, element i is the reduction of the elements i, i + L, i + 2L, … of the source, in this
    order, one after the other. `kind` is the reduction; the part of A · B in its name does not count. The partial
    results of a logsumexp are `pairs`, unless they are logarithms themselves: then elements i + 2pL and i + (2p + 1)L
    are a maximum and the sum of the exponentials of the differences from it. If the maximum is infinite, the sum is of
    the exponentials themselves. Both vectors may be batches of vectors. If the source is a matrix, element i is the
    reduction of its column i; the target may have fewer elements than a row. Each CTA of the launch computes a run of
    elements.

    ```mlir
    tile.finish row_sum %sums from %partials : memref<?xf32> from memref<?xf32>
    tile.finish row_logsumexp %result from %partials pairs : memref<?xf32> from memref<?xf32>
    ```
  }];
  let arguments = (ins Tile_ResultKind:$kind, Tile_OutputMemRef:$target, Tile_InputMemRef:$source, UnitAttr:$pairs);
  let assemblyFormat = [{
    $kind $target `from` $source (`pairs` $pairs^)? attr-dict `:` type($target) `from` type($source)
  }];
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_PREPARE_OPS_TD
