"""The builder of scalar code folds to what upstream's canonicalize folds its ops to, and leaves the rest as ops."""

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
from mlir import ir
from mlir.dialects import func
from mlir.passmanager import PassManager

from lowtide.passes.support.ir.builder import Builder, constant_of, is_multiple

CASTS = ("zext", "sext", "trunc", "index_cast")
OTHERS = ("constant", "index", "select")
BINARY = sorted(
    name
    for name, _ in inspect.getmembers(Builder, inspect.isfunction)
    if not name.startswith("_") and name not in (*CASTS, *OTHERS)
)
TYPES = ("i32", "i64", "index")
NUMBERS = (0, 1, 2, 3, 7, 8, 31, 1000, -1, -2, -8, -1000)


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with ir.Context(), ir.Location.unknown():
        yield


class Function:
    """A function that returns what `body` makes of its arguments."""

    def __init__(self, types: Sequence[ir.Type], body: Callable[..., Sequence[ir.Value]]) -> None:
        self.module = ir.Module.create()
        with ir.InsertionPoint(self.module.body):
            function = func.FuncOp("f", ir.FunctionType.get(list(types), []))
            self.block = function.add_entry_block()
            with ir.InsertionPoint(self.block):
                values = list(body(*self.block.arguments))
                func.ReturnOp(values)
            function.attributes["function_type"] = ir.TypeAttr.get(
                ir.FunctionType.get(list(types), [value.type for value in values])
            )

    @property
    def values(self) -> list[ir.Value]:
        return list(self.block.operations[len(self.block.operations) - 1].operands)

    def canonicalized(self) -> "Function":
        PassManager.parse("builtin.module(canonicalize)").run(self.module.operation)
        return self

    def constants(self) -> list[int | None]:
        return [constant_of(value) for value in self.values]


def on_constants(op: ir.OpView, operands: Sequence[Sequence[tuple[int, ir.Type]]]) -> list[int | None]:
    """What upstream makes of an op on each of these constants; None where it does not fold it."""
    plain = Builder(ir.IntegerType.get_signless(32))
    types = [result.type for result in op.results]

    def body() -> list[ir.Value]:
        return [
            ir.Operation.create(
                op.operation.name,
                results=types,
                operands=[plain.constant(number, type_) for number, type_ in each],
                attributes=dict(op.attributes),
            ).result
            for each in operands
        ]

    return Function([], body).canonicalized().constants()


def numbers_of(name: str) -> list[tuple[int, int]]:
    """Pairs of operands. A shift by more than the width is poison."""
    shifts = name in ("shl", "lshr", "ashr")
    return [(x, y) for x, y in itertools.product(NUMBERS, NUMBERS) if not shifts or 0 <= y < 32]


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_constants_fold_as_canonicalize_folds_them(name: str, type_name: str) -> None:
    """But for a division by zero, which neither folds."""
    type_ = ir.Type.parse(type_name)
    make, pairs = getattr(Builder(type_), name), numbers_of(name)
    plain = Function([type_, type_], lambda x, y: [make(x, y)])
    expected = on_constants(plain.values[0].owner.opview, [[(x, type_), (y, type_)] for x, y in pairs])
    ours = Function([], lambda: [make(x, y) for x, y in pairs]).constants()
    assert ours == expected
    assert sum(number is not None for number in expected) > 50


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_an_operation_with_one_constant_is_the_same_function(name: str, type_name: str) -> None:
    """Neutral and absorbing operands, shifts for powers of two: with the other operand put in, it gives the same."""
    type_ = ir.Type.parse(type_name)
    make, pairs = getattr(Builder(type_), name), numbers_of(name)
    expected = Function([], lambda: [make(x, y) for x, y in pairs]).constants()
    for position in (0, 1):
        function = Function(
            [type_] * len(pairs),
            lambda *v, at=position: [make(*((x, v[i]) if at else (v[i], y))) for i, (x, y) in enumerate(pairs)],
        )
        with ir.InsertionPoint.at_block_begin(function.block):
            for argument, pair in zip(function.block.arguments, pairs, strict=True):
                argument.replace_all_uses_with(Builder(type_).constant(pair[position]))
        found = function.canonicalized().constants()
        assert [f for f, e in zip(found, expected, strict=True) if e is not None] == [
            e for e in expected if e is not None
        ]


@pytest.mark.parametrize(
    ("name", "source", "result"),
    [
        ("zext", "i32", "i64"),
        ("sext", "i32", "i64"),
        ("trunc", "i64", "i32"),
        ("index_cast", "index", "i32"),
        ("index_cast", "i32", "index"),
    ],
)
def test_casts_fold_as_canonicalize_folds_them(name: str, source: str, result: str) -> None:
    from_, to = ir.Type.parse(source), ir.Type.parse(result)
    make, numbers = getattr(Builder(from_), name), (*NUMBERS, 2**31 - 1, -(2**31))
    plain = Function([from_], lambda x: [make(x, to)])
    expected = on_constants(plain.values[0].owner.opview, [[(x, from_)] for x in numbers])
    assert Function([], lambda: [make(x, to) for x in numbers]).constants() == expected


def test_select_folds_by_its_condition_or_its_operands() -> None:
    i32 = ir.IntegerType.get_signless(32)
    build = Builder(i32)
    known = Function([], lambda: [build.select(build.ult(x, y), 4, 5) for x, y in ((1, 2), (2, 1))])
    assert known.constants() == [4, 5]
    same = Function([build.i1, i32], lambda condition, x: [build.select(condition, x, x)])
    assert same.values[0] == same.block.arguments[1]


def test_a_division_by_zero_is_left_to_run_time() -> None:
    build = Builder(ir.IntegerType.get_signless(32))
    function = Function([], lambda: [build.udiv(1, 0)])
    assert function.values[0].owner.name == "arith.divui"


def test_index_code_keeps_factors_and_integer_code_shifts() -> None:
    for type_name, expected in (("index", "arith.muli"), ("i32", "arith.shli")):
        type_ = ir.Type.parse(type_name)
        build = Builder(type_)
        function = Function([type_], lambda x, build=build: [build.mul(x, 32)])
        assert function.values[0].owner.name == expected


def test_constants_stand_once_where_the_builder_puts_them() -> None:
    i32 = ir.IntegerType.get_signless(32)

    def twice(x: ir.Value) -> list[ir.Value]:
        build = Builder(i32, constants_in=x.owner)
        return [build.sub(build.sub(x, 5), 5)]

    function = Function([i32], twice)
    names = [op.operation.name for op in function.block.operations]
    assert names == ["arith.constant", "arith.subi", "arith.subi", "func.return"]


def test_a_multiple_is_known_of_constants_products_and_minima() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("f", ([ir.IndexType.get()], []))
        count = function.add_entry_block().arguments[0]
        with ir.InsertionPoint(function.entry_block):
            build = Builder.index()
            six, four = build.mul(count, 6), build.constant(4)
            known = [is_multiple(value, 2) for value in (four, six, build.smin(six, four), build.mul(six, count))]
            assert known == [True] * 4
            assert not any(is_multiple(x, 3) for x in (four, count, build.smin(six, four), build.add(six, 3)))
