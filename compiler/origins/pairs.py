"""Which ops may come from which: for each level the pairs of an op and its origin in the level before.

The table has the ops that touch memory, multiply or wait. An op may also come from one of its own name, which a level
has kept or moved. An op with another origin, or with none, is a fault of the pass that built it: it gave a wrong
location.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lowtide.compiler.origins.origins import Op, Origins
from lowtide.dialects.levels import Level

# At each level: some ops, and what each of them may come from.
_PAIRS = (
    (Level.PROBLEM, "tile.pack tile.unpack", "tile.gemm"),
    (Level.CTA, "tile.mma tile.promote tile.store tile.await_wave tile.finish memref.load", "tile.gemm"),
    (Level.CTA, "tile.await_arrival tile.is_late tile.send_shard", "tile.gemm"),
    (Level.CTA, "tile.matrix_extent", "tile.gemm"),
    (Level.CTA, "tile.store_partial tile.add_partials tile.sum_shares", "tile.gemm"),
    (Level.CTA, "tile.semaphore_arrive tile.semaphore_wait tile.semaphore_leave", "tile.gemm"),
    (Level.CTA, "tile.prepare", "tile.gemm tile.pack"),
    (Level.SMEM, "sm.copy", "tile.view"),
    (Level.SMEM, "sm.barrier", "tile.mma"),
    (Level.PIPELINED, "sm.copy_async", "sm.copy"),
    (Level.PIPELINED, "sm.producer_acquire sm.producer_commit sm.producer_tail", "sm.barrier"),
    (Level.PIPELINED, "sm.consumer_wait sm.consumer_release", "sm.barrier"),
    # Instances of a role take turns in multiplying.
    (Level.PIPELINED, "sm.mbarriers sm.mbarrier_wait sm.mbarrier_arrive sm.barrier", "tile.mma"),
    (Level.ATOMS, "sm.mma_sync sm.wgmma sm.wgmma_promote sm.mma_wait sm.sum_over_k math.fma", "tile.mma"),
    (Level.ATOMS, "sm.ldmatrix sm.load_shared", "tile.mma"),
    (Level.ATOMS, "sm.load_global", "tile.mma sm.copy_async tile.view"),
    (Level.ATOMS, "sm.load_scales", "tile.view"),
    (Level.ATOMS, "sm.cp_async sm.tma_load sm.store_shared sm.make_maps sm.listed_map", "sm.copy_async"),
    (Level.ATOMS, "sm.cp_async_commit", "sm.producer_commit"),
    (Level.ATOMS, "sm.cp_async_wait", "sm.consumer_wait sm.producer_commit sm.producer_tail"),
    (Level.ATOMS, "sm.barrier", "sm.consumer_wait sm.producer_acquire sm.producer_commit sm.producer_tail sm.ring"),
    (Level.ATOMS, "sm.fence_proxy_async", "sm.consumer_wait sm.consumer_release sm.producer_commit"),
    (Level.ATOMS, "sm.mbarriers sm.cluster_barrier sm.zero_rows", "sm.ring"),
    (Level.ATOMS, "sm.mbarrier_wait", "sm.consumer_wait sm.producer_acquire"),
    (Level.ATOMS, "sm.mbarrier_arrive", "sm.consumer_release sm.producer_acquire sm.producer_commit"),
    (Level.EPILOGUE, "sm.store_shared sm.load_shared sm.store_global sm.load_global sm.barrier", "tile.store"),
    (Level.EPILOGUE, "sm.tma_store sm.tma_store_wait sm.fence_proxy_async", "tile.store"),
    (Level.EPILOGUE, "sm.mbarriers sm.mbarrier_wait sm.mbarrier_arrive sm.tma_load", "tile.store"),
    (Level.EPILOGUE, "sm.raise_max sm.store_reduced", "tile.store"),
    (Level.EPILOGUE, "sm.mma_wait_rows", "sm.mma_wait"),
    (Level.EPILOGUE, "tile.grid_dependency_wait tile.launch_dependents", "sm.tma_load sm.cp_async sm.load_global"),
    (Level.EPILOGUE, "tile.grid_dependency_wait tile.launch_dependents", "tile.prepare tile.finish sm.make_maps"),
    (Level.NVVM, "nvvm.mma.sync llvm.call_intrinsic math.fma", "sm.mma_sync"),
    (Level.NVVM, "llvm.call_intrinsic", "sm.unpack_weights"),
    (Level.NVVM, "math.fma", "sm.map sm.wgmma_promote sm.reduce sm.store_reduced tile.finish"),
    (Level.NVVM, "nvvm.wgmma.mma_async nvvm.wgmma.fence.aligned sm.ptx_wgmma", "sm.wgmma sm.wgmma_promote"),
    (Level.NVVM, "nvvm.wgmma.commit.group.sync.aligned", "sm.wgmma sm.wgmma_promote"),
    (Level.NVVM, "nvvm.wgmma.wait.group.sync.aligned", "sm.mma_wait sm.mma_wait_rows sm.wgmma_promote"),
    (Level.NVVM, "sm.ptx_wgmma_wait", "sm.mma_wait sm.mma_wait_rows sm.wgmma_promote"),
    (Level.NVVM, "nvvm.ldmatrix", "sm.ldmatrix sm.load_shared"),
    (Level.NVVM, "nvvm.cp.async.shared.global", "sm.cp_async"),
    (Level.NVVM, "nvvm.cp.async.commit.group", "sm.cp_async_commit"),
    (Level.NVVM, "nvvm.cp.async.wait.group", "sm.cp_async_wait"),
    (Level.NVVM, "nvvm.cp.async.bulk.tensor.shared.cluster.global", "sm.tma_load"),
    (Level.NVVM, "nvvm.cp.async.bulk.tensor.global.shared.cta nvvm.cp.async.bulk.commit.group", "sm.tma_store"),
    (Level.NVVM, "nvvm.cp.async.bulk.wait_group", "sm.tma_store_wait"),
    (Level.NVVM, "sm.ptx_replace_map sm.ptx_copy_map llvm.store llvm.load", "sm.make_maps"),
    (Level.NVVM, "nvvm.fence.proxy.acquire", "sm.listed_map"),
    (Level.NVVM, "nvvm.barrier nvvm.barrier0", "sm.barrier sm.mbarriers tile.semaphore_arrive tile.semaphore_wait"),
    (Level.NVVM, "nvvm.barrier nvvm.barrier0", "tile.prepare tile.finish sm.raise_max sm.store_reduced"),
    (Level.NVVM, "nvvm.cluster.arrive nvvm.cluster.wait", "sm.cluster_barrier"),
    (Level.NVVM, "nvvm.mbarrier.init nvvm.fence.mbarrier.init", "sm.mbarriers"),
    (Level.NVVM, "nvvm.mbarrier.try_wait.parity", "sm.mbarrier_wait"),
    (Level.NVVM, "nvvm.mbarrier.arrive nvvm.mbarrier.arrive.expect_tx", "sm.mbarrier_arrive"),
    (Level.NVVM, "nvvm.fence.proxy", "sm.fence_proxy_async sm.zero_rows"),
    (Level.NVVM, "nvvm.griddepcontrol", "tile.grid_dependency_wait tile.launch_dependents"),
    (Level.NVVM, "nvvm.stmatrix", "sm.store_shared"),
    (Level.NVVM, "llvm.load", "sm.load_shared sm.load_global sm.load_scales tile.add_partials tile.sum_shares"),
    (Level.NVVM, "llvm.load", "tile.prepare tile.finish memref.load tile.matrix_extent sm.store_reduced"),
    (Level.NVVM, "llvm.load", "sm.cp_async sm.store_global"),  # of the rows at an index
    (Level.NVVM, "llvm.load", "tile.await_arrival"),  # of its turn
    (Level.NVVM, "llvm.load llvm.store nvvm.barrier nvvm.barrier0 sm.ptx_tell_last", "tile.send_shard"),
    (Level.NVVM, "llvm.store sm.ptx_store", "sm.store_shared sm.store_global sm.zero_rows sm.store_reduced"),
    (Level.NVVM, "llvm.store", "tile.store_partial tile.semaphore_wait tile.prepare tile.finish"),
    (Level.NVVM, "sm.ptx_semaphore_arrive", "tile.semaphore_arrive"),
    (Level.NVVM, "sm.ptx_semaphore_wait", "tile.semaphore_wait"),
    (Level.NVVM, "sm.ptx_semaphore_leave", "tile.semaphore_leave"),
    (Level.NVVM, "sm.ptx_await_wave", "tile.await_wave"),
    (Level.NVVM, "sm.ptx_await_arrival", "tile.await_arrival"),
    (Level.NVVM, "sm.ptx_read_status", "tile.is_late"),
    (Level.NVVM, "sm.ptx_raise_max", "sm.raise_max"),
    (Level.LLVM, "llvm.inline_asm", "sm.ptx_wgmma sm.ptx_wgmma_wait sm.ptx_store sm.ptx_raise_max sm.ptx_await_wave"),
    (Level.LLVM, "llvm.inline_asm", "sm.ptx_semaphore_arrive sm.ptx_semaphore_wait sm.ptx_semaphore_leave"),
    (Level.LLVM, "llvm.inline_asm", "sm.ptx_replace_map sm.ptx_copy_map sm.ptx_await_arrival sm.ptx_read_status"),
    (Level.LLVM, "llvm.inline_asm", "sm.ptx_tell_last"),
    (Level.LLVM, "nvvm.wgmma.wait.group.sync.aligned", "sm.ptx_wgmma_wait"),
    (Level.LLVM, "llvm.inline_asm", "sm.ptx_mask_or sm.ptx_round llvm.load"),
    (Level.LLVM, "llvm.inline_asm", "llvm.store"),  # copies of the sums that it stores
    (Level.LLVM, "llvm.inline_asm", "nvvm.wgmma.mma_async nvvm.mbarrier.try_wait.parity"),
    (Level.LLVM, "llvm.call_intrinsic", "math.fma math.absf math.copysign math.exp2 math.log2 math.roundeven"),
    (Level.LLVM, "llvm.call_intrinsic", "math.rsqrt math.sqrt arith.divf"),
    # Instructions of PTX, by the word before the first dot.
    (Level.PTX, "mma", "nvvm.mma.sync llvm.call_intrinsic"),
    (Level.PTX, "wgmma", "llvm.inline_asm nvvm.wgmma.fence.aligned nvvm.wgmma.commit.group.sync.aligned"),
    (Level.PTX, "wgmma", "nvvm.wgmma.wait.group.sync.aligned"),
    (Level.PTX, "ldmatrix", "nvvm.ldmatrix"),
    (Level.PTX, "stmatrix", "nvvm.stmatrix"),
    (Level.PTX, "cp", "nvvm.cp.async.shared.global nvvm.cp.async.commit.group nvvm.cp.async.wait.group"),
    (Level.PTX, "cp", "nvvm.cp.async.bulk.tensor.shared.cluster.global nvvm.cp.async.bulk.tensor.global.shared.cta"),
    (Level.PTX, "cp", "nvvm.cp.async.bulk.commit.group nvvm.cp.async.bulk.wait_group"),
    (Level.PTX, "bar barrier", "nvvm.barrier nvvm.barrier0 nvvm.cluster.arrive nvvm.cluster.wait"),
    (Level.PTX, "mbarrier", "nvvm.mbarrier.init nvvm.mbarrier.arrive nvvm.mbarrier.arrive.expect_tx llvm.inline_asm"),
    (Level.PTX, "fence", "nvvm.fence.proxy nvvm.fence.proxy.acquire nvvm.fence.mbarrier.init"),
    (Level.PTX, "tensormap", "llvm.inline_asm"),
    (Level.PTX, "griddepcontrol", "nvvm.griddepcontrol"),
    (Level.PTX, "ld", "llvm.load llvm.inline_asm"),
    (Level.PTX, "st", "llvm.store llvm.inline_asm"),
    (Level.PTX, "red atom", "llvm.inline_asm"),
)


def _allowed() -> Mapping[Level, Mapping[str, frozenset[str]]]:
    found: dict[Level, dict[str, frozenset[str]]] = {level: {} for level in Level}
    for level, ops, origins in _PAIRS:
        for op in ops.split():
            found[level][op] = found[level].get(op, frozenset()) | frozenset(origins.split())
    return MappingProxyType({level: MappingProxyType(pairs) for level, pairs in found.items()})


ALLOWED = _allowed()
"""The pairs: level, op, and its origins in the level before; at level `problem`, in the input."""

COUNTED = frozenset({"tile.gemm"}.union(*ALLOWED.values()))
"""The ops that touch memory, multiply or wait."""

_NO_INSTRUCTION = 'llvm.inline_asm has_side_effects "", "r'  # assembly without text, which keeps registers alive


@dataclass(frozen=True)
class Share:
    """How many of a level's ops that touch memory, multiply or wait have an allowed origin; `others`: those without."""

    counted: int
    others: tuple[Op, ...]

    @property
    def allowed(self) -> float:
        return 1 - len(self.others) / self.counted if self.counted else 1.0


def shares(origins: Origins) -> Mapping[Level, Share]:
    """The share of each level that the compilation has made from the one before."""
    ends = {step.level: step.place for step in origins.steps}
    found, before = {}, origins.steps[0].place
    for name, place in ends.items():
        level, others, counted = Level.named(name), [], 0
        if place == before:  # where the compilation began
            continue
        for op in origins.ops(place):
            kind = _kind(op, level)
            if kind in COUNTED:
                counted += 1
                names = {origin.name for origin in origins.of(op, before)}
                if not names or not names <= ALLOWED[level].get(kind, frozenset()) | {kind}:
                    others.append(op)
        found[level] = Share(counted, tuple(others))
        before = place
    return found


def _kind(op: Op, level: Level) -> str:
    """The op's name in the table. Empty for assembly without text, and for loads of parameters."""
    word, _, rest = op.name.partition(".")
    if _NO_INSTRUCTION in op.text or (level is Level.PTX and rest.startswith("param")):
        return ""
    return word if level is Level.PTX else op.name
