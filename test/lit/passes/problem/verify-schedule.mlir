// verify-schedule is content with a legal schedule, on a problem and on a kernel of any level, and changes nothing.
// RUN: lowtide-opt %s > %t.before
// RUN: lowtide-opt %s -p verify-schedule > %t.after && diff %t.before %t.after

!mat = memref<?x?xf16, strided<[?, 1]>>
!columns = memref<32x32xf16, #tile.layout<(32,32):(32,1), swizzle<2,3,3>>, #gpu.address_space<workgroup>>
#schedule = #tile.schedule<
  grid = <tile = [32, 32], order = row, scheduler = one_shot>,
  mainloop = <k = 32, stages = 2, roles = single,
    a = <copy = cp.async.16, swizzle = <2,3,3>>,
    b = <copy = cp.async.16, swizzle = <2,3,3>>>,
  multiply = <atom = mma.m16n8k16, atoms = [1, 1, 1], permutation = [16, 16, 16], fragment_buffers = 1>,
  epilogue = <path = smem, math = registers, tile = [32, 32], swizzle = <2,3,3>>>
#mma = #sm.tiled_mma<mma.m16n8k16.f16.f16, atoms [1, 1, 1], permutation [16, 16, 16]>
!fa = !sm.fragment<32x16xf16, #tile.tv<threads (4,8):(64,1), values ((2,2,2),2,1):((32,8,256),16,512)>>
!fb = !sm.fragment<32x16xf16, #tile.tv<threads (4,8):(64,1), values ((2,2),4,1):((32,256),8,512)>>
!fc = !sm.fragment<32x32xf16, #tile.tv<threads (4,8):(64,1), values ((2,2),2,4):((32,8),16,256)>>
!ring = !sm.ring<2 x [!columns, !columns]>

// The module's level does not matter: a dump of each is entered here.
module attributes {tile.level = "atoms", tile.target = "sm_80"} {
func.func @problem(%a: !mat, %b: !mat, %d: !mat) {
  tile.gemm tn %a, %b into %d acc(f16) schedule(#schedule) {
  ^bb0(%x: f16):
    tile.yield %x : f16
  } : !mat, !mat, !mat
  return
}

// A kernel carries its problem beside the schedule.
tile.kernel @kernel(%a: !mat, %b: !mat, %d: !mat) attributes {
    problem = #tile.problem<nt, a = f16, b = f16, acc = f16, results = [full f16]>, schedule = #schedule} {
  %c0 = arith.constant 0 : index
  %ring = sm.ring : !ring
  %zero = sm.splat 0.0 : !fc
  tile.work_tiles (%m, %n) of (%c0, %c0) by [32, 32] order(<row>) one_shot {
    %as, %bs = sm.ring_slot %ring[%c0] : !ring
    %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" trans : !columns to !fa
    %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x4" trans : !columns to !fb
    %acc = sm.mma_sync %fa, %fb, %zero by #mma : !fa, !fb, !fc
    tile.store %acc into %d[%m, %n] {
    ^bb0(%x: f16):
      tile.yield %x : f16
    } : !fc, !mat
  }
  tile.return
}
}
