"""A layer of experts in torch, forward and backward, compared with a loop over experts in float64.

A router sends each token to two of eight experts. The rows of the products are sorted by expert, and `ends` has the end
of each expert's rows. The first product gathers the rows of the tokens. The second one scales its rows by the weights
of the router, and scatters them into slots of the tokens, which are then added in a fixed order. On a GPU, Lowtide's
kernels compute all products of groups, and the host reads nothing back. The example needs torch.

    python examples/torch_experts.py
"""

from lowtide.errors import DependencyError

try:
    from lowtide.torch import combine_slots, grouped_matmul, routes
except DependencyError as error:
    print(f"not run: {error}")
    raise SystemExit from None

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 256, 64, 96, 8, 2


def choices(x: torch.Tensor, router: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights of the experts of each token, and their numbers. Rounding must not change the numbers."""
    weights, experts = (x.double() @ router.double()).softmax(-1).topk(CHOSEN)
    return weights.to(x.dtype), experts


def by_groups(x: torch.Tensor, router: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    weights, experts = choices(x, router)
    ends, tokens, places = routes(experts, EXPERTS)
    hidden = torch.nn.functional.silu(grouped_matmul(x, up, ends, a_rows=tokens))
    weight = weights.flatten()[places.long()]
    slots = grouped_matmul(hidden, down, ends, d_rows=places, rows=experts.numel(), weight=weight)
    return combine_slots(slots, CHOSEN)


def by_a_loop(x: torch.Tensor, router: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    weights, experts = choices(x, router)
    found = torch.zeros_like(x)
    for expert in range(EXPERTS):
        token, place = (experts == expert).nonzero(as_tuple=True)
        own = torch.nn.functional.silu(x[token] @ up[expert]) @ down[expert]
        found = found.index_add(0, token, own * weights[token, place, None])
    return found


shapes = (TOKENS, WIDTH), (WIDTH, EXPERTS), (EXPERTS, WIDTH, HIDDEN), (EXPERTS, HIDDEN, WIDTH)
scales = 1.0, WIDTH**-0.5, WIDTH**-0.5, HIDDEN**-0.5
given = [(scale * torch.randn(*shape, device=device)).bfloat16() for shape, scale in zip(shapes, scales, strict=True)]
results = []
for layer, dtype in ((by_groups, torch.bfloat16), (by_a_loop, torch.float64)):
    own = [each.to(dtype).requires_grad_() for each in given]
    y = layer(*own)
    results.append([y.detach(), *torch.autograd.grad(y.square().sum(), own)])
for name, found, expected in zip(("y", "dx", "d router", "d up", "d down"), *results, strict=True):
    error = ((found.double() - expected).norm() / expected.norm()).item()
    print(f"{name} {tuple(found.shape)}: relative error {error:.1e}")
    assert error < 2**-5
print(f"on {device}: {EXPERTS} experts agree with a loop in float64")
