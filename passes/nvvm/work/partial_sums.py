"""Partial sums and semaphores in one thread's program.

A slot holds the registers of a fragment unchanged: register r of thread t is vector r · threads + t, so that the
threads of a warp access neighbouring addresses.
"""

from collections.abc import Iterator
from math import prod

from mlir import ir
from mlir.dialects import llvm, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import k_division
from lowtide.dialects.tile.division import Cut
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.agents.barriers import lower_barrier
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.unrolling import keep_rolled
from lowtide.passes.nvvm.thread.values import Fragment, GlobalMatrix, regroup, vector_type
from lowtide.passes.support.ir.arithmetic import add
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.kernels import work_tiles_around
from lowtide.targets import coordinates
from lowtide.targets.tv import extents

_ACCESS_BITS = 128  # of the widest load or store of one thread
_SLOTS_AT_ONCE = 8  # slots whose additions LLVM and ptxas unroll
_OTHERS = 32  # registers that a consumer needs beside its sums and the values of a slot


def lower_store_partial(context: Context, op: tile.StorePartialOp) -> None:
    """Stores this thread's registers, one share after the other, in the widest vectors that divide a share."""
    fragment = _wide(context, context.fragment(op.value), 1 if op.shares is None else op.shares.value)
    start = _slot(context, op.partials, fragment, context.scalar(op.slot))
    registers = [register for share in _shares(op, fragment) for register in share]
    for register, pointer in zip(registers, _places(context, fragment, start), strict=True):
        llvm.StoreOp(register, pointer, alignment=_bytes(fragment))


def _shares(op: tile.StorePartialOp, fragment: Fragment) -> list[list[ir.Value]]:
    """The registers of each share of the columns. Refuses a register with columns of two shares."""
    shares = 1 if op.shares is None else op.shares.value
    columns = fragment.type.shape[1]
    if columns % shares:
        raise Refusal(
            op, f"divides {columns} columns into {shares} shares; take a number that divides them [shares-columns]"
        )
    owner = coordinates(tv_of(fragment.type.tv), fragment.type.shape)[..., 1] // (columns // shares)
    owner = owner.reshape(len(owner), -1, fragment.width)
    if (owner != owner[:1, :, :1]).any():
        raise Refusal(
            op,
            f"divides the registers of a thread between {shares} shares of columns; take fewer shares"
            " [shares-registers]",
        )
    found: list[list[ir.Value]] = [[] for _ in range(shares)]
    for register, share in zip(fragment.registers, owner[0, :, 0].tolist(), strict=True):
        found[share].append(register)
    return found


def lower_sum_shares(context: Context, op: tile.SumSharesOp) -> None:
    """Does all loads, then adds in the order of the slots. Refuses a number of slots that is not a constant."""
    build, type_, count = context.build, op.result.type, constant_of(op.count)
    if count is None or count < 1:
        raise Refusal(op, "adds a number of shares that is not a constant; take that of the parts [shares-constant]")
    values = prod(extents(tv_of(type_.tv))) // context.threads
    width = _width(context, values, type_.element_type)
    like = Fragment((op.result,) * (values // width), width, type_)  # a share's registers
    whole = Fragment(like.registers * op.shares.value, width, type_)  # a slot's
    loaded = []
    for number in range(count):
        start = _slot(context, op.partials, whole, build.add(context.scalar(op.first), number))
        own = build.mul(context.scalar(op.share), len(like.registers) * _bytes(like) * context.threads)
        places = _places(context, like, element_pointer(start, own, build.i8))
        vector = vector_type(width, type_.element_type)
        loaded.append([llvm.LoadOp(vector, place, alignment=_bytes(like)).result for place in places])
    sums = loaded[0]
    for registers in loaded[1:]:
        sums = [add(x, y) for x, y in zip(sums, registers, strict=True)]
    context.values[op.result] = Fragment(tuple(sums), width, type_)


def lower_add_partials(context: Context, op: tile.AddPartialsOp) -> None:
    """Loops over the slots, and adds registers element by element.

    LLVM and ptxas unroll the loop, and load several slots before they add the first. If a thread without roles cannot
    hold them, it spills; if it can, it is faster (H100: 10.2 and 10.7 µs at 256×256×8192 bf16 by mma.sync). A consumer
    spills if it cannot hold one slot beside its sums (256×112 in 3 parts, with run-time extents). They unroll the whole
    loop only if the count is a constant. So if it is a run-time value, a second loop serves tiles that have all their
    parts, with a constant count (H200: 5.2 µs instead of 6.8 at 1×320×1664 bf16 in 8 parts).
    """
    build, fragment = context.build, _wide(context, context.fragment(op.value))
    count, usual = context.scalar(op.count), _usual_count(op)
    if usual is None or constant_of(count) is not None:
        registers = _added(context, op, fragment, count)
    else:
        types = [register.type for register in fragment.registers]
        branch = scf.IfOp(build.eq(count, usual), types, has_else=True)
        for block, number in ((branch.then_block, build.constant(usual)), (branch.else_block, count)):
            with ir.InsertionPoint(block):
                scf.YieldOp(_added(context, op, fragment, number))
        registers = list(branch.results)
    context.values[op.result] = Fragment(tuple(registers), fragment.width, op.result.type)


def _usual_count(op: tile.AddPartialsOp) -> int | None:
    """The number of slots of a tile that has all its parts: all but one of them. None if K is not cut in parts."""
    work = work_tiles_around(op)
    division = None if work is None else k_division(work)
    return division.parts - 1 if division is not None and division.cut is Cut.parts else None


def _added(context: Context, op: tile.AddPartialsOp, fragment: Fragment, count: ir.Value) -> list[ir.Value]:
    """The registers of the fragment plus those of `count` slots."""
    build = context.build
    loop = scf.ForOp(build.constant(0), count, build.constant(1), list(fragment.registers))
    own = len(fragment.registers) * _bytes(fragment) // 4
    held = own * (1 + _SLOTS_AT_ONCE) if context.barrier == 0 else 2 * own + _OTHERS
    if held > context.registers:
        keep_rolled(loop)
    with ir.InsertionPoint(loop.body):
        slot = build.add(context.scalar(op.first), loop.induction_variable)
        start = _slot(context, op.partials, fragment, slot)
        type_ = vector_type(fragment.width, fragment.type.element_type)
        sums = [
            add(sum_, llvm.LoadOp(type_, pointer, alignment=_bytes(fragment)).result)
            for sum_, pointer in zip(loop.inner_iter_args, _places(context, fragment, start), strict=True)
        ]
        scf.YieldOp(sums)
    return list(loop.results)


def lower_semaphore_arrive(context: Context, op: tile.SemaphoreArriveOp) -> None:
    """A barrier, then a release by one thread, which covers the writes of all."""
    lower_barrier(context, op)
    with _one_thread(context):
        sm.PtxSemaphoreArriveOp(_semaphore(context, op))
        scf.YieldOp([])


def lower_semaphore_wait(context: Context, op: tile.SemaphoreWaitOp) -> None:
    """One thread acquires; the barrier after it makes the other CTAs' writes visible to all threads."""
    pointer = _semaphore(context, op)
    with _one_thread(context):
        sm.PtxSemaphoreWaitOp(pointer, context.scalar(op.count))
        if op.reset:
            llvm.StoreOp(context.build.constant(0), pointer, alignment=4)
        scf.YieldOp([])
    lower_barrier(context, op)


def lower_semaphore_leave(context: Context, op: tile.SemaphoreLeaveOp) -> None:
    """The thread that has waited leaves; nobody waits for it."""
    build = context.build
    with _one_thread(context):
        sm.PtxSemaphoreLeaveOp(_semaphore(context, op), build.sub(context.scalar(op.count), 1))
        scf.YieldOp([])


def _one_thread(context: Context) -> ir.InsertionPoint:
    """A point in a branch that only the first thread takes."""
    return ir.InsertionPoint(scf.IfOp(context.build.eq(context.tid, 0)).then_block)


def _semaphore(context: Context, op: tile.SemaphoreArriveOp | tile.SemaphoreWaitOp | tile.SemaphoreLeaveOp) -> ir.Value:
    return element_pointer(_pointer(context, op.semaphores), context.scalar(op.index), context.build.i32)


def _pointer(context: Context, workspace: ir.Value) -> ir.Value:
    matrix = context.get(workspace)
    assert isinstance(matrix, GlobalMatrix)
    return matrix.pointer


def _wide(context: Context, fragment: Fragment, shares: int = 1) -> Fragment:
    """The fragment in registers as wide as one access; their width divides each of its shares."""
    count = len(fragment.registers) * fragment.width // shares
    return regroup(fragment, _width(context, count, fragment.type.element_type))


def _width(context: Context, count: int, element: ir.Type) -> int:
    """Elements of the widest access that divides `count` elements; 1 if sums are promoted.

    The registers of a wide access are neighbours, so that one in four of the additions to them reads both its sums
    from one bank of registers: it takes a cycle more. H200: whole tiles took 6 % longer.
    """
    width: int = 1 if context.promotes else _ACCESS_BITS // element_bits(element)
    while count % width:
        width //= 2
    return width


def _bytes(fragment: Fragment) -> int:
    return fragment.width * element_bits(fragment.type.element_type) // 8


def _slot(context: Context, partials: ir.Value, fragment: Fragment, slot: ir.Value) -> ir.Value:
    """This thread's first vector in a slot, in 64 bits since all slots together may be large."""
    build = context.build
    size = len(fragment.registers) * _bytes(fragment) * context.threads
    start = build.mul(build.zext(slot, build.i64), size)
    slot_pointer = element_pointer(_pointer(context, partials), start, build.i8)
    return element_pointer(slot_pointer, build.mul(context.tid, _bytes(fragment)), build.i8)


def _places(context: Context, fragment: Fragment, start: ir.Value) -> Iterator[ir.Value]:
    """The address of each register."""
    for number in range(len(fragment.registers)):
        yield element_pointer(start, number * context.threads * _bytes(fragment), context.build.i8)
