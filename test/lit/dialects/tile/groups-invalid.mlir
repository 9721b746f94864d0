// RUN: lowtide-opt %s --split-input-file --verify-diagnostics

func.func @scheduler(%n: index, %ends: memref<4xi32>) {
  // expected-error @below {{'tile.work_tiles' op has groups, whose tiles are counted on the device: they go with persistent or even_split, and with no part, no division of K but split, and no cluster of several tiles along M [work-groups]}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] groups(%g to %end of %ends : memref<4xi32>) order(<row>) one_shot {
  }
  return
}

// -----

func.func @batch(%n: index, %ends: memref<4xi32>) {
  // expected-error @below {{[work-groups]}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] batch(%b of %n) groups(%g to %end of %ends : memref<4xi32>) order(<row>) one_shot {
  }
  return
}

// -----

func.func @division(%n: index, %ends: memref<4xi32>) {
  // expected-error @below {{[work-groups]}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] groups(%g to %end of %ends : memref<4xi32>) k(%k0 to %k1 of %n by 8)
      stream_k (%part of %parts at %slot) order(<row>) persistent {
  }
  return
}

// -----

func.func @cluster(%n: index, %ends: memref<4xi32>) {
  // expected-error @below {{[work-groups]}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] groups(%g to %end of %ends : memref<4xi32>) cluster [2, 1] order(<row>) persistent {
  }
  return
}

// -----

func.func @ends(%n: index, %ends: memref<4xi64>) {
  // expected-error @below {{must be 1D memref of 32-bit signless integer values}}
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] groups(%g to %end of %ends : memref<4xi64>) order(<row>) persistent {
  }
  return
}

// -----

func.func @next(%n: index, %ends: memref<4xi32>) {
  tile.work_tiles (%m, %c) of (%n, %n) by [8, 8] groups(%g to %end of %ends : memref<4xi32>) order(<row>) persistent {
    // expected-error @below {{'tile.next_work_tile' op asks for the next tile of groups, which are walked as it is begun [next-of-groups]}}
    %next_m, %next_n = tile.next_work_tile
  }
  return
}
