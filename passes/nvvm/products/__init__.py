"""Products: mma.sync, wgmma and its matrix descriptors, packed weights, factors of scales."""
