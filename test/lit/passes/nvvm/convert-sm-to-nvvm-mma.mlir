// convert-sm-to-nvvm: mma.sync on the registers that ldmatrix gave, and the loop that carries them.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

#mma = #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [1, 1, 1], permutation [16, 16, 16]>
#half = #sm.tiled_mma<mma.m16n8k16.f16.f16, atoms [1, 1, 1]>
#tv_a = #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>
#tv_b = #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>
#tv_c = #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>
#tv_a1 = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,1):((16,8,128),16,256)>
#tv_b1 = #tile.tv<threads (4,8):(16,1), values ((2,2),1,1):((8,64),8,128)>
#tv_c1 = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
#tv_b2 = #tile.tv<threads (4,8):(32,1), values ((2,2),2,1):((16,128),8,256)>
#tv_c2 = #tile.tv<threads (4,8):(64,1), values ((2,2),2,2):((32,8),16,256)>
!buffer = memref<32x16xbf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!a = !sm.fragment<32x16xbf16, #tv_a>
!b = !sm.fragment<32x16xbf16, #tv_b>
!c = !sm.fragment<32x32xf32, #tv_c>
!a1 = !sm.fragment<16x16xf16, #tv_a1>
!b1 = !sm.fragment<8x16xf16, #tv_b1>
!c1 = !sm.fragment<16x8xf16, #tv_c1>
!a2 = !sm.fragment<32x16xf16, #tv_a>
!b2 = !sm.fragment<16x16xf16, #tv_b2>
!c2 = !sm.fragment<32x16xf16, #tv_c2>
!half = memref<16x16xf16, #tile.layout<(16,16):(16,1)>, #gpu.address_space<workgroup>>
!half32 = memref<32x16xf16, #tile.layout<(32,16):(16,1)>, #gpu.address_space<workgroup>>
!half8 = memref<8x16xf16, #tile.layout<(8,16):(16,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: memref<32x40xbf16>) {
  tile.launch @loop grid(%ctas) threads(32) shared_memory(2048) args(%d) : memref<32x40xbf16>
  tile.launch @half grid(%ctas) threads(32) shared_memory(2048) args()
  tile.launch @halves grid(%ctas) threads(32) shared_memory(2048) args()
  return
}
// Of a 32×32 accumulator each thread carries eight vectors of four: one for each atom, rows of atoms first. A buffer is
// carried as its pointer. K = 40 makes ⌈40/16⌉ steps.
// CHECK-LABEL: gpu.func @loop(
// CHECK:       %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK:       scf.for %{{.+}} = %c0{{.*}} to %c3{{.*}} step %c1{{.*}} iter_args(%[[C00:[^ ]+]] = %[[ZERO]], %[[C10:[^ ]+]] = %[[ZERO]], %[[C01:[^ ]+]] = %[[ZERO]], %[[C11:[^ ]+]] = %[[ZERO]], %[[C02:[^ ]+]] = %[[ZERO]], %[[C12:[^ ]+]] = %[[ZERO]], %[[C03:[^ ]+]] = %[[ZERO]], %[[C13:[^ ]+]] = %[[ZERO]], %[[AS:[^ ]+]] = %{{[^ ]+}})

// Two ldmatrix.x4 give A's two atoms of four registers, two more B's four atoms of two.
// CHECK:         %[[START:.+]] = llvm.getelementptr %[[AS]][
// CHECK:         %[[A0:.+]] = nvvm.ldmatrix %[[START]]
// CHECK:         %[[A00:.+]] = llvm.extractvalue %[[A0]][0]
// CHECK:         %[[A01:.+]] = llvm.extractvalue %[[A0]][1]
// CHECK:         %[[A02:.+]] = llvm.extractvalue %[[A0]][2]
// CHECK:         %[[A03:.+]] = llvm.extractvalue %[[A0]][3]
// CHECK:         %[[A1:.+]] = nvvm.ldmatrix
// CHECK:         %[[A10:.+]] = llvm.extractvalue %[[A1]][0]
// CHECK:         %[[B01:.+]] = nvvm.ldmatrix
// CHECK:         %[[B00:.+]] = llvm.extractvalue %[[B01]][0]
// CHECK:         %[[B0X:.+]] = llvm.extractvalue %[[B01]][1]
// CHECK:         %[[B10:.+]] = llvm.extractvalue %[[B01]][2]
// CHECK:         %[[B1X:.+]] = llvm.extractvalue %[[B01]][3]
// CHECK:         %[[B23:.+]] = nvvm.ldmatrix
// CHECK:         %[[B20:.+]] = llvm.extractvalue %[[B23]][0]
// CHECK:         %[[B30:.+]] = llvm.extractvalue %[[B23]][2]

// bf16 registers go in as they are; a result goes back into the vector of its atom.
// CHECK:         %[[X0:.+]] = vector.extract %[[C00]][0]
// CHECK:         %[[X1:.+]] = vector.extract %[[C00]][1]
// CHECK:         %[[X2:.+]] = vector.extract %[[C00]][2]
// CHECK:         %[[X3:.+]] = vector.extract %[[C00]][3]
// CHECK:         %[[D:.+]] = nvvm.mma.sync A[%[[A00]], %[[A01]], %[[A02]], %[[A03]]] B[%[[B00]], %[[B0X]]] C[%[[X0]], %[[X1]], %[[X2]], %[[X3]]] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}
// CHECK:         %[[Y0:.+]] = llvm.extractvalue %[[D]][0]
// CHECK:         %[[D00:.+]] = vector.from_elements %[[Y0]],

// Along M there and back, so that neighbours share an operand, mostly B's: the first column of atoms downwards, the
// second upwards.
// CHECK:         nvvm.mma.sync A[%[[A10]], {{.*}} B[%[[B00]], %[[B0X]]]
// CHECK:         vector.extract %[[C11]][0]
// CHECK:         nvvm.mma.sync A[%[[A10]], {{.*}} B[%[[B10]], %[[B1X]]]
// CHECK:         vector.extract %[[C01]][0]
// CHECK:         nvvm.mma.sync A[%[[A00]], {{.*}} B[%[[B10]],
// CHECK:         nvvm.mma.sync A[%[[A00]], {{.*}} B[%[[B20]],
// CHECK:         nvvm.mma.sync A[%[[A10]], {{.*}} B[%[[B20]],
// CHECK:         nvvm.mma.sync A[%[[A10]], {{.*}} B[%[[B30]],
// CHECK:         vector.extract %[[C03]][0]
// CHECK:         nvvm.mma.sync A[%[[A00]], {{.*}} B[%[[B30]],
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         scf.yield %[[D00]], {{.*}} !llvm.ptr<3>
tile.kernel @loop(%d: memref<32x40xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %k = memref.dim %d, %c1 : memref<32x40xbf16>
  %steps = arith.ceildivsi %k, %c16 : index
  %as = sm.alloc at 0 : !buffer
  %bs = sm.alloc at 1024 : !buffer
  %zero = sm.splat 0.0 : !c
  %acc:2 = scf.for %i = %c0 to %steps step %c1 iter_args(%c = %zero, %s = %as) -> (!c, !buffer) {
    %fa = sm.ldmatrix %s[0, 0] by "ldmatrix.x4" : !buffer to !a
    %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" : !buffer to !b
    %c2 = sm.mma_sync %fa, %fb, %c by #mma : !a, !b, !c
    scf.yield %c2, %bs : !c, !buffer
  }
  tile.return
}

// f16 operands are pairs, and f16 accumulators two of them in place of four floats.
// CHECK-LABEL: gpu.func @half(
// CHECK:       %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : vector<4xf16>
// CHECK:       %[[A0:.+]] = llvm.bitcast %{{.+}} : i32 to vector<2xf16>
// CHECK-COUNT-5: llvm.bitcast %{{.+}} : i32 to vector<2xf16>
// CHECK:       %[[LOW:.+]] = vector.shuffle %[[ZERO]], %[[ZERO]] [0, 1]
// CHECK:       %[[HIGH:.+]] = vector.shuffle %[[ZERO]], %[[ZERO]] [2, 3]
// CHECK:       %[[D:.+]] = nvvm.mma.sync A[%[[A0]], {{.*}} C[%[[LOW]], %[[HIGH]]] {{.*}} -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
// CHECK:       %[[D0:.+]] = llvm.extractvalue %[[D]][0]
// CHECK:       %[[D1:.+]] = llvm.extractvalue %[[D]][1]
// CHECK:       vector.shuffle %[[D0]], %[[D1]] [0, 1, 2, 3]
tile.kernel @half() {
  %as = sm.alloc at 0 : !half
  %bs = sm.alloc at 1024 : !half8
  %zero = sm.splat 0.0 : !c1
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !half to !a1
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x2" : !half8 to !b1
  %c = sm.mma_sync %fa, %fb, %zero by #half : !a1, !b1, !c1
  tile.return
}

// Of sums of f16 an atom has two registers, and of A four: neighbours share A where they can, so that it is along N
// there and back.
// CHECK-LABEL: gpu.func @halves(
// CHECK:       %[[UPPER:.+]] = nvvm.ldmatrix
// CHECK:       %[[A0:.+]] = llvm.extractvalue %[[UPPER]][0]
// CHECK:       %[[LOWER:.+]] = nvvm.ldmatrix
// CHECK:       %[[A1:.+]] = llvm.extractvalue %[[LOWER]][0]
// CHECK:       %[[BOTH:.+]] = nvvm.ldmatrix
// CHECK:       %[[B0:.+]] = llvm.extractvalue %[[BOTH]][0]
// CHECK:       %[[B1:.+]] = llvm.extractvalue %[[BOTH]][2]
// CHECK:       llvm.bitcast %[[A0]] :
// CHECK:       llvm.bitcast %[[B0]] :
// CHECK:       nvvm.mma.sync
// CHECK:       llvm.bitcast %[[A0]] :
// CHECK:       llvm.bitcast %[[B1]] :
// CHECK:       nvvm.mma.sync
// CHECK:       llvm.bitcast %[[A1]] :
// CHECK:       llvm.bitcast %[[B1]] :
// CHECK:       nvvm.mma.sync
// CHECK:       llvm.bitcast %[[A1]] :
// CHECK:       llvm.bitcast %[[B0]] :
// CHECK:       nvvm.mma.sync
// CHECK-NOT:   nvvm.mma.sync
tile.kernel @halves() {
  %as = sm.alloc at 0 : !half32
  %bs = sm.alloc at 1024 : !half
  %zero = sm.splat 0.0 : !c2
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !half32 to !a2
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" : !half to !b2
  %c = sm.mma_sync %fa, %fb, %zero by #half : !a2, !b2, !c2
  tile.return
}
}
