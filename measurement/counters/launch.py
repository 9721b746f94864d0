"""Launch a saved kernel once on random operands: `python -m lowtide.measurement.counters.launch FOLDER`.

ncu runs this, in a process of its own. It needs torch and a GPU, but no compiler.
"""

import importlib
import sys
from typing import Any

from lowtide.elements import element_type
from lowtide.runtime import load


def launch(folder: str) -> None:
    """Launch the kernel once. Its extents must be known. A is (M, K), or (K, M) for nn and nt. B is (N, K), or (K, N)
    for tt and nt. Both are contiguous, with values from a normal distribution, or from 0 to 2 for integers. Raises the
    errors of loading and launching."""
    kernel = load(folder)
    torch = importlib.import_module("torch")
    spec = kernel.manifest["spec"]
    m, n, k, layout = spec["m"], spec["n"], spec["k"], spec["layout"]
    a = _drawn(torch, (m, k) if layout[0] == "t" else (k, m), spec["a"])
    b = _drawn(torch, (n, k) if layout[1] == "n" else (k, n), spec["b"])
    kernel(a, b)
    torch.cuda.synchronize()


def _drawn(torch: Any, shape: tuple[int, int], dtype: str) -> Any:
    row = element_type(dtype)
    drawn = torch.randn(shape, device="cuda") if row.is_float else torch.randint(0, 3, shape, device="cuda")
    return drawn.to(getattr(torch, row.library))


if __name__ == "__main__":
    launch(sys.argv[1])
