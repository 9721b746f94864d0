"""State that the lowerings of ops share: the builder, the thread index, and the values lowered so far."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mlir import ir

from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.clusters import ClusterPlace
from lowtide.passes.nvvm.thread.values import Fragment, GlobalMatrix, Lowered, SharedBuffer, Window
from lowtide.passes.support.ir.builder import Builder
from lowtide.targets import CopyAtom, copy_atom, family_of


@dataclass
class Context:
    """The state of one kernel's conversion."""

    build: Builder  # of i32; constants stand at the function's start
    tid: ir.Value
    threads: int
    registers: int  # that each of them may hold
    smem: ir.Value  # start of dynamic shared memory, !llvm.ptr<3>
    cluster: ClusterPlace = field(default_factory=ClusterPlace)
    elected: bool = False  # a single thread runs this code
    barrier: int = 0  # the named barrier of the threads that run this code; 0 is the whole CTA's
    instance: ir.Value | None = None  # the number of this instance of the role, if the role has several
    instances: int = 1  # their barriers are numbered on from `barrier`
    warpgroup: ir.Value | None = None  # the number of this warpgroup among the role's, where wgmma reads its rows of A
    warpgroup_barrier: int = 1  # that of their first warpgroup; the others' follow
    work_tiles: ir.Value | None = None  # how many the loop over work tiles that is being lowered has, of all CTAs
    is_first_tile: ir.Value | None = None  # whether that loop is at its first one
    promotes: bool = False  # threads add the sums of each K step to others
    second_half_first: bool = False  # FMAs start with the second half of a thread's rows
    values: dict[ir.Value, Lowered] = field(default_factory=dict)
    #: matrices of lists that were loaded, by list and number, with the block that has the loads
    listed: dict[tuple[GlobalMatrix, ir.Value], tuple[ir.Block, GlobalMatrix]] = field(default_factory=dict)

    def get(self, value: ir.Value) -> Lowered:
        return self.values[value]

    def scalar(self, value: ir.Value) -> ir.Value:
        lowered = self.values[value]
        assert isinstance(lowered, ir.Value)
        return lowered

    def fragment(self, value: ir.Value) -> Fragment:
        lowered = self.values[value]
        assert isinstance(lowered, Fragment)
        return lowered

    def buffer(self, value: ir.Value) -> SharedBuffer:
        lowered = self.values[value]
        assert isinstance(lowered, SharedBuffer)
        return lowered

    def window(self, value: ir.Value) -> Window:
        lowered = self.values[value]
        assert isinstance(lowered, Window)
        return lowered


Handler = Callable[[Context, ir.OpView], None]


def atom_of(op: ir.OpView, name: str, family: str) -> CopyAtom:
    """The copy atom that an op names. Refuses an atom of another family."""
    if family_of(name) != family:
        raise Refusal(op, f"takes an atom {family}.*, not {name} [atom-family]")
    return copy_atom(name)
