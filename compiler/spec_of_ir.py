"""Reads the problem that a module computes back from its IR. Dumped levels are checked against it.

Down to level `atoms` the module holds all of it: layouts, types, extents, and the epilogue as a region, on `tile.gemm`
or `tile.store`. Below, the region has been taken apart; extents, layout and operands' kinds are still on the host
function.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from mlir import ir
from mlir.dialects import arith

from lowtide.compiler.block_scales import scales_of
from lowtide.compiler.epilogue.operands import OperandKind, OperandType, name_error
from lowtide.compiler.epilogue.results import D, Reduced
from lowtide.compiler.epilogue.results import ResultKind as TracedKind
from lowtide.compiler.epilogue.trace import Node, Traced, Tracer
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import FAST, UNBATCHED, UNGROUPED, Groups, Unbatched, Ungrouped
from lowtide.dialects import tile
from lowtide.dialects.enums import result_kinds
from lowtide.dialects.locations import where
from lowtide.dialects.tile import ResultKind
from lowtide.elements import INTEGER_TYPE, element_type
from lowtide.errors import IRError, SpecError
from lowtide.passes.base import walk
from lowtide.passes.support.ir.rewriting import defining_op, values_from_outside
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.matrix_layouts import is_column_major
from lowtide.passes.support.problem.problem import Problem, first_full
from lowtide.reductions import REDUCTIONS, VALUE
from lowtide.runtime.kinds import KIND_DIMS, ROW_INDICES, matrix_dims, output_dims
from lowtide.runtime.results import returned

Epilogue = Callable[..., Any]

_NOT_RETURNED = (ResultKind.amax, ResultKind.absent)
_IN_THE_SUM = (OperandKind.GROUP_SCALE.value, OperandKind.GROUP_ZERO.value)
# Ops that compute a node of a trace.
_ALIKE: Mapping[str, str] = MappingProxyType(
    {
        "arith.addf": "add",
        "arith.subf": "sub",
        "arith.mulf": "mul",
        "arith.divf": "div",
        "arith.maximumf": "max",
        "arith.minimumf": "min",
        "arith.negf": "neg",
        "arith.andi": "and",
        "arith.ori": "or",
        "arith.select": "where",
        "math.absf": "abs",
        "arith.addi": "add",
        "arith.subi": "sub",
        "arith.muli": "mul",
        "arith.maxsi": "max",
        "arith.minsi": "min",
        "arith.sitofp": "real",
        **{f"math.{name}": name for name in ("exp", "log", "tanh", "erf", "erfc", "sqrt", "rsqrt")},
    }
)
# Predicates of arith.cmpi, by their numbers in IR.
_COMPARE_INTEGERS: Mapping[int, str] = MappingProxyType({0: "eq", 1: "ne", 2: "lt", 3: "le", 4: "gt", 5: "ge"})
# Predicates of arith.cmpf, by their numbers in IR; the front end does not make the others.
_COMPARE: Mapping[int, str] = MappingProxyType({1: "eq", 2: "gt", 3: "ge", 4: "lt", 5: "le", 13: "ne"})


@dataclass(frozen=True)
class FoundProblem:
    """The problem of a module. `whole`: whether it includes the epilogue; otherwise `spec` has none."""

    spec: GemmSpec
    whole: bool


def spec_of(module: ir.Module) -> FoundProblem:
    """The problem of a module of any level. Run-time extents are None.

    Raises ScheduleError for a problem without a full result; SpecError for a problem that no GemmSpec describes, such
    as one with an epilogue op that Lowtide's functions do not make; IRError if the module has no host function, or one
    without a problem.
    """
    function = host_function(module)
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    names = argument_names(function)
    found = [*walk(module, tile.GemmOp), *walk(module, tile.StoreOp)]
    if "tile.problem" in function.attributes:
        problem = Problem.of_attribute(function.attributes["tile.problem"], types)
        empty = function.attributes["tile.problem"].empty
    elif found and isinstance(found[0], tile.GemmOp):
        problem, empty = Problem.of(found[0]), ""
    else:
        raise SpecError(
            "the module does not define its problem: its host function has neither a tile.gemm nor tile.problem = "
            "#tile.problem<…>; start from a dump of Lowtide [no-problem-in-ir]"
        )
    layout, kinds = str(problem.layout), [str(kind) for kind in problem.kinds]
    d_order = "column" if problem.d_is_column_major else "row"
    of_results = zip(names[2:], problem.results, types[2:], strict=False)
    given = {name: (kind, _dtype(type_)) for name, kind, type_ in of_results if kind not in _NOT_RETURNED}
    full = {name: dtype for name, (kind, dtype) in given.items() if kind is ResultKind.full}
    first = 2 + len(problem.results)
    of_operands = zip(names[first:], kinds, types[first:], strict=True)
    operands = [(name, kind, _dtype(type_)) for name, kind, type_ in of_operands]
    d = first_full(problem.results, types)
    assert d is not None
    in_the_sum = {kind: dtype for _, kind, dtype in operands if kind in _IN_THE_SUM}
    target = OperandKind.TARGET
    in_epilogue = [one for one in operands if OperandKind(one[1]).is_of_epilogue or one[1] == target.value]
    indices = [type_ for kind, type_ in zip(kinds, types[first:], strict=True) if kind in ROW_INDICES]
    whole = bool(found)
    return FoundProblem(
        GemmSpec(
            **(_extents([types[0], types[1], d, *indices], (layout, d_order), problem) | dict.fromkeys(empty, 0)),
            batch=UNBATCHED if problem.k_is_grouped else _batch([types[0], types[1], d]),
            counts=problem.is_padded,
            arrivals=problem.has_arrivals,
            peers=problem.has_peers,
            groups=_groups(problem, types[1], d),
            a=_dtype(types[0]),
            b=problem.weights or _dtype(types[1]),
            d=_dtype(d),
            acc=FAST if problem.is_fast else problem.acc,
            precision=problem.precision,
            layout=layout,
            d_order=d_order,
            group=problem.group or None,
            scales=in_the_sum.get(OperandKind.GROUP_SCALE.value),
            zero_points=OperandKind.GROUP_ZERO.value in in_the_sum,
            block_scales=scales_of(kinds),
            pairs=problem.pairs,
            a_rows=problem.takes_rows,
            d_rows=problem.places_rows,
            lists=problem.lists or None,
            amax=ResultKind.amax in problem.results,
            result_types={name: dtype for name, dtype in full.items() if dtype != _dtype(d)},
            epilogue=_replay(found[0] if whole else None, in_epilogue, given, problem),
        ),
        whole,
    )


def argument_names(function: ir.OpView) -> list[str]:
    """The names of the host function's arguments: a, b, and those of the results and operands in `tile.name`.

    Raises IRError for names that operands of a kernel cannot have.
    """
    count, kinds = len(function.regions[0].blocks[0].arguments), _result_kinds(function)
    first = kinds.index("full") if "full" in kinds else None
    results = [D if index == first else f"{kind}{index}" for index, kind in enumerate(kinds)]
    names = ["a", "b", *results, *(f"operand{i}" for i in range(count - 2 - len(results)))]
    attributes = function.attributes
    given = ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
    entries = [ir.DictAttr(entry) for entry in given]
    found = [
        ir.StringAttr(entry["tile.name"]).value if "tile.name" in entry else name
        for name, entry in zip(names, entries or [{}] * count, strict=True)
    ]
    first = 2 + len(results)
    for index, name in enumerate(found[first:], first):
        twice = f"the epilogue operand's name {name!r} is given twice: rename one" if name in found[:index] else None
        if (error := name_error(name) or twice) is not None:
            raise IRError(f"{where(function)}: {error} (tile.name of argument {index}) [argument-name]")
    return found


def _result_kinds(function: ir.OpView) -> list[str]:
    """The kinds of the host function's results; one D if it does not say them."""
    if "tile.problem" in function.attributes:
        return list(function.attributes["tile.problem"].result_kinds)
    gemms = walk(function, tile.GemmOp)
    return [str(kind) for kind in result_kinds(gemms[0])] if gemms else ["full"]


def host_function(module: ir.Module) -> ir.OpView:
    """The only func.func of the module. Raises IRError if there is not exactly one, or if it has too few arguments."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(functions) != 1:
        raise IRError(f"a module has one host function (func.func); this one has {len(functions)} [one-function]")
    if len(functions[0].regions[0].blocks[0].arguments) < 3:
        raise IRError(
            f"{where(functions[0])}: the host function takes a, b, results and the epilogue's operands"
            " [function-arguments]"
        )
    return functions[0]


def epilogue_ops(block: ir.Block) -> list[ir.OpView]:
    """The ops of an epilogue's region, the terminator last, preceded by the constants outside the region that they
    read.

    Canonicalize hoists constants out of the region. Raises SpecError for any other value from outside.
    """
    constants: dict[ir.Value, ir.OpView] = {}
    for reader, _, value in values_from_outside(block):
        constant = defining_op(value)
        if not isinstance(constant, arith.ConstantOp):
            raise SpecError(
                f"{where(reader)}: the epilogue reads a value from outside its region; make it one of its operands"
                " [epilogue-outside]"
            )
        constants[value] = constant
    return [*constants.values(), *block.operations]


def _dtype(type_: ir.Type) -> str:
    return element_name(type_.element_type if isinstance(type_, ir.MemRefType) else type_)


def shape_as_it_lies(type_: ir.MemRefType) -> list[int | None]:
    """The shape of the array in memory: columns come before rows if they are contiguous. None for an extent known at
    run time."""
    shape = [None if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis) for axis in range(type_.rank)]
    return [*shape[:-2], shape[-1], shape[-2]] if is_column_major(type_) else shape


def words_of(problem: Problem) -> dict[str, Any]:
    """The words of a manifest's spec for pairs of columns, for rows of A and D at an index, for counts of rows, for
    shards that arrive, for places of peers, and for lists of matrices."""
    given = {"pairs": problem.pairs, "lists": problem.lists or None}
    words = {name: word for name, word in given.items() if word is not None}
    flags = {"a_rows": problem.takes_rows, "d_rows": problem.places_rows, "counts": problem.is_padded}
    flags |= {"arrivals": problem.has_arrivals, "peers": problem.has_peers}
    return words | {name: True for name, is_there in flags.items() if is_there}


def _extents(types: list[ir.Type], lies: tuple[str, str], problem: Problem) -> dict[str, int | None]:
    layout, d_order = lies
    words = words_of(problem)
    spec = {**dict(zip("ab", problem.given_types, strict=True)), "layout": layout, "d_order": d_order, **words}
    indices = [KIND_DIMS[word] for word in ROW_INDICES if word in words]
    extents: dict[str, int | None] = {"m": None, "n": None, "k": None}
    for type_, letters in zip(types, (*matrix_dims(spec), output_dims(spec), *indices), strict=True):
        for letter, extent in zip(letters[-2:], shape_as_it_lies(type_)[-2:], strict=True):
            if letter not in extents:
                continue
            extents[letter] = extents[letter] if extent is None else extent
    return extents


def _batch(types: list[ir.Type]) -> int | Unbatched | None:
    """That of A, B and D."""
    if types[-1].rank == 2:
        return UNBATCHED
    return next((type_.get_dim_size(0) for type_ in types if not type_.is_dynamic_dim(0)), None)


def _groups(problem: Problem, b: ir.Type, d: ir.Type) -> int | Groups | Ungrouped | None:
    """The groups: of rows if B has a matrix for each group, of K if D has one. Padded groups are a batch."""
    if problem.is_padded or not (problem.is_grouped or problem.k_is_grouped):
        return UNGROUPED
    of = d if problem.k_is_grouped else b
    count = None if of.is_dynamic_dim(0) else int(of.get_dim_size(0))
    return Groups(count, "k") if problem.k_is_grouped else count


def _replay(
    op: tile.GemmOp | tile.StoreOp | None,
    operands: list[tuple[str, str, str]],
    results: Mapping[str, tuple[ResultKind, str]],
    of: Problem,
) -> Epilogue | None:
    """A function that repeats a region of the problem `of` on traced values. Without a region it ignores its operands.
    `results`: the kinds and types of results by name."""
    if op is None and not operands and list(results) == [D] and of.pairs is None:
        return None
    full = [dtype for kind, dtype in results.values() if kind is ResultKind.full]
    region = _Region((), (0,) * len(results)) if op is None else _read(op, full, of.acc)
    target = next((name for name, kind, _ in operands if kind == OperandKind.TARGET.value), None)

    def epilogue(acc: Traced, *second: Traced, **values: Traced) -> Any:
        inputs = [acc, *second, *(value for name, value in values.items() if name != target)]
        nodes, found = region.run(acc._tracer, [value._node for value in inputs]), dict[str, Any]()
        for (name, (kind, _)), node in zip(results.items(), nodes, strict=True):
            found[name] = value = Traced(acc._tracer, node)
            if (reduction := REDUCTIONS.get(str(kind))) is not None:
                index = values[target] if reduction.operation == VALUE and target is not None else None
                found[name] = Reduced(TracedKind(str(kind)), value, index)
        return returned(found)

    keyword = inspect.Parameter.KEYWORD_ONLY
    kinds = {name: OperandKind.PER_ROW if name == target else OperandKind(kind) for name, kind, _ in operands}
    sums = ("Σ",) if of.pairs is None else ("Σ1", "Σ2")  # names that no operand has
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in sums] + [
        inspect.Parameter(name, keyword, annotation=OperandType(kinds[name], dtype)) for name, _, dtype in operands
    ]
    epilogue.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return epilogue


class _Step(NamedTuple):
    """One op: the node that it makes of values (by number), and the type that rounds its result, if there is one."""

    node: str
    inputs: tuple[int, ...]
    attribute: float | None
    rounded: str | None
    is_integer: bool


@dataclass(frozen=True)
class _Region:
    """A region as data that does not need the IR. The arguments are the first values; each step makes the next one.
    `results`: the values of full results and reductions."""

    steps: tuple[_Step, ...]
    results: tuple[int, ...]

    def run(self, tracer: Tracer, arguments: list[Node]) -> list[Node]:
        """The nodes of full results and reductions. They are computed in f32; casts round narrower values to their
        type."""
        values = list(arguments)
        for step in self.steps:
            inputs = [values[index] for index in step.inputs]
            node = inputs[0] if step.node == "same" else tracer.node(step.node, inputs, step.attribute, step.is_integer)
            values.append(node if step.rounded is None else tracer.node("cast", [node], step.rounded))
        return [values[result] for result in self.results]


def _read(op: tile.GemmOp | tile.StoreOp, types: list[str], acc: str) -> _Region:
    """The ops of the region of an op, without the final rounding to the types of full results. An amax must be of the
    value that is rounded for the first of them, or of an integer's conversion."""
    block, kinds, computes_in = op.epilogue.blocks[0], result_kinds(op), element_type(acc).computes_in
    *body, last = epilogue_ops(block)
    kinds = [kind for kind in kinds if kind is not ResultKind.absent]
    yielded = list(zip(last.operands, kinds, strict=True))
    of_full = [value for value, kind in yielded if kind is ResultKind.full]
    found = [_rounding(value, dtype) for value, dtype in zip(of_full, types, strict=True)]
    unrounded = [value for _, value in found]
    reduced = {place: value for place, (value, kind) in enumerate(yielded) if str(kind) in REDUCTIONS}
    for largest in (value for value, kind in yielded if kind is ResultKind.amax):
        converts = defining_op(largest)
        is_same = isinstance(converts, arith.SIToFPOp) and converts.in_ == unrounded[0]
        unrounded[0] = unrounded[0] if is_same else largest
    saturating = [each for ops, _ in found for each in ops]
    body = [each for each in body if each.operation not in saturating]
    numbers: dict[ir.Value, int] = {argument: index for index, argument in enumerate(block.arguments)}
    steps = []
    for each in body:
        name, attribute = _node(each)
        dtype = element_name(each.results[0].type)
        exact = name == "same" and each.operation.name != "arith.truncf"
        plain = (computes_in, INTEGER_TYPE, "i1")
        rounded = None if exact or dtype in plain or name in ("const", "where") else dtype
        # For a comparison, the type of its inputs counts.
        is_integer = element_name(
            (each.operands[0] if dtype == "i1" and name != "const" else each.results[0]).type
        ) == (INTEGER_TYPE)
        # The second input of a negation is the constant true.
        inputs = tuple(numbers[operand] for operand in list(each.operands)[: 1 if name == "not" else None])
        steps.append(_Step(name, inputs, attribute, rounded, is_integer))
        numbers[each.results[0]] = len(numbers)
    rest, values = iter(unrounded), []
    for place, (_, kind) in enumerate(yielded):
        if kind is not ResultKind.amax:
            values.append(reduced[place] if place in reduced else next(rest))
    return _Region(tuple(steps), tuple(numbers[value] for value in values))


# The ops that round to a narrow integer, last op first, for floats and for integers.
_SATURATING = (
    ("arith.trunci", "arith.fptosi", "arith.minimumf", "arith.maximumf", "math.roundeven"),
    ("arith.trunci", "arith.minsi", "arith.maxsi"),
)


def _rounding(value: ir.Value, d: str) -> tuple[list[ir.Operation], ir.Value]:
    """The ops at the end of a region that saturate to D's type and have no other users, and the value that they
    round."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "arith.truncf" and element_name(value.type) == d:
        return [], owner.operands[0]
    for kind in _SATURATING:
        found: list[ir.Operation] = []
        rounded = value
        for name in kind:
            owner = rounded.owner
            if isinstance(owner, ir.Block) or owner.operation.name != name:
                break
            found.append(owner.operation)
            rounded = owner.operands[0]
        if len(found) == len(kind) and str(value.type) == element_type(d).value_ir:
            return found, rounded
    return [], value


def _node(op: ir.OpView) -> tuple[str, float | None]:
    """The op's name in a trace, and its attribute. Raises SpecError for an op that traces do not have."""
    name, attributes = op.operation.name, op.attributes
    if name in ("arith.extf", "arith.truncf", "arith.extsi", "arith.extui"):
        return "same", None
    if name == "arith.constant":
        value = attributes["value"]
        # A truth value is only used as the second input of a negation, which does not read it.
        return "const", 1.0 if str(op.results[0].type) == "i1" else value.value
    if name == "arith.divf" and "afn" in str(attributes.get("fastmath", "")):
        return "div_approx", None
    if name in _ALIKE:
        return _ALIKE[name], None
    if name == "arith.xori" and _is_true(op.operands[1]):
        return "not", None
    if name == "arith.cmpi":
        return _COMPARE_INTEGERS[int(ir.IntegerAttr(attributes["predicate"]).value)], None
    if name == "arith.cmpf":
        predicate = int(ir.IntegerAttr(attributes["predicate"]).value)
        if predicate in _COMPARE:
            return _COMPARE[predicate], None
    raise SpecError(
        f"{where(op)}: the float64 reference has no {name} of this form; compare with another file "
        "(--against) in the domain exact [reference-lacks]"
    )


def _is_true(value: ir.Value) -> bool:
    owner = value.owner
    constant = not isinstance(owner, ir.Block) and owner.operation.name == "arith.constant"
    return constant and str(owner.attributes["value"]) == "true"
