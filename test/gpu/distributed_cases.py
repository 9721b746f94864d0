"""Checks of `lowtide.torch.distributed` that every rank runs, on a CPU or on GPUs; imported by the tests of both."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives

import lowtide as lt
from lowtide.torch import distributed

Op = Callable[..., Any]


def gelu_bias(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.gelu(acc + bias)


def residual(acc: Any, c: lt.Full, r: lt.PerRow, alpha: lt.Scalar) -> Any:
    return alpha * acc + c * r


EPILOGUES = {"none": None, "gelu_bias": gelu_bias, "residual": residual}


class Products:
    """The factors of all ranks, the same on each of them: for a gathered product rank r has the r-th rows of A and its
    own B; for a sum over ranks, its own A and B."""

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype, device: Any, seed: int = 0) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.m, self.n, self.k = shape
        self.dtype, self.device = dtype, device
        self._random = torch.Generator().manual_seed(seed)
        self.a = [self.draw(self.m, self.k) for _ in range(self.size)]
        self.b = [self.draw(self.k, self.n, by_columns=seed % 2 == 0) for _ in range(self.size)]

    def draw(self, *shape: int, by_columns: bool = False) -> torch.Tensor:
        shape = shape[::-1] if by_columns else shape
        x = torch.randn(shape, generator=self._random).to(self.dtype).to(self.device)
        return x.mT if by_columns else x

    def gathered(self) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's rows of the first A, and its B."""
        share = self.m // self.size
        return self.a[0][self.rank * share : (self.rank + 1) * share], self.b[self.rank]

    def operands(self, name: str, rows: int) -> dict[str, Any]:
        found = {
            "none": {},
            "gelu_bias": {"bias": self.draw(self.n)},
            "residual": {"c": self.draw(rows, self.n), "r": self.draw(rows), "alpha": 0.5},
        }
        return found[name]

    def sums(self) -> torch.Tensor:
        """The sum over ranks, in f64."""
        parts = [a.double() @ b.double() for a, b in zip(self.a, self.b, strict=True)]
        return torch.stack(parts).sum(0)

    def own(self, whole: torch.Tensor) -> torch.Tensor:
        share = self.m // self.size
        return whole[self.rank * share : (self.rank + 1) * share]


def expected(sums: torch.Tensor, name: str, operands: dict[str, Any]) -> torch.Tensor:
    if name == "gelu_bias":
        return torch.nn.functional.gelu(sums + operands["bias"].double())
    if name == "residual":
        return operands["alpha"] * sums + operands["c"].double() * operands["r"].double()[:, None]
    return sums


def assert_close(found: torch.Tensor, wanted: torch.Tensor, k: int, parts: int = 1) -> None:
    """Within the roundings of D's type and of the parts, for sums of `k` products of normal numbers."""
    assert tuple(found.shape) == tuple(wanted.shape), (found.shape, wanted.shape)
    unit = torch.finfo(found.dtype).eps
    allowed = 2 * unit * (wanted.abs() + (parts + 1) * k**0.5 + 1) + 1e-5 * k**0.5
    excess = ((found.double() - wanted).abs() - allowed).max().item() if found.numel() else -1.0
    assert excess <= 0, f"too far from float64 by {excess}"


def check_values(shape: tuple[int, int, int], dtype: torch.dtype, device: Any, name: str, seed: int = 0) -> None:
    """All three ops against float64, with an epilogue."""
    of, epilogue = Products(shape, dtype, device, seed), EPILOGUES[name]
    rows, b = of.gathered()
    operands = of.operands(name, of.m)
    found = distributed.all_gather_matmul(rows, b, epilogue=epilogue, **operands)
    assert_close(found, expected(of.a[0].double() @ b.double(), name, operands), of.k)

    a, b, sums = of.a[of.rank], of.b[of.rank], of.sums()
    whole = of.operands(name, of.m)
    of_rows = whole | {key: of.own(whole[key]) for key in ("c", "r") if key in whole}
    scattered = distributed.matmul_reduce_scatter(a, b, epilogue=epilogue, **of_rows)
    assert_close(scattered, of.own(expected(sums, name, whole)), of.k * of.size, of.size)
    out = torch.empty_like(scattered)
    assert distributed.matmul_reduce_scatter(a, b, epilogue=epilogue, out=out, **of_rows) is out
    assert torch.equal(out, scattered)
    reduced = distributed.matmul_all_reduce(a, b, epilogue=epilogue, **whole)
    assert_close(reduced, expected(sums, name, whole), of.k * of.size, of.size)
    assert torch.equal(of.own(reduced), scattered)


def check_gradients(shape: tuple[int, int, int], dtype: torch.dtype, device: Any, activation: str = "gelu") -> None:
    """A column-parallel layer, then a row-parallel one, against the same product on one rank in f64."""
    m, n, k = shape
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    up = distributed.ColumnParallelLinear(k, n * size, activation=activation, device=device, dtype=dtype)
    down = distributed.RowParallelLinear(n * size, k, device=device, dtype=dtype)
    with torch.no_grad():
        whole_up, whole_down = (0.1 * torch.randn(s, dtype=torch.float64) for s in ((n * size, k), (k, n * size)))
        x, target = torch.randn(m, k, dtype=torch.float64), torch.randn(m, k, dtype=torch.float64)
        whole_up, whole_down, x, target = (
            each.to(dtype).to(device).double() for each in (whole_up, whole_down, x, target)
        )
        up.weight.copy_(whole_up[rank * n : (rank + 1) * n])
        down.weight.copy_(whole_down[:, rank * n : (rank + 1) * n])
    share = slice(rank * m // size, (rank + 1) * m // size)
    own = x[share].to(dtype).requires_grad_()
    (down(up(own)) * target[share].to(dtype)).sum().backward()

    whole_up.requires_grad_(), whole_down.requires_grad_(), x.requires_grad_()
    hidden = getattr(torch.nn.functional, activation)(x @ whole_up.mT)
    (hidden @ whole_down.mT * target).sum().backward()
    pairs = {
        "x": (own.grad, x.grad[share]),
        "up": (up.weight.grad, whole_up.grad[rank * n : (rank + 1) * n]),
        "down": (down.weight.grad, whole_down.grad[:, rank * n : (rank + 1) * n]),
    }
    for name, (found, wanted) in pairs.items():
        error = (found.double() - wanted).abs().max() / wanted.abs().max()
        assert error < 8 * torch.finfo(dtype).eps, (name, error)


def check_ragged(rows: list[int], shape: tuple[int, int], dtype: torch.dtype, device: Any, name: str) -> None:
    """Ranks with different numbers of rows, against float64: values with an epilogue, and gradients."""
    n, k = shape
    of, epilogue, m = Products((sum(rows), n, k), dtype, device), EPILOGUES[name], sum(rows)
    first = sum(rows[: of.rank])
    own, whole = slice(first, first + rows[of.rank]), of.operands(name, m)
    found = distributed.all_gather_matmul(of.a[0][own], of.b[of.rank], rows=rows, epilogue=epilogue, **whole)
    assert_close(found, expected(of.a[0].double() @ of.b[of.rank].double(), name, whole), k)
    of_rows = whole | {key: whole[key][own] for key in ("c", "r") if key in whole}
    a, b = of.a[of.rank], of.b[of.rank]
    scattered = distributed.matmul_reduce_scatter(a, b, rows=rows, epilogue=epilogue, **of_rows)
    sums = expected(of.sums(), name, whole)
    assert_close(scattered, sums[own], k * of.size, of.size)
    out = torch.empty_like(found)
    distributed.all_gather_matmul(of.a[0][own], b, rows=rows, out=out, epilogue=epilogue, **whole)
    assert torch.equal(out, found)
    shares = [x.shape[0] for x in torch.empty(m, 0).chunk(of.size)]
    shares += [0] * (of.size - len(shares))
    chunk = distributed.matmul_reduce_scatter(a, b)
    at = sum(shares[: of.rank])
    assert_close(chunk, of.sums()[at : at + shares[of.rank]], k * of.size, of.size)
    assert_close(distributed.matmul_all_reduce(a, b), of.sums(), k * of.size, of.size)
    _check_ragged_gradients(of, rows, own)


def _check_ragged_gradients(of: Products, rows: list[int], own: slice) -> None:
    """Of the sum over ranks of gelu(gathered A · own B) · own Bᵀ."""
    x, weight, target = of.a[0][own].clone(), of.b[of.rank].clone(), of.draw(of.m, of.k)
    x.requires_grad_(), weight.requires_grad_()
    hidden = torch.nn.functional.gelu(distributed.all_gather_matmul(x, weight, rows=rows))
    (distributed.matmul_reduce_scatter(hidden, weight.mT, rows=rows) * target[own]).sum().backward()
    whole = of.a[0].double().requires_grad_()
    weights = [b.double().requires_grad_() for b in of.b]
    total = sum(torch.nn.functional.gelu(whole @ b) @ b.mT for b in weights)
    (total * target.double()).sum().backward()
    for found, wanted in ((x.grad, whole.grad[own]), (weight.grad, weights[of.rank].grad)):
        error = (found.double() - wanted).norm()
        assert error <= 8 * torch.finfo(found.dtype).eps * wanted.norm(), error


def check_scales(rows: list[int], shape: tuple[int, int], device: Any, name: str) -> None:
    """A and B of e4m3 with scales of rows and columns, within the bound of a product of one GPU."""
    n, k = shape
    of, m = Products((sum(rows), n, k), torch.float32, device), sum(rows)
    first = sum(rows[: of.rank])
    own, operands = slice(first, first + rows[of.rank]), of.operands(name, m)
    operands = {key: x.bfloat16() if isinstance(x, torch.Tensor) else x for key, x in operands.items()}
    a, b = of.a[0].to(torch.float8_e4m3fn), of.b[of.rank].mT.contiguous().to(torch.float8_e4m3fn).mT
    scale_a, scale_b = of.draw(m), of.draw(n)
    asked = None if len({*rows}) == 1 else rows
    given = {"scale_a": scale_a[own], "scale_b": scale_b, "epilogue": EPILOGUES[name], **operands}
    found = distributed.all_gather_matmul(a[own], b, rows=asked, **given)
    assert found.dtype == torch.bfloat16
    wide = (a.double() @ b.double()) * scale_a.double()[:, None] * scale_b.double()
    assert_close(found, expected(wide, name, operands), 16 * k)
    if name == "none":
        spec = lt.GemmSpec(m=m, n=n, k=k, a="e4m3", b="e4m3", d="bf16", epilogue=_scaled)
        lying = {"a": a, "b": b.mT, "scale_a": scale_a, "scale_b": scale_b}
        bound = lt.error_bound(spec, **{key: _as_numpy(x) for key, x in lying.items()})
        excess = (found.double() - wide).abs().cpu() - torch.from_numpy(bound)
        assert excess.max() <= 0, excess.max()


def _scaled(acc: Any, scale_a: lt.PerRow["f32"], scale_b: lt.PerColumn["f32"]) -> Any:  # noqa: F821
    return acc * scale_a * scale_b


def _as_numpy(x: torch.Tensor) -> Any:
    if x.dtype != torch.float8_e4m3fn:
        return x.cpu().numpy()
    return x.cpu().contiguous().view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn)


def check_compiled(compiled: Op, rows: int, shape: tuple[int, int], device: Any, prepared: Op | None = None) -> None:
    """`mlp`, compiled, against float64. `prepared`: takes this rank's rows before they are passed."""
    (hidden, k), of = shape, Products((rows * dist.get_world_size(), shape[0], shape[1]), torch.bfloat16, device)
    bias = [of.draw(hidden) for _ in range(of.size)]
    down = [(b.mT * hidden**-0.5).to(b.dtype) for b in of.b]
    x = of.own(of.a[0]).clone()
    found = compiled(x if prepared is None else prepared(x), of.b[of.rank], bias[of.rank], down[of.rank])
    parts = [
        torch.relu(of.a[0].double() @ b.double() + c.double()) @ d.double()
        for b, c, d in zip(of.b, bias, down, strict=True)
    ]
    wanted = of.own(torch.stack(parts).sum(0))
    error = (found.double() - wanted).norm() / wanted.norm()
    assert tuple(found.shape) == (rows, k) and error < 2**-6, error


def mlp(x: torch.Tensor, up: torch.Tensor, bias: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Each rank has its rows of x and of the result, and its columns of the hidden layer."""
    group = dist.group.WORLD
    hidden = torch.relu(collectives.all_gather_tensor(x, 0, group) @ up + bias)
    return collectives.reduce_scatter_tensor(hidden @ down, "sum", 0, group)
