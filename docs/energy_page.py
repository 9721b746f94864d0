"""The page of energies, docs/energy.md: from the files energy.json and energy-level.json of benchmarks/results/."""

from collections.abc import Mapping

from record import Result
from verdicts import file_table

PAGE, FILE, LEVEL = "energy.md", "energy", "energy-level"


def page(results: Mapping[str, Result]) -> str:
    """Both tables as they stand."""
    level = file_table(LEVEL, results[LEVEL]) if LEVEL in results else "Nothing has been measured yet.\n"
    return _TEXT.format(torch=file_table(FILE, results[FILE]), level=level)


_TEXT = """# Energy

The energy of a product is read from the counter of the GPU by NVML. The counter moves about every 100 ms. So a
measurement goes from one of its ticks to another, at least two seconds later, while the GPU runs the product without a
gap; before that it runs the product for 0.6 s. Operands are normal random numbers in several sets, which L2 does not
hold. The energy is that of the whole card, idle power included. Contenders take turns in shuffled rounds; figures are
median (least … greatest). Energy to X is the energy of X divided by that of the contender in the same round: above 1
the contender takes less.

## Beside torch

{torch}
## Schedules that are level in time

For each cell, candidates of the [tuner](tuning.md) ran in a short race. `own` is the default. The others, at most
three, took at most 1 % longer there than the fastest. The times below are those of the measurement of energy.

{level}
[What was tried](tried.md#energy) has other schedules, and says why the default does not choose by energy.

## Run it

```sh
python benchmarks/energy.py torch --journal run                    # the same command continues the run
python benchmarks/energy.py record --journal run                   # into benchmarks/results/energy.json
python benchmarks/energy.py level --journal level --cells 'bf16-*'
python benchmarks/energy.py record --journal level --name energy-level
```

`lt.tune(spec, objective="energy")` finds the schedule that takes the least energy ([tuning](tuning.md#energy)).
"""
