// What is refused, with the way out, and a non-zero status.
// RUN: not lowtide-opt %s -p 'canonicalise' 2>&1 | filecheck %s --check-prefix=MISSPELT
// RUN: not lowtide-opt %s -p 'tile-to-cta' 2>&1 | filecheck %s --check-prefix=OURS
// RUN: not lowtide-opt %s -p 'cse,(cse' 2>&1 | filecheck %s --check-prefix=BRACKET
// RUN: not lowtide-opt %s -p 'gpu.module(choose-schedule)' 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not lowtide-opt %s -p 'tile-to-ctas{stages=3}' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not lowtide-opt %s -p 'choose-schedule' 2>&1 | filecheck %s --check-prefix=NOTARGET
// RUN: not lowtide-opt %s --target=sm_81 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not lowtide-opt %t.missing 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not lowtide-opt %s -p cse -o %s/out.mlir 2>&1 | filecheck %s --check-prefix=OUTPUT

// MISSPELT: unknown pass 'canonicalise': neither Lowtide's nor upstream's; did you mean 'canonicalize'?
// OURS: unknown pass 'tile-to-cta': neither Lowtide's nor upstream's; did you mean 'tile-to-ctas'?
// BRACKET: pass pipeline: '(' is not closed in 'cse,(cse'
// NESTED: choose-schedule is a pass of Lowtide and runs on the whole module: take it out of gpu.module(choose-schedule)
// OPTION: tile-to-ctas has no option 'stages'; its options: none
// NOTARGET: error: choose-schedule needs a target: give --target, or write tile.target on the module
// TARGET: unknown target 'sm_81'
// FILE: No such file or directory
// OUTPUT: cannot write

module {}
