"""TMA by one lane of a warp: loads of boxes into shared memory, stores from there, groups of stores.

PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group". Coordinates are innermost
first. For boxes and their landing see tensor_maps.py and tensor_stores.py.
"""

from collections.abc import Sequence
from typing import Any

from lowtide.interpreter.machine import mbarrier_objects, tensor_maps, tensor_stores
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.clusters import receivers
from lowtide.interpreter.machine.lanes import active_lane_numbers, of_active, one_lane, uniform
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers.cells import Described


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
    found = mbarrier_objects.at(state, op, barrier)
    map = of_active(state, map)
    corner = _corner(state, op, map, coordinates)
    if not found.is_fenced:
        raise state.violation(
            op,
            f"the TMA unit may not see {found.name} initialised; put nvvm.fence.mbarrier.init after the init"
            " [mbarrier-init-fence]",
        )
    address, signal = uniform(state, op, destination), uniform(state, op, barrier)
    chosen = 1 << state.cta.rank if mask is None else uniform(state, op, mask)
    signalled = [mbarrier_objects.in_cta(state, op, cta, signal) for cta in receivers(state, op, chosen)]
    tensor_maps.load_box(state, op, map, corner, address, signalled)


def store(state: AgentState, op: Described, map: Any, coordinates: Sequence[Any], source: Any) -> None:
    """Store a box of the CTA's shared memory into a tensor."""
    one_lane(state, op, "start a store by TMA")
    map = of_active(state, map)
    corner = _corner(state, op, map, coordinates)
    tensor_maps.check_corner(state, op, map, corner)
    tensor_stores.store_box(state, op, map, corner, uniform(state, op, source), active_lane_numbers(state)[0])


def _corner(state: AgentState, op: Described, map: Any, coordinates: Sequence[Any]) -> tuple[int, ...]:
    """The coordinates, outermost first."""
    if not isinstance(map, TensorMap):
        raise state.violation(
            op, "the descriptor is not a tensor map; pass one from sm.tensor_map to the kernel [map-descriptor]"
        )
    if len(coordinates) != len(map.box):
        raise state.violation(
            op, f"{len(coordinates)} coordinates for a map of {len(map.box)} dimensions [map-coordinates]"
        )
    return tuple(uniform(state, op, value) for value in reversed(coordinates))


def commit(state: AgentState) -> None:
    """Each active lane closes its group of stores."""
    for lane in active_lane_numbers(state):
        if (state.warp, lane) in state.cta.stores:  # an empty group counts too, but has no effect
            tensor_stores.commit(state, lane)


def wait(state: AgentState, pending: int, read: bool) -> None:
    """Each active lane waits for its own groups except the `pending` youngest, or until they have `read` their
    boxes."""
    for lane in active_lane_numbers(state):
        if (state.warp, lane) in state.cta.stores:
            tensor_stores.wait(state, pending, read, lane)


def fence_proxy(state: AgentState, op: Described) -> None:
    """fence.proxy.async: the async proxy sees the lanes' writes of shared memory and the mbarriers that they
    initialised."""
    lanes = None if state.mask is None or state.mask.all() else state.lanes[state.mask]
    state.cta.shared.fence_proxy(state.access(op, lanes))
    mbarrier_objects.show_initialised(state)
