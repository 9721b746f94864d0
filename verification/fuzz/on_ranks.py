"""Runs of a case on several ranks in one interpretation, in place of runs on one GPU."""

from collections.abc import Iterable, Iterator

from lowtide.compiler.spec import GemmSpec
from lowtide.errors import InterpreterError, InterpreterFault, NotInterpreted
from lowtide.verification.checking.ranks import inputs_of_ranks, wrong_on_ranks
from lowtide.verification.checking.trials import Finding, Outcome, Source, Trial, loaded


def outcomes_on_ranks(spec: GemmSpec, sources: Iterable[Source], trial: Trial) -> Iterator[Outcome]:
    """The outcome for each source: a rank for each matrix of the batch, in one order of agents and ranks. Matrices lie
    as close as they can, and the number domain is that of `check_ranks`."""
    assert trial.batch is not None
    inputs = inputs_of_ranks(spec, trial.extents, trial.batch.matrices, trial.seed)
    for source in sources:
        try:
            wrong = wrong_on_ranks(loaded(source), spec, inputs, trial.seed)
            finding, message = Finding.wrong if wrong else Finding.right, wrong
        except NotInterpreted as error:
            finding, message = Finding.unknown, str(error)
        except InterpreterFault as error:
            finding, message = Finding.failed, str(error)
        except InterpreterError as error:
            finding, message = Finding.broken, str(error)
        yield Outcome(source.level, trial, finding, message)
