"""What the Python face of `#tile.schedule` refuses, and how: values, text, names. Nothing is printed on the way."""

from collections import Counter
from collections.abc import Iterator

import pytest

from lowtide.dialects.tile import CacheHint, RasterKind
from lowtide.dialects.tile.agents import SINGLE
from lowtide.dialects.tile.fields import Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.dialects.tile.schedule_parts import Grid, Operand
from lowtide.errors import ScheduleError


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capfd.readouterr() == ("", "")


# Values ---------------------------------------------------------------------------------------------------------------

ORDERS_TAKEN = r"it takes row, column, grouped\(n\), groups\(m, n\) or hilbert"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        # Another number of numbers.
        ("a_swizzle", (3, 3, 3, 3), r"swizzle = \(3, 3, 3, 3\): 4 numbers; it takes <B,M,S>.*\[field-form\]"),
        ("epilogue_swizzle", (2, 3), r"epilogue\.swizzle = \(2, 3\): 2 numbers.*<B,M,S>.*\[field-form\]"),
        ("grid_tile", (64, 64, 32), r"grid\.tile = \(64, 64, 32\): 3 numbers; it takes \[M, N\]"),
        ("epilogue_tile", (64,), r"epilogue\.tile = \(64,\): 1 numbers.*\[M, N\].*\[field-form\]"),
        ("registers", (), r"registers takes \[producer, consumer\] \[field-form-of\]"),
        ("registers", "[40, 232], stages = 4", r"\[shorthand-alone\]"),
        ("atoms", (2, 2), r"multiply\.atoms = \(2, 2\): 2 numbers.*\[M, N, K\].*\[field-form\]"),
        ("permutation", (16, 16), r"multiply\.permutation = .*; it takes \[M, N, K\], each an extent or a layout"),
        # Another type; True is no 1.
        ("stages", True, r"mainloop\.stages = True.*an integer.*\[field-form\]"),
        ("stages", "3", r"mainloop\.stages = '3'.*an integer.*\[field-form\]"),
        ("k", 32.0, r"mainloop\.k = 32\.0.*an integer.*\[field-form\]"),
        ("grid_tile", (True, 64), r"grid\.tile = \(True, 64\).*\[M, N\].*\[field-form\]"),
        ("grid_tile", 64, r"grid\.tile = 64.*\[M, N\].*\[field-form\]"),
        ("a_swizzle", (True, 3, 3), r"swizzle = \(True, 3, 3\).*<B,M,S>.*\[field-form\]"),
        ("a_swizzle", "<3,3,3>", r"swizzle = '<3,3,3>'.*<B,M,S>.*\[field-form\]"),
        ("permutation", (16, True, 16), r"multiply\.permutation = \(16, True, 16\).*\[M, N, K\].*\[field-form\]"),
        ("order", Order(RasterKind.grouped, True), ORDERS_TAKEN),
        ("roles", "cooperative(True)", r"roles takes an integer \[field-integer\]"),
        ("roles", "single(1)", r"\[roles-single-number\]"),
        ("roles", "cooperative", r"\[roles-number\]"),
        ("roles", "pingpong(1)", r"\[roles-number\]"),
        ("consumer_warps", True, r"mainloop\.agents\.consumer\.warps = True.*an integer"),
        ("stages", 2**63, r"mainloop\.stages = 9223372036854775808: more than 64 bits"),
        ("permutation", (16, -(2**63) - 1, 16), r"multiply\.permutation = .*: more than 64 bits"),
        # Words.
        ("order", "r", rf"grid\.order = 'r': not row, column, grouped, groups or hilbert; {ORDERS_TAKEN}"),
        ("order", ("row", 0), rf"grid\.order = \('row', 0\); {ORDERS_TAKEN}"),
        ("order", RasterKind.row, ORDERS_TAKEN),
        ("order", Order("grouped", 8), ORDERS_TAKEN),
        ("order", "grouped(8", rf"grid\.order = 'grouped\(8'; {ORDERS_TAKEN}"),
        ("order", SINGLE, ORDERS_TAKEN),
        ("roles", "producer(1)", r"roles = producer is not single, cooperative or pingpong \[roles-word\]"),
        ("roles", ("cooperative", 2), r"\[not-a-schedule\]"),
        ("scheduler", "one", r"grid\.scheduler = 'one': not one_shot, persistent or even_split"),
        ("scheduler", 0, r"grid\.scheduler = 0; it takes one_shot, persistent or even_split"),
        ("scheduler", CacheHint.normal, r"grid\.scheduler = .*; it takes one_shot, persistent or even_split"),
        ("a_cache", "often", r"cache = 'often': not normal, evict_first"),
        ("epilogue_path", "tmas", r"epilogue\.path = 'tmas': not smem, direct or tma"),
        ("epilogue_math", True, r"epilogue\.math = True.*registers or rows.*\[field-form\]"),
        # Names of atoms: one word, as the text of the attribute has it.
        ("atom", "", r"multiply\.atom = ''; it takes the name of an atom, e\.g\. mma\.m16n8k16"),
        ("atom", 16, r"multiply\.atom = 16; it takes the name of an atom"),
        ("atom", "mma.m16n8k16, fragment_buffers = 1", r"multiply\.atom = .*it takes the name of an atom"),
        ("a_copy", "tma 3d", r"copy = 'tma 3d'.*it takes the name of an atom, e\.g\. cp\.async\.16"),
    ],
)
def test_a_value_that_a_field_does_not_take_is_refused_with_what_it_takes(
    field: str, value: object, message: str
) -> None:
    with pytest.raises(ScheduleError, match=message):
        Schedule().with_(**{field: value})


@pytest.mark.parametrize("value", ["grouped(x)", "grouped()", "grouped(1, 2, 3)", "row(", "groups(1; 2)"])
def test_a_malformed_call_is_refused_in_words_of_the_schedule_alone(value: str) -> None:
    with pytest.raises(ScheduleError, match=ORDERS_TAKEN) as caught:
        Schedule().with_(order=value)
    assert "__init__" not in str(caught.value) and "int()" not in str(caught.value)


def test_parts_check_their_values_too() -> None:
    with pytest.raises(ScheduleError, match=r"grid\.tile = 3.*\[M, N\].*\[field-form\]"):
        Grid(tile=3)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=r"operand\.swizzle = \(1, 2\): 2 numbers.*\[field-form\]"):
        Operand(swizzle=(1, 2))  # type: ignore[arg-type]


# Numbers that the words do not go with, and swizzles that are none: the attribute itself refuses them.
ILLEGAL = [
    ("order", "row(3)", "order = row(3)"),
    ("order", "grouped", "order = grouped"),
    ("order", "grouped(0)", "order = grouped(0)"),
    ("order", "grouped(8, 8)", "order = grouped(8, 8)"),
    ("order", "groups(8)", "order = groups(8)"),
    ("a_swizzle", (-1, 3, 3), "a.swizzle = <-1,3,3>"),
    ("b_swizzle", (3, 3, 200), "b.swizzle = <3,3,200>"),
    ("epilogue_swizzle", (3, 3, 2), "epilogue.swizzle = <3,3,2>"),
]


@pytest.mark.parametrize(("field", "value", "text"), ILLEGAL, ids=[text for _, _, text in ILLEGAL])
def test_numbers_that_no_schedule_has_are_refused_alike_as_a_value_and_as_text(
    field: str, value: object, text: str
) -> None:
    schedule = Schedule().with_(**{field: value})
    with pytest.raises(ScheduleError) as by_value:
        str(schedule)
    with pytest.raises(ScheduleError) as by_text:
        Schedule.parse(text)
    assert str(by_text.value) == f"{text!r} is not a schedule: {by_value.value}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages", r"'stages' is not name = value.*\[not-an-assignment\]"),
        ("stages = 2,", r"''.*\[not-an-assignment\]"),
        ("stages =", r"stages takes an integer"),
        ("stages = one", r"stages takes an integer"),
        ("stages = true", r"stages takes an integer"),
        ("stages = 2.5", r"is not a schedule"),
        ("stages = 9223372036854775808", r"integer value too large.*\[not-a-schedule\]"),
        ("stages = 2 k = 32", r"expected '>'"),
        ("grid.tile = [64, 64, 32]", r"tile takes \[M, N\]"),
        ("grid.tile = [true, 64]", r"is not a schedule"),
        ("grid.tile = 64", r"expected '\['"),
        ("permutation = [16, 16]", r"permutation takes \[M, N, K\], each an extent or a layout"),
        ("permutation = [16, 1.5, 16]", r"permutation takes \[M, N, K\], each an extent or a layout"),
        ("a.swizzle = <3,3>", r"expected ','"),
        ("a.swizzle = <3,3,3,3>", r"expected '>'"),
        ("order = r", r"order = r is not row, column, grouped, groups or hilbert"),
        ("order = groups(1, 2, 3)", r"\[order-numbers\]"),
        ("roles = cooperative(1, 2)", r"\[roles-numbers\]"),
        ("roles = single(1)", r"\[roles-single-number\]"),
        ("roles = cooperative", r"\[roles-number\]"),
        ("roles = pingpong(1)", r"\[roles-number\]"),
        ("#tile.schedule<mainloop = <roles = single, agents = <single = <instances = 1>>>>", r"\[agents-twice\]"),
        ("scheduler = one", r"scheduler = one is not one_shot, persistent or even_split"),
        ("a.cache = often", r"cache = often is not normal, evict_first"),
        ("atom = 3", r"atom takes the name of an atom, e\.g\. mma\.m16n8k16"),
        ("stages = 3>, x = <", r"schedule has no field 'x'; its fields are grid, mainloop, multiply, epilogue"),
        ("grid = <k = 32>", r"grid has no field 'k'; its fields are tile, cluster, order, scheduler"),
        ("#tile.schedule<", r"is not a schedule"),
        ("#tile.schedule<> ,", r"is not a schedule"),
        ("#tile.raster<row>", r"is not a schedule"),
    ],
)
def test_text_that_is_no_schedule_is_refused_with_itself_and_the_reason(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        Schedule.parse(text)
    assert repr(text) in str(caught.value)


# Names ----------------------------------------------------------------------------------------------------------------


def names_of(path: str) -> list[str]:
    """Every end of a path."""
    steps = path.split(".")
    return [".".join(steps[start:]) for start in range(len(steps))]


MEANINGS = Counter(name for path in Schedule.paths() for name in names_of(path))
SHORT_AND_AMBIGUOUS = {"registers"}  # of each agent, and the shorthand for those of producer and consumer
AMBIGUOUS = {
    "warps": "mainloop.agents.producer.warps or mainloop.agents.consumer.warps or mainloop.agents.single.warps",
    "instances": " or ".join(f"mainloop.agents.{name}.instances" for name in ("producer", "consumer", "single")),
    "tile": "grid.tile or epilogue.tile",
    "copy": "mainloop.a.copy or mainloop.b.copy",
    "swizzle": "mainloop.a.swizzle or mainloop.b.swizzle or epilogue.swizzle",
    "stage": "mainloop.a.stage or mainloop.b.stage",
    "pack": "mainloop.a.pack or mainloop.b.pack or epilogue.pack",
    "padding": "mainloop.a.padding or mainloop.b.padding",
    "cache": "mainloop.a.cache or mainloop.b.cache or epilogue.cache",
    "load": "mainloop.a.load or mainloop.b.load",
}


def test_the_ambiguous_names_are_known() -> None:
    assert {name for name, count in MEANINGS.items() if count > 1} == {*AMBIGUOUS, *SHORT_AND_AMBIGUOUS}


# Names of fields that take words: these set all of them.
OF_WORDS = {"copy": "cp.async.16", "stage": "as_loaded", "pack": "rows", "cache": "normal", "load": "once"}


@pytest.mark.parametrize(("name", "paths"), AMBIGUOUS.items())
def test_an_ambiguous_name_is_refused_with_what_to_write_instead(name: str, paths: str) -> None:
    refusals = [lambda: Schedule().get(name)]
    if name not in OF_WORDS:
        refusals += [lambda: Schedule().with_(**{name: None}), lambda: parse(name)]
    for refused in refusals:
        with pytest.raises(
            ScheduleError, match=rf"^schedule field '{name}' is ambiguous: write {paths} \[ambiguous-field\]$"
        ):
            refused()
    for path in paths.split(" or "):
        assert Schedule().get(path) is None
        assert Schedule().with_(**{path.replace(".", "_"): None}) == Schedule()


@pytest.mark.parametrize(("name", "word"), OF_WORDS.items())
def test_a_name_of_several_fields_sets_all_that_take_the_word(name: str, word: str) -> None:
    schedule = Schedule.parse(f"{name} = {word}")
    assert list(schedule.texts().items()) == [(path, word) for path in AMBIGUOUS[name].split(" or ")]
    assert Schedule().with_(**{name: word}) == schedule


def test_a_name_of_several_fields_leaves_out_those_that_have_no_such_word() -> None:
    assert Schedule.parse("pack = transposed").shorthand() == "a.pack = transposed, b.pack = transposed"
    assert Schedule.parse("cache = streaming").shorthand() == "epilogue.cache = streaming"
    with pytest.raises(ScheduleError, match=r"pack = some is not none, rows or transposed.*\[field-word\]"):
        Schedule.parse("pack = some")


def test_a_name_of_its_own_stands_before_one_of_several_fields() -> None:
    for text in ("pack = rows, b.pack = none", "b.pack = none, pack = rows"):
        assert Schedule.parse(text).shorthand() == "a.pack = rows, b.pack = none, epilogue.pack = rows"
    assert Schedule().with_(pack="rows", b_pack="none") == Schedule.parse("pack = rows, b.pack = none")
    with pytest.raises(ScheduleError, match=r"gives mainloop\.a\.pack twice; give it once \[path-twice\]$"):
        Schedule.parse("pack = rows, pack = none")


def parse(name: str) -> Schedule:
    return Schedule.parse(f"{name} = 1")


@pytest.mark.parametrize("name", ["cta", "a", "grid", "mainloop.tile", "a.b.copy", "swizzle_a", "tile.grid", ""])
def test_an_unknown_name_is_refused_with_the_fields_that_there_are(name: str) -> None:
    known = rf"^unknown schedule field {name!r}; the fields are {', '.join(Schedule.paths())} \[unknown-field\]$"
    with pytest.raises(ScheduleError, match=known):
        Schedule().get(name)
    with pytest.raises(ScheduleError, match=known):
        Schedule().with_(**{name: 1})
    if name not in ("a", "grid"):  # parts, which text may give as a whole
        with pytest.raises(ScheduleError, match=known):
            parse(name)


@pytest.mark.parametrize(
    "text",
    [
        "stages = 2, stages = 2",
        "stages = 2, mainloop.stages = 3",
        "mainloop = <k = 32, stages = 2>, stages = 3",
        "k = 32, stages = 2, mainloop = <stages = 3>",
    ],
)
def test_a_field_that_text_gives_twice_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError, match=r"gives mainloop\.stages twice; give it once \[path-twice\]$"):
        Schedule.parse(text)


def test_a_field_or_part_that_the_attribute_gives_twice_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"field 'stages' of mainloop is given twice.*\[field-twice\]"):
        Schedule.parse("#tile.schedule<mainloop = <stages = 2, stages = 2>>")
    with pytest.raises(ScheduleError, match=r"field 'mainloop' of schedule is given twice.*\[field-twice\]"):
        Schedule.parse("#tile.schedule<mainloop = <stages = 2>, mainloop = <k = 32>>")


def test_a_field_that_two_arguments_give_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"mainloop\.stages twice.*\[path-twice\]"):
        Schedule().with_(stages=2, mainloop_stages=3)
