"""A product of groups of rows, such as the experts of a mixture of experts, run on the interpreter.

    python examples/experts.py

Each expert multiplies the rows that were sent to it by weights of its own. The rows of an expert lie together, and an
array on the device says where those of each expert end. The host never reads it: one kernel serves all splits, with
empty experts and any number of rows for the others.
"""

import ml_dtypes
import numpy as np

import lowtide as lt

EXPERTS, ROWS, N, K = 4, 150, 48, 72


def main() -> None:
    spec = lt.GemmSpec(n=N, k=K, groups=EXPERTS, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [64, 16], stages = 2")
    print(next(line.strip() for line in kernel.levels["cta"].splitlines() if "tile.work_tiles" in line))

    rng = np.random.default_rng(0)
    shapes = {"a": (ROWS, K), "b": (EXPERTS, N, K)}
    inputs = {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}
    for counts in ((70, 0, 1, 79), (0, 0, 100, 0)):  # rows of each expert; the last 50 rows then belong to none
        inputs["ends"] = np.cumsum(counts, dtype=np.int32)
        reference, bound = lt.reference_with_bound(spec, **inputs)
        for level in ("cta", "ptx"):
            d = np.full((ROWS, N), 7, ml_dtypes.bfloat16)
            outcome = lt.compare(spec, kernel.interpret(**inputs, out=d, level=level), reference, bound)
            print(f"{counts} rows, level {level}: {outcome.message}")
            assert outcome.ok
            assert (d[inputs["ends"][-1] :] == 7).all()  # not written


if __name__ == "__main__":
    main()
