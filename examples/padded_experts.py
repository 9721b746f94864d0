"""Padded groups of rows: each expert has room for the same number of rows, and an array says how many it has.

Run on the interpreter.

    python examples/padded_experts.py

Libraries that send tokens between GPUs leave the rows of each expert in a buffer of fixed size. The kernel takes the
buffers as they are: A and D have a matrix for each expert. Only the device reads the numbers of rows. The other rows of
a buffer are not computed, so they cost nothing and may have any values.
"""

import ml_dtypes
import numpy as np

import lowtide as lt

EXPERTS, ROOM, N, K = 4, 100, 24, 72


def main() -> None:
    types = {"a": "bf16", "b": "bf16", "d": "bf16"}
    spec = lt.GemmSpec(n=N, k=K, batch=EXPERTS, counts=True, pairs="stacked", epilogue=lt.swiglu, **types)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [64, 32], stages = 2")
    print(next(line.strip() for line in kernel.levels["cta"].splitlines() if "tile.work_tiles" in line))

    rng = np.random.default_rng(0)
    shapes = {"a": (EXPERTS, ROOM, K), "b": (EXPERTS, 2 * N, K)}
    inputs = {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}
    for counts in ((70, 0, 1, 99), (0, 200, 0, 0)):  # 200 is more than there is room for
        inputs["counts"] = np.array(counts, np.int32)
        reference, bound = lt.reference_with_bound(spec, **inputs)
        d = np.full((EXPERTS, ROOM, N), 7, ml_dtypes.bfloat16)
        outcome = lt.compare(spec, kernel.interpret(**inputs, out=d, level="ptx"), reference, bound)
        print(f"{counts} rows: {outcome.message}")
        assert outcome.ok
        assert (d[np.arange(ROOM) >= inputs["counts"][:, None]] == 7).all()  # not written


if __name__ == "__main__":
    main()
