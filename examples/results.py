"""A GEMM with two results, the value before the activation beside the activation, run on the interpreter.

    python examples/results.py

The epilogue returns a dict. Each entry is a result of the kernel, with the shape of D and a type of its own; the values
that both need are computed once.
"""

import numpy as np

import lowtide as lt


def saved(acc, bias: lt.PerColumn):
    pre = acc + bias
    return {"pre": pre, "act": lt.gelu(pre)}


def main() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", result_types={"pre": "f32"}, epilogue=saved)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")

    inputs = lt.random_inputs(spec, 100, 72, 40, np.random.default_rng(0))
    references, bounds = lt.reference_with_bound(spec, **inputs)
    for level in ("cta", "ptx"):
        found = kernel.interpret(**inputs, level=level)
        for name, values in found.items():
            outcome = lt.compare(spec, values, references[name], bounds[name])
            print(f"level {level}, {name} of {values.dtype}: {outcome.message}")
            assert outcome.ok

    # Both results in one matrix, beside each other: rows of each are as far apart as those of the matrix.
    halves = lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=saved), target="sm_80")
    both = np.zeros((100, 144), inputs["a"].dtype)
    halves.interpret(**inputs, out={"pre": both[:, :72], "act": both[:, 72:]})
    print(f"pre and act in one matrix of {both.shape}: {both[0, 0]} and {both[0, 72]:.3f} in its first row")


if __name__ == "__main__":
    main()
