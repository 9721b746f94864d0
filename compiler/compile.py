"""`compile_gemm` and `compile_ir`: from a spec, or from a dumped level, to a kernel."""

import difflib
import os

from lowtide.compiler import driver
from lowtide.compiler.driver import Progress
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import resolve
from lowtide.compiler.presets import PRESETS, check_dtype
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, SpecError


def compile_gemm(
    spec: GemmSpec,
    target: str = "sm_80",
    schedule: Schedule | str | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
    *,
    on_progress: Progress | None = None,
) -> CompiledKernel:
    """Compile a GEMM for a target.

    `target`: `sm_80`, which every later GPU runs too, if left out; `sm_86`, …, `sm_90a`; or `native`, the one that fits
    the GPU at hand best (DeviceError without a GPU). On Hopper, name `sm_90a` or `native` to have TMA and wgmma.
    `schedule`: None to have it chosen, a preset's name, `#tile.schedule<…>` text, or a `Schedule`; what it leaves open
    is chosen. `dump_ir`: a folder that gets each step as `NN-level/NN-pass.mlir`, and the PTX.
    It is `compile_ir` of the problem. Raises SpecError, TargetError, DeviceError, ScheduleError, PassError,
    CompileError.
    """
    if not isinstance(spec, GemmSpec):
        raise SpecError(f"spec is {type(spec).__name__}; give a lowtide.GemmSpec")
    given = resolve_schedule(schedule)
    if isinstance(schedule, str) and schedule in PRESETS:
        check_dtype(schedule, spec.a)
    settled = resolve(target)
    text = problem_text(spec, settled, given)
    return CompiledKernel(driver.compile_ir(text, target=settled.name, dump_dir=dump_ir, on_progress=on_progress))


def compile_ir(
    source: str | os.PathLike[str],
    target: str | None = None,
    dump_ir: str | os.PathLike[str] | None = None,
    *,
    on_progress: Progress | None = None,
) -> CompiledKernel:
    """Go on from IR of any level: text, or the path of a dump, edited or not. See `lowtide.compiler.driver.lower`.

    `target` is the module's own if left out; where given, by name or as `native`, the two must agree.
    """
    return CompiledKernel(driver.compile_ir(source, target=target, dump_dir=dump_ir, on_progress=on_progress))


def resolve_schedule(schedule: Schedule | str | None) -> Schedule | None:
    """A schedule from its name, its text, or itself. Raises ScheduleError for a name that is none."""
    if schedule is None or isinstance(schedule, Schedule):
        return schedule
    if not isinstance(schedule, str):
        raise ScheduleError(f"schedule is {type(schedule).__name__}; give None, a preset's name or a lowtide.Schedule")
    if schedule in PRESETS:
        return PRESETS[schedule]
    if "=" in schedule:
        return Schedule.parse(schedule)
    nearest = difflib.get_close_matches(schedule, PRESETS, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ScheduleError(f"unknown preset {schedule!r}; the presets are {', '.join(PRESETS)}{hint}")
