"""Products with reductions or a second result, beside Lowtide's plain product of the same A and B, and torch.compile.

The results of each contender are compared with float64, on some rows, before it is timed. Operands rotate over sets
that together exceed L2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.epilogue.backward import activated_backward, gated_backward
from lowtide.compiler.epilogue.functions import gelu
from lowtide.compiler.epilogue.operands import Full, OperandKind, OperandType, PerColumn
from lowtide.compiler.epilogue.reductions import gather, logsumexp, sum
from lowtide.compiler.native import native_target
from lowtide.compiler.spec import GemmSpec
from lowtide.measurement.bench.case_races import OWN, CaseRace, Launch
from lowtide.measurement.bench.gpu_timing import (
    L2_MULTIPLE_BYTES,
    ChoosePace,
    Contender,
    random_matrix,
    settled,
    torch_with_gpu,
)

PLAIN, COMPILED = "plain product", "torch.compile"
_CHECKED_ROWS = 16
_MOST_ERROR = 2.0**-6  # relative to the norm: peers round the product to bf16 before they reduce it
_BYTES = 2  # of bf16


def residual(acc: Any, x: Full) -> Any:
    """A residual sum, and the sum of squares of each row."""
    total = acc + x
    return {"d": total, "squares": sum(total * total, dim=1)}


def loss(acc: Any, target: Any) -> Any:
    """What a cross entropy needs of each row of logits, which are not stored."""
    return {"lse": logsumexp(acc, dim=1), "wanted": gather(acc, target)}


loss.__annotations__["target"] = OperandType(OperandKind.PER_ROW, "s32")  # as PerRow["s32"], which mypy does not know


def saved(acc: Any, bias: PerColumn) -> Any:
    """An activation, and its argument for the backward pass."""
    pre = acc + bias
    return {"d": gelu(pre), "pre": pre}


@dataclass(frozen=True)
class Case:
    """A is (M, K), B is (N, K), or (K, N) for the layout "tt", in bf16."""

    name: str
    m: int
    n: int
    k: int
    epilogue: Callable[..., Any]
    layout: str = "tn"

    def __str__(self) -> str:
        return f"{self.name}, {self.m}×{self.n}×{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def set_bytes(self) -> int:
        """The bytes of A, B and D."""
        return _BYTES * (self.m * self.k + self.n * self.k + self.m * self.n)

    def spec(self, epilogue: Callable[..., Any] | None) -> GemmSpec:
        """The product with an epilogue."""
        m, n, k = self.m, self.n, self.k
        return GemmSpec(m=m, n=n, k=k, a="bf16", b="bf16", d="bf16", layout=self.layout, epilogue=epilogue)

    def product(self, a: Any, b: Any) -> Any:
        """A · B of torch tensors."""
        return a @ (b if self.layout == "tt" else b.mT)


GATED_BACKWARD, GELU_BACKWARD = gated_backward("silu"), activated_backward("gelu")
_FULL = {residual: ("x",), GATED_BACKWARD: ("gate", "up"), GELU_BACKWARD: ("pre",)}  # operands (M, N)

CASES = (
    Case("residual, its row sums of squares", 8192, 8192, 8192, residual),
    Case("projection with log-sum-exp and target", 8192, 128256, 4096, loss),
    Case("bias, GELU, pre-activation saved", 8192, 8192, 8192, saved),
    Case("dSwiGLU with the activation", 8192, 14336, 4096, GATED_BACKWARD, "tt"),
    Case("dGELU and bias gradient", 8192, 8192, 8192, GELU_BACKWARD, "tt"),
)


class Race(CaseRace):
    """The times of a case."""

    PEERS = (PLAIN, COMPILED)


HEADINGS = Race.headings("case")


def race_case(case: Case, rounds: int, seed: int, choose_pace: ChoosePace = settled) -> Race:
    """Race the contenders of a case. Raises DeviceError without torch and a GPU."""
    torch = torch_with_gpu()
    torch.cuda.empty_cache()  # of the case before
    found, sets = Race(case), _sets(torch, case, seed)
    expected = _expected(torch, case, sets[0])
    made = {name: partial(make, found) for name, make in _contenders(torch, case, sets).items()}
    found.run(made, lambda one: _complaint(torch, one, expected), len(sets), (rounds, seed, choose_pace))
    return found


def _sets(torch: Any, case: Case, seed: int) -> list[dict[str, Any]]:
    """Sets of random operands by name, together larger than L2. One is enough if it is larger alone."""
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def made() -> dict[str, Any]:
        shapes: dict[str, tuple[int | None, ...]] = {"a": (case.m, case.k), "b": case.spec(None).b_shape}
        shapes |= dict.fromkeys(_FULL.get(case.epilogue, ()), (case.m, case.n))
        shapes |= {"bias": (case.n,)} if case.epilogue is saved else {}
        found = {name: random_matrix(torch, shape, "bf16", generator) for name, shape in shapes.items()}
        if case.epilogue is loss:
            found["b"].div_(case.k**0.5)
            draw = {"device": "cuda", "generator": generator, "dtype": torch.int32}
            found["target"] = torch.randint(case.n, (case.m,), **draw)
        return found

    return [made() for _ in range(max(1, -(-L2_MULTIPLE_BYTES // case.set_bytes)))]


def _contenders(torch: Any, case: Case, sets: Sequence[Mapping[str, Any]]) -> dict[str, Callable[[Race], Launch]]:
    """By name: makes the launch of set i, which returns results by name."""
    target = native_target()[0].name

    def own(race: Race) -> Launch:
        kernel = compile_gemm(case.spec(case.epilogue), target)
        race.schedule = " ".join(str(kernel.schedule).split())
        found = [_with_halves(torch, case, kernel(**one)) for one in sets]
        for named in found:
            for values in named.values():
                values.fill_(torch.nan)
        outs = [_halves(named) for named in found]

        def launch(i: int) -> dict[str, Any]:
            kernel(**sets[i], out=outs[i])
            return found[i]

        return launch

    def plain(race: Race) -> Launch:
        kernel = compile_gemm(case.spec(None), target)
        outs = [torch.full((case.m, case.n), torch.nan, dtype=torch.bfloat16, device="cuda") for _ in sets]
        return lambda i: {"d": kernel(sets[i]["a"], sets[i]["b"], out=outs[i])}

    def compiled(race: Race) -> Launch:
        function = torch.compile(
            lambda one: results_of(torch, case, case.product(one["a"], one["b"]), one), dynamic=False
        )
        return lambda i: function(sets[i])

    return {OWN: own, PLAIN: plain, COMPILED: compiled}


def _with_halves(torch: Any, case: Case, out: dict[str, Any]) -> dict[str, Any]:
    """The results, with `dgate` and `dup` as one matrix `both`."""
    if case.epilogue is not GATED_BACKWARD:
        return out
    return {"both": torch.cat([out["dgate"], out["dup"]], dim=1), "hidden": out["hidden"]}


def _halves(found: Mapping[str, Any]) -> dict[str, Any]:
    """The results by the names that the kernel gives them. `dgate` and `dup` are views of the halves of `both`."""
    out = dict(found)
    if "both" in out:
        out["dgate"], out["dup"] = out.pop("both").chunk(2, dim=1)
    return out


def results_of(torch: Any, case: Case, product: Any, one: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a case from the product, as a model in torch computes them."""
    if case.epilogue is residual:
        total = product + one["x"]
        return {"d": total, "squares": total.to(_wide(torch, product)).square().sum(dim=1)}
    if case.epilogue is loss:
        logits = product.to(_wide(torch, product))
        wanted = logits.gather(1, one["target"].long()[:, None])[:, 0]
        return {"lse": logits.logsumexp(dim=1), "wanted": wanted}
    if case.epilogue is GATED_BACKWARD:
        gate, up = (one[name].to(product.dtype) for name in ("gate", "up"))
        value = torch.nn.functional.silu(gate)
        dgate = torch.ops.aten.silu_backward(product * up, gate)
        return {"both": torch.cat([dgate, product * value], dim=1), "hidden": value * up}
    if case.epilogue is GELU_BACKWARD:
        pre = one["pre"].to(product.dtype)
        dpre = torch.ops.aten.gelu_backward(product, pre)
        dbias = dpre.to(_wide(torch, product)).sum(dim=0)
        return {"dpre": dpre, "dbias": dbias, "hidden": torch.nn.functional.gelu(pre)}
    pre = product + one["bias"]
    return {"d": torch.nn.functional.gelu(pre), "pre": pre}


def _wide(torch: Any, product: Any) -> Any:
    """The type that sums of a product's values are computed in."""
    return torch.promote_types(product.dtype, torch.float32)


def _expected(torch: Any, case: Case, one: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """Some rows, and by name the part of each result for these rows, in float64. `dbias` is the sum over all rows."""
    rows = [0, case.m - 1, *torch.randperm(case.m)[:_CHECKED_ROWS].tolist()]
    part = {
        name: values[rows] if name in (*_FULL.get(case.epilogue, ()), "target") else values
        for name, values in one.items()
    }
    b = one["b"].double()
    product = case.product(one["a"][rows].double(), b)
    found = results_of(torch, case, product, part) | ({"product": product})
    if case.epilogue is GELU_BACKWARD:
        found["dbias"] = results_of(torch, case, case.product(one["a"].double(), b), one)["dbias"]
    return rows, found


def _complaint(torch: Any, contender: Contender, expected: tuple[list[int], Mapping[str, Any]]) -> str:
    """The fault in the results on the first set, or "": elements that are not written, or rows that are wrong."""
    found: Any = contender.launch(0)
    torch.cuda.synchronize()
    rows, wanted = expected
    for name, values in found.items():
        right = wanted["product"] if contender.name == PLAIN or name not in wanted else wanted[name]
        if bool(values.isnan().any()):
            return f"elements of {name} were not written, or are NaN"
        error = (((values if name == "dbias" else values[rows]).double() - right).norm() / right.norm()).item()
        if error > _MOST_ERROR:
            return f"relative error {error:.1e} of {name}, more than {_MOST_ERROR:.1e}"
    return ""
