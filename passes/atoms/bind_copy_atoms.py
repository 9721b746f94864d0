"""bind-copy-atoms: bind every asynchronous copy by threads to the tiled copy of the schedule.

Before   sm.copy_async %at to %a : !tile.view<128x32xbf16>, memref<…>
After    sm.cp_async %at to %a by #sm.tiled_copy<cp.async.16, #tv> : !tile.view<128x32xbf16>, memref<…>
         or, with a.copy = staged.16, through registers:
         %f = sm.load_global %at by "ld.global.16" aligned : !tile.view<…> to !sm.fragment<128x32xbf16, #tv>
         sm.store_shared %f to %a by "st.shared.16" : !sm.fragment<128x32xbf16, #tv>, memref<…>
         in stores of one element if the stage is transposed. With a.copy = realigned.16 the load says `realigned`, not
         `aligned`: its runs may begin anywhere. carry-staged-loads then moves the loads ahead.
         The threads are those of the agent that fills the ring. A role's copies by TMA are left to bind-ring.
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
    TMA_RANKS,
    copy_through_registers,
    fill_copy,
    tiled_copy_attr,
)
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.ir.rewriting import before, defining_op, erase
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.kernels import gemm_kernels, role_of, schedule_of
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.passes.support.streams.slots import slot_buffer
from lowtide.targets import Target
from lowtide.targets.atoms import Operand


@dataclass(frozen=True)
class BindCopyAtoms(Pass):
    """Replaces sm.copy_async by sm.cp_async, or by a load and a store."""

    name: ClassVar[str] = "bind-copy-atoms"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            copies = walk(kernel, sm.CopyAsyncOp)
            if not copies:
                continue
            schedule = schedule_of(kernel, "mainloop.a.copy", "mainloop.b.copy", "multiply.atoms")
            for copy in copies:
                role, name, view = role_of(copy), _operand_filled(copy), copy.source.type
                atom = None if name is None else schedule.mainloop.operand(name).copy
                if role is not None and (atom is None or atom in TMA_RANKS):
                    continue
                if atom not in RING_COPIES:
                    raise Refusal(copy, f"{name}.copy = {atom} is not one of {', '.join(RING_COPIES)} [ring-copy]")
                threads = threads_of(schedule) if role is None else 32 * role[0].warps[role[1]]
                try:
                    target.copy(atom)
                    bits = element_bits(view.element_type)
                    transposed = is_transposed_buffer(copy.destination.type)
                    tiled = fill_copy(atom, view.shape, threads, bits, transposed)
                except (ScheduleError, TargetError) as error:
                    raise Refusal(copy, str(error)) from error
                with before(copy), copy.operation.location:
                    if atom in STAGED_COPIES:
                        copy_through_registers(copy.source, copy.destination, tiled)
                    else:
                        sm.CpAsyncOp(copy.source, copy.destination, tiled_copy_attr(tiled))
                erase(copy)


def _operand_filled(copy: sm.CopyAsyncOp) -> Operand | None:
    """The operand, A or B, whose buffer in the slot (or a prefix of it) the copy fills; None for scales."""
    buffer = slot_buffer(copy.destination)
    filler = defining_op(buffer)
    if not isinstance(filler, sm.ProducerAcquireOp):
        raise Refusal(copy, "must fill a buffer of the slot that its sm.producer_acquire gives [copy-fills-slot]")
    return dict(zip(filler.buffers, OPERANDS, strict=False)).get(buffer)
