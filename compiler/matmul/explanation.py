"""What `lt.matmul.explain` gives: what decides the kernel of a call, and where that kernel is."""

from dataclasses import dataclass

from lowtide.compiler.matmul.shape_class import ShapeClass

_WHERE = {
    "memory": "the kernel is in memory",
    "disk": "the kernel is in the cache on disk; the first call loads it",
    "nowhere": "no kernel yet; the first call compiles it",
}


@dataclass(frozen=True)
class Explanation:
    """`where`: "memory", "disk" or "nowhere". `schedule` and `summation` are the kernel's, as text, where there is
    one."""

    shape_class: ShapeClass
    where: str
    schedule: str | None
    summation: str | None

    def __str__(self) -> str:
        of = self.shape_class
        batch = "" if of.batch is None else f"{of.batch} products of "
        lines = [
            f"class     {of}",
            f"extents   run-time arguments; the schedule is chosen for {batch}M = {of.m}, N = {of.n}, K = {of.k}",
            f"fixed     {of.given or 'nothing'}",
            f"kernel    {_WHERE[self.where]}",
        ]
        lines += [f"sums      {self.summation}"] if self.summation else []
        return "\n".join(lines + ([f"schedule  {self.schedule}"] if self.schedule else []))
