"""Products in FX graphs of aten ops, and the pointwise ops around them that go into a kernel's epilogue.

Nodes are read by the interface that `torch.fx.Node` has, and nothing here imports torch.
"""
