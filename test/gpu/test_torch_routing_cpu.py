"""`lowtide.torch.routes` and `combine_slots` on the CPU: experts by a loop, dropped tokens, what is refused."""

from __future__ import annotations

import importlib

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")


def test_rows_are_sorted_by_expert_and_name_their_tokens_and_slots() -> None:
    experts = torch.tensor([[2, 0], [0, 5], [-1, 2]])
    ends, tokens, places = ltt.routes(experts, 3)
    assert (ends.tolist(), {each.dtype for each in (ends, tokens, places)}) == ([2, 2, 4], {torch.int32})
    assert places.tolist()[:4] == [1, 2, 0, 5] and tokens.tolist()[:4] == [0, 1, 0, 2]
    assert sorted(places.tolist()) == [*range(6)]


@pytest.mark.parametrize(("tokens", "slots", "groups"), [(50, 4, 7), (1, 1, 1), (0, 2, 3), (9, 3, 100)])
def test_slots_are_combined_as_by_a_loop_over_tokens(tokens: int, slots: int, groups: int) -> None:
    torch.manual_seed(tokens)
    experts = torch.randint(-1, groups + 1, (tokens, slots), dtype=torch.int32)
    x, w = torch.randn(tokens, 5, dtype=torch.float64), torch.randn(groups, 5, 3, dtype=torch.float64)
    ends, taken, places = ltt.routes(experts, groups)
    stored, first = torch.zeros(tokens * slots, 3, dtype=torch.float64), 0
    for group, end in enumerate(ends.tolist()):
        rows = slice(first, end)
        stored[places[rows].long()] = x[taken[rows].long()] @ w[group]
        first = end
    found = ltt.combine_slots(stored, slots)
    known = [[x[t] @ w[e] for e in own if 0 <= e < groups] for t, own in enumerate(experts.tolist())]
    assert found.shape == (tokens, 3) and found.dtype is torch.float64
    for token, parts in enumerate(known):
        assert torch.allclose(found[token], sum(parts, torch.zeros(3, dtype=torch.float64)))


def test_narrow_floats_are_added_in_f32_and_have_gradients() -> None:
    rows = torch.tensor([[256.0], [1.0], [1.0], [1.0]]).bfloat16().requires_grad_()
    found = ltt.combine_slots(rows, 4)
    assert found.dtype is torch.bfloat16 and found.item() == 260.0  # 259 rounds to it; 256 + 1 would be 256
    found.sum().backward()
    assert rows.grad.flatten().tolist() == [1.0] * 4


def test_tensors_that_do_not_fit_are_refused() -> None:
    for wrong in (torch.zeros(3, dtype=torch.int32), torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.bool)):
        with pytest.raises(lt.LaunchError, match=r"\[routed-experts\]"):
            ltt.routes(wrong, 2)
    for rows, slots in ((torch.zeros(5, 2), 2), (torch.zeros(4), 2), (torch.zeros(4, 2), 0)):
        with pytest.raises(lt.LaunchError, match=r"\[combined-slots\]"):
            ltt.combine_slots(rows, slots)
