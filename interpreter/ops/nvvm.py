"""The nvvm and gpu dialects: each op is written as PTX. interpreter/ptx/ has the semantics of the instructions.

An address in the shared memory of the CTA (space 3) is the same in that of the cluster (space 7); `mapa` gives an
address in the window of another CTA.
"""

import re

from lowtide.elements import element_of_ir
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import mbarrier_objects
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.ops.instructions import Writer, enter, listed, numbers_of_groups, shape_of, word
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.types import Pointer, Vector
from lowtide.interpreter.ptx.special_registers import SPECIAL

OPS = OpTable()

_CLUSTER_SPACE = 7
_PTX_TYPES = {"f32": "f32", "f64": "f64", "f16": "f16", "i32": "s32"}


def _flag(op: DecodedOp, attribute: str, word: str) -> str:
    return f".{word}" if op.attributes.get(attribute, False) else ""


# The special registers of each dimension.
_OF_DIMENSION = {"thread_id": "tid", "block_id": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}


def _read(register: str) -> Writer:
    return lambda op: f"mov.b64 $d, %{register}.{op.attributes['dimension'].rstrip('>').split()[-1]};"


# Copies ---------------------------------------------------------------------------------------------------------------


def _cp_async(op: DecodedOp) -> str:
    used = ", $2" if len(op.operands) > 2 else ""
    return f"cp.async.{word(op, 'modifier')}.shared.global [$0], [$1], {op.attributes['size']}{used};"


def _tma_load(op: DecodedOp) -> str:
    destination, map, coordinates, barrier, im2col, mask, hint, predicate = numbers_of_groups(op)
    further = f"{'.multicast::cluster' * len(mask)}{'.L2::cache_hint' * len(hint)}"
    to = "cta" if op.attributes.get("isCTAOnly", False) else "cluster"
    return (
        f"{_guard(predicate)}cp.async.bulk.tensor.{len(coordinates)}d.shared::{to}.global.{_mode(op)}"
        f".mbarrier::complete_tx::bytes{further} [{destination[0]}], [{map[0]}, {{{', '.join(coordinates)}}}], "
        f"[{barrier[0]}]{''.join(f', {each}' for each in (*im2col, *mask, *hint))};"
    )


def _tma_store(op: DecodedOp) -> str:
    map, source, coordinates, hint, predicate = numbers_of_groups(op)
    return (
        f"{_guard(predicate)}cp.async.bulk.tensor.{len(coordinates)}d.global.shared::cta.{_mode(op)}.bulk_group"
        f"{'.L2::cache_hint' * len(hint)} [{map[0]}, {{{', '.join(coordinates)}}}], [{source[0]}]"
        f"{''.join(f', {each}' for each in hint)};"
    )


def _mode(op: DecodedOp) -> str:
    return word(op, "mode") or "tile"


def _guard(predicate: list[str]) -> str:
    return f"@{predicate[0]} " if predicate else ""


# Matrices -------------------------------------------------------------------------------------------------------------


def _matrices(op: DecodedOp, count: int) -> str:
    trans = ".trans" if word(op, "layout") == "col" else ""
    return f"matrix.sync.aligned.{shape_of(op)}.x{count}{trans}.shared.{word(op, 'eltType')}"


def _ldmatrix(op: DecodedOp) -> str:
    count = op.attributes["num"]
    return f"ld{_matrices(op, count)} {listed('$d', 0, count)}, [$0];"


def _stmatrix(op: DecodedOp) -> str:
    count = len(op.operands) - 1
    return f"st{_matrices(op, count)} [$0], {listed('$', 1, count)};"


def _mma(op: DecodedOp) -> str:
    """A by rows and B by columns, the only layout; the table refuses others."""
    a, b = (word(op, f"multiplicand{side}PtxType") for side in "AB")
    layouts = ".".join(word(op, f"layout{side}") for side in "AB")
    (result,) = op.result_types
    first = result.elements[0]
    element = first.element if isinstance(first, Vector) else first
    d = _PTX_TYPES[element.name]
    satfinite = ".satfinite" if word(op, "intOverflowBehavior") == "satfinite" else ""
    groups = ", ".join(f"{{{', '.join(group)}}}" for group in numbers_of_groups(op))
    return (
        f"mma.sync.aligned.{shape_of(op)}.{layouts}{satfinite}.{d}.{a}.{b}.{d} "
        f"{listed('$d', 0, len(result.elements))}, {groups};"
    )


def _convert_to_f8(op: DecodedOp) -> str:
    """The first operand becomes the upper one."""
    match = re.search(r"f8\w+", str(op.attributes["dstTy"]))
    row = None if match is None else element_of_ir(match[0])
    if row is None or word(op, "sat") != "satfinite":
        raise InterpreterError(
            f"{op.describe()}: only a clamping conversion to {op.attributes['dstTy']} is interpreted [convert-clamps]"
        )
    return f"cvt.rn.satfinite.{row.ptx}x2.f32 $d, $0, $1;"


def _convert_from_f8(op: DecodedOp) -> str:
    """Both numbers of a register."""
    row = element_of_ir(str(op.attributes["srcType"]))
    if row is None:
        raise InterpreterError(
            f"{op.describe()}: a conversion of {op.attributes['srcType']} is not interpreted [convert-from-f8]"
        )
    return f"cvt.rn.f16x2.{row.ptx}x2 $d, $0;"


# Barriers -------------------------------------------------------------------------------------------------------------


def _barrier(op: DecodedOp) -> str:
    """A barrier of all threads, or of the number that the op gives."""
    identifier, threads, reduction = numbers_of_groups(op)
    if reduction:
        raise InterpreterError(
            f"{op.describe()}: a barrier with a reduction is not interpreted; use a plain one [barrier-reduction]"
        )
    return f"bar.sync {', '.join([*(identifier or ['0']), *threads])};"


def _space(op: DecodedOp) -> str:
    type = op.operand_types[0]
    return "shared::cluster" if isinstance(type, Pointer) and type.space == _CLUSTER_SPACE else "shared::cta"


def _mbarrier_init(op: DecodedOp) -> str:
    return f"{_guard(['$2'] if len(op.operands) > 2 else [])}mbarrier.init.shared::cta.b64 [$0], $1;"


def _arrive(op: DecodedOp) -> str:
    state, count = "$d" if op.results else "_", ", $1" if len(op.operands) > 1 else ""
    return f"mbarrier.arrive{_flag(op, 'relaxed', 'relaxed')}.{_space(op)}.b64 {state}, [$0]{count};"


def _arrive_expecting(op: DecodedOp) -> str:
    state, guard = "$d" if op.results else "_", _guard(["$2"] if len(op.operands) > 2 else [])
    return f"{guard}mbarrier.arrive.expect_tx{_flag(op, 'relaxed', 'relaxed')}.{_space(op)}.b64 {state}, [$0], $1;"


def _arrive_by_copies(op: DecodedOp) -> str:
    return f"cp.async.mbarrier.arrive{_flag(op, 'noinc', 'noinc')}.{_space(op)}.b64 [$0];"


def _fence_proxy(op: DecodedOp) -> str:
    return f"fence.proxy.{word(op, 'kind').replace('.shared', '.shared::cta')};"


@OPS.implements("nvvm.mbarrier.try_wait.parity")
def try_wait_parity(state: AgentState, op: DecodedOp) -> Steps:
    """The only op that is not an instruction but a loop of it, which tries until the phase has completed."""
    yield from mbarrier_objects.wait_parity(state, op, *(state.values[slot] for slot in op.operands[:2]))


enter(
    OPS,
    {
        **{f"gpu.{name}": _read(register) for name, register in _OF_DIMENSION.items()},
        "gpu.lane_id": "mov.b64 $d, %laneid;",
        "gpu.barrier": "bar.sync 0;",
        # %cluster_ctarank is cluster.ctarank here.
        **{
            f"nvvm.read.ptx.sreg.{name[1:].replace('cluster_', 'cluster.')}": f"mov.b32 $d, {name};"
            for name in SPECIAL
            if name[0] == "%"
        },
        "nvvm.read.ptx.sreg.globaltimer.lo": "mov.b32 $d, %globaltimer_lo;",
        "nvvm.read.ptx.sreg.warpsize": "mov.b32 $d, WARP_SZ;",
        "nvvm.cp.async.shared.global": _cp_async,
        "nvvm.cp.async.commit.group": "cp.async.commit_group;",
        "nvvm.cp.async.wait.group": lambda op: f"cp.async.wait_group {op.attributes['n']};",
        "nvvm.cp.async.mbarrier.arrive": _arrive_by_copies,
        "nvvm.cp.async.bulk.tensor.shared.cluster.global": _tma_load,
        "nvvm.cp.async.bulk.tensor.global.shared.cta": _tma_store,
        "nvvm.cp.async.bulk.commit.group": "cp.async.bulk.commit_group;",
        "nvvm.cp.async.bulk.wait_group": lambda op: (
            f"cp.async.bulk.wait_group{_flag(op, 'read', 'read')} {op.attributes['group']};"
        ),
        "nvvm.prefetch": "prefetch.L1 [$0];",
        "nvvm.ldmatrix": _ldmatrix,
        "nvvm.stmatrix": _stmatrix,
        "nvvm.mma.sync": _mma,
        "nvvm.convert.f32x2.to.f8x2": _convert_to_f8,
        "nvvm.convert.f8x2.to.f16x2": _convert_from_f8,
        "nvvm.shfl.sync": lambda op: f"shfl.sync.{word(op, 'kind')}.b32 $d, $1, $2, $3, $0;",
        "nvvm.elect.sync": lambda op: f"elect.sync _|$d, {'$0' if op.operands else -1};",
        "nvvm.bar.warp.sync": "bar.warp.sync $0;",
        "nvvm.barrier0": "bar.sync 0;",
        "nvvm.barrier": _barrier,
        "nvvm.cluster.arrive": "barrier.cluster.arrive;",
        "nvvm.cluster.arrive.relaxed": "barrier.cluster.arrive.relaxed;",
        "nvvm.cluster.wait": "barrier.cluster.wait;",
        "nvvm.mapa": "mapa.shared::cluster.u32 $d, $0, $1;",
        "nvvm.fence.proxy": _fence_proxy,
        "nvvm.fence.proxy.acquire": lambda op: f"fence.proxy.tensormap::generic.acquire.{word(op, 'scope')} [$0], 128;",
        "nvvm.fence.mbarrier.init": "fence.mbarrier_init.release.cluster;",
        "nvvm.mbarrier.init": _mbarrier_init,
        "nvvm.mbarrier.arrive": _arrive,
        "nvvm.mbarrier.arrive.expect_tx": _arrive_expecting,
        "nvvm.mbarrier.expect_tx": "mbarrier.expect_tx.shared::cta.b64 [$0], $1;",
        "nvvm.griddepcontrol": lambda op: f"griddepcontrol.{word(op, 'kind')};",
        "nvvm.setmaxregister": lambda op: (
            f"setmaxnreg.{word(op, 'action')[:3]}.sync.aligned.u32 {op.attributes['regCount']};"
        ),
        "nvvm.wgmma.fence.aligned": "wgmma.fence.sync.aligned;",
        "nvvm.wgmma.commit.group.sync.aligned": "wgmma.commit_group.sync.aligned;",
        "nvvm.wgmma.wait.group.sync.aligned": lambda op: f"wgmma.wait_group.sync.aligned {op.attributes['group']};",
    },
)
