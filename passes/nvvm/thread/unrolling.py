"""Which loops LLVM and ptxas may unroll."""

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm
from lowtide.dialects.sm import StepForm
from lowtide.dialects.sm.timing import Timing
from lowtide.passes.base import walk
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.support.agents.atoms import tiled_mma_of
from lowtide.passes.support.agents.wgmmas import Wgmma, fragment_of, registers_of, wgmmas
from lowtide.passes.support.ir.builder import constant_of

# ptxas unrolls a short loop together with the copies before it. If the same threads copy and multiply, there are not
# enough registers for that. With roles unrolling gains up to 2 % (1024³ on an H200), but consumers that
# take turns spill with four or five K steps unrolled.
# The thread of a producer has 24 to 40 registers. In a cluster, the addresses of its loads depend on the rank of its
# CTA. If LLVM unrolls all K steps, and their number is a multiple of the stages, it computes the addresses once, before
# the loop over tiles, and they do not fit in the registers: tiles of 128×128 in clusters of [2, 2] spilled with 10
# steps, and tiles of 128×192 in [2, 1] with 8 (nt). So the producer's loop stays rolled in clusters: 49 kernels then
# take 0.97 to 1.003 of the time, mean 0.999 (H200).
LOOP_ANNOTATION = "llvm.loop_annotation"
_ROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"
_UNROLLED = "#llvm.loop_annotation<unroll = <full = true>>"

_DESCRIPTOR_REGISTERS = 2


def annotate(context: Context, op: scf.ForOp, loop: scf.ForOp) -> None:
    """Mark the lowered loop, where the choice is not left to LLVM and ptxas."""
    constant = all(constant_of(bound) is not None for bound in (op.lowerBound, op.upperBound, op.step))
    if context.barrier == 0 or context.instances > 1:  # no role, or consumers in turn
        _mark(loop, _UNROLLED if Timing.of(op).steps is StepForm.unrolled and constant else _ROLLED)
    elif _holds_too_many_descriptors(context, op) or (context.elected and context.cluster.size > 1 and constant):
        keep_rolled(loop)


def keep_rolled(loop: scf.ForOp) -> None:
    """Mark a lowered loop that neither LLVM nor ptxas may unroll."""
    _mark(loop, _ROLLED)


def _mark(loop: scf.ForOp, annotation: str) -> None:
    loop.operation.attributes[LOOP_ANNOTATION] = ir.Attribute.parse(annotation)


def _holds_too_many_descriptors(context: Context, op: scf.ForOp) -> bool:
    """Whether the sums and the matrix descriptors of all K steps of a tile do not fit in the role's registers together.

    They need to where the steps are as many as the ring's stages: then each tile begins at the same slot, and LLVM
    works out the descriptors of the unrolled steps once, before the loop over tiles.
    """
    stages = {slot.ring.type.stages for slot in walk(op, sm.RingSlotOp)}
    products = wgmmas(op)
    if not products or stages != {constant_of(op.upperBound)}:
        return False
    sums = max(registers_of(fragment_of(product)) for product in products)
    each = sum(_descriptors(product) for product in products)
    return sums + _DESCRIPTOR_REGISTERS * max(stages) * each > context.registers


def _descriptors(product: Wgmma) -> int:
    """The matrix descriptors of one K step: for each k-slice those of A's blocks of rows, and of B's of columns."""
    tiled = tiled_mma_of(product.mma)
    m, n, k = tiled.atom.shape_mnk
    rows, columns = fragment_of(product).shape
    b_rows, b_columns = product.b.type.shape
    slices = b_rows * b_columns // columns // k
    a_blocks = 0 if isinstance(product.a.type, sm.FragmentType) else rows // (m * tiled.atom_layout[0])
    return int(slices * (a_blocks + columns // n))
