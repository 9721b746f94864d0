"""verify-mbarriers: check arrivals and expected bytes against the roles that arrive and the copies that signal.

Changes nothing. bind-ring counts both; an edited level may have other numbers. On hardware such a kernel hangs, or
reads data before it has arrived (PTX ISA, "Phase of the mbarrier object", "Tracking asynchronous operations by the
mbarrier object").

Needs    sm.mbarriers beside sm.roles; other kernels are left alone.
Refuses  `arrivals(n)` unless n threads arrive per phase: one of the producer, one of each warpgroup of copiers and
         consumers, of each CTA of the cluster that names this one as a receiver (`to`); and each thread of a role with
         an `sm.cp_async_arrive`;
         `expects n` unless the copies without `rows` that signal the same slot bring n bytes; `plus` bytes if none of
         the copies has `rows`, and `rows` without `plus` (the value of `plus` is known only at run time, and not
         checked); copies that signal a slot without an `expects`; a wait on mbarriers at which no thread arrives; in a
         role that multiplies by wgmma, the release of a slot without the proof (`after`) that the wgmmas that read it
         are done; in a role whose threads read the slot, a release that is not by `each_warp`. In a cluster: a release
         that does not reach all CTAs whose loads write to the slot; shares that are not whole boxes, or not a
         multiple of 8 rows; mbarriers that other CTAs use without a sm.cluster_barrier before and after the roles.
Test     test/lit/passes/epilogue/verify-mbarriers.mlir, verify-mbarriers-invalid.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import multicast_of, receivers_of
from lowtide.dialects.sm import ClusterLine
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.agents.clusters import members, union
from lowtide.passes.support.ir.rewriting import ops_in
from lowtide.passes.support.problem.element_types import buffer_bytes
from lowtide.passes.support.problem.kernels import FILLERS, PRODUCER, cluster_shape, launches_of
from lowtide.passes.support.streams.panels import SWIZZLE_ROWS
from lowtide.passes.support.streams.slots import threads_read_slots
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_THREADS, WARPGROUP_WARPS

OpT = TypeVar("OpT", bound=ir.OpView)


@dataclass(frozen=True)
class VerifyMbarriers(Pass):
    """Checks every sm.mbarriers of a kernel with roles."""

    name: ClassVar[str] = "verify-mbarriers"

    def run(self, module: ir.Module, target: Target) -> bool:
        for kernel in walk(module, tile.KernelOp):
            roles = [role for op in walk(kernel, sm.RolesOp) for role in _roles(op)]
            cluster = next((cluster_shape(launch.cluster) for launch in launches_of(module, kernel)), (1, 1))
            for barriers in walk(kernel, sm.MbarriersOp) if roles else ():
                checks = _arrivals(barriers, roles, cluster), _bytes(barriers, roles), _releases(barriers, roles)
                for refusal in (refusal for check in checks for refusal in check):
                    raise refusal
            for refusal in (*_shares(kernel, cluster), *_ends(kernel)):
                raise refusal
        return False


@dataclass(frozen=True)
class _Role:
    """A role: its body, its threads, and how many of these arrive at each `sm.mbarrier_arrive`."""

    name: str
    threads: int
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
        warpgroups = int(warps) // WARPGROUP_WARPS
        yield _Role(word, warpgroups * WARPGROUP_THREADS, 1 if word == PRODUCER else warpgroups, region.blocks[0])


def _arrivals(barriers: sm.MbarriersOp, roles: list[_Role], cluster: tuple[int, int]) -> Iterator[Refusal]:
    """Checks the number of arrivals. Each role visits every slot once per round of the ring, at one or several places.

    The number of CTAs that arrive at an mbarrier equals the number that receive an arrival of its CTA.
    """
    arriving: dict[str, int] = {}
    for role in roles:
        arrives = role.uses(sm.MbarrierArriveOp, barriers)
        if arrives:
            waits = role.uses(sm.MbarrierWaitOp, barriers)
            most = max(sum(_count(b, cluster) for b in arrives if _at_once(a, b, waits)) for a in arrives)
            arriving[role.name] = role.threads_arriving * most
        if role.uses(sm.CpAsyncArriveOp, barriers):
            arriving[role.name] = arriving.get(role.name, 0) + role.threads
    found, said = sum(arriving.values()), barriers.arrivals.value
    if not arriving:
        for wait in (wait for role in roles for wait in role.uses(sm.MbarrierWaitOp, barriers)):
            yield Refusal(
                wait, "waits for mbarriers at which no thread arrives; arrive where the slot is ready [no-arrivals]"
            )
    elif found != said:
        who = " and ".join(f"{count} by the {name}" for name, count in arriving.items())
        yield Refusal(
            barriers,
            f"completes a phase after {said} arrivals, but its roles make {found}: {who}; write arrivals({found})"
            " [arrival-count]",
        )


def _count(arrive: sm.MbarrierArriveOp, cluster: tuple[int, int]) -> int:
    """How often a warpgroup, or the producer, arrives at an mbarrier."""
    return members(receivers_of(arrive), cluster) * (WARPGROUP_WARPS if arrive.each_warp else 1)


def _at_once(one: sm.MbarrierArriveOp, other: sm.MbarrierArriveOp, waits: list[sm.MbarrierWaitOp]) -> bool:
    """Whether both arrive in one phase: at the same slot, one after the other, without a wait of the role between them.

    A role that waits for its own arrivals, as consumers do for the loads that they start, arrives in the next phase.
    """
    block = one.operation.block
    if one.index != other.index or block != other.operation.block:
        return False
    first, last = sorted((_place(one, block), _place(other, block)))
    waited = (_place(wait, block) for wait in waits if wait.index == one.index and _is_below(wait, block))
    return not any(first < at < last for at in waited)


def _bytes(barriers: sm.MbarriersOp, roles: list[_Role]) -> Iterator[Refusal]:
    """A slot must expect the bytes that its copies bring, with every box in full (TMA counts clipped bytes)."""
    for role in roles:
        loads = role.uses(sm.TmaLoadOp, barriers)
        for arrive in role.uses(sm.MbarrierArriveOp, barriers):
            own = [load for load in loads if _is_for(load, arrive, role.uses(sm.MbarrierArriveOp, barriers))]
            loads = [load for load in loads if load not in own]
            brought = sum(buffer_bytes(load.destination.type) for load in own if load.rows is None)
            brought //= role.threads_arriving  # each loads, and expects, a share of the rows
            said = 0 if arrive.bytes is None else arrive.bytes.value
            if (arrive.more is None) != all(load.rows is None for load in own):
                yield Refusal(
                    arrive,
                    "must expect `plus` bytes if and only if a copy that signals this slot has `rows`; write both,"
                    " or none [expected-rows]",
                )
            if said != brought:
                yield Refusal(
                    arrive,
                    f"expects {said} bytes, but the copies that signal this slot ({len(own)}) bring {brought}; write "
                    f"expects {brought} [expected-bytes]",
                )
        for load in loads:
            yield Refusal(
                load,
                "signals a slot at which no arrival beside it expects its bytes; arrive there before it"
                " [bytes-expected-nowhere]",
            )


def _releases(barriers: sm.MbarriersOp, roles: list[_Role]) -> Iterator[Refusal]:
    """wgmma reads shared memory asynchronously: only a wait tells when it is done.

    This checks only barriers for which a role that fills slots waits: an arrival there releases a slot.
    """
    loading = [role for role in roles if role.name in FILLERS and role.uses(sm.MbarrierWaitOp, barriers)]
    if not loading:
        return
    loads = [load for role in loading for top in ops_in(role.body) for load in walk(top, sm.TmaLoadOp)]
    written = union(multicast_of(load) for load in loads)
    for role in roles:
        by_wgmma = role.has(sm.WgmmaOp) or role.has(sm.WgmmaPromoteOp)
        by_threads = threads_read_slots(ops_in(role.body))
        if not (by_wgmma or by_threads):
            continue
        for arrive in role.uses(sm.MbarrierArriveOp, barriers):
            if receivers_of(arrive) is not written:
                yield Refusal(
                    arrive,
                    f"releases a slot to {_ctas(receivers_of(arrive))}, but {_ctas(written)} fill it, and each waits "
                    f"for its release; write {'no to(…)' if written is None else f'to({written})'}"
                    " [release-to-cluster]",
                )
            if by_threads and not arrive.each_warp:
                yield Refusal(
                    arrive,
                    "releases a slot for a warpgroup, but each of its warps reads it by itself; write each_warp"
                    " [release-each-warp]",
                )
            if by_wgmma and arrive.retired is None:
                yield Refusal(
                    arrive,
                    "releases a slot that wgmma may still read; write `after` and what the sm.mma_wait for it, or its "
                    "sm.wgmma_promote, retires [release-after-wgmma]",
                )


def _ctas(line: ClusterLine | None) -> str:
    return "its own CTA" if line is None else f"the CTAs of the cluster's {line}"


def _shares(kernel: tile.KernelOp, cluster: tuple[int, int]) -> Iterator[Refusal]:
    """CTAs that share a tile each load an equal part of its rows, beginning where the swizzle's pattern begins."""
    for load in walk(kernel, sm.TmaLoadOp):
        parties = members(multicast_of(load), cluster)
        rows, box_rows = load.destination.type.shape[0], load.map.type.shape[-2]
        if parties > 1 and (rows % (parties * SWIZZLE_ROWS) or rows // parties % box_rows):
            yield Refusal(
                load,
                f"shares {rows} rows among {parties} CTAs in boxes of {box_rows}; each loads whole boxes, and a "
                f"multiple of {SWIZZLE_ROWS} rows [shared-boxes]",
            )


def _ends(kernel: tile.KernelOp) -> Iterator[Refusal]:
    """CTAs that use each other's mbarriers begin and end together."""
    remote = [op for op in walk(kernel, sm.TmaLoadOp) if multicast_of(op) is not None]
    remote += [op for op in walk(kernel, sm.MbarrierArriveOp) if receivers_of(op) is not None]
    order = [type(op) for op in kernel.body.blocks[0].operations]
    if not remote or sm.RolesOp not in order:
        return
    roles = order.index(sm.RolesOp)
    made = max((at for at, kind in enumerate(order[:roles]) if kind is sm.MbarriersOp), default=0)
    if sm.ClusterBarrierOp not in order[made:roles]:
        yield Refusal(
            remote[0],
            "uses mbarriers of other CTAs, which may not have initialised them; write sm.cluster_barrier between the "
            "last sm.mbarriers and sm.roles [cluster-begins]",
        )
    if sm.ClusterBarrierOp not in order[roles:]:
        yield Refusal(
            remote[0],
            "uses mbarriers of other CTAs, which may have ended; write sm.cluster_barrier behind sm.roles"
            " [cluster-ends]",
        )


def _is_for(load: sm.TmaLoadOp, arrive: sm.MbarrierArriveOp, arrives: list[sm.MbarrierArriveOp]) -> bool:
    """Whether a load brings bytes that this arrival expects: it is at the same slot, and no other arrival between."""
    block = arrive.operation.block
    if load.index != arrive.index or not _is_below(load, block):
        return False
    others = [op for op in arrives if op.index == arrive.index and op.operation.block == block]
    if len(others) == 1:
        return True
    before = [_place(op, block) for op in others if _place(op, block) < _place(load, block)]
    return bool(before) and max(before) == _place(arrive, block)


def _place(op: ir.OpView, block: ir.Block) -> int:
    """The position in a block of an op in it, or of the op around it."""
    at = op.operation
    while at.block != block:
        at = at.parent
    return next(number for number, each in enumerate(block.operations) if each.operation == at)


def _is_below(op: ir.OpView, block: ir.Block) -> bool:
    """Whether the op is in the block, or in a nested region."""
    at: ir.Operation | None = op.operation
    while at is not None and not isinstance(at.opview, tile.KernelOp):
        if at.block == block:
            return True
        at = at.parent
    return False
