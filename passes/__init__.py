"""The passes, one per file, in folders named for the level that they make.

`problem → cta → smem → pipelined → atoms → epilogue → nvvm → llvm → ptx`: each folder's `__init__` says what its level
is and lists its steps in order. `pipeline.py` puts these lists together. `base.py` says what a pass is; `schedules/`
chooses and checks schedules; `support/` holds what several levels share.
"""
