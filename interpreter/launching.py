"""Launches of decoded kernels: their checks, and their run to completion. Needs no MLIR.

`run` takes the text of PTX and a record of launches (`lowtide.launches`), which replaces the host function.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide import targets
from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.machine.agents import LaunchRequest, Machine, registers_that_fit
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.exploration import pause
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.interleavings import Order
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.machine.options import Observers, Options
from lowtide.interpreter.machine.scheduling import run_all, start_cluster
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.numbers.cells import ELEMENT_BYTES, Described
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.program.dependence import Classify, dependences
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Scalar
from lowtide.interpreter.ptx.decoding import decode
from lowtide.interpreter.ptx.parsing import parse
from lowtide.interpreter.ptx.syntax import Entry, Module
from lowtide.interpreter.ptx.table import bits_of
from lowtide.interpreter.ptx.uses import use_of
from lowtide.launches import Array, Launch, LaunchRecord, Parameter, Pointer
from lowtide.targets import Target

MAX_THREADS = 1024
MAX_CLUSTER = 8  # CTAs (CUDA C++ Programming Guide, "Thread Block Clusters")
_BLOCK_SIZES = frozenset({"known_block_size", "gpu.known_block_size", "nvvm.reqntid"})  # exact block sizes of a kernel


# A record -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A launch, for messages."""

    launch: Launch
    number: int

    def describe(self) -> str:
        return f"launch {self.number} of {self.launch.kernel}"


def run(
    ptx: str,
    record: LaunchRecord,
    *,
    domain: str = "float",
    options: Options | None = None,
    observers: Observers | None = None,
    file: str = "<ptx>",
) -> dict[str, NDArray[Any]]:
    """Run the launches of a record in order on the kernels of a text; returns the arrays after them, by name.

    The arrays keep their shapes and have the dtype of their elements, or int64 in the domains "exact" and "field".
    Raises InterpreterError for illegal PTX, an illegal launch, and every broken rule.
    """
    module, numbers = parse(ptx, file), domains.domain(domain)
    memory = GlobalMemory(numbers.payload)
    options, observers = options or Options(), observers or Observers()
    launcher = Launcher(numbers, memory, options, observers)
    target = next((each for each in targets.KNOWN if each.name == module.target), None)
    with np.errstate(all="ignore"):
        addresses = {name: _placed(memory, numbers, name, array) for name, array in record.arrays.items()}
        programs: dict[str, Program] = {}
        for number, launch in enumerate(record.launches):
            source = _Source(launch, number)
            request = _request(launch, module, addresses, numbers, source)
            check_shape(request, target, source)
            if launch.kernel not in programs:
                programs[launch.kernel] = decode(module, launch.kernel, numbers)
                if observers.explorer is not None:
                    pause(programs[launch.kernel], use_of)
            launcher.run(programs[launch.kernel], request, source, use_of)
    return {
        name: numbers.matrix_of(memory.contents(name)[0], _element(array.dtype)).reshape(array.shape)
        for name, array in record.arrays.items()
    }


def _element(dtype: str) -> str:
    """The name of an element's type in memory: a row of `elements`, or an integer of some bits."""
    name = element_type(dtype).ir if dtype in ELEMENTS else dtype
    if name not in ELEMENT_BYTES:
        raise InterpreterError(
            f"elements of type {dtype} are not interpreted; take one of {', '.join(ELEMENT_BYTES)} [launched-element]"
        )
    return name


def _placed(memory: GlobalMemory, numbers: domains.Domain, name: str, array: Array) -> int:
    """The address of an array after it is placed in memory."""
    if len(array.shape) > 3 or len(array.strides) != max(0, len(array.shape) - 1):
        raise NotInterpreted(
            f"array {name}: {len(array.shape)} dimensions with {len(array.strides)} strides; up to three are "
            "interpreted, with a stride for each but the last [launched-strides]"
        )
    count, rows, columns = (*(1,) * (3 - len(array.shape)), *array.shape)
    batch_stride, row_stride = (*(0,) * (2 - len(array.strides)), *array.strides)
    element, values = _element(array.dtype), array.values
    payload = None if values is None else numbers.of_matrix(np.asarray(values), element).reshape(-1, columns)
    batch = count, batch_stride
    return memory.allocate(name, rows, columns, row_stride or columns, element, payload, array.misaligned, batch)


def _request(
    launch: Launch, module: Module, addresses: dict[str, int], numbers: domains.Domain, source: _Source
) -> LaunchRequest:
    """The launch with its parameters as register values. Raises InterpreterError for parameters that do not fit."""
    if launch.kernel not in module.entries:
        raise InterpreterError(
            f"{module.file} has no kernel {launch.kernel}; it has {', '.join(module.entries)} [launched-kernel]"
        )
    for name, extents in (("grid", launch.grid), ("block", launch.block), ("cluster", launch.cluster)):
        if extents[1:] != (1, 1):
            raise NotInterpreted(
                f"{source.describe()}: a {name} of {list(extents)}; only one dimension is interpreted"
                " [launched-dimensions]"
            )
    entry: Entry = module.entries[launch.kernel]
    if len(entry.parameters) != len(launch.parameters):
        raise InterpreterError(
            f"{source.describe()}: {len(launch.parameters)} parameters; {launch.kernel} takes {len(entry.parameters)}"
            " [launched-parameters]"
        )
    values = [
        _register(parameter, variable.type, addresses, numbers)
        for parameter, variable in zip(launch.parameters, entry.parameters, strict=True)
    ]
    return LaunchRequest(
        launch.kernel,
        launch.grid[0],
        launch.block[0],
        launch.shared_bytes,
        tuple(values),
        launch.programmatic,
        launch.cooperative,
        (launch.cluster[0], 1),
    )


def _register(parameter: Parameter, type: str, addresses: dict[str, int], numbers: domains.Domain) -> Any:
    """The result of `ld.param` of a parameter of a type."""
    if isinstance(parameter, Pointer):
        return addresses[parameter.array] + parameter.offset
    if isinstance(parameter, bytes):
        if type[0] != "f":
            return int.from_bytes(parameter, "little", signed=True)
        value = np.frombuffer(parameter, f"f{bits_of(type) // 8}")[0]
        return Number(numbers.constant(float(value), type), type)
    element = _element(parameter.dtype)
    at = addresses[parameter.at.array] + parameter.at.offset
    matrix = Matrix(
        parameter.at.array, at, parameter.shape, parameter.strides, Scalar(element, 8 * ELEMENT_BYTES[element])
    )
    return TensorMap(matrix, parameter.box, parameter.shape, (*parameter.strides, 1), parameter.swizzle)


# A launch -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launcher:
    """Runs launches on one memory."""

    domain: domains.Domain
    memory: GlobalMemory
    options: Options
    observers: Observers

    def run(self, program: Program, request: LaunchRequest, op: Described, classify: Classify) -> None:
        """Run a launch to completion for `op`. Raises InterpreterError if it does not fit the kernel."""
        if len(program.block.arguments) != len(request.arguments):
            raise InterpreterError(
                f"{op.describe()}: @{program.name} takes {len(program.block.arguments)} arguments [kernel-arguments]"
            )
        _check_roles(program, request, op)
        _check_declared(program, request, op)
        self.memory.begin_launch(programmatic=request.programmatic)
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
            order=self._order(program, classify),
        )
        count = request.grid // math.prod(request.cluster)
        clusters = (start_cluster(machine, program, index, request) for index in range(count))
        ended = itertools.count(1)
        resident = count if request.cooperative else clusters_at_a_time(self.options.sms, request.cluster)
        explorer, on_progress = self.observers.explorer, self.observers.on_progress
        if explorer is not None:
            explorer.launch()
        choose = None if explorer is None else explorer.choose
        run_all(clusters, resident, self.options.seed, lambda cta: on_progress(next(ended), request.grid), choose)

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
    if request.threads % WARP or not WARP <= request.threads <= MAX_THREADS:
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA; take a multiple of {WARP} up to {MAX_THREADS}"
            " [threads-per-cta]"
        )
    _check_cluster(request, op)
    limit = target.smem_bytes_per_cta if target else None
    if limit is not None and (request.shared_memory or 0) > limit:
        raise InterpreterError(
            f"{op.describe()}: {request.shared_memory} bytes of shared memory; a CTA has {limit} on "
            f"{target.name if target else ''}: use fewer stages or a smaller tile [smem-of-launch]"
        )


def _check_cluster(request: LaunchRequest, op: Described) -> None:
    size = math.prod(request.cluster)
    if size > MAX_CLUSTER:
        raise InterpreterError(
            f"{op.describe()}: clusters of {size} CTAs; at most {MAX_CLUSTER} are portable [cluster-portable]"
        )
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
    required = math.prod(program.attributes.get("nvvm.cluster_dim", (1,)))
    if program.is_hardware and required != math.prod(request.cluster):
        raise InterpreterError(
            f"{op.describe()}: clusters of {math.prod(request.cluster)} CTAs, nvvm.cluster_dim of @{program.name} has "
            f"{required}; write the same in both [cluster-declared]"
        )
    for name in _BLOCK_SIZES & program.attributes.keys():
        if (threads := math.prod(program.attributes[name])) != request.threads:
            raise InterpreterError(
                f"{op.describe()}: {request.threads} threads per CTA, {name} of @{program.name} has {threads}; write "
                "the same in both [threads-declared]"
            )
    most = math.prod(program.attributes.get("nvvm.maxntid", (MAX_THREADS,)))
    if request.threads > most:
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA, nvvm.maxntid of @{program.name} allows {most}"
            " [threads-allowed]"
        )
    held, most = _registers_at_entry(program), registers_that_fit(request.threads)
    if held > most:
        raise InterpreterError(
            f"{op.describe()}: @{program.name} enters with {held} registers per thread (nvvm.maxnreg), "
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
