"""A residual sum with its row sums of squares, and what a cross entropy needs of each row, run on the interpreter.

    python examples/reductions.py

A reduction is a result of the epilogue: a value for each row, for each column, or for all elements. Tiles store partial
results, and another launch reduces them in a fixed order.
"""

import numpy as np

import lowtide as lt

TARGET = lt.PerRow["s32"]


def residual(acc, x: lt.Full):
    total = acc + x
    return {"d": total, "squares": lt.sum(total * total, dim=1)}


def loss(acc, target: TARGET):
    return {"lse": lt.logsumexp(acc, dim=1), "wanted": lt.gather(acc, target)}


def main() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=residual)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")
    print(f"the order of sums: {kernel.summation}")
    inputs = lt.random_inputs(spec, 100, 72, 40, np.random.default_rng(0))
    references, bounds = lt.reference_with_bound(spec, **inputs)
    for level in ("cta", "ptx"):
        found = kernel.interpret(**inputs, level=level)
        outcome = lt.compare(spec, found["squares"], references["squares"], bounds["squares"])
        print(f"level {level}, the sums of squares of {found['squares'].size} rows: {outcome.message}")
        assert outcome.ok

    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=loss)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")
    inputs = lt.random_inputs(spec, 20, 100, 40, np.random.default_rng(0))
    inputs["target"] = np.arange(20, dtype=np.int32)
    found = kernel.interpret(**inputs)
    print(f"the mean cross entropy of 20 rows is {np.mean(found['lse'] - found['wanted']):.4f}")


if __name__ == "__main__":
    main()
