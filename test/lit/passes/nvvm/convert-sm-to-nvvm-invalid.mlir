// convert-sm-to-nvvm refuses what one thread's instructions cannot do.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm --split-input-file --verify-diagnostics

// How many threads there are is for a launch to say.
module attributes {tile.target = "sm_80"} {
// expected-error @below {{convert-sm-to-nvvm: is never launched, so its number of threads is unknown [never-launched]}}
tile.kernel @kernel() {
  tile.return
}
}
// -----

// And they must agree.
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  // expected-error @below {{convert-sm-to-nvvm: launches 64 threads per CTA, an earlier launch of the kernel 32 [launched-threads]}}
  tile.launch @kernel grid(%ctas) threads(64) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  tile.return
}
}
// -----

// An op of an earlier level.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %v: !tile.view<8x8xf16>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%v) : !tile.view<8x8xf16>
  return
}
tile.kernel @kernel(%v: !tile.view<8x8xf16>) {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: has no counterpart in one thread's program [no-counterpart]}}
  sm.copy %v to %s : !tile.view<8x8xf16>, !buffer
  tile.return
}
}
// -----

// Index arithmetic that no address needs.
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: memref<?xf32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%d) : memref<?xf32>
  return
}
tile.kernel @kernel(%d: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %d, %c0 : memref<?xf32>
  // expected-error @below {{convert-sm-to-nvvm: divides by a value that is not a constant [constant-divisor]}}
  %q = arith.ceildivsi %m, %m : index
  tile.return
}
}
// -----

// Which dimension must be known.
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: memref<?xf32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%d) : memref<?xf32>
  return
}
tile.kernel @kernel(%d: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %d, %c0 : memref<?xf32>
  // expected-error @below {{convert-sm-to-nvvm: asks for a dimension that is not a constant [constant-dimension]}}
  %n = memref.dim %d, %m : memref<?xf32>
  tile.return
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: memref<8x8xf32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%d) : memref<8x8xf32>
  return
}
tile.kernel @kernel(%d: memref<8x8xf32>) {
  // expected-error @below {{convert-sm-to-nvvm: must take the first rows and columns of a matrix, [0, 0] [rows, columns] [1, 1]; or, of one that lies by rows, the vector of a row, [row, 0] [1, columns] [1, 1]; or a matrix of a batch [subview-of-first]}}
  %late = memref.subview %d[4, 0] [4, 8] [1, 1] : memref<8x8xf32> to memref<4x8xf32, strided<[8, 1], offset: 32>>
  tile.return
}
}
// -----

module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: memref<8x8xf32>) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%d, %ctas) : memref<8x8xf32>, index
  return
}
tile.kernel @kernel(%d: memref<8x8xf32>, %g: index) {
  // expected-error @below {{[subview-of-first]}}
  %late = memref.subview %d[%g, 4] [1, 4] [1, 1] : memref<8x8xf32> to memref<4xf32, strided<[1], offset: ?>>
  tile.return
}
}
// -----

!by_columns = memref<8x8xf32, strided<[1, 8]>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index, %d: !by_columns) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%d, %ctas) : !by_columns, index
  return
}
tile.kernel @kernel(%d: !by_columns, %g: index) {
  // expected-error @below {{[subview-of-first]}}
  %row = memref.subview %d[%g, 0] [1, 8] [1, 1] : !by_columns to memref<8xf32, strided<[8], offset: ?>>
  tile.return
}
}
// -----

// Shared memory that has not been laid out.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  // expected-error @below {{convert-sm-to-nvvm: has no place in shared memory; run assign-smem-offsets first [buffer-place]}}
  %s = sm.alloc : !buffer
  tile.return
}
}
// -----

!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  // expected-error @below {{convert-sm-to-nvvm: has no place in shared memory; run assign-smem-offsets first [ring-place]}}
  %r = sm.ring : !sm.ring<2 x [!buffer]>
  tile.return
}
}
// -----

// A thread's values that lie below each other cannot be loaded at once.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: moves 2 elements at once, but its thread-value layout does not keep them in one row [run-of-line]}}
  %f = sm.load_shared %s by "ld.shared.4" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(2,8), values (2,1):(1,8)>>
  tile.return
}
}
// -----

// Nor be stored at once where they lie apart.
!turned = memref<8x8xf16, #tile.layout<(8,8):(1,8)>, #gpu.address_space<workgroup>>
!fragment = !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !turned
  %f = sm.load_shared %s by "ld.shared.2" : !turned to !fragment
  // expected-error @below {{convert-sm-to-nvvm: moves 2 elements at once, but its buffer is contiguous along the other dimension [store-shared-run]}}
  sm.store_shared %f to %s by "st.shared.4" : !fragment, !turned
  tile.return
}
}
// -----

// Nor those that a swizzle parts.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1), swizzle<2,0,3>>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: moves 2 elements at once, but the swizzle permutes units of 1 [load-shared-swizzle]}}
  %f = sm.load_shared %s by "ld.shared.4" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
  tile.return
}
}
// -----

// Nor more than a thread has.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: moves 8 elements at once, but a thread has 2 [run-loaded]}}
  %f = sm.load_shared %s by "ld.shared.16" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
  tile.return
}
}
// -----

// Nor half an element.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{[run-loaded]}}
  %f = sm.load_shared %s by "ld.shared.1" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
  tile.return
}
}
// -----

// An atom of another op.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: takes an atom ld.shared.*, not ld.global.4 [atom-family]}}
  %f = sm.load_shared %s by "ld.global.4" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
  tile.return
}
}
// -----

// An atom that nobody knows.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{[unknown-atom]}}
  %f = sm.load_shared %s by "ld.shared.12" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
  tile.return
}
}
// -----

// ldmatrix: the fragment must be made of its matrices,
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{convert-sm-to-nvvm: loads 8 elements per thread at once, but a thread has 2 [matrix-elements]}}
  %f = sm.ldmatrix %s[0, 0] by "ldmatrix.x4" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(16,1), values (2,1):(8,8)>>
  tile.return
}
}
// -----

// and each row of a matrix must lie side by side.
!buffer = memref<8x8xf16, #tile.layout<(8,8):(8,1)>, #gpu.address_space<workgroup>>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %s = sm.alloc at 0 : !buffer
  // expected-error @below {{[ldmatrix-rows]}}
  %f = sm.ldmatrix %s[0, 0] by "ldmatrix.x1" : !buffer to !sm.fragment<8x8xf16, #tile.tv<threads (4,8):(2,8), values (2,1):(1,8)>>
  tile.return
}
}
// -----

// mma.sync: fragments are held as the tiled mma says.
#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,1):((16,8,128),16,256)>
#tv_b = #tile.tv<threads (4,8):(16,1), values ((2,2),1,1):((8,64),8,128)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
!a = memref<16x16xf16, #tile.layout<(16,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<8x16xf16, #tile.layout<(8,16):(16,1)>, #gpu.address_space<workgroup>>
!fa = !sm.fragment<16x16xf16, #tv_a>
!fb = !sm.fragment<8x16xf16, #tv_b>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 1024 : !b
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !a to !fa
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x2" : !b to !fb
  %c = sm.splat 0.0 : !sm.fragment<16x8xf32, #tile.tv<threads (4,8):(32,1), values (2,2):(8,16)>>
  // expected-error @below {{convert-sm-to-nvvm: operand c is not held as the tiled mma needs it: ((4, 8), ((2, 2), 1, 1)) : ((32, 1), ((16, 8), 16, 128)) [operand-held]}}
  %p = sm.mma_sync %fa, %fb, %c by <mma.m16n8k16.f32.f16, atoms [1, 1, 1]> : !fa, !fb, !sm.fragment<16x8xf32, #tile.tv<threads (4,8):(32,1), values (2,2):(8,16)>>
  tile.return
}
}
// -----

#tv_a = #tile.tv<threads (4,8):(32,1), values ((2,2,2),1,1):((16,8,128),16,256)>
#tv_b = #tile.tv<threads (4,8):(16,1), values ((2,2),1,1):((8,64),8,128)>
#tv_c = #tile.tv<threads (4,8):(32,1), values ((2,2),1,1):((16,8),16,128)>
!a = memref<16x16xf16, #tile.layout<(16,16):(16,1)>, #gpu.address_space<workgroup>>
!b = memref<8x16xf16, #tile.layout<(8,16):(16,1)>, #gpu.address_space<workgroup>>
!fa = !sm.fragment<16x16xf16, #tv_a>
!fb = !sm.fragment<8x16xf16, #tv_b>
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %as = sm.alloc at 0 : !a
  %bs = sm.alloc at 1024 : !b
  %fa = sm.ldmatrix %as[0, 0] by "ldmatrix.x4" : !a to !fa
  %fb = sm.ldmatrix %bs[0, 0] by "ldmatrix.x2" : !b to !fb
  %c = sm.splat 0.0 : !sm.fragment<16x8xf32, #tv_c>
  // expected-error @below {{[unknown-atom]}}
  %p = sm.mma_sync %fa, %fb, %c by <mma.m16n8k99.f32.f16, atoms [1, 1, 1]> : !fa, !fb, !sm.fragment<16x8xf32, #tv_c>
  tile.return
}
}
// -----

// sm.extract moves nothing between threads,
module attributes {tile.target = "sm_80"} {
func.func @host(%ctas: index) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args()
  return
}
tile.kernel @kernel() {
  %f = sm.splat 0.0 : !sm.fragment<32x8xf32, #tile.tv<threads (4,8):(64,1), values ((2,2),2,1):((32,8),16,256)>>
  // expected-error @below {{convert-sm-to-nvvm: the threads do not hold the same elements of the sub-tile in both thread-value layouts [extract-layout]}}
  %g = sm.extract %f[0, 0] : !sm.fragment<32x8xf32, #tile.tv<threads (4,8):(64,1), values ((2,2),2,1):((32,8),16,256)>> to !sm.fragment<16x8xf32, #tile.tv<threads (4,8):(16,2), values ((2,2),1,1):((1,64),16,128)>>
  tile.return
}
}
// -----

// Scales are loaded one by one.
!scales = memref<?x?xf32, strided<[?, 1]>>
module attributes {tile.target = "sm_90a"} {
func.func @host(%ctas: index, %scales: !scales) {
  tile.launch @kernel grid(%ctas) threads(32) shared_memory(0) args(%scales) : !scales
  return
}
tile.kernel @kernel(%scales: !scales) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{convert-sm-to-nvvm: is a window of scales; load these from their matrix, by sm.load_scales [scales-window]}}
  %rows = tile.view row_scale %scales[%c0, %c0] : !scales to !tile.view<64x8xf32>
  tile.return
}
}
