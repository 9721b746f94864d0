"""A decoded function: plain data, made once from IR (decoding.py) or PTX, and run for many agents. Needs no MLIR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.program.types import Type

HARDWARE_LEVELS = frozenset({"nvvm", "llvm", "ptx"})
"""The levels at which a kernel is one thread's program and its ops are hardware instructions."""


@dataclass(slots=True, eq=False)
class DecodedBlock:
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    ops: tuple[Any, ...]
    results: tuple[int, ...]  # slots of the terminator's operands
    terminator: str
    invariant: tuple[Any, ...] = ()  # ops of a loop's body that compute the same in each iteration, not among `ops`


@dataclass(frozen=True)
class Role:
    """A region of `sm.roles`, run by `instances` groups of `warps` warps. `by_warp`: each warp is an agent, because
    warps multiply, and not warpgroups."""

    name: str
    warps: int
    instances: int = 1
    by_warp: bool = False


@dataclass(frozen=True)
class GlobalVariable:
    """A variable in global or constant memory, one for all launches of its module; `key` is unique among modules.
    `space` is "global" or "const".

    `type` is that of its elements in memory, empty if they may be of any. `contents`: its bytes; empty if all are zero.
    `pointers` are addresses among them: offset, name of the variable, and number of bytes after its start.
    """

    key: tuple[int, str]
    name: str
    type: str
    size: int
    align: int
    contents: bytes = b""
    pointers: tuple[tuple[int, str, int], ...] = ()
    space: str = "global"


@dataclass(eq=False)
class Program:
    """A decoded function.

    `block` is its body. If the body has several blocks, it is `graph`, and `block` has only the arguments. `buffers`
    are those in shared memory: name, first byte, bytes. `collective`: no op is for warps, so a whole CTA is one agent.
    `roles` are those of its sm.roles. `attributes` are the function's. `shared_origin` is the address of its shared
    memory, aligned to no more than the module asks for, up to 1024 (address 0). `constants` are slots and their values,
    `addresses` slots of addresses by offset in shared memory. `static_bytes` are the bytes of the kernel's own
    variables, before those that the launch asks for; `gaps` (start, end) lie between them, and `limits` are the
    variables that the addresses of an op are formed from, if it is known. `globals` are the variables in global and
    constant memory by name, `global_addresses` slots of addresses by variable and offset. `placed` are the
    bytes of parameters whose addresses are taken, by number, and `parameter_addresses` the slots of these addresses.
    `local_bytes` are those of a thread's own memory. `is_of_independent_ctas`: no CTA can wait for another.
    `reads_grid_workspace`: it takes the address of the workspace of a cooperative launch (machine/grid_workspace.py).
    """

    name: str
    level: str
    domain: Domain
    block: DecodedBlock
    slots: int
    buffers: list[tuple[str, int, int]] = field(default_factory=list)
    collective: bool = True
    roles: tuple[Role, ...] = ()
    ring_users: dict[int, RingUsers] = field(default_factory=dict)  # by the slot of the ring
    attributes: dict[str, Any] = field(default_factory=dict)
    shared_origin: int = 0
    forms: dict[Any, Any] = field(default_factory=dict)  # instructions in their rows, once known
    constants: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    addresses: dict[int, int] = field(default_factory=dict)
    static_bytes: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    limits: dict[Described, tuple[Buffer, ...]] = field(default_factory=dict)
    pointer_limits: Any = None  # the same for pointers in parameters (ptx/formed_addresses.py)
    globals: dict[str, GlobalVariable] = field(default_factory=dict)
    global_addresses: dict[tuple[str, int], int] = field(default_factory=dict)
    placed: dict[int, int] = field(default_factory=dict)
    parameter_addresses: dict[int, int] = field(default_factory=dict)
    local_bytes: int = 0
    graph: Graph | None = None
    pointees: dict[str, Type] = field(default_factory=dict)  # types that pointers step by, by their text
    names: Any = None  # MLIR's names of the module's values, only while the function is decoded
    is_of_independent_ctas: bool = False
    reads_grid_workspace: bool = False
    dependences: list[Any] | None = None  # on data and timing (dependence.py), once known

    def reserve(self, count: int = 1) -> int:
        """The first of this many consecutive unused slots; only while the function is decoded."""
        self.slots += count
        return self.slots - count

    def reserve_all(self, what: Sequence[Any]) -> range:
        """As `reserve`, one slot for each of these."""
        first = self.reserve(len(what))
        return range(first, first + len(what))

    @property
    def is_hardware(self) -> bool:
        return self.level in HARDWARE_LEVELS


@dataclass
class RingUsers:
    """The roles (their numbers in sm.roles) that fill a ring, and the roles that read it; empty without roles."""

    producers: set[int] = field(default_factory=set)
    consumers: set[int] = field(default_factory=set)
