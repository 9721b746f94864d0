// Attributes and types of the sm dialect.
#ifndef LOWTIDE_SM_ATTRS_TD
#define LOWTIDE_SM_ATTRS_TD

include "SmDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Sm_Attr<string className, string keyword> : AttrDef<Sm_Dialect, className> { let mnemonic = keyword; }
class Sm_Type<string className, string keyword> : TypeDef<Sm_Dialect, className> { let mnemonic = keyword; }

def Sm_TiledMmaAttr : Sm_Attr<"TiledMma", "tiled_mma"> {
  let summary = "An mma atom, repeated over warps and over values";
  let description = [{
    `atoms` is the number of atoms along M, N and K; each runs on its own warp, with M varying fastest. `permutation`
    is optional. For each of M, N and K it is either the extent of one step of the tiled mma, or a layout that permutes
    its coordinates. This is CuTe's TiledMMA.

    ```mlir
    #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [32, 32, 16]>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$atom, "::mlir::DenseI64ArrayAttr":$atoms,
                        OptionalParameter<"::lowtide::tile::LayoutAttr">:$order,
                        OptionalParameter<"::mlir::Attribute">:$permutation);
  let assemblyFormat = [{
    `<` custom<AtomName>($atom) `,` `atoms` $atoms (`order` qualified($order)^)? (`,` `permutation` custom<Permutation>($permutation)^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Sm_TiledCopyAttr : Sm_Attr<"TiledCopy", "tiled_copy"> {
  let summary = "A copy atom, and which thread copies which elements of the tile";
  let description = [{
    The thread-value layout covers the whole tile. The values of a thread form runs, and one atom copies one run.

    ```mlir
    #sm.tiled_copy<cp.async.16, #tile.tv<threads (4,32):(1024,1), values (8,4):(128,32)>>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$atom, "::lowtide::tile::ThreadValueAttr":$tv);
  let assemblyFormat = "`<` custom<AtomName>($atom) `,` qualified($tv) `>`";
}

def Sm_ClusterLine : I32EnumAttr<"ClusterLine", "CTAs of a cluster, seen from one of them", [
    I32EnumAttrCase<"row", 0>, I32EnumAttrCase<"column", 1>, I32EnumAttrCase<"cross", 2>]> {
  let cppNamespace = "::lowtide::sm";
}

def Sm_SlotUse : I32EnumAttr<"SlotUse", "what a slot of a ring may be used for", [
    I32EnumAttrCase<"write", 0>, I32EnumAttrCase<"read", 1>]> {
  let cppNamespace = "::lowtide::sm";
}

def Sm_RingType : Sm_Type<"Ring", "ring"> {
  let summary = "A ring of stages in shared memory: each slot holds one buffer of every type listed";
  let description = [{
    ```mlir
    !sm.ring<3 x [memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>,
                  memref<256x32xbf16, #layout1, #gpu.address_space<workgroup>>]>
    ```
  }];
  let parameters = (ins "int64_t":$stages, ArrayRefParameter<"::mlir::Type">:$buffers);
  let assemblyFormat = "`<` $stages `x` ` ` `[` $buffers `]` `>`";
  let genVerifyDecl = 1;
}

def Sm_SlotType : Sm_Type<"Slot", "slot"> {
  let summary = "The right to write, or to read, one slot of a ring";
  let description = [{
    `producer_acquire` returns a `write` slot, which `producer_commit` consumes. `consumer_wait` returns a `read` slot,
    which `consumer_release` consumes.

    ```mlir
    !sm.slot<write>
    ```
  }];
  let parameters = (ins EnumParameter<Sm_SlotUse>:$use);
  let assemblyFormat = "`<` $use `>`";
}

def Sm_FragmentType : Sm_Type<"Fragment", "fragment"> {
  let summary = "A tile held in registers, each thread's part given by a thread-value layout";
  let description = [{
    ```mlir
    !sm.fragment<128x16xbf16, #tile.tv<threads (4,8,2,2):(256,1,16,0), values ((2,2,2),4):((128,8,1024),32)>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::lowtide::tile::ThreadValueAttr":$tv);
  let assemblyFormat = "`<` custom<ShapedElement>($shape, $elementType) `,` qualified($tv) `>`";
  let genVerifyDecl = 1;
}

def Sm_PendingType : Sm_Type<"Pending", "pending"> {
  let summary = "A fragment that an asynchronous mma is still writing";
  let description = [{
    It has one user: another `sm.wgmma`, as its accumulator, a loop that carries it, or `sm.mma_wait`, which makes it
    readable.

    ```mlir
    !sm.pending<!sm.fragment<128x256xf32, #tv>>
    ```
  }];
  let parameters = (ins "::lowtide::sm::FragmentType":$fragment);
  let assemblyFormat = "`<` qualified($fragment) `>`";
}

def Sm_RetiredType : Sm_Type<"Retired", "retired"> {
  let summary = "The proof that the asynchronous reads of a slot are over";
  let description = [{
    ```mlir
    !sm.retired
    ```
  }];
}

def Sm_TensorMapType : Sm_Type<"TensorMap", "tensor_map"> {
  let summary = "A tensor map: how the TMA unit finds boxes of a matrix, and how it lays them out in shared memory";
  let description = [{
    The type has the shape and element type of one box, as stored in global memory, and its swizzle in shared memory.
    With two dimensions, a box is a window of the matrix. With three to five dimensions, an R×C matrix is viewed as
    C/w × R × w panels, where w is the last dimension of the box and divides C, and one box holds several panels. The
    dimensions before the panels are 1.

    ```mlir
    !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
    !sm.tensor_map<4x64x64xbf16, swizzle<3,3,3>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        OptionalParameter<"::lowtide::tile::SwizzleAttr">:$swizzle);
  let assemblyFormat = [{
    `<` custom<ShapedElement>($shape, $elementType) (`,` `swizzle` `` custom<BareSwizzle>($swizzle)^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Sm_MbarriersType : Sm_Type<"Mbarriers", "mbarriers"> {
  let summary = "An array of mbarrier objects in shared memory, one for each slot of a ring";
  let description = [{
    ```mlir
    !sm.mbarriers<4>
    ```
  }];
  let parameters = (ins "int64_t":$count);
  let assemblyFormat = "`<` $count `>`";
  let genVerifyDecl = 1;
}

#endif // LOWTIDE_SM_ATTRS_TD
