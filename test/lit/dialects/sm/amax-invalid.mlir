// The verifiers name what is wrong with the ops of an amax, and with an sm.map of several results.
// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>
tile.kernel @k(%v: !sm.fragment<64x8xbf16, #tv>, %w: !tile.view<64x8xbf16>, %m: !own) {
  // expected-error @below {{finds the largest of f32, not of 'bf16' [most-elements]}}
  %r = sm.max_abs %v in %w, %m : !sm.fragment<64x8xbf16, #tv>, !tile.view<64x8xbf16>, !own
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>
tile.kernel @k(%v: !acc, %w: !tile.view<32x8xbf16>, %m: !own) {
  // expected-error @below {{takes the elements of a window of the fragment's shape, not '!tile.view<32x8xbf16>' [most-window]}}
  %r = sm.max_abs %v in %w, %m : !acc, !tile.view<32x8xbf16>, !own
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>
tile.kernel @k(%v: !acc, %w: !tile.view<64x8xbf16>) {
  // expected-error @below {{takes one f32 for each thread, a fragment of Tx1xf32, not '!sm.fragment<64x8xf32, #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>>' [most-per-thread]}}
  %r = sm.max_abs %v in %w, %v : !acc, !tile.view<64x8xbf16>, !acc
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>
tile.kernel @k(%m: !own, %amax: memref<4xf32>) {
  // expected-error @below {{raises one f32, a memref<1xf32>, not 'memref<4xf32>' [most-target]}}
  sm.raise_max %m into %amax : !own, memref<4xf32>
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>
tile.kernel @k(%v: !acc) {
  // expected-error @below {{results must have the same shape and thread-value layout [compute-result-shapes]}}
  %y, %z = sm.map %v : !acc {
  ^bb0(%e: f32):
    tile.yield %e, %e : f32, f32
  } : !acc, !own
  tile.return
}

// -----

// A body that does not end in a terminator.
#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
!acc = !sm.fragment<64x8xf32, #tv>
tile.kernel @k(%v: !acc) {
  // expected-error @below {{[compute-yield]}}
  %y = sm.map %v : !acc {
  ^bb0(%e: f32):
    %f = arith.negf %e : f32
  } : !acc
  tile.return
}

// -----

#tv = #tile.tv<threads (4,8,4):(128,1,16), values ((2,2,1),1,1):((64,8,512),64,512)>
#own = #tile.tv<threads 128:1, values 1:0>
!acc = !sm.fragment<64x8xf32, #tv>
!own = !sm.fragment<128x1xf32, #own>
tile.kernel @k(%v: !acc) {
  // expected-error @below {{body must end in tile.yield of one 'f32', 'f32' [compute-yield]}}
  %y, %z = sm.map %v : !acc {
  ^bb0(%e: f32):
    tile.yield %e : f32
  } : !acc, !acc
  tile.return
}
