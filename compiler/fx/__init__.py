"""Products in FX graphs of aten ops, and the pointwise ops around them that become a kernel's epilogue.

This folder uses the interface of `torch.fx.Node` and imports nothing of torch.
"""
