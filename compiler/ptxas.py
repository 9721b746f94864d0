"""Assembles PTX with ptxas, and reads its report: registers, spills, shared memory, warnings."""

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lowtide.compiler.ptxas_program import ENVIRONMENT_VARIABLE, find_ptxas
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError
from lowtide.passes.schedules.facts.resources import threads_of
from lowtide.targets import Target

_TIMEOUT_SECONDS = 300
_REGISTER_UNIT = 8  # registers per thread are allocated in multiples of this
# C7519: ptxas inserts a warpgroup.arrive before the first wgmma of freshly written registers. It costs nothing.
_HARMLESS_ADVISORIES = frozenset({"7519"})


class BadCode(CompileError):
    """Unacceptable machine code: it spills, wgmma is serialized, or its roles need more registers than there are.
    Another schedule may have better code."""


@dataclass(frozen=True)
class Assembly:
    """Machine code, and ptxas's report on it. Registers, spills and stack bytes are per thread."""

    cubin: bytes = field(repr=False)
    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    static_smem_bytes: int
    warnings: tuple[str, ...]
    log: str = field(repr=False)


def assemble(
    ptx: str, target: Target, *, ptxas: Path | None = None, allow_spills: bool = False, lines: bool = False
) -> Assembly:
    """Assemble for a target; `lines`: with the lines that `.loc` directives name.

    Raises CompileError without ptxas or for invalid PTX, BadCode for spills or C75xx advisories.

    Spills cost more than any schedule gains. The advisories from C7510 on report serialized wgmma; C7508 reports an
    ignored setmaxnreg.
    """
    program = ptxas or find_ptxas()
    if program is None:
        raise CompileError(
            f"no ptxas: not in ${ENVIRONMENT_VARIABLE}, on PATH or in a wheel; pip install nvidia-cuda-nvcc, or let "
            "the driver assemble the PTX [no-ptxas]"
        )
    with tempfile.TemporaryDirectory(prefix="lowtide-ptxas-") as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        log = _run(
            [
                str(program),
                "-v",
                *(["-lineinfo"] if lines else []),
                f"-arch={target.chip}",
                str(source),
                "-o",
                str(result),
            ]
        )
        assembly = _report(result.read_bytes(), log)
    _refuse_bad_code(assembly, allow_spills)
    return assembly


def _run(command: list[str]) -> str:
    """The output of ptxas. Raises CompileError if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]} did not run: {error} [ptxas-ran]") from None
    log = done.stdout + done.stderr
    if done.returncode != 0:
        raise CompileError(
            f"{' '.join(command)} refused the PTX (status {done.returncode}):\n{log.strip()} [ptxas-refused]"
        )
    return log


def _report(cubin: bytes, log: str) -> Assembly:
    warnings = tuple(line.strip() for line in log.splitlines() if re.search(r"\bwarning\b|\(C7\d{3}\)", line))
    return Assembly(
        cubin=cubin,
        registers=_largest(r"Used (\d+) registers", log),
        spill_stores=_largest(r"(\d+) bytes spill stores", log),
        spill_loads=_largest(r"(\d+) bytes spill loads", log),
        stack_bytes=_largest(r"(\d+) bytes stack frame", log),
        static_smem_bytes=_largest(r"(\d+) bytes smem", log),
        warnings=warnings,
        log=log,
    )


def _largest(pattern: str, log: str) -> int:
    """The largest match of the pattern in the log, over all kernels; 0 without a match."""
    return max(map(int, re.findall(pattern, log)), default=0)


def confirm_registers(assembly: Assembly, schedule: Schedule, target: Target) -> None:
    """Compare the registers that ptxas allocated with those that the CTA can have and that its roles will request.

    Raises BadCode for a CTA that could not start, or warps that would wait for registers forever. Nothing is checked if
    the schedule leaves the number of threads open.
    """
    if schedule.multiply.atoms is None:
        return
    threads = threads_of(schedule)
    held = -(-assembly.registers // _REGISTER_UNIT) * _REGISTER_UNIT
    if held * threads > target.registers_per_sm:
        raise BadCode(
            f"ptxas gives each of {threads} threads {assembly.registers} registers, {held * threads} in all; "
            f"an SM of {target.name} has {target.registers_per_sm}, so that no CTA would start: keep the kernel's "
            "known_block_size, or take fewer warps [ptxas-registers]"
        )
    (producer, consumer), consumers = schedule.agents.registers, schedule.agents.consumer.all_warpgroups
    wanted, entry = producer + consumers * consumer, (1 + consumers) * held
    if consumer and wanted > entry:
        raise BadCode(
            f"registers = [{producer}, {consumer}] need {wanted} per lane over all warpgroups, but ptxas lets the CTA "
            f"enter with {entry} ({1 + consumers} × {assembly.registers}), so the last request would wait "
            f"forever: keep the kernel's nvvm.maxnreg, or take consumer ≤ {(entry - producer) // consumers // 8 * 8}"
            " [ptxas-registers-sum]"
        )


def _refuse_bad_code(assembly: Assembly, allow_spills: bool) -> None:
    codes = ((re.search(r"\(C(75\d{2})\)", line), line) for line in assembly.warnings)
    advisories = [line for code, line in codes if code is not None and code[1] not in _HARMLESS_ADVISORIES]
    if advisories:
        raise BadCode(f"ptxas: {advisories[0]}; {_way_out(advisories[0])} [ptxas-advisory]")
    if (assembly.spill_stores or assembly.spill_loads) and not allow_spills:
        raise BadCode(
            f"the kernel spills {assembly.spill_stores} bytes per thread to memory and loads {assembly.spill_loads} "
            f"(at {assembly.registers} registers per thread); take a smaller grid.tile, or more warps: larger "
            "multiply.atoms, or more consumers [kernel-spills]"
        )


def _way_out(advisory: str) -> str:
    if "C7508" in advisory:  # setmaxnreg is ignored: the registers at entry are unknown
        return "set the kernel's number of threads and registers at entry: known_block_size and nvvm.maxnreg"
    return "use accumulators only after the wait for them, or choose a schedule with fewer registers per thread"
