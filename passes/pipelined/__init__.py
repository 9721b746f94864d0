"""Level `pipelined`: copies run ahead of the products, through a ring of stages.

The four verbs acquire, commit, wait and release order them, within one agent or between those that fill the ring and
those that read it (`sm.roles`). How a target implements the verbs is decided at level `atoms`.
"""

from lowtide.passes.pipelined.decide_timing import DecideTiming
from lowtide.passes.pipelined.pipeline_mainloop import PipelineMainloop
from lowtide.passes.steps import Step

STEPS = (
    Step(DecideTiming, "first: the passes that replace a loop keep its timing"),
    Step(PipelineMainloop, "makes the ring together with the roles that it joins; a stage is one loop iteration"),
    Step("cse", "one constant each", "simplify"),
)
