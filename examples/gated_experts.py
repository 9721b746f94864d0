"""A layer of gated experts as two kernels, on the GPU, or on the interpreter without one, compared with a loop over
experts in float64.

    python examples/gated_experts.py

Each token was sent to an expert, and the tokens are sorted by expert. The first kernel computes gate and up of each
expert, and combines them by SwiGLU. The second kernel multiplies by the expert's other matrix, adds its bias, and
scales each row by the weight that the router gave the token.
"""

import importlib.util

import ml_dtypes
import numpy as np

import lowtide as lt

EXPERTS, ROWS, WIDTH, HIDDEN = 4, 150, 64, 48
torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def weighted(acc, bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (acc + bias)


UP = lt.GemmSpec(n=HIDDEN, k=WIDTH, groups=EXPERTS, a="bf16", b="bf16", d="bf16", pairs="stacked", epilogue=lt.swiglu)
DOWN = lt.GemmSpec(n=WIDTH, k=HIDDEN, groups=EXPERTS, a="bf16", b="bf16", d="bf16", epilogue=weighted)


def on_the_interpreter(x, up, down, bias, weight, ends):
    schedule = "grid.tile = [64, 32], stages = 2"
    first, second = (lt.compile_gemm(spec, target="sm_90a", schedule=schedule) for spec in (UP, DOWN))
    hidden = first.interpret(x, up, ends=ends)
    return second.interpret(hidden, down, bias=bias, weight=weight, ends=ends)


def on_the_gpu(*arrays):
    x, up, down, bias, weight = (torch.from_numpy(each.astype("f4")).to("cuda", torch.bfloat16) for each in arrays[:-1])
    ends = torch.from_numpy(arrays[-1]).cuda()
    hidden = lt.grouped_matmul(x, up.mT, ends, epilogue=lt.swiglu, pairs="stacked")
    y = lt.grouped_matmul(hidden, down.mT, ends, epilogue=weighted, bias=bias, weight=weight)
    return y.float().cpu().numpy()


def by_a_loop(x, up, down, bias, weight, ends):
    """The layer, computed in float64 by a loop over experts."""
    x, up, down, bias, weight = (each.astype(np.float64) for each in (x, up, down, bias, weight))
    y, first = np.zeros((ROWS, WIDTH)), 0
    for expert, end in enumerate(ends):
        gate, value = np.split(x[first:end] @ up[expert].T, 2, axis=1)
        hidden = gate / (1 + np.exp(-gate)) * value
        y[first:end] = weight[first:end, None] * (hidden @ down[expert].T + bias[expert])
        first = end
    return y


def main() -> None:
    rng = np.random.default_rng(0)
    shapes = (ROWS, WIDTH), (EXPERTS, 2 * HIDDEN, WIDTH), (EXPERTS, WIDTH, HIDDEN), (EXPERTS, WIDTH), (ROWS,)
    arrays = [(shape[-1] ** -0.5 * rng.standard_normal(shape)).astype(ml_dtypes.bfloat16) for shape in shapes]
    has_gpu = torch is not None and torch.cuda.is_available()
    layer = on_the_gpu if has_gpu else on_the_interpreter
    for counts in ((70, 0, 1, 79), (0, 0, 150, 0)):  # rows of each expert
        ends = np.cumsum(counts, dtype=np.int32)
        expected = by_a_loop(*arrays, ends)
        error = np.linalg.norm(layer(*arrays, ends).astype(np.float64) - expected) / np.linalg.norm(expected)
        print(f"{counts} rows {'on the GPU' if has_gpu else 'on the interpreter'}: relative error {error:.1e}")
        assert error < 2**-7


if __name__ == "__main__":
    main()
