"""`lowtide.torch.distributed` on the CPU, with gloo: 2 and 4 processes."""

import importlib
import random
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

cases = importlib.import_module("distributed_cases")
processes = importlib.import_module("rank_processes")
fakes = importlib.import_module("fake_ranks")
distributed = importlib.import_module("lowtide.torch.distributed")
WHY_NOT = importlib.import_module("lowtide.torch.distributed.symmetric").why_not


def values() -> None:
    for seed, name in enumerate(cases.EPILOGUES):
        cases.check_values((12, 8, 5), torch.float32, "cpu", name, seed)
    cases.check_values((8, 6, 16), torch.bfloat16, "cpu", "gelu_bias")
    cases.check_values((4 * dist.get_world_size(), 4 * dist.get_world_size(), 3), torch.float64, "cpu", "none")


def any_rows() -> None:
    """All-reduce takes any number of rows, also fewer than ranks."""
    for m in (1, 2, 7):
        of = cases.Products((m, 6, 5), torch.float32, "cpu")
        found = distributed.matmul_all_reduce(of.a[of.rank], of.b[of.rank])
        cases.assert_close(found, of.sums(), of.k * of.size, of.size)


def sums_of_the_group() -> None:
    """With two ranks, the reductions of the group give the bits of the sum in the order of ranks."""
    plain = importlib.import_module("lowtide.torch.distributed.plain")
    ops = distributed.matmul_reduce_scatter, distributed.matmul_all_reduce
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        of = cases.Products((8, 6, 96), dtype, "cpu")
        a, b = of.a[of.rank], of.b[of.rank]
        with mock.patch.object(plain, "add_in_order", wraps=plain.add_in_order) as added:
            found = [op(a, b) for op in ops]
            assert added.called == (of.size > 2)
            with mock.patch.object(plain, "_is_sum_of_two", return_value=False):
                wanted = [op(a, b) for op in ops]
        assert added.called and all(map(torch.equal, found, wanted)), dtype


def rows_of_more_dimensions() -> None:
    """M is divided, not the rows of all dimensions together."""
    size, rank = dist.get_world_size(), dist.get_rank()
    for m in (1, 3, 2 * size, 2 * size + 1):
        found = distributed.matmul_reduce_scatter(torch.full((m, 3, 4), 1.0 + rank), torch.ones(4, 5))
        wanted = torch.full((m, 3, 5), 2.0 * size * (size + 1)).chunk(size)
        assert torch.equal(found, wanted[rank] if rank < len(wanted) else torch.empty(0, 3, 5)), m


def ragged_rows() -> None:
    """Ranks have different numbers of rows, also none."""
    size = dist.get_world_size()
    for number, rows in enumerate(([3, 1, 2, 4], [3, 3, 3, 1], [0, 5, 0, 2])):
        name = [*cases.EPILOGUES][number]
        cases.check_ragged(rows[-size:], (6, 5), torch.float32, "cpu", name)
    a = torch.ones(1 + dist.get_rank(), 2, 4)
    rows = [1 + rank for rank in range(size)]
    assert distributed.all_gather_matmul(a, torch.ones(4, 5), rows=rows).shape == (sum(rows), 2, 5)
    layer = distributed.ColumnParallelLinear(4, 5 * size)
    assert layer(a, rows=rows).shape == (sum(rows), 2, 5)


def scales() -> None:
    """Rows and columns of e4m3 with scales, which are gathered too."""
    size = dist.get_world_size()
    for name in cases.EPILOGUES:
        cases.check_scales([3] * size, (6, 5), "cpu", name)
    cases.check_scales([3, 1, 2, 4][-size:], (6, 5), "cpu", "residual")
    a, scale = torch.ones(2, 3, 4).to(torch.float8_e4m3fn), torch.full((2, 3), 0.5)
    b = torch.ones(4, 5).to(torch.float8_e4m3fn)
    found = distributed.all_gather_matmul(a, b, scale_a=scale, out_dtype=torch.float32)
    assert found.shape == (2 * size, 3, 5) and (found == 2).all()
    assert (distributed.all_gather_matmul(a, b, scale_b=torch.full((5,), 3.0)) == 12).all()


def gradients() -> None:
    cases.check_gradients((8, 6, 5), torch.float64, "cpu", "relu")
    cases.check_gradients((8, 6, 5), torch.float32, "cpu")
    size = dist.get_world_size()
    a = torch.ones(3, 2, 4, requires_grad=True)
    b = torch.ones(4, 5)
    assert distributed.all_gather_matmul(a, b).shape == (3 * size, 2, 5)
    reduced = distributed.matmul_all_reduce(a, b)
    reduced.sum().backward()
    assert reduced.shape == (3, 2, 5) and (a.grad == 5).all()


def errors() -> None:
    """The same error on every rank, and calls go on to work after it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    b = torch.ones(4, 5)

    def code(function: Any, *given: Any, text: str = "", **more: Any) -> str:
        with pytest.raises(lt.Error) as raised:
            function(*given, **more)
        said: list[Any] = [None] * size
        dist.all_gather_object(said, str(raised.value))
        assert len({*said}) == 1 and text in said[0], said
        return raised.value.code

    assert code(distributed.all_gather_matmul, torch.ones(3 + (rank == 1), 4), b) == "ranks-disagree"
    assert code(distributed.matmul_reduce_scatter, torch.ones(4, 4), torch.ones(4, 5 + rank)) == "ranks-disagree"
    wide = torch.float64 if rank else torch.float32
    assert code(distributed.all_gather_matmul, torch.ones(3, 4, dtype=wide), b.to(wide)) == "ranks-disagree"
    assert code(distributed.matmul_all_reduce, torch.ones(3, 4), b, out_dtype=wide) == "ranks-disagree"
    scale = {"scale_a": torch.ones(3)} if rank else {}
    assert code(distributed.all_gather_matmul, torch.ones(3, 4), b, **scale) == "ranks-disagree"
    ops = distributed.all_gather_matmul, distributed.matmul_all_reduce
    assert code(ops[rank % 2], torch.ones(size, 4), b) == "ranks-disagree"
    assert code(distributed.all_gather_matmul, torch.ones(3, 4 + (rank == 1)), b) == "product-k"
    ragged, rows = torch.ones(3 + (rank == 1), 4), [3, 4, *[3] * (size - 2)]
    for wrong in ([3] * size, rows[:-1], [-3, 4, *rows[2:]]):
        assert code(distributed.all_gather_matmul, ragged, b, rows=wrong) == "ranks-rows"
    assert code(distributed.matmul_reduce_scatter, torch.ones(6, 4), b, rows=rows) == "ranks-rows"
    text = f"rows={(3,) * size} for {size} ranks, and the first extent of operand a is 4"
    given = torch.ones(4, 2, 4), b
    assert code(distributed.all_gather_matmul, *given, rows=[3] * size, text=text) == "ranks-rows"
    text = "3 scales; give one for each row of a, which has 8 on this rank"
    assert code(distributed.all_gather_matmul, *given, scale_a=torch.ones(3), text=text) == "ranks-scales"
    other = rows if rank else [4, 3, *rows[2:]]
    assert code(distributed.matmul_reduce_scatter, torch.ones(sum(rows), 4), b, rows=other) == "ranks-disagree"
    assert code(distributed.matmul_all_reduce, torch.ones(4, 4, dtype=torch.int8), b.to(torch.int8)) == "ranks-types"
    out = torch.empty(3, 5 + (rank == 0))
    assert code(distributed.matmul_all_reduce, torch.ones(3, 4), b, out=out) == "ranks-out"
    assert code(distributed.all_gather_matmul, torch.ones(4), b) == "ranks-shapes"
    grows = torch.ones(3, 4, requires_grad=True)
    assert code(distributed.matmul_all_reduce, grows, b, out=torch.empty(3, 5)) == "ranks-autograd"
    scale = torch.ones(3 + (rank == 1))
    assert code(distributed.all_gather_matmul, torch.ones(3, 4), b, scale_a=scale) == "ranks-scales"
    assert code(distributed.all_gather_matmul, torch.ones(3, 4), b, scale_b=torch.ones(4)) == "torch-operand-shape"
    grows = torch.ones(3, 4, requires_grad=True)
    assert code(distributed.all_gather_matmul, grows, b, scale_a=torch.ones(3)) == "ranks-scales-autograd"
    assert code(distributed.ColumnParallelLinear, 4, size + 1) == "ranks-features"
    assert (distributed.all_gather_matmul(torch.ones(3, 4), b) == 4).all()


def refusals_of_one_rank() -> None:
    b = torch.ones(4, 5)
    group = dist.new_group([0])
    if dist.get_rank():
        with pytest.raises(lt.LaunchError, match=r"\[ranks-member\]"):
            distributed.all_gather_matmul(torch.ones(3, 4), b, group)
    captures = mock.patch("lowtide.torch.distributed.computing.is_capturing", lambda device: True)
    with captures, pytest.raises(lt.LaunchError, match=r"\[ranks-capture\]"):
        distributed.all_gather_matmul(torch.ones(17, 4), b)


def by_kernels() -> None:
    """The ops as on GPUs, with windows, flags and epochs, but with kernels that torch computes."""
    ranks = distributed.ranks_of(None)
    ranks.agreed.clear()
    with fakes.gpus(dist.get_rank()):
        for seed, name in enumerate(cases.EPILOGUES):
            cases.check_values((16, 8, 24), torch.float32, "cpu", name, seed)
        cases.check_values((64, 16, 32), torch.bfloat16, "cpu", "gelu_bias")
        cases.check_gradients((16, 8, 24), torch.float32, "cpu")
        cases.check_ragged([16, 3, 9, 12][: dist.get_world_size()], (8, 24), torch.float32, "cpu", "residual")
        cases.check_ragged([16, 16, 16, 5][-dist.get_world_size() :], (8, 24), torch.float32, "cpu", "gelu_bias")
        cases.check_scales([16] * dist.get_world_size(), (8, 32), "cpu", "gelu_bias")
        cases.check_scales([16, 16, 16, 5][-dist.get_world_size() :], (8, 32), "cpu", "residual")
        ragged = [why for key, why in ranks.agreed.items() if getattr(key, "rows", ())]
        assert ragged and not any(ragged)
        assert [key for key in ranks.agreed.values() if not key] and len(ranks.engines) == 2
        for number in range(20):
            time.sleep(random.Random(f"{number} {ranks.rank}").choice([0, 0, 0.01]))
            a = torch.full((16, 8), float(number))
            assert (distributed.all_gather_matmul(a, torch.eye(8)) == number).all()
            assert (distributed.matmul_reduce_scatter(a, torch.eye(8)) == number * ranks.size).all()
        _late_ranks_are_named(ranks)
        ranks.agreed.clear()
        ranks.engines.clear()


def by_compiled_kernels() -> None:
    """The kernels of the ops, compiled for sm_90a and run on the interpreter."""
    with fakes.gpus(dist.get_rank(), fakes.Interpreted):
        ranks = distributed.ranks_of(None)
        cases.check_values((64, 64, 64), torch.bfloat16, "cpu", "residual")
        with mock.patch("lowtide.torch.distributed.gathering.kernel_sends", return_value=True):
            cases.check_ragged([40, 24], (64, 64), torch.bfloat16, "cpu", "residual")
        cases.check_scales([40, 9], (64, 64), "cpu", "gelu_bias")
        assert "plain" not in distributed.report() and len(ranks.engines) == 2


def calls_on_the_same_memory() -> None:
    """A prepared call is used again, with the data that its tensors have by then. Rows of A and parts are sent in both
    ways."""
    rule = "lowtide.torch.distributed.scattering.sends_copies"
    for sends_copies, sender in ((True, "copy_engine"), (False, "kernel")):
        with fakes.gpus(dist.get_rank()), mock.patch(rule, return_value=sends_copies):
            of = cases.Products((16, 8, 24), torch.float32, "cpu")
            rows, a, b = of.gathered()[0].clone(), of.a[of.rank].clone(), of.b[of.rank]
            outs = torch.empty(16, 8), torch.empty(16 // of.size, 8), torch.empty(16, 8)
            for number in range(5):
                distributed.all_gather_matmul(rows, b, out=outs[0], sender=sender)
                distributed.matmul_reduce_scatter(a, b, out=outs[1])
                distributed.matmul_all_reduce(a, b, out=outs[2])
                factor = (-0.5) ** number
                sums = of.sums() * factor
                cases.assert_close(outs[0], of.a[0].double() @ b.double() * factor, of.k)
                cases.assert_close(outs[1], sums.chunk(of.size)[of.rank], of.k * of.size, of.size)
                cases.assert_close(outs[2], sums, of.k * of.size, of.size)
                rows.mul_(-0.5), a.mul_(-0.5)
            exchanges = [engine.exchange for engine in distributed.ranks_of(None).engines.values()]
            assert sum(len(each._prepared) for each in exchanges) == 4  # in two slots; the sums take turns
            gathering = distributed.ranks_of(None).engines
            assert sum(len(getattr(each, "_peers", ())) for each in gathering.values()) == (not sends_copies)
        distributed.ranks_of(None).agreed.clear()
        distributed.ranks_of(None).engines.clear()


def _late_ranks_are_named(ranks: Any) -> None:
    late = ranks.size - 1
    for op in (distributed.all_gather_matmul, distributed.matmul_reduce_scatter):
        for engine in ranks.engines.values():
            engine.exchange.flags.turn[2] = 100
        dist.barrier()
        time.sleep(0.5 * (ranks.rank == late))
        op(torch.ones(16, 8), torch.eye(8))
        if ranks.rank != late:
            with pytest.raises(lt.LaunchError, match=rf"for rank {late}, whose flag is at .*\[ranks-late\]"):
                op(torch.ones(16, 8), torch.eye(8))
        dist.barrier()
        if ranks.rank == late:
            op(torch.ones(16, 8), torch.eye(8))
        else:
            time.sleep(0)
        dist.barrier()


def sums_that_are_late() -> None:
    """The last rank never says that its sums are there: the others get NaN in its rows, and an error."""
    with fakes.gpus(dist.get_rank()):
        ranks, a, b = distributed.ranks_of(None), torch.ones(16, 8), torch.eye(8)
        last, share = ranks.size - 1, 16 // ranks.size
        for _ in range(3):  # all slots have sums of earlier calls
            assert (distributed.matmul_all_reduce(a, b) == ranks.size).all()
        (flags,) = [engine.exchange.sums for engine in ranks.engines.values()]
        flags.turn[2] = 100
        tell, heard = flags.tell, [peer for peer in range(ranks.size) if ranks.rank != last or peer == last]
        with mock.patch.object(flags, "tell", lambda peer, stream: tell(peer, stream) if peer in heard else None):
            found = distributed.matmul_all_reduce(a, b)
        own = slice(ranks.rank * share, (ranks.rank + 1) * share)
        assert (found[own] == ranks.size).all()
        if ranks.rank != last:
            assert found[-share:].isnan().all()
            with pytest.raises(lt.LaunchError, match=rf"for rank {last}, whose flag is at .*\[ranks-late\]"):
                distributed.check_ranks()
        dist.barrier()
        ranks.agreed.clear()
        ranks.engines.clear()


def _plain_because(reason: str) -> None:
    """All ranks take the plain ops, for one reason, and the product is right."""
    rank, size = dist.get_rank(), dist.get_world_size()
    a = torch.full((4, 8), float(rank))
    found = distributed.all_gather_matmul(a, torch.eye(8))
    assert (found[::4, 0] == torch.arange(size)).all()
    assert (distributed.matmul_reduce_scatter(a, torch.eye(8)) == sum(range(size))).all()
    said: list[Any] = [None] * size
    dist.all_gather_object(said, distributed.report())
    assert len({*said}) == 1 and said[0].count("the plain ops, because") == 2, said
    assert all(line.endswith(reason) for line in said[0].splitlines()), said
    distributed.ranks_of(None).agreed.clear()


def memory_that_is_not_shared() -> None:
    """Hosts, GPUs and versions of torch that cannot share memory: all ranks take the plain ops, for the same reason."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    distributed.ranks_of(None).agreed.clear()
    symmetric, agreement = (f"lowtide.torch.distributed.{name}" for name in ("symmetric", "agreement"))
    hosts = ["one"] * last + ["two"]
    refusal = "peers cannot reach each other" if rank == last else ""
    for reason, where, what in (
        (f"the group is on several hosts: {', '.join(hosts)}", f"{agreement}.socket.gethostname", lambda: hosts[rank]),
        ("ranks share a GPU", f"{symmetric}.name_of_gpu", lambda device: "GPU 0"),
        (f"rank {last}: peers cannot reach each other", f"{symmetric}.try_to_share", lambda device, group: refusal),
        ("rank 0: tensors are on cpu", f"{symmetric}.why_not", WHY_NOT),
    ):
        with fakes.gpus(rank), mock.patch(where, what):
            _plain_because(reason)


def reasons_of_torch() -> None:
    """What this rank's torch and process group lack, before memory is shared."""
    gpu, group = torch.device("cuda:0"), dist.group.WORLD
    assert WHY_NOT(torch.device("cpu"), group) == "tensors are on cpu"
    assert WHY_NOT(gpu, group) == "the group's back end is gloo"
    module = "lowtide.torch.distributed.symmetric._module"
    with mock.patch("torch.distributed.get_backend", lambda group: "nccl"):
        with mock.patch(module, side_effect=ImportError("no module")):
            assert "has no symmetric memory (no module)" in WHY_NOT(gpu, group)
        with mock.patch(module, lambda: mock.Mock(get_backend=lambda device: "NVSHMEM")):
            assert WHY_NOT(gpu, group) == "symmetric memory has the back end NVSHMEM"
        with mock.patch(module, lambda: mock.Mock(get_backend=lambda device: "CUDA")):
            assert WHY_NOT(gpu, group) == ""
    refuses = mock.Mock(empty=mock.Mock(side_effect=RuntimeError("no peer access\nat line 1")))
    with mock.patch(module, lambda: refuses):
        said = importlib.import_module("lowtide.torch.distributed.symmetric").try_to_share(torch.device("cpu"), group)
    assert said == "torch's symmetric memory refuses: no peer access"


def tensors_of_any_memory() -> None:
    """Operands need not be shared memory, nor lie as kernels read: they are copied, and are not written."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with fakes.gpus(rank):
        whole = torch.randn(16, 48, generator=torch.Generator().manual_seed(1))
        a, b = whole[:, 1:49:2][:, :24], torch.randn(25, 9)[1:, 1:]
        before = a.clone()
        found = distributed.all_gather_matmul(a, b)
        torch.testing.assert_close(found, (before @ b).repeat(size, 1))
        assert torch.equal(a, before) and distributed.report().endswith("the kernels")
    distributed.ranks_of(None).agreed.clear()
    distributed.ranks_of(None).engines.clear()


def a_rank_that_makes_no_call() -> None:
    """The others say so at the time-out of the group."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank():
        with pytest.raises(lt.LaunchError, match=r"all ranks must make the same calls.*\[ranks-exchange\]"):
            distributed.all_gather_matmul(torch.ones(3, 4), torch.ones(4, 5), group)


def one_rank() -> None:
    group = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    a, b = torch.randn(5, 4), torch.randn(4, 3)
    for op in (distributed.all_gather_matmul, distributed.matmul_reduce_scatter, distributed.matmul_all_reduce):
        torch.testing.assert_close(op(a, b, group), a @ b)
    assert distributed.report(group).count("because rank 0: the group has one rank") == 3


PARTS = (
    values,
    any_rows,
    sums_of_the_group,
    rows_of_more_dimensions,
    ragged_rows,
    scales,
    gradients,
    errors,
    refusals_of_one_rank,
    by_kernels,
    one_rank,
    memory_that_is_not_shared,
    reasons_of_torch,
    tensors_of_any_memory,
    calls_on_the_same_memory,
    sums_that_are_late,
    a_rank_that_makes_no_call,
)


@pytest.fixture(scope="module", params=[2, 4])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What each rank said of each part; the processes start once."""
    folder, size = tmp_path_factory.mktemp("ranks"), request.param
    processes.run_parts(PARTS, size, folder)
    return size, folder


@pytest.mark.parametrize("part", [part.__name__ for part in PARTS])
def test_on_every_rank(outcomes: Any, part: str) -> None:
    processes.assert_passed(part, *outcomes)


def test_kernels_that_are_compiled_and_interpreted(tmp_path: Any) -> None:
    processes.run_parts((by_compiled_kernels,), 2, tmp_path, 120)
    processes.assert_passed("by_compiled_kernels", 2, tmp_path)


def test_without_a_process_group_the_error_says_so() -> None:
    with pytest.raises(lt.LaunchError, match=r"\[ranks-group\]"):
        distributed.all_gather_matmul(torch.ones(2, 3), torch.ones(3, 2))


def test_parts_are_copied_if_they_fill_the_gpu_and_stored_if_they_are_small() -> None:
    sending, known = (
        importlib.import_module("lowtide.torch.distributed.sending"),
        importlib.import_module("lowtide.targets"),
    )
    target = next(each for each in known.KNOWN if each.name == "sm_90a")
    with mock.patch.object(sending, "native_target", lambda: (target, None)):
        for rows, wanted in ((4096, True), (2048, True), (64, False)):
            spec = lt.GemmSpec(m=rows, n=8192, k=4096, batch=2, lists="d", arrivals=True, a="bf16", b="bf16", d="bf16")
            assert sending.sends_copies(spec, (rows, rows), 0, 2 * 8192) is wanted, rows


def test_a_kernel_sends_small_shards_or_as_the_call_says() -> None:
    sending = importlib.import_module("lowtide.torch.distributed.sending")
    assert [*map(str, importlib.import_module("lowtide.dialects.tile").SenderKind)] == [*sending.SENDERS]
    target = next(each for each in importlib.import_module("lowtide.targets").KNOWN if each.name == "sm_90a")
    chosen = importlib.import_module("lowtide.compiler.chosen").chosen
    for rows, sends in ((64, True), (256, False)):
        spec = lt.GemmSpec(m=rows, n=8192, k=8192, batch=2, arrivals=True, peers=True, a="bf16", b="bf16", d="bf16")
        assert [sending.kernel_sends(spec, sender) for sender in (None, *sending.SENDERS)] == [sends, False, True]
        assert (str(chosen(spec, target).grid.sender) == sending.KERNEL) is sends
    with pytest.raises(lt.SpecError, match=r"\[unknown-word\]"):
        distributed.all_gather_matmul(torch.ones(2, 2), torch.ones(2, 2), sender="nccl")


def test_launches_distinguish_the_signs_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    launching, launched = importlib.import_module("lowtide.torch.distributed.launching"), []

    def prepare(records: Any, scalars: Any) -> tuple[Any]:
        return (SimpleNamespace(run=lambda stream, context: launched.append(str(scalars["s"]))),)

    api = SimpleNamespace(cuCtxGetCurrent=lambda: (0, 0))
    monkeypatch.setattr(launching.driver, "api", lambda: api)
    launches, spec = launching.Launches(), lt.GemmSpec(a="bf16", b="bf16", d="bf16", n=64, k=64)
    monkeypatch.setattr(launches, "_kernel", lambda *given: SimpleNamespace(prepare=prepare))
    for scalar in (0.0, -0.0, 0.0):
        launches.prepared(spec, "repeatable", {}, {"s": scalar})(0)
    assert launched == ["0.0", "-0.0", "0.0"]


def test_the_precision_of_a_call_is_that_of_its_kernel() -> None:
    call, agreement = (importlib.import_module(f"lowtide.torch.distributed.{name}") for name in ("call", "agreement"))
    how, a, out = importlib.import_module("lowtide.torch.calls").How, torch.ones(512, 64), torch.ones(512, 64)
    plain, tf32 = (call.Call(call.SCATTER, a, a.mT, how=how(precision=given)) for given in (None, "tf32"))
    assert lt.GemmSpec(**plain.types).a == "f32" and lt.GemmSpec(**tf32.types).a == "tf32"
    assert plain.place(out) != tf32.place(out)
    shapes, types = ((512, 64), (64, 512)), (torch.float32,) * 3
    asked = agreement.Signature(call.SCATTER, *shapes, types, (), False, "tf32x3", ())
    said = agreement._own_reason(mock.Mock(size=2), a.device, asked)
    assert said == "no kernel of several ranks computes products of pieces (tf32x3)"


def test_sums_of_few_bytes_are_computed_by_the_plain_ops() -> None:
    call, agreement = (importlib.import_module(f"lowtide.torch.distributed.{name}") for name in ("call", "agreement"))

    def said(op: str, rows: int) -> str:
        asked = agreement.Signature(op, (rows, 64), (64, 8192), (torch.bfloat16,) * 3, (), False, None, ())
        with mock.patch.object(agreement.symmetric, "why_not", lambda device, group: ""):
            return agreement._own_reason(mock.Mock(size=2), torch.device("cpu"), asked)

    assert said(call.SCATTER, 1022) == "the parts of the sum that a rank sends have 8,372,224 bytes, fewer than 8 MiB"
    assert [said(*each) for each in ((call.SCATTER, 1024), (call.REDUCE, 1024), (call.GATHER, 512))] == ["", "", ""]
