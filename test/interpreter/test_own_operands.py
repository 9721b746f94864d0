"""Default kernels run on their problem's own matrices: each type, layout and target, odd extents, open or not."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.elements import element_type
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.reference import error_bound, reference

LAYOUTS = ("tn", "tt", "nn", "nt")
TYPES = ("f16", "bf16", "f32", "tf32", "f64", "s8", "u8", "e4m3", "e5m2")
EXTENTS = ((17, 3, 5), (1, 1, 1), (33, 29, 7), (5, 7, 0))


def cases() -> list[Any]:
    """Each type on each target with two layouts, one with known extents and one with open ones; with the other two
    layouts on the other target."""
    found = []
    for number, dtype in enumerate(TYPES):
        is_fp8 = element_type(dtype).bits == 8 and element_type(dtype).is_float
        for turn, target in enumerate(["sm_89" if is_fp8 else "sm_80", "sm_90a"]):
            for step in (0, 1):
                layout = LAYOUTS[(number + 2 * turn + step) % 4]
                extents = EXTENTS[(number + turn + step) % 4]
                is_open = (number + step) % 2 == 1
                name = "-".join(map(str, (dtype, target, layout, *extents, "open" if is_open else "known")))
                found.append(pytest.param(dtype, target, layout, extents, is_open, id=name))
    return found


@pytest.mark.parametrize(("dtype", "target", "layout", "extents", "is_open"), cases())
def test_a_kernel_runs_on_its_problem_s_own_matrices(
    dtype: str, target: str, layout: str, extents: tuple[int, int, int], is_open: bool
) -> None:
    m, n, k = extents
    known: dict[str, Any] = {} if is_open else {"m": m, "n": n, "k": k}
    row = element_type(dtype)
    d = dtype if row.bits > 8 and dtype != "tf32" else "f32" if row.is_float else "s32"
    spec = lt.GemmSpec(a=dtype, b=dtype, d=d, layout=layout, **known)
    rng = np.random.default_rng(m + n + k)
    least = 0 if dtype == "u8" else -3
    a = rng.integers(least, 4, (m, k) if layout[0] == "t" else (k, m)).astype(numpy_dtype(dtype))
    b = rng.integers(least, 4, (n, k) if layout[1] == "n" else (k, n)).astype(numpy_dtype(dtype))
    out = np.empty((m, n), numpy_dtype(d))
    found = lt.compile_gemm(spec, target=target).interpret(a, b, out=out, level="ptx" if m % 2 else "nvvm")
    result = compare(spec, found, reference(spec, a, b), error_bound(spec, a, b))
    assert result.ok, result.message
