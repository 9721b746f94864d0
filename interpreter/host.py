"""The host side: the host function is run as IR, and each launch that it asks for runs to its end at once."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlir import ir

from lowtide import targets
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState, Cta, LaunchRequest, Machine, registers_that_fit
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.execution import advance, run_block
from lowtide.interpreter.machine.exploration import pause
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.interleavings import Order
from lowtide.interpreter.machine.options import Observers, Options
from lowtide.interpreter.machine.scheduling import run_all, start_cluster
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.ops.table import HANDLERS
from lowtide.interpreter.ops.uses import use_of as op_use
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.decoding import decode
from lowtide.interpreter.program.dependence import Classify, dependences
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Scalar
from lowtide.interpreter.ptx import syntax
from lowtide.interpreter.ptx.decoding import decode as decode_ptx
from lowtide.interpreter.ptx.uses import use_of as instruction_use
from lowtide.targets import Target

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
MAX_THREADS = 1024
_BLOCK_SIZES = frozenset({"known_block_size", "gpu.known_block_size", "nvvm.reqntid"})  # exact ones, of a kernel
MAX_CLUSTER = 8  # CTAs (CUDA C++ Programming Guide, "Thread Block Clusters")


class Host:
    """A module ready to run: its host function, and its kernels, or those of `ptx` in their place. `programs` are those
    that are decoded already. Raises InterpreterError for a level that is not interpreted."""

    def __init__(
        self,
        module: ir.Module,
        ptx: syntax.Module | None,
        programs: dict[tuple[str, str], Program],
        memory: GlobalMemory,
        domain: Domain,
        options: Options,
        observers: Observers,
    ) -> None:
        self.level = level_of(module) if ptx is None else "ptx"
        self.ptx = ptx
        self.domain = domain
        self.memory = memory
        self.options = options
        self.observers = observers
        self.target = _target(module)
        self.functions = {_symbol(op): op for op in _functions(module)}
        self.programs = programs

    def function(self) -> ir.Operation:
        """The one host function. Raises InterpreterError where the module has none, or several."""
        found = [op for op in self.functions.values() if op.name == "func.func"]
        if len(found) != 1:
            raise InterpreterError(f"a module has one host function (func.func), this one has {len(found)}")
        return found[0]

    def run(self, arguments: list[Any]) -> None:
        """Evaluate the host function on `Matrix` and scalar arguments."""
        program = self._program(_symbol(self.function()))
        machine = Machine(self.level, self.domain, self.memory, self.options, self.observers, launch=self.launch)
        state = AgentState(machine, Cta(0, machine, None), machine.seats[0], program.slots)
        for slot, value in zip(program.block.arguments, arguments, strict=True):
            state.values[slot] = value
        if advance(state, run_block(state, program.block)) is not None:
            raise InterpreterError("the host function waits for something; only kernels wait")
        for check in state.cta.at_end:
            check(state)

    def launch(self, request: LaunchRequest, op: DecodedOp) -> None:
        """Run one launch. Raises InterpreterError for one that no GPU takes."""
        if request.grid < 1 or request.grid >= 2**31:
            raise InterpreterError(f"{op.describe()}: a grid of {request.grid} CTAs; 1 to 2^31 - 1 can be launched")
        if request.threads % WARP or not WARP <= request.threads <= MAX_THREADS:
            raise InterpreterError(
                f"{op.describe()}: {request.threads} threads per CTA; take a multiple of {WARP} up to {MAX_THREADS}"
            )
        _check_cluster(request, op)
        limit = self.target.smem_bytes_per_cta if self.target else None
        if limit is not None and (request.shared_memory or 0) > limit:
            raise InterpreterError(
                f"{op.describe()}: {request.shared_memory} bytes of shared memory; a CTA has {limit} on "
                f"{self.target.name if self.target else ''}: use fewer stages or a smaller tile"
            )
        program = self.kernel(request.kernel, op)
        if self.ptx is not None:
            request = replace(request, arguments=_in_registers(request.arguments, op))
        if len(program.block.arguments) != len(request.arguments):
            raise InterpreterError(f"{op.describe()}: @{program.name} takes {len(program.block.arguments)} arguments")
        _check_roles(program, request, op)
        _check_declared(program, request, op)
        self.memory.begin_launch(programmatic=request.programmatic)
        machine = Machine(
            self.level,
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
            order=self._order(program),
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

    def _order(self, program: Program) -> Order | None:
        """What checks a launch for the report: at the levels of instructions, where one is asked for."""
        report = self.observers.report
        if report is None or not program.is_hardware:
            return None
        if program.dependences is None:
            program.dependences = dependences(program, self._classify)
        report.kernels[program.name] = program.dependences
        return Order(report)

    @property
    def _classify(self) -> Classify:
        return instruction_use if self.ptx is not None else op_use

    def kernel(self, name: str, op: DecodedOp) -> Program:
        """The kernel `name`, decoded."""
        if name not in (self.functions if self.ptx is None else self.ptx.entries):
            raise InterpreterError(f"{op.describe()}: there is no kernel @{name} in the module")
        program = self._program(name) if self.ptx is None else self._program_of_ptx(self.ptx, name)
        if self.observers.paths is not None:
            self.observers.paths.enter(program)
        return program

    def _program(self, name: str) -> Program:
        return self._decoded(name, lambda: decode(self.functions[name], self.level, self.domain, HANDLERS))

    def _program_of_ptx(self, ptx: syntax.Module, name: str) -> Program:
        return self._decoded(f"{name} of PTX", lambda: decode_ptx(ptx, name, self.domain))

    def _decoded(self, name: str, decode: Callable[[], Program]) -> Program:
        """A function for this number domain, decoded once; its agents stop at more places where orders are explored."""
        pauses = self.observers.explorer is not None
        key = (f"{name}, with pauses" if pauses else name), self.domain.name
        if key not in self.programs:
            self.programs[key] = decode()
            if pauses and self.programs[key].is_hardware and name != _symbol(self.function()):
                pause(self.programs[key], self._classify)
        return self.programs[key]


def level_of(module: ir.Module) -> str:
    """The module's `tile.level`. Raises InterpreterError for one that is not interpreted."""
    attributes = module.operation.attributes
    if "tile.level" not in attributes:
        raise InterpreterError('the module does not say its level; give it `attributes {tile.level = "…"}`')
    level = ir.StringAttr(attributes["tile.level"]).value
    if level not in LEVELS:
        raise InterpreterError(
            f"level {level} is not interpreted; a module is of one of the levels {', '.join(LEVELS[:-1])}"
        )
    return level


def _in_registers(arguments: tuple[Any, ...], op: DecodedOp) -> tuple[Any, ...]:
    """Arguments of a launch as registers without types hold them: floats say which type they have."""
    types = op.operand_types[-len(arguments) :]
    return tuple(
        Number(value, type.name) if isinstance(type, Scalar) and type.is_float else value
        for value, type in zip(arguments, types, strict=True)
    )


def _check_cluster(request: LaunchRequest, op: DecodedOp) -> None:
    size = math.prod(request.cluster)
    if size > MAX_CLUSTER:
        raise InterpreterError(f"{op.describe()}: clusters of {size} CTAs; at most {MAX_CLUSTER} are portable")
    if request.grid % size:
        raise InterpreterError(
            f"{op.describe()}: a grid of {request.grid} CTAs in clusters of {size}; it must be a multiple of {size}"
        )


def _check_roles(program: Program, request: LaunchRequest, op: DecodedOp) -> None:
    needed = sum(role.warps * role.instances for role in program.roles) * WARP
    if program.roles and needed != request.threads:
        roles = " + ".join(f"{role.warps * role.instances} of role {role.name}" for role in program.roles)
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA; {roles} warps are {needed} threads"
        )


def _check_declared(program: Program, request: LaunchRequest, op: DecodedOp) -> None:
    """What a kernel says of its launch, and what becomes its PTX leans on, must be so."""
    required = math.prod(program.attributes.get("nvvm.cluster_dim", (1,)))
    if program.is_hardware and required != math.prod(request.cluster):
        raise InterpreterError(
            f"{op.describe()}: clusters of {math.prod(request.cluster)} CTAs, nvvm.cluster_dim of @{program.name} has "
            f"{required}; write the same in both"
        )
    for name in _BLOCK_SIZES & program.attributes.keys():
        if (threads := math.prod(program.attributes[name])) != request.threads:
            raise InterpreterError(
                f"{op.describe()}: {request.threads} threads per CTA, {name} of @{program.name} has {threads}; write "
                "the same in both"
            )
    most = math.prod(program.attributes.get("nvvm.maxntid", (MAX_THREADS,)))
    if request.threads > most:
        raise InterpreterError(
            f"{op.describe()}: {request.threads} threads per CTA, nvvm.maxntid of @{program.name} allows {most}"
        )
    held, most = _registers_at_entry(program), registers_that_fit(request.threads)
    if held > most:
        raise InterpreterError(
            f"{op.describe()}: @{program.name} enters with {held} registers per thread (nvvm.maxnreg), "
            f"{request.threads} threads can have {most} each; take at most that"
        )
    maps = [at for at, argument in enumerate(request.arguments) if isinstance(argument, TensorMap)]
    names = {"llvm": "llvm.byval, in parameters aligned to 64 bytes,", "ptx": "parameters of 128 bytes, aligned to 64,"}
    found = {"nvvm": _tensor_maps, "llvm": _by_value, "ptx": _tensor_maps}
    said = found.get(program.level, lambda program: maps)(program)
    if maps != said:
        name = names.get(program.level, "tensor_maps")
        raise InterpreterError(
            f"{op.describe()}: passes tensor maps as the arguments {maps}, @{program.name} has {name} = {said}; "
            "list them, since only those are passed by value, as the TMA unit needs them"
        )


def _tensor_maps(program: Program) -> list[int]:
    """The arguments that a gpu.func says are tensor maps."""
    return sorted(program.attributes.get("tensor_maps", ()))


def _by_value(program: Program) -> list[int]:
    """The arguments of an llvm.func that lie in parameter space themselves, aligned as the TMA unit needs it."""
    described = program.attributes.get("arg_attrs", ())
    return [at for at, entry in enumerate(described) if "llvm.byval" in entry and entry.get("llvm.align", 1) >= 64]


def _registers_at_entry(program: Program) -> int:
    """Of each thread, by nvvm.maxnreg, a multiple of eight; 0 where the kernel does not say."""
    return -(-int(program.attributes.get("nvvm.maxnreg", 0)) // 8) * 8


def _functions(module: ir.Module) -> list[ir.Operation]:
    """Function-like ops of the module and of its gpu.modules."""
    found = []
    for view in module.body.operations:
        op = view.operation
        if op.name == "gpu.module":
            found += [
                inner.operation for inner in op.regions[0].blocks[0].operations if "function_type" in inner.attributes
            ]
        elif "function_type" in op.attributes:
            found.append(op)
    return found


def _target(module: ir.Module) -> Target | None:
    """The target that the module names, if it does. Raises TargetError for an unknown one."""
    attributes = module.operation.attributes
    return targets.get(ir.StringAttr(attributes["tile.target"]).value) if "tile.target" in attributes else None


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
