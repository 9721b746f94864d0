// The verifiers name what is wrong with the ops of reductions.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 2:128>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x2xf32, #own>
tile.kernel @k(%v: !acc, %w: !tile.view<64x8xbf16>) {
  // expected-error @below {{reduces f32 by the word of a reduction, into results of one type, not 'f32' by amax [reduced-types]}}
  %r = sm.reduce amax %v in %w : !acc, !tile.view<64x8xbf16>, !own
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 2:128>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x2xf32, #own>
tile.kernel @k(%v: !acc, %w: !tile.view<32x8xbf16>) {
  // expected-error @below {{takes the elements of a window of the fragment's shape, not '!tile.view<32x8xbf16>' [reduced-window]}}
  %r = sm.reduce row_sum %v in %w : !acc, !tile.view<32x8xbf16>, !own
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 2:128>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x2xf32, #own>
tile.kernel @k(%r: !own, %p: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{stores rows of a matrix of f32, or of one in a batch, not of 'memref<?xf32>' [reduced-target]}}
  sm.store_reduced row_sum %r of !acc into %p[%c0, %c0] : !own, memref<?xf32>
  tile.return
}

// -----

#own = #tile.tv<threads 128:1, values 2:128>
!own = !sm.fragment<128x2xf32, #own>
tile.kernel @k(%r: !own, %p: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{takes the type of the fragments that were reduced, not 'f32' [reduced-layout]}}
  sm.store_reduced row_sum %r of f32 into %p[%c0, %c0] : !own, memref<?x?xf32>
  tile.return
}
