"""A compiled kernel: its levels, its code, and the ways to run it."""

import importlib
from collections.abc import Callable, Mapping
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from mlir import ir

from lowtide import runtime
from lowtide.compiler.anywhere import packing
from lowtide.compiler.attempts import passed_over
from lowtide.compiler.cache.store import Stored
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, Timing, lower
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.operands import RESERVED_NAMES
from lowtide.compiler.manifest.manifest import manifest_of
from lowtide.compiler.numerics import summation_in
from lowtide.compiler.origins.origins import Origins
from lowtide.compiler.ptxas import Assembly, assemble, confirm_registers
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error, InterpreterError, IRError, LaunchError, MisalignedError
from lowtide.html import table
from lowtide.keywords import check_keywords, nearest
from lowtide.passes.schedules.choice.asked import PassedOver
from lowtide.passes.support.problem.kernels import scheduled_kernels
from lowtide.runtime.checks import aligned_strides
from lowtide.runtime.kinds import ABSENT
from lowtide.runtime.manifest import problem_text
from lowtide.runtime.notebook import kernel_html
from lowtide.runtime.results import outputs_by_name, returned, returned_results
from lowtide.targets import Target

_INTEGER_DOMAINS = ("exact", "field")
_INTERPRETER = "lowtide.interpreter"  # imported on demand: it takes a third of the compiler's import time
_EXPLORE = "lowtide.inspection.explore.explore"  # what shows kernels is above the compiler

Keep = Callable[[Mapping[str, Any], str, bytes | None], None]
"""Stores manifest, PTX and machine code for the next compilation."""


class CompiledKernel:
    """The result of `compile_gemm` and `compile_ir`. A call launches it; see `lowtide.runtime.Kernel`.

    `keep` is called once there is machine code.
    """

    def __init__(self, lowered: Lowered, keep: Keep | None = None) -> None:
        self._lowered = lowered
        self._keep = keep
        if lowered.assembly is not None:
            self.assembly = lowered.assembly

    def __repr__(self) -> str:
        try:
            what = problem_text(self.manifest["spec"], self.target.name)
        except Error:  # compilation stopped early, or there is no valid host function
            what = f"for {self.target.name}, down to level {list(self.levels)[-1]}"
        return f"<lowtide kernel {what}: {self.schedule.shorthand()}>"

    def _repr_html_(self) -> str:
        try:
            return kernel_html(self.manifest) + self.schedule._repr_html_()
        except Error:  # as for repr
            return table("Lowtide kernel", [("kernel", repr(self))])

    @cached_property
    def levels(self) -> Mapping[str, str]:
        """The text of each level by its name, in order, from the level of the input to `ptx`."""
        return MappingProxyType(self._lowered.levels)

    @cached_property
    def target(self) -> Target:
        """The target that it was compiled for."""
        return self._lowered.target

    @cached_property
    def ptx(self) -> str:
        """The text of level `ptx`."""
        return self.levels[str(Level.PTX)]

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """The time that each step of the compilation took."""
        return self._lowered.timings

    @cached_property
    def origins(self) -> Origins:
        """Where the ops of each step and the instructions of the PTX come from (docs/origins.md). Without a dump
        folder, the kernel is compiled once more."""
        if self._lowered.origins is not None:
            return self._lowered.origins
        source = self._lowered.entered or next(iter(self.levels.values()))
        found = lower(source, until=list(self.levels)[-1], origins=True).origins
        assert found is not None
        return found

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule, including all fields that were chosen."""
        return _schedule(self._lowered)

    @cached_property
    def passed_over(self) -> tuple[PassedOver, ...]:
        """The schedules that were chosen before this one, and ptxas's report on the code of each."""
        return passed_over(self._lowered)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the saved kernel. Raises IRError if the host side cannot be evaluated."""
        text = self.levels.get(str(Level.LLVM))
        if text is None:
            raise IRError("no host-side IR is available: the input was below level llvm [no-host-side]")
        manifest = manifest_of(text, next(iter(self.levels.values())), str(self.schedule))
        return manifest | {"summation": self.summation}

    @cached_property
    def entry(self) -> str:
        """The name of the kernel that multiplies, as in the PTX and in profilers. Raises IRError unless level `llvm`
        has one such kernel, which is the one with a schedule."""
        with make_context() as context:
            names = list(scheduled_kernels(parse_text(self.levels.get(str(Level.LLVM), ""), context, "<level llvm>")))
        if len(names) != 1:
            raise IRError(
                f"level llvm has {len(names)} kernels with a schedule; give one kernel the schedule, or read the names"
                " in the PTX [one-entry]"
            )
        return names[0]

    @cached_property
    def summation(self) -> str | None:
        """The order in which the K products of an element of D are added (docs/numerics.md), as text. Kernels of one
        problem with equal texts compute equal bits. None if the input was below level `epilogue`."""
        found = summation_in(self._lowered)
        return None if found is None else str(found)

    @cached_property
    def assembly(self) -> Assembly | None:
        """Machine code for the target, and ptxas's report; None without ptxas.

        Raises CompileError for spills, serialized wgmma, or registers that do not suffice for the CTA's roles.
        """
        if find_ptxas() is None:
            return None
        assembly = assemble(self.ptx, self.target)
        confirm_registers(assembly, self.schedule, self.target)
        return assembly

    @cached_property
    def cubin(self) -> bytes | None:
        """Machine code for the target; None without ptxas (the driver then assembles the PTX)."""
        if self.assembly is None:
            return None
        if self._keep is not None:
            self._keep(self.manifest, self.ptx, self.assembly.cubin)
        return self.assembly.cubin

    @cached_property
    def _loaded(self) -> runtime.Kernel:
        return runtime.Kernel(self.manifest, self.ptx, self.cubin)

    @cached_property
    def _interpreted(self) -> dict[str, Any]:
        """The levels that were interpreted, parsed and decoded. A run takes its level out, so that no other thread
        runs the same program."""
        return {}

    @cached_property
    def _anywhere(self) -> runtime.Kernel | None:
        """The same kernel with launches that copy unaligned matrices; None if there is none."""
        lowered = packing(self._lowered)
        return None if lowered is None else CompiledKernel(lowered)._loaded

    def _that_takes(self, error: MisalignedError) -> runtime.Kernel:
        """The kernel for operands that were refused; it serves all calls from now on. Raises `error` if it refused them
        itself."""
        if self._anywhere is None or self._loaded is self._anywhere:
            raise error
        self._loaded = self._anywhere
        return self._loaded

    def __call__(
        self, *matrices: Any, stream: Any = None, out: Any = None, workspace: Any = None, **operands: Any
    ) -> Any:
        """Launch on GPU arrays; returns D. Raises LaunchError, DeviceError: see `lowtide.runtime.Kernel`.

        If the schedule cannot read or write a matrix because of its alignment, the kernel is compiled once more with
        `pack = rows`, and serves later calls too.
        """
        options: dict[str, Any] = {"stream": stream, "out": out, "workspace": workspace, **operands}
        try:
            return self._loaded(*matrices, **options)
        except MisalignedError as error:
            return self._that_takes(error)(*matrices, **options)

    def bind(
        self, *matrices: Any, stream: Any = None, out: Any = None, workspace: Any = None, **operands: Any
    ) -> runtime.Launch:
        """A launch with its arguments prepared, for repeated use; call it with no arguments."""
        options: dict[str, Any] = {"stream": stream, "out": out, "workspace": workspace, **operands}
        try:
            return self._loaded.bind(*matrices, **options)
        except MisalignedError as error:
            return self._that_takes(error).bind(*matrices, **options)

    def known(self, *matrices: Any, out: Any, **operands: Any) -> tuple[Any, Any]:
        """The launch of an earlier call on such torch tensors, and its plan: see `lowtide.runtime.Kernel`."""
        return self._loaded.known(*matrices, out=out, **operands)

    def workspace_bytes(self, *matrices: Any, **operands: Any) -> int:
        """Bytes of workspace that a call with these operands needs: see `lowtide.runtime.Kernel`."""
        try:
            return self._loaded.workspace_bytes(*matrices, **operands)
        except MisalignedError as error:
            return self._that_takes(error).workspace_bytes(*matrices, **operands)

    @check_keywords
    def save(self, path: str | PathLike[str]) -> Any:
        """Write the kernel to a folder. `lowtide.runtime.load` reads it, also without a compiler."""
        return self._loaded.save(path)

    @check_keywords
    def explore(
        self,
        path: str | PathLike[str],
        *,
        report: Mapping[str, Any] | None = None,
        trace: str | PathLike[str] | None = None,
    ) -> None:
        """Write an HTML file that shows the kernel: its levels side by side, where each op comes from, the schedule
        with reasons (docs/explore.md).

        `report`: what `lt.check` found for it, as `as_json` gives it. `trace`: a file of `lowtide explain … --trace`.
        Raises Error for another kind of file, and for one that cannot be written."""
        importlib.import_module(_EXPLORE).explore(self, path, report=report, trace=trace)

    def interpret(
        self,
        a: Any,
        b: Any,
        *,
        out: Any = None,
        level: str = "nvvm",
        sms: int = 2,
        seed: int = 0,
        domain: str = "float",
        max_steps: int = 10_000_000,
        **operands: Any,
    ) -> Any:
        """Run a level on a CPU under the hardware's rules, on numpy arrays. Returns D, or a dict of results by name.

        Operands are those of a call, with the dtypes that the kernel was compiled for; M, N and K are arbitrary,
        including 0. In the domains "exact" and "field", arrays may hold integers of any dtype, and D is int64. `out` is
        a numpy array of D's shape and dtype, which is written and returned; it may be a full operand. For results by
        name, `out` is a dict of such arrays. In those two domains, an `out` of another dtype only sets the strides.
        `sms`: the number of SMs, at least 1. `seed`: an integer that determines the order in which agents run.
        `max_steps`: the most ops that each agent may run. In the domain "hopper", sums in tensor cores have the bits
        that an H200 computes. Raises InterpreterError for operands that do not fit, for a level that is not interpreted
        or was not compiled, and for every rule of the hardware that the kernel breaks.
        """
        if not isinstance(level, str) or level not in self.levels:
            raise InterpreterError(
                f"level {level!r} is not available; this kernel has {', '.join(self.levels)} [level-at-hand]"
            )
        arguments = {argument["name"]: argument for argument in self.manifest["arguments"]}
        names = [name for name, argument in arguments.items() if argument["kind"] != ABSENT]
        given = {"a": a, "b": b, **operands}
        unknown = sorted(set(given) - set(names))
        full = returned_results(self.manifest["arguments"])
        missing = [name for name in names if name not in given and name not in full]
        if unknown or missing:
            what = f"unknown operand {unknown[0]!r}" if unknown else f"missing operand {missing[0]!r}"
            hint = nearest(unknown[0], (*names, *RESERVED_NAMES)) if unknown else ""
            raise InterpreterError(f"{what}; this kernel takes {', '.join(names)}{hint} [operands-of-kernel]")
        outputs = _checked_outputs(out, {name: arguments[name]["dtype"] for name in full}, domain)
        inputs = {name: (given | outputs)[name] for name in names if name in given or name in outputs}
        _check_alignment(inputs, arguments)
        interpreter = importlib.import_module(_INTERPRETER)
        loaded = self._interpreted.pop(level, None)
        if loaded is None:
            is_ptx = level == str(Level.PTX)
            loaded = interpreter.Loaded(self.levels[str(Level.LLVM if is_ptx else level)], self.ptx if is_ptx else None)
        found = interpreter.interpret(loaded, inputs, sms=sms, seed=seed, domain=domain, max_steps=max_steps)
        self._interpreted[level] = loaded
        results = found if len(full) > 1 else {full[0]: found}
        for name, array in outputs.items():
            if isinstance(results[name], np.ndarray) and array.dtype == results[name].dtype:
                array[...] = results[name]
                results[name] = array
        return returned(results)


class CachedKernel(CompiledKernel):
    """A kernel whose code was in the cache. It is compiled again for attributes that are not stored, such as `levels`.

    `again` is that compilation, which produces the same code.
    """

    def __init__(self, stored: Stored, target: Target, again: Callable[[], Lowered], keep: Keep | None = None) -> None:
        self._again = again
        self._keep = keep
        self.target = target
        self.ptx = stored.ptx
        self.manifest = stored.manifest
        if stored.cubin is not None:
            self.cubin = stored.cubin

    @cached_property
    def _lowered(self) -> Lowered:  # type: ignore[override]
        return self._again()

    @cached_property
    def schedule(self) -> Schedule:
        return Schedule.parse(self.manifest["schedule"])

    @cached_property
    def summation(self) -> str | None:
        found: str | None = self.manifest["summation"]
        return found


def _checked_outputs(out: Any, dtypes: Mapping[str, str], domain: str) -> dict[str, Any]:
    """The arrays passed for full results, by name. Raises InterpreterError if one cannot be written."""
    try:
        outputs = outputs_by_name(out, list(dtypes))
    except LaunchError as error:
        raise InterpreterError(str(error)) from None
    for name, array in outputs.items():
        _check_out(array, "D" if name == "d" else name, dtypes[name], domain)
    return outputs


def _check_out(out: Any, name: str, dtype: str, domain: str) -> None:
    """Raises InterpreterError if a result cannot be written to `out`."""
    if not isinstance(out, np.ndarray):
        raise InterpreterError(
            f"out: {type(out).__name__} is not a numpy array; pass one, or None to allocate {name} [out-numpy]"
        )
    if not out.flags.writeable:
        raise InterpreterError(
            f"out: the array is read-only; pass a writable one, or None to allocate {name} [out-read-only]"
        )
    if domain not in _INTEGER_DOMAINS and out.dtype != numpy_dtype(dtype):
        raise InterpreterError(
            f"out: dtype is {out.dtype}, {name} is {dtype}; pass an array of {numpy_dtype(dtype)} [out-dtype-of-d]"
        )


def _check_alignment(inputs: Mapping[str, Any], arguments: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises InterpreterError for rows that a call also refuses, because accesses would be misaligned."""
    for name, array in inputs.items():
        argument = arguments[name]
        is_aligned = argument["kind"] in ("matrix", "full") or argument["role"] == "output"
        if not is_aligned or not isinstance(array, np.ndarray) or array.ndim < 2 or 0 in array.shape:
            continue
        try:
            aligned_strides(argument, array.shape, [stride // array.itemsize for stride in array.strides])
        except MisalignedError as error:
            raise InterpreterError(str(error)) from None


def _schedule(lowered: Lowered) -> Schedule:
    """The schedule on the kernel, or on the problem, in the last level that is IR."""
    text = lowered.levels[[level for level in lowered.levels if level != str(Level.PTX)][-1]]
    with ir.Context(load_on_create_dialects=[]) as context:
        context.enable_multithreading(False)
        return Schedule.carried_by(ir.Module.parse(text)) or Schedule()
