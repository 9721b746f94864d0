"""The page of models, docs/models.md: from the file models.json of benchmarks/results/."""

from record import Result, printed
from verdicts import caption, markdown

from lowtide.measurement.bench.model_steps import verdict

PAGE, FILE = "models.md", "models"
#: For each pair of figures: the heading, the column of Lowtide's figure, and that of the ratio, or None without one.
_FIGURES = (
    ("step, ms", "step ms", "sustained to Inductor"),
    ("host, ms", "host ms", "host to Inductor"),
    ("products, µs of GPU", "products µs", "products to Inductor"),
    ("all kernels, µs of GPU", "GPU µs", "GPU to Inductor"),
    ("first compile, s", "first compile s", None),
)


def page(result: Result) -> str:
    """The page: a row for each model, and the ratios below 1."""
    rows = []
    for row in result.rows:
        cells = {column: printed(cell, intervals=False) for column, cell in zip(result.columns, row, strict=True)}
        figures = [
            f"{cells[own]} / {cells[f'{own} of Inductor']}" + (f", {cells[ratio]}" if ratio and cells[ratio] else "")
            for _, own, ratio in _FIGURES
        ]
        rows.append([cells["case"], cells["contender"].removeprefix("Lowtide, "), *figures, cells["kernels"]])
    headings = ["model", "contender", *(heading for heading, _, _ in _FIGURES), "launches of products"]
    summary = verdict([[printed(cell) for cell in row] for row in result.rows])
    return _TEXT.format(caption=caption(FILE, result), table=markdown(headings, rows), verdict=summary)


_TEXT = """# Models as they are

Models of transformers with 4 layers of width 1024 (`opt-1020`: 1020) and feed-forward layers of 2816, in bf16, with
random weights. They are compiled by torch.compile: with Lowtide's backend, and by Inductor alone. A step is the forward
and the backward pass of 3 sequences of 509 tokens. Products of this size are short, so the host often decides.

{caption}

{table}

A cell has Lowtide's figure / Inductor's, and the ratio of Inductor's to Lowtide's in the same round, above 1 if Lowtide
is better. All are medians over rounds.

- **step**: the time of a step while the GPU is kept busy.
- **host**: the time until the host has issued a step to an idle GPU.
- **products**: the time of the GPU in kernels of products, by a profile: those of Lowtide, which may compute what
  Inductor computes in other kernels, and those of cuBLAS. A kernel counts from when the one before it has ended, since
  Lowtide's start earlier and wait.
- **all kernels**: the time of the GPU in all kernels.
- **first compile**: until the first step is done, with empty caches, after torch has traced the model once before.
  Unless the run above says otherwise, it is the median over processes that each compile for one contender only.

{verdict}

## Run it

```sh
python benchmarks/models.py race --journal run        # the same command continues the run
python benchmarks/models.py report --journal run --kernels
python benchmarks/models.py record --journal run      # into benchmarks/results/models.json
python docs/generate.py
```
"""
