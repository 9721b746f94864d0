"""A kernel of CuTe DSL 4.8: a copy of a tile by TMA. Without a GPU, this writes its PTX into the folder dump:

    CUTE_DSL_ARCH=sm_90a CUTE_DSL_KEEP=ptx CUTE_DSL_DUMP_DIR=dump CUTE_DSL_LINEINFO=1 python tile_copy.py

In tile_copy.ptx the name of the kernel is shorter.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_compact_tensor

TILE = (64, 64)


@cute.kernel
def tile_copy(atom: cute.CopyAtom, source: cute.Tensor, target: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    shared = cutlass.utils.SmemAllocator()
    tile = shared.allocate_tensor(cutlass.Float16, cute.make_layout(TILE, stride=(64, 1)), byte_alignment=128)
    full = shared.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    there = cute.group_modes(cute.local_tile(source, TILE, (0, 0)), 0, 2)
    to, at = cpasync.tma_partition(atom, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), there)
    if thread < 32:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(full, 64 * 64 * 2)
        cute.copy(atom, at, to, tma_bar_ptr=full)
    cute.arch.mbarrier_wait(full, 0)
    for step in range(32):
        place = step * 128 + thread
        target[place // 64, place % 64] = tile[place // 64, place % 64]


@cute.jit
def host(source: cute.Tensor, target: cute.Tensor):
    layout = cute.make_layout(TILE, stride=(64, 1))
    atom, tensor = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), source, layout, TILE)
    tile_copy(atom, tensor, target).launch(grid=(1, 1, 1), block=(128, 1, 1))


def tensor(*shape):
    return make_fake_compact_tensor(cutlass.Float16, shape, stride_order=(1, 0), assumed_align=16)


cute.compile(host, tensor(cute.sym_int(), 128), tensor(*TILE))
