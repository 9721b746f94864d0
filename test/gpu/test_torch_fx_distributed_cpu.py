"""torch.compile with plans of tensor parallelism, on the CPU with gloo: 2 and 4 processes."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from compiled_graphs import error

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)
ltt = pytest.importorskip("lowtide.torch")
processes = importlib.import_module("rank_processes")
cases = importlib.import_module("distributed_cases")
fakes = importlib.import_module("fake_ranks")
inductor = importlib.import_module("lowtide.torch.fx.inductor")
distributed = importlib.import_module("lowtide.torch.distributed")
ops = importlib.import_module("lowtide.torch.distributed.ops")
functional = torch.nn.functional

ALL = ltt.Rule(devices=("cpu", "cuda"), least_rows=1, least=0, full="any", left=())
WIDTH, HIDDEN = 16, 32  # of a layer
GATHER, SCATTER, REDUCE = "all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce"


class Gated(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(WIDTH, HIDDEN, bias=bias) for _ in range(2))
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=bias)

    def forward(self, x: Any) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.norm, self.mlp = torch.nn.RMSNorm(WIDTH), Gated(bias)

    def forward(self, x: Any) -> Any:
        return x + self.mlp(self.norm(x))


def plan(kind: str, dim: int) -> dict[str, Any]:
    """A plan of torch.distributed.tensor.parallel for a `Block`, whose rows lie along `dim`."""
    parallel, tensor = (importlib.import_module(f"torch.distributed.tensor{end}") for end in (".parallel", ""))
    rows = tensor.Shard(dim)
    of_inputs = {"input_layouts": rows} if kind == "layers" else {}
    found = {f"mlp.{name}": parallel.ColwiseParallel(**of_inputs) for name in ("gate", "up")}
    if kind == "replicated":
        return {**found, "mlp.down": parallel.RowwiseParallel()}
    if kind == "block":
        found["mlp"] = parallel.PrepareModuleInput(input_layouts=(rows,), desired_input_layouts=(tensor.Replicate(),))
    norm = {"norm": parallel.SequenceParallel(sequence_dim=dim, use_local_output=kind != "block")}
    return {**norm, **found, "mlp.down": parallel.RowwiseParallel(output_layouts=rows)}


@contextlib.contextmanager
def graphs() -> Iterator[list[Any]]:
    """The graphs that Inductor gets, which then run node by node."""
    found: list[Any] = []

    def inner_compile(module: Any, inputs: Any, **about: Any) -> Any:
        found.append(module.graph)

        def run(arguments: list[Any]) -> Any:
            return module(*arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    patched = functools.partial(inductor.compile_fx, inner_compile=inner_compile)
    torch._dynamo.reset()
    with mock.patch.object(inductor, "compile_fx", patched):
        yield found


def own(x: Any, dim: int) -> Any:
    return x.chunk(dist.get_world_size(), dim)[dist.get_rank()]


def check_plan(
    kind: str, dim: int, batch: int, bias: bool = False, rule: Any = ALL, around: Any = None
) -> tuple[Any, list[str]]:
    """Forward and backward against the same module in f64 on one rank. `around`: calls the module. Returns the report,
    and the collectives that the graphs still have."""
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize = importlib.import_module("torch.distributed.tensor.parallel").parallelize_module
    torch.manual_seed(0)
    layer = Block(bias)
    for parameter in layer.parameters():
        parameter.data = (0.3 * torch.randn_like(parameter)).bfloat16().float()
    exact = Block(bias).double()
    exact.load_state_dict(layer.state_dict())
    shape = (12, batch, WIDTH) if dim == 0 else (batch, 12, WIDTH)
    x, gradient = (torch.randn(shape).bfloat16() for _ in range(2))
    wide = x.double().requires_grad_()
    wanted = exact(wide)
    wanted.backward(gradient.double())
    is_whole = kind == "replicated"
    given = (x.clone() if is_whole else own(x, dim)).contiguous().requires_grad_()
    backend = ltt.Backend(rule, explain=True)
    layer = parallelize(layer.bfloat16(), mesh, plan(kind, dim))
    with graphs() as found:
        y = torch.compile(layer if around is None else lambda x: around(layer, x), backend=backend)(given)
        y.backward(gradient if is_whole else own(gradient, dim))
    part = (lambda whole: whole) if is_whole else (lambda whole: own(whole, dim))
    assert error(y.detach(), part(wanted.detach())) < 2**-6
    assert error(given.grad, part(wide.grad)) < 2**-5
    for (name, one), other in zip(layer.named_parameters(), exact.parameters(), strict=True):
        whole = one.grad.full_tensor() if hasattr(one.grad, "full_tensor") else one.grad
        assert error(whole, other.grad) < 2**-5, name
    names = [str(node.target).split(".")[1] for graph in found for node in graph.nodes if "c10d" in str(node.target)]
    return backend.report(), [name for name in names if name != "wait_tensor"]


def taken(report: Any) -> list[str]:
    return [row.collective for row in report if row.collective]


def blocks_of_sequence_parallelism() -> None:
    """The products of gate and up share one gather, forward; backward, their gradients are added before the sum."""
    for dim, batch in ((1, 1), (0, 2)):
        report, left = check_plan("block", dim, batch)
        assert taken(report) == [GATHER, SCATTER, GATHER, SCATTER] and not report.left, str(report)
        assert left == [REDUCE] * left.count(REDUCE)  # of the gradient of the norm's weight
        (both,) = (row for row in report if row.collective == SCATTER and row.taken)
        assert "add" in both.taken and "full" in both.epilogue


def rows_in_another_order() -> None:
    """Several sequences, each divided among the ranks: A, D and operands are copied to the order of the ranks."""
    report, left = check_plan("block", 1, 2)
    assert taken(report) == [GATHER, SCATTER, GATHER, SCATTER] and not {GATHER, SCATTER} & {*left}


def layers_with_biases() -> None:
    """Each layer gathers for itself, and the graph gathers once. A bias is divided by the ranks, before the sum."""
    report, left = check_plan("layers", 1, 1, bias=True)
    assert taken(report) == [GATHER, SCATTER, GATHER, SCATTER, SCATTER], str(report)
    assert GATHER not in left and SCATTER not in left
    (row,) = (row for row in report if row.op == "aten.addmm.default" and row.collective == SCATTER)
    assert "per_column" in row.epilogue


def replicated_activations() -> None:
    report, left = check_plan("replicated", 1, 2)
    assert taken(report) == [REDUCE] * len(taken(report)) and len(taken(report)) >= 2 and REDUCE not in left


def a_rule_without_collectives_leaves_them() -> None:
    rule = importlib.import_module("dataclasses").replace(ALL, collectives=False)
    report, left = check_plan("block", 1, 1, rule=rule)
    assert not taken(report) and GATHER in left and SCATTER in left and not report.left
    small = importlib.import_module("dataclasses").replace(ALL, least_rows=1000)
    report, left = check_plan("block", 1, 1, rule=small)
    assert not report.taken and GATHER in left and SCATTER in left


def functional_collectives() -> None:
    """Inference without DTensor: what follows a gathered product is in its epilogue. The number of rows may be one of
    run time."""
    for dynamic in (False, True):
        backend = ltt.Backend(ALL, explain=True)
        with graphs() as found, torch.no_grad():
            compiled = torch.compile(cases.mlp, backend=backend)
            for rows in (4, 6) if dynamic else (4,):
                cases.check_compiled(compiled, rows, (24, 16), "cpu", rows_of_run_time if dynamic else None)
        first, second = backend.report()
        assert (first.collective, second.collective) == (GATHER, SCATTER), str(backend.report())
        assert first.taken == ("add", "relu")
        assert len(found) == 1 and not any("c10d" in str(node.target) for node in found[0].nodes)


def rows_of_run_time(x: Any) -> Any:
    torch._dynamo.mark_dynamic(x, 0)
    return x


def a_product_between_two_collectives() -> None:
    """It waits for its rows, and the sum over ranks is left."""
    collectives, group = importlib.import_module("torch.distributed._functional_collectives"), dist.group.WORLD

    def both(x: Any, w: Any) -> Any:
        return collectives.reduce_scatter_tensor(collectives.all_gather_tensor(x, 0, group) @ w, "sum", 0, group)

    x, w = torch.randn(4, 16).bfloat16(), torch.randn(16, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    backend = ltt.Backend(ALL, explain=True)
    with graphs(), torch.no_grad():
        found = torch.compile(both, backend=backend)(x, w)
    assert error(found, dist.get_world_size() * x.double() @ w.double()) < 2**-6
    (row,) = backend.report()
    assert row.collective == GATHER and row.reason.startswith("reduce_scatter_tensor is left")


def what_checkpointing_tells_apart_is_left() -> None:
    """Rows that are saved after their gather, while the product is computed again in the backward pass."""
    checkpoint = importlib.import_module("torch.utils.checkpoint")
    policies = checkpoint.CheckpointPolicy

    def policy(context: Any, op: Any, *given: Any, **more: Any) -> Any:
        return policies.MUST_SAVE if "c10d" in str(op) else policies.PREFER_RECOMPUTE

    contexts = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)
    around = functools.partial(checkpoint.checkpoint, use_reentrant=False, context_fn=contexts)
    report, left = check_plan("block", 1, 1, around=around)
    assert "all_gather_into_tensor is left: activation checkpointing" in str(report)
    assert GATHER in left
    report, left = check_plan("block", 1, 1, around=functools.partial(checkpoint.checkpoint, use_reentrant=False))
    assert taken(report)[:2] == [GATHER, SCATTER] and not {GATHER, SCATTER} & {*left}, str(report)


def by_kernels() -> None:
    """The same graphs with windows, flags and epochs, and kernels that torch computes."""
    with fakes.gpus(dist.get_rank()):
        report, _ = check_plan("block", 0, 4)
        ranks = distributed.ranks_of(None)
        assert taken(report) == [GATHER, SCATTER, GATHER, SCATTER]
        assert {key.op for key, why in ranks.agreed.items() if not why and hasattr(key, "op")} == {
            "all_gather_matmul",
            "matmul_reduce_scatter",
        }
        check_rows(0, (29, WIDTH))
        taken_rows = {key.rows for key, why in ranks.agreed.items() if not why and hasattr(key, "op")} - {()}
        assert {(sum(rows), len(rows)) for rows in taken_rows} == {(29, ranks.size)}, ranks.agreed
        ranks.agreed.clear()
        ranks.engines.clear()


def ops_agree_with_their_fakes() -> None:
    """Shapes, strides and types, and the epilogue before the sum."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    a, b, bias = torch.randn(2 * size, 5), torch.randn(5, 3), torch.randn(3)
    text = "(acc: f32, %x0: per_column f32) -> f32 { %0 = add acc, %x0; %0 }"
    how, group = ([], text, "repeatable", None, None), dist.group.WORLD.group_name
    for op, more in (
        (ops.all_gather_matmul, (size, True, [])),
        (ops.all_gather_matmul, (size, False, [])),
        (ops.all_gather_matmul, (size, True, [3, *[1] * (size - 1)])),
        (ops.matmul_reduce_scatter, (size, [])),
        (ops.matmul_reduce_scatter, (size, [size + 1, size - 1, *[0] * (size - 2)])),
        (ops.matmul_all_reduce, ()),
    ):
        torch.library.opcheck(op, (a, b, [bias], *how, group, *more))
    total = (a @ b + bias).clone()
    dist.all_reduce(total)
    summed = ops.matmul_reduce_scatter(a, b, [bias], *how, group, size, [])
    torch.testing.assert_close(summed, own(total, 0))
    torch.testing.assert_close(ops.matmul_all_reduce(a, b, [bias], *how, group), total)
    d, rows = ops.all_gather_matmul(a, b, [bias], *how, group, size, True, [])
    torch.testing.assert_close(d, rows @ b + bias)
    with pytest.raises(lt.LaunchError, match=r"\[ranks-name\]"):
        ops.matmul_all_reduce(a, b, [bias], *how, "no such group")


class Layers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Two pairs of layers. Between them, the rows are divided among the ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.third = (torch.nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.second, self.last = (torch.nn.Linear(HIDDEN, WIDTH, bias=False) for _ in range(2))

    def forward(self, x: Any) -> Any:
        y = functional.silu(self.second(functional.silu(self.first(x))))
        return self.last(functional.silu(self.third(y)))


def check_rows(dim: int, shape: tuple[int, ...]) -> Any:
    """`Layers`, forward and backward, with rows along `dim` that the ranks do not divide, against f64. Returns the
    report."""
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (dist.get_world_size(),))
    parallel, tensor = (importlib.import_module(f"torch.distributed.tensor{end}") for end in (".parallel", ""))
    rows = tensor.Shard(dim)
    torch.manual_seed(0)
    layer, exact = Layers().bfloat16(), Layers().double()
    for parameter in layer.parameters():
        parameter.data = (0.3 * torch.randn_like(parameter)).bfloat16()
    exact.load_state_dict(layer.state_dict())
    plan = {"first": parallel.ColwiseParallel(), "third": parallel.ColwiseParallel(input_layouts=rows)}
    plan |= {name: parallel.RowwiseParallel(output_layouts=rows, use_local_output=False) for name in ("second", "last")}
    layer = parallel.parallelize_module(layer, mesh, plan)
    given = torch.randn(shape).bfloat16().requires_grad_()
    wide = given.detach().double().requires_grad_()
    backend = ltt.Backend(ALL, explain=True)
    with graphs():
        y = torch.compile(layer, backend=backend)(given).full_tensor()
        y.float().square().sum().backward()
    wanted = exact(wide)
    wanted.square().sum().backward()
    assert error(y.detach(), wanted.detach()) < 2**-6
    assert error(given.grad, wide.grad) < 2**-5
    for (name, one), other in zip(layer.named_parameters(), exact.parameters(), strict=True):
        assert error(one.grad.full_tensor(), other.grad) < 2**-5, name
    return backend.report()


def rows_that_ranks_do_not_divide() -> None:
    for dim, shape in ((0, (13, WIDTH)), (0, (5, 3, WIDTH)), (1, (1, 13, WIDTH))):
        report = check_rows(dim, shape)
        assert taken(report)[:3] == [SCATTER, GATHER, SCATTER] and taken(report).count(GATHER) == 3, str(report)
    report = check_rows(1, (2, 13, WIDTH))
    assert GATHER not in taken(report) and SCATTER not in taken(report)
    assert str(report).count("parts of different sizes, along a dimension that is not the first") == 6, str(report)


PARTS = (
    rows_that_ranks_do_not_divide,
    ops_agree_with_their_fakes,
    blocks_of_sequence_parallelism,
    rows_in_another_order,
    layers_with_biases,
    replicated_activations,
    functional_collectives,
    a_product_between_two_collectives,
    a_rule_without_collectives_leaves_them,
    what_checkpointing_tells_apart_is_left,
    by_kernels,
)


@pytest.fixture(scope="module", params=[2, 4])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder, size = tmp_path_factory.mktemp("ranks"), request.param
    processes.run_parts(PARTS, size, folder, 120)
    return size, folder


@pytest.mark.parametrize("part", [part.__name__ for part in PARTS])
def test_on_every_rank(outcomes: Any, part: str) -> None:
    processes.assert_passed(part, *outcomes)
