"""`lowtide.torch.distributed` on the GPUs of one host, one process for each:

    torchrun --nproc-per-node 2 -m pytest -q -p no:xdist test/gpu/test_distributed_gpu.py

Skipped without torchrun. All ranks run the same tests in the same order; the first that fails ends the run, since the
ranks may no longer be in step.
"""

import faulthandler
import importlib
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if "LOCAL_RANK" not in os.environ or not torch.cuda.is_available():
    pytest.skip("NO TEST ON SEVERAL GPUS RAN: run it by torchrun on a host with GPUs", allow_module_level=True)

cases = importlib.import_module("distributed_cases")
distributed = importlib.import_module("lowtide.torch.distributed")
gathering = importlib.import_module("lowtide.torch.distributed.gathering")
agreement = importlib.import_module("lowtide.torch.distributed.agreement")

pytestmark = pytest.mark.gpu
_DEVICE = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    torch.cuda.set_device(_DEVICE)
    dist.init_process_group("nccl", device_id=torch.device(_DEVICE))
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails on one rank ends on all."""
    faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)
    before = request.session.testsfailed
    yield
    faulthandler.cancel_dump_traceback_later()
    failed = torch.tensor(request.session.testsfailed - before, device=_DEVICE)
    dist.all_reduce(failed)


@pytest.fixture(autouse=True)
def kernels_take_short_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes of tests are small. The limits are about speed."""
    monkeypatch.setattr(agreement, "_FEWEST_SENT", 0)


def reasons() -> list[str]:
    """Why calls so far took the plain ops."""
    return [why for key, why in distributed.ranks_of(None).agreed.items() if isinstance(key, distributed.Signature)]


@pytest.mark.parametrize("name", cases.EPILOGUES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("seed", [0, 1])  # B by columns, and by rows
def test_values_agree_with_float64(name: str, dtype: Any, seed: int) -> None:
    cases.check_values((1024, 512, 256), dtype, _DEVICE, name, seed)
    assert not reasons()[-1], "the kernels were not taken"


@pytest.mark.parametrize("seed", range(5))
def test_random_shapes(seed: int) -> None:
    """10 shapes, of which some may take the plain ops. Each has kernels of its own, which are compiled."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    drawn, plain = random.Random(seed), 0
    size = dist.get_world_size()
    columns, depths = ([8 * drawn.randint(1, most) for _ in range(3)] for most in (200, 300))
    for number in range(10):
        m, n, k = size * drawn.randint(1, 700), drawn.choice(columns), drawn.choice(depths)
        k += 3 * (number % 10 == 9)
        cases.check_values((m, n, k), torch.bfloat16, _DEVICE, [*cases.EPILOGUES][number % 3], number)
        plain += bool(reasons()[-1])
    assert plain < 10


@pytest.mark.parametrize("name", cases.EPILOGUES)
def test_ranks_with_different_numbers_of_rows(name: str) -> None:
    size = dist.get_world_size()
    for rows in ([700, 300, 513, 1], [640, 640, 640, 129]):
        rows = rows[-size:]
        cases.check_ragged(rows, (512, 256), torch.bfloat16, _DEVICE, name)
    assert not reasons()[-1], "the kernels were not taken"


@pytest.mark.parametrize("name", cases.EPILOGUES)
def test_rows_of_e4m3_with_scales(name: str) -> None:
    cases.check_scales([512] * dist.get_world_size(), (512, 256), _DEVICE, name)
    assert not reasons()[-1], "the kernels were not taken"


@pytest.fixture
def sent_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels send this rank's rows of A, of any size."""
    monkeypatch.setattr(gathering, "kernel_sends", lambda spec, sender: True)


@pytest.mark.parametrize("name", cases.EPILOGUES)
def test_rows_that_kernels_send(sent_by_kernels: None, name: str) -> None:
    cases.check_values((1024, 512, 256), torch.bfloat16, _DEVICE, name)
    size = dist.get_world_size()
    cases.check_ragged([320, 64, 512, 160][:size], (512, 256), torch.bfloat16, _DEVICE, name)
    cases.check_scales([256] * size, (512, 256), _DEVICE, name)
    assert not reasons()[-1], "the kernels were not taken"


def test_rows_that_kernels_send_have_the_same_bits_and_are_sent_by_graphs(sent_by_kernels: None) -> None:
    of, drawn = cases.Products((1024, 512, 256), torch.bfloat16, _DEVICE), random.Random(dist.get_rank())
    rows, b = (x.clone() for x in of.gathered())
    wanted = distributed.all_gather_matmul(rows, b).clone()
    for _ in range(100):
        torch.cuda._sleep(drawn.choice((0, 0, 1_000_000)))
        assert torch.equal(distributed.all_gather_matmul(rows, b), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = distributed.all_gather_matmul(rows, b)
    for _ in range(5):
        rows.neg_()
        graph.replay()
        again = distributed.all_gather_matmul(rows, b)
        torch.cuda.synchronize()
        assert torch.equal(found, again)


def test_gradients() -> None:
    cases.check_gradients((1024, 256, 512), torch.bfloat16, _DEVICE)


def test_a_compiled_mlp_has_its_collectives_in_the_kernels() -> None:
    ltt = importlib.import_module("lowtide.torch")
    backend = ltt.Backend(ltt.Rule(least_rows=1, least=0), explain=True)
    with torch.no_grad():
        cases.check_compiled(torch.compile(cases.mlp, backend=backend), 1024, (512, 256), _DEVICE)
    assert [row.collective for row in backend.report()] == ["all_gather_into_tensor", "reduce_scatter_tensor"]
    assert not any(reasons()[-2:]), "the kernels were not taken"


def test_bits_are_equal_over_runs_with_delays() -> None:
    of = cases.Products((2048, 1024, 512), torch.bfloat16, _DEVICE)
    rows, b = of.gathered()
    first, delays = None, random.Random(of.rank)
    for _ in range(200):
        torch.cuda._sleep(delays.choice([0, 0, 10_000, 100_000, 1_000_000]))
        found = (
            distributed.all_gather_matmul(rows, b),
            distributed.matmul_reduce_scatter(of.a[of.rank], of.b[of.rank]),
            distributed.matmul_all_reduce(of.a[of.rank], of.b[of.rank]),
        )
        first = first or found
        assert all(map(torch.equal, found, first))


def test_data_of_an_earlier_call_are_never_read() -> None:
    """Each call has other data, and ranks are late in turn."""
    size = dist.get_world_size()
    delays = random.Random(1 + dist.get_rank())
    b = torch.eye(512, device=_DEVICE).bfloat16()
    ones = torch.ones(1024 * size, 512, device=_DEVICE).bfloat16()
    found = []
    for number in range(100):
        torch.cuda._sleep(delays.choice([0, 0, 100_000, 1_000_000]))
        found.append(distributed.all_gather_matmul((number % 64) * ones[:1024], b)[:, 0].unique())
        found.append(distributed.matmul_reduce_scatter((number % 64) * ones, b)[:, 0].unique())
    for number in range(100):
        assert found[2 * number].tolist() == [number % 64]
        assert found[2 * number + 1].tolist() == [size * (number % 64)]


def test_a_late_rank_is_an_error_that_names_it() -> None:
    """The last rank is late for longer than the limit; the others say so, and calls go on."""
    of = cases.Products((1024, 512, 256), torch.bfloat16, _DEVICE)
    rows, b = of.gathered()
    distributed.all_gather_matmul(rows, b)
    distributed.matmul_reduce_scatter(of.a[of.rank], of.b[of.rank])
    ranks = distributed.ranks_of(None)
    flags = [engine.exchange.flags for engine in ranks.engines.values()]
    for each in flags:
        each.turn[2] = 100
    late = of.size - 1
    for call in (lambda: distributed.all_gather_matmul(rows, b), lambda: distributed.matmul_reduce_scatter(of.a[0], b)):
        torch.cuda.synchronize()
        dist.barrier()
        if of.rank == late:
            time.sleep(1)
        call()
        if of.rank != late:
            with pytest.raises(lt.LaunchError, match=rf"for rank {late}, whose flag .*\[ranks-late\]"):
                distributed.check_ranks()
        else:
            distributed.check_ranks()
    for each in flags:
        each.turn[2] = 30_000
    dist.barrier()
    found = distributed.all_gather_matmul(rows, b)
    distributed.check_ranks()
    cases.assert_close(found, of.a[0].double() @ b.double(), of.k)


def test_calls_in_a_graph_are_replayed_with_other_data() -> None:
    of = cases.Products((1024, 512, 256), torch.bfloat16, _DEVICE)
    rows, b = (x.clone() for x in of.gathered())
    a = of.a[of.rank].clone()

    def calls() -> tuple[Any, ...]:
        return distributed.all_gather_matmul(rows, b), distributed.matmul_reduce_scatter(a, b)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        calls()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = calls()
    for _ in range(5):
        rows.neg_(), a.mul_(0.5)
        graph.replay()
        wanted = calls()
        torch.cuda.synchronize()
        assert all(map(torch.equal, found, wanted))
