"""The problem that a module computes, read back off its IR: what a dumped level is checked against.

Down to level `atoms` the module says it all: layouts, types, extents, and the epilogue as a region, on `tile.gemm` or
`tile.store`. Further down the region has been taken apart; extents, layout and operands' kinds are still on the host
function.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mlir import ir

from lowtide.compiler.epilogue import OperandKind, OperandType
from lowtide.compiler.epilogue_trace import Node, Traced, Tracer
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects import tile
from lowtide.dialects.locations import where
from lowtide.errors import IRError, SpecError
from lowtide.passes.base import walk
from lowtide.passes.problem import kinds_of, layout_letters
from lowtide.runtime.manifest import OPERAND_DIMS

Epilogue = Callable[..., Any]

_UNARY = MappingProxyType(
    {
        "arith.negf": "neg",
        "math.absf": "abs",
        **{f"math.{name}": name for name in ("exp", "log", "tanh", "erf", "sqrt", "rsqrt")},
    }
)
_BINARY = MappingProxyType(
    {
        "arith.addf": "add",
        "arith.subf": "sub",
        "arith.mulf": "mul",
        "arith.divf": "div",
        "arith.maximumf": "max",
        "arith.minimumf": "min",
        "arith.andi": "and",
        "arith.ori": "or",
    }
)
# arith.cmpf's predicates by their number in IR; the others are not made by the front end.
_COMPARE: Mapping[int, str] = MappingProxyType({1: "eq", 2: "gt", 3: "ge", 4: "lt", 5: "le", 13: "ne"})


@dataclass(frozen=True)
class FoundProblem:
    """What a module says of its problem; `whole` where that includes the epilogue, else `spec` has none."""

    spec: GemmSpec
    whole: bool


def spec_of(module: ir.Module) -> FoundProblem:
    """The problem of a module of any level. Run-time extents are None.

    Raises SpecError for one that no GemmSpec says, such as an epilogue op that Lowtide's own functions do not make;
    IRError where the module has no host function, or one that does not say what it computes.
    """
    function = _host_function(module)
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    names = argument_names(function)
    found = [*walk(module, tile.GemmOp), *walk(module, tile.StoreOp)]
    if "tile.gemm" in function.attributes:
        facts = ir.DictAttr(function.attributes["tile.gemm"])
        layout, acc = ir.StringAttr(facts["layout"]).value, str(ir.TypeAttr(facts["acc"]).value)
        kinds = [ir.StringAttr(kind).value for kind in ir.ArrayAttr(facts["kinds"])]
    elif found and isinstance(found[0], tile.GemmOp):
        layout, acc, kinds = layout_letters(found[0]), str(ir.TypeAttr(found[0].acc).value), kinds_of(found[0])
    else:
        raise SpecError(
            "the module does not say what it computes: its host function has neither a tile.gemm nor tile.gemm = "
            '{acc = …, kinds = […], layout = "…"}; begin from a dump of Lowtide'
        )
    operands = [(name, kind, _dtype(type_)) for name, kind, type_ in zip(names[3:], kinds, types[3:], strict=True)]
    whole = bool(found)
    return FoundProblem(
        GemmSpec(
            **_extents(types, layout),
            a=_dtype(types[0]),
            b=_dtype(types[1]),
            d=_dtype(types[2]),
            acc=acc,
            layout=layout,
            epilogue=_replay(found[0].epilogue.blocks[0] if whole else None, operands, _dtype(types[2])),
        ),
        whole,
    )


def argument_names(function: ir.OpView) -> list[str]:
    """The names of the host function's arguments: a, b, d, and the operands' as `tile.name` has them."""
    count = len(function.regions[0].blocks[0].arguments)
    names = ["a", "b", "d", *(f"operand{i}" for i in range(count - 3))]
    attributes = function.attributes
    given = ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
    entries = [ir.DictAttr(entry) for entry in given]
    return [
        ir.StringAttr(entry["tile.name"]).value if "tile.name" in entry else name
        for name, entry in zip(names, entries or [{}] * count, strict=True)
    ]


def _host_function(module: ir.Module) -> ir.OpView:
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(functions) != 1:
        raise IRError(f"a module has one host function (func.func), this one has {len(functions)}")
    if len(functions[0].regions[0].blocks[0].arguments) < 3:
        raise IRError(f"{where(functions[0])}: the host function takes a, b, d and the epilogue's operands")
    return functions[0]


def _dtype(type_: ir.Type) -> str:
    return str(type_.element_type if isinstance(type_, ir.MemRefType) else type_)


def _extents(types: list[ir.Type], layout: str) -> dict[str, int | None]:
    extents: dict[str, int | None] = {"m": None, "n": None, "k": None}
    for type_, letters in zip(types, (*OPERAND_DIMS[layout], ("m", "n")), strict=False):
        for axis, letter in enumerate(letters):
            if not type_.is_dynamic_dim(axis):
                extents[letter] = type_.get_dim_size(axis)
    return extents


def _replay(block: ir.Block | None, operands: list[tuple[str, str, str]], d: str) -> Epilogue | None:
    """A function that does again, on traced values, what a region does; one that ignores its operands without one."""
    if block is None and not operands:
        return None

    def epilogue(acc: Traced, **values: Traced) -> Traced:
        if block is None:
            return acc
        return Traced(
            acc._tracer, _Region(acc._tracer, block, [acc._node, *(v._node for v in values.values())], d).run()
        )

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("acc", inspect.Parameter.POSITIONAL_OR_KEYWORD)] + [
        inspect.Parameter(name, keyword, annotation=OperandType(OperandKind(kind), dtype))
        for name, kind, dtype in operands
    ]
    epilogue.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return epilogue


class _Region:
    """A region's ops as nodes of a trace. All is in f32: a narrower result is rounded to its type by a cast."""

    def __init__(self, tracer: Tracer, block: ir.Block, arguments: list[Node], d: str) -> None:
        self.tracer = tracer
        self.block = block
        self.d = d
        self.nodes: dict[ir.Value, Node] = dict(zip(block.arguments, arguments, strict=True))

    def run(self) -> Node:
        """The node of what the region yields. The rounding to D's type, which ends it, is left to the comparison."""
        *body, last = self.block.operations
        for op in body:
            self.nodes[op.results[0]] = self._rounded(op, self._node(op))
        value = last.operands[0]
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == "arith.truncf" and str(value.type) == self.d:
            value = owner.operands[0]
        return self.nodes[value]

    def _rounded(self, op: ir.OpView, node: Node) -> Node:
        dtype = str(op.results[0].type)
        exact = op.operation.name in ("arith.extf", "arith.select", "arith.constant") or dtype in ("f32", "i1")
        return node if exact else self.tracer.node("cast", [node], dtype)

    def _node(self, op: ir.OpView) -> Node:
        name, inputs = op.operation.name, [self.nodes.get(operand) for operand in op.operands]
        given = [node for node in inputs if node is not None]
        attributes = op.attributes
        if name in ("arith.extf", "arith.truncf"):
            return given[0]
        if name == "arith.constant":
            value = attributes["value"]
            if isinstance(value, ir.FloatAttr):
                return self.tracer.node("const", (), float(value.value))
            return self.tracer.node("true")  # only ever read by the arith.xori of a negation
        if name == "arith.divf" and "afn" in str(attributes.get("fastmath", "")):
            return self.tracer.node("div_approx", given)
        if name in _UNARY or name in _BINARY:
            return self.tracer.node((_UNARY | _BINARY)[name], given)
        if name == "arith.select":
            return self.tracer.node("where", given)
        if name == "arith.xori" and given[1].op == "true":
            return self.tracer.node("not", given[:1])
        if name == "arith.cmpf":
            predicate = int(ir.IntegerAttr(attributes["predicate"]).value)
            if predicate in _COMPARE:
                return self.tracer.node(_COMPARE[predicate], given)
        raise SpecError(
            f"{where(op)}: the float64 reference has no {name} as this epilogue uses it; compare with another file "
            "(--against) in the domain exact"
        )
