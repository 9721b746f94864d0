"""A step: one entry of the list of passes that lower one level to the next."""

from dataclasses import dataclass
from string import Template

from lowtide.passes.base import Pass
from lowtide.targets import Target


@dataclass(frozen=True)
class Step:
    """A Lowtide pass, or an upstream pipeline in which `$chip` is the target's.

    `why` is the reason for its place. `label` names it in dumps, times and errors; by default the pipeline itself.
    """

    run: type[Pass] | str
    why: str
    label: str = ""

    @property
    def pipeline(self) -> str:
        """As `lowtide-opt --pass-pipeline` takes it, `$chip` still open."""
        return self.run if isinstance(self.run, str) else self.run.name

    @property
    def name(self) -> str:
        """The name of the step in dumps, times and errors."""
        return self.label or self.pipeline

    def text(self, target: Target) -> str:
        """The pipeline for a target."""
        return Template(self.pipeline).substitute(chip=target.chip)
