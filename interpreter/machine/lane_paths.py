"""Lanes of a warp on different paths, and barriers at which they arrive one after the other.

PTX ISA, "bar, barrier", "barrier.cluster": without .aligned, such an instruction makes a thread wait for those of its
warp that have not ended. Then the warp has arrived. (Lanes at two barriers wait for each other for ever.) So at a
barrier that only some lanes have reached, their path waits, and the other paths of the warp run first, also those of
lanes that wait at a point of reconvergence: they continue without the others. When all paths wait, the warp executes
the barrier.

A path may poll for what other lanes of its warp do. Each thread makes progress by itself, so if no agent can continue,
the path is put aside until its poll has another answer, and the other paths of its warp run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError, NotInterpreted, without_codes
from lowtide.interpreter.machine import undefined
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.program.graphs import EXIT, Edge, Graph

Lanes = NDArray[np.bool_]
Mask = Lanes | None

_TOGETHER = ("warp-aligned", "barrier-divergent", "executed-together", "member-elsewhere")
"""The codes of rules that lanes break which are not with the others of their warp."""

_BEFORE_PHASE = ("shared-race", "copy-in-flight")
"""The codes of rules that lanes may break before others of their warp, which poll an mbarrier, have waited for it."""


class Aside(NamedTuple):
    """What a path polls, and the error of the deadlock if the other paths of the warp do not change its answer. `name`:
    of the op that polls."""

    poll: Wait
    deadlock: InterpreterError
    name: str


@dataclass(slots=True, eq=False)
class Path:
    """Lanes on their way to block `block` by `edge`, up to block `until`. `waits`: at a barrier, for the rest of their
    warp. `aside`: it polls, and other paths run. In a list, a path lies above those that continue, at its block
    `until`, with its lanes and with others."""

    block: int
    until: int
    mask: Mask
    edge: Edge | None = None
    waits: bool = False
    aside: Aside | None = None

    @property
    def is_able(self) -> bool:
        return not self.waits and (self.aside is None or self.aside.poll.ready())


def advance(state: AgentState, graph: Graph, paths: list[Path]) -> Steps:
    """The path on top waits for the rest of its warp: put another one on top; if all wait, execute the barrier."""
    if _put_on_top(state, paths):
        return
    if polls := polls_aside(paths):
        yield until_changed(polls)
        return
    waiting = [path for path in paths if path.waits]
    yield from _arrive(state, graph, waiting)
    for path in waiting:
        path.waits, path.edge = False, None
        path.block = graph.blocks[path.block].branch.edges[-1].target
        if path.block == EXIT:
            state.leave(path.mask)
    _rejoin(graph, paths)


def until_changed(polls: Sequence[Wait], otherwise: Callable[[InterpreterError], bool] | None = None) -> Wait:
    """Wait until one of these polls would have another answer."""
    return Wait(
        lambda: any(poll.ready() for poll in polls),
        lambda: ", or ".join(dict.fromkeys(poll.why() for poll in polls)),
        otherwise=otherwise,
    )


def polls_aside(paths: Sequence[Path]) -> list[Wait]:
    """What the paths that are put aside wait for."""
    return [path.aside.poll for path in paths if path.aside is not None]


def put_aside(state: AgentState, paths: list[Path], polls: Sequence[Wait], deadlock: InterpreterError) -> bool:
    """The path on top polls, and no agent can continue: put another path on top. Returns whether there is one."""
    top = paths[-1]
    top.aside = Aside(until_changed([*polls]), deadlock, str(getattr(polls[-1].op, "name", "")))
    if _put_on_top(state, paths):
        return True
    top.aside = None
    return False


def resume(graph: Graph, paths: list[Path]) -> None:
    """If the poll of a path that was put aside has another answer, put the path on top, to meet the others soon."""
    ready = next((path for path in paths if path.aside is not None and path.aside.poll.ready()), None)
    if ready is not None:
        ready.aside = None
        paths.append(paths.pop(paths.index(ready)))
        _rejoin(graph, paths)


def fault(paths: Sequence[Path], error: InterpreterError) -> InterpreterError:
    """The error of a path, or what explains it: lanes that poll, and are put aside, are missing from an instruction for
    the whole warp."""
    aside = next((path.aside for path in paths if path.aside is not None), None)
    codes = _TOGETHER if aside is None or "mbarrier." not in aside.name else (*_TOGETHER, *_BEFORE_PHASE)
    if aside is None or error.code not in codes:
        return error
    if not aside.poll.ready():
        return aside.deadlock
    return NotInterpreted(
        f"{without_codes(str(error))}; they wait for other lanes of their warp, and have not come here yet, where the "
        "interpreter needs them; put a barrier of the warp before this instruction [lanes-behind]"
    )


def _put_on_top(state: AgentState, paths: list[Path]) -> bool:
    """Whether a path can continue; then it is on top."""
    for at in reversed(range(len(paths))):
        path, above = paths[at], paths[at + 1 :]
        if not path.is_able:
            continue
        lanes = _lanes(path)
        if (lanes & _union(above)).any():  # it continues with lanes of paths above it
            free = lanes & ~_union(above) if state.present is None else lanes & ~_union(above) & state.present
            if not free.any():
                continue
            for each in [each for each in above if _continuing(paths, each) is path]:
                each.until = path.until
            path.mask = free
        paths.append(paths.pop(at))
        return True
    return False


def _lanes(path: Path) -> Lanes:
    return np.ones(32, np.bool_) if path.mask is None else path.mask


def _union(paths: list[Path]) -> Lanes:
    found = np.zeros(32, np.bool_)
    for path in paths:
        found = found | _lanes(path)
    return found


def _continuing(paths: list[Path], path: Path) -> Path | None:
    """The path that continues with these lanes at the end of theirs."""
    lanes = _lanes(path)
    return next((each for each in reversed(paths[: paths.index(path)]) if (_lanes(each) & lanes).any()), None)


def _arrive(state: AgentState, graph: Graph, waiting: list[Path]) -> Steps:
    """All lanes execute the barrier, each with the operands of the instruction at which it waits."""
    found = [(graph.blocks[path.block].ops[0], _lanes(path)) for path in waiting]
    first, lanes = found[0]
    for op, others in found[1:]:
        numbers, here = np.flatnonzero(others).tolist(), np.flatnonzero(lanes).tolist()
        if _barrier(state, op) != _barrier(state, first):
            rule = (
                f"deadlock: lanes {here} wait here for the rest of their warp, and lanes {numbers} wait for them at "
                f"another barrier, {op.describe()}; let all lanes of a warp arrive at one barrier [barrier-lanes-apart]"
            )
            raise state.violation(first, rule)
        if (op.run, op.data) != (first.run, first.data):
            rule = (
                f"lanes {here} execute this, and lanes {numbers} of their warp execute {op.describe()} at the same "
                "barrier; only different warps may execute different forms of the instruction [barrier-forms-apart]"
            )
            raise state.violation(first, rule)
    union, values = _union(waiting), state.values
    state.mask, state.op = None if union.all() else union, first
    before = [values[slot] for slot in first.results]
    whole = _joined(found)
    if state.undefined:
        undefined.before(state, whole)
    if whole.resumable:
        yield from whole.handler(state, whole)
    else:
        whole.handler(state, whole)
    made = [values[slot] for slot in first.results]
    for slot, old in zip(first.results, before, strict=True):
        values[slot] = old
    for op, mask in found:
        for slot, new in zip(op.results, made, strict=True):
            values[slot] = blend(mask, new, values[slot])


def _barrier(state: AgentState, op: Any) -> Any:
    """The number of a barrier of the CTA; that of the cluster has none."""
    if op.name.startswith("barrier.cluster"):
        return "cluster"
    found = op.readers[0](state.values)
    return found if isinstance(found, int) else np.asarray(found).tolist()


def _joined(found: list[tuple[Any, Lanes]]) -> Any:
    """The first of these instructions, which reads for each lane the operands of its own one."""

    def reader(at: int) -> Any:
        def read(values: list[Any]) -> Any:
            result = found[0][0].readers[at](values)
            for op, mask in found[1:]:
                value = op.readers[at](values)
                result = result if value is result else blend(mask, value, result)
            return result

        return read

    first, _ = found[0]
    slots = {name: tuple(slot for op, _ in found for slot in getattr(op, name)) for name in ("operands", "sources")}
    return replace(first, readers=tuple(reader(at) for at in range(len(first.readers))), **slots)


def _rejoin(graph: Graph, paths: list[Path]) -> None:
    """Let paths that end at the same block meet where they first can, which may be earlier."""
    groups: dict[tuple[int | None, int], list[Path]] = {}
    for path in paths:
        if path.waits or path.aside is not None:
            continue
        below = _continuing(paths, path)
        groups.setdefault((None if below is None else id(below), path.until), []).append(path)
    for (_, until), group in groups.items():
        if len(group) < 2:
            continue
        chains = [list(_ahead(graph, path.block)) for path in group]
        meet = next(block for block in chains[0] if all(block in chain for chain in chains))
        if meet != until:
            union = _union(group)
            for path in group:
                path.until = meet
            at = min(paths.index(path) for path in group)
            paths.insert(at, Path(meet, until, None if union.all() else union))


def _ahead(graph: Graph, block: int) -> Iterator[int]:
    """A block, and those that each lane there goes through later, in order."""
    while block != EXIT:
        yield block
        block = graph.meets[block]
    yield EXIT
