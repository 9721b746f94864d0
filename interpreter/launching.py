"""Launches of decoded kernels: their checks, and their run to completion. Needs no MLIR.

`run` takes the text of PTX and a record of launches (`lowtide.launches`), which replaces the host function.
"""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide import targets
from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.machine.agents import LaunchRequest, Machine, Shape, registers_that_fit
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.exploration import pause
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.grid_workspace import place_workspace
from lowtide.interpreter.machine.interleavings import Order
from lowtide.interpreter.machine.options import Observers, Options
from lowtide.interpreter.machine.scheduling import Turns, ctas_together, run_in_turns, start_cluster
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.placing import Places
from lowtide.interpreter.program.dependence import Classify, dependences
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.ptx.decoding import decode
from lowtide.interpreter.ptx.parsing import parse
from lowtide.interpreter.ptx.syntax import Entry, Module
from lowtide.interpreter.ptx.uses import use_of
from lowtide.launches import Extents, Launch, LaunchRecord, Pointer, Struct
from lowtide.targets import Target

MAX_THREADS = 1024
_GRID: Extents = (2**31 - 1, 65535, 65535)
_BLOCK: Extents = (1024, 1024, 64)
MAX_CLUSTER = 8  # CTAs (CUDA C++ Programming Guide, "Thread Block Clusters")
_MAX_CLUSTER_OPTED = 16  # with cudaFuncAttributeNonPortableClusterSizeAllowed
_BLOCK_SIZES = frozenset({"known_block_size", "gpu.known_block_size", "nvvm.reqntid"})  # exact block sizes of a kernel


# A record -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A launch, for messages."""

    launch: Launch
    number: int

    def describe(self) -> str:
        return f"launch {self.number} of {self.launch.kernel}"


@dataclass(frozen=True)
class Parsed:
    """A text of PTX for several runs: parsed once, its kernels decoded once for each number domain."""

    module: Module
    programs: dict[tuple[str, str, bool], Program]

    def program(self, name: str, numbers: domains.Domain, pauses: bool = False) -> Program:
        """A kernel, decoded; with `pauses`, for runs in several orders. Raises InterpreterError as `decode`."""
        key = name, numbers.name, pauses
        if key not in self.programs:
            program = decode(self.module, name, numbers)
            if pauses:
                pause(program, use_of)
            self.programs[key] = program
        return self.programs[key]


def parsed(ptx: str, file: str = "<ptx>") -> Parsed:
    """A text of PTX. Raises InterpreterError, with the line, for text that is not interpreted."""
    return Parsed(parse(ptx, file), {})


def run(
    ptx: str | Parsed,
    record: LaunchRecord,
    *,
    domain: str = "float",
    options: Options | None = None,
    observers: Observers | None = None,
    file: str = "<ptx>",
) -> dict[str, NDArray[Any]]:
    """Run the launches of a record in order on the kernels of a text; returns the arrays after them, by name.

    The arrays keep their shapes and have the dtype of their elements, or int64 in the domains "exact" and "field". If
    loads race whose values may be unused, the launches run again and watch these loads (machine/unused_reads.py).
    Raises InterpreterError for illegal PTX, an illegal launch, and every broken rule.
    """
    source = parsed(ptx, file) if isinstance(ptx, str) else ptx
    options, observers = options or Options(), observers or Observers()
    race: InterpreterError | None = None
    while True:
        error: InterpreterError | None = None
        try:
            arrays = _run_once(source, record, domains.domain(domain), options, observers)
        except InterpreterError as broken:
            error = broken
        if observers.relied is not None and observers.relied.again():
            race = race or error
            observers.restart()
            continue
        if error is None:
            return arrays
        raise race if race is not None and isinstance(error, NotInterpreted) else error


def _run_once(
    source: Parsed, record: LaunchRecord, numbers: domains.Domain, options: Options, observers: Observers
) -> dict[str, NDArray[Any]]:
    module, memory = source.module, GlobalMemory(numbers.payload)
    if observers.relied is not None:
        memory.forgive(observers.relied)
    launcher = Launcher(numbers, memory, options, observers)
    target = _target_of(module)
    with np.errstate(all="ignore"):
        places = Places.of(memory, numbers, record.arrays)
        for number, launch in enumerate(record.launches):
            origin = _Source(launch, number)
            request = _request(launch, module, places, origin)
            check_shape(request, target, origin)
            program = source.program(launch.kernel, numbers, observers.explorer is not None)
            pointers = _pointers(launch, module.entries[launch.kernel])
            memory.limit(program.pointer_limits.of(pointers, {each.name: each for each in memory.buffers}))
            launcher.run(program, request, origin, use_of)
    if observers.unwritten is not None:
        observers.unwritten.update(places.unwritten())
    if observers.last_writes is not None:
        observers.last_writes.append(places.last_write)
    return places.contents()


def _target_of(module: Module) -> Target | None:
    """The target of a module, for its limits; Hopper's for later ones, which have no smaller limits in common."""
    number = module.target.removeprefix("sm_").rstrip("af")
    name = "sm_90a" if number.isdecimal() and 90 <= int(number) < 120 else f"sm_{number}"
    return next((each for each in targets.KNOWN if each.name == name), None)


def _request(launch: Launch, module: Module, places: Places, source: _Source) -> LaunchRequest:
    """The launch with its parameters as register values. Raises InterpreterError for parameters that do not fit."""
    if launch.kernel not in module.entries:
        raise InterpreterError(
            f"{module.file} has no kernel {launch.kernel}; it has {', '.join(module.entries)} [launched-kernel]"
        )
    entry: Entry = module.entries[launch.kernel]
    if len(entry.parameters) != len(launch.parameters):
        raise InterpreterError(
            f"{source.describe()}: {len(launch.parameters)} parameters; {launch.kernel} takes {len(entry.parameters)}"
            " [launched-parameters]"
        )
    shape = Shape(launch.grid, launch.block, _cluster(launch, entry))
    _check_extents(shape, source)
    values = [
        places.parameter(parameter, variable.type, f"{source.describe()}: parameter {variable.name}")
        for parameter, variable in zip(launch.parameters, entry.parameters, strict=True)
    ]
    return LaunchRequest(
        launch.kernel,
        math.prod(shape.grid),
        math.prod(shape.block),
        launch.shared_bytes,
        tuple(values),
        launch.programmatic,
        launch.cooperative,
        (math.prod(shape.cluster), 1),
        shape,
    )


def _pointers(launch: Launch, entry: Entry) -> dict[tuple[str, int], str]:
    """The names of the arrays that pointers in the parameters of a launch point to, by parameter and byte in it."""
    found = {}
    for variable, value in zip(entry.parameters, launch.parameters, strict=True):
        pointers = [(0, value)] if isinstance(value, Pointer) else value.pointers if isinstance(value, Struct) else ()
        found.update({(variable.name, offset): pointer.array for offset, pointer in pointers})
    return found


def _cluster(launch: Launch, entry: Entry) -> Extents:
    """The launch's cluster; if it says none, that of the kernel, as for `<<<…>>>` of a kernel with __cluster_dims__."""
    declared = entry.directives.get("reqnctapercluster", ())
    if launch.cluster != (1, 1, 1) or not declared:
        return launch.cluster
    x, y, z = (*declared, 1, 1)[:3]
    return x, y, z


def _check_extents(shape: Shape, source: _Source) -> None:
    """Raises InterpreterError for sides that no GPU takes (CUDA C++ Programming Guide, "Compute Capabilities")."""
    limits = {"grid": (shape.grid, _GRID), "block": (shape.block, _BLOCK), "cluster": (shape.cluster, _GRID)}
    for name, (extents, most) in limits.items():
        if any(not 1 <= each <= limit for each, limit in zip(extents, most, strict=True)):
            raise InterpreterError(
                f"{source.describe()}: a {name} of {list(extents)}; its sides are 1 to {list(most)} [launched-extents]"
            )
    if any(each % of for each, of in zip(shape.grid, shape.cluster, strict=True)):
        raise InterpreterError(
            f"{source.describe()}: a grid of {list(shape.grid)} in clusters of {list(shape.cluster)}; each side must "
            "be a multiple [launched-cluster-sides]"
        )


# A launch -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launcher:
    """Runs launches on one memory."""

    domain: domains.Domain
    memory: GlobalMemory
    options: Options
    observers: Observers

    def run(self, program: Program, request: LaunchRequest, op: Described, classify: Classify) -> None:
        """Run a launch to completion for `op`. Raises InterpreterError if it does not fit the kernel, or if no agent
        can continue."""
        for deadlock in self.in_turns(program, request, op, classify):
            if deadlock is not None:
                raise deadlock

    def in_turns(self, program: Program, request: LaunchRequest, op: Described, classify: Classify) -> Turns:
        """As `run`, taking turns with the launches of other devices."""
        if len(program.block.arguments) != len(request.arguments):
            raise InterpreterError(
                f"{op.describe()}: @{program.name} takes {len(program.block.arguments)} arguments [kernel-arguments]"
            )
        _check_roles(program, request, op)
        _check_declared(program, request, op)
        has_workspace = request.cooperative and program.reads_grid_workspace
        grid_workspace = place_workspace(self.memory) if has_workspace else 0
        self.memory.begin_launch(request.programmatic, notes_reads=request.shape is not None)
        machine = Machine(
            program.level,
            self.domain,
            self.memory,
            self.options,
            self.observers,
            request.grid,
            request.threads,
            collective=program.collective and not program.is_hardware,
            roles=program.roles,
            registers=_registers_at_entry(program),
            cluster=request.cluster,
            shape=request.shape,
            dynamic_bytes=request.shared_memory or 0,
            grid_workspace=grid_workspace,
            order=self._order(program, classify),
            ctas_together=ctas_together(program, request.cluster),
        )
        count = request.grid // math.prod(request.cluster)
        clusters = (start_cluster(machine, program, index, request) for index in range(count))
        ended = itertools.count(1)
        resident = count if request.cooperative else clusters_at_a_time(self.options.sms, request.cluster)
        if machine.joins:  # no CTA waits for another, so the number of resident CTAs changes no result
            resident = max(resident, machine.ctas_together)
        explorer, on_progress = self.observers.explorer, self.observers.on_progress
        if explorer is not None:
            explorer.launch()
        choose = None if explorer is None else explorer.choose
        seed = self.options.seed
        yield from run_in_turns(clusters, resident, seed, lambda cta: on_progress(next(ended), request.grid), choose)

    def _order(self, program: Program, classify: Classify) -> Order | None:
        """The check of a launch for the report: at the levels of instructions, if a report is asked for."""
        report = self.observers.report
        if report is None or not program.is_hardware:
            return None
        if program.dependences is None:
            program.dependences = dependences(program, classify)
        report.kernels[program.name] = program.dependences
        return Order(report)


def check_shape(request: LaunchRequest, target: Target | None, op: Described) -> None:
    """Raises InterpreterError for a launch that is illegal on every GPU or on the target."""
    if request.grid < 1 or request.grid >= 2**31:
        raise InterpreterError(
            f"{op.describe()}: a grid of {request.grid} CTAs; 1 to 2^31 - 1 can be launched [grid-size]"
        )
    is_whole = request.shape is not None or request.threads % WARP == 0
    if not is_whole or not 1 <= request.threads <= MAX_THREADS:
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA; take a multiple of {WARP} up to {MAX_THREADS}"
            " [threads-per-cta]"
        )
    _check_cluster(request, op)
    limit = target.smem_bytes_per_cta if target else None
    if (request.shared_memory or 0) < 0:
        raise InterpreterError(
            f"{op.describe()}: {request.shared_memory} bytes of shared memory; pass 0 or more [smem-negative]"
        )
    if limit is not None and (request.shared_memory or 0) > limit:
        raise InterpreterError(
            f"{op.describe()}: {request.shared_memory} bytes of shared memory; a CTA has {limit} on "
            f"{target.name if target else ''}: use fewer stages or a smaller tile [smem-of-launch]"
        )


def _check_cluster(request: LaunchRequest, op: Described) -> None:
    size = math.prod(request.cluster)
    most, how = (MAX_CLUSTER, "portable") if request.shape is None else (_MAX_CLUSTER_OPTED, "possible")
    if size > most:
        raise InterpreterError(f"{op.describe()}: clusters of {size} CTAs; at most {most} are {how} [cluster-portable]")
    if request.grid % size:
        raise InterpreterError(
            f"{op.describe()}: a grid of {request.grid} CTAs in clusters of {size}; it must be a multiple of {size}"
            " [cluster-grid]"
        )


def _check_roles(program: Program, request: LaunchRequest, op: Described) -> None:
    needed = sum(role.warps * role.instances for role in program.roles) * WARP
    if program.roles and needed != request.threads:
        roles = " + ".join(f"{role.warps * role.instances} of role {role.name}" for role in program.roles)
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA; {roles} warps are {needed} threads [roles-threads]"
        )


def _check_declared(program: Program, request: LaunchRequest, op: Described) -> None:
    """Check that a kernel's declarations match its launch, since its PTX relies on them."""
    declared = program.attributes.get("nvvm.cluster_dim", None if request.shape is not None else (1,))
    required, said = math.prod(request.cluster if declared is None else declared), partial(_said, program)
    if program.is_hardware and required != math.prod(request.cluster):
        raise InterpreterError(
            f"{op.describe()}: clusters of {math.prod(request.cluster)} CTAs, {said('nvvm.cluster_dim')} of "
            f"@{program.name} has {required}; write the same in both [cluster-declared]"
        )
    for name in _BLOCK_SIZES & program.attributes.keys():
        if (threads := math.prod(program.attributes[name])) != request.threads:
            raise InterpreterError(
                f"{op.describe()}: {request.threads} threads per CTA, {said(name)} of @{program.name} has "
                f"{threads}; write the same in both [threads-declared]"
            )
    most = math.prod(program.attributes.get("nvvm.maxntid", (MAX_THREADS,)))
    if request.threads > most:
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA, {said('nvvm.maxntid')} of @{program.name} allows "
            f"{most} [threads-allowed]"
        )
    held, most = _registers_at_entry(program), registers_that_fit(request.threads)
    if held > most:
        raise InterpreterError(
            f"{op.describe()}: @{program.name} enters with {held} registers per thread ({said('nvvm.maxnreg')}), "
            f"{request.threads} threads can have {most} each; take at most that [registers-share]"
        )
    maps = [at for at, argument in enumerate(request.arguments) if isinstance(argument, TensorMap)]
    names = {"llvm": "llvm.byval, in parameters aligned to 64 bytes,", "ptx": "parameters of 128 bytes, aligned to 64,"}
    found = {"nvvm": _tensor_maps, "llvm": _by_value, "ptx": _tensor_maps}
    said = found.get(program.level, lambda program: maps)(program)
    if maps != said:
        name = names.get(program.level, "tensor_maps")
        raise InterpreterError(
            f"{op.describe()}: passes tensor maps as the arguments {maps}, @{program.name} has {name} = {said}; "
            "list them: only listed maps are passed by value, as the TMA unit requires [tensor-maps-declared]"
        )


_IN_PTX = {
    "nvvm.cluster_dim": ".reqnctapercluster",
    "nvvm.reqntid": ".reqntid",
    "nvvm.maxntid": ".maxntid",
    "nvvm.maxnreg": ".maxnreg",
}


def _said(program: Program, attribute: str) -> str:
    """The name of an attribute of a kernel in the program's language."""
    return _IN_PTX.get(attribute, attribute) if program.level == "ptx" else attribute


def _tensor_maps(program: Program) -> list[int]:
    """The arguments that a gpu.func declares as tensor maps."""
    return sorted(program.attributes.get("tensor_maps", ()))


def _by_value(program: Program) -> list[int]:
    """The arguments of an llvm.func that are in parameter space themselves, aligned as the TMA unit requires."""
    described = program.attributes.get("arg_attrs", ())
    return [at for at, entry in enumerate(described) if "llvm.byval" in entry and entry.get("llvm.align", 1) >= 64]


def _registers_at_entry(program: Program) -> int:
    """Registers per thread, by nvvm.maxnreg, a multiple of eight; 0 if the kernel does not say."""
    return -(-int(program.attributes.get("nvvm.maxnreg", 0)) // 8) * 8
