"""What passes share: kernels and problems read off the IR, rewriting, atoms, panels, tensor maps, formulas."""
