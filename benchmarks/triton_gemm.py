"""Triton limited to mma.sync (`arch="sm80"`): a `tn` GEMM, compared with Lowtide's schedules without wgmma."""

from collections.abc import Callable, Sequence

import triton
import triton.language as tl

from lowtide.measurement.bench.gpu_timing import Contender, Operands

CONFIGURATIONS = (
    # BM, BN, BK, warps, stages
    (128, 128, 32, 4, 4),
    (128, 128, 64, 4, 3),
    (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3),
    (256, 128, 32, 8, 4),
)


@triton.jit
def triton_gemm(
    a_ptr, b_ptr, d_ptr, m, n, k, lda, ldb, ldd,
    bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    """D (M, N) = A (M, K) · B (N, K)ᵀ, tiles in bands of `group` rows."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, bm), tl.cdiv(n, bn)
    band = group * tiles_n
    first = pid // band * group
    height = min(tiles_m - first, group)
    tile_m, tile_n = first + pid % band % height, pid % band // height
    rows, columns = tile_m * bm + tl.arange(0, bm), tile_n * bn + tl.arange(0, bn)
    depth = tl.arange(0, bk)
    a = a_ptr + rows[:, None] * lda + depth[None, :]
    b = b_ptr + columns[None, :] * ldb + depth[:, None]
    acc = tl.zeros((bm, bn), dtype=tl.float32)
    for _ in range(0, k, bk):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += bk
        b += bk
    tl.store(d_ptr + rows[:, None] * ldd + columns[None, :], acc.to(d_ptr.dtype.element_ty))


def contenders(sets: Sequence[Operands]) -> list[Contender]:
    """A contender for each configuration whose tiles divide the problem, because the kernel masks nothing. `tn`
    only."""
    m, k = sets[0].a.shape
    n = sets[0].b.shape[0]
    return [
        Contender(f"Triton mma.sync {configuration}", _launch(sets, configuration))
        for configuration in CONFIGURATIONS
        if not (m % configuration[0] or n % configuration[1] or k % configuration[2])
    ]


def _launch(sets: Sequence[Operands], configuration: tuple[int, ...]) -> Callable[[int], object]:
    bm, bn, bk, warps, stages = configuration

    def launch(i: int) -> None:
        a, b, d = sets[i].a, sets[i].b, sets[i].d
        m, k = a.shape
        n = b.shape[0]
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        triton_gemm[grid](
            a, b, d, m, n, k, a.stride(0), b.stride(0), d.stride(0),
            bm=bm, bn=bn, bk=bk, group=8, num_warps=warps, num_stages=stages, arch="sm80",
        )  # fmt: skip

    return launch
