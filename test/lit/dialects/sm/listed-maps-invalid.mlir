// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
!scratch = memref<1x32xi32, #tile.layout<(1,32):(32,1)>, #gpu.address_space<workgroup>>
func.func @list(%list: !mats, %maps: memref<?xi32>) {
  %s = sm.alloc : !scratch
  // expected-error @below {{makes maps of boxes of two sides for a list of matrices of the same type, not '!sm.tensor_map<32x64xbf16>' for 'memref<?x?x?xbf16, strided<[?, ?, 1]>>' [list-maps]}}
  sm.make_maps %maps of %list as !sm.tensor_map<32x64xbf16> through %s : memref<?xi32>, !mats, !scratch
  return
}

// -----

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
!scratch = memref<1x8xi32, #tile.layout<(1,8):(8,1)>, #gpu.address_space<workgroup>>
func.func @scratch(%list: !list, %maps: memref<?xi32>) {
  %s = sm.alloc : !scratch
  // expected-error @below {{[list-map-scratch]}}
  sm.make_maps %maps of %list as !sm.tensor_map<32x64xbf16> through %s : memref<?xi32>, !list, !scratch
  return
}

// -----

func.func @sides(%maps: memref<?xi32>, %n: index) {
  // expected-error @below {{is the map of one matrix, whose boxes have two sides, not '!sm.tensor_map<1x32x64xbf16>' [listed-map]}}
  %map = sm.listed_map %maps[%n] : memref<?xi32> to !sm.tensor_map<1x32x64xbf16>
  return
}
