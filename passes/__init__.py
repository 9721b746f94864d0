"""The passes, one per file, in one folder for each level that they produce.

`problem → cta → smem → pipelined → atoms → epilogue → nvvm → llvm → ptx`: each folder's `__init__` describes its
level and lists its steps in order. `pipeline.py` joins these lists. `base.py` has the base class; `schedules/` chooses
and checks schedules; `support/` has code that several levels share.
"""
