// The target comes from the module or from --target; they must agree.
// RUN: lowtide-opt %s --target=sm_90 -p verify-schedule > %t.out
// RUN: lowtide-opt %s -p verify-schedule > %t.out
// RUN: not lowtide-opt %s --target=sm_80 2>&1 | filecheck %s

// CHECK: --target=sm_80, but the module is for sm_90
module attributes {tile.target = "sm_90"} {}
