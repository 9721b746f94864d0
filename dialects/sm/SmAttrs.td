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
  let genMnemonicAlias = 1;
  let parameters = (ins "::mlir::StringAttr":$atom, "::mlir::DenseI64ArrayAttr":$atoms,
                        OptionalParameter<"::mlir::Attribute">:$permutation,
                        OptionalParameter<"::lowtide::tile::LayoutAttr">:$order);
  let assemblyFormat = [{
    `<` custom<AtomName>($atom) `,` `atoms` $atoms (`order` qualified($order)^)? (`,` `permutation` custom<Permutation>($permutation)^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Sm_TiledCopyAttr : Sm_Attr<"TiledCopy", "tiled_copy"> {
  let summary = "A copy atom, and the elements of the tile that each thread copies";
  let description = [{
    The thread-value layout covers the whole tile. The values of a thread form runs, and one atom copies one run.

    ```mlir
    #sm.tiled_copy<cp.async.16, #tile.tv<threads (4,32):(1024,1), values (8,4):(128,32)>>
    ```
  }];
  let genMnemonicAlias = 1;
  let parameters = (ins "::mlir::StringAttr":$atom, "::lowtide::tile::ThreadValueAttr":$tv);
  let assemblyFormat = "`<` custom<AtomName>($atom) `,` qualified($tv) `>`";
}

class Sm_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::lowtide::sm";
}

def Sm_StoreStart : Sm_Enum<"StoreStart", "when the stores of a tile of D start", [
    I32EnumAttrCase<"all_sums", 0>, I32EnumAttrCase<"first_rows", 1>, I32EnumAttrCase<"next_tile", 2>]>;

def Sm_CopyIssue : Sm_Enum<"CopyIssue", "where a K step issues the copies of a later step", [
    I32EnumAttrCase<"at_head", 0>, I32EnumAttrCase<"spread", 1>]>;

def Sm_SlotRead : Sm_Enum<"SlotRead", "when a K step waits for its slot and reads scales and descriptors", [
    I32EnumAttrCase<"in_step", 0>, I32EnumAttrCase<"step_before", 1>]>;

def Sm_StepForm : Sm_Enum<"StepForm", "whether the steps of a loop are unrolled", [
    I32EnumAttrCase<"rolled", 0>, I32EnumAttrCase<"unrolled", 1>]>;

class Sm_DefaultEnum<EnumAttrInfo enum, string word> : EnumParameter<enum> {
  let defaultValue = enum.cppType # "::" # word;
}

def Sm_TimingAttr : Sm_Attr<"Timing", "timing"> {
  let summary = "Timing of a loop over K: the positions of copies, stores and reads among its products";
  let description = [{
    The attribute `sm.timing` of the `scf.for` that multiplies, from level `pipelined` on. Without it, all fields have
    their defaults.

    | field | value | meaning |
    |---|---|---|
    | `stores` | `all_sums`, `first_rows`, `next_tile` | a tile of D is stored when all its sums are complete; its first part is stored as soon as the sums of its first rows are complete; or it is stored among the products of the CTA's next tile |
    | `copies` | `at_head`, `spread` | a step issues the copies of a later step all at once, before its products; or one by one, each after the fragment loads of a k-slice |
    | `slot` | `in_step`, `step_before` | a step waits for its slot, and reads scales and matrix descriptors, before its own products; or while the products of the previous step are in flight |
    | `steps` | `rolled`, `unrolled` | the loop is kept, or unrolled |

    ```mlir
    scf.for %k = %c0 to %c4 step %c1 {
    } {sm.timing = #sm.timing<stores = next_tile, copies = spread, steps = unrolled>}
    ```
  }];
  let parameters = (ins Sm_DefaultEnum<Sm_StoreStart, "all_sums">:$stores, Sm_DefaultEnum<Sm_CopyIssue, "at_head">:$copies,
                        Sm_DefaultEnum<Sm_SlotRead, "in_step">:$slot, Sm_DefaultEnum<Sm_StepForm, "rolled">:$steps);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Sm_ClusterLine : Sm_Enum<"ClusterLine", "CTAs of a cluster, relative to one of them", [
    I32EnumAttrCase<"row", 0>, I32EnumAttrCase<"column", 1>, I32EnumAttrCase<"cross", 2>]>;

def Sm_SlotUse : Sm_Enum<"SlotUse", "the permitted use of a ring slot", [
    I32EnumAttrCase<"write", 0>, I32EnumAttrCase<"read", 1>]>;

def Sm_RingType : Sm_Type<"Ring", "ring"> {
  let summary = "A ring of stages in shared memory: each slot holds one buffer of every type listed";
  let description = [{
    ```mlir
    !sm.ring<3 x [memref<128x32xbf16, #layout, #gpu.address_space<workgroup>>,
                  memref<256x32xbf16, #layout1, #gpu.address_space<workgroup>>]>
    ```
  }];
  let genMnemonicAlias = 1;
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
  let genMnemonicAlias = 1;
  let parameters = (ins "::lowtide::sm::FragmentType":$fragment);
  let assemblyFormat = "`<` qualified($fragment) `>`";
}

def Sm_RetiredType : Sm_Type<"Retired", "retired"> {
  let summary = "A token: the asynchronous reads of a slot are complete";
  let description = [{
    ```mlir
    !sm.retired
    ```
  }];
}

def Sm_TensorMapType : Sm_Type<"TensorMap", "tensor_map"> {
  let summary = "A tensor map: boxes of a matrix for the TMA unit, and their layout in shared memory";
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
