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

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

// Its region's arguments have names of their own in dumps.
def Tile_NamesArguments : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>;

def Tile_OutputMemRef : Arg<AnyMemRef, "matrix written", [MemWrite]>;
def Tile_InputMemRef : Arg<AnyMemRef, "matrix read", [MemRead]>;

//===--- the problem --------------------------------------------------------------------------------------------===//

def Tile_GemmOp : Tile_Op<"gemm", [SingleBlock, Tile_NamesArguments]> {
  let summary = "D = epilogue(A · B, operands…) on whole matrices";
  let description = [{
    The problem, and nothing about how it is solved. `layout` says how A and B lie in memory (last dimension
    contiguous): `tn` A (M,K), B (N,K); `tt` A (M,K), B (K,N); `nn` A (K,M), B (N,K); `nt` A (K,M), B (K,N). D is
    (M,N). Products are summed in the accumulator's type. The region computes one element of D from the accumulator and
    one element of each operand: `full` has one for each element of D, `per_row` and `per_column` are vectors of M and
    N, `scalar` is one run-time value.

    ```mlir
    tile.gemm tn %a, %b into %d acc(f32) operands(per_column %bias : memref<?xbf16>)
        schedule(#tile.schedule<cta = [128, 128, 32]>) {
    ^bb0(%x: f32, %bias_n: bf16):
      %0 = arith.extf %bias_n : bf16 to f32
      %1 = arith.addf %x, %0 : f32
      %2 = arith.truncf %1 : f32 to bf16
      tile.yield %2 : bf16
    } : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout, Tile_InputMemRef:$a, Tile_InputMemRef:$b, Tile_OutputMemRef:$d,
                       TypeAttr:$acc, Variadic<AnyType>:$epilogue_operands, DefaultValuedAttr<I32ArrayAttr, "{}">:$kinds,
                       OptionalAttr<Tile_ScheduleAttr>:$schedule);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    $layout $a `,` $b `into` $d `acc` `(` $acc `)`
    (`operands` `(` custom<KindedOperands>($epilogue_operands, type($epilogue_operands), $kinds)^ `)`)?
    (`schedule` `(` $schedule^ `)`)? $epilogue attr-dict `:` type($a) `,` type($b) `,` type($d)
  }];
  let hasVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends an epilogue region with its element, or the body of tile.work_tiles";
  let description = [{
    ```mlir
    tile.yield %y : bf16
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===--- host side ----------------------------------------------------------------------------------------------===//

def Tile_SmCountOp : Tile_Op<"sm_count", [Pure]> {
  let summary = "How many streaming multiprocessors the launch may use";
  let description = [{
    A launch value: the GPU's count, or what the interpreter is told (`sms=`).

    ```mlir
    %sms = tile.sm_count : index
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_LaunchOp : Tile_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Launches a kernel on a grid of CTAs";
  let description = [{
    `threads` is the CTA's size; `shared_memory` its dynamic shared memory in bytes, known once shared memory is laid
    out (level `epilogue`).

    ```mlir
    tile.launch @gemm_kernel grid(%ctas) threads(128) shared_memory(49152) args(%a, %b, %d)
        : memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Index:$grid, I64Attr:$threads, OptionalAttr<I64Attr>:$shared_memory,
                       Variadic<AnyType>:$args);
  let assemblyFormat = [{
    $kernel `grid` `(` $grid `)` `threads` `(` $threads `)` (`shared_memory` `(` $shared_memory^ `)`)?
    `args` `(` $args `)` attr-dict (`:` type($args)^)?
  }];
}

//===--- the kernel ---------------------------------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, SingleBlock, Tile_NamesArguments,
    HasParent<"::mlir::ModuleOp">]> {
  let summary = "A device kernel, as one CTA sees it";
  let description = [{
    Carries its `schedule` and, once known, the CTA's `threads`.

    ```mlir
    tile.kernel @gemm_kernel(%a: memref<?x?xbf16, strided<[?, 1]>>) attributes {schedule = #tile.schedule<stages = 3>} {
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
  let summary = "Ends a kernel";
  let description = [{
    ```mlir
    tile.return
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_WorkTilesOp : Tile_Op<"work_tiles", [SingleBlock, RecursiveMemoryEffects, Tile_NamesArguments]> {
  let summary = "Runs its body for each work tile of this CTA";
  let description = [{
    Cuts the `rows`×`columns` extent into tiles of `tile`, orders them by `order` and hands them to the CTAs of the
    launch: with `one_shot` CTA i computes tile i; with `persistent` CTA i computes tiles i, i + CTAs, …; with
    `even_split` each CTA computes a run of neighbouring tiles, the first tiles mod CTAs of them one more than the
    others. The body's arguments are the tile's first row and first column, then what is carried from tile to tile, as
    in scf.for. The last tiles may reach past the extent.

    ```mlir
    tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] order(<grouped 16>) persistent {
      …
    }
    %s = tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] order(<row>) persistent iter_args(%slot = %c0) -> (index) {
      …
      tile.yield %next : index
    }
    ```
  }];
  let arguments = (ins Index:$rows, Index:$columns, Variadic<AnyType>:$inits, DenseI64ArrayAttr:$tile,
                       Tile_RasterAttr:$order, Tile_SchedulerKind:$scheduler);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "A CTA-wide tile with the same value everywhere";
  let description = [{
    ```mlir
    %zero = tile.splat 0.0 : !tile.tile<128x256xf32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($result))";
}

def Tile_ViewOp : Tile_Op<"view", [Pure]> {
  let summary = "A window of a matrix (or of a vector, broadcast) in global memory";
  let description = [{
    The window starts at the offsets given and has the result's shape; it is clipped at the extents. A vector gives a
    window that repeats it: `kind` `per_row` has one element for each row of the window, `per_column` one for each column.

    ```mlir
    %at = tile.view %a[%m, %k] : memref<?x?xbf16, strided<[?, 1]>> to !tile.view<128x64xbf16>
    %bt = tile.view per_column %bias[%n] : memref<?xf32> to !tile.view<128x64xf32>
    ```
  }];
  let arguments = (ins OptionalAttr<Tile_OperandKind>:$kind, AnyMemRef:$source,
                       Variadic<Index>:$offsets);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = [{
    ($kind^)? $source `[` $offsets `]` attr-dict `:` type($source) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Tile_MmaOp : Tile_Op<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + A · B on CTA tiles";
  let description = [{
    A and B are windows in global memory or buffers in shared memory, as the layout letters say they lie; the
    accumulator is a CTA-wide value.

    ```mlir
    %c2 = tile.mma tn %a, %b, %c : !tile.view<128x64xbf16>, !tile.view<256x64xbf16>, !tile.tile<128x256xf32>
    ```
  }];
  let arguments = (ins Tile_GemmLayout:$layout,
                       Arg<AnyTypeOf<[Tile_ViewType, AnyMemRef]>, "A", [MemRead]>:$a,
                       Arg<AnyTypeOf<[Tile_ViewType, AnyMemRef]>, "B", [MemRead]>:$b, Tile_TileType:$acc);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$layout $a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` qualified(type($acc))";
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [SingleBlock, Tile_NamesArguments]> {
  let summary = "Applies the epilogue to an accumulator and writes it into D";
  let description = [{
    The window of D starts at the offsets, has the accumulator's shape and is clipped at D's edge. The region is that of
    `tile.gemm`. The accumulator is a CTA-wide tile, from level `atoms` on a fragment.

    ```mlir
    tile.store %acc into %d[%m, %n] operands(per_column %bias : memref<?xbf16>) {
    ^bb0(%x: f32, %bias_n: bf16):
      …
      tile.yield %y : bf16
    } : !tile.tile<128x256xf32>, memref<?x?xbf16, strided<[?, 1]>>
    ```
  }];
  let arguments = (ins AnyType:$value, Tile_OutputMemRef:$d, Index:$row, Index:$column, Variadic<AnyType>:$epilogue_operands,
                       DefaultValuedAttr<I32ArrayAttr, "{}">:$kinds);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    $value `into` $d `[` $row `,` $column `]`
    (`operands` `(` custom<KindedOperands>($epilogue_operands, type($epilogue_operands), $kinds)^ `)`)?
    $epilogue attr-dict `:` type($value) `,` type($d)
  }];
  let hasVerifier = 1;
}

#endif // LOWTIDE_TILE_OPS_TD
