"""The epilogue of a fusion: its nodes, replayed on traced values, and its results.

It is traced like a user's epilogue, so unsupported operations are refused there, with a reason.
"""

import inspect
from collections.abc import Callable
from typing import Any

from lowtide.compiler.epilogue.functions import cast
from lowtide.compiler.epilogue.operands import OperandKind, OperandType
from lowtide.compiler.epilogue.reductions import gather, logsumexp
from lowtide.compiler.epilogue.reductions import sum as sum_of
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.fx.arguments import constant, is_constant, is_node
from lowtide.compiler.fx.fusion import Fusion
from lowtide.compiler.fx.pointwise import OPS
from lowtide.compiler.fx.reductions import COLUMN_SUM, Results
from lowtide.compiler.fx.values import value_of

TARGET = "target"  # the operand with the columns that a result takes of each row
_OF_TENSORS = frozenset({"dtype", "layout", "device", "memory_format", "pin_memory", "non_blocking"})  # not numbers


def text_of(fusion: Fusion, sums: str = "f32") -> str:
    """The epilogue as text, "" if D is the product. Raises SpecError if the tracer refuses it."""
    results = fusion.region.results
    if results is not None:
        types = {name: _type_of(node) for name, node in zip(results.names, results.full, strict=False)}
        return epilogue_text(epilogue_of(fusion), sums, fusion.d, types, len(fusion.region.roots))
    is_plain = len(fusion.nodes) == 1 and not fusion.leaves and fusion.product.alpha == 1
    return "" if is_plain else epilogue_text(epilogue_of(fusion), sums, fusion.d)


def _type_of(node: Any) -> str:
    value = value_of(node)
    assert value is not None and value.dtype is not None
    return value.dtype


def epilogue_of(fusion: Fusion) -> Callable[..., Any]:
    """A function of the accumulators, the leaves, each with its kind and element type, and the columns that a result
    takes of each row. It returns D's element, or the results by name."""
    roots, results = fusion.region.roots, fusion.region.results

    def epilogue(*given: Any) -> Any:
        accs, operands = given[: len(roots)], given[len(roots) :]
        values = {leaf.node: operand for leaf, operand in zip(fusion.leaves, operands, strict=False)}
        for node in fusion.nodes:
            is_root = node in roots
            values[node] = _start(fusion, accs[roots.index(node)], values) if is_root else _computed(node, values)
            if results is not None and node is results.rounded:
                values[node] = cast(values[node], _type_of(node))
        return values[fusion.region.exit] if results is None else _returned(results, values, operands[-1:])

    parameters = [inspect.Parameter(f"acc{i or ''}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(roots))]
    kinds = [(leaf.name, OperandType(leaf.kind, leaf.dtype)) for leaf in fusion.leaves]
    if results is not None and results.softmax is not None and results.softmax.gathers:
        kinds.append((TARGET, OperandType(OperandKind.PER_ROW, "s32")))
    for name, kind in kinds:
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind))
    epilogue.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return epilogue


def _returned(results: Results, values: dict[Any, Any], target: tuple[Any, ...]) -> dict[str, Any]:
    """The results by name. `target`: the last operand, which has the columns that are taken of rows, if any are."""
    found = [values[node] for node in results.full]
    found += [sum_of(values[each.source], 0 if each.kind == COLUMN_SUM else 1) for each in results.reduced]
    if results.softmax is not None:
        source = values[results.softmax.source]
        found += [logsumexp(source, 1), *(gather(source, target[0]) for _ in results.softmax.gathers)]
    return dict(zip(results.names, found, strict=True))


def _start(fusion: Fusion, acc: Any, values: dict[Any, Any]) -> Any:
    """The product's element, including the tensor that addmm adds."""
    product = fusion.product
    value = acc if product.alpha == 1 else product.alpha * acc
    if product.added is None or product.beta == 0:
        return value
    added = values[product.added]
    return value + (added if product.beta == 1 else product.beta * added)


def _computed(node: Any, values: dict[Any, Any]) -> Any:
    def value(argument: Any) -> Any:
        if is_constant(argument):
            return constant(argument)
        return values[argument] if is_node(argument) else argument

    keywords = {name: value(argument) for name, argument in node.kwargs.items() if name not in _OF_TENSORS}
    return OPS[str(node.target)](*map(value, node.args), **keywords)
