"""QuACK, a library of Hopper kernels in CuTe DSL: its `tn` GEMM with its default tile, and tuned.

    pip install quack-kernels

The first call of a kernel takes about 10 s; tuning takes 10 to 40 s per problem.
"""

from collections.abc import Callable, Sequence

from quack.gemm_interface import gemm

from lowtide.measurement.bench.gpu_timing import Contender, Operands


def contenders(sets: Sequence[Operands]) -> list[Contender]:
    return [Contender("QuACK", _launch(sets, False)), Contender("QuACK, tuned", _launch(sets, True))]


def _launch(sets: Sequence[Operands], tuned: bool) -> Callable[[int], object]:
    """A (M, K) · B (N, K)ᵀ."""

    def launch(i: int) -> object:
        return gemm(sets[i].a, sets[i].b.t(), out=sets[i].d, tuned=tuned)

    return launch
