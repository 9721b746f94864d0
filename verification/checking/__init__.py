"""Checks whether D is what the problem says.

`reference`: D in float64, the error bound of each element, and the comparison; `bound`: the intervals of an epilogue,
from which the bound comes. `verdicts`: one sentence on a D, against float64 or against another D. `expected_problem`:
which problem a dumped file is checked against. `interpretation`, `gpu_run`: a run on random inputs, on CPU and GPU.
"""
