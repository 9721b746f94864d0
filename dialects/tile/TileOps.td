// Operations of the tile dialect.
#ifndef LOWTIDE_TILE_OPS_TD
#define LOWTIDE_TILE_OPS_TD

include "TileAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Without default builders, as in sm: C++ builds only `tile.yield`.
class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits> {
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins), [{ }]>];
}

// Names the arguments of the region in dumps.
def Tile_NamesArguments : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>;

def Tile_OutputMemRef : Arg<AnyMemRef, "matrix written", [MemWrite]>;
def Tile_Results : Arg<Variadic<AnyMemRef>, "results, which are written", [MemWrite]>;
def Tile_InputMemRef : Arg<AnyMemRef, "matrix read", [MemRead]>;

//===--- the problem --------------------------------------------------------------------------------------------===//

def Tile_GemmOp : Tile_Op<"gemm", [AttrSizedOperandSegments, SingleBlock, Tile_NamesArguments]> {
  let summary = "Results = epilogue(A · B, operands…) on whole matrices";
  let description = [{
    Describes the problem, not how it is solved. `layout` specifies how A and B are stored (the last dimension is
    contiguous): `tn` A (M,K), B (N,K); `tt` A (M,K), B (K,N); `nn` A (K,M), B (N,K); `nt` A (K,M), B (K,N). D is (M,N).
    Products are summed in the accumulator's type; with `fast`, sums may have the lower precision of mma instructions.
    `by` names a sum of products of narrower pieces that computes A · B. If A and B have the type of the pieces, they
    are the pieces, which `tile.pack` made.

    The op writes its results. The region computes one element of each result, in order, from the accumulator and one
    element of each operand. A `full` result, such as D, has one element per element of A · B. Full results may have
    different element types; all have the same layout. An `amax` result is one f32: the largest absolute value of the
    values that the region yields for it, NaN if any of them is NaN, and 0 if there are none.

    A reduction has elements of f32. `row_…` has one for each row, `column_…` one for each column, and `all_…` one in
    total; in a batch, `row_…` and `column_…` have one for each row or column of each product. `sum`, `max`, `min` and
    `logsumexp` reduce the values that the region yields. For no values, the results are 0, −inf, inf and −inf. If a value
    is NaN, the result is NaN. A `row_value` is the value in the column that the row's element of the `target` operand names, and 0 if there is
    no such column; a `column_value` is the value in the row that the column's element names. The `target` operand is a
    vector of i32, and has no argument in the region. A gemm may have no full result; then M and N are those of A and B.

    A `full` operand has one element per element of D, `per_row` and `per_column` operands are vectors of length M and
    N, and a `scalar` operand is one run-time value. A full operand may be a full result: all of it is read before any
    of that result is written.

    Block scales come last, one operand for rows and one for columns, and are not passed to the region. The products of
    each 128 of K are summed separately, and their sum is multiplied by the scales of its row and of its column. A
    `row_scale` is a matrix (K / 128, M), a `column_scale` (K / 128, N). In a `row_block_scale` (M / 128, K / 128) and a
    `column_block_scale` (N / 128, K / 128), 128 rows or columns share an element. All quotients are rounded up.

    D and its full operands are all row-major (`strided<[?, 1]>`) or all column-major (`strided<[1, ?]>`), also in a
    batch (`strided<[?, 1, ?]>`). A `swapped` product is the result of `swap-operands` on another one, Dᵀ = Bᵀ · Aᵀ: its
    A and B are the second and the first argument of the function.

    With packed `weights`, B is bytes in the order of `lt.pack_weights` (docs/weights.md), N×K for 8 bits, or N/2×K with
    two weights of 4 bits each. They are converted exactly to A's type. The sum over each group of `group` elements of K
    is scaled by the `group_scale` operand, K/group×N. With a `group_zero` operand, K/group×N of 8 bits, the zero point
    of a group is subtracted from its weights; only as many of its bits count as a weight has. Neither operand has an
    argument in the region.

    With an `ends` operand, a vector of i32 on the device, the rows are grouped. Group g has the rows of A and D from
    `ends[g - 1]`, or 0, up to `ends[g]`, and is multiplied by matrix g of B, which has three dimensions, the group
    first. An end is clamped to [the end before, M]. Rows after the last end are not written. The operand has no argument
    in the region. A `per_column` operand may have one more dimension, the first: a vector of length N for each group.
    If A and D have three dimensions as well, the groups are padded: group g has the first rows of matrix g of A and D,
    up to `ends[g]`, clamped to [0, M], and the other rows of D are not written. Operands of the epilogue are then those
    of a batch.

    With an `a_rows` operand, a vector of i32 of length M on the device, row m of the product is computed from row
    `a_rows[m]` of A, or from zeros if A has no such row. A then has any number of rows. The operand has no argument in the
    region.

    With a `d_rows` operand, a vector of i32 of length M on the device, row m of the product is stored into row
    `d_rows[m]` of each full result, or nowhere if the result has no such row. Full results then have any number of rows.
    Their other rows are not written. Elements that name a row of the results must be different. Operands and reductions
    of rows have M elements, in the order of the product's rows. The operand has no argument in the region.

    If D has three dimensions and A and B have two, K is grouped instead: matrix g of D is the product over the range of
    K from `ends[g - 1]`, or 0, up to `ends[g]`. For an empty range it is 0. `ends[g - 1]` is clamped to [0, K], and then
    `ends[g]` to [`ends[g - 1]`, K]. The layout is `nt`, so that a group consists of rows of A and B; with block scales it
    may also be `tn`. Operands of the epilogue are those of a batch with a product for each group.

    With the operands `arrived`, `turn` and `status`, vectors of i32 on the device, the matrices of A are shards that
    other GPUs fill while the kernel runs. `turn` has the rank of this GPU, the epoch of this product, and the longest wait
    for a shard in ms. Matrix r of A is complete once `arrived[r]` − epoch, in 32 bits, is not negative. Work begins with
    the product of shard `turn[0]`, and goes on with those of the next shards; shard 0 follows the last one. If a wait takes
    longer and `status[0]` is 0, `status` becomes 1, the shard, the number read in `arrived`, and the epoch. Elements of
    the results that are not stored by then are not written. The operands have no arguments in the region.

    With the operands `peers` and `sent` beside these three, the kernel can also send shard `turn[0]` to other GPUs, before
    it multiplies (`tile.send_shard`). It does so if the schedule has `sender = kernel` in its grid.

    In a batch, A, B and D have three dimensions. The first is the batch, with one matrix for each product. An operand
    of the epilogue may have it too; an operand without it is shared.

    With `pairs`, B has twice the columns of D: two columns belong to each column of D, and the region takes the
    accumulators of both, in this order. Column n of D has the columns n and N + n of B, or with `interleaved` 2·n and
    2·n + 1. Without groups and batches, B may have three dimensions, two matrices with N columns each.

    ```mlir
    tile.gemm tn %a, %b into %d acc(f32) operands(per_column %bias : memref<?xbf16>)
        schedule(#tile.schedule<mainloop = <k = 32, stages = 3>>) {
    ^bb0(%x: f32, %bias_n: bf16):
      %0 = arith.extf %bias_n : bf16 to f32
      %1 = arith.addf %x, %0 : f32
      %2 = arith.truncf %1 : f32 to bf16
      tile.yield %2 : bf16
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm tn %a, %b into (%d, amax %amax) acc(f32) {
    ^bb0(%x: f32):
      %0 = arith.truncf %x : f32 to bf16
      tile.yield %0, %x : bf16, f32
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>,
        memref<1xf32>
    tile.gemm tn %a, %b into %d acc(f32) weights(si4) group(128)
        operands(group_scale %scales : memref<?x?xbf16, strided<[?, 1]>>) {
      …
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xui8, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) operands(row_scale %sa : memref<?x?xf32, strided<[?, 1]>>,
        column_block_scale %sb : memref<?x?xf32, strided<[?, 1]>>) {
    ^bb0(%x: f32):
      …
    } : memref<?x?xf8E4M3FN, strided<[?, 1]>>, memref<?x?xf8E4M3FN, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<64xi32>) {
      …
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<64x?x?xbf16, strided<[?, ?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<64xi32>) {
      …
    } : memref<64x?x?xbf16, strided<[?, ?, 1]>>, memref<64x?x?xbf16, strided<[?, ?, 1]>>,
        memref<64x?x?xbf16, strided<[?, ?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) operands(ends %ends : memref<64xi32>, a_rows %index : memref<?xi32>) {
      …
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<64x?x?xbf16, strided<[?, ?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) operands(d_rows %places : memref<?xi32>) {
      …
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm nt %a, %b into %d acc(f32) operands(ends %ends : memref<64xi32>) {
      …
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<64x?x?xf32, strided<[?, ?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) operands(arrived %arrived : memref<8xi32>, turn %turn : memref<3xi32>,
        status %status : memref<4xi32>) {
      …
    } : memref<8x?x?xbf16, strided<[?, ?, 1]>>, memref<8x?x?xbf16, strided<[?, ?, 1]>>,
        memref<8x?x?xbf16, strided<[?, ?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) pairs {
    ^bb0(%gate: f32, %up: f32):
      …
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.gemm tn %a, %b into %d acc(f32) {
      …
    } : memref<64x?x?xbf16, strided<[?, ?, 1]>>, memref<64x?x?xbf16, strided<[?, ?, 1]>>,
        memref<64x?x?xbf16, strided<[?, ?, 1]>>
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout, Tile_InputMemRef:$a, Tile_InputMemRef:$b, Tile_Results:$outs,
                       I32ArrayAttr:$out_kinds, TypeAttr:$acc, Variadic<AnyType>:$epilogue_operands, DefaultValuedAttr<I32ArrayAttr, "{}">:$kinds,
                       OptionalAttr<Tile_ScheduleAttr>:$schedule, UnitAttr:$swapped, UnitAttr:$fast,
                       UnitAttr:$pairs, UnitAttr:$interleaved, OptionalAttr<TypeAttr>:$weights, OptionalAttr<I64Attr>:$group,
                       OptionalAttr<Tile_Precision>:$precision);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    $layout $a `,` $b `into` custom<Results>($outs, $out_kinds) (`swapped` $swapped^)?
    `acc` `(` $acc (`fast` $fast^)? (`by` $precision^)? `)` (`pairs` $pairs^ (`interleaved` $interleaved^)?)?
    (`weights` `(` $weights^ `)`)? (`group` `(` $group^ `)`)?
    (`operands` `(` custom<KindedOperands>($epilogue_operands, type($epilogue_operands), $kinds)^ `)`)?
    (`schedule` `(` $schedule^ `)`)? $epilogue attr-dict `:` type($a) `,` type($b) `,`
    custom<ResultTypes>(type($outs))
  }];
  let hasVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Terminates an epilogue region, with the elements of the results, or the body of tile.work_tiles";
  let description = [{
    ```mlir
    tile.yield %y : bf16
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let skipDefaultBuilders = 0;
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===--- the kernel ---------------------------------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, SingleBlock, Tile_NamesArguments,
    HasParent<"::mlir::ModuleOp">]> {
  let summary = "A device kernel: the program of one CTA";
  let description = [{
    Has the attribute `schedule` and, once it is known, `threads` (the number of threads per CTA).

    ```mlir
    tile.kernel @gemm_kernel(%a: memref<?x?xbf16, strided<[?, 1]>>) attributes {schedule = #tile.schedule<mainloop = <stages = 3>>} {
      tile.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "Terminates a kernel";
  let description = [{
    ```mlir
    tile.return
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_GridDependencyWaitOp : Tile_Op<"grid_dependency_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until the kernels before this one in the stream have ended and their writes are visible";
  let description = [{
    A kernel whose launch is `programmatic` accesses global memory only after it. Lowers to griddepcontrol.wait (PTX ISA,
    "griddepcontrol").

    ```mlir
    tile.grid_dependency_wait
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_LaunchDependentsOp : Tile_Op<"launch_dependents", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Allows the next kernel of the stream to start once all CTAs have executed this op or have ended";
  let description = [{
    Only a kernel with a `programmatic` launch starts early; any other starts after this kernel has ended. Lowers to
    griddepcontrol.launch_dependents (PTX ISA, "griddepcontrol").

    ```mlir
    tile.launch_dependents
    ```
  }];
  let assemblyFormat = "attr-dict";
}

// These use the classes above.
include "TilePrepareOps.td"
include "TileWorkOps.td"
include "TileArrivalOps.td"
include "TileMatrixOps.td"

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "A CTA-wide tile with the same value in every element";
  let description = [{
    ```mlir
    %zero = tile.splat 0.0 : !tile.tile<128x256xf32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($result))";
}

def Tile_MmaOp : Tile_Op<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + A · B on CTA tiles";
  let description = [{
    A and B are windows of global memory or buffers in shared memory, stored as the layout letters specify. The
    accumulator is a CTA-wide value. With packed `weights`, B is a window of their bytes, which are converted to A's
    type. `less` subtracts a zero point for each row of B, from a window of a vector. If the operands are swapped, the
    weights are A.

    ```mlir
    %c2 = tile.mma tn %a, %b, %c : !tile.view<128x64xbf16>, !tile.view<256x64xbf16>, !tile.tile<128x256xf32>
    %c3 = tile.mma tn %a, %w weights(si4), %c : !tile.view<16x128xbf16>, !tile.view<64x128xui8>, !tile.tile<16x128xf32>
    %c4 = tile.mma tn %a, %w weights(ui4 less %z : !tile.view<128x128xui8>), %c : !tile.view<16x128xbf16>,
        !tile.view<64x128xui8>, !tile.tile<16x128xf32>
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout,
                       Arg<AnyTypeOf<[Tile_ViewType, AnyMemRef]>, "A", [MemRead]>:$a,
                       Arg<AnyTypeOf<[Tile_ViewType, AnyMemRef]>, "B", [MemRead]>:$b, Tile_TileType:$acc,
                       OptionalAttr<TypeAttr>:$weights, Arg<Optional<Tile_ViewType>, "zero points", [MemRead]>:$zeros);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $layout $a `,` $b (`weights` `(` $weights^ (`less` $zeros^ `:` qualified(type($zeros)))? `)`)? `,` $acc attr-dict `:`
    type($a) `,` type($b) `,` qualified(type($acc))
  }];
  let hasVerifier = 1;
}

def Tile_PromoteOp : Tile_Op<"promote", [AttrSizedOperandSegments,
    AllTypesMatch<["partial", "sum", "result"]>]> {
  let summary = "sum + partial, or sum + partial · scale, in the accumulators' type";
  let description = [{
    Adds the sum of one K step to the sum of the steps before, elementwise. This keeps sums short that mma instructions
    compute with less precision than their type has, such as those of 8-bit floats. A `scaled` sum is multiplied by a
    window of factors, converted to the accumulators' type, and rounded once.

    In a `block_scaled` sum, each element is multiplied by the block scales of its row and of its column. Their product
    is rounded, and the fused multiply-add rounds once more.

    ```mlir
    %partial = tile.mma tn %a, %b, %zero : !tile.view<128x128xf8E4M3FN>, !tile.view<192x128xf8E4M3FN>, !tile.tile<128x192xf32>
    %sum = tile.promote %partial into %acc : !tile.tile<128x192xf32>
    %s = tile.view per_column %scales[%g, %n] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<16x128xbf16>
    %sum2 = tile.promote %partial2 into %acc2 scaled(%s : !tile.view<16x128xbf16>) : !tile.tile<16x128xf32>
    %sum3 = tile.promote %partial into %acc block_scaled(%sa : !tile.view<128x192xf32>, %sb : !tile.view<128x192xf32>)
        : !tile.tile<128x192xf32>
    ```
  }];
  let arguments = (ins Tile_TileType:$partial, Tile_TileType:$sum,
                       Arg<Optional<Tile_ViewType>, "factors", [MemRead]>:$scale,
                       Arg<Optional<Tile_ViewType>, "scales of rows", [MemRead]>:$rows,
                       Arg<Optional<Tile_ViewType>, "scales of columns", [MemRead]>:$columns);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $partial `into` $sum (`scaled` `(` $scale^ `:` qualified(type($scale)) `)`)?
    (`block_scaled` `(` $rows^ `:` qualified(type($rows)) `,` $columns `:` qualified(type($columns)) `)`)? attr-dict `:`
    qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [AttrSizedOperandSegments, SingleBlock, Tile_NamesArguments]> {
  let summary = "Applies the epilogue to an accumulator and writes the results";
  let description = [{
    The windows of the full results start at the given offsets, have the accumulator's shape, and are clipped at the
    edges of the matrices. In a batch, the index of the matrix comes first. The region is the same as in `tile.gemm`.
    The accumulator is a CTA-wide tile, or a fragment from level `atoms` on. Operands are read before results are
    written, within the window, so that a full operand may be a full result. An `amax` is raised to the largest absolute
    value of the values that the region yields for it, for the window's elements inside the matrices; the host sets it
    to zero before the launch (`tile.prepare`).

    With `pairs`, the accumulator is twice as wide as the windows. The region takes two elements of each of its rows: one
    of the first half of its columns, and the one at the same place in the second half.

    The memref of a reduction holds partial results: (partials, M) for `row_…`, (partials, N) for `column_…`, after the
    batch if there is one. The elements of the window are divided among the partial results of its tile, in any way; a
    partial result without elements is the reduction of no values. The tiles of M × N, in the order of columns for `row_…` and of
    rows for `column_…`, have the same number of partial results each. Those of a `logsumexp` have two rows, a maximum and
    a sum (`tile.finish`). An `absent` result is not written, and the region yields no value for it.

    With `part`, the accumulator is the sum over one range of K only, and the sum of all parts of the tile is stored.
    `divide-k` replaces this form with ops that exchange partial sums.

    ```mlir
    tile.store %acc into %d[%m, %n] operands(per_column %bias : memref<?xbf16>) {
    ^bb0(%x: f32, %bias_n: bf16):
      …
      tile.yield %y : bf16
    } : !tile.tile<128x256xf32>, memref<?x?xbf16, strided<[?, 1]>>
    tile.store %acc into (%d, %pre)[%m, %n] {
    ^bb0(%x: f32):
      …
      tile.yield %y, %z : bf16, bf16
    } : !tile.tile<128x256xf32>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    tile.store %acc pairs into %d[%m, %n] {
    ^bb0(%gate: f32, %up: f32):
      …
      tile.yield %y : bf16
    } : !tile.tile<128x256xf32>, memref<?x?xbf16, strided<[?, 1]>>
    tile.store %acc part (%part of %parts at %slot) into %d[%m, %n] { … } : …
    ```
  }];
  let arguments = (ins AnyType:$value, UnitAttr:$pairs, Optional<Index>:$part, Optional<Index>:$parts,
                       Optional<Index>:$slot,
                       Tile_Results:$outs, I32ArrayAttr:$out_kinds, Optional<Index>:$batch, Index:$row, Index:$column,
                       Variadic<AnyType>:$epilogue_operands,
                       DefaultValuedAttr<I32ArrayAttr, "{}">:$kinds);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    $value (`pairs` $pairs^)? (`part` `(` $part^ `of` $parts `at` $slot `)`)? `into` custom<Results>($outs, $out_kinds) `[`
    custom<Place>($batch, $row, $column) `]`
    (`operands` `(` custom<KindedOperands>($epilogue_operands, type($epilogue_operands), $kinds)^ `)`)?
    $epilogue attr-dict `:` type($value) `,` custom<ResultTypes>(type($outs))
  }];
  let hasVerifier = 1;
}

// These use the classes above.
include "TileHostOps.td"
include "TileDivisionOps.td"

#endif // LOWTIDE_TILE_OPS_TD
