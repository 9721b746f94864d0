// Operations that name a part of a matrix and copy nothing: a window, rows at an index, a matrix of a list. Included by
// TileOps.td, whose classes they use.
#ifndef LOWTIDE_TILE_MATRIX_OPS_TD
#define LOWTIDE_TILE_MATRIX_OPS_TD

def Tile_ViewOp : Tile_Op<"view", [Pure]> {
  let summary = "A window of a matrix (or of a vector, broadcast) in global memory, or of scales in shared memory";
  let description = [{
    The window starts at the given offsets, has the result's shape, and is clipped at the edges of the matrix. A vector
    is broadcast: with kind `per_row` it has one element per row of the window, with `per_column` one per column. For a
    batch of matrices or vectors, the first offset is the index of the matrix or vector.

    With `halves`, the source is a batch. The first half of the window's rows is from the matrix at the first offset, and
    the second half is from the next matrix, from the same row on. Each half is clipped by itself. If the source is a batch
    of batches, the second offset is the index of the matrix in both batches.

    Each row (or column) of a window of scales holds the scale of that row (or column) of a product, for the block of K
    that contains the second offset. Both offsets count rows (or columns) and K, as for A and B, not blocks. The source
    may also be a buffer in shared memory that holds a part of such a matrix.

    ```mlir
    %at = tile.view %a[%m, %k] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<128x64xbf16>
    %bt = tile.view per_column %bias[%n] : memref<?xf32> to !tile.view<128x64xf32>
    %ct = tile.view %c[%batch, %m, %k] : memref<?x?x?xbf16, strided<[?, ?, 1]>> to !tile.view<128x64xbf16>
    %sa = tile.view row_scale %scale_a[%m, %k] : memref<?x?xf32, strided<[?, 1]>> to !tile.view<128x64xf32>
    %pair = tile.view %b[%c0, %n, %k] halves : memref<2x?x?xbf16, strided<[?, ?, 1]>> to !tile.view<256x64xbf16>
    %pairs = tile.view %e[%c0, %g, %n, %k] halves : memref<2x8x?x?xbf16, strided<[?, ?, ?, 1]>> to !tile.view<256x64xbf16>
    ```
  }];
  let arguments = (ins OptionalAttr<Tile_OperandKind>:$kind, AnyMemRef:$source,
                       Variadic<Index>:$offsets, UnitAttr:$halves);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = [{
    ($kind^)? $source `[` $offsets `]` (`halves` $halves^)? attr-dict `:` type($source) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Tile_TakeRowsOp : Tile_Op<"take_rows", [Pure]> {
  let summary = "Rows of a matrix at an index, as a matrix";
  let description = [{
    Row i of the result is row `index[i]` of the source. The result has as many rows as the index has elements. Nothing is
    copied: an op that reads or writes a window of the result first reads the elements of the index for the window's rows.
    If the source has no row `index[i]`, row i is read as zeros, and is not stored. If rows are stored, their elements of
    the index must be different, because two stores to one row are a race.

    ```mlir
    %rows = tile.take_rows %a at %index : memref<40x64xbf16, strided<[?, 1]>>, memref<?xi32> to memref<?x64xbf16, strided<[?, 1]>>
    tile.store %acc into %rows[%m, %n] { … } : !tile.tile<128x64xf32>, memref<?x64xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, MemRefRankOf<[I32], [1]>:$index);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$source `at` $index attr-dict `:` type($source) `,` type($index) `to` type($result)";
  let hasVerifier = 1;
}

def Tile_MatrixExtentOp : Tile_Op<"matrix_extent"> {
  let summary = "The rows or the columns of one matrix of a list";
  let description = [{
    Reads the table of the list. Returns the number of rows (`dim 0`) or columns (`dim 1`) of matrix `number`, or that of
    the list if it is smaller.

    ```mlir
    %k = tile.matrix_extent %A[%batch] dim 1 : memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[AnyType], [3]>, "list", [MemRead]>:$matrices, Index:$number,
                       ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$matrices `[` $number `]` `dim` $dim attr-dict `:` type($matrices)";
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_MATRIX_OPS_TD
