"""Level `pipelined`: copies run ahead of the products, through a ring of stages.

The four verbs acquire, commit, wait and release order them, in one role or between a producer and its consumers
(`sm.roles`). How a target implements the verbs is decided at level `atoms`.
"""

from lowtide.passes.pipelined.decide_timing import DecideTiming
from lowtide.passes.pipelined.pipeline_mainloop import PipelineMainloop
from lowtide.passes.pipelined.specialize_roles import SpecializeRoles
from lowtide.passes.steps import Step

STEPS = (
    Step(DecideTiming, "first: the passes that replace a loop keep its timing"),
    Step(PipelineMainloop, "copies and mma are still one op each, so that a stage is one loop iteration"),
    Step(SpecializeRoles, "where the schedule has roles: makes them together with the ring that joins them"),
    Step("cse", "one constant each", "simplify"),
)
