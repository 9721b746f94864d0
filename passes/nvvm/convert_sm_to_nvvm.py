"""convert-sm-to-nvvm: lower CTA-wide ops to the program of one thread.

Before   tile.kernel @gemm_kernel(%a: memref<?x?xbf16, strided<[?, 1]>>, …) { … sm.ldmatrix … sm.mma_sync … }
         tile.launch @gemm_kernel grid(%g) threads(128) shared_memory(49152) args(%a, …)
After    gpu.module @kernels { gpu.func @gemm_kernel(%a: !llvm.ptr<1>, %lda: i64, %m: i32, %k: i32, …) kernel {
           %tid = nvvm.read.ptx.sreg.tid.x … nvvm.ldmatrix … nvvm.mma.sync … } }
         tile.launch @gemm_kernel … args(base address, row stride and dynamic extents of each matrix)
         The kernel has the number of threads and, if roles change their registers, those at entry (nvvm.maxnreg);
         if it is launched in clusters, their size (nvvm.cluster_dim).
         Of a matrix that is reached through tensor maps alone, only the dynamic extents that the kernel reads remain.
         Every tiled op is unrolled into this thread's instructions; addresses come from its thread-value layout and
         the buffer's layout. One handler for each op, in passes/nvvm/.
Needs    level epilogue, shared memory laid out.
Refuses  an op without a handler; a thread-value layout that an instruction does not support; a kernel without a launch.
Test     test/lit/passes/nvvm/convert-sm-to-nvvm.mlir, convert-sm-to-nvvm-{copies,epilogue,mma,hopper,loops,
         loops-roles,operands,roles,row-groups,tail,waves,stores,weights,invalid,hopper-invalid,stores-invalid}.mlir
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir
from mlir.dialects import gpu, llvm, memref, nvvm, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.sm.timing import Timing
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.nvvm.accesses import (
    copies,
    global_accesses,
    matrices,
    maxima,
    reductions,
    scales,
    tma,
    tma_stores,
    zero_rows,
)
from lowtide.passes.nvvm.agents import barriers, roles
from lowtide.passes.nvvm.prepare import finish, list_maps, prepare
from lowtide.passes.nvvm.products import mma_sync, weights, wgmma
from lowtide.passes.nvvm.thread import compute, control
from lowtide.passes.nvvm.thread.clusters import ClusterPlace, lower_cluster_barrier
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.signatures import (
    Passed,
    argument_types,
    bind_arguments,
    pass_parts,
    passed_for,
    tensor_map_positions,
)
from lowtide.passes.nvvm.work import partial_sums, sends, work_tiles
from lowtide.passes.schedules.facts.resources import registers_at_entry
from lowtide.passes.support.agents.atoms import STAGED_COPIES, tiled_mma_of
from lowtide.passes.support.agents.wgmmas import Wgmma, wgmmas
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import erase, ops_in
from lowtide.passes.support.problem.kernels import cluster_shape, launches_of
from lowtide.targets import Target

MODULE_NAME = "kernels"
_SMEM_SYMBOL = "shared_memory"
_SHARED = 3  # address space
_FEW_REGISTERS = 128  # the most that each thread can have if two CTAs of 256 threads share an SM
_PTX_OF_MAPS = 83  # the version that has tensormap.replace (PTX ISA, "tensormap.replace", "PTX ISA Notes")

_HANDLERS: dict[type, Callable[[Context, Any], None]] = {
    tile.GridDependencyWaitOp: barriers.lower_grid_dependency_wait,
    tile.LaunchDependentsOp: barriers.lower_launch_dependents,
    memref.SubViewOp: control.lower_subview,
    tile.TakeRowsOp: control.lower_take_rows,
    memref.LoadOp: control.lower_load,
    tile.MatrixExtentOp: control.lower_matrix_extent,
    tile.NextWorkTileOp: work_tiles.lower_next_work_tile,
    tile.ViewOp: control.lower_view,
    memref.DimOp: control.lower_dim,
    tile.AwaitWaveOp: work_tiles.lower_await_wave,
    tile.AwaitArrivalOp: work_tiles.lower_await_arrival,
    tile.IsLateOp: work_tiles.lower_is_late,
    tile.SendShardOp: sends.lower_send_shard,
    sm.RingOp: control.lower_ring,
    sm.RingSlotOp: control.lower_ring_slot,
    sm.RingAdvanceOp: control.lower_ring_advance,
    sm.RingReuseOp: control.lower_ring_reuse,
    sm.PrefixOp: control.lower_prefix,
    sm.AllocOp: control.lower_alloc,
    sm.BarrierOp: barriers.lower_barrier,
    sm.CpAsyncOp: copies.lower_cp_async,
    sm.CpAsyncCommitOp: barriers.lower_cp_async_commit,
    sm.CpAsyncWaitOp: barriers.lower_cp_async_wait,
    sm.LdmatrixOp: matrices.lower_ldmatrix,
    sm.StoreSharedOp: copies.lower_store_shared,
    sm.LoadSharedOp: copies.lower_load_shared,
    sm.LoadGlobalOp: global_accesses.lower_load_global,
    sm.LoadScalesOp: scales.lower_load_scales,
    sm.StoreGlobalOp: global_accesses.lower_store_global,
    sm.SplatOp: compute.lower_splat,
    sm.MmaSyncOp: mma_sync.lower_mma_sync,
    sm.ExtractOp: compute.lower_extract,
    sm.StackOp: compute.lower_stack,
    sm.MapOp: compute.lower_map,
    sm.MaxAbsOp: maxima.lower_max_abs,
    sm.RaiseMaxOp: maxima.lower_raise_max,
    sm.ReduceOp: reductions.lower_reduce,
    sm.StoreReducedOp: reductions.lower_store_reduced,
    sm.UnpackWeightsOp: weights.lower_unpack_weights,
    sm.MbarriersOp: roles.lower_mbarriers,
    sm.RoleInstanceOp: roles.lower_role_instance,
    sm.MbarrierWaitOp: roles.lower_mbarrier_wait,
    sm.MbarrierArriveOp: roles.lower_mbarrier_arrive,
    sm.CpAsyncArriveOp: roles.lower_cp_async_arrive,
    sm.ClusterBarrierOp: lambda context, op: lower_cluster_barrier(),
    sm.TmaLoadOp: tma.lower_tma_load,
    sm.ZeroRowsOp: zero_rows.lower_zero_rows,
    sm.TmaStoreOp: tma_stores.lower_tma_store,
    sm.TmaStoreWaitOp: tma_stores.lower_tma_store_wait,
    sm.FenceProxyAsyncOp: tma_stores.lower_fence_proxy_async,
    sm.WgmmaOp: wgmma.lower_wgmma,
    sm.WgmmaPromoteOp: wgmma.lower_wgmma_promote,
    sm.MmaWaitOp: wgmma.lower_mma_wait,
    sm.MmaWaitRowsOp: wgmma.lower_mma_wait_rows,
    tile.PrepareOp: prepare.lower_prepare,
    tile.FinishOp: finish.lower_finish,
    sm.MakeMapsOp: list_maps.lower_make_maps,
    sm.ListedMapOp: list_maps.lower_listed_map,
    tile.StorePartialOp: partial_sums.lower_store_partial,
    tile.AddPartialsOp: partial_sums.lower_add_partials,
    tile.SumSharesOp: partial_sums.lower_sum_shares,
    tile.SemaphoreArriveOp: partial_sums.lower_semaphore_arrive,
    tile.SemaphoreWaitOp: partial_sums.lower_semaphore_wait,
    tile.SemaphoreLeaveOp: partial_sums.lower_semaphore_leave,
}
_REGION_HANDLERS: dict[type, Callable[[Context, Any, control.LowerBlock], None]] = {
    tile.WorkTilesOp: work_tiles.lower_work_tiles,
    scf.ForOp: control.lower_loop,
    scf.IfOp: control.lower_if,
    sm.RolesOp: roles.lower_roles,
}


@dataclass(frozen=True)
class ConvertSmToNvvm(Pass):
    """Turns every tile.kernel into a gpu.func, and its launches with it."""

    name: ClassVar[str] = "convert-sm-to-nvvm"
    needs: ClassVar[Level] = Level.EPILOGUE
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> None:
        kernels = walk(module, tile.KernelOp)
        if not kernels:
            return
        with ir.InsertionPoint(module.body):
            gpu_module = _gpu_module(target, _ptx_feature(module, target))
        for kernel in kernels:
            own = launches_of(module, kernel)
            passed = [passed_for(argument) for argument in kernel.body.blocks[0].arguments]
            with kernel.operation.location:
                _convert_kernel(gpu_module, kernel, passed, _threads(kernel, own), _cluster(own), target)
            for launch in own:
                pass_parts(launch, passed)
            erase(kernel)


def _threads(kernel: tile.KernelOp, launches: list[tile.LaunchOp]) -> int:
    """Threads per CTA, from the kernel's launches."""
    if not launches:
        raise Refusal(kernel, "is never launched, so its number of threads is unknown [never-launched]")
    threads = [launch.threads.value for launch in launches]
    for launch, count in zip(launches, threads, strict=True):
        if count != threads[0]:
            raise Refusal(
                launch,
                f"launches {count} threads per CTA, an earlier launch of the kernel {threads[0]} [launched-threads]",
            )
    return threads[0]


def _cluster(launches: list[tile.LaunchOp]) -> tuple[int, int]:
    """The shape of a cluster, from the kernel's launches."""
    shapes = [cluster_shape(launch.cluster) for launch in launches]
    for launch, shape in zip(launches, shapes, strict=True):
        if shape != shapes[0]:
            raise Refusal(
                launch,
                f"launches clusters of {list(shape)}, an earlier launch of the kernel {list(shapes[0])}"
                " [launched-clusters]",
            )
    return shapes[0]


def _ptx_feature(module: ir.Module, target: Target) -> str:
    """The least PTX version that knows all mma instructions of the module: the target's, or a later one."""
    products = [*walk(module, sm.MmaSyncOp), *wgmmas(module)]
    of_maps = [_PTX_OF_MAPS] * bool(walk(module, sm.MakeMapsOp))
    return f"+ptx{max([target.ptx_version, *of_maps, *map(_ptx_version, products)])}"


def _ptx_version(op: sm.MmaSyncOp | Wgmma) -> int:
    try:
        return tiled_mma_of(op.mma).atom.ptx_version
    except (ScheduleError, TargetError) as error:
        raise Refusal(op, str(error)) from error


def _gpu_module(target: Target, ptx_feature: str) -> ir.Block:
    """The gpu.module for the target, with the symbol of dynamic shared memory; gives its block."""
    options = f'O = 3, chip = "{target.chip}", features = "{ptx_feature}"'
    module = gpu.GPUModuleOp(MODULE_NAME, targets=ir.ArrayAttr.get([ir.Attribute.parse(f"#nvvm.target<{options}>")]))
    with ir.InsertionPoint(module.bodyRegion.blocks.append()):
        llvm.GlobalOp(
            ir.Type.parse("!llvm.array<0 x i8>"),
            _SMEM_SYMBOL,
            ir.Attribute.parse("#llvm.linkage<external>"),
            addr_space=_SHARED,
            alignment=1024,
        )
    return module.bodyRegion.blocks[0]


def _convert_kernel(
    gpu_module: ir.Block,
    kernel: tile.KernelOp,
    passed: list[Passed],
    threads: int,
    cluster: tuple[int, int],
    target: Target,
) -> None:
    entry = kernel.body.blocks[0]
    by_argument = [argument_types(x.type, parts) for x, parts in zip(entry.arguments, passed, strict=True)]
    types = [type_ for own in by_argument for type_ in own]
    with ir.InsertionPoint(gpu_module):
        function = ir.Operation.create(
            "gpu.func",
            attributes={
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
                "sym_name": kernel.sym_name,
                "gpu.kernel": ir.UnitAttr.get(),
                "known_block_size": ir.DenseI32ArrayAttr.get([threads, 1, 1]),
                # By default one CTA per SM is enough: ptxas must not spill to save registers.
                "nvvm.minctasm": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _ctas_per_sm(kernel)),
                **_registers_at_entry(kernel, threads, target),
                **_cluster_size(cluster),
                **tensor_map_positions(entry, by_argument),
                **{name: kernel.attributes[name] for name in ("schedule", "problem") if name in kernel.attributes},
            },
            regions=1,
        )
    body = function.regions[0].blocks.append(*types)
    build = Builder(ir.IntegerType.get_signless(32), constants_in=body)
    with ir.InsertionPoint(body):
        smem = llvm.AddressOfOp(llvm.PointerType.get(_SHARED), _SMEM_SYMBOL).res
        tid, place = nvvm.ThreadIdXOp(build.i32).result, ClusterPlace.of(build, cluster)
        context = Context(build, tid, threads, target.registers_per_thread, smem, place)
        context.promotes = _adds_in_registers(kernel)
        context.second_half_first = _starts_in_the_middle(kernel, threads, target)
        bind_arguments(context, entry, passed, list(body.arguments))
        _lower_block(context, entry)
        gpu.ReturnOp([])
    Timing.together(map(Timing.of, walk(kernel, scf.ForOp))).write(function)


def _ctas_per_sm(kernel: tile.KernelOp) -> int:
    """CTAs that must fit on an SM at once."""
    return int(ir.IntegerAttr(kernel.attributes["ctas_per_sm"]).value) if "ctas_per_sm" in kernel.attributes else 1


def _starts_in_the_middle(kernel: tile.KernelOp, threads: int, target: Target) -> bool:
    """Whether FMAs start with the second half of a thread's rows: if copies of A do not pass through registers, and
    either those of B do or a thread has few registers. ptxas then assigns the sums to registers with fewer bank
    conflicts: in nn, none of the 2048 FMAs of a K step reads three registers of one bank, in place of 77. On an H200,
    4096³ has 0.949 of cuBLASLt's speed in nn and 1.006 in nt, in place of 0.886 and 0.990. But 3000³ in nt, where a
    thread has more registers, would have 0.965 in place of 1.044.
    """
    if "schedule" not in kernel.attributes:
        return False
    mainloop = Schedule.of(kernel.attributes["schedule"]).mainloop
    through_registers = [one.copy in STAGED_COPIES for one in (mainloop.a, mainloop.b)]
    has_few = target.registers_per_sm // (threads * _ctas_per_sm(kernel)) <= _FEW_REGISTERS
    return not through_registers[0] and (through_registers[1] or has_few)


def _adds_in_registers(kernel: tile.KernelOp) -> bool:
    """Whether threads add the sums of each K step to those of the steps before."""
    loops = walk(kernel, scf.ForOp)
    return any(isinstance(op, (sm.MapOp, sm.WgmmaPromoteOp)) for loop in loops for op in ops_in(loop.body))


def _registers_at_entry(kernel: tile.KernelOp, threads: int, target: Target) -> dict[str, ir.Attribute]:
    """If roles change their registers, ptxas must know the number at entry (its advisory C7508)."""
    if not any(any(op.registers) for op in walk(kernel, sm.RolesOp)):
        return {}
    count = min(registers_at_entry(threads, target), target.registers_per_thread)
    return {"nvvm.maxnreg": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)}


def _cluster_size(cluster: tuple[int, int]) -> dict[str, ir.Attribute]:
    """Clusters are of consecutive CTAs, in one dimension, as the grid is."""
    size = cluster[0] * cluster[1]
    return {"nvvm.cluster_dim": ir.DenseI32ArrayAttr.get([size, 1, 1])} if size > 1 else {}


def _lower_block(context: Context, block: ir.Block) -> None:
    """Lowers every op but the terminator, at the current insertion point."""
    for op in ops_in(block):
        try:
            with op.operation.location:
                if type(op) in _REGION_HANDLERS:
                    _REGION_HANDLERS[type(op)](context, op, _lower_block)
                elif type(op) in _HANDLERS:
                    _HANDLERS[type(op)](context, op)
                elif op.operation.name.startswith("arith."):
                    control.lower_arith(context, op)
                else:
                    raise Refusal(op, "has no counterpart in one thread's program [no-counterpart]")
        except (ScheduleError, TargetError) as error:
            raise Refusal(op, str(error)) from error
