"""Runs the agents of a launch: each until it yields a `Wait`, then another one that can continue, chosen by a seed.

If none can continue, it reports what each agent waits for.
"""

from collections.abc import Callable, Iterator
from math import prod
from random import Random
from typing import TypeAlias

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import Agent, AgentState, Cta, LaunchRequest, Machine, Steps
from lowtide.interpreter.machine.branches import run_graph
from lowtide.interpreter.machine.clusters import Cluster, window
from lowtide.interpreter.machine.convoy_branches import run_convoy
from lowtide.interpreter.machine.convoys import Again, Convoy, Joinable, Start
from lowtide.interpreter.machine.execution import OutOfSteps, advance, run_block
from lowtide.interpreter.machine.laps import is_stuck
from lowtide.interpreter.machine.parameters import places
from lowtide.interpreter.machine.variables import LocalMemory, addresses
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.codes import ZERO
from lowtide.interpreter.program.program import Program

Turns: TypeAlias = Iterator[InterpreterError | None]
"""A run that takes turns with others: None after each turn, or why it cannot continue."""

_TOGETHER = 16
"""The most CTAs of a convoy. With more, most of the time would be that of the arrays, which grows with the CTAs."""


def spawn(state: AgentState, doing: str, op: Described, steps: Callable[[AgentState], Steps]) -> None:
    """Start an agent that `op` leaves running beside the CTA's agents, such as a TMA copy: `doing` names it."""
    cta = state.cta
    aside = AgentState(state.machine, cta, state.seat, 0, doing)
    aside.op = op
    cta.spawned.append(Agent(aside, steps(aside)))


def ctas_together(program: Program, cluster: tuple[int, ...]) -> int:
    """The number of CTAs whose warps may form a convoy: several if no CTA can wait for another."""
    return _TOGETHER if program.is_of_independent_ctas and prod(cluster) == 1 else 1


def start_cluster(machine: Machine, program: Program, index: int, request: LaunchRequest) -> list[list[Agent]]:
    """The agents of each CTA of cluster `index` of a launch, about to begin."""
    size = prod(machine.cluster)
    ctas = [start_cta(machine, program, index * size + rank, request, rank) for rank in range(size)]
    Cluster.join(machine.cluster, [agents[0].state.cta for agents in ctas])
    return ctas


def start_cta(machine: Machine, program: Program, index: int, request: LaunchRequest, rank: int) -> list[Agent]:
    """The agents of CTA `index` of a launch, about to begin.

    At levels nvvm to ptx its shared memory begins in the window of its rank in the cluster, as on hardware.
    """
    base = 0 if machine.options.aligned_base else program.shared_origin
    origin = base + (window(rank) if program.is_hardware else 0)
    size = None if request.shared_memory is None else request.shared_memory + program.static_bytes
    cta = Cta(index, machine, size, origin)
    if machine.options.zeroed:
        cta.shared.codes[:] = ZERO
    for name, start, size in program.buffers:
        cta.shared.place(name, start, size)
    cta.shared.gaps, cta.shared.limits = program.gaps, program.limits
    machine.memory.enter(index, cta.shared.clocks, prod(machine.cluster))
    agents, variables = [], addresses(machine.memory, program) if program.globals else {}
    parameters = places(machine, program, request.arguments) if program.placed else {}
    for seat in machine.seats:
        state = AgentState(machine, cta, seat, program.slots)
        if machine.shape is not None and seat.first + seat.lanes > machine.threads:
            state.present = state.mask = state.thread < machine.threads
        for slot, value in zip(program.block.arguments, request.arguments, strict=True):
            state.values[slot] = value
        for slot, value in program.constants.values():
            state.values[slot] = value
        for offset, slot in program.addresses.items():
            state.values[slot] = cta.shared.origin + offset
        for (name, offset), slot in program.global_addresses.items():
            state.values[slot] = variables[name] + offset
        for number, slot in program.parameter_addresses.items():
            state.values[slot] = parameters[number]
        if program.local_bytes:
            state.local = LocalMemory(program.local_bytes, seat.lanes, machine.domain.payload)
            state.local.changes = machine.memory.changes
        agents.append(Agent(state, _whole(state, program), program=program))
    return agents


def _whole(state: AgentState, program: Program, start: Start | None = None) -> Steps:
    yield from run_block(state, program.block) if program.graph is None else run_graph(state, program.graph, start)
    _end(state)


def _end(state: AgentState) -> None:
    """The agent has ended."""
    cta = state.cta
    if state.mmas and state.op is not None:
        raise state.violation(
            state.op, f"ends with {len(state.mmas)} groups of wgmma in flight; wait for them before [wgmma-unwaited]"
        )
    copies = cta.copies.in_flight(state.warp)
    if copies and state.op is not None:  # the next CTA on this SM may get its shared memory
        raise state.violation(
            state.op, f"ends with {copies} copies by cp.async in flight; wait for them before [cp-async-unwaited]"
        )
    cta.ended.add(state.warp)
    cta.cluster.ended += 1
    if len(cta.ended) == len(state.machine.seats):
        for check in cta.at_end:
            check(state)


def run_all(
    clusters: Iterator[list[list[Agent]]],
    resident: int,
    seed: int,
    on_end: Callable[[int], None] = lambda cta: None,
    choose: Callable[[list[Agent]], Agent] | None = None,
) -> None:
    """Run clusters of CTAs to completion, as `run_in_turns`. Raises InterpreterError if no agent can continue."""
    for deadlock in run_in_turns(clusters, resident, seed, on_end, choose):
        if deadlock is not None:
            raise deadlock


def run_in_turns(
    clusters: Iterator[list[list[Agent]]],
    resident: int,
    seed: int,
    on_end: Callable[[int], None] = lambda cta: None,
    choose: Callable[[list[Agent]], Agent] | None = None,
) -> Turns:
    """Run clusters of CTAs, `resident` at a time. `choose` chooses the next agent among those that can continue; by
    default, it is drawn from `seed`. `on_end` is called with the number of each CTA that has ended.

    Yields None after each turn of an agent. If no agent can continue, yields the error of a deadlock; it is one unless
    another device then changes memory.
    """
    choose = choose or _chooser(seed)
    running: list[Agent] = []
    held: dict[int, int] = {}  # CTA -> agents not yet ended
    begun: dict[int, int] = {}  # cluster, by its first CTA -> CTAs not yet ended

    def refill() -> None:
        while len(begun) < resident and (ctas := next(clusters, None)) is not None:
            begun[_cluster_of(ctas[0][0])] = len(ctas)
            for agents in ctas:
                held[agents[0].state.cta.index] = len(agents)
                running.extend(agents)

    refill()
    is_quiet = False
    while running:
        able = [agent for agent in running if agent.waits is None or agent.waits.ready()]
        if not able or (is_quiet and is_stuck(running)):
            try:
                able = [_left(running)]
            except InterpreterError as deadlock:
                yield deadlock
                continue
        agent = choose(able)
        if isinstance(agent.waits, Joinable):
            agent = _together(agent, agent.waits.place, running)
        changes = agent.state.machine.memory.changes
        agent.moved = changes.tick = changes.tick + 1
        try:
            agent.waits = advance(agent.state, agent.steps)
        except OutOfSteps as error:
            agent.waits = None
            if isinstance(agent.state, Convoy):
                agent.state.end()
            raise InterpreterError("\n".join([str(error), *_standing(running)])) from None
        is_quiet = agent.state.acting.quiet is not None
        if (work := agent.state.machine.observers.work) is not None:
            work.tick()
        for cta in agent.state.all_ctas:
            if cta.spawned:
                running.extend(cta.spawned)
                held[cta.index] += len(cta.spawned)
                cta.spawned = []
        if agent.waits is None:
            running.remove(agent)
            staying = _staying(agent)
            for each in staying:
                each.moved = agent.moved
            running.extend(staying)
            for ended in () if staying else agent.members or (agent,):
                index, cluster = ended.state.cta.index, _cluster_of(ended)
                held[index] -= 1
                if held[index] == 0:
                    del held[index]
                    begun[cluster] -= 1
                    if not begun[cluster]:
                        del begun[cluster]
                    on_end(index)
                    refill()
        yield None


def _left(running: list[Agent]) -> Agent:
    """An agent that continues with other lanes, now that none can. Raises InterpreterError if there is none."""
    rule = f"deadlock, level {running[0].state.machine.level}: no agent can continue [agents-deadlock]"
    deadlock = InterpreterError("\n".join([rule, *_standing(running)]))
    for agent in running:
        if agent.waits is not None and agent.waits.otherwise is not None and agent.waits.otherwise(deadlock):
            return agent
    raise deadlock


def _chooser(seed: int) -> Callable[[list[Agent]], Agent]:
    """Draws the next agent. An agent that may join others, or that only polls, is drawn only if no other agent can
    continue."""
    draw = Random(seed).choice
    return lambda able: draw([each for each in able if not isinstance(each.waits, Joinable | Again)] or able)


def _together(agent: Agent, place: tuple[int, int], running: list[Agent]) -> Agent:
    """The agent; or, if other agents are at the same place, the convoy that replaces them. These are agents of its
    CTA, or also of others (`Machine.ctas_together`)."""
    cta = agent.state.cta
    here = [each for each in running if isinstance(each.waits, Joinable) and each.waits.place == place]
    others = dict.fromkeys(each.state.cta for each in here if each.state.cta is not cta)
    ctas = {cta, *list(others)[: cta.machine.ctas_together - 1]}
    here = sorted((each for each in here if each.state.cta in ctas), key=lambda each: each.state.key)
    if len(here) < 2:
        return agent
    graph = agent.program.graph
    convoy = Convoy([each.state for each in here], graph.live_at(*place), graph.all_written)
    if (work := cta.machine.observers.work) is not None and place[1]:  # the convoy counts the rest of the block
        work.instructions -= graph.blocks[place[0]].count(place[1]) * len(here)
    made = Agent(convoy, run_convoy(convoy, graph, *place), members=tuple(here))
    running[:] = [each for each in running if each not in here]
    running.append(made)
    return made


def _staying(agent: Agent) -> list[Agent]:
    """The agents that continue after a convoy has ended."""
    if not isinstance(agent.state, Convoy):
        return []
    if agent.state.divided is not None:
        return [each for crew in agent.state.crews for each in _continuing(agent, crew, agent.state.divided)]
    starts = agent.state.starts
    for number, member in enumerate(agent.members):
        member.waits = None
        if starts is None:
            _end(member.state)
        else:
            member.steps = _whole(member.state, member.program, starts[number])
    return [] if starts is None else list(agent.members)


def _continuing(agent: Agent, crew: Convoy, at: Start) -> list[Agent]:
    """What continues for a crew after a convoy of several CTAs has separated: an agent for the crew, whose members are
    its warps; or the warp, if there is only one."""
    members = tuple(each for each in agent.members if each.state in crew.states)
    for member in members:
        member.waits = None
    if len(members) == 1:
        crew.scatter(members[0].program.graph.live_at(at.block, at.index))
        members[0].steps = _whole(members[0].state, members[0].program, at)
        return [*members]
    graph = members[0].program.graph
    return [Agent(crew, run_convoy(crew, graph, at.block, at.index), members=members, program=agent.program)]


def _cluster_of(agent: Agent) -> int:
    return int(agent.state.cta.cluster.ctas[0].index)


def _standing(running: list[Agent]) -> list[str]:
    """The position of each agent, and what it waits for."""
    lines = []
    running = [member for agent in running for member in agent.members or (agent,)]
    for agent in running[:16]:
        lap = agent.state.quiet
        if (op := agent.state.op) is None:
            lines.append(f"  {agent.state.who()} has not begun")
        elif lap is not None:
            lines.append(f"  {agent.state.who()} {lap.describe()}")
        else:
            wait = None if agent.waits is None or agent.waits.ready() else agent.waits
            what, reason = ("is at", "") if wait is None else ("waits at", f": {wait.why()}")
            lines.append(f"  {agent.state.who()} {what} {op.describe()}{reason}")
    return [*lines, f"  and {len(running) - 16} more"] if len(running) > 16 else lines
