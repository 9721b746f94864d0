"""The factors that are drawn, and their words. Those of a schedule are derived from its fields, so new words are drawn
too.

A pair consists of a word of one factor and a word of another one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import combinations, product
from types import MappingProxyType
from typing import Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.ready import READY
from lowtide.compiler.spec_fields import D_ORDERS, FAST, LAYOUTS
from lowtide.decompositions import DECOMPOSITIONS, Decomposition
from lowtide.dialects.tile import PromoteKind
from lowtide.dialects.tile.division import AXES, KDivision
from lowtide.dialects.tile.fields import Call, Word
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import EPILOGUE_TYPE, SCALE_BLOCK, kernel_types, output_types, types_of_d
from lowtide.errors import ScheduleError
from lowtide.targets import operand_types
from lowtide.verification.checking.splits import SPLITS

Words = Mapping[str, str]
"""A word of each of some factors."""
Pair = tuple[tuple[str, str], tuple[str, str]]

_NUMBERS = ("", "(1)", "(2)", "(4)", "(2, 2)")  # tried with words that may take numbers
_TARGETS = ("sm_80", "sm_90a")  # one for each set of instructions

# Scales of blocks of A and of B
SCALES: Mapping[str, BlockScales | None] = MappingProxyType(
    {
        "none": None,
        "rows, blocks": BlockScales(),
        "rows, columns": BlockScales(b=(1, SCALE_BLOCK)),
        "blocks, columns": BlockScales(a=(SCALE_BLOCK, SCALE_BLOCK), b=(1, SCALE_BLOCK)),
    }
)

# Packed weights in place of B: their type, K of a group, and whether there are zero points
WEIGHTS: Mapping[str, tuple[str, int | None, bool] | None] = MappingProxyType(
    {
        "none": None,
        "s4": ("s4", 64, False),
        "u4 less zeros": ("u4", 32, True),
        "s8 in groups": ("s8", 128, True),
        "u8": ("u8", None, False),
        "e4m3 in groups": ("e4m3", 64, False),
    }
)

# Shards of A that arrive while ranks run together. With peers, the kernels can send them.
SENT = "on ranks, with peers"
ON_RANKS = ("on ranks", SENT)

# The drawn properties of a problem and of a run; the simplest word first.
_PROBLEM: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "target": _TARGETS,
        "dtype": operand_types(),
        "d": ("as A", *types_of_d()),
        "sums": ("as precise as their type", FAST),
        "precision": ("of the type", *DECOMPOSITIONS),
        "layout": LAYOUTS,
        "d_order": D_ORDERS,
        "scales": tuple(SCALES),
        "weights": tuple(WEIGHTS),
        "epilogue": tuple(READY),
        "pre": ("as D", *output_types(EPILOGUE_TYPE)),
        "amax": ("none", "of D"),
        "known": ("none", "k", "n", "mnk", "k = 0", "whole tiles"),
        "batch": ("none", "run time", "3"),
        "counts": ("all rows", "of each product"),
        "groups": ("none", "run time", "3", "3 of K"),
        "a_rows": ("in order", "at an index"),
        "d_rows": ("in order", "at an index"),
        "lists": ("none", "b", "d", "abd"),
        "arrivals": ("there", "while it runs", *ON_RANKS),
        "pairs": (
            "none",
            "stacked, product",
            "interleaved, product",
            "stacked, swiglu",
            "interleaved, swiglu-saved",
            "apart, swiglu-saved",
        ),
    }
)
_IN_TURN: Mapping[str, str] = MappingProxyType({"grid.scheduler": "persistent"})
# Operands that only wgmma multiplies, and epilogues do not store
_WIDE_D: Mapping[str, str] = MappingProxyType({"target": "sm_90a", "d": "f16"})
# The epilogue with a result `pre`
_SAVED: Mapping[str, str] = MappingProxyType({"target": "sm_90a", "epilogue": "bias-relu-saved"})
# A batch, and no groups, also where a split of the rows would come with them
_BATCH: Mapping[str, str] = MappingProxyType({"batch": "run time", "groups": "none"})
_KEPT: Mapping[str, str] = MappingProxyType(
    {
        "known": "mnk",
        "grid.scheduler": "persistent",
        "mainloop.k": "32",
        "mainloop.stages": "2",
        "mainloop.agents.single.instances": "1",
        "mainloop.prologue": "once",
        "multiply.fragment_buffers": "1",
    }
)
# Two known K steps, and tiles of two blocks of rows for one consumer
_BY_ROWS: Mapping[str, str] = MappingProxyType(
    {"target": "sm_90a", "known": "k", "grid.tile": "[128, 32]", "mainloop.k": "32", "multiply.atoms": "[1, 1, 1]"}
)


# A tile of D that is held in registers: whole tiles of known extents, the ring filled once, few steps of K.
_HELD: Mapping[str, str] = MappingProxyType(
    {
        "known": "whole tiles",
        "grid.tile": "[64, 64]",
        "mainloop.k": "32",
        "epilogue.path": "direct",
        "mainloop.prologue": "once",
        "mainloop.unroll": "full",
        "multiply.fragment_buffers": "1",
        "grid.scheduler": "persistent",
    }
)


def _pieces_of(row: Decomposition) -> Mapping[str, str]:
    """The type that is split into the pieces."""
    return MappingProxyType({"dtype": row.whole})


# The words that some words need beside them to be legal, and fields without words.
COMPANIONS: Mapping[tuple[str, str], Mapping[str, str]] = MappingProxyType(
    {
        **{("grid.k_division", str(kind)): _IN_TURN for kind in AXES if KDivision(kind).needs_residents},
        ("grid.tail", "halves"): MappingProxyType({"target": "sm_90a"}),  # with roles
        **{("scales", name): MappingProxyType({**_WIDE_D, "dtype": "e4m3"}) for name in list(SCALES)[1:]},
        **{("weights", name): MappingProxyType({"dtype": "bf16"}) for name in list(WEIGHTS)[1:]},
        ("groups", "3 of K"): MappingProxyType({"layout": "nt"}),
        ("counts", "of each product"): _BATCH,
        **{("arrivals", name): _BATCH for name in ("while it runs", *ON_RANKS)},
        ("arrivals", SENT): MappingProxyType({**_BATCH, "grid.sender": "kernel"}),
        ("grid.sender", "kernel"): MappingProxyType({**_BATCH, "arrivals": SENT}),
        ("lists", "b"): MappingProxyType({"groups": "3"}),
        ("lists", "d"): _BATCH,
        ("lists", "abd"): MappingProxyType({**_BATCH, "counts": "of each product"}),
        **{("split", name): MappingProxyType({"groups": "3"}) for name in list(SPLITS)[1:]},
        **{("pre", name): _SAVED for name in output_types(EPILOGUE_TYPE)},
        **{("dtype", name): _WIDE_D for name in operand_types() if name not in kernel_types()},
        **{("precision", row.name): _pieces_of(row) for row in DECOMPOSITIONS.values()},
        ("epilogue.prefetch", "2"): MappingProxyType({"epilogue.path": "smem", "epilogue.math": "rows"}),
        **{
            ("multiply.promote", str(kind)): MappingProxyType({"target": "sm_90a"})  # with roles
            for kind in (PromoteKind.per_step, PromoteKind.overlapped)
        },
        ("mainloop.scales", "staged"): MappingProxyType({**_WIDE_D, "dtype": "e4m3", "scales": "rows, blocks"}),
        ("mainloop.k_order", "serpentine"): MappingProxyType({"target": "sm_90a"}),  # with roles
        ("epilogue.start", "first_rows"): _BY_ROWS,
        ("epilogue.start", "next_tile"): _HELD,
        ("mainloop.a.pack", "transposed"): MappingProxyType({"layout": "nn"}),
        ("mainloop.b.pack", "transposed"): MappingProxyType({"layout": "tt"}),
        ("mainloop.unroll", "full"): MappingProxyType({"known": "k"}),
        ("mainloop.a.load", "once"): MappingProxyType({**_KEPT, "grid.tile": "[128, 64]"}),
        ("mainloop.b.load", "once"): MappingProxyType({**_KEPT, "grid.tile": "[64, 160]"}),
    }
)
_RUN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rows": ("one tile", "ragged", "two tiles", "two ragged tiles"),
        "columns": ("one tile", "ragged", "two tiles", "two ragged tiles"),
        "steps": ("1", "0", "stages - 1", "stages", "ragged stages + 1"),
        "sms": ("1", "2", "3"),
        "padding": ("8", "0"),
        "lies": ("as moved", "anywhere"),
        "shared": ("nothing", "a", "b and operands"),
        "split": tuple(SPLITS),
    }
)


# Fields whose values are names or numbers: agents, how operands are copied, and how wide D is stored.
_COPIES = ("tma", "cp.async.16", "cp.async.4", "staged.16", "staged.2", "realigned.16", "realigned.4", "ld.global.2")
_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mainloop.agents.consumer.warps": ("4", "8"),
        "mainloop.agents.consumer.instances": ("1", "2"),
        "mainloop.agents.single.instances": ("1",),
        "mainloop.a.copy": _COPIES,
        "mainloop.b.copy": _COPIES,
        "epilogue.store": ("16", "4", "2"),
        "epilogue.prefetch": ("0", "2"),
    }
)


@cache
def schedule_words() -> Mapping[str, tuple[str, ...]]:
    """By field, every word of its enum, and some of the values of those in `_VALUES`."""
    kinds = dict(_kinds(Schedule()))
    words = {path: tuple(map(str, kind.enum)) for path, kind in kinds.items() if isinstance(kind, (Word, Call))}
    return MappingProxyType({path: {**words, **_VALUES}[path] for path in kinds if path in words or path in _VALUES})


@cache
def factors() -> Mapping[str, tuple[str, ...]]:
    """Every factor and its words."""
    return MappingProxyType({**_PROBLEM, **schedule_words(), **_RUN})


def with_companions(words: Words) -> dict[str, str]:
    """The words with their companions that are not given."""
    found = dict(words)
    for word in words.items():
        for factor, other in COMPANIONS.get(word, {}).items():
            found.setdefault(factor, other)
    return found


def schedule_of(words: Words, numbers: int = 0) -> Schedule:
    """The schedule with these words, and with those of their companions that are not words."""
    plain = {path: value for path, value in words.items() if path in Schedule.paths() and path not in schedule_words()}
    given = Schedule.parse(", ".join(f"{path} = {value}" for path, value in plain.items())) if plain else Schedule()
    return given.set(fields_of(words, numbers))


def fields_of(words: Words, numbers: int = 0) -> dict[str, str | int]:
    """Fields of a schedule with these words; `numbers` chooses the numbers of words that take some."""
    found: dict[str, str | int] = {}
    for path in schedule_words():
        if path in _VALUES and path in words:
            found[path] = int(words[path]) if words[path].isdigit() else words[path]
        elif path in words:
            forms = _forms(path, words[path])
            found[path] = forms[numbers % len(forms)]
    return found


@cache
def _forms(path: str, word: str) -> tuple[str, ...]:
    """The word with each of the numbers that it takes."""
    found = []
    for numbers in _NUMBERS:
        try:
            str(Schedule().set({path: word + numbers}))
        except ScheduleError:
            continue
        found.append(word + numbers)
    return tuple(found) or (word,)


def words_of(schedule: Schedule) -> dict[str, str]:
    """The words of a schedule, by field."""
    decided, paths = schedule.decided(), schedule_words()
    return {path: str(getattr(decided[path], "kind", decided[path])) for path in paths if path in decided}


def pairs_of(words: Words) -> Iterator[Pair]:
    """Every pair of the words, in the order of the factors."""
    yield from combinations([(factor, words[factor]) for factor in factors() if factor in words], 2)


@cache
def all_pairs() -> tuple[Pair, ...]:
    """All pairs, legal or not."""
    found: list[Pair] = []
    for (one, own), (other, others) in combinations(factors().items(), 2):
        found += [((one, a), (other, b)) for a, b in product(own, others)]
    return tuple(found)


def text_of(pair: Iterable[tuple[str, str]]) -> str:
    """A pair as a line of the journal."""
    return " & ".join(f"{factor}={word}" for factor, word in pair)


def _kinds(part: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The kind of each field of a schedule, by path."""
    for entry in fields(part):
        if "kind" in entry.metadata:
            yield prefix + entry.name, entry.metadata["kind"]
        elif is_dataclass(nested := getattr(part, entry.name)):
            yield from _kinds(nested, f"{prefix}{entry.name}.")
