"""`compile_gemm` and `compile_ir`: from a spec, or from a dumped level, to a kernel."""

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lowtide.compiler import attempts, driver
from lowtide.compiler.cache.keys import key_of
from lowtide.compiler.cache.settings import cache_folder, open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.cache.tuned import ignore_record, key_of_record, load_record, may_be_used, words_of_records
from lowtide.compiler.cache.versions import versions
from lowtide.compiler.driver import Lowered, Progress
from lowtide.compiler.kernel import CachedKernel, CompiledKernel
from lowtide.compiler.native import choose, resolve
from lowtide.compiler.numerics import confirm_equal, fixed_by, promise, summation_in
from lowtide.compiler.numerics_words import ANY, check_numerics
from lowtide.compiler.presets import PRESETS, check_dtype
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error, IRError, ScheduleError, SpecError
from lowtide.keywords import check_keywords
from lowtide.targets import Target


@check_keywords
def compile_gemm(
    spec: GemmSpec,
    target: str | None = None,
    schedule: Schedule | str | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
    *,
    numerics: str = ANY,
    tuned: bool = True,
    stamps: bool = False,
    on_progress: Progress | None = None,
) -> CompiledKernel:
    """Compile a GEMM for a target.

    `target`: None for the GPU at hand, or `sm_90a` on a machine without one; `native` for the same, but DeviceError
    without a GPU; or a name (`sm_80`, `sm_86`, …, `sm_90a`) for the same kernel on every machine.
    `schedule`: None, a preset's name, `#tile.schedule<…>` text, or a `Schedule`; fields that it leaves open are chosen.
    If ptxas spills, the next choice is tried (`CompiledKernel.passed_over`); without ptxas the first choice is used.
    `dump_ir`: a folder that gets each step as `NN-level/NN-pass.mlir`, and the PTX. `numerics`: what may affect the
    order of sums, "any", "repeatable" or "batch_invariant" (docs/numerics.md); a schedule that breaks the promise is
    refused. `tuned`: for the GPU at hand and without a schedule, use the schedule that `lt.tune` found for this spec on
    this model of GPU, unless `LOWTIDE_TUNED=off` is set (docs/tuning.md). `stamps`: record when each agent of the
    kernel works, in a workspace (docs/explain.md).
    A kernel that was compiled before is loaded from the cache on disk, unless `dump_ir` or `stamps` is given
    (docs/python-api.md, "The cache"); otherwise the problem is compiled as by `compile_ir`. Raises SpecError,
    TargetError, DeviceError, ScheduleError, PassError, CompileError.
    """
    if not isinstance(spec, GemmSpec):
        raise SpecError(f"spec is {type(spec).__name__}; give a lowtide.GemmSpec [spec-kind]")
    if schedule is not None and not isinstance(schedule, str | Schedule):
        raise _no_schedule(schedule)
    check_numerics(numerics)
    chosen = choose(target)
    request = Request(spec, chosen.target, schedule, numerics, stamps)
    return compile_for(request, chosen.gpu if tuned else "", dump_ir, on_progress)


def compile_for(
    request: "Request",
    device: str = "",
    dump_ir: str | os.PathLike[str] | None = None,
    on_progress: Progress | None = None,
) -> CompiledKernel:
    """The kernel of a request, from the cache or compiled. `device`: the model of GPU whose tuned schedules may be used
    if the request has no schedule; "" allows none. The other arguments and the errors are those of `compile_gemm`."""
    store = open_store()

    def compiled(request: Request) -> CompiledKernel:
        if store is None or dump_ir is not None or request.stamps:
            return CompiledKernel(_lowered(request, dump_ir, on_progress))
        return _from_store(store, request, on_progress)

    if store is not None and request.schedule is None and device and may_be_used():
        found = _tuned(store, request, device, compiled)
        if found is not None:
            return found
    return compiled(request)


def compile_anew(
    spec: GemmSpec, target: str, schedule: Schedule | str | None = None, *, on_progress: Progress | None = None
) -> CompiledKernel:
    """Like `compile_gemm`, but always compiles: for tools that test the compiler."""
    return CompiledKernel(_lowered(Request(spec, resolve(target), schedule), None, on_progress))


@dataclass(frozen=True)
class Request:
    """The arguments of one compilation."""

    spec: GemmSpec
    target: Target
    schedule: Schedule | str | None
    numerics: str = ANY
    stamps: bool = False

    @property
    def key(self) -> str:
        """The key in the cache."""
        return key_of(self.spec, self.target.name, self.schedule, versions(cache_folder()), self.numerics)

    def problem(self) -> str:
        """The problem as IR of level `problem`. Raises ScheduleError, SpecError."""
        given = resolve_schedule(self.schedule, self.spec.a)
        fixed, expected = fixed_by(self.spec, self.target, given, self.numerics)
        return problem_text(self.spec, self.target, fixed, expected, stamps=self.stamps)


def _tuned(
    store: KernelStore, request: Request, device: str, compiled: Callable[[Request], CompiledKernel]
) -> CompiledKernel | None:
    """The kernel of a tuned schedule for this model of GPU. None with a CacheWarning if it is of no use now."""
    for numerics in words_of_records(request.numerics):
        key = key_of_record(request.spec, request.target.name, device, numerics)
        record = load_record(store, key)
        if record is None:
            continue
        found = replace(request, schedule=record["schedule"], numerics=numerics)
        try:
            is_known = store.has(found.key)
            kernel = compiled(found)
            if not is_known and numerics != ANY:
                confirm_equal(kernel.summation, _order_of(replace(request, numerics=numerics)))
        except Error as error:
            ignore_record(store, key, str(error))
        else:
            return kernel
    return None


def _order_of(request: Request) -> str:
    """The order of sums of a kernel, without compiling it to PTX."""
    return str(summation_in(driver.lower(request.problem(), target=request.target.name, until=Level.ATOMS)))


def _lowered(
    request: Request, dump_ir: str | os.PathLike[str] | None = None, on_progress: Progress | None = None
) -> Lowered:
    return attempts.compile_ir(
        request.problem(),
        target=request.target.name,
        dump_dir=dump_ir,
        on_progress=on_progress,
        check=promise(request.numerics),
    )


def _from_store(store: KernelStore, request: Request, on_progress: Progress | None) -> CompiledKernel:
    """The kernel from the cache; if it is not there, compile and store it."""
    keep = partial(store.keep, request.key)
    stored = store.load(request.key)
    if stored is not None:
        return CachedKernel(stored, request.target, partial(_lowered, request), keep)
    lowered = _lowered(request, None, on_progress)
    kernel = CompiledKernel(lowered, keep)
    try:
        manifest = kernel.manifest
    except IRError:  # a launch will raise it
        return kernel
    keep(manifest, kernel.ptx, None if lowered.assembly is None else lowered.assembly.cubin)
    return kernel


@check_keywords
def compile_ir(
    source: str | os.PathLike[str],
    target: str | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
    *,
    on_progress: Progress | None = None,
) -> CompiledKernel:
    """Compile IR of any level: text, or the path of a dump, edited or not.

    `target`: by default the module's own; if both are given, they must agree. `dump_ir`: as in `compile_gemm`. Raises
    IRError for IR that is malformed or not of its level, and the errors of `compile_gemm`.
    """
    return CompiledKernel(attempts.compile_ir(source, target=target, dump_dir=dump_ir, on_progress=on_progress))


def resolve_schedule(schedule: Schedule | str | None, dtype: str) -> Schedule | None:
    """The schedule that a name, a text or a `Schedule` denotes, for A and B of an element type.

    Raises ScheduleError for an unknown name, and for a preset that does not support the type.
    """
    if schedule is None or isinstance(schedule, Schedule):
        return schedule
    if not isinstance(schedule, str):
        raise _no_schedule(schedule)
    if schedule in PRESETS:
        check_dtype(schedule, dtype)
        return PRESETS[schedule]
    if "=" in schedule or schedule.startswith("#") or not schedule.strip():
        return Schedule.parse(schedule)
    nearest = difflib.get_close_matches(schedule, PRESETS, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ScheduleError(f"unknown preset {schedule!r}; the presets are {', '.join(PRESETS)}{hint} [unknown-preset]")


def _no_schedule(given: object) -> ScheduleError:
    return ScheduleError(
        f"schedule is {type(given).__name__}; give None, a preset's name or a lowtide.Schedule [schedule-kind]"
    )
