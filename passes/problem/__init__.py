"""Level `problem`: the computation on whole matrices, and the schedule to compile it by.

One `tile.gemm` per host function: shapes, layouts, types, and the epilogue as a region. The schedule is completed and
checked here, before any other pass reads it.
"""

from lowtide.passes.problem.choose_schedule import ChooseSchedule
from lowtide.passes.problem.pack_operands import PackOperands
from lowtide.passes.problem.split_operands import SplitOperands
from lowtide.passes.problem.swap_operands import SwapOperands
from lowtide.passes.problem.verify_schedule import VerifySchedule
from lowtide.passes.steps import Step

STEPS = (
    Step(SplitOperands, "the spec says whether to; the schedule is of what is then multiplied"),
    Step(ChooseSchedule, "early: every later pass only reads the schedule"),
    Step(SwapOperands, "the schedule says whether to, and is of the swapped product"),
    Step(VerifySchedule, "before any pass relies on it: the rules of the target, in the user's terms"),
    Step(PackOperands, "what the schedule packs; every later pass sees aligned rows"),
)
