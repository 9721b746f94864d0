"""`interpret`: run a module of any level from problem to nvvm on numpy arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects.diagnostics import Diagnostics  # importing the package registers the dialects
from lowtide.dialects.text import check_text
from lowtide.errors import InterpreterError, IRError
from lowtide.interpreter.host import LEVELS, Host, Progress, matrix_of
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.ops.tile import LAYOUTS
from lowtide.interpreter.program.ir_types import MemRef, Scalar, decode_type

Array = NDArray[Any]

D_POSITION = 2  # of D among the host function's arguments: a, b, d, epilogue operands


def interpret(
    module: ir.Module | str,
    inputs: Mapping[str, Any],
    *,
    sms: int = 2,
    seed: int = 0,
    domain: str = "float",
    on_progress: Progress = lambda ended, ctas: None,
) -> Array:
    """Run a module on `inputs`, in the order of the host function's arguments; returns D, shape (M, N).

    `inputs` are arrays (rows may be padded: a view whose first stride is larger) and run-time scalars. Where the
    argument D is among them under the name "d", it gives D's shape and strides, not its contents; else D is allocated.
    `sms` is how many CTAs run at a time, and what tile.sm_count yields; `seed` gives the order of agents; `domain` is
    "float" (D in its own dtype), "exact" or "field" (D in int64): see `domains`. `on_progress` hears, as the CTAs of a
    launch end, how many have ended, of how many.
    Raises InterpreterError for a level that is not interpreted, inputs that do not fit, and every broken rule of the
    hardware: races, deadlocks, bytes read before they are written or before their copy is waited for, accesses out of
    bounds; and where D is not written everywhere. Raises IRError for text that is no legal module.
    """
    if isinstance(module, str):
        with ir.Context() as context:
            context.enable_multithreading(False)
            parsed = _parse(module, context)
            return interpret(parsed, inputs, sms=sms, seed=seed, domain=domain, on_progress=on_progress)
    if sms < 1:
        raise InterpreterError(f"sms = {sms}: a launch needs at least one SM")
    numbers = domains.domain(domain)
    memory = GlobalMemory(numbers.payload)
    host = Host(module, level_of(module), numbers, memory, sms, seed, on_progress)
    with np.errstate(all="ignore"):
        arguments = _arguments(host, module, dict(inputs))
        host.run(arguments)
    return _output(host, arguments[D_POSITION])


def _parse(text: str, context: ir.Context) -> ir.Module:
    """Raises IRError with MLIR's messages for a text that is no legal module."""
    check_text(text, "<text>")
    with Diagnostics(context) as diagnostics:
        try:
            return ir.Module.parse(text, context)
        except ir.MLIRError as error:
            raise IRError(f"not a legal module: {'; '.join(diagnostics.of(error))}") from None


def level_of(module: ir.Module) -> str:
    """The module's `tile.level`. Raises InterpreterError for one that is not interpreted."""
    attributes = module.operation.attributes
    if "tile.level" not in attributes:
        raise InterpreterError('the module does not say its level; give it `attributes {tile.level = "…"}`')
    level = ir.StringAttr(attributes["tile.level"]).value
    if level not in LEVELS:
        raise InterpreterError(
            f"level {level} is not interpreted; the last that is, is nvvm: interpret the dump of that level"
        )
    return level


def _arguments(host: Host, module: ir.Module, inputs: dict[str, Any]) -> list[Any]:
    """The host function's arguments: matrices placed in memory, scalars as payloads."""
    types = [decode_type(argument.type) for argument in host.function().regions[0].blocks[0].arguments]
    output = types[D_POSITION] if len(types) > D_POSITION else None
    if not isinstance(output, MemRef):
        raise InterpreterError("the host function's arguments are a, b, d and the epilogue's operands")
    if "d" not in inputs:
        inputs = _with_output(inputs, output, module)
    if len(inputs) != len(types):
        raise InterpreterError(
            f"the host function takes {len(types)} arguments, {len(inputs)} are given: {', '.join(inputs)}"
        )
    arguments: list[Any] = []
    for position, ((name, value), type) in enumerate(zip(inputs.items(), types, strict=True)):
        if isinstance(type, MemRef):
            array = _fitting(name, np.asarray(value), type)
            filled = position != D_POSITION
            arguments.append(matrix_of(host.memory, host.domain, name, array, type.element, filled))
        elif isinstance(type, Scalar) and np.ndim(value) == 0:
            arguments.append(host.domain.constant(float(value), type.name) if type.is_float else int(value))
        else:
            raise InterpreterError(f"{name}: {type} is wanted; give a number for a scalar, an array for a memref")
    return arguments


def _fitting(name: str, array: Array, type: MemRef) -> Array:
    if array.ndim != len(type.shape):
        raise InterpreterError(f"{name} has {array.ndim} dimensions, {len(type.shape)} are wanted")
    for axis, (given, wanted) in enumerate(zip(array.shape, type.shape, strict=True)):
        if wanted is not None and given != wanted:
            raise InterpreterError(f"{name} has extent {given} in dimension {axis}, the module is for {wanted}")
    return array


def _with_output(inputs: dict[str, Any], type: MemRef, module: ir.Module) -> dict[str, Any]:
    """The inputs with an array for D put in its place."""
    names = list(inputs)
    if len(names) < D_POSITION or any(np.ndim(inputs[name]) != 2 for name in names[:D_POSITION]):
        raise InterpreterError("the first two inputs are the matrices a and b")
    a, b = (np.shape(inputs[name]) for name in names[:D_POSITION])
    layout = _layout(module)
    inferred = (a[0] if layout[0] == "t" else a[1], b[0] if layout[1] == "n" else b[1])
    shape = tuple(extent or found for extent, found in zip(type.shape, inferred, strict=True))
    output = np.empty(shape, domains.FLOAT_DTYPES[type.element.name])
    ordered = [*names[:D_POSITION], "d", *names[D_POSITION:]]
    return {name: output if name == "d" else inputs[name] for name in ordered}


def _layout(module: ir.Module) -> str:
    """How A and B lie: what the module's tile.gemm or tile.mma says, and tn below these."""
    found = ["tn"]

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in ("tile.gemm", "tile.mma"):
            found.append(LAYOUTS[ir.IntegerAttr(op.attributes["layout"]).value])
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found[-1]


def _output(host: Host, matrix: Any) -> Array:
    payload, written = host.memory.contents(matrix.name)
    if not written.all():
        row, column = (int(index[0]) for index in np.nonzero(~written))
        raise InterpreterError(
            f"level {host.level}: D[{row}, {column}] was never written, nor {int((~written).sum()) - 1} other "
            "elements; the work tiles and stores must cover D"
        )
    return host.domain.to_array(payload.reshape(matrix.shape), matrix.element.name)
