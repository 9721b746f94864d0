"""Inline assembly: registers from values and back, labels of its own braces."""

import itertools

import numpy as np
import pytest

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState, Cta, Machine
from lowtide.interpreter.machine.branches import run_graph
from lowtide.interpreter.machine.execution import advance
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.ptx.assembly import assembled

COUNT = """{
.reg .pred more;
.reg .b32 left;
mov.u32 left, $1;
mov.u32 $0, 0;
AGAIN:
add.s32 $0, $0, 3;
sub.u32 left, left, 1;
setp.ne.u32 more, left, 0;
@more bra AGAIN;
}"""


def run(text, types, inputs, outputs, values, domain="exact"):
    """The slots of an agent after a text has run twice on `values`, slots 0, 1, …"""
    numbers = domains.domain(domain)
    machine = Machine("llvm", numbers, GlobalMemory(numbers.payload), 1, 1, 32, collective=False)
    state = AgentState(machine, Cta(0, machine, 0), machine.seats[0], 100)
    slots = itertools.count(len(values))
    graph = assembled(text, types, inputs, outputs, numbers, lambda: next(slots), "here")
    for _ in range(2):
        state.values[: len(values)] = values
        assert advance(state, run_graph(state, graph)) is None
    return state.values


def test_a_loop_with_a_counter_ends():
    assert run(COUNT, ["i32", "i32"], [(1, 1)], [(0, 0)], [None, 5])[0] == 15


def test_lanes_may_go_round_it_differently_often():
    counts = np.arange(1, 33, dtype=np.int32)
    found = run(COUNT, ["i32", "i32"], [(1, 1)], [(0, 0)], [None, counts])[0]
    np.testing.assert_array_equal(found, 3 * counts)


def test_floats_go_in_and_out_as_payloads():
    x = np.arange(32)
    found = run("fma.rn.f32 $0, $1, $2, 0f3F800000;", ["f32"] * 3, [(1, 1), (2, 2)], [(0, 0)], [None, x, np.int64(4)])
    np.testing.assert_array_equal(found[0], 4 * x + 1)


def test_what_is_not_interpreted_is_named_with_where_it_stands():
    with pytest.raises(InterpreterError, match=r"`brkpt;` at here:2: instruction 'brkpt' is not interpreted"):
        run("{\nbrkpt;\n}", [], [], [], [])
