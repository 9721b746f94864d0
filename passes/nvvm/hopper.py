"""Roles, mbarriers, TMA loads and wgmma of one thread's program."""

from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, llvm, scf, vector

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import layout_of, tv_of
from lowtide.passes.atoms import tiled_mma_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.control import LowerBlock
from lowtide.passes.nvvm.memory import element_pointer
from lowtide.passes.nvvm.values import Fragment, Pending, SharedBuffer, vector_type
from lowtide.passes.schedule_rules import MBARRIER_BYTES
from lowtide.targets import MmaAtom
from lowtide.targets.tv import extents

WARPGROUP = 128
_WAIT_TICKS = 10_000_000  # nanoseconds that one try_wait may sleep; it is tried again

# Matrix descriptors (PTX ISA, "Matrix Descriptor"), for rows of 128 bytes in the 128-byte swizzle.
_SWIZZLE_128B = 1 << 62
_ROWS_A_PERIOD = 8
_ROW_BYTES = 128
_LEADING_OFFSET = 1  # not used by swizzled layouts with K contiguous


def lower_roles(context: Context, op: sm.RolesOp, lower_block: LowerBlock) -> None:
    """One branch on the thread index for each role, in order; the chain is marked with the roles' names."""
    _lower_role(context, op, 0, 0, lower_block)


def _lower_role(context: Context, op: sm.RolesOp, position: int, first: int, lower_block: LowerBlock) -> None:
    """The role at `position`, whose threads begin at `first`, and in its else branch those that follow."""
    names = [ir.StringAttr(name).value for name in op.names]
    threads = 32 * op.warps[position]
    is_last = position == len(names) - 1
    if is_last:
        _lower_body(context, op, position, first, lower_block)
        return
    condition = context.emit.less(context.tid, first + threads)
    branch = scf.IfOp(condition, has_else=True)
    branch.operation.attributes["roles"] = ir.ArrayAttr.get([op.names[position], op.names[position + 1]])
    with ir.InsertionPoint(branch.then_block):
        _lower_body(context, op, position, first, lower_block)
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        _lower_role(context, op, position + 1, first + threads, lower_block)
        scf.YieldOp([])


def _lower_body(context: Context, op: sm.RolesOp, position: int, first: int, lower_block: LowerBlock) -> None:
    body = op.bodies[position].blocks[0]
    registers = op.registers[position]
    name = ir.StringAttr(op.names[position]).value
    if registers:
        _set_max_registers(registers, "decrease" if name == "producer" else "increase")
    own = arith.SubIOp(context.tid, context.emit.constant(first)).result if first else context.tid
    role = replace(context, tid=own, threads=32 * op.warps[position], elected=name == "producer", barrier=1 + position)
    if name != "producer":
        lower_block(role, body)
        return
    # One thread does all that a producer does.
    is_first = arith.CmpIOp(arith.CmpIPredicate.eq, own, context.emit.constant(0)).result
    single = scf.IfOp(is_first)
    with ir.InsertionPoint(single.then_block):
        lower_block(role, body)
        scf.YieldOp([])


def _set_max_registers(count: int, action: str) -> None:
    ir.Operation.create(
        "nvvm.setmaxregister",
        attributes={
            "regCount": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count),
            "action": ir.Attribute.parse(f"#nvvm<action {action}>"),
        },
    )


def lower_mbarriers(context: Context, op: sm.MbarriersOp) -> None:
    """Initialised by one thread, then made visible to the CTA and to the TMA unit."""
    if op.at is None:
        raise Refusal(op, "has no place in shared memory; run assign-smem-offsets first")
    emit = context.emit
    start = element_pointer(context.smem, int(op.at.value), emit.byte)
    is_first = arith.CmpIOp(arith.CmpIPredicate.eq, context.tid, emit.constant(0)).result
    arrivals = emit.constant(int(ir.IntegerAttr(op.arrivals).value))
    branch = scf.IfOp(is_first)
    with ir.InsertionPoint(branch.then_block):
        for i in range(op.result.type.count):
            pointer = element_pointer(start, MBARRIER_BYTES * i, emit.byte)
            ir.Operation.create("nvvm.mbarrier.init", operands=[pointer, arrivals])
        ir.Operation.create("nvvm.fence.mbarrier.init")
        scf.YieldOp([])
    ir.Operation.create("nvvm.barrier0")
    context.values[op.result] = start


def _barrier(context: Context, barriers: ir.Value, index: ir.Value) -> ir.Value:
    offset = context.emit.mul(context.scalar(index), MBARRIER_BYTES)
    return element_pointer(context.scalar(barriers), offset, context.emit.byte)


def lower_mbarrier_wait(context: Context, op: sm.MbarrierWaitOp) -> None:
    ticks = context.emit.constant(_WAIT_TICKS)
    pointer = _barrier(context, op.barriers, op.index)
    ir.Operation.create("nvvm.mbarrier.try_wait.parity", operands=[pointer, context.scalar(op.phase), ticks])


def lower_mbarrier_arrive(context: Context, op: sm.MbarrierArriveOp) -> None:
    """By the producer's one thread, or by the first thread of each consumer warpgroup."""
    emit = context.emit
    pointer = _barrier(context, op.barriers, op.index)

    def arrive() -> None:
        if op.bytes is None:
            ir.Operation.create("nvvm.mbarrier.arrive", results=[emit.i64], operands=[pointer])
        else:
            size = emit.constant(int(ir.IntegerAttr(op.bytes).value))
            ir.Operation.create("nvvm.mbarrier.arrive.expect_tx", operands=[pointer, size])

    if context.elected:
        arrive()
        return
    lane = arith.AndIOp(context.tid, emit.constant(WARPGROUP - 1)).result
    branch = scf.IfOp(arith.CmpIOp(arith.CmpIPredicate.eq, lane, emit.constant(0)).result)
    with ir.InsertionPoint(branch.then_block):
        arrive()
        scf.YieldOp([])


def lower_tma_load(context: Context, op: sm.TmaLoadOp) -> None:
    """The coordinates go innermost first."""
    buffer = context.buffer(op.destination)
    cluster = llvm.AddrSpaceCastOp(ir.Type.parse("!llvm.ptr<7>"), buffer.pointer).result
    barrier = _barrier(context, op.barriers, op.index)
    ir.Operation.create(
        "nvvm.cp.async.bulk.tensor.shared.cluster.global",
        operands=[
            cluster,
            context.scalar(op.map),
            context.scalar(op.column),
            context.scalar(op.row),
            barrier,
        ],
        attributes={
            "isCTAOnly": ir.BoolAttr.get(False),
            "mode": ir.Attribute.parse("#nvvm.tma_load_mode<tile>"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 2, 1, 0, 0, 0, 0]),
        },
    )


def lower_wgmma(context: Context, op: sm.WgmmaOp) -> None:
    """Fence, one wgmma for each k-slice of the buffers, commit."""
    tiled = tiled_mma_of(op.mma)
    atom = tiled.atom
    m, n, k = atom.shape_mnk
    a, b = context.buffer(op.a), context.buffer(op.b)
    for name, buffer in (("A", a), ("B", b)):
        _check_operand(op, name, buffer)
    fragment = op.result.type.fragment
    if fragment.shape != (m * tiled.atom_layout[0], n) or tv_of(fragment.tv) != tiled.tv("c", fragment.shape):
        raise Refusal(op, "the accumulator is not held as the tiled mma holds it")
    emit = context.emit
    # Each warpgroup multiplies its own rows of A.
    warpgroup = emit.div(context.tid, WARPGROUP)
    a_start = element_pointer(a.pointer, emit.mul(warpgroup, m * _ROW_BYTES), emit.byte)
    a_descriptor, b_descriptor = _descriptor(context, a_start), _descriptor(context, b.pointer)
    acc = _accumulators(context, op, fragment)
    instruction = _Wgmma(atom)
    ir.Operation.create("nvvm.wgmma.fence.aligned")
    for step in range(a.type.shape[1] // k):
        # Along K within a row of the swizzle a descriptor moves by its start address alone.
        offset = emit.constant(step * k * 2 // 16, emit.i64)
        operands = [arith.AddIOp(d, offset).result if step else d for d in (a_descriptor, b_descriptor)]
        acc = instruction.emit(acc, *operands)
    ir.Operation.create("nvvm.wgmma.commit.group.sync.aligned")
    context.values[op.result] = Pending(acc, fragment)


def _check_operand(op: sm.WgmmaOp, name: str, buffer: SharedBuffer) -> None:
    layout, swizzle = layout_of(buffer.type.layout)
    if swizzle != (3, 3, 3) or layout.stride != (buffer.type.shape[1], 1) or buffer.type.shape[1] * 2 != _ROW_BYTES:
        raise Refusal(op, f"operand {name} must lie in rows of {_ROW_BYTES} bytes with swizzle<3,3,3>, K contiguous")


def _descriptor(context: Context, pointer: ir.Value) -> ir.Value:
    """The matrix descriptor of a tile that starts at `pointer`."""
    emit = context.emit
    address = llvm.PtrToIntOp(emit.i32, pointer).result
    start = arith.ExtUIOp(emit.i64, arith.ShRUIOp(address, emit.constant(4)).result).result
    stride = _ROWS_A_PERIOD * _ROW_BYTES >> 4
    bits = _SWIZZLE_128B | stride << 32 | _LEADING_OFFSET << 16
    return arith.OrIOp(start, emit.constant(bits, emit.i64)).result


def _accumulators(context: Context, op: sm.WgmmaOp, fragment: sm.FragmentType) -> ir.Value:
    """The accumulator as the struct of registers that wgmma takes."""
    given = context.get(op.acc)
    if isinstance(given, Pending):
        return given.registers
    splat = op.acc.owner
    if (
        isinstance(splat, ir.Block)
        or not isinstance(splat.opview, sm.SplatOp)
        or ir.FloatAttr(splat.opview.value).value
    ):
        raise Refusal(op, "starts from an accumulator that is neither pending nor sm.splat 0.0")
    _, values = extents(tv_of(fragment.tv))
    type_ = ir.Type.parse(f"!llvm.struct<({', '.join([str(fragment.element_type)] * values)})>")
    return ir.Operation.create("llvm.mlir.zero", results=[type_]).result


class _Wgmma:
    """nvvm.wgmma.mma_async of one atom, its attributes made once."""

    def __init__(self, atom: MmaAtom) -> None:
        m, n, k = atom.shape_mnk
        one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
        operand = ir.Attribute.parse(f"#nvvm.wgmma_type<{atom.a_dtype}>")
        self.attributes = {
            "shape": ir.Attribute.parse(f"#nvvm.shape<m = {m}, n = {n}, k = {k}>"),
            "typeA": operand,
            "typeB": operand,
            "typeD": ir.Attribute.parse(f"#nvvm.wgmma_type<{atom.c_dtype}>"),
            "scaleD": ir.Attribute.parse("#nvvm.wgmma_scale_out<one>"),
            "scaleA": one,
            "scaleB": one,
            "layoutA": ir.Attribute.parse("#nvvm.mma_layout<row>"),
            "layoutB": ir.Attribute.parse("#nvvm.mma_layout<col>"),
        }

    def emit(self, acc: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return ir.Operation.create(
            "nvvm.wgmma.mma_async", results=[acc.type], operands=[acc, a, b], attributes=self.attributes
        ).result


def lower_mma_wait(context: Context, op: sm.MmaWaitOp) -> None:
    """The last wait hands the registers on, so that no read of them is moved above it."""
    pending = context.get(op.acc)
    assert isinstance(pending, Pending)
    count = int(ir.IntegerAttr(op.pending).value)
    context.values[op.retired] = context.tid  # a proof, not a value: nothing reads it
    if count:
        group = ir.IntegerAttr.get(context.emit.i64, count)
        ir.Operation.create("nvvm.wgmma.wait.group.sync.aligned", attributes={"group": group})
        context.values[op.result] = pending
        return
    struct = sm.PtxWgmmaWaitOp(0, pending.registers).result
    element, (_, values) = pending.type.element_type, extents(tv_of(pending.type.tv))
    parts = [llvm.ExtractValueOp(element, struct, [i]).result for i in range(values)]
    width = 4
    registers = tuple(
        vector.FromElementsOp(vector_type(width, element), parts[i : i + width]).result for i in range(0, values, width)
    )
    context.values[op.result] = Fragment(registers, width, pending.type)
