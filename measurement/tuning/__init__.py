"""Finds the fastest schedule of a problem on the GPU at hand, by measurement.

Layers, each above those before: `elimination` (drops slower kernels), `candidates`, `journal`, `gpu` (verifies and
times), `search`, `tune`. `compiler/cache/tuned.py` stores the results.
"""
