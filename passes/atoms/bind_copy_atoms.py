"""bind-copy-atoms: bind every asynchronous copy to the tiled copy of the schedule.

Before   sm.copy_async %at to %a : !tile.view<128x32xbf16>, memref<…>
After    sm.cp_async %at to %a by #sm.tiled_copy<cp.async.16, #tv> : !tile.view<128x32xbf16>, memref<…>
         or, with a.copy = staged.16, through registers:
         %f = sm.load_global %at by "ld.global.16" aligned : !tile.view<…> to !sm.fragment<128x32xbf16, #tv>
         sm.store_shared %f to %a by "st.shared.16" : !sm.fragment<128x32xbf16, #tv>, memref<…>
         in stores of one element where the stage is transposed. With a.copy = realigned.16 the load says `realigned`,
         not `aligned`: its runs may begin anywhere. carry-staged-loads then moves the loads ahead.
Needs    a complete schedule (its `copy` and `warps`).
Refuses  a copy atom that the target lacks; a tile that the threads cannot divide evenly.
Test     test/lit/passes/atoms/bind-copy-atoms.mlir, bind-copy-atoms-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.facts.resources import threads_of
from lowtide.passes.support.agents.atoms import (
    RING_COPIES,
    STAGED_COPIES,
    copy_through_registers,
    fill_copy,
    tiled_copy_attr,
)
from lowtide.passes.support.ir.rewriting import before, defining_op, erase
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.kernels import kernels_of_one_agent, schedule_of
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.targets import Target


@dataclass(frozen=True)
class BindCopyAtoms(Pass):
    """Replaces sm.copy_async by sm.cp_async, or by a load and a store."""

    name: ClassVar[str] = "bind-copy-atoms"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of_one_agent(module):
            schedule = schedule_of(kernel, "mainloop.a.copy", "mainloop.b.copy", "multiply.atoms")
            for copy in walk(kernel, sm.CopyAsyncOp):
                view, name = copy.source.type, _operand_filled(copy)
                atom = schedule.mainloop.operand(name).copy
                if atom not in RING_COPIES:
                    raise Refusal(copy, f"{name}.copy = {atom} is not one of {', '.join(RING_COPIES)} [ring-copy]")
                try:
                    target.copy(atom)
                    bits = element_bits(view.element_type)
                    transposed = is_transposed_buffer(copy.destination.type)
                    tiled = fill_copy(atom, view.shape, threads_of(schedule), bits, transposed)
                except (ScheduleError, TargetError) as error:
                    raise Refusal(copy, str(error)) from error
                with before(copy), copy.operation.location:
                    if atom in STAGED_COPIES:
                        copy_through_registers(copy.source, copy.destination, tiled)
                    else:
                        sm.CpAsyncOp(copy.source, copy.destination, tiled_copy_attr(tiled))
                erase(copy)


def _operand_filled(copy: sm.CopyAsyncOp) -> str:
    """Whether the copy fills the buffer of A or of B in its slot."""
    acquire = defining_op(copy.destination)
    if not isinstance(acquire, sm.ProducerAcquireOp):
        raise Refusal(copy, "must fill a buffer of the slot that its sm.producer_acquire gives [copy-fills-slot]")
    return "ab"[list(acquire.buffers).index(copy.destination)]
