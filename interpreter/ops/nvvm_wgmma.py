"""wgmma in the nvvm dialect and in `sm`: the accumulators of a warp are one value, a struct.

Until a wait covers its group, the value may be passed to the next wgmma and through loops, but not read. It becomes
readable as the result of a wait (`sm.ptx_wgmma_wait`, or the assembly for it): without this data dependence the
compiler may move a read above the wait. It may have only one such user, because for a second one the compiler would
copy registers that a wgmma may still write. Chains of wgmma run as one.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import wgmma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.pending import PendingRegisters, check_done, hand_to
from lowtide.interpreter.ops.border import to_register
from lowtide.interpreter.ops.instructions import instruction, listed, shape_of, word
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Immediate
from lowtide.interpreter.ptx.wgmma import given_registers

OPS = OpTable()

_ATOM = re.compile(r"wgmma\.(m64n\d+k\d+)\.(\w+)\.(\w+)")
_SIGNS = {"one": "1", "neg": "-1"}
_TURNED = ("f16", "bf16")  # operands in shared memory that may be transposed


def _product(op: DecodedOp, program: Program, text: str) -> Op:
    """A wgmma whose accumulators are the op's first operand."""
    made, convert = instruction(op, program, text), to_register(op.operand_types[0])
    assert convert is not None
    acc = op.operands[0]
    made.kept, made.operands = (acc,), (acc, *made.operands)
    made.before = lambda values: convert(values[acc])
    return made


@OPS.decodes("nvvm.wgmma.mma_async")
def mma_async(op: DecodedOp, program: Program) -> Op:
    shape = shape_of(op)
    a, b, d = (word(op, f"type{side}") for side in "ABD")
    signs = [_SIGNS[word(op, f"scale{side}")] for side in "AB"] if d != "s32" else []
    turned = [str(int(word(op, f"layout{side}") != major)) for side, major in (("A", "row"), ("B", "col"))]
    further = [*signs, *(turned if a in _TURNED or "1" in turned else [])]
    scale = int(word(op, "scaleD") == "one")
    text = f"wgmma.mma_async.sync.aligned.{shape}.{d}.{a}.{b} $d, $1, $2, {', '.join((str(scale), *further))};"
    made = _product(op, program, text)
    made.bulk = _CHAINS
    return made


@OPS.decodes("sm.ptx_wgmma")
def ptx_wgmma(op: DecodedOp, program: Program) -> Op:
    """A wgmma with A in registers, of two elements or one tf32 each."""
    match = _ATOM.fullmatch(op.attributes["atom"])
    if match is None:
        raise InterpreterError(
            f"{op.describe()}: atom {op.attributes['atom']}; wgmma.m64nNk8 and wgmma.m64nNk16 take A in registers"
            " [held-atom]"
        )
    if any(len(list(value.uses)) > 1 for value in list(op.source.operands)[1:-1]):
        raise InterpreterError(
            f"{op.describe()}: another op reads registers of its A before a wait; give each op its own [held-read]"
        )
    shape, d, a = match.groups()
    count = len(op.operands) - 2
    scale, is_turned = int("clears" not in op.attributes), "transposed" in op.attributes
    turned = f", {int(is_turned)}" if a in _TURNED or is_turned else ""
    operands = f"$d, {listed('$', 1, count)}, ${count + 1}, {scale}, 1, 1{turned}"
    return _product(op, program, f"wgmma.mma_async.sync.aligned.{shape}.{d}.{a}.{a} {operands};")


@OPS.implements("sm.ptx_wgmma_wait")
def ptx_wgmma_wait(state: AgentState, op: DecodedOp) -> Steps:
    """Wait, and pass the accumulators on."""
    yield from wgmma.wait(state, op, op.attributes["pending"])
    acc = state.values[op.operands[0]]
    if isinstance(acc, PendingRegisters):
        hand_to(state, op, acc)
        check_done(state, op, acc.group)
        acc = acc.readable()
    state.values[op.results[0]] = acc


# Chains ---------------------------------------------------------------------------------------------------------------


def _adds(op: Op) -> bool:
    """Whether it adds to the preceding accumulators."""
    scale = op.instruction.operands[3]
    return isinstance(scale, Immediate) and scale.value == 1


def _is_chain(ops: Sequence[Op]) -> bool:
    """Whether each adds to the result of the one before it."""
    return all(_adds(op) and op.kept == before.results for before, op in pairwise(ops))


def _chains(state: AgentState, batch: Batch) -> None:
    ops, values = batch.ops, state.values
    first = ops[0]
    acc, product = values[first.kept[0]], first.data.product
    if not batch.data or (acc.user is not None if isinstance(acc, PendingRegisters) else not state.fenced):
        raise NotTogether
    before = None
    if _adds(first):
        is_pending = isinstance(acc, PendingRegisters)
        before = acc.registers if is_pending else given_registers(state, first, first.before(values))
    descriptors = [(op.readers[0](values), op.readers[1](values)) for op in ops]
    block, group = wgmma.multiply(state, ops, product, descriptors, before)
    result = block.of_warp(0).T
    if isinstance(acc, PendingRegisters):
        hand_to(state, first, acc)
    for op, user in zip(ops, (*ops[1:], None), strict=True):  # until a wait, no instruction reads a register
        values[op.results[0]] = PendingRegisters(result, user, group, product.packed)


_CHAINS = Bulk(_chains, key=lambda op: op.data.product, prepare=_is_chain, chained=True)
