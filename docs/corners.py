"""The page of the corners, docs/corners.md: from the file benchmarks/results/corners.json."""

from pathlib import Path

from record import Result
from verdicts import caption

from lowtide.measurement.bench.corners.reasons import read_reasons
from lowtide.measurement.bench.corners.rows import corner_from
from lowtide.measurement.bench.corners.verdicts import all_table, below_table, kinds_table, verdict_table

PAGE, FILE = "corners.md", "corners"
_REASONS = Path(__file__).resolve().parents[1] / "benchmarks" / "corner_reasons.txt"


def page(result: Result) -> str:
    """The verdicts, then the types, the losses with their reasons, and all cells."""
    rows, reasons = [corner_from(cells) for cells in result.rows], read_reasons(_REASONS)
    return _TEXT.format(
        verdicts=verdict_table(rows, reasons),
        kinds=kinds_table(rows),
        below=below_table(rows, reasons),
        all=all_table(rows),
        caption=caption(FILE, result),
    )


_TEXT = """# Corners

Each cell is a type with its sums, a layout and one of eight shapes. The kernel that is compiled for the cell races
beside torch (torch._scaled_mm for e4m3, torch._int_mm for s8) and the best of cuBLASLt's algorithms, which are chosen
by time from as many as the table says. In each shuffled round each of them runs for 80 ms, after its result has been
checked ([how](performance.md#how-it-is-measured)). The ratio of a round is the time of the better peer divided by the
time of the own kernel, so above 1 the own kernel is faster. The ratio of a cell is the median of the rounds; beside it
are the ends of the median's 95 % interval. A cell within 0.02 of a limit (0.90, 0.97 or 1.00) runs on until these
are within 1 % of the median, or for 30 rounds.

## Verdicts

A cell that failed counts as below every limit. torch and cuBLASLt do not multiply e4m3 whose N or K is no multiple of
16; such cells are timed alone and not judged. *Incomplete*: not all cells have been measured.

{verdicts}

## Types

{kinds}

## Below 0.97

{below}

## Run it

```sh
python benchmarks/all.py race --journal run --minutes 9   # the same command continues the run
python benchmarks/all.py race --journal run --cells 'tf32-*'
python benchmarks/all.py record --journal run             # into benchmarks/results/; then python docs/generate.py
```

## All cells

{caption}

{all}
"""
