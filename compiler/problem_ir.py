"""A spec as IR of level `problem`: the host function with one tile.gemm."""

from collections.abc import Mapping
from types import MappingProxyType

from mlir import ir

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.epilogue.emit import emit, ir_type, value_type
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.epilogue.results import Result, ResultKind
from lowtide.compiler.presets import check_target
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects import tile
from lowtide.dialects.levels import Level, set_level, set_target, target_of
from lowtide.dialects.tile.lists import list_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.base import walk
from lowtide.passes.nvvm.stamp_agents import STAMPS_ATTRIBUTE
from lowtide.passes.problem.split_operands import SplitOperands
from lowtide.passes.schedules.choice.asked import set_expected
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

FUNCTION = "gemm"


def problem_text(
    spec: GemmSpec,
    target: Target,
    schedule: Schedule | None = None,
    expected: Mapping[str, int] = MappingProxyType({}),
    *,
    stamps: bool = False,
) -> str:
    """The module, as text. Fields of `schedule` are fixed; the others are chosen for the `expected` extents, by name.
    The kernel supports other extents too. `stamps`: whether the kernel records when its agents work.

    Raises ScheduleError for a schedule whose target has instructions that this target lacks.
    """
    if schedule is not None:
        check_target(schedule, target)
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        set_level(module, Level.PROBLEM)
        set_target(module, target)
        set_expected(module, expected)
        with ir.InsertionPoint(module.body):
            _emit_function(spec, schedule, stamps=stamps)
        return str(module)


def seen_by_passes(spec: GemmSpec, target: Target) -> Problem:
    """The problem in the form that passes use."""
    return problem_in_text(problem_text(spec, target))


def problem_in_text(text: str) -> Problem:
    """As `seen_by_passes`, for the text of a module of level `problem`: the product for which a schedule is chosen. It
    is the product of pieces if the module computes one."""
    with make_context() as context:
        module = parse_text(text, context, "<problem>")  # owns the op: must outlive it
        SplitOperands().run(module, target_of(module))
        (gemm,) = walk(module, tile.GemmOp)
        return Problem.of(gemm)


def _emit_function(spec: GemmSpec, schedule: Schedule | None, *, stamps: bool) -> None:
    names = ["a", "b", *(each.name for each in spec.results), *(each.name for each in spec.operands)]
    a, b, lists = _matrix(spec.a_shape, spec.a), _matrix(spec.b_shape, spec.stored_b), spec.lists or ""
    types = [list_of(type_) if name in lists else type_ for name, type_ in (("a", a), ("b", b))]
    types += [_result_type(spec, result) for result in spec.results]
    types += [_operand_type(spec, operand) for operand in spec.operands]
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get(FUNCTION),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            "arg_attrs": ir.ArrayAttr.get([ir.DictAttr.get({"tile.name": ir.StringAttr.get(name)}) for name in names]),
            **({STAMPS_ATTRIBUTE: ir.UnitAttr.get()} if stamps else {}),
        },
        regions=1,
    )
    block = function.regions[0].blocks.append(*types)
    a, b, *others = block.arguments
    count, acc = len(spec.results), ir_type(spec.sums)
    with ir.InsertionPoint(block):
        gemm = tile.GemmOp(
            tile.GemmLayout[spec.layout],
            a,
            b,
            others[:count],
            [tile.ResultKind[result.kind.value] for result in spec.results],
            ir.TypeAttr.get(acc),
            others[count:],
            kinds=[tile.OperandKind[operand.kind.value] for operand in spec.operands],
            schedule=None if schedule is None else schedule.attribute(),
            fast=spec.is_fast,
            **({} if spec.pairs is None else {"pairs": True, "interleaved": spec.pairs == "interleaved"}),
            weights=ir.TypeAttr.get(ir.Type.parse(element_type(spec.b).ir)) if spec.is_mixed else None,
            group=spec.group,
            precision=None if spec.precision is None else tile.Precision[spec.precision],
        )
        ir.Operation.create("func.return")
    graph = spec.epilogue_graph
    of_operands = [value_type(graph.operands[index].dtype) for index in graph.region_operands]
    region = gemm.epilogue.blocks.append(*[acc] * graph.sums, *of_operands)
    with ir.InsertionPoint(region):
        tile.YieldOp(emit(graph, list(region.arguments)))


def _matrix(shape: tuple[int | None, ...], dtype: str) -> ir.MemRefType:
    """A matrix type; all strides but the last are dynamic."""
    strides = [ir.ShapedType.get_dynamic_stride_or_offset()] * (len(shape) - 1) + [1]
    return ir.MemRefType.get(_extents(*shape), ir_type(dtype), ir.StridedLayoutAttr.get(0, strides))


def _output(spec: GemmSpec, shape: tuple[int | None, ...], dtype: str) -> ir.MemRefType:
    """The type of D or a full operand of a shape in memory, in terms of (M, N): if D is by columns, the columns are
    contiguous."""
    if spec.d_order == "row":
        return _matrix(shape, dtype)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    extents, outer = _extents(*spec.batch_shape, spec.m, spec.n), [dynamic] * len(spec.batch_shape)
    return ir.MemRefType.get(extents, ir_type(dtype), ir.StridedLayoutAttr.get(0, [*outer, 1, dynamic]))


def _extents(*extents: int | None) -> list[int]:
    return [ir.ShapedType.get_dynamic_size() if extent is None else extent for extent in extents]


def _result_type(spec: GemmSpec, result: Result) -> ir.Type:
    if result.kind is ResultKind.AMAX:
        return ir.MemRefType.get([1], ir_type(result.dtype))
    if (reduction := result.kind.reduction) is not None:
        return _vector(spec, {"m": spec.m, "n": spec.n}.get(reduction.dims, 1), result.dtype, bool(reduction.dims))
    d = _output(spec, spec.d_shape, result.dtype)
    return list_of(d) if "d" in (spec.lists or "") else d


def _vector(spec: GemmSpec, extent: int | None, dtype: str, of_each_product: bool = True) -> ir.Type:
    """A vector type. In a batch, its first dimension is the batch if each product has its own vector."""
    if spec.is_batched and of_each_product:
        return _matrix((*spec.batch_shape, extent), dtype)
    return ir.MemRefType.get(_extents(extent), ir_type(dtype))


def _operand_type(spec: GemmSpec, operand: Operand) -> ir.Type:
    kind, dtype = operand.kind, operand.dtype
    if kind.is_of_columns and spec.rows_are_grouped:
        return _matrix((spec.group_count, *operand.shape(spec.m, spec.n, spec.k)), dtype)
    if operand.group is not None or kind.is_block_scale:
        return _matrix((*spec.batch_shape, *operand.shape(spec.m, spec.n, spec.k)), dtype)
    if operand.has_count:
        return ir.MemRefType.get(_extents(operand.count), ir_type(dtype))
    if kind is OperandKind.PEERS:
        return _matrix(operand.shape(spec.m, spec.n), dtype)
    if kind is OperandKind.FULL:
        return _output(spec, spec.full_shape, dtype)
    if kind is OperandKind.SCALAR:
        return value_type(dtype)
    if kind in (OperandKind.A_ROWS, OperandKind.D_ROWS):
        return ir.MemRefType.get(_extents(spec.m), ir_type(dtype))
    return _vector(spec, spec.n if kind is OperandKind.PER_COLUMN else spec.m, dtype)
