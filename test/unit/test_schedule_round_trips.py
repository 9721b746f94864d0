"""Schedules and their text: what is printed is read back, by any names; drawn from the fields and their kinds."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

import pytest
from mlir import ir
from tensor_layouts import Layout

from lowtide.compiler.contexts import make_context
from lowtide.dialects.tile import CacheHint, KDivisionKind, RasterKind, SchedulerKind
from lowtide.dialects.tile.fields import (
    SWIZZLE,
    Call,
    Integer,
    Integers,
    KDivision,
    Modes,
    Name,
    OneLayout,
    Order,
    Word,
)
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capfd.readouterr() == ("", "")


# Draws ----------------------------------------------------------------------------------------------------------------


def kinds(part: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The kind of each field, by path."""
    for entry in fields(part):
        if "kind" in entry.metadata:
            yield prefix + entry.name, entry.metadata["kind"]
        elif is_dataclass(nested := getattr(part, entry.name)):
            yield from kinds(nested, f"{prefix}{entry.name}.")


KINDS = dict(kinds(Schedule()))
ATOMS = ("cp.async.16", "tma", "tma.3d", "mma.m16n8k16", "wgmma.m64n256k16")
LAYOUTS = (Layout(16, 1), Layout((2, 8), (8, 1)), Layout(((2, 2), 4), ((1, 8), 2)))


FIELDS = {Order: "order", KDivision: "k_division"}


def is_legal(value: Order | KDivision) -> bool:
    try:
        str(Schedule().with_(**{FIELDS[type(value)]: value}))
    except ScheduleError:
        return False
    return True


CALLS: dict[type, list[Any]] = {
    Order: [
        order
        for kind in RasterKind
        for order in (Order(kind), Order(kind, 1), Order(kind, 8), Order(kind, 3, 5), Order(kind, 16, 1))
        if is_legal(order)
    ],
    KDivision: [
        division
        for kind in KDivisionKind
        for division in (KDivision(kind), KDivision(kind, 2), KDivision(kind, 7))
        if is_legal(division)
    ],
}


def random_value(kind: Any, rng: random.Random) -> Any:
    """Any value that the field takes, legal on a target or not."""
    if kind is SWIZZLE:
        bits = rng.randint(0, 5)
        return bits, rng.randint(0, 5), rng.randint(bits, 8)
    if isinstance(kind, Integers):
        return tuple(rng.randint(-1, 512) for _ in range(kind.count))
    if isinstance(kind, Integer):
        return rng.choice((rng.randint(-1, 64), -(2**63), 2**63 - 1))
    if isinstance(kind, Word):
        return rng.choice(list(kind.enum))
    if isinstance(kind, Call):
        return rng.choice(CALLS[kind.value])
    if isinstance(kind, Name):
        return rng.choice(ATOMS)
    if isinstance(kind, OneLayout):
        return rng.choice(LAYOUTS)
    assert isinstance(kind, Modes), f"a kind of field that is not drawn: {kind}"
    return tuple(rng.choice((*LAYOUTS, rng.randint(1, 512))) for _ in range(3))


def random_schedule(rng: random.Random, optional: float = 0.4) -> Schedule:
    """Any values; each field is left open with the probability `optional`."""
    drawn = {path: random_value(kind, rng) for path, kind in KINDS.items() if rng.random() >= optional}
    if any("agents.single" in path for path in drawn):
        drawn = {path: value for path, value in drawn.items() if "agents" not in path or "single" in path}
    return Schedule().set(drawn)


def test_every_field_has_a_kind() -> None:
    assert tuple(KINDS) == Schedule.paths()


# Text -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(8))
def test_a_schedule_is_read_back_as_it_was_printed(number: int) -> None:
    rng = random.Random(number)
    for _ in range(25):
        schedule = random_schedule(rng, optional=rng.choice((0, 0.4, 0.9)))
        text = str(schedule)
        assert Schedule.parse(text) == schedule
        assert str(Schedule.parse(text)) == text
        # The same by fields, in any order.
        texts = [f"{path} = {value}" for path, value in schedule.texts().items()]
        assert Schedule.parse(", ".join(rng.sample(texts, len(texts)))) == schedule
        with make_context():
            assert Schedule.of(schedule.attribute()) == schedule
            assert str(ir.Attribute.parse(text)) == text


def words(value: Any) -> list[IntEnum]:
    """The words of enums in a value."""
    kind = value.kind if isinstance(value, (Order, KDivision)) else value
    return [kind] if isinstance(kind, IntEnum) else []


def test_the_schedules_drawn_have_every_field_and_every_word() -> None:
    drawn = [random_schedule(random.Random(number)) for number in range(200)]
    assert {path for schedule in drawn for path in schedule.decided()} == set(Schedule.paths())
    found = {(type(w), w) for schedule in drawn for value in schedule.decided().values() for w in words(value)}
    enums = {kind.enum for kind in KINDS.values() if isinstance(kind, (Word, Call))}
    assert {RasterKind, SchedulerKind, CacheHint} <= enums
    assert found == {(enum, word) for enum in enums for word in enum}


def test_words_and_calls_may_be_given_as_text() -> None:
    for path, kind in KINDS.items():
        for value in CALLS[kind.value] if isinstance(kind, Call) else kind.enum if isinstance(kind, Word) else ():
            assert Schedule().set({path: str(value)}) == Schedule().set({path: value})


def test_every_field_prints_where_its_part_is() -> None:
    schedule = Schedule().with_(grid_tile=(64, 128), stages=3, b_copy="tma", epilogue_swizzle=(3, 2, 3))
    assert str(schedule) == (
        "#tile.schedule<\n"
        "  grid = <tile = [64, 128]>,\n"
        "  mainloop = <stages = 3,\n"
        "    b = <copy = tma>>,\n"
        "  epilogue = <swizzle = <3,2,3>>>"
    )
    assert schedule.texts() == {
        "grid.tile": "[64, 128]",
        "mainloop.stages": "3",
        "mainloop.b.copy": "tma",
        "epilogue.swizzle": "<3,2,3>",
    }


# Names ----------------------------------------------------------------------------------------------------------------


def names_of(path: str) -> list[str]:
    """Every end of a path."""
    steps = path.split(".")
    return [".".join(steps[start:]) for start in range(len(steps))]


def test_every_end_of_a_path_that_is_no_other_fields_names_the_field() -> None:
    meanings = Counter(name for path in Schedule.paths() for name in names_of(path))
    rng = random.Random(0)
    for path in Schedule.paths():
        for name in names_of(path):
            if meanings[name] > 1:
                continue
            only = Schedule().set({path: random_value(KINDS[path], rng)})
            assert only.get(name) == only.get(path)
            assert Schedule().with_(**{name.replace(".", "_"): only.get(path)}) == only
            assert Schedule.parse(f"{name} = {only.texts()[path]}") == only


@pytest.mark.parametrize("roles", ["single", "cooperative(1)", "cooperative(3)", "pingpong(2)"])
def test_roles_and_registers_are_short_for_agents(roles: str) -> None:
    as_keywords = Schedule().with_(roles=roles, registers=(40, 232))
    assert Schedule.parse(f"roles = {roles}, registers = [40, 232]") == as_keywords
    assert Schedule.parse(f"#tile.schedule<mainloop = <registers = [40, 232], roles = {roles}>>") == as_keywords
    assert as_keywords.agents.registers == (40, 232) and as_keywords.with_(roles=None).agents.values() == {}
    assert "roles" not in str(as_keywords) and Schedule.parse(str(as_keywords)) == as_keywords


def test_a_single_agent_takes_the_place_of_producer_and_consumer() -> None:
    shared, single = Schedule().with_(roles="cooperative(2)"), Schedule().with_(roles="single")
    assert shared.with_(roles="single") == shared.set(single.decided()) == single
    assert single.with_(roles="cooperative(2)") == single.set(shared.decided()) == shared


def test_text_may_give_parts() -> None:
    whole = Schedule().with_(grid_tile=(64, 128), order="column", a_copy="tma", a_swizzle=(3, 3, 3))
    assert Schedule.parse("grid = <tile = [64, 128], order = column>, a = <copy = tma, swizzle = <3,3,3>>") == whole
    assert Schedule.parse("mainloop = <a = <copy = tma>>, mainloop.a.swizzle = <3,3,3>, grid.tile = [64, 128], "
                          "order = column") == whole  # fmt: skip
    assert Schedule.parse("") == Schedule.parse("grid = <>") == Schedule.parse("#tile.schedule<>") == Schedule()


# Changes --------------------------------------------------------------------------------------------------------------


def test_what_is_changed_to_none_is_open_again_and_the_rest_stays() -> None:
    schedule = Schedule().with_(stages=3, k=32)
    assert schedule.with_(stages=None) == Schedule().with_(k=32)
    assert schedule.decided() == {"mainloop.k": 32, "mainloop.stages": 3}


def test_filled_leaves_what_is_decided() -> None:
    schedule = Schedule().with_(stages=3).filled({"mainloop.stages": 5, "mainloop.k": 32})
    assert schedule == Schedule().with_(stages=3, k=32)


def test_lists_are_kept_as_tuples_so_that_a_schedule_can_be_hashed() -> None:
    by_list, by_tuple = Schedule().with_(grid_tile=[64, 64]), Schedule().with_(grid_tile=(64, 64))
    assert by_list == by_tuple and hash(by_list) == hash(by_tuple)
