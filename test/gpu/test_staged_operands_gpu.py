"""Full operands that TMA loads on the GPU: their sizes, parts, agents and slots; in place; and those it cannot load."""

from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.epilogue.backward import gated_backward, with_derivative
from lowtide.runtime.verify import verify_kernel

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SIZES = ((1000, 520, 272), (1, 1000, 64), (131, 24, 1040), (2500, 3000, 96))
SHARED, IN_TURN = "roles = cooperative(2), epilogue.path = tma", "roles = pingpong(2), epilogue.path = tma"


def residual(acc: Any, x: lt.Full) -> Any:
    total = acc + x
    return {"d": total, "squares": lt.sum(total * total, dim=1)}


def added(acc: Any, x: lt.Full) -> Any:
    return {"d": acc + x, "square": (acc + x) * (acc + x)}


def gelu_backward(acc: Any, x: lt.Full) -> Any:
    value, slope = with_derivative("gelu")(x)
    return {"d": acc * slope, "hidden": value}


def two_sizes(acc: Any, x: lt.Full, y: lt.Full["f32"]) -> Any:  # noqa: F821
    return {"d": acc * x + y, "e": acc - y}


CASES = {
    "residual": (added, {}, IN_TURN),
    "residual, a shared tile": (added, {}, f"{SHARED}, grid.tile = [128, 256]"),
    "residual, tall tiles, two slots": (added, {}, f"{SHARED}, grid.tile = [256, 128], epilogue.prefetch = 2"),
    "a narrow part": (added, {"layout": "nn"}, f"{SHARED}, grid.tile = [128, 96], epilogue.tile = [128, 64]"),
    "two sizes": (two_sizes, {}, f"{IN_TURN}, grid.tile = [128, 128]"),
    "two sizes, results of f32": (two_sizes, {"d": "f32"}, f"{SHARED}, grid.tile = [128, 128]"),
    "dGELU": (gelu_backward, {"layout": "tt"}, f"{IN_TURN}, grid.tile = [128, 192]"),
    "dSwiGLU": (
        gated_backward("silu"),
        {"layout": "tt"},
        f"{IN_TURN}, grid.tile = [128, 128], epilogue.tile = [64, 32]",
    ),
    "a batch": (added, {"batch": None}, IN_TURN),
    "clusters": (added, {}, f"{SHARED}, grid.tile = [128, 128], grid.cluster = [2, 1]"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_result_is_right(name: str) -> None:
    epilogue, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": epilogue} | fields))
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


def test_an_operand_that_tma_cannot_load_is_taken() -> None:
    """Another kernel is compiled for rows at no multiple of 16 bytes, and for a base at none."""
    spec = lt.GemmSpec(m=512, n=512, k=256, a="bf16", b="bf16", d="bf16", epilogue=residual)
    whole = torch.randn(513, 515, device="cuda").bfloat16()
    a, b = (torch.randn(512, 256, device="cuda").bfloat16() for _ in range(2))
    for x in (whole[:512, :512], whole.flatten()[3 : 3 + 512 * 512].view(512, 512)):
        kernel = lt.compile_gemm(spec, target="sm_90a", schedule=f"{IN_TURN}, grid.tile = [64, 64]")
        found = kernel(a, b, x=x)
        expected = a.float() @ b.float().T + x.float()
        torch.testing.assert_close(found["d"].float(), expected, rtol=2.0**-7, atol=2.0**-4)
        torch.testing.assert_close(found["squares"], expected.square().sum(dim=1), rtol=2.0**-7, atol=1.0)
        again = kernel(a, b, x=x.contiguous().clone())  # the new kernel takes all operands
        torch.testing.assert_close(again["d"], found["d"], rtol=0, atol=0)
