"""verify-mbarriers: check arrivals and expected bytes against the roles that arrive and the copies that signal.

Changes nothing. bind-tma counts both; an edited level may have other numbers. On hardware such a kernel hangs, or reads
data before it has arrived (PTX ISA, "Phase of the mbarrier object", "Tracking asynchronous operations by the mbarrier
object").

Needs    sm.mbarriers beside sm.roles; other kernels are left alone.
Refuses  `arrivals(n)` unless n threads arrive per phase: one of the producer, one of each warpgroup of the consumer;
         `expects n` unless the copies that signal the same slot bring n bytes; copies that signal a slot without an
         `expects`; a wait on mbarriers at which no thread arrives; in a role that multiplies by wgmma, the release of
         a slot without the proof (`after`) that the wgmmas that read it are done.
Test     test/lit/passes/epilogue/verify-mbarriers.mlir, verify-mbarriers-invalid.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.problem import buffer_bytes
from lowtide.passes.support.rewriting import ops_in
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_WARPS

OpT = TypeVar("OpT", bound=ir.OpView)


@dataclass(frozen=True)
class VerifyMbarriers(Pass):
    """Checks every sm.mbarriers of a kernel with roles."""

    name: ClassVar[str] = "verify-mbarriers"

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            roles = [role for op in walk(kernel, sm.RolesOp) for role in _roles(op)]
            for barriers in walk(kernel, sm.MbarriersOp) if roles else ():
                for refusal in (*_arrivals(barriers, roles), *_bytes(barriers, roles), *_releases(barriers, roles)):
                    raise refusal


@dataclass(frozen=True)
class _Role:
    """A role: how many of its threads arrive where it says `sm.mbarrier_arrive`, and its body."""

    name: str
    threads_arriving: int
    body: ir.Block

    def has(self, op_class: type[ir.OpView]) -> bool:
        """Whether it has an op of a class."""
        return any(walk(top, op_class) for top in ops_in(self.body))

    def uses(self, op_class: type[OpT], barriers: sm.MbarriersOp) -> list[OpT]:
        """Its ops of a class on these barriers."""
        ops = [op for top in ops_in(self.body) for op in walk(top, op_class)]
        return [op for op in ops if op.barriers == barriers.result]


def _roles(op: sm.RolesOp) -> Iterator[_Role]:
    for name, warps, region in zip(op.names, op.warps, op.bodies, strict=True):
        word = ir.StringAttr(name).value
        yield _Role(word, 1 if word == "producer" else int(warps) // WARPGROUP_WARPS, region.blocks[0])


def _arrivals(barriers: sm.MbarriersOp, roles: list[_Role]) -> Iterator[Refusal]:
    """Each role visits every slot once per round of the ring, at one place or at several, one after the other."""
    arriving: dict[str, int] = {}
    for role in roles:
        arrives = role.uses(sm.MbarrierArriveOp, barriers)
        if arrives:
            arriving[role.name] = role.threads_arriving * max(sum(_at_once(a, b) for b in arrives) for a in arrives)
    found, said = sum(arriving.values()), barriers.arrivals.value
    if not arriving:
        for wait in (wait for role in roles for wait in role.uses(sm.MbarrierWaitOp, barriers)):
            yield Refusal(wait, "waits for mbarriers at which no thread arrives; arrive where the slot is ready")
    elif found != said:
        who = " and ".join(f"{count} by the {name}" for name, count in arriving.items())
        yield Refusal(
            barriers,
            f"completes a phase after {said} arrivals, but its roles make {found}: {who}; write arrivals({found})",
        )


def _at_once(one: sm.MbarrierArriveOp, other: sm.MbarrierArriveOp) -> bool:
    """Whether both arrive in one phase: at the same slot, one right after the other."""
    return bool(one.index == other.index and one.operation.block == other.operation.block)


def _bytes(barriers: sm.MbarriersOp, roles: list[_Role]) -> Iterator[Refusal]:
    """A slot must expect the bytes that its copies bring, with every box in full (TMA counts clipped bytes)."""
    for role in roles:
        loads = role.uses(sm.TmaLoadOp, barriers)
        for arrive in role.uses(sm.MbarrierArriveOp, barriers):
            own = [load for load in loads if load.index == arrive.index and _is_below(load, arrive.operation.block)]
            loads = [load for load in loads if load not in own]
            brought = sum(buffer_bytes(load.destination.type) for load in own)
            said = 0 if arrive.bytes is None else arrive.bytes.value
            if said != brought:
                yield Refusal(
                    arrive,
                    f"expects {said} bytes, but the copies that signal this slot ({len(own)}) bring {brought}; write "
                    f"expects {brought}",
                )
        for load in loads:
            yield Refusal(
                load, "signals a slot at which no arrival beside it expects its bytes; arrive there before it"
            )


def _releases(barriers: sm.MbarriersOp, roles: list[_Role]) -> Iterator[Refusal]:
    """wgmma reads shared memory asynchronously: only a wait tells when it is done.

    This checks the barriers that a role which loads by TMA waits for: an arrival there releases a slot.
    """
    if not any(role.has(sm.TmaLoadOp) and role.uses(sm.MbarrierWaitOp, barriers) for role in roles):
        return
    for role in roles:
        if not role.has(sm.WgmmaOp):
            continue
        for arrive in role.uses(sm.MbarrierArriveOp, barriers):
            if arrive.retired is None:
                yield Refusal(
                    arrive,
                    "releases a slot that wgmma may still read; write `after` and what the sm.mma_wait for it retires",
                )


def _is_below(op: ir.OpView, block: ir.Block) -> bool:
    """Whether the op is in the block, or in a nested region."""
    at: ir.Operation | None = op.operation
    while at is not None and not isinstance(at.opview, tile.KernelOp):
        if at.block == block:
            return True
        at = at.parent
    return False
