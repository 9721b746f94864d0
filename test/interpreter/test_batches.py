"""Ops of one kind are brought together where nothing tells the difference."""

from dataclasses import dataclass
from typing import Any

from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether, batched


def refuse(state: Any, batch: Batch) -> None:
    raise NotTogether


LOAD = Bulk(refuse, key=lambda op: 0)
STORE = Bulk(refuse, key=lambda op: 0)
PRODUCT = Bulk(refuse, key=lambda op: 0, accesses=False)
CHAIN = Bulk(refuse, key=lambda op: 0, chained=True)


@dataclass(eq=False)
class Op:
    """An instruction that appends its name to the state."""

    name: str
    operands: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    bulk: Bulk | None = None
    acts: bool = False
    resumable: bool = False
    regions: tuple[Any, ...] = ()

    def handler(self, state: Any, op: Any) -> None:
        state.ran.append(self.name)


@dataclass(eq=False)
class Region:
    ops: tuple[Op, ...]
    results: tuple[int, ...] = ()


def names(ops: list[Op]) -> list[str]:
    """What the ops become: a batch in brackets."""
    return [f"[{' '.join(each.name for each in op.ops)}]" if isinstance(op, Batch) else op.name for op in batched(ops)]


def load(name: str, address: int, result: int) -> Op:
    return Op(name, (address,), (result,), LOAD)


def store(name: str, address: int, value: int) -> Op:
    return Op(name, (address, value), (), STORE, acts=True)


def test_addresses_are_computed_before_the_loads_that_need_them() -> None:
    ops = [Op("p", (), (1,)), load("a", 1, 2), Op("q", (1,), (3,)), load("b", 3, 4), Op("s", (2, 4), (5,))]
    assert names(ops) == ["p", "q", "[a b]", "s"]


def test_a_load_whose_address_was_loaded_waits() -> None:
    assert names([load("a", 0, 1), load("b", 1, 2), load("c", 0, 3)]) == ["a", "[b c]"]


def test_accesses_of_different_kinds_keep_their_order() -> None:
    ops = [load("a", 0, 1), store("x", 0, 9), load("b", 0, 2), store("y", 1, 9), store("z", 2, 9)]
    assert names(ops) == ["a", "x", "b", "[y z]"]


def test_products_come_together_across_accesses() -> None:
    ops = [
        load("a", 0, 1), Op("m", (1,), (2,), PRODUCT), load("b", 0, 3), Op("n", (3,), (4,), PRODUCT),
        store("x", 0, 2), store("y", 1, 4),
    ]  # fmt: skip
    assert names(ops) == ["[a b]", "[m n]", "[x y]"]


def test_nothing_passes_what_acts_or_waits() -> None:
    ops = [load("a", 0, 1), Op("barrier", acts=True, resumable=True), load("b", 0, 2), Op("fence", acts=True)]
    assert names([*ops, load("c", 0, 3)]) == ["a", "barrier", "b", "fence", "c"]


def test_a_slot_that_is_written_again_keeps_its_readers_before() -> None:
    """Registers of PTX are places, not values."""
    ops = [load("a", 0, 1), Op("p", (1,), (5,)), load("b", 0, 1), Op("q", (1,), (6,)), store("x", 7, 5)]
    assert names(ops) == ["a", "p", "b", "q", "x"]


def test_each_op_of_a_chain_may_take_what_one_before_it_gives() -> None:
    ops = [Op("a", (0,), (1,), CHAIN, acts=True), Op("p", (0,), (2,)), Op("b", (1, 2), (3,), CHAIN, acts=True)]
    assert names(ops) == ["p", "[a b]"]
    between = [Op("a", (0,), (1,), CHAIN, acts=True), Op("p", (1,), (2,)), Op("b", (1, 2), (3,), CHAIN, acts=True)]
    assert names(between) == ["a", "p", "b"]
    assert names([Op("a", (0,), (1,), CHAIN), store("x", 0, 9), Op("b", (1,), (3,), CHAIN)]) == ["a", "x", "b"]


def test_what_the_sides_of_an_if_read_is_computed_before_it() -> None:
    def guarded(name: str, value: int) -> Op:
        return Op(name, (0,), (), STORE, acts=True, regions=(Region((store("x", 9, value),)),))

    assert names([guarded("a", 1), Op("p", (1,), (2,)), guarded("b", 2)]) == ["p", "[a b]"]
    assert names([guarded("a", 1), load("l", 0, 2), guarded("b", 2)]) == ["a", "l", "b"]


def test_what_cannot_run_as_one_runs_op_by_op() -> None:
    class State:
        ran: list[str] = []  # noqa: RUF012
        op: Any = None

    state = State()
    (batch,) = batched([load("a", 0, 1), load("b", 0, 2)])
    batch.handler(state, batch)
    assert state.ran == ["a", "b"] and state.op.name == "b"
