"""Code that passes share: reading kernels and problems off the IR, rewriting, atoms, panels, tensor maps, formulas."""
