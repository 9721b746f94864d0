"""Pictures of layouts, atoms, tiled copies and mmas, and kernels: `lowtide draw` and `lowtide.draw`."""
