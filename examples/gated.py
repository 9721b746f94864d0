"""A gated MLP's first product, silu(x · gateᵀ) · (x · upᵀ), as one kernel, run on the interpreter.

    python examples/gated.py

B has the rows of both weights. The epilogue takes both accumulators of an element of D, so neither product is stored in
memory. If the rows of the weights alternate, they need no copy either: pairs="interleaved".
"""

import numpy as np

import lowtide as lt


def swiglu(gate, up):
    return lt.silu(gate) * up


def main() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", pairs="stacked", epilogue=swiglu)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")

    inputs = lt.random_inputs(spec, 100, 72, 40, np.random.default_rng(0))  # a (100, 40), b (144, 40): [gate; up]
    reference, bound = lt.reference_with_bound(spec, **inputs)
    for level in ("cta", "ptx"):
        outcome = lt.compare(spec, kernel.interpret(**inputs, level=level), reference, bound)
        print(f"level {level}: {outcome.message}")
        assert outcome.ok

    # The same weights with alternating rows, gate before up.
    rows = inputs["b"].reshape(2, 72, 40).swapaxes(0, 1).reshape(144, 40)
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", pairs="interleaved", epilogue=swiglu)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")
    outcome = lt.compare(spec, kernel.interpret(inputs["a"], rows), reference, bound)
    print(f"interleaved: {outcome.message}")
    assert outcome.ok


if __name__ == "__main__":
    main()
