"""An MLP whose weights are divided among ranks, forward and backward, compared with the whole MLP on one rank.

    torchrun --nproc-per-node 4 examples/tensor_parallel_mlp.py

Each rank has a part of the tokens. The first layer gathers them while it multiplies, the second one adds the ranks'
products and scatters the rows. With GPUs of one host that reach each other, the data move while tiles are computed.
Elsewhere, and on a CPU, plain collectives of torch are taken. Without torchrun there is one rank. The example needs
torch.
"""

import os

from lowtide.errors import DependencyError

try:
    from lowtide.torch.distributed import ColumnParallelLinear, RowParallelLinear, check_ranks
except DependencyError as error:
    print(f"not run: {error}")
    raise SystemExit from None

import torch
import torch.distributed as dist

on_gpus = torch.cuda.is_available()
if "RANK" in os.environ:
    dist.init_process_group("nccl" if on_gpus else "gloo")
else:
    dist.init_process_group("nccl" if on_gpus else "gloo", store=dist.HashStore(), rank=0, world_size=1)
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if on_gpus else torch.device("cpu")
if on_gpus:
    torch.cuda.set_device(device)
dtype = torch.bfloat16 if on_gpus else torch.float32
tokens, width, hidden = (4096, 1024, 4096) if on_gpus else (64, 32, 128)

torch.manual_seed(0)  # the same whole MLP on all ranks, in f32
x = torch.randn(tokens, width).to(dtype).float().to(device)
up = (torch.randn(hidden, width) * width**-0.5).to(dtype).float().to(device).requires_grad_()
down = (torch.randn(width, hidden) * hidden**-0.5).to(dtype).float().to(device).requires_grad_()
whole = torch.relu(x @ up.mT) @ down.mT
whole.square().sum().backward()

first = ColumnParallelLinear(width, hidden, bias=False, activation="relu", device=device, dtype=dtype)
second = RowParallelLinear(hidden, width, bias=False, device=device, dtype=dtype)
features = slice(rank * hidden // size, (rank + 1) * hidden // size)
rows = slice(rank * tokens // size, (rank + 1) * tokens // size)
with torch.no_grad():
    first.weight.copy_(up[features])
    second.weight.copy_(down[:, features])
own = second(first(x[rows].to(dtype)))
own.float().square().sum().backward()
if on_gpus:
    check_ranks()


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return ((found.float() - wanted).abs().max() / wanted.abs().max()).item()


errors = {
    "the result": error(own, whole[rows]),
    "the gradient of the first weight": error(first.weight.grad, up.grad[features]),
    "of the second": error(second.weight.grad, down.grad[:, features]),
}
assert all(value < (0.05 if on_gpus else 1e-4) for value in errors.values()), errors
if rank == 0:
    print(
        f"{size} rank(s) on {device.type}: "
        + ", ".join(f"{name} differs by {value:.1g}" for name, value in errors.items())
    )
dist.destroy_process_group()
