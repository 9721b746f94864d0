"""The page of drawn shapes, docs/any-shape.md: from the files benchmarks/results/any-shape-….json."""

from collections.abc import Mapping

from record import Result
from verdicts import caption

from lowtide.measurement.bench.any_shape.report import Run, run_tables, verdict_table
from lowtide.measurement.bench.any_shape.rows import row_from

PAGE = "any-shape.md"
_FILES = "any-shape-"


def page(results: Mapping[str, Result]) -> str:
    """The verdicts of all runs, the newest first; then the tables of each run."""
    found = {name: result for name, result in results.items() if name.startswith(_FILES)}
    newest = dict(sorted(found.items(), key=lambda item: item[1].date, reverse=True))
    runs = {name: _run(result) for name, result in newest.items()}
    each = [
        f"### Seed {run.seed}\n\n{caption(name, newest[name])}\n\n{run_tables(run)}\n" for name, run in runs.items()
    ]
    return _TEXT.format(verdicts=verdict_table(list(runs.values())), runs="\n".join(each) or "There is none yet.\n")


def _run(result: Result) -> Run:
    rows = tuple(row_from(result.columns, cells) for cells in result.rows)
    return Run(result.device.removeprefix("NVIDIA "), result.commit, result.seed, result.date, rows)


_TEXT = """# Any shape

This page is about shapes that nobody has measured or tuned for. A script draws them by a seed that is new in each run.
Half of the shapes take N and K from layers of ten models; for the others, N and K are log-uniform multiples of eight. M
is log-uniform, and can be odd. The *own kernel* of a shape is the one that is compiled for this shape alone. The own
kernel, `lt.matmul` and torch run in the same shuffled rounds, after the results of each have been checked
([how](performance.md#how-it-is-measured)). The shapes of a run are drawn after the commit that it measures.

## Verdicts

Each line compares a contender with another one, which is torch unless the line names it. The ratio of a round is the
time of the other one divided by the time of the contender, so above 1 the contender is faster. The ratio of a shape is
the median over its rounds, with its 95 % interval. With fewer than six rounds, the interval goes from the least ratio
to the greatest. If a run may have up to 20 rounds, a shape gets more rounds until both ends of each interval are within
2 % of the median. Intervals that end a race this way hold the true median a little less often than in 95 % of cases.
Means have bootstrap intervals. A shape that failed counts as below every limit. *Incomplete*: the run has fewer shapes
than the line needs. Runs that a later one has replaced are in the history of `benchmarks/results/`.

{verdicts}

## Where own kernels lose

On 2026-11-29 and 2026-11-30, 1,600 products were drawn in tn (bf16, H200). The slowest ones, relative to torch, had 65
to 256 rows, weights of more than 60 million elements, and a K that is not a multiple of 16. The rows of such weights do
not start on sectors of L2, so each load takes more requests. The 16 products of this kind had 0.959 of the speed of
torch (geometric mean), and at least 0.780. Of the same size, 50 products whose rows start on lines of L2 had 1.038.

Since then, clusters are chosen more often for such weights ([cost model](cost-model.md#terms)), and some of these
weights are no longer evicted first from L2 ([choice](schedule.md#how-it-is-chosen)). For 44 such products, the best
schedules of each shape of cluster were raced on 2026-11-30. The schedules that were chosen then had 0.98 of the speed
of torch (geometric mean; the least 0.83), and those that are chosen now have 1.00 (the least 0.89). The constants of
the cost model are fitted to these races, too. The fastest schedules of the races have 1.02 (the least 0.90).

## Where torch is wrong

In the run in f16, the shape 6×488×16904 failed, because torch's own result was wrong. For this shape torch's library
divides K, and seems to leave out the last few products of each sum. The shape counts as below every limit, although the
own kernel was not compared. With A and B of −1, 0 and 1, results with K = 16904 were wrong by up to 7, in f16 and bf16,
for 5, 6 and 8 rows and N of 480, 488 and 512. Results with K of 8192 and 16896 were right (torch 2.11.0+cu130, H200,
2026-12-01).

## Run it

```sh
python benchmarks/any_shape.py race --journal run           # a new seed; the same command continues the run
python benchmarks/any_shape.py race --journal few --rows 256
python benchmarks/any_shape.py race --journal sixteen --public --cublaslt 96 --peer quack
python benchmarks/any_shape.py record --journal run         # into benchmarks/results/; then python docs/generate.py
python benchmarks/any_shape.py compile --out old --seed 7   # in a checkout of one commit; then in one of the other
python benchmarks/any_shape.py compare --journal both old new
```

`compile` needs no GPU. `race --kernels` loads the kernels that it has saved.

## Runs

{runs}"""
