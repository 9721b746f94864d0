"""Shards of A that arrive: the order of work, waits for flags, epilogues, the end of a time limit, at every level."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError, SpecError
from lowtide.interpreter import Trace, interpret
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.machine.traces import row_of

SHARDS, ROWS, COLUMNS, DEPTH, RANK, EPOCH, LIMIT = 3, 40, 24, 40, 1, 2**31 - 1, 1000
WRAPPED = -(2**31)  # the epoch after EPOCH
LATE = "shard 2 has not arrived: its flag is 5, and the epoch is 6"
TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}
TARGETS = {
    "sm_80": ("sm_80", "grid.tile = [32, 32], k = 32, stages = 2"),
    "sm_90a": ("sm_90a", "grid.tile = [64, 32], stages = 2"),
    "copied by threads": ("sm_90a", "grid.tile = [64, 32], stages = 2, a.copy = cp.async.16"),
    "clusters, by TMA": (
        "sm_90a",
        "grid.tile = [64, 32], k = 16, stages = 2, roles = cooperative(1), epilogue.path = tma, cluster = [2, 1]",
    ),
    "taking turns": ("sm_90a", "grid.tile = [64, 32], k = 16, stages = 2, roles = pingpong(2)"),
}


def scaled(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return acc + c - row + column


@cache
def compiled(name: str, epilogue: Any = None, **fields: Any) -> CompiledKernel:
    target, schedule = TARGETS[name]
    return lt.compile_gemm(
        lt.GemmSpec(batch=None, arrivals=True, epilogue=epilogue, **TYPES, **fields), target, schedule
    )


def inputs(arrived: Any = (EPOCH,) * SHARDS, limit: int = LIMIT, epoch: int = EPOCH) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (SHARDS, ROWS, DEPTH)), rng.integers(-4, 5, (COLUMNS, DEPTH))
    turn = np.array([RANK, epoch, limit], np.int32)
    return {"a": a, "b": b, "arrived": np.array(arrived, np.int32), "turn": turn, "status": np.zeros(4, np.int32)}


def product(given: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = given["a"] @ given["b"].T
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_every_level_multiplies_shards_that_are_there(target: str, level: str) -> None:
    """The epoch may have wrapped."""
    for seed, arrived in enumerate(((EPOCH, EPOCH, EPOCH), (EPOCH, WRAPPED, WRAPPED + 5))):
        given = inputs(arrived)
        found = compiled(target).interpret(**given, level=level, domain="exact", seed=seed)
        np.testing.assert_array_equal(found, product(given))
        assert not given["status"].any()


@pytest.mark.parametrize("name", list(TARGETS)[2:])
def test_other_schedules_wait_too(name: str) -> None:
    given = inputs()
    for level in ("pipelined", "nvvm", "ptx"):
        np.testing.assert_array_equal(compiled(name).interpret(**given, level=level, domain="exact"), product(given))
    with pytest.raises(
        InterpreterError, match=r"(?s)deadlock.*shard 2 has not arrived: its flag is 5, and the epoch is 6"
    ):
        compiled(name).interpret(**inputs((6, 6, 5), epoch=6), level="nvvm", domain="exact")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_epilogues_and_counts_go_with_arrivals(target: str) -> None:
    given, rng = inputs(), np.random.default_rng(1)
    c, row = rng.integers(-4, 5, (SHARDS, ROWS, COLUMNS)), rng.integers(-4, 5, (SHARDS, ROWS))
    column, counts = rng.integers(-4, 5, COLUMNS), np.array([ROWS, 7, 0], np.int32)
    wanted = product(given) + c - row[..., None] + column
    more = {"c": c, "row": row, "column": column}
    kernel = compiled(target, scaled)
    np.testing.assert_array_equal(kernel.interpret(**given, **more, level="nvvm", domain="exact"), wanted)
    out = np.full(wanted.shape, -1, np.int64)
    for shard, count in enumerate(counts):
        wanted[shard, count:] = -1
    kernel = compiled(target, scaled, counts=True)
    for level in ("cta", "nvvm"):
        found = kernel.interpret(**given, **more, counts=counts, out=out, level=level, domain="exact")
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_flag_that_never_comes_is_a_deadlock_that_names_it(target: str, level: str) -> None:
    is_text = level in ("llvm", "ptx")
    what = (
        r"which is 5, to change \(arrived\[2\]\)"
        if is_text
        else "shard 2 has not arrived: its flag is 5, and the epoch is 6"
    )
    with pytest.raises(InterpreterError, match=rf"(?s)deadlock, level {level}.*{what}"):
        compiled(target).interpret(**inputs((7, 6, 5), epoch=6), level=level, domain="exact")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_time_limit_says_which_shard_is_late_and_d_keeps_what_was_there(target: str, level: str) -> None:
    """A limit of 0 has passed at once. Work begins with the shard of this rank."""
    given = inputs((6, 6, 5), limit=0, epoch=6)
    out = np.full((SHARDS, ROWS, COLUMNS), -1, np.int64)
    found = compiled(target).interpret(**given, out=out, level=level, domain="exact")
    assert given["status"].tolist() == [1, 2, 5, 6]
    assert (found[2] == -1).all()
    assert np.isin(found, [-1, *np.unique(product(given))]).all()
    given, out[:] = inputs((6, 5, 6), limit=0, epoch=6), -1
    found = compiled(target).interpret(**given, out=out, level=level, domain="exact", sms=1)
    assert (found == -1).all() and given["status"].tolist() == [1, 1, 5, 6]


@pytest.mark.parametrize("level", ["cta", "ptx"])
def test_matrices_of_a_list_keep_what_was_there_if_a_shard_is_late(level: str) -> None:
    given, out = inputs((6, 6, 5), limit=0, epoch=6), np.full((SHARDS, ROWS, COLUMNS), -1, np.int64)
    given["b"] = np.broadcast_to(given["b"], (SHARDS, COLUMNS, DEPTH))
    found = compiled("sm_90a", lists="d").interpret(**given, out=out, level=level, domain="exact")
    assert given["status"].tolist() == [1, 2, 5, 6]
    assert (found[2] == -1).all() and np.isin(found, [-1, *np.unique(given["a"] @ given["b"].mT)]).all()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_work_begins_with_the_shard_of_this_rank(target: str) -> None:
    trace, given = Trace(), inputs()
    given["b"] = np.broadcast_to(given["b"], (SHARDS, COLUMNS, DEPTH))
    interpret(compiled(target).levels["cta"], given, sms=1, domain="exact", trace=trace)
    rows = [row for cta in sorted(trace.work) for row, *_ in trace.tiles()[cta]]
    assert list(dict.fromkeys(row - row % 1024 for row in rows)) == [row_of(shard, 0, ROWS) for shard in (1, 2, 0)]


def test_a_rank_that_there_is_not_is_a_fault() -> None:
    given = inputs()
    given["turn"][0] = SHARDS
    with pytest.raises(InterpreterError, match=r"begins with matrix 3 of 3.*\[work-first-matrix\]"):
        compiled("sm_80").interpret(**given, level="cta", domain="exact")


def test_the_host_function_waits_for_a_shard_of_the_problem() -> None:
    with pytest.raises(InterpreterError, match=rf"the host function waits: {LATE} \[host-waits\]"):
        compiled("sm_80").interpret(**inputs((7, 6, 5), epoch=6), level="problem", domain="exact")


def two(acc):
    return {"d": acc, "rows": lt.sum(acc, 1)}


def turned(acc, turn: lt.PerRow):
    return acc + turn


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, r"\[arrivals-batch\]"),
        ({"batch": 2, "layout": "nn"}, r"layout='nn' are not supported.*\[arrivals-beside\]"),
        ({"batch": 2, "d_order": "column"}, r"\[arrivals-beside\]"),
        ({"batch": 2, "lists": "b"}, r"\[arrivals-beside\]"),
        ({"batch": 2, "epilogue": two}, r"'rows'.*\[arrivals-results\]"),
        ({"batch": 2, "amax": True}, r"\[arrivals-results\]"),
        ({"batch": 2, "a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, r"\[arrivals-beside\]"),
        ({"batch": 2, "arrivals": 1}, r"\[rows-word\]"),
        ({"batch": 2, "epilogue": turned}, r"\[arrivals-operand-name\]"),
    ],
)
def test_what_does_not_go_with_arrivals_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=code):
        lt.GemmSpec(**{**TYPES, "arrivals": True, **fields})


@pytest.mark.parametrize(
    ("schedule", "code"),
    [
        ("grid.operands = swapped", r"\[arrivals-field\]"),
        ("a.pack = rows", r"\[arrivals-field\]"),
        ("grid.k_division = split(2)", r"\[arrivals-field\]"),
        ("cluster = [1, 2]", r"take \[1, 1\].*\[arrivals-cluster\]"),
    ],
)
def test_schedules_that_read_a_elsewhere_are_refused(schedule: str, code: str) -> None:
    with pytest.raises(lt.Error, match=code):
        lt.compile_gemm(lt.GemmSpec(batch=2, arrivals=True, m=64, n=64, k=64, **TYPES), "sm_90a", schedule)
