"""Release and acquire patterns: how a strong write and a read that observes it order what threads do.

PTX ISA, "Release and Acquire Patterns", "Observation Order", "Synchronizes-With", "Fence-SC Order". A release pattern
is a release, or a release fence and a later strong write; an acquire pattern is an acquire, or a strong read and a
later acquire fence. They synchronize if a write of the one is observed by a read of the other, directly or through a
chain of atomic operations, each morally strong with the write that it reads, and if the first operation of the one and
the last of the other are morally strong. A fence.sc comes before another one if a write after it is observed before the
other, where barriers may be between; the order of other pairs is not used, so that no verdict rests on the order of one
run.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from lowtide.interpreter.machine.clocks import Clocks, Views, merge
from lowtide.interpreter.machine.views import NOTHING, Chain, Origin, Scope, View, are_mutual, is_elsewhere, thread_of
from lowtide.interpreter.machine.words import Word
from lowtide.interpreter.numbers.accesses import WHOLE_AGENT

EVERY_LANE = WHOLE_AGENT
"""All threads of an agent."""


class Ordering(NamedTuple):
    """The scope of a strong operation, and whether it releases and acquires; `is_sc` for fence.sc."""

    scope: Scope = Scope.gpu
    releases: bool = False
    acquires: bool = False
    is_sc: bool = False


def read(clocks: Clocks, warp: int, lane: int, word: Word, ordering: Ordering) -> None:
    """A thread (of the lane EVERY_LANE: all of the agent) reads a word by a strong operation whose value it uses."""
    reader = Origin(clocks.cta, ordering.scope)
    if word.writer is None or not are_mutual(word.writer, reader, clocks.cluster):
        return
    view, takes_wide = View(chains={word.chain: word.chain.writes}), ordering.acquires and _is_wide(reader)
    if takes_wide:
        view = view.joined(word.wide)
    for origin, released in word.released.items():
        if takes_wide and _is_wide(origin):
            continue
        if ordering.acquires and are_mutual(origin, reader, clocks.cluster):
            view = view.joined(released)
        else:
            merge(clocks.waiting(warp, lane).seen, {origin: released})
    clocks.learn(warp, lane, view)
    if word.sc:
        merge(clocks.waiting(warp, lane).sc, word.sc)


def write(clocks: Clocks, warp: int, lane: int, word: Word, ordering: Ordering, is_atomic: bool = False) -> None:
    """A thread writes a word by a strong operation; `is_atomic`: it has read the last value in the same operation."""
    writer, thread = Origin(clocks.cta, ordering.scope), thread_of(clocks.cta, warp, lane)
    continues = is_atomic and word.writer is not None and are_mutual(word.writer, writer, clocks.cluster)
    if not continues:  # but a release of the thread itself begins a pattern that ends here
        word.chain, word.sc = Chain(), {}
        word.released = dict(word.last[1]) if word.last[0] == thread else {}
        word.wide = _wide(word.released)
    word.writer = writer
    word.chain.writes += 1
    released: Views = {}
    for pending in (clocks.pending[warp].get(each) for each in {lane, EVERY_LANE}):
        if pending is not None:
            merge(released, {Origin(clocks.cta, scope): view for scope, view in pending.fenced.items()})
            merge(word.sc, pending.sc)
    if ordering.releases:
        (view,) = clocks.views(warp, (lane,))
        merge(released, {writer: view})
    if released:
        merge(word.released, released)
        word.wide = word.wide.joined(_wide(released))
        word.last = thread, released
    entry = word.accesses.get((thread, True))
    if entry is not None:
        word.accesses[thread, True] = entry._replace(chain=word.chain, number=word.chain.writes)


def _is_wide(origin: Origin) -> bool:
    """Whether the operation and any other one of a scope of at least .gpu include each other's thread on the GPU."""
    return origin.scope >= Scope.gpu and not is_elsewhere(origin.cta)


def _wide(views: Views) -> View:
    """The union of the views of wide operations."""
    return reduce(View.joined, (view for origin, view in views.items() if _is_wide(origin)), NOTHING)


def fence(clocks: Clocks, warp: int, lanes: Sequence[int], ordering: Ordering, is_everyone: bool = False) -> None:
    """A memory fence by these lanes of a warp; `is_everyone`: no other ones exist."""
    if ordering.acquires:
        for lane in lanes:
            _acquire(clocks, warp, lane, lane, ordering)
            if not is_everyone:
                _acquire(clocks, warp, lane, EVERY_LANE, ordering)
        if is_everyone:
            _acquire(clocks, warp, EVERY_LANE, EVERY_LANE, ordering)
            clocks.settle(warp, len(lanes))
    if not ordering.releases:
        return
    sc = Origin(clocks.cta, ordering.scope)
    for lane, view in zip(lanes, clocks.views(warp, lanes), strict=True):
        pending = clocks.waiting(warp, lane)
        pending.fenced[ordering.scope] = view
        if ordering.is_sc:
            merge(pending.sc, {sc: view})


def _acquire(clocks: Clocks, warp: int, lane: int, source: int, ordering: Ordering) -> None:
    """A lane, or all of the agent, acquires what the fence acts on: that of `source`, a lane or the agent."""
    pending = clocks.pending[warp].get(source)
    if pending is None:
        return
    own = Origin(clocks.cta, ordering.scope)
    for views in (pending.seen, pending.sc) if ordering.is_sc else (pending.seen,):
        for origin, view in list(views.items()):
            if are_mutual(origin, own, clocks.cluster):
                clocks.learn(warp, lane, view)
                if lane == source and origin.scope <= ordering.scope:  # the fence's own view has it
                    del views[origin]
