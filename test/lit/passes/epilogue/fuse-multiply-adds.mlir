// fuse-multiply-adds replaces a product and the sum or difference that reads it by one fma.
// RUN: lowtide-opt %s -p fuse-multiply-adds | filecheck %s
#tv = #tile.tv<threads (4,8,4):(32,1,16), values (2,2):(16,8)>
!part = !sm.fragment<16x16xf32, #tv>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {

// CHECK-LABEL: func.func @fused
func.func @fused(%p: !part, %q: !part, %r: !part) -> !part {
  %0 = sm.map %p, %q, %r : !part, !part, !part {
  // CHECK:       ^bb0(%[[X:.+]]: f32, %[[Y:.+]]: f32, %[[Z:.+]]: f32):
  // CHECK-NEXT:    %[[SUM:.+]] = math.fma %[[X]], %[[Y]], %[[Z]]
  // CHECK-NEXT:    %[[LESS:.+]] = arith.negf %[[SUM]]
  // CHECK-NEXT:    %[[DIFFERENCE:.+]] = math.fma %[[X]], %[[Z]], %[[LESS]]
  // CHECK-NEXT:    %[[MINUS:.+]] = arith.negf %[[Y]]
  // CHECK-NEXT:    %[[SUBTRACTED:.+]] = math.fma %[[MINUS]], %[[Z]], %[[DIFFERENCE]]
  ^bb0(%x: f32, %y: f32, %z: f32):
    %a = arith.mulf %x, %y : f32
    %sum = arith.addf %z, %a : f32
    %b = arith.mulf %x, %z : f32
    %difference = arith.subf %b, %sum : f32
    %c = arith.mulf %y, %z : f32
    %subtracted = arith.subf %difference, %c : f32
    // A product with another reader is kept, and so is one with a factor erfc.
    // CHECK-NEXT:    %[[TWICE:.+]] = arith.mulf %[[X]], %[[X]]
    // CHECK-NEXT:    %[[READ:.+]] = arith.addf %[[TWICE]], %[[SUBTRACTED]]
    // CHECK-NEXT:    %[[OTHER:.+]] = arith.maximumf %[[TWICE]], %[[READ]]
    // CHECK-NEXT:    %[[ERFC:.+]] = math.erfc %[[OTHER]]
    // CHECK-NEXT:    %[[SHARE:.+]] = arith.mulf %[[ERFC]], %[[Y]]
    // CHECK-NEXT:    arith.addf %[[SHARE]], %[[Z]]
    %twice = arith.mulf %x, %x : f32
    %read = arith.addf %twice, %subtracted : f32
    %other = arith.maximumf %twice, %read : f32
    %erfc = math.erfc %other : f32
    %share = arith.mulf %erfc, %y : f32
    %last = arith.addf %share, %z : f32
    tile.yield %last : f32
  } : !part
  return %0 : !part
}
}
