// overlap-launches refuses a kernel in which it finds no work.
// RUN: lowtide-opt %s -p overlap-launches --verify-diagnostics

module attributes {tile.level = "epilogue", tile.target = "sm_90a"} {
// expected-error @below {{overlap-launches: has no tile.work_tiles, before which it would wait for the kernels before it [no-work-tiles]}}
tile.kernel @idle() attributes {schedule = #tile.schedule<grid = <launch = programmatic>>} {
  tile.return
}
}
