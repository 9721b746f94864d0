"""Kernels with several results. Each takes any number of rows, and has the schedule chosen for one number of rows."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from lowtide.compiler.ahead import AHEAD
from lowtide.compiler.cache.keys import key_of
from lowtide.compiler.cache.settings import cache_folder, open_store
from lowtide.compiler.cache.versions import versions
from lowtide.compiler.matmul.kernels import kernel_from_disk
from lowtide.compiler.numerics_words import REPEATABLE
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import CompileError, ScheduleError
from lowtide.runtime.call_keys import Recent

# These import MLIR, which takes half a second.
_COMPILE, _NUMERICS, _TARGETS = "lowtide.compiler.compile", "lowtide.compiler.numerics", "lowtide.targets"
_BY_SCHEDULE = Recent(1024)  # kernels, by `ResultsWanted` with 0 rows, and the text of a schedule


class ResultsWanted(NamedTuple):
    """A product of A (M, K) with any number of rows. `dtype`: the type of A, B and D. `layout`: "tn" for B (N, K), "tt"
    for B (K, N). `pairs`: None or "stacked". `rows`: the M for which the schedule is chosen. `result_types`: the types
    of full results that are not `dtype`, by name."""

    dtype: str
    layout: str
    n: int
    k: int
    epilogue: Callable[..., Any]
    pairs: str | None
    rows: int
    target: str
    result_types: tuple[tuple[str, str], ...] = ()

    def spec(self, m: int | None) -> GemmSpec:
        """The problem with this number of rows. Raises SpecError."""
        pairs: dict[str, Any] = {} if self.pairs is None else {"pairs": self.pairs}
        return GemmSpec(
            m=m,
            n=self.n,
            k=self.k,
            a=self.dtype,
            b=self.dtype,
            d=self.dtype,
            layout=self.layout,
            epilogue=self.epilogue,
            result_types=dict(self.result_types),
            **pairs,
        )

    def kernel(self) -> Any:
        """The kernel, from the cache on disk or compiled. Calls of one from the disk may raise MisalignedError where
        the kernel of `compiled` copies a matrix. Raises the errors of `compile_gemm`."""
        known: str | None = AHEAD.result(self)
        if known is None:
            return self._made()[0]
        key = key_of(self.spec(None), self.target, known or None, versions(cache_folder()), REPEATABLE)
        return kernel_from_disk(open_store(), key) or self._with(known)  # reading the disk needs no MLIR

    def compiled(self) -> Any:
        """The kernel of `compile_gemm`. Raises its errors."""
        known: str | None = AHEAD.result(self)
        return self._made()[0] if known is None else self._with(known)

    def begin(self) -> None:
        """Have another process compile the kernel, if `AHEAD` was started."""
        AHEAD.begin(self, schedule_of, self)

    def _made(self) -> tuple[Any, str]:
        """The kernel, and its schedule as text; "" if `compile_gemm` chose it for an unknown number of rows."""
        of_rows, target = self.spec(self.rows), importlib.import_module(_TARGETS).get(self.target)
        choices = (
            lambda: importlib.import_module(_NUMERICS).chosen_with(of_rows, target, REPEATABLE),
            lambda: self._compile(of_rows).schedule,  # another choice, if code of the first one spills
        )
        for choose in choices:
            try:
                schedule = choose().shorthand()
                return self._with(schedule), schedule
            except (CompileError, ScheduleError):
                continue
        return self._with(""), ""

    def _with(self, schedule: str) -> Any:
        """The kernel with this schedule; "": the one that `compile_gemm` chooses. Raises CompileError if its code
        spills."""
        key = self._replace(rows=0), schedule
        if _BY_SCHEDULE[key] is None:
            kernel = self._compile(self.spec(None), schedule=schedule or None)
            kernel.cubin  # noqa: B018  # code that spills is refused
            _BY_SCHEDULE[key] = kernel
        return _BY_SCHEDULE[key]

    @property
    def _compile(self) -> Any:
        compile_gemm = importlib.import_module(_COMPILE).compile_gemm
        return partial(compile_gemm, target=self.target, numerics=REPEATABLE)


def schedule_of(wanted: ResultsWanted) -> str:
    """Makes a kernel, which is then in the cache on disk, and returns its schedule as text. Raises the errors of
    `compile_gemm`."""
    found: str = wanted._made()[1]
    return found
