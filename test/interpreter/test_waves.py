"""CTAs in step (`grid.waves = synchronized`): a hint that is left as it was found, and that no result depends on."""

import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import Fault

from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, Report, interpret
from lowtide.interpreter.machine import waves
from lowtide.verification.checking import trials
from lowtide.verification.checking.trials import Finding

SPEC = spec()
ONE = "grid.tile = [64, 16], order = row, k = 32, stages = 2, roles = cooperative(1), waves = synchronized"
SCHEDULES = {
    "persistent": ONE,
    "even_split": f"{ONE}, scheduler = even_split",
    "tail": ONE.replace("[64, 16]", "[128, 16]") + ", tail = halves",
    "clusters": f"{ONE}, cluster = [2, 1]",
    "clusters of four, even_split": f"{ONE}, cluster = [2, 2], scheduler = even_split",
    "clusters, tail": ONE.replace("[64, 16]", "[128, 16]") + ", cluster = [1, 2], tail = halves",
    "clusters, taking turns": ONE.replace("cooperative(1)", "pingpong(2)") + ", cluster = [2, 1]",
}
INPUTS = inputs_of(SPEC, 300, 40, 40)


@cache
def levels(name: str) -> dict[str, str]:
    return levels_of(SPEC, SCHEDULES[name], "sm_90a")


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("sms", [1, 2, 4])
def test_the_counter_is_zero_after_each_launch(name: str, sms: int) -> None:
    """The interpreter refuses a zeroed workspace that is not left zero. 15 tiles, or 9: the last wave may be short."""
    texts = levels(name)
    for level in ("cta", "pipelined", "nvvm") if sms == 2 else ("cta", "epilogue"):
        d = interpret(texts[level], INPUTS, sms=sms, seed=sms, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


def test_each_cta_of_a_cluster_is_counted() -> None:
    """With the tiles of clusters in place of those of CTAs, the counter wraps before the last ones begin."""
    text = levels("clusters")["nvvm"]
    tiles = re.search(r"sm\.ptx_await_wave %\S+ tiles\((%\w+)\)", text)
    assert tiles is not None
    half = f"%half = arith.divui {tiles[1]}, %two : i32"
    count = rf"\1%two = arith.constant 2 : i32\n\1{half}\n\1\2 tiles(%half)"
    fault = Fault("", "nvvm", r"^( *)(sm\.ptx_await_wave %\S+) tiles\(%\w+\)", count, "")
    with pytest.raises(
        InterpreterError, match=r"work tile 10 of this launch begins, but its counter is for 9.*\[wave-counter-end\]"
    ):
        interpret(fault.plant(text), INPUTS, sms=4, domain="exact")


def test_nobody_waits_forever_for_ctas_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The polls are bounded: more CTAs are waited for than there are."""
    begin, begun = waves.begin, []

    def alone(state, op, address, tiles):
        begun.append(address)
        of_three = SimpleNamespace(memory=state.machine.memory, begun=state.machine.begun, grid=3)
        yield from begin(
            SimpleNamespace(machine=of_three, access=state.access, violation=state.violation), op, address, tiles
        )

    monkeypatch.setattr(waves, "begin", alone)
    d = interpret(levels("persistent")["epilogue"], INPUTS, sms=1, domain="exact")
    np.testing.assert_array_equal(d, expected(SPEC, INPUTS))
    assert len(begun) == 15


def test_a_count_that_is_off_by_one_is_found() -> None:
    """The counter would not wrap at the end of the launch, and the next launch would begin with it."""
    text = levels("persistent")["nvvm"]
    tiles = re.search(r"sm\.ptx_await_wave %\S+ tiles\((%\w+)\)", text)
    assert tiles is not None
    more = f"%more = arith.addi {tiles[1]}, %one : i32"
    count = rf"\1%one = arith.constant 1 : i32\n\1{more}\n\1\2 tiles(%more)"
    fault = Fault("", "nvvm", r"^( *)(sm\.ptx_await_wave %\S+) tiles\(%\w+\)", count, "")
    with pytest.raises(InterpreterError, match=r"element 0.*\[workspace-not-reset\]"):
        interpret(fault.plant(text), INPUTS, sms=2, domain="exact")


def test_waves_hold_for_every_order_of_agents_down_to_ptx() -> None:
    texts = levels("tail")
    lowered = CompiledKernel(lower(texts["llvm"], target="sm_90a")).levels
    for loaded in (Loaded(texts["nvvm"]), Loaded(texts["llvm"]), Loaded(lowered["llvm"], lowered["ptx"])):
        report = Report()
        interpret(loaded, INPUTS, domain="exact", report=report)
        assert report.holds and report.kernels, str(report)


@pytest.mark.parametrize(("most", "finding"), [(500, Finding.right), (2, Finding.broken)])
def test_check_explores_the_orders_that_one_run_does_not_speak_for(
    most: int, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait for a wave that orders something: whether it ends by its bound matters."""
    monkeypatch.setattr(trials, "MOST_ORDERS", most)
    texts = levels("persistent")
    acquires = ("ld.relaxed.gpu.global.u32 seen", "ld.acquire.gpu.global.u32 seen")
    llvm = texts["llvm"].replace(*acquires).replace("mov.u32 polls, 64", "mov.u32 polls, 1")
    assert llvm != texts["llvm"]
    source, trial = trials.Source("llvm", llvm), trials.Trial((64, 32, 32), domain="exact")
    (outcome,) = trials.outcomes(texts["problem"], [source], trial)
    assert outcome.finding is finding, outcome.message
    assert outcome.report is not None and not outcome.report.holds
    assert outcome.explored is not None and outcome.explored.holds == (finding is Finding.right)
