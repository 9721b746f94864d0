"""The result of `lt.matmul.explain`: the facts that determine a call's kernel, and the place of that kernel."""

from dataclasses import dataclass

from lowtide.compiler.matmul.shape_class import ShapeClass
from lowtide.compiler.spec import GemmSpec

_WHERE = {
    "memory": "the kernel is in memory",
    "disk": "the kernel is in the cache on disk; the first call loads it",
    "nowhere": "no kernel yet; the first call compiles it",
}


@dataclass(frozen=True)
class Explanation:
    """`spec`: the problem that the schedule is chosen for; `lt.tune` finds a schedule for it. `where`: "memory", "disk"
    or "nowhere". `schedule`, `summation`: the kernel's, as text, if there is a kernel. `is_tuned`: whether there is a
    tuned schedule, which the kernel has if it keeps the numerics."""

    shape_class: ShapeClass
    spec: GemmSpec
    where: str
    schedule: str | None
    summation: str | None
    is_tuned: bool

    def __str__(self) -> str:
        of = self.shape_class
        batch = "" if of.batch is None else f"{of.batch} products of "
        lines = [
            f"class     {of}",
            f"extents   run-time arguments; the schedule is chosen for {batch}M = {of.m}, N = {of.n}, K = {of.k}",
            f"fixed     {of.given or 'nothing'}",
            f"kernel    {_WHERE[self.where]}",
        ]
        lines += ["tuned     a schedule that lt.tune found is taken if it keeps the numerics"] if self.is_tuned else []
        lines += [f"sums      {self.summation}"] if self.summation else []
        return "\n".join(lines + ([f"schedule  {self.schedule}"] if self.schedule else []))
