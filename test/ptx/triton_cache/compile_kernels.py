"""Two kernels, and the part of Triton's cache on them that `lowtide ptx import` reads. With Triton 3.6, without a GPU:

    TRITON_CACHE_DIR=. python compile_kernels.py

Of each folder of the cache, the files .ptx, .ttir and .json are kept. Its name and the path of libdevice are shortened.
"""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def axpy(a, x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, a * tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def copy_tiles(source, target, BLOCK: tl.constexpr):
    """target (M, N) = source (M, N), both tensor descriptors."""
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    target.store([row, column], source.load([row, column]))


if __name__ == "__main__":
    tile = "tensordesc<fp16[32, 32]>"
    for kernel, types, constants in (
        (axpy, {"a": "fp32", "x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256}),
        (copy_tiles, {"source": tile, "target": tile, "BLOCK": "constexpr"}, {"BLOCK": 32}),
    ):
        text = triton.compiler.ASTSource(kernel, types, constexprs=constants)
        triton.compile(text, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
