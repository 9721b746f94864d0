"""TMA by one lane of a warp: loads of boxes into shared memory, stores from there, groups of stores.

PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group". Coordinates are innermost
first. For boxes and their landing see tensor_maps.py and tensor_stores.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.interpreter.machine import map_objects, mbarrier_objects, tensor_maps, tensor_stores
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.clusters import address_in, owner, receivers
from lowtide.interpreter.machine.lanes import active_lane_numbers, of_active, one_lane, uniform
from lowtide.interpreter.machine.mbarriers import Mbarrier
from lowtide.interpreter.machine.reliances import INIT_SEEN
from lowtide.interpreter.machine.tensor_maps import TensorMap, WithMaps
from lowtide.interpreter.machine.tensor_stores import Change
from lowtide.interpreter.machine.views import thread_of
from lowtide.interpreter.numbers.accesses import Described


def load(
    state: AgentState,
    op: Described,
    map: Any,
    coordinates: Sequence[Any],
    destination: Any,
    barrier: Any,
    mask: Any = None,
) -> None:
    """Load a box of a tensor into the CTA's shared memory, or to that address of each CTA in a multicast mask.

    `barrier` is the address of the mbarrier that is signalled there. Raises InterpreterError for an illegal tensor map,
    coordinates that do not fit it, and an mbarrier that the TMA unit may not see.
    """
    one_lane(state, op, "start a copy by TMA")
    found = _map(state, op, map)
    corner = _corner(state, op, found, coordinates)
    signalled = signalled_by(state, op, barrier, mask)
    own = next((each for each in signalled if each.home is state.cta), None)
    if own is not None:
        _note_use(state, op, map, (own.source, own.completed))
    tensor_maps.load_box(state, op, found, corner, uniform(state, op, destination), signalled)


def signalled_by(state: AgentState, op: Described, barrier: Any, mask: Any = None) -> list[Mbarrier]:
    """The mbarriers that a copy signals: at the address, in the CTA that it is in, or in each CTA of a multicast mask.

    Raises InterpreterError for one that the TMA unit may not see.
    """
    signal = uniform(state, op, barrier)
    targets = [owner(state, op, signal)] if mask is None else receivers(state, op, uniform(state, op, mask))
    if mask is not None or targets[0] is state.cta:
        found = mbarrier_objects.at(state, op, address_in(state.cta, signal))
        if not found.is_fenced:
            broken = state.violation(
                op,
                f"the TMA unit may not see {found.name} initialised; put nvvm.fence.mbarrier.init after the init"
                " [mbarrier-init-fence]",
            )
            if state.machine.observers.relied is None:
                raise broken
            state.machine.observers.relied.on(INIT_SEEN, str(broken))
    return [mbarrier_objects.in_cta(state, op, cta, signal) for cta in targets]


def store(state: AgentState, op: Described, map: Any, coordinates: Sequence[Any], source: Any) -> None:
    """Store a box of the CTA's shared memory into a tensor."""
    one_lane(state, op, "start a store by TMA")
    found = _map(state, op, map)
    corner = _corner(state, op, found, coordinates)
    tensor_maps.check_corner(state, op, found, corner)
    _note_use(state, op, map)
    tensor_stores.store_box(state, op, found, corner, uniform(state, op, source), active_lane_numbers(state)[0])


def reduce(
    state: AgentState, op: Described, map: Any, coordinates: Sequence[Any], source: Any, make: Callable[[str], Change]
) -> None:
    """As `store`, but each element becomes a function of its old value and the stored one: `make` gives the function
    for a type of elements."""
    one_lane(state, op, "start a reduction by TMA")
    found = _map(state, op, map, reduces=True)
    corner = _corner(state, op, found, coordinates)
    tensor_maps.check_corner(state, op, found, corner)
    _note_use(state, op, map)
    at = uniform(state, op, source), active_lane_numbers(state)[0]
    tensor_stores.reduce_box(state, op, found, corner, at, make(found.element.name))


def _map(state: AgentState, op: Described, map: Any, reduces: bool = False) -> TensorMap:
    """A tensor map, or the one at an address. `reduces` as in `map_objects.used`."""
    map = of_active(state, map)
    if isinstance(map, TensorMap):
        return map
    is_address = isinstance(map, int | np.ndarray) and not isinstance(map, WithMaps)
    address, machine = uniform(state, op, map) if is_address else 0, state.machine
    is_other = address not in machine.memory.parameter_maps and any(address in at for at in machine.parameters.values())
    if not is_address or is_other:
        raise state.violation(
            op, "the descriptor is not a tensor map; pass a tensor map as this parameter [map-descriptor]"
        )
    return map_objects.used(state, op, address, reduces)


def _note_use(state: AgentState, op: Described, map: Any, landing: tuple[int, int] | None = None) -> None:
    """Note a copy by a map that the kernel may change. `landing`: the clock and phase of the mbarrier of a load."""
    if isinstance(map, int | np.ndarray):
        address = uniform(state, op, map)
        if address not in state.machine.memory.parameter_maps:
            lane = active_lane_numbers(state)[0]
            state.machine.map_uses.begin(op, address, thread_of(state.cta.index, state.warp, lane), landing)


def _corner(state: AgentState, op: Described, map: TensorMap, coordinates: Sequence[Any]) -> tuple[int, ...]:
    """The coordinates, outermost first."""
    if len(coordinates) != len(map.box):
        raise state.violation(
            op, f"{len(coordinates)} coordinates for a map of {len(map.box)} dimensions [map-coordinates]"
        )
    return tuple(uniform(state, op, value) for value in reversed(coordinates))


def commit(state: AgentState) -> None:
    """Each active lane closes its group of stores."""
    for lane in active_lane_numbers(state):
        state.machine.map_uses.commit(thread_of(state.cta.index, state.warp, lane))
        if (state.warp, lane) in state.cta.stores:  # an empty group counts too, but has no effect
            tensor_stores.commit(state, lane)


def wait(state: AgentState, pending: int, read: bool) -> None:
    """Each active lane waits for its own groups except the `pending` youngest, or until they have `read` their
    boxes."""
    stored = state.cta.shared.clocks.epoch(state.warp) + 1
    for lane in active_lane_numbers(state):
        state.machine.map_uses.wait(thread_of(state.cta.index, state.warp, lane), pending, stored)
        if (state.warp, lane) in state.cta.stores:
            tensor_stores.wait(state, pending, read, lane)


def fence_proxy(state: AgentState, op: Described) -> None:
    """fence.proxy.async: the async proxy sees the writes of shared memory that precede it, and the mbarriers that the
    lanes initialised."""
    lanes = None if state.mask is None or state.mask.all() else state.lanes[state.mask]
    state.cta.shared.fence_proxy(state.access(op, lanes))
    for cta in state.cta.cluster.ctas:
        guest = cta.guests.get((state.cta.rank, state.warp))
        if guest is not None:
            cta.shared.fence_proxy(replace(state.access(op, lanes), warp=guest))
    mbarrier_objects.show_initialised(state)
