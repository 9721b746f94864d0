"""The fastest schedule of a problem on the GPU at hand, found by measuring.

Layers, each on those above: `elimination` (who is surely slower), `candidates`, `journal`, `gpu` (verifies and times),
`search`, `tune`. What was found is kept by `compiler/cache/tuned.py`.
"""
