"""`lowtide.torch.grouped_matmul` with rows at an index and weights, on the CPU: layers of experts beside a loop,
gradients, fake tensors, what is refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")
rows = importlib.import_module("lowtide.torch.rows")

TOKENS, SLOTS, K, N, EXPERTS = 7, 2, 5, 4, 3


def layer(x: Any, up: Any, down: Any, weights: Any, experts: Any) -> Any:
    """Rows of tokens are gathered; weighted rows are scattered into the slots of the tokens, and added."""
    ends, tokens, places = ltt.routes(experts, len(up))
    hidden = torch.relu(ltt.grouped_matmul(x, up, ends, a_rows=tokens))
    weight, count = weights.flatten()[places.long()], experts.numel()
    slots = ltt.grouped_matmul(hidden, down, ends, d_rows=places, rows=count, weight=weight)
    return ltt.combine_slots(slots, experts.shape[1])


def by_a_loop(x: Any, up: Any, down: Any, weights: Any, experts: Any) -> Any:
    found = []
    for token, own in enumerate(experts.tolist()):
        known = [(slot, e) for slot, e in enumerate(own) if 0 <= e < len(up)]
        parts = [weights[token, slot] * (torch.relu(x[token] @ up[e]) @ down[e]) for slot, e in known]
        found.append(sum(parts, 0 * x[token, :1] * down[0, 0]))
    return torch.stack(found)


def operands(seed: int = 0) -> tuple[list[Any], Any]:
    """Tokens, matrices and weights that require gradients, and experts, of which some do not exist."""
    torch.manual_seed(seed)
    shapes = ((TOKENS, K), (EXPERTS, K, N), (EXPERTS, N, K), (TOKENS, SLOTS))
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    return given, torch.randint(-1, EXPERTS + 1, (TOKENS, SLOTS))


@pytest.mark.parametrize(("compiled", "seed"), [(False, 0), (False, 1), (True, 2)])
def test_a_layer_of_experts_and_its_gradients_are_those_of_a_loop(compiled: bool, seed: int) -> None:
    given, experts = operands(seed)
    function = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    found, wanted = function(*given, experts), by_a_loop(*given, experts)
    assert torch.allclose(found, wanted)
    factor = torch.randn_like(found)
    gradients, right = (torch.autograd.grad((y * factor).sum(), given) for y in (found, wanted))
    for one, other in zip(gradients, right, strict=True):
        assert one.shape == other.shape and torch.allclose(one, other)


A_ROWS, D_ROWS = [3, 0, 3, -1, 9, 2, 3], [5, 0, -1, 8, 2, 99, 1]  # some name no row; row 3 of A is taken three times
ENDS = [2, 2, 6]  # the last row of the product is in no group


def arguments(dtype: Any = torch.float64) -> tuple[list[Any], dict[str, Any]]:
    torch.manual_seed(1)
    shapes = ((4, K), (EXPERTS, K, N), (len(A_ROWS),))
    a, b, weight = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes)
    taken, places, ends = (torch.tensor(x, dtype=torch.int32) for x in (A_ROWS, D_ROWS, ENDS))
    return [a, b, weight], {"ends": ends, "a_rows": taken, "d_rows": places, "rows": 9}


def product(a: Any, b: Any, weight: Any, **more: Any) -> Any:
    return ltt.grouped_matmul(a, b, weight=weight, **more)


def test_rows_that_do_not_exist_are_zeros_and_are_not_stored() -> None:
    (a, b, weight), more = arguments()
    wanted = torch.zeros(9, N, dtype=torch.float64)
    for row, group in ((0, 0), (1, 0), (4, 2)):  # rows 2 and 5 are not stored, and row 3 is stored as zeros
        own = a[A_ROWS[row]] if A_ROWS[row] < 4 else 0 * a[0]
        wanted[D_ROWS[row]] = weight[row] * (own @ b[group])
    assert torch.allclose(product(a, b, weight, **more), wanted)
    assert torch.allclose(product(a, b, None, **more)[5], a[3] @ b[0])


def test_gradients_are_limits_of_differences_also_of_gradients() -> None:
    inputs, more = arguments()
    check = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    for names in (("a_rows",), ("d_rows", "rows"), ("a_rows", "d_rows", "rows"), ()):
        own = {name: x for name, x in more.items() if name in (*names, "ends")}
        a = inputs[0] if "a_rows" in names else torch.randn(len(A_ROWS), K, dtype=torch.float64, requires_grad=True)
        for each in check:
            assert each(lambda *x, own=own: product(*x, **own), (a, *inputs[1:]), fast_mode=True)
            assert each(lambda *x, own=own: product(*x, None, **own), (a, inputs[1]), fast_mode=True)


def test_only_gradients_that_are_wanted_are_computed() -> None:
    (a, b, weight), more = arguments()
    right = torch.autograd.grad(product(a, b, weight, **more).square().sum(), (a, b, weight))
    for number in range(3):
        own = [x.detach().requires_grad_(place == number) for place, x in enumerate((a, b, weight))]
        (found,) = torch.autograd.grad(product(*own, **more).square().sum(), [own[number]])
        assert torch.allclose(found, right[number])


def test_the_ops_pass_torchs_checks_of_custom_ops() -> None:
    (a, b, weight), more = arguments(torch.float32)
    others = more["a_rows"], more["d_rows"], 9, weight
    torch.library.opcheck(torch.ops.lowtide.grouped_gemm.default, (a, b, more["ends"], None, *others))
    torch.library.opcheck(
        torch.ops.lowtide.add_rows.default, (torch.randn(7, N, requires_grad=True), more["a_rows"], 4)
    )


def test_narrow_gradients_of_gathered_rows_are_added_in_f32() -> None:
    a, b = torch.zeros(1, 1).bfloat16().requires_grad_(), torch.ones(1, 1, 1).bfloat16()
    ends, taken = torch.tensor([4], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    gradient = torch.tensor([[256.0], [1.0], [1.0], [1.0]]).bfloat16()
    ltt.grouped_matmul(a, b, ends, a_rows=taken).backward(gradient)
    assert a.grad.item() == 260.0  # 259 rounds to it; 256 + 1 would be 256


def test_operations_are_counted_for_the_rows_of_the_product() -> None:
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    (a, b, weight), more = arguments(torch.float32)
    with counter:
        product(a.detach(), b.detach(), weight.detach(), **more)
    assert counter.get_total_flops() == 2 * len(A_ROWS) * K * N


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"a_rows": torch.zeros(7, dtype=torch.int64)}, "torch-row-index"),
        ({"d_rows": torch.zeros(7, 1, dtype=torch.int32)}, "torch-row-index"),
        ({"rows": None}, "torch-d-rows"),
        ({"d_rows": None}, "torch-d-rows"),
        ({"rows": -1}, "torch-d-rows"),
        ({"d_rows": torch.zeros(6, dtype=torch.int32)}, "torch-row-count"),
        ({"weight": torch.zeros(8, dtype=torch.float64)}, "torch-row-count"),
        ({"weight": torch.zeros(7, dtype=torch.int32)}, "torch-row-weight"),
        ({"weight": torch.zeros(7, 1)}, "torch-row-weight"),
        ({"weight": torch.zeros(7, device="meta")}, "torch-groups-device"),
    ],
)
def test_indices_and_weights_that_do_not_fit_are_refused(change: dict[str, Any], code: str) -> None:
    (a, b, weight), more = arguments()
    with pytest.raises(lt.LaunchError, match=rf"\[{code}\]"):
        ltt.grouped_matmul(a, b, **({"weight": weight} | more | change))


def test_groups_of_k_have_no_rows_at_an_index() -> None:
    x, y, ends = torch.zeros(K, 7), torch.zeros(7, N), torch.tensor([3, 7], dtype=torch.int32)
    for more in ({"a_rows": ends}, {"weight": torch.zeros(7)}, {"rows": 3}):
        with pytest.raises(lt.LaunchError, match=r"\[torch-rows-of-k\]"):
            ltt.grouped_matmul(x, y, ends, **more)


def test_no_rows_and_no_tokens_are_products_of_nothing() -> None:
    a, b = torch.zeros(0, K, requires_grad=True), torch.zeros(2, K, N, requires_grad=True)
    ends, taken = torch.zeros(2, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    found = ltt.grouped_matmul(a, b, ends + 3, a_rows=taken)
    found.sum().backward()
    assert found.shape == (3, N) and not found.any() and a.grad.shape == (0, K) and not b.grad.any()
    assert rows.add_rows(torch.ones(2, 3), taken[:2], 0).shape == (0, 3)
