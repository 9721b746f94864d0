"""tile.send_shard in one thread's program: copies of the rank's shard to its peers, each followed by a flag.

The CTAs take the rows of the shard in turn, and the threads of a CTA the units of a row: no number is larger than an
extent, and none is divided. A barrier orders the stores of a CTA before its first thread counts the CTA. Each count
acquires those before it. So the release of the flag covers the stores of all CTAs (PTX ISA, "Causality order").
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import llvm, nvvm, scf

from lowtide.dialects import sm, tile
from lowtide.passes.nvvm.agents.barriers import first_of, lower_barrier
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.values import GlobalMatrix, vector_type
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.problem.element_types import element_bits

_HALF = 32  # bits of an element of `peers`


def lower_send_shard(context: Context, op: tile.SendShardOp) -> None:
    """A loop over the peers. It begins with the one that needs the shard first."""
    build = context.build
    a, peers, turn, sent = (context.get(each) for each in (op.a, op.peers, op.turn, op.sent))
    assert isinstance(a, GlobalMatrix) and isinstance(peers, GlobalMatrix)
    assert isinstance(turn, GlobalMatrix) and isinstance(sent, GlobalMatrix)
    rank, epoch = (_word(build, element_pointer(turn.pointer, at, build.i32)) for at in range(2))
    ranks = a.extents[0] if isinstance(a.extents[0], ir.Value) else build.constant(a.extents[0])
    shard = element_pointer(a.pointer, build.mul(build.zext(rank, build.i64), a.strides[0]), a.element)
    last = build.sub(nvvm.GridDimXOp(build.i32).result, 1)
    with _loop(build, build.constant(1), ranks, build.constant(1)) as step:
        behind = build.sub(build.add(rank, ranks), step)
        peer = build.select(build.ult(behind, ranks), behind, build.sub(behind, ranks))
        row = element_pointer(peers.pointer, build.mul(build.zext(peer, build.i64), peers.strides[0]), build.i32)
        place, flag = (_address(build, element_pointer(row, 2 * which, build.i32)) for which in range(2))
        branch = scf.IfOp(build.ne(place, build.constant(0, build.i64)))
        with ir.InsertionPoint(branch.then_block):
            _copy(context, a, shard, llvm.IntToPtrOp(a.pointer.type, place).result, op.unit.value)
            lower_barrier(context, op)
            alone = first_of(context, context.threads)
            with ir.InsertionPoint(alone.then_block):
                counter = element_pointer(sent.pointer, build.zext(peer, build.i64), build.i32)
                sm.PtxTellLastOp(counter, last, llvm.IntToPtrOp(a.pointer.type, flag).result, epoch)
                scf.YieldOp([])
            scf.YieldOp([])


@contextmanager
def _loop(build: Builder, first: ir.Value, end: ir.Value, step: ir.Value) -> Iterator[ir.Value]:
    loop = scf.ForOp(first, end, step)
    with ir.InsertionPoint(loop.body):
        yield loop.induction_variable
        scf.YieldOp([])


def _copy(context: Context, a: GlobalMatrix, source: ir.Value, target: ir.Value, unit: int) -> None:
    """Copy this thread's units of a shard of A. Rows are as far apart in the target as in the source."""
    build, count = context.build, unit * 8 // element_bits(a.element)
    rows, columns = (each if isinstance(each, ir.Value) else build.constant(each) for each in a.extents[1:])
    ctas, threads = nvvm.GridDimXOp(build.i32).result, build.constant(context.threads)
    with (
        _loop(build, nvvm.BlockIdXOp(build.i32).result, rows, ctas) as row,
        _loop(build, context.tid, build.udiv(columns, count), threads) as number,
    ):
        column = build.zext(build.mul(number, count), build.i64)
        offset = build.add(build.mul(build.zext(row, build.i64), a.strides[1]), column)
        start, to = (element_pointer(each, offset, a.element) for each in (source, target))
        value = llvm.LoadOp(vector_type(count, a.element), start, alignment=unit).result
        llvm.StoreOp(value, to, alignment=unit)


def _word(build: Builder, pointer: ir.Value) -> ir.Value:
    return llvm.LoadOp(build.i32, pointer, alignment=4).result


def _address(build: Builder, pointer: ir.Value) -> ir.Value:
    """An address from its lower and its higher 32 bits."""
    low, high = (build.zext(_word(build, element_pointer(pointer, at, build.i32)), build.i64) for at in range(2))
    return build.or_(low, build.shl(high, _HALF))
