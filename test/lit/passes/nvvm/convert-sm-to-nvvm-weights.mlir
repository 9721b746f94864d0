// convert-sm-to-nvvm makes sm.unpack_weights arithmetic on words: two fields 16 bits apart, the float that holds them, fma.
// RUN: lowtide-opt %s -p convert-sm-to-nvvm | filecheck %s

#tv4 = #tile.tv<threads (4,8):(64,1), values (8):(8)>
#tv8 = #tile.tv<threads (4,8):(64,1), values (8):(8)>
#tv_of4 = #tile.tv<threads (4,8):(32,1), values ((2,2),2):((16,128),8)>
#tv_of8 = #tile.tv<threads (4,8):(16,1), values (2,2):(8,64)>
#layout = #tile.layout<(8,32):(32,1)>
!bytes = memref<8x32xui8, #layout, #gpu.address_space<workgroup>>
module attributes {tile.level = "epilogue", tile.target = "sm_80"} {
func.func @host(%c1: index) {
  tile.launch @four grid(%c1) threads(32) shared_memory(1024) args()
  tile.launch @eight grid(%c1) threads(32) shared_memory(1024) args()
  tile.launch @floats grid(%c1) threads(32) shared_memory(1024) args()
  return
}

// Four registers of two from one word: 128 + x, less 128 + 8. The second slice is in the second word.
// CHECK-LABEL: gpu.func @four
// CHECK:       %[[LOADED:.+]] = llvm.load %{{.+}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<8xi8>
// CHECK:       vector.shuffle %[[LOADED]], %[[LOADED]] [4, 5, 6, 7]
// CHECK:       %[[WORD:.+]] = llvm.bitcast %{{.+}} : vector<4xi8> to i32
// CHECK:       %[[PUT:.+]] = sm.ptx_mask_or %[[WORD]], 983055, 1124090624 : i32
// CHECK:       %[[FLOATS:.+]] = llvm.bitcast %[[PUT]] : i32 to vector<2xbf16>
// CHECK:       llvm.call_intrinsic "llvm.fma.v2bf16"(%[[FLOATS]], %{{.+}}, %{{.+}}) : (vector<2xbf16>, vector<2xbf16>, vector<2xbf16>) -> vector<2xbf16>
// CHECK:       arith.shrui %[[WORD]], %c8_i32
// CHECK:       arith.shrui %[[WORD]], %c4_i32
// CHECK:       arith.shrui %[[WORD]], %c12_i32
tile.kernel @four() attributes {threads = 32} {
  %b = sm.alloc at 0 : !bytes
  %p = sm.load_shared %b at [0, 0] by "ld.shared.8" : !bytes to !sm.fragment<8x32xui8, #tv4>
  %f = sm.unpack_weights %p at 16 of si4 : !sm.fragment<8x32xui8, #tv4> to !sm.fragment<16x16xbf16, #tv_of4>
  tile.return
}

// bf16 does not hold eight bits: the lower seven, and the eighth, which is in the exponent.
// CHECK-LABEL: gpu.func @eight
// CHECK:       sm.ptx_mask_or inverted %[[WORD:.+]], 8388736, 1124090624 : i32
// CHECK:       sm.ptx_mask_or %[[WORD]], 8323199, 1124090624 : i32
// CHECK:       llvm.call_intrinsic "llvm.fma.v2bf16"
tile.kernel @eight() attributes {threads = 32} {
  %b = sm.alloc at 0 : !bytes
  %p = sm.load_shared %b at [0, 0] by "ld.shared.8" : !bytes to !sm.fragment<8x32xui8, #tv8>
  %f = sm.unpack_weights %p at 0 of si8 : !sm.fragment<8x32xui8, #tv8> to !sm.fragment<8x16xbf16, #tv_of8>
  tile.return
}

// The other bits, at the end of the exponent; the sign, in place; times 2^120, the difference of the biases.
// CHECK-LABEL: gpu.func @floats
// CHECK:       %[[REST:.+]] = arith.shli %[[WORD:.+]], %c4_i32
// CHECK:       arith.andi %[[REST]], %c133171184_i32
// CHECK:       %[[SIGN:.+]] = arith.shli %[[WORD]], %c8_i32
// CHECK:       arith.andi %[[SIGN]], %c-2147450880_i32
// CHECK:       arith.ori
// CHECK:       %[[SCALE:.+]] = arith.constant dense<1.329230e+36> : vector<2xbf16>
// CHECK:       llvm.call_intrinsic "llvm.fma.v2bf16"(%{{.+}}, %[[SCALE]], %{{.+}}) :
tile.kernel @floats() attributes {threads = 32} {
  %b = sm.alloc at 0 : !bytes
  %p = sm.load_shared %b at [0, 0] by "ld.shared.8" : !bytes to !sm.fragment<8x32xui8, #tv8>
  %f = sm.unpack_weights %p at 0 of f8E4M3FN : !sm.fragment<8x32xui8, #tv8> to !sm.fragment<8x16xbf16, #tv_of8>
  tile.return
}
}
