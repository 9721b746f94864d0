"""A layer of gated experts as two kernels, on the GPU, or on the interpreter without one, compared with a loop over
tokens in float64.

    python examples/gated_experts.py

Each token is sent to several experts. The rows of the products are sorted by expert. The first kernel takes the rows of
the tokens at an index, computes gate and up of each expert, and combines them by SwiGLU. The second kernel multiplies
by the expert's other matrix, adds its bias, and scales each row by the weight that the router gave the token. It stores
each row at an index, into a slot of its token. At the end the slots of each token are added in a fixed order, so all
bits repeat; an index_add would add them by atomic operations, in any order.
"""

import importlib
import importlib.util

import ml_dtypes
import numpy as np

import lowtide as lt

EXPERTS, TOKENS, SLOTS, WIDTH, HIDDEN = 4, 75, 2, 64, 48
torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def weighted(acc, bias: lt.PerColumn, weight: lt.PerRow):
    return weight * (acc + bias)


TYPES = {"a": "bf16", "b": "bf16", "d": "bf16", "groups": EXPERTS}
UP = lt.GemmSpec(n=HIDDEN, k=WIDTH, **TYPES, pairs="stacked", epilogue=lt.swiglu, a_rows=True)
DOWN = lt.GemmSpec(n=WIDTH, k=HIDDEN, **TYPES, epilogue=weighted, d_rows=True)


def on_the_interpreter(x, up, down, bias, weights, experts):
    schedule = "grid.tile = [64, 32], stages = 2"
    first, second = (lt.compile_gemm(spec, target="sm_90a", schedule=schedule) for spec in (UP, DOWN))
    # lowtide.torch.routes in numpy: slots sorted by expert, and where the rows of each expert end
    order = np.argsort(experts.ravel(), kind="stable")
    ends = np.searchsorted(experts.ravel()[order], np.arange(EXPERTS), side="right").astype(np.int32)
    tokens, places = (order // SLOTS).astype(np.int32), order.astype(np.int32)
    hidden = first.interpret(x, up, ends=ends, a_rows=tokens)
    slots = np.zeros((TOKENS * SLOTS, WIDTH), x.dtype)
    weight = weights.ravel()[order]
    second.interpret(hidden, down, bias=bias, weight=weight, ends=ends, d_rows=places, out=slots)
    return slots.astype(np.float32).reshape(TOKENS, SLOTS, WIDTH).sum(axis=1)


def on_the_gpu(*arrays):
    routing = importlib.import_module("lowtide.torch")
    x, up, down, bias, weights = (
        torch.from_numpy(each.astype("f4")).to("cuda", torch.bfloat16) for each in arrays[:-1]
    )
    ends, tokens, places = routing.routes(torch.from_numpy(arrays[-1]).cuda(), EXPERTS)
    hidden = lt.grouped_matmul(x, up.mT, ends, epilogue=lt.swiglu, pairs="stacked", a_rows=tokens)
    slots = torch.zeros(TOKENS * SLOTS, WIDTH, dtype=x.dtype, device="cuda")
    weight = weights.flatten()[places.long()]
    lt.grouped_matmul(hidden, down.mT, ends, epilogue=weighted, bias=bias, weight=weight, d_rows=places, out=slots)
    return routing.combine_slots(slots, SLOTS).float().cpu().numpy()


def by_a_loop(x, up, down, bias, weights, experts):
    """The layer, computed in float64 by a loop over tokens and their experts."""
    x, up, down, bias, weights = (each.astype(np.float64) for each in (x, up, down, bias, weights))
    y = np.zeros((TOKENS, WIDTH))
    for token, slot in np.ndindex(TOKENS, SLOTS):
        expert = experts[token, slot]
        gate, value = np.split(up[expert] @ x[token], 2)
        hidden = gate / (1 + np.exp(-gate)) * value
        y[token] += weights[token, slot] * (down[expert] @ hidden + bias[expert])
    return y


def main() -> None:
    rng = np.random.default_rng(0)
    shapes = (TOKENS, WIDTH), (EXPERTS, 2 * HIDDEN, WIDTH), (EXPERTS, WIDTH, HIDDEN), (EXPERTS, WIDTH), (TOKENS, SLOTS)
    arrays = [(shape[-1] ** -0.5 * rng.standard_normal(shape)).astype(ml_dtypes.bfloat16) for shape in shapes]
    has_gpu = torch is not None and torch.cuda.is_available()
    layer = on_the_gpu if has_gpu else on_the_interpreter
    for chosen in ((0, 1, 3), (2, 3)):  # the experts that tokens are sent to
        experts = np.stack([rng.permutation(chosen)[:SLOTS] for _ in range(TOKENS)]).astype(np.int32)
        found, expected = layer(*arrays, experts), by_a_loop(*arrays, experts)
        error = np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected)
        print(f"experts {chosen} {'on the GPU' if has_gpu else 'on the interpreter'}: relative error {error:.1e}")
        assert error < 2**-7 and np.array_equal(found, layer(*arrays, experts))


if __name__ == "__main__":
    main()
