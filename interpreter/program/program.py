"""A decoded function: plain data, made once from IR (decoding.py) or PTX, and run for many agents. Knows no MLIR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.program.types import Type

HARDWARE_LEVELS = frozenset({"nvvm", "llvm", "ptx"})
"""The levels at which a kernel is one thread's program and its ops are the hardware's instructions."""


@dataclass(slots=True, eq=False)
class DecodedBlock:
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    ops: tuple[Any, ...]
    results: tuple[int, ...]  # slots of the terminator's operands
    terminator: str
    invariant: tuple[Any, ...] = ()  # of a loop's body: what it computes alike in each turn, not among `ops`


@dataclass(frozen=True)
class Role:
    """A region of `sm.roles`, which `instances` groups of `warps` warps run."""

    name: str
    warps: int
    instances: int = 1


@dataclass(eq=False)
class Program:
    """A decoded function.

    `block` is its body. Where that has several blocks, `graph` is the body, and `block` has the arguments alone.
    `buffers` are those in shared memory: name, first byte, bytes. `collective`: no op speaks of warps, so a whole CTA
    is one agent. `roles` are those of its sm.roles. `attributes` are the function's. `shared_origin` is the address at
    which its shared memory begins: at no greater power of two than the module asks for, up to 1024 (address 0).
    `constants` are slots and what they hold, `addresses` slots of addresses by the offset in shared memory.
    `static_bytes` of it are the kernel's own variables, before what the launch asks for.
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
    constants: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    addresses: dict[int, int] = field(default_factory=dict)
    static_bytes: int = 0
    graph: Graph | None = None
    pointees: dict[str, Type] = field(default_factory=dict)  # what pointers are stepped by, by the type's text
    dependences: list[Any] | None = None  # on data and timing (dependence.py), once they are known

    def reserve(self, count: int = 1) -> int:
        """The first of so many neighbouring slots that nothing else uses; only while the function is decoded."""
        self.slots += count
        return self.slots - count

    def reserve_all(self, what: Sequence[Any]) -> range:
        """As `reserve`, a slot for each of these."""
        first = self.reserve(len(what))
        return range(first, first + len(what))

    @property
    def is_hardware(self) -> bool:
        return self.level in HARDWARE_LEVELS


@dataclass
class RingUsers:
    """Which roles (their numbers in sm.roles) fill a ring, and which read it; none where there are no roles."""

    producers: set[int] = field(default_factory=set)
    consumers: set[int] = field(default_factory=set)
