"""Contests on a GPU: who sums in f16 does, beside peers that do, and who was not asked to is found."""

import pytest

import lowtide as lt
from lowtide.measurement.bench.contest import Contest
from lowtide.measurement.bench.gpu_timing import Contender
from lowtide.measurement.bench.ladder_pages import product

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

SHAPE = (512, 384, 1024)
SCHEDULE = "grid.tile = [128, 128], k = 32, stages = 3, atoms = [2, 2, 1]"


def error_of_torch(contest: Contest) -> float:
    """Of the last product that torch has left in the first set: ‖D − float64‖ / ‖float64‖."""
    first = contest.sets[0]
    exact = first.logical_a.double() @ first.logical_b.double()
    return ((first.d.double() - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("acc", ["f32", "f16"])
def test_kernels_torch_and_cublaslt_are_right_with_the_sums_asked_for(acc: str) -> None:
    said: list[str] = []
    spec = product("f16", *SHAPE, acc)
    kernel = lt.compile_gemm(spec, "sm_80", SCHEDULE)
    with Contest(spec, 0, said.append) as contest:
        assert contest.add_kernel("lowtide", kernel), said
        standings = contest.run(rounds=1, algorithms=16, finalists=2)
    assert standings.cublaslt and [one.name for one in standings.others] == ["lowtide"]


def test_torch_sums_in_f16_only_where_it_is_asked_to() -> None:
    errors = {}
    for acc in ("f32", "f16"):
        with Contest(product("f16", 512, 384, 8192, acc), 0, lambda text: None) as contest:
            contest.run(rounds=1, algorithms=0)
            errors[acc] = error_of_torch(contest)
    assert errors["f16"] > 2 * errors["f32"], errors


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "tf32"])
def test_a_kernel_of_less_precise_sums_or_of_another_product_is_left_out(dtype: str) -> None:
    spec = product(dtype, *SHAPE)
    with Contest(spec, 0, lambda text: None) as contest:
        right = lt.compile_gemm(spec, "sm_80")
        assert contest.add_kernel("right", right)

        def one_k_short(i: int) -> None:
            given = contest.sets[i]
            shorter = given.logical_b.clone()
            shorter[-1] = 0
            torch.matmul(given.logical_a, shorter, out=given.d)

        contest.add(Contender("short", one_k_short))
        if dtype == "f16":
            contest.add_kernel("f16 sums", lt.compile_gemm(product("f16", *SHAPE, "f16"), "sm_80", SCHEDULE))
        standings = contest.run(rounds=1, algorithms=0)
    assert [one.name for one in standings.others] == ["right"]
    assert "exact sums of integers" in standings.left_out["short"]
    assert dtype != "f16" or "relative error" in standings.left_out["f16 sums"]


def test_torch_takes_part_if_it_rounds_sums_of_parts_of_k() -> None:
    """torch 2.11 rounds such sums in a product of one row with a long K."""
    spec = lt.GemmSpec(m=1, n=360, k=26120, a="bf16", b="bf16", d="bf16", layout="tn")
    with Contest(spec, 0, lambda text: None) as contest:
        assert contest.add_kernel("lowtide", lt.compile_gemm(spec))
        assert len(contest.run(rounds=1, algorithms=0).torch.sustained) == 1
