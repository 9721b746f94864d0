"""A GEMM with its epilogue by torch's own operations, for tensors outside of GPU memory.

Types and roundings are those of a kernel: sums and epilogue in f32 (f64 for f64, s32 for integers), rounded once to
D's type. The order of sums and the functions of the epilogue are torch's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.epilogue.trace import Node
from lowtide.elements import ELEMENTS, element_type
from lowtide.torch.calls import Epilogue
from lowtide.torch.dtypes import dtype_of, name_of

_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "div_approx": torch.div,
    "max": torch.maximum,
    "min": torch.minimum,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
    "where": torch.where,
}

_REDUCTIONS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "sum": torch.sum,
    "max": torch.amax,
    "min": torch.amin,
    "logsumexp": torch.logsumexp,
}


def product(a: torch.Tensor, b: torch.Tensor, sums: str, precision: str | None = None) -> torch.Tensor:
    """A · B in the type of the sums; integers in s32, which wraps around. Sums of products of pieces are in f32."""
    computed = dtype_of(element_type(sums).computes_in if element_type(sums).is_float else sums)
    if precision is not None and precision in ELEMENTS:
        a, b = _cut(a, precision), _cut(b, precision)
    return torch.matmul(a.to(computed), b.to(computed))


def _cut(x: torch.Tensor, narrower: str) -> torch.Tensor:
    """The upper bits of f32 that are multiplied as a narrower type stored in f32."""
    dropped = element_type(name_of(x.dtype)).precision - element_type(narrower).precision
    return (x.view(torch.int32) >> dropped << dropped).view(x.dtype) if dropped else x


def evaluate(
    epilogue: Epilogue, acc: torch.Tensor | None, operands: Sequence[torch.Tensor], scalars: Sequence[float]
) -> torch.Tensor:
    """D, rounded to its type, from the sums, the tensors and the scalars; `acc` is None if the epilogue does not read
    the sums.

    Without a full operand the result broadcasts to D: a vector per row is (…, M, 1), one per column (…, 1, N).
    """
    graph = epilogue.graph
    values: dict[int, torch.Tensor] = {}
    given = dict(zip(epilogue.names, (*operands, *scalars), strict=True))
    like = operands[0] if acc is None else acc
    if graph.result.op == "operand":  # unchanged, not converted by way of f32
        return rounded(_placed(graph.operands[graph.result.attribute], given, like.device), graph.d)  # type: ignore[index]
    for node in graph.nodes:
        inputs = [values[id(other)] for other in node.inputs]
        values[id(node)] = _evaluate(node, inputs, (acc,), given, graph, like.device)
    return rounded(values[id(graph.result)], graph.d)


def evaluate_results(
    graph: EpilogueGraph, accs: Sequence[torch.Tensor], given: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The results by name. `accs`: the sums (M, N), two of them for pairs of columns. `given`: the operands by name.
    Full results are (M, N). Reductions have the shape and type that a kernel gives them."""
    values: dict[int, torch.Tensor] = {}
    for node in graph.nodes:
        inputs = [values[id(other)] for other in node.inputs]
        values[id(node)] = _evaluate(node, inputs, accs, given, graph, accs[0].device)
    target = next((given[operand.name] for operand in graph.operands if operand.kind is OperandKind.TARGET), None)
    found = {}
    for result, node in graph.results:
        if not result.is_returned:
            continue
        value = values[id(node)].expand(accs[0].shape)
        reduction = result.kind.reduction
        found[result.name] = (
            rounded(value, result.dtype) if reduction is None else _reduced(value, result.kind.value, target)
        )
    return found


def _reduced(value: torch.Tensor, kind: str, target: torch.Tensor | None) -> torch.Tensor:
    """The reduction of the values (M, N). `kind`: an axis and an operation, such as "row_sum"."""
    axis, operation = kind.split("_")
    if operation == "value":
        assert target is not None and axis == "row"
        inside = (target >= 0) & (target < value.shape[1])
        wanted = value.gather(1, torch.where(inside, target, 0).long()[:, None])[:, 0]
        return torch.where(inside, wanted, 0.0)
    value = value.reshape(1, -1) if axis == "all" else value
    return _REDUCTIONS[operation](value, 0 if axis == "column" else 1)


def rounded(value: torch.Tensor, d: str) -> torch.Tensor:
    """Rounded to nearest, ties to even; integers are saturated, NaN becomes 0."""
    row = element_type(d)
    if row.is_float:
        return value.to(dtype_of(d))
    if value.is_floating_point():
        value = torch.nan_to_num(torch.round(value), nan=0.0)
        value = value.double()  # f32 does not hold the largest s32
    return torch.clamp(value, row.lowest, row.largest).to(dtype_of(d))


def _evaluate(
    node: Node,
    inputs: list[torch.Tensor],
    accs: Sequence[torch.Tensor | None],
    given: Mapping[str, Any],
    graph: EpilogueGraph,
    device: torch.device,
) -> torch.Tensor:
    computes_in = dtype_of("s32" if node.is_integer else graph.computes_in)
    if node.op == "acc":
        acc = accs[int(node.attribute or 0)]  # 1: the second of a pair
        assert acc is not None
        return acc.to(computes_in)
    if node.op == "const":
        return torch.full((), node.attribute, dtype=computes_in, device=device)
    if node.op == "real":
        return inputs[0].to(computes_in)
    if node.op == "cast":
        return inputs[0].to(dtype_of(str(node.attribute))).to(computes_in)
    if node.op != "operand":
        return _OPS[node.op](*inputs)
    assert isinstance(node.attribute, int)
    return _placed(graph.operands[node.attribute], given, device).to(computes_in)


def _placed(operand: Operand, given: Mapping[str, Any], device: torch.device) -> torch.Tensor:
    """An operand in its own type, shaped to broadcast to D."""
    value = given[operand.name]
    if operand.kind is OperandKind.SCALAR:
        return torch.full((), value, dtype=dtype_of(operand.dtype), device=device)
    axis = {OperandKind.FULL: None, OperandKind.PER_ROW: -1, OperandKind.PER_COLUMN: -2}[operand.kind]
    found: torch.Tensor = value if axis is None or (value.dim() == 1 and axis == -2) else value.unsqueeze(axis)
    return found
