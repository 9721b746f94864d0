"""A torch model with Lowtide's layers: trained for a few steps, then compiled for inference.

Without a GPU, the layers use torch's own operations. The example needs torch.

    python examples/torch_mlp.py
"""

from lowtide.errors import DependencyError

try:
    from lowtide.torch import Linear
except DependencyError as error:
    print(f"not run: {error}")
    raise SystemExit from None

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(
    Linear(256, 512, activation="gelu", device=device),
    Linear(512, 64, device=device),
)
inputs = torch.randn(1024, 256, device=device)
targets = inputs[:, :64].sin()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

losses = []
for _ in range(20):
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = (model(inputs) - targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {len(losses)} steps")

fused = torch.compile(model, fullgraph=True) if device == "cuda" else model
with torch.inference_mode():
    difference = (fused(inputs) - model(inputs)).abs().max().item()
assert losses[-1] < 0.5 * losses[0]
print(f"trained on {device}; compiled outputs differ by {difference:.1g} at most")
