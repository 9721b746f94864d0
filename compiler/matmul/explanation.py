"""The result of `lt.matmul.explain`: the facts that determine a call's kernel, and the place of that kernel."""

from dataclasses import dataclass

from lowtide.compiler.matmul.family import Family
from lowtide.compiler.matmul.kernels import Found
from lowtide.compiler.matmul.schedule_plan import SchedulePlan
from lowtide.compiler.spec import GemmSpec

_WHERE = {
    "memory": "the kernel is in memory",
    "disk": "the kernel is in the cache on disk; the first call loads it",
    "nowhere": "no kernel yet; the first call compiles it",
}


@dataclass(frozen=True)
class Explanation:
    """`family`, `m`: what the kernel depends on. `spec`: the problem with the extents of the call; `lt.tune` finds a
    schedule for it. `alone`: the fields, as text, in which the schedule that `compile_gemm` chooses for
    `spec` differs from the planned one. `broken`: the rule that forbids that schedule for run-time extents, or ""."""

    family: Family
    m: int
    spec: GemmSpec
    found: Found
    alone: str
    broken: str

    @property
    def where(self) -> str:
        """The place of the kernel: "memory", "disk" or "nowhere"."""
        return self.found.where

    @property
    def schedule(self) -> str | None:
        """The kernel's, as text, if there is a kernel."""
        return None if self.found.kernel is None else self.found.kernel.manifest.get("schedule")

    @property
    def summation(self) -> str | None:
        """The kernel's order of sums, if there is a kernel."""
        return None if self.found.kernel is None else self.found.kernel.manifest.get("summation")

    @property
    def is_tuned(self) -> bool:
        """Whether there is a tuned schedule for the shape, which the kernel has if it keeps the numerics."""
        return self.found.is_tuned

    def __str__(self) -> str:
        plan, of = self.found.plan, self.family
        lines = [
            f"family    {of}",
            *(self._of_plan(plan) if plan else [f"extents   those of the call: a kernel for M = {self.m} alone"]),
            f"fixed     {self._fixed() or 'nothing'}",
            *(f"refused   {why}" for why in self.found.refused),
            f"kernel    {_WHERE[self.where]}",
        ]
        lines += ["tuned     a schedule that lt.tune found is taken if it keeps the numerics"] if self.is_tuned else []
        lines += [f"sums      {self.summation}"] if self.summation else []
        lines += [f"alone     a kernel for this shape alone has {self.alone}"] if self.alone else []
        lines += [f"          run-time extents do not allow that: {self.broken}"] if self.broken else []
        return "\n".join([*lines, f"schedule  {self.schedule or self._planned or 'chosen by the first call'}"])

    @property
    def _planned(self) -> str:
        """The planned schedule, as text; "" without a plan."""
        plan = self.found.plan
        return "" if plan is None else plan.schedule(self.found.index, self.m)

    def _fixed(self) -> str:
        """The fields that the family fixes, with the values of the planned schedule, if there is one: it may pack
        operands of few columns `transposed`, in place of `rows`."""
        given = dict(each.split(" = ") for each in self.family.given.split(", ") if each)
        planned = (each.partition(" = ") for each in self._planned.split(", "))
        given |= {name: value for name, _, value in planned if name in given}
        return ", ".join(f"{name} = {value}" for name, value in given.items())

    def _of_plan(self, plan: SchedulePlan) -> list[str]:
        first, last = plan.rows(self.m)
        rows = f"from {first}" if last is None else f"from {first} to {last}"
        return [
            f"plan      {len(plan.schedules)} schedules serve every M; they are estimated to take"
            f" {100 * plan.mean:.1f} % more than the best for each M, {100 * plan.worst:.1f} % at most",
            f"rows      M = {self.m}: schedule {self.found.index + 1}, for M {rows}",
            "extents   run-time arguments of every kernel",
        ]
