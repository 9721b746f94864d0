"""Tensor maps that lie in memory: kernels replace their fields and copy them, and bulk copies use them.

PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy", "membar, fence", "cp.async.bulk.tensor". For the bytes of a map
see map_fields.py, for the fences map_fences.py.
"""

from typing import Any

import numpy as np

from lowtide.errors import InterpreterError, NotInterpreted, without_codes
from lowtide.interpreter.machine import register_memory
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.lanes import active_lane_numbers, uniform
from lowtide.interpreter.machine.map_fields import BYTES, SPANS, Fields, decoded, encoded, fields_of
from lowtide.interpreter.machine.map_limits import check_tensor_map
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.numbers.accesses import LANES, WARPS, WHOLE_AGENT, Access, Described, thread_name
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import CODES, CONTINUED, ELEMENT_BYTES
from lowtide.interpreter.program.types import Scalar
from lowtide.launches import Pointer
from lowtide.launches import TensorMap as RecordedMap

_ALIGNMENT = 64  # bytes, of a tensor map (CUDA driver API, "CUtensorMap")
_WORD = "i32"
_OF_CONTENTS = ("torn-read", "wrong-type")  # codes of bytes that are no integers
_SOURCE = "made by the kernel"
_THREADS = WARPS * LANES  # of a CTA, in numbers of threads


def place_parameter(memory: GlobalMemory, map: TensorMap, name: str) -> int:
    """Place a tensor map that is a parameter in memory, where no thread may change it; returns its address."""
    address = memory.allocate_bytes(f"the tensor map of {name}", BYTES)
    at = slice(address - memory.origin, address - memory.origin + BYTES)
    memory.codes[at] = CONTINUED
    memory.codes[at][:: ELEMENT_BYTES[_WORD]] = CODES[_WORD]
    memory.payload[at][:: ELEMENT_BYTES[_WORD]] = np.frombuffer(encoded(fields_of(map)), np.int32)
    memory.parameter_maps[address] = map
    return address


def replace_field(
    state: AgentState, op: Described, cells: Cells, at: tuple[int, int], part: tuple[str, int, int]
) -> None:
    """tensormap.replace by one lane. `at`: the map's address, and the lane; `part`: a name of `Fields`, a dimension,
    and the value.

    Raises InterpreterError for bytes that are no tensor map, a parameter, and a race.
    """
    address, lane = at
    access = state.access(op, np.array([lane]))
    _check_place(state, op, cells, address)
    _check_unused(state, op, cells, address, lane)
    fields = _fields(state, access, cells, address)
    _store(state, access, cells, address, encoded(fields.with_part(*part)))


def write(state: AgentState, op: Described, address: int, map: TensorMap) -> None:
    """Write a map as a whole to global memory, by an agent, and release it to the tensormap proxy."""
    memory = state.machine.memory
    _check_place(state, op, memory, address)
    _store(state, state.access(op), memory, address, encoded(fields_of(map)))
    state.machine.map_fences.release(state.cta.shared.clocks, state.warp, active_lane_numbers(state), Scope.gpu)


def copy(state: AgentState, op: Described, to: Any, source: Any, scope: Scope) -> None:
    """tensormap.cp_fenceproxy: the warp copies a map from shared to global memory and releases it to the tensormap
    proxy. Its `.sync` orders what lanes of the warp did before it, and the copy before what they do after it."""
    if missing := state.missing:
        raise state.violation(
            op, f"all threads of the warp must execute it together; lanes {missing} do not [map-copy-aligned]"
        )
    memory, shared = state.machine.memory, state.cta.shared
    destination, place = uniform(state, op, to), uniform(state, op, source)
    _check_place(state, op, memory, destination)
    _check_place(state, op, shared, place)
    shared.warp_sync(state.warp)
    _check_unused(state, op, memory, destination, WHOLE_AGENT)
    access = state.access(op)
    _store(state, access, memory, destination, shared.load_bytes(access, np.array([place]), BYTES).tobytes())
    shared.warp_sync(state.warp)
    state.machine.map_fences.release(shared.clocks, state.warp, active_lane_numbers(state), scope, together=True)
    shared.warp_sync(state.warp)


def release(state: AgentState, scope: Scope) -> None:
    """fence.proxy.tensormap::generic.release by each active lane."""
    state.machine.map_fences.release(state.cta.shared.clocks, state.warp, active_lane_numbers(state), scope)


def acquire(state: AgentState, at: tuple[int, int], scope: Scope) -> None:
    """fence.proxy.tensormap::generic.acquire of the map at an address, by a lane."""
    address, lane = at
    writes = frozenset(state.machine.memory.writes(address, BYTES))
    state.machine.map_fences.acquire(state.cta.shared.clocks, (state.warp, lane), address, writes, scope)


def used(state: AgentState, op: Described, address: int, reduces: bool = False) -> TensorMap:
    """The map at an address of global memory, which a bulk copy by the active lane reads. A reduction has the map's own
    elements; other copies move bits, so they have the elements of the array.

    Raises InterpreterError if the bytes there are not a tensor map, if the map has illegal fields, if a change of the
    map races with the copy, and if the tensormap proxy may not see a change.
    """
    memory = state.machine.memory
    if address in memory.parameter_maps:
        found: TensorMap = memory.parameter_maps[address]
        return found
    _check_place(state, op, memory, address)
    lane = active_lane_numbers(state)[0]
    access = state.access(op, np.array([lane]))
    fields = _fields(state, access, memory, address)
    _check_seen(state, op, access, address)
    return _map_of(state, op, fields, reduces)


def _check_place(state: AgentState, op: Described, cells: Cells, address: int) -> None:
    if address % _ALIGNMENT:
        raise state.violation(
            op, f"a tensor map at address {address:#x}; it needs a multiple of {_ALIGNMENT} [map-alignment]"
        )
    if cells is state.machine.memory and address in state.machine.memory.parameter_maps:
        raise state.violation(
            op, "changes a tensor map that is a parameter; copy it to shared or global memory first [map-parameter]"
        )


def _check_unused(state: AgentState, op: Described, cells: Cells, address: int, lane: int) -> None:
    """Raises InterpreterError if a bulk copy may still read the map."""
    reader = None
    if cells is state.machine.memory:
        reader = state.machine.map_uses.open(address, state.cta.shared.clocks, state.warp, lane)
    if reader is not None:
        raise state.violation(
            op,
            f"race: changes a tensor map that {reader.describe()} may still read; wait for the phase of its mbarrier, "
            "or for its bulk group (cp.async.bulk.wait_group), and then put a barrier before this [map-in-use]",
        )


def _fields(state: AgentState, access: Access, cells: Cells, address: int) -> Fields:
    """The fields of the map at an address, which the access reads."""
    try:
        found = decoded(cells.load_bytes(access, np.array([address]), BYTES).tobytes())
    except InterpreterError as error:
        if error.code not in _OF_CONTENTS:
            raise
        found = None
    if found is None:
        raise state.violation(
            access.op,
            "these 128 bytes are no tensor map: the layout of a map is opaque, so begin with zeros or a copy of a "
            "whole map, and change it by tensormap.replace alone [map-contents]",
        )
    return found


def _store(state: AgentState, access: Access, cells: Cells, address: int, data: bytes) -> None:
    """Write 128 bytes as integers, of the width of the array that they are in."""
    held = register_memory.type_there(cells, np.array([address])) or _WORD
    if held[0] in "fbt":
        rule = f"a tensor map in an array of {held}; declare the array as integers [map-array]"
        raise state.violation(access.op, rule, NotInterpreted)
    width = min(ELEMENT_BYTES[held], ELEMENT_BYTES[_WORD])
    words = np.frombuffer(data, f"i{width}")[None, :].astype(cells.payload.dtype)
    cells.store(access, np.array([address]), words, f"i{8 * width}", words.shape[1])


def _check_seen(state: AgentState, op: Described, access: Access, address: int) -> None:
    """Raises InterpreterError if the tensormap proxy may not see the last change of a map."""
    memory, clocks = state.machine.memory, state.cta.shared.clocks
    writes = memory.writes(address, BYTES)
    assert access.lanes is not None
    agent = state.warp, int(access.lanes[0])
    lacks = state.machine.map_fences.lacks(clocks, agent, address, frozenset(writes))
    if isinstance(lacks, tuple):
        cta, thread = divmod(lacks[0], _THREADS)
        who = f"CTA {cta} {thread_name(thread)}"
        raise state.violation(
            op,
            f"not visible to the tensormap proxy: reads a tensor map that {who} changed, with no release fence between "
            f"that and the acquire fence; it did so{memory.by(writes[lacks])}; let it execute "
            "fence.proxy.tensormap::generic.release after its change, or copy the map by tensormap.cp_fenceproxy"
            " [map-release]",
        )
    if lacks:
        raise state.violation(
            op,
            f"not visible to the tensormap proxy: reads a tensor map in global memory {lacks}; let a thread of the CTA "
            "execute fence.proxy.tensormap::generic.acquire of the map after it was changed, and then a barrier, "
            "before this copy [map-acquire]",
        )


def _map_of(state: AgentState, op: Described, fields: Fields, reduces: bool) -> TensorMap:
    """A map with these fields, as the tensor that it describes."""
    if (unset := fields.unset) is not None:
        raise state.violation(op, f"a tensor map whose {unset} was never set; set it by tensormap.replace [map-unset]")
    dtype = fields.dtype
    if dtype is None or fields.interleave or fields.fill or any(step != 1 for step in fields.steps[: fields.rank]):
        rule = (
            "a tensor map with interleaved elements, a fill of NaN, element strides other than 1, or denormals that "
            "are flushed to zero is not interpreted; leave these at their defaults [map-modes]"
        )
        raise state.violation(op, rule, NotInterpreted)
    memory, width, rank = state.machine.memory, ELEMENT_BYTES[dtype], fields.rank
    shape, box = fields.extents[:rank][::-1], fields.box[:rank][::-1]
    strides, span = fields.strides[: rank - 1][::-1], SPANS[fields.swizzle]
    elements = tuple(stride // width for stride in strides)
    if any(stride % width for stride in strides):
        raise state.violation(
            op, f"a tensor map with strides of {list(strides)} bytes; TMA needs multiples of 16 [map-byte-strides]"
        )
    try:
        check_tensor_map(RecordedMap(Pointer(""), dtype, shape, elements, box, span), fields.address, width, _SOURCE)
    except InterpreterError as error:
        raise state.violation(op, f"{without_codes(str(error))} [map-made]") from None
    there = register_memory.type_there(memory, np.array([fields.address]))
    if there is not None and ELEMENT_BYTES[there] == width and not reduces:
        dtype = there
    place = fields.address - memory.origin
    name = next((each.name for each in memory.buffers if each.start <= place < each.end), "a tensor")
    matrix = Matrix(name, fields.address, shape, elements, Scalar(dtype, 8 * width))
    return TensorMap(matrix, box, shape, (*elements, 1), span)
