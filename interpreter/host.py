"""The host side: runs the host function as IR, and each launch that it asks for to completion."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mlir import ir

from lowtide import targets
from lowtide.errors import InterpreterError
from lowtide.interpreter.launching import Launcher, check_shape
from lowtide.interpreter.machine.agents import AgentState, Cta, LaunchRequest, Machine, Wait
from lowtide.interpreter.machine.execution import advance, run_block
from lowtide.interpreter.machine.exploration import pause
from lowtide.interpreter.machine.scheduling import Turns
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.ops.table import HANDLERS
from lowtide.interpreter.ops.uses import use_of as op_use
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.decoding import decode
from lowtide.interpreter.program.dependence import Classify
from lowtide.interpreter.program.ir_types import decode_type
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Scalar
from lowtide.interpreter.ptx import syntax
from lowtide.interpreter.ptx.decoding import decode as decode_ptx
from lowtide.interpreter.ptx.uses import use_of as instruction_use
from lowtide.interpreter.recording import launch_of
from lowtide.launches import Launch
from lowtide.targets import Target

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")


class Host:
    """A module that is ready to run: its host function, and its kernels, or those of `ptx` if it is given. `programs`:
    the functions that are already decoded. Raises InterpreterError for a level that is not interpreted."""

    def __init__(
        self,
        module: ir.Module,
        ptx: syntax.Module | None,
        programs: dict[tuple[str, str], Program],
        launcher: Launcher,
    ) -> None:
        self.level = level_of(module) if ptx is None else "ptx"
        self.ptx = ptx
        self.launcher = launcher
        self.domain = launcher.domain
        self.memory = launcher.memory
        self.observers = launcher.observers
        self.target = _target(module)
        self.functions = {_symbol(op): op for op in _functions(module)}
        self.programs = programs

    def function(self) -> ir.Operation:
        """The host function. Raises InterpreterError unless the module has exactly one."""
        found = [op for op in self.functions.values() if op.name == "func.func"]
        if len(found) != 1:
            raise InterpreterError(
                f"a module has one host function (func.func), this one has {len(found)} [one-host-function]"
            )
        return found[0]

    def run(self, arguments: list[Any]) -> None:
        """Evaluate the host function on `Matrix` and scalar arguments, and run its launches."""
        self._evaluate(arguments, self.launch)

    def in_turns(self, arguments: list[Any]) -> Iterator[Wait | InterpreterError | None]:
        """As `run`, in turns with other devices, which may change this device's memory. After each turn of an agent,
        yields None, or why nothing can continue unless another device changes memory: a wait of the host function, or
        the error of a deadlock."""
        state, program = self._begin(arguments, self._launch_in_turns)
        self.memory.begin_launch()
        self.memory.enter(0, state.cta.shared.clocks)
        yield from run_block(state, program.block)
        for check in state.cta.at_end:
            check(state)

    def launches(self, arguments: list[Any]) -> tuple[Launch, ...]:
        """The launches of level llvm as data. They are not run, so arrays keep their contents."""
        found: list[Launch] = []
        self._evaluate(arguments, lambda request, op: found.append(self._recorded(request, op)))
        return tuple(found)

    def _recorded(self, request: LaunchRequest, op: DecodedOp) -> Launch:
        check_shape(request, self.target, op)
        kernel = self.functions[request.kernel]
        types = [decode_type(argument.type) for argument in kernel.regions[0].blocks[0].arguments]
        return launch_of(request, types, self.memory)

    def _begin(self, arguments: list[Any], launch: Callable[[LaunchRequest, Any], Any]) -> tuple[AgentState, Program]:
        """The host function, about to begin."""
        program = self._program(_symbol(self.function()))
        machine = Machine(self.level, self.domain, self.memory, self.launcher.options, self.observers, launch=launch)
        state = AgentState(machine, Cta(0, machine, None), machine.seats[0], program.slots)
        for slot, value in zip(program.block.arguments, arguments, strict=True):
            state.values[slot] = value
        return state, program

    def _evaluate(self, arguments: list[Any], launch: Callable[[LaunchRequest, Any], None]) -> None:
        state, program = self._begin(arguments, launch)
        if (wait := advance(state, run_block(state, program.block))) is not None:
            raise InterpreterError(f"deadlock, level {self.level}: the host function waits: {wait.why()} [host-waits]")
        for check in state.cta.at_end:
            check(state)

    def launch(self, request: LaunchRequest, op: DecodedOp) -> None:
        """Run one launch. Raises InterpreterError for an illegal launch."""
        for deadlock in self._launch_in_turns(request, op):
            if deadlock is not None:
                raise deadlock

    def _launch_in_turns(self, request: LaunchRequest, op: DecodedOp) -> Turns:
        check_shape(request, self.target, op)
        program = self.kernel(request.kernel, op)
        if self.ptx is not None:
            request = replace(request, arguments=_in_registers(request.arguments, op))
        return self.launcher.in_turns(program, request, op, self._classify)

    @property
    def _classify(self) -> Classify:
        return instruction_use if self.ptx is not None else op_use

    def kernel(self, name: str, op: DecodedOp) -> Program:
        """The kernel `name`, decoded."""
        if name not in (self.functions if self.ptx is None else self.ptx.entries):
            raise InterpreterError(f"{op.describe()}: there is no kernel @{name} in the module [kernel-named]")
        program = self._program(name) if self.ptx is None else self._program_of_ptx(self.ptx, name)
        if self.observers.paths is not None:
            self.observers.paths.enter(program)
        return program

    def _program(self, name: str) -> Program:
        return self._decoded(name, lambda: decode(self.functions[name], self.level, self.domain, HANDLERS))

    def _program_of_ptx(self, ptx: syntax.Module, name: str) -> Program:
        return self._decoded(f"{name} of PTX", lambda: decode_ptx(ptx, name, self.domain))

    def _decoded(self, name: str, decode: Callable[[], Program]) -> Program:
        """A function for this number domain, decoded once; with more places to pause if orders are explored."""
        pauses = self.observers.explorer is not None
        key = (f"{name}, with pauses" if pauses else name), self.domain.name
        if key not in self.programs:
            self.programs[key] = decode()
            if pauses and self.programs[key].is_hardware and name != _symbol(self.function()):
                pause(self.programs[key], self._classify)
        return self.programs[key]


def level_of(module: ir.Module) -> str:
    """The module's `tile.level`. Raises InterpreterError for a level that is not interpreted."""
    attributes = module.operation.attributes
    if "tile.level" not in attributes:
        raise InterpreterError('the module has no level; give it `attributes {tile.level = "…"}` [level-unsaid]')
    level = ir.StringAttr(attributes["tile.level"]).value
    if level not in LEVELS:
        raise InterpreterError(
            f"level {level!r} is not interpreted; a module is of one of the levels {', '.join(LEVELS[:-1])}"
            " [level-not-interpreted]"
        )
    return level


def _in_registers(arguments: tuple[Any, ...], op: DecodedOp) -> tuple[Any, ...]:
    """Arguments of a launch as untyped registers hold them: floats carry their type."""
    types = op.operand_types[-len(arguments) :]
    return tuple(
        Number(value, type.name) if isinstance(type, Scalar) and type.is_float else value
        for value, type in zip(arguments, types, strict=True)
    )


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
    """The module's target, if it has one. Raises TargetError for an unknown one."""
    attributes = module.operation.attributes
    return targets.get(ir.StringAttr(attributes["tile.target"]).value) if "tile.target" in attributes else None


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
