// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
func.func @extent(%a: !mats, %n: index) {
  // expected-error @below {{reads the table of a list of matrices, a memref in the memory space "list"; 'memref<?x?x?xbf16, strided<[?, ?, 1]>>' has memref.dim [matrix-extent-list]}}
  %k = tile.matrix_extent %a[%n] dim 1 : !mats
  return
}

// -----

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
func.func @dim(%a: !list, %n: index) {
  // expected-error @below {{whose value is non-negative whose maximum value is 1}}
  %k = tile.matrix_extent %a[%n] dim -1 : !list
  return
}

// -----

!list = memref<?x?x?xbf16, strided<[?, ?, 1]>, "list">
func.func @groups(%d: !list, %n: index) {
  // expected-error @below {{takes columns_of a list of matrices, one for each of its padded groups: give batch and groups as well [work-matrices]}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] batch(%b of %n) columns_of(%d : !list) order(<row>) persistent {
  }
  return
}

// -----

!mats = memref<?x?x?xbf16, strided<[?, ?, 1]>>
func.func @list(%d: !mats, %n: index, %ends: memref<?xi32>) {
  // expected-error @below {{[work-matrices]}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] batch(%b of %n) groups(%g to %end of %ends : memref<?xi32>)
      columns_of(%d : !mats) order(<row>) persistent {
  }
  return
}
