"""Measures how many ops come from allowed ops, at each level and for all presets: `python test/origins_of_presets.py`.

Prints a line for each level, and each op whose origin is not in the table of `compiler/origins/pairs.py`. The exit
status is 0 if at least 95 % of the ops that touch memory, multiply or wait have an allowed origin, at each level of
each preset down to `llvm`; LLVM itself merges some loads of the PTX. `--types all` takes each type of a preset, not
only the last.
"""

import argparse
import sys
from collections import Counter

from lowtide.compiler.driver import lower
from lowtide.compiler.origins.pairs import shares
from lowtide.compiler.presets import LADDERS
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.targets import get

REQUIRED = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", choices=("last", "all"), default="last")
    every = parser.parse_args().types == "all"
    counted: Counter[Level] = Counter()
    others: Counter[Level] = Counter()
    least = 1.0
    for name, preset in LADDERS.items():
        for dtype in preset.dtypes if every else preset.dtypes[-1:]:
            text = problem_text(preset.spec(dtype), get(preset.target), preset.schedule)
            origins = lower(text, origins=True).origins
            assert origins is not None
            for level, share in shares(origins).items():
                counted[level] += share.counted
                others[level] += len(share.others)
                least = min(least, share.allowed) if level < Level.PTX else least
                for op in share.others:
                    print(f"{name} {dtype}: {op}")
    for level in counted:
        print(f"{level!s:<10} {counted[level]:>7} ops, {1 - others[level] / counted[level]:8.3%} allowed")
    print(f"the least share of a level of a preset, down to llvm: {least:.2%}")
    return 0 if least >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
