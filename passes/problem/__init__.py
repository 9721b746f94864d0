"""Level `problem`: what is computed, on whole matrices, and the schedule by which it will be.

One `tile.gemm` per host function: shapes, layouts, types, and the epilogue as a region. The schedule is completed and
checked here, before anything is built on it.
"""

from lowtide.passes.problem.choose_schedule import ChooseSchedule
from lowtide.passes.problem.verify_schedule import VerifySchedule
from lowtide.passes.steps import Step

STEPS = (
    Step(ChooseSchedule, "first: every later pass only reads the schedule"),
    Step(VerifySchedule, "before anything is built on it: the rules of the target, in the user's terms"),
)
