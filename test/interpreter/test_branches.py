"""Control flow between blocks: lanes that diverge and meet again, loops, polls, loops without end.

All but the last tests build their blocks by hand, without MLIR.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from one_cta import run_kernel

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import LaunchRequest, Machine, Wait
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.lanes import whole_warp
from lowtide.interpreter.machine.options import Options
from lowtide.interpreter.machine.scheduling import run_all, start_cluster
from lowtide.interpreter.numbers.domains import domain
from lowtide.interpreter.program.dominators import immediate_post_dominators, natural_loop, retreating
from lowtide.interpreter.program.graphs import EXIT, Block, Branch, Edge, Graph, Move
from lowtide.interpreter.program.program import DecodedBlock, Program

LANES = np.arange(32)
FLOATS = domain("float")


@dataclass
class Op:
    """`results[0] = function(state, *operands)`."""

    function: Any
    operands: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    resumable = has_places = signals = is_wide = acts = False
    by_convoy = None
    is_single = is_maskable = False

    def handler(self, state, op):
        value = self.function(state, *(state.values[slot] for slot in self.operands))
        if self.results:
            state.values[self.results[0]] = value

    def describe(self):
        return "`an op` at line 1"


def set_to(slot, value):
    return Op(lambda state: value, (), (slot,))


def compute(slot, function, *operands):
    return Op(lambda state, *values: function(*values), operands, (slot,))


def to(target, **moves):
    """An edge; moves as `s3=5`: slot 3 gets the value of slot 5."""
    return Edge(target, tuple(Move(source, int(slot[1:])) for slot, source in moves.items()))


def go(target, **moves):
    return Branch((to(target, **moves),))


def choose(condition, true, false):
    return Branch((true, false), condition, MappingProxyType({True: 0}))


def run(blocks, registers=False, warps=1, seed=0, max_steps=1000, slots=16):
    """Run the blocks for the warps of one CTA; the states that they end in."""
    graph = Graph.of(blocks, registers)
    options = Options(sms=1, max_steps=max_steps)
    machine = Machine("ptx", FLOATS, GlobalMemory(), options, grid=1, threads=32 * warps, collective=False)
    program = Program("f", "ptx", FLOATS, DecodedBlock((), (), (), (), ""), slots, graph=graph)
    ctas = start_cluster(machine, program, 0, LaunchRequest("f", 1, 32 * warps, 0, ()))
    run_all(iter([ctas]), 1, seed)
    return [agent.state for agent in ctas[0]]


def seen_by(masks):
    """An op that notes the mask that it is run under."""
    return Op(lambda state: masks.append(None if state.mask is None else state.mask.copy()))


# The graph ------------------------------------------------------------------------------------------------------------

DIAMOND = [[1, 2], [3], [3], [EXIT]]
EARLY_EXIT = [[1, EXIT], [2, 3], [3], [EXIT]]
LOOPS = [[1], [2, 5], [3], [3, 4], [1], [EXIT]]  # 3 goes round by itself inside 1 … 4
ENDLESS = [[1, 2], [1], [EXIT]]


def test_immediate_post_dominators():
    assert immediate_post_dominators(DIAMOND) == (3, 3, 3, EXIT)
    assert immediate_post_dominators(EARLY_EXIT) == (EXIT, 3, 3, EXIT)
    assert immediate_post_dominators(LOOPS) == (1, 5, 3, 4, 1, EXIT)
    assert immediate_post_dominators(ENDLESS) == (2, EXIT, EXIT)


def test_loops_and_the_edges_that_close_them():
    assert list(retreating(DIAMOND)) == []
    assert sorted(retreating(LOOPS)) == [(3, 0), (4, 0)]
    assert natural_loop(LOOPS, 4, 1) == {1, 2, 3, 4}
    assert natural_loop(LOOPS, 3, 3) == {3}
    assert list(retreating(ENDLESS)) == [(1, 0)]


# Divergence -----------------------------------------------------------------------------------------------------------


def test_lanes_take_their_branch_and_meet_at_the_post_dominator():
    masks = []
    (state,) = run(
        [
            Block((set_to(0, LANES < 5), set_to(1, 7)), choose(0, to(1), to(2))),
            Block((seen_by(masks), compute(2, lambda x: x + 1, 1)), go(3, s4=2)),
            Block((seen_by(masks), compute(3, lambda x: x * 2, 1)), go(3, s4=3)),
            Block((seen_by(masks), Op(lambda state: whole_warp(state, state.op))), go(EXIT)),
        ]
    )
    np.testing.assert_array_equal(state.values[4], np.where(LANES < 5, 8, 14))
    np.testing.assert_array_equal(masks[:2], [LANES < 5, LANES >= 5])
    assert masks[2] is None


def test_an_aligned_instruction_before_the_lanes_meet_is_reported():
    with pytest.raises(
        InterpreterError, match=r"all 32 lanes must execute it together .* lanes \[4, 5, .*\[warp-aligned\]"
    ):
        run(
            [
                Block((set_to(0, LANES < 4),), choose(0, to(1), to(2))),
                Block((Op(lambda state: whole_warp(state, state.op)),), go(2)),
                Block((), go(EXIT)),
            ]
        )


def test_where_all_lanes_agree_there_is_no_mask():
    masks = []
    run(
        [
            Block((set_to(0, LANES < 32),), choose(0, to(1), to(2))),
            Block((seen_by(masks),), go(2)),
            Block((), go(EXIT)),
        ]
    )
    assert masks == [None]


def test_lanes_that_leave_a_loop_early_keep_what_they_computed_in_it():
    """Slot 3 is read behind the loop: what the last lanes compute is not for those that have left."""
    masks = []
    (state,) = run(
        [
            Block((set_to(0, 0),), go(1, s1=0)),
            Block((compute(3, lambda i: i * 10, 1), compute(2, lambda i: i < LANES % 4, 1)), choose(2, to(2), to(3))),
            Block((compute(4, lambda i: i + 1, 1),), go(1, s1=4)),
            Block((seen_by(masks), compute(5, lambda x: x + 1, 3)), go(EXIT)),
        ]
    )
    np.testing.assert_array_equal(state.values[5], LANES % 4 * 10 + 1)
    assert masks == [None]


def test_registers_that_are_written_at_several_places_keep_the_other_lanes_values():
    (state,) = run(
        [
            Block((set_to(0, LANES % 2 == 0), set_to(1, 3)), choose(0, to(1), to(2))),
            Block((compute(1, lambda x: x + 1, 1),), go(2)),
            Block((compute(2, lambda x: x * 10, 1),), go(EXIT)),
        ],
        registers=True,
    )
    np.testing.assert_array_equal(state.values[2], np.where(LANES % 2 == 0, 40, 30))


def test_a_switch_by_lane_with_edges_to_the_same_block():
    (state,) = run(
        [
            Block(
                (set_to(0, LANES % 3), set_to(1, 10), set_to(2, 20), set_to(3, 30)),
                Branch((to(1, s4=1), to(1, s4=2), to(1, s4=3)), 0, MappingProxyType({0: 0, 1: 1})),
            ),
            Block((), go(EXIT)),
        ]
    )
    np.testing.assert_array_equal(state.values[4], LANES % 3 * 10 + 10)


def test_values_that_edges_exchange_are_read_before_they_are_written():
    (state,) = run(
        [
            Block((set_to(0, 1), set_to(1, 2), set_to(2, LANES < 3)), choose(2, to(1, s0=1, s1=0), to(1))),
            Block((), go(EXIT)),
        ]
    )
    np.testing.assert_array_equal(state.values[0], np.where(LANES < 3, 2, 1))
    np.testing.assert_array_equal(state.values[1], np.where(LANES < 3, 1, 2))


def test_lanes_that_return_early_are_waited_for_by_nobody():
    stored = []
    run(
        [
            Block((set_to(0, LANES < 30),), choose(0, to(1), to(EXIT))),
            Block((Op(lambda state: stored.append(int(state.mask.sum()))),), go(EXIT)),
        ]
    )
    assert stored == [30]


# Polls ----------------------------------------------------------------------------------------------------------------


def poll(flags, wanted):
    """Slot 1 becomes whether the flag has the value."""

    def handler(state):
        found = flags["flag"]
        state.polls.append(Wait(lambda: flags["flag"] != found, lambda: f"the flag is {found}"))
        return found == wanted

    return Op(handler, (), (1,))


def warp_is(number):
    return Op(lambda state: state.warp == number, (), (0,))


def put(flags, value):
    return Op(lambda state: flags.update(flag=value))


def spinning(flags, setter):
    """Warp 0 spins until the flag is 3; warp 1 runs `setter`, some blocks from number 2 on."""
    return [
        Block((warp_is(0),), choose(0, to(1), to(2))),
        Block((poll(flags, 3),), choose(1, to(EXIT), to(1)), acts=False),
        *setter,
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_loop_of_polls_waits_for_what_it_polls(seed):
    flags = {"flag": 0}
    run(spinning(flags, [Block((put(flags, 1), put(flags, 3)), go(EXIT))]), warps=2, seed=seed, max_steps=30)
    assert flags == {"flag": 3}


def test_a_loop_of_polls_that_nobody_ends_is_a_deadlock():
    flags = {"flag": 0}
    with pytest.raises(InterpreterError, match=r"deadlock, level ptx: .*\n  CTA 0 warp 0 waits at .*: the flag is 1"):
        run(spinning(flags, [Block((put(flags, 1),), go(EXIT))]), warps=2)


def test_a_bounded_loop_of_polls_ends_by_itself():
    flags = {"flag": 0}
    (state,) = run(
        [
            Block((set_to(2, 5), set_to(4, 0)), go(1, s3=2)),
            Block(
                (poll(flags, 3), compute(5, lambda n: n - 1, 3), compute(0, lambda n: n > 0, 5)),
                choose(0, to(1, s3=5), to(2)),
                acts=False,
            ),
            Block((), go(EXIT)),
        ]
    )
    assert state.values[5] == 0


def test_a_loop_that_polls_and_writes_is_no_mere_wait():
    """Warp 1 counts the flag up in a loop that polls; warp 0 waits for 3."""
    flags = {"flag": 0}
    counting = Block((Op(lambda state: flags.update(flag=flags["flag"] + 1)), poll(flags, 5)), choose(1, to(3), to(2)))
    blocks = spinning(flags, [counting, Block((put(flags, 3),), go(EXIT))])
    run(blocks, warps=2)
    assert flags == {"flag": 3}


def test_a_loop_without_end_is_reported_with_where_each_agent_stands():
    flags = {"flag": 0}
    expected = (
        r"the CTA 0 warp 1 has run 100 ops and has not ended: a loop may have no end; .*\n"
        r"(  CTA 0 warp 0 (waits at `an op` at line 1: the flag is 0|has not begun)\n)?"
        r"  CTA 0 warp [01] is at `an op` at line 1"
    )
    with pytest.raises(InterpreterError, match=expected):
        run(spinning(flags, [Block((compute(5, lambda n: (n or 0) + 1, 5),), go(2))]), warps=2, max_steps=100)


def test_a_loop_in_which_nothing_changes_is_a_deadlock():
    expected = (
        r"deadlock, level ptx: no agent can continue .*\n  CTA 0 warp 0 waits at `an op` at line 1: the flag is 0\n"
        r"  CTA 0 warp 1 is at `an op` at line 1: in a loop, in which nothing changes"
    )
    with pytest.raises(InterpreterError, match=expected):
        run(spinning({"flag": 0}, [Block((set_to(5, 1),), go(2))]), warps=2, max_steps=100)


# The decoder of IR ----------------------------------------------------------------------------------------------------


def of_lanes(body):
    """What a snippet's `%x : i32` of each lane is stored as; `%lane` is its number, `%n` a constant."""
    text = f"""
    gpu.module @kernels {{
      gpu.func @kernel(%d: !llvm.ptr<1>) kernel {{
        %lane = nvvm.read.ptx.sreg.tid.x : i32
        %c0 = llvm.mlir.constant(0 : i32) : i32
        %c1 = llvm.mlir.constant(1 : i32) : i32
        %c3 = llvm.mlir.constant(3 : i32) : i32
        %pd = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        {body}
        llvm.store %x, %pd : i32, !llvm.ptr<1>
        gpu.return
      }}
    }}"""
    memory = run_kernel(text, [("d", 1, 32, "i32", None)])
    return memory.contents("d")[0].reshape(-1)


def test_branches_of_the_llvm_dialect():
    found = of_lanes("""
        %few = llvm.icmp "ult" %lane, %c3 : i32
        llvm.cond_br %few, ^some(%c0 : i32), ^end(%c3 : i32)
      ^some(%i: i32):
        %next = llvm.add %i, %c1 : i32
        %twice = llvm.mul %next, %c3 : i32
        %again = llvm.icmp "ult" %next, %lane : i32
        llvm.cond_br %again, ^some(%next : i32), ^end(%twice : i32)
      ^end(%y: i32):
        llvm.br ^last
      ^last:
        %x = llvm.add %y, %c0 : i32
    """)
    np.testing.assert_array_equal(found, [3, 3, 6] + [3] * 29)


def test_a_switch_of_the_llvm_dialect():
    found = of_lanes("""
        llvm.switch %lane : i32, ^other [1: ^one(%c1 : i32), 2: ^end(%c0 : i32)]
      ^other:
        llvm.br ^end(%c3 : i32)
      ^one(%y: i32):
        %z = llvm.add %y, %c3 : i32
        llvm.br ^end(%z : i32)
      ^end(%x: i32):
    """)
    np.testing.assert_array_equal(found, [3, 4, 0] + [3] * 29)
