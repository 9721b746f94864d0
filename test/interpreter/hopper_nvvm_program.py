"""A GEMM for sm_90a at level nvvm, D (f32) = A · Bᵀ, written by hand: one producer thread, one consumer warpgroup.

CTA tile 64x16x64, two stages, one tile per CTA, (M, 16). Slot s of A lies at byte 8192 s, of B at 16384 + 2048 s; the
mbarriers of full slots at 20480, those of empty ones at 20496. Tests plant faults by replacing a line (`edited`).
"""

_STRUCT = f"!llvm.struct<({', '.join(['f32'] * 8)})>"
_WGMMA = (
    "%acc{0} = nvvm.wgmma.mma_async %da{0}, %db{0}, %acc{1}, <m = 64, n = 16, k = 16>, D[<f32>, <one>], "
    "A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>] : !acc -> !acc"
)


def _products() -> str:
    """The four k-slices of a slot: descriptors move by 32 bytes."""
    lines = []
    for step in range(4):
        lines += [
            f"%by{step} = arith.constant {2 * step} : i64",
            f"%da{step} = arith.addi %da, %by{step} : i64",
            f"%db{step} = arith.addi %db, %by{step} : i64",
            _WGMMA.format(step, step - 1 if step else "_in"),
        ]
    return "\n          ".join(lines)


def _stores() -> str:
    """Row 16 warp + lane / 4 (+ 8), columns 8 j + 2 (lane % 4) and the next (PTX ISA, wgmma's D)."""
    lines = []
    for register in range(0, 8, 2):
        row = "%row8" if register // 2 % 2 else "%row"
        lines += [
            f"%x{register} = llvm.extractvalue %sum[{register}] : !acc",
            f"%x{register + 1} = llvm.extractvalue %sum[{register + 1}] : !acc",
            f"%pair{register} = vector.from_elements %x{register}, %x{register + 1} : vector<2xf32>",
            f"%to{register} = llvm.getelementptr %d[{row}, {register // 4}, %in_group, 0]"
            " : (!llvm.ptr<1>, i32, i32) -> !llvm.ptr<1>, !llvm.array<2 x array<4 x array<2 x f32>>>",
            f"llvm.store %pair{register}, %to{register} : vector<2xf32>, !llvm.ptr<1>",
        ]
    return "\n        ".join(lines)


_PROGRAM = f"""
!matrix = memref<?x?xbf16, strided<[?, 1]>>
!output = memref<?x16xf32, strided<[16, 1]>>
!map_a = !sm.tensor_map<64x64xbf16, swizzle<3,3,3>>
!map_b = !sm.tensor_map<16x64xbf16, swizzle<3,3,3>>
!acc = {_STRUCT}
module attributes {{tile.level = "nvvm", tile.target = "sm_90a"}} {{
  func.func @gemm(%a: !matrix, %b: !matrix, %d: !output) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %M = memref.dim %a, %c0 : !matrix
    %K = memref.dim %a, %c1 : !matrix
    %tiles = arith.ceildivui %M, %c64 : index
    %steps = arith.ceildivui %K, %c64 : index
    %steps_i = arith.index_cast %steps : index to i32
    %map_a = sm.tensor_map %a : !matrix to !map_a
    %map_b = sm.tensor_map %b : !matrix to !map_b
    %to = memref.extract_aligned_pointer_as_index %d : !output -> index
    tile.launch @kernel grid(%tiles) threads(256) shared_memory(20512) args(%map_a, %map_b, %to, %steps_i)
        : !map_a, !map_b, index, i32
    return
  }}
  gpu.module @kernels {{
    llvm.mlir.global external @smem() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
    gpu.func @kernel(%map_a: !llvm.ptr, %map_b: !llvm.ptr, %d: !llvm.ptr<1>, %steps: i32) kernel
        attributes {{known_block_size = array<i32: 256, 1, 1>, tensor_maps = array<i64: 0, 1>}} {{
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c2 = arith.constant 2 : i32
      %c3 = arith.constant 3 : i32
      %c4 = arith.constant 4 : i32
      %c5 = arith.constant 5 : i32
      %c8 = arith.constant 8 : i32
      %c16 = arith.constant 16 : i32
      %c31 = arith.constant 31 : i32
      %c64 = arith.constant 64 : i32
      %c127 = arith.constant 127 : i32
      %c128 = arith.constant 128 : i32
      %ticks = arith.constant 1000 : i32
      %bytes = arith.constant 10240 : i32
      %tid = nvvm.read.ptx.sreg.tid.x : i32
      %cta = nvvm.read.ptx.sreg.ctaid.x : i32
      %m = arith.muli %cta, %c64 : i32
      %smem = llvm.mlir.addressof @smem : !llvm.ptr<3>
      %smem_b = llvm.getelementptr %smem[16384] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
      %full = llvm.getelementptr %smem[20480] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
      %empty = llvm.getelementptr %smem[20496] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
      %first = arith.cmpi eq, %tid, %c0 : i32
      scf.if %first {{
        %full1 = llvm.getelementptr %full[8] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
        %empty1 = llvm.getelementptr %empty[8] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
        nvvm.mbarrier.init %full, %c1 : !llvm.ptr<3>, i32
        nvvm.mbarrier.init %full1, %c1 : !llvm.ptr<3>, i32
        nvvm.mbarrier.init %empty, %c1 : !llvm.ptr<3>, i32
        nvvm.mbarrier.init %empty1, %c1 : !llvm.ptr<3>, i32
        nvvm.fence.mbarrier.init
      }}
      nvvm.barrier0 // initialised
      %is_producer = arith.cmpi ult, %tid, %c128 : i32
      scf.if %is_producer {{
        scf.if %first {{
          %w, %wp = scf.for %k = %c0 to %steps step %c1 iter_args(%slot = %c0, %phase = %c0) -> (i32, i32) : i32 {{
            %before = arith.xori %phase, %c1 : i32
            %offset = arith.shli %slot, %c3 : i32
            %mine_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
            %mine_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
            nvvm.mbarrier.try_wait.parity %mine_empty, %before, %ticks : !llvm.ptr<3>, i32, i32
            nvvm.mbarrier.arrive.expect_tx %mine_full, %bytes : !llvm.ptr<3>, i32
            %column = arith.muli %k, %c64 : i32
            %to_a = llvm.getelementptr %smem[%slot, 0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<8192 x i8>
            %to_b = llvm.getelementptr %smem_b[%slot, 0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<2048 x i8>
            %cluster_a = llvm.addrspacecast %to_a : !llvm.ptr<3> to !llvm.ptr<7>
            %cluster_b = llvm.addrspacecast %to_b : !llvm.ptr<3> to !llvm.ptr<7>
            nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster_a, %map_a, %mine_full, box[%column, %m]
                : !llvm.ptr<7>, !llvm.ptr
            nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster_b, %map_b, %mine_full, box[%column, %c0]
                : !llvm.ptr<7>, !llvm.ptr
            %next = arith.xori %slot, %c1 : i32
            %flip = arith.xori %phase, %slot : i32
            scf.yield %next, %flip : i32, i32
          }}
        }}
      }} else {{
        %own = arith.subi %tid, %c128 : i32
        %lane_in_group = arith.andi %own, %c127 : i32
        %speaks = arith.cmpi eq, %lane_in_group, %c0 : i32
        %fields = arith.constant 0x4000004000010000 : i64 // swizzle 128B, stride 1024, leading 16
        %zero = llvm.mlir.zero : !acc
        %all, %r, %rp = scf.for %k = %c0 to %steps step %c1
            iter_args(%acc_in = %zero, %slot = %c0, %phase = %c0) -> (!acc, i32, i32) : i32 {{
          %offset = arith.shli %slot, %c3 : i32
          %mine_empty = llvm.getelementptr %empty[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          %mine_full = llvm.getelementptr %full[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          nvvm.mbarrier.try_wait.parity %mine_full, %phase, %ticks : !llvm.ptr<3>, i32, i32
          %from_a = llvm.getelementptr %smem[%slot, 0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<8192 x i8>
          %from_b = llvm.getelementptr %smem_b[%slot, 0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<2048 x i8>
          %at_a = llvm.ptrtoint %from_a : !llvm.ptr<3> to i32
          %at_b = llvm.ptrtoint %from_b : !llvm.ptr<3> to i32
          %unit_a = arith.shrui %at_a, %c4 : i32
          %unit_b = arith.shrui %at_b, %c4 : i32
          %start_a = arith.extui %unit_a : i32 to i64
          %start_b = arith.extui %unit_b : i32 to i64
          %da = arith.ori %fields, %start_a : i64
          %db = arith.ori %fields, %start_b : i64
          nvvm.wgmma.fence.aligned
          {_products()}
          nvvm.wgmma.commit.group.sync.aligned
          nvvm.wgmma.wait.group.sync.aligned 0
          scf.if %speaks {{
            %state = nvvm.mbarrier.arrive %mine_empty : !llvm.ptr<3> -> i64
          }}
          %next = arith.xori %slot, %c1 : i32
          %flip = arith.xori %phase, %slot : i32
          scf.yield %acc3, %next, %flip : !acc, i32, i32
        }}
        %sum = sm.ptx_wgmma_wait 0, %all : !acc
        %lane = arith.andi %own, %c31 : i32
        %warp = arith.shrui %own, %c5 : i32
        %in_group = arith.andi %lane, %c3 : i32
        %group = arith.shrui %lane, %c2 : i32
        %warp_row = arith.muli %warp, %c16 : i32
        %tile_row = arith.addi %warp_row, %m : i32
        %row = arith.addi %tile_row, %group : i32
        %row8 = arith.addi %row, %c8 : i32
        {_stores()}
      }} {{roles = ["producer", "consumer"]}}
      gpu.return
    }}
  }}
}}
"""


def edited(*replacements: tuple[str, str]) -> str:
    """The program with the first of each `old`, which must stand there, replaced by its `new`."""
    text = _PROGRAM
    for old, new in replacements:
        assert old in text, f"{old!r} does not stand in the program"
        text = text.replace(old, new, 1)
    return text
