"""Products whose D lies in the memory of peers: sums of all ranks; faults of flags, places, slots and kernels."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import Calls, Loaded, Sending, interpret_ranks
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.machine.views import Scope

RANKS, ROWS, COLUMNS, DEPTH = 3, 20, 24, 40
TARGETS = {"sm_80": "grid.tile = [32, 32], k = 32, stages = 2", "sm_90a": "grid.tile = [64, 32], stages = 2"}
OF_BOTH = [("sm_80", "cta"), ("sm_90a", "ptx")]
OF_ALL = [("sm_80", "pipelined"), ("sm_80", "ptx"), *(("sm_90a", level) for level in LEVELS)]
DOMAIN = {"domain": "exact"}


@cache
def compiled(target: str) -> CompiledKernel:
    spec = lt.GemmSpec(batch=None, arrivals=True, lists="d", a="bf16", b="bf16", d="bf16")
    return lt.compile_gemm(spec, target, TARGETS[target])


@cache
def loaded(target: str, level: str) -> Loaded:
    kernel = compiled(target)
    return Loaded(kernel.levels["llvm"], kernel.ptx) if level == "ptx" else Loaded(kernel.levels[level])


def inputs() -> list[dict[str, NDArray[Any]]]:
    """A of each rank is there; a rank begins with the rows of the next one."""
    rng, found = np.random.default_rng(0), []
    for rank in range(RANKS):
        b = np.broadcast_to(rng.integers(-4, 5, (COLUMNS, DEPTH)), (RANKS, COLUMNS, DEPTH))
        turn = np.array([(rank + 1) % RANKS, 0, 1000], np.int32)
        order = {"arrived": np.zeros(RANKS, np.int32), "turn": turn, "status": np.zeros(4, np.int32)}
        found.append({"a": rng.integers(-4, 5, (RANKS, ROWS, DEPTH)), "b": b} | order)
    return found


@pytest.mark.parametrize(("target", "level"), OF_ALL)
def test_each_owner_has_the_sum_of_all_parts(target: str, level: str) -> None:
    given = inputs()
    sums = sum(each["a"] @ each["b"][0].T for each in given)
    found = interpret_ranks(loaded(target, level), given, seed=LEVELS.index(level), **DOMAIN)
    assert (np.stack(found) == sums).all()


RACE = r"rank \d: race of ranks: .*\[ranks-race\]"
FAULTS = {
    "lost flag": (
        Sending(flag=False),
        r"rank 1: .*the flag of rank 2 is 0, and the epoch is 1(?s:.*)\[ranks-deadlock\]",
    ),
    "stale epoch": (Sending(behind=1), r"rank 1: .*the flag of rank 2 is 2, and the epoch is 3 \[ranks-deadlock\]"),
    "flag before data": (Sending(flag_first=True), rf"{RACE}|rank 1: reads .*rank 2 must store it .*\[ranks-part\]"),
    "narrow scope": (Sending(scope=Scope.gpu), r"rank 1: race .* reads .* which rank 2 stored"),
    "place of another rank": (Sending(place=0), rf"{RACE}|rank 1: reads .*\[ranks-part\]"),
    "place of the owner": (Sending(place=1), rf"{RACE}|rank 1: reads .*\[ranks-part\]"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(("target", "level"), OF_BOTH)
def test_each_fault_of_a_part_is_found_on_each_level(target: str, level: str, name: str) -> None:
    sending, message = FAULTS[name]
    for seed in range(1 if level == "ptx" else 3):
        with pytest.raises(InterpreterError, match=message):
            interpret_ranks(loaded(target, level), inputs(), seed=seed, sendings={(2, 1): sending}, **DOMAIN)


@pytest.mark.parametrize("target", TARGETS)
def test_a_slot_is_used_again_only_after_it_was_read(target: str) -> None:
    for seed in range(3):
        with pytest.raises(InterpreterError, match=RACE):
            interpret_ranks(loaded(target, "cta"), inputs(), seed=seed, calls=Calls(slots=1), **DOMAIN)
    interpret_ranks(loaded(target, "cta"), inputs(), calls=Calls(count=5, slots=3), **DOMAIN)


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_that_stores_all_products_to_one_owner_races(target: str) -> None:
    text = compiled(target).levels["cta"]
    wrong = text.replace("into %D[%batch,", "into %D[%c0,")
    assert wrong != text
    with pytest.raises(InterpreterError, match=r"rank \d: .*race .*\[global-race\]"):
        interpret_ranks(wrong, inputs(), **DOMAIN)


@pytest.mark.parametrize(("target", "level"), OF_BOTH)
def test_each_rank_has_the_sums_of_all(target: str, level: str) -> None:
    given = inputs()
    wanted = sum(each["a"] @ each["b"][0].T for each in given)
    for seed in range(1 if level == "ptx" else 4):
        found = interpret_ranks(loaded(target, level), given, seed=seed, calls=Calls(sums={}), **DOMAIN)
        assert all((each == wanted).all() for each in found)


FAULTS_OF_SUMS = {
    "lost flag": (
        Sending(flag=False),
        r"rank 1: .*the flag of a sum of rank 2 is 0, and the epoch is 1(?s:.*)\[ranks-deadlock\]",
    ),
    "stale epoch": (
        Sending(behind=1),
        r"rank 1: .*the flag of a sum of rank 2 is 0, and the epoch is 1(?s:.*)\[ranks-deadlock\]",
    ),
    "flag before data": (
        Sending(flag_first=True),
        rf"{RACE}|rank 1: reads .* of the sum of rank 2 .*\[ranks-part\]",
    ),
    "narrow scope": (
        Sending(scope=Scope.gpu),
        r"rank 1: race .* reads .* of the sum of rank 2 .*, which rank 2 stored",
    ),
    "place of another rank": (Sending(place=0), rf"{RACE}|rank 1: reads .* of the sum of .*\[ranks-part\]"),
}


@pytest.mark.parametrize("name", FAULTS_OF_SUMS)
def test_each_fault_of_a_sum_that_is_sent_is_found(name: str) -> None:
    sending, message = FAULTS_OF_SUMS[name]
    for seed in range(5):
        with pytest.raises(InterpreterError, match=message):
            interpret_ranks(loaded("sm_80", "cta"), inputs(), seed=seed, calls=Calls(sums={(2, 1): sending}), **DOMAIN)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_of_a_part_that_the_copy_engine_sends_is_found(name: str) -> None:
    sending, message = FAULTS[name]
    for seed in range(3):
        with pytest.raises(InterpreterError, match=message):
            calls = Calls(copies=True)
            interpret_ranks(
                loaded("sm_80", "cta"), inputs(), seed=seed, sendings={(2, 1): sending}, calls=calls, **DOMAIN
            )


def test_parts_that_copy_engines_send_are_added_and_need_two_slots() -> None:
    given = inputs()
    wanted = sum(each["a"] @ each["b"][0].T for each in given)
    for seed in range(3):
        for sums in (None, {}):
            calls = Calls(sums=sums, copies=True)
            found = interpret_ranks(loaded("sm_80", "cta"), given, seed=seed, calls=calls, **DOMAIN)
            assert all((each == wanted).all() for each in (found if sums is not None else [np.stack(found)]))
        with pytest.raises(InterpreterError, match=RACE):
            calls = Calls(slots=1, copies=True)
            interpret_ranks(loaded("sm_80", "cta"), given, seed=seed, calls=calls, **DOMAIN)


def test_one_slot_is_enough_if_sums_are_sent() -> None:
    """The sum of a rank says that it has read the parts of the call."""
    for seed in range(3):
        interpret_ranks(loaded("sm_80", "cta"), inputs(), seed=seed, calls=Calls(slots=1, sums={}), **DOMAIN)


def test_a_part_that_no_rank_stores_is_not_added() -> None:
    text = re.sub(
        r"(tile\.store .*) into %D\[%batch, (%\w+),", r"\1 into %D[%batch, %dim_0,", compiled("sm_80").levels["cta"]
    )
    with pytest.raises(InterpreterError, match=r"rank \d: .*\[d-unwritten\]"):
        interpret_ranks(text, inputs(), **DOMAIN)
