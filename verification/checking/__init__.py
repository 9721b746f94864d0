"""Checks whether D solves the problem.

`reference`: D in float64, the error bound of each element, and the comparison; `bound`: the intervals of an epilogue,
from which the bound follows. `verdicts`: one sentence on a D, against float64 or against another D. `expected_problem`:
the problem against which a dumped file is checked. `interpretation`, `gpu_run`: a run on random inputs, on CPU and GPU.
"""
