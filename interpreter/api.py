"""`interpret`: run a module of any level on numpy arrays."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects.diagnostics import Diagnostics  # importing the package registers the dialects
from lowtide.dialects.text import check_text
from lowtide.dialects.tile import ResultKind
from lowtide.errors import InterpreterError, IRError, with_code
from lowtide.interpreter.host import Host
from lowtide.interpreter.inputs.arguments import (
    Argument,
    arguments_of,
    is_returned,
    output_of,
    rows_computed,
    rows_written,
)
from lowtide.interpreter.inputs.lists import cut_out
from lowtide.interpreter.inputs.memory import in_place_of, matrix_of
from lowtide.interpreter.launching import Launcher
from lowtide.interpreter.machine.exploration import Explorer
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.interleavings import Report
from lowtide.interpreter.machine.options import MAX_STEPS, Observers, Options, Progress
from lowtide.interpreter.machine.paths import Paths
from lowtide.interpreter.machine.traces import Trace
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import MemRef, Scalar
from lowtide.interpreter.ptx.parsing import parse as parse_ptx
from lowtide.interpreter.recording import arrays_of
from lowtide.launches import LaunchRecord

Array = NDArray[Any]
_NOT_STORED = (None, ResultKind.absent)  # the kinds of arguments that are no results, or none that are stored


class Loaded:
    """A module for several runs: parsed once, its functions decoded once for each number domain.

    With `ptx`, the text of a PTX module from `file`, the module is of level llvm. It gives only the host function; the
    kernels come from the text: this is level ptx. Raises IRError for an illegal module, InterpreterError for illegal
    PTX.
    """

    def __init__(self, module: ir.Module | str, ptx: str | None = None, file: str = "<ptx>") -> None:
        if isinstance(module, str):
            context = ir.Context(load_on_create_dialects=[])  # the parser loads the dialects that it needs
            context.enable_multithreading(False)
            module = _parse(module, context)
        self.module = module
        self.ptx = None if ptx is None else parse_ptx(ptx, file)
        self.programs: dict[tuple[str, str], Program] = {}  # by function and domain


def interpret(
    module: ir.Module | str | Loaded,
    inputs: Mapping[str, Any],
    *,
    sms: int = 2,
    seed: int = 0,
    domain: str = "float",
    on_progress: Progress = lambda ended, ctas: None,
    trace: Trace | None = None,
    paths: Paths | None = None,
    max_steps: int = MAX_STEPS,
    report: Report | None = None,
    offsets: Mapping[str, int] = MappingProxyType({}),
    explorer: Explorer | None = None,
) -> Any:
    """Run a module on `inputs`, by the names or in the order of the host function's arguments. Returns D as stored, or
    a dict of results by name if there are several full results and reductions.

    - `module`: the module, its text, or `Loaded` for several runs.
    - `inputs`: arrays and run-time scalars. Rows of arrays may be padded: a view with a larger first stride. Arrays
    have the dtypes of the compiled kernel; in the domains "exact" and "field" they may be integers of any dtype. A list
    of matrices is one array (matrices, rows, columns), or a sequence of arrays (rows, columns). If A and B are
    sequences, D is a list of arrays.
    - Results among the inputs: "d" gives D's shape and strides, and the contents of
    rows that are not written; its dtype does not matter. If D is also a full operand, it is written in place of the
    operand, in the interpreter's memory: the array is not changed. Without "d", D is allocated, with rows at multiples
    of 16 bytes. Other results may be given or left out, too. Their arrays are written.
    - `sms`: the result of tile.sm_count, and the number of CTAs that run at a time, in whole clusters and at least one.
    - `seed`: determines the order of agents. `explorer` chooses the order instead, if it is given (`explore`).
    - `domain`: "float" or "hopper" (D in its own dtype), "exact" or "field" (D in int64): see `domains`.
    - `on_progress`: is called with the number of ended CTAs of a launch, and the number of all its CTAs.
    - `trace`: is filled with the work of each CTA in order. `paths`: with the sides of branches that were taken.
      `report` (levels nvvm to ptx): with whether the verdict holds for every order of agents.
    - `max_steps`: the largest number of ops that an agent may run; more are reported as an endless loop.
    - `offsets`: matrices begin at multiples of 256 bytes, plus the offset of their name in bytes.

    If K is 0, D is the epilogue of 0. If M or N is 0, D is empty. Some kernels do not write all of D: with groups of
    rows, rows after the last end; with padded groups, rows that do not count; with rows of D at an index, rows that the
    index does not name. If a shard of A is late, the array of `status` is written, and elements that were not stored
    stay as they were.

    Raises InterpreterError for a level that is not interpreted, inputs that do not fit, and every broken rule of the
    hardware: races, deadlocks, reads of bytes before they are written or before their copy is waited for, accesses out
    of bounds; also if D is not fully written, or an operand has changed. Raises IRError for an illegal module.
    """
    loaded = module if isinstance(module, Loaded) else Loaded(module)
    sms = _whole("sms", sms, "it is the number of SMs, at least 1")
    seed = _whole("seed", seed, "it determines the order of agents")
    if sms < 1:
        raise InterpreterError(f"sms = {sms}: a launch needs at least one SM [sms-least]")
    max_steps = _whole("max_steps", max_steps, "it is the number of ops that an agent may run")
    options, observers = (
        Options(sms, seed, max_steps, timeless=True),
        Observers(trace, paths, report, explorer, on_progress),
    )
    return _run(loaded, inputs, domains.domain(domain), offsets, options, observers)


def _run(
    loaded: Loaded,
    inputs: Mapping[str, Any],
    numbers: domains.Domain,
    offsets: Mapping[str, int],
    options: Options,
    observers: Observers,
) -> Any:
    run = Run(loaded, inputs, numbers, options, observers)
    if (found := run.without_launches()) is not None:
        return found
    with np.errstate(all="ignore"):
        run.place(offsets)
        run.host.run(run.placed)
    return run.results()


class Run:
    """A module on the memory of one device: its host function, with its arguments, which `place` puts into memory."""

    def __init__(
        self,
        loaded: Loaded,
        inputs: Mapping[str, Any],
        numbers: domains.Domain,
        options: Options,
        observers: Observers,
    ) -> None:
        trace = observers.trace
        self.memory = GlobalMemory(numbers.payload, None if trace is None else trace.store)
        launcher = Launcher(numbers, self.memory, options, observers)
        self.host = Host(loaded.module, loaded.ptx, loaded.programs, launcher)
        self.arguments = arguments_of(self.host.function(), inputs, numbers)
        self.output = output_of(self.arguments)
        self.placed: list[Any] = []
        self._given: Any = None
        self._rows: Array | None = None  # of D, those that are written

    @property
    def stores_to_list(self) -> bool:
        """Whether D is a list of matrices."""
        type = self.arguments[self.output].type
        return isinstance(type, MemRef) and type.is_list

    @property
    def _others(self) -> list[tuple[int, Argument]]:
        """The results other than D that are stored, with their positions."""
        results = [(position, x) for position, x in enumerate(self.arguments) if x.result not in _NOT_STORED]
        return [(position, x) for position, x in results if position != self.output]

    def without_launches(self) -> Any:
        """The results of a product without rows, or whose D is empty, which needs no launch; None for other
        products."""
        arguments, output, numbers = self.arguments, self.output, self.host.domain
        make = _zeros if 0 in np.shape(arguments[output].value) else None  # nothing to compute
        if make is None and any(each.is_places and not np.size(each.value) for each in arguments):
            make = _given  # the product has no rows
        if make is None:
            return None
        return _results(arguments, make(arguments[output], numbers), [(x, make(x, numbers)) for _, x in self._others])

    def place(self, offsets: Mapping[str, int] = MappingProxyType({})) -> None:
        """Put the arguments into memory. Matrices begin at multiples of 256 bytes, plus the offset of their name."""
        self.placed, trace = _placed(self.host, self.arguments, offsets), self.host.observers.trace
        if trace is not None:
            trace.level = self.host.level
            trace.outputs = tuple(self.memory.buffer(name) for name in self.placed[self.output].names_of_parts())
        self._given, self._rows = self.memory.snapshot(), rows_written(self.arguments)

    def results(self, written_by_others: Collection[str] = ()) -> Any:
        """What the launches have stored. `written_by_others`: the arguments that other devices write. Raises
        InterpreterError if elements of results are not written, or if other arguments have changed."""
        host, arguments, placed = self.host, self.arguments, self.placed
        if host.observers.paths is not None:
            host.observers.paths.settle()
        results_there = (name for x in (self.output, *dict(self._others)) for name in placed[x].names_of_parts())
        statuses = [(placed[position], x) for position, x in enumerate(arguments) if x.is_status]
        may_change = {*results_there, *(matrix.name for matrix, _ in statuses), *written_by_others}
        changed = self.memory.changed_since(self._given, may_change)
        if changed is not None:
            raise InterpreterError(
                f"level {host.level}: {changed} has changed; a kernel writes only results and workspaces [kernel-wrote]"
            )
        read = _stored if any(_is_late(host, *each) for each in statuses) else _written
        written = [
            (x, read(host, placed[position], np.asarray(x.value), _rows_of(x, arguments)).reshape(np.shape(x.value)))
            for position, x in self._others
        ]
        d = np.asarray(arguments[self.output].value)
        of_d = read(host, placed[self.output], d, self._rows).reshape(d.shape)
        return _results(arguments, of_d, written)


def _rows_of(result: Argument, arguments: Sequence[Argument]) -> Array | None:
    """Which rows of a full result, or elements of a reduction of rows, are written; None if all of the result is."""
    if result.result is ResultKind.full:
        return rows_written(arguments)
    return rows_computed(arguments) if str(result.result).startswith("row_") else None


def _is_late(host: Host, matrix: Any, status: Argument) -> bool:
    """Whether a shard was late. If so, the status is written to the caller's array, as on a GPU."""
    found = np.asarray(host.memory.contents(matrix.name)[0]).reshape(-1)
    if found[0]:
        _give(status, found)
    return bool(found[0])


def _stored(host: Host, matrix: Any, given: Array, rows: Array | None) -> Array:
    """As `_written`, for a kernel that has stopped storing: elements that it has not written are those of `given`."""
    if matrix.is_list:
        return _of_list(host, matrix, given, rows, _stored)
    payload, written = host.memory.contents(matrix.name)
    found = host.domain.matrix_of(payload, matrix.element.name).reshape(given.shape)
    return np.where(written.reshape(given.shape), found, given.astype(found.dtype))


def launch_record(
    module: ir.Module | str | Loaded,
    inputs: Mapping[str, Any],
    *,
    sms: int = 2,
    offsets: Mapping[str, int] = MappingProxyType({}),
) -> LaunchRecord:
    """The launches of a module of level llvm as data; `run` takes them with its PTX. Arguments as for `interpret`.
    Raises InterpreterError as it does, and for other levels, since their kernels have other parameters."""
    loaded, numbers = module if isinstance(module, Loaded) else Loaded(module), domains.domain("float")
    memory = GlobalMemory(numbers.payload)
    host = Host(loaded.module, None, loaded.programs, Launcher(numbers, memory, Options(sms), Observers()))
    if host.level != "llvm":
        raise InterpreterError(
            f"launches are recorded at level llvm, whose parameters are those of PTX, not {host.level} [record-level]"
        )
    arguments = arguments_of(host.function(), inputs, numbers)
    launches = host.launches(_placed(host, arguments, offsets))
    return LaunchRecord(arrays_of(memory, numbers), launches)


def _zeros(result: Argument, numbers: domains.Domain) -> Array:
    """A result of zeros, or without elements, for a product that needs no sums."""
    assert isinstance(result.type, MemRef)
    return numbers.matrix_of(np.zeros(np.shape(result.value), numbers.payload), result.type.element.name)


def _given(result: Argument, numbers: domains.Domain) -> Array:
    """A result that is not written, as it was given."""
    found = _zeros(result, numbers)
    found[...] = result.value
    return found


def _results(arguments: list[Argument], of_d: Array, others: Sequence[tuple[Argument, Array]]) -> Any:
    """What a run returns: D, or all full results and reductions by name if there are several. Results other than D are
    also written to their arrays."""
    d = arguments[output_of(arguments)]
    found = {d.name: cut_out(of_d, d.shapes)}
    for argument, values in others:
        _give(argument, values)
        if is_returned(argument.result):
            found[argument.name] = cut_out(values, argument.shapes)
    names = [argument.name for argument in arguments if argument.name in found]
    return found[d.name] if len(found) == 1 else {name: found[name] for name in names}


def _give(argument: Argument, values: Any) -> None:
    """Write a result into its array. Raises InterpreterError for a read-only array."""
    assert isinstance(argument.value, np.ndarray)
    if not argument.value.flags.writeable:
        raise InterpreterError(
            f"operand {argument.name}: the array is read-only; pass a writable one [argument-read-only]"
        )
    argument.value[...] = values


def _parse(text: str, context: ir.Context) -> ir.Module:
    """The module. Raises IRError with MLIR's messages for illegal text."""
    check_text(text, "<text>")
    with Diagnostics(context) as diagnostics:
        try:
            return ir.Module.parse(text, context)
        except ir.MLIRError as error:
            found = f"not a legal module: {'; '.join(diagnostics.of(error))}"
            raise IRError(with_code(found, "module-legal")) from None


def _whole(name: str, value: Any, what: str) -> int:
    """A count given as an argument. Raises InterpreterError if it is not an integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InterpreterError(f"{name} = {value!r} is not an integer; {what} [argument-integer]")
    return int(value)


def _placed(host: Host, arguments: list[Argument], offsets: Mapping[str, int]) -> list[Any]:
    """The host function's arguments: matrices in memory, scalars as payloads. D may be in place of an operand."""
    placed: list[Any] = []
    shared, output = in_place_of(arguments), output_of(arguments)
    for position, argument in enumerate(arguments):
        if position == output and shared is not None:
            placed.append(None)
        elif isinstance(argument.type, MemRef):
            filled = argument.result in (None, ResultKind.amax)
            offset = 0 if argument.is_stand_in else offsets.get(argument.name, 0)
            placed.append(matrix_of(host.memory, host.domain, argument, filled, offset))
        else:
            assert isinstance(argument.type, Scalar)
            value: Any = argument.value
            placed.append(host.domain.constant(value, argument.type.name) if argument.type.is_float else value)
    if shared is not None:
        placed[output] = placed[shared]
        host.memory.write_in_place(placed[shared].name)
    return placed


def _written(host: Host, matrix: Any, given: Array, rows: Array | None) -> Array:
    """A result as stored. `rows`: which rows are written, in a batch for each matrix; None for all. Other rows are
    those of `given`. Raises InterpreterError if an element of these rows was not written, or if another element was."""
    if matrix.is_list:
        return _of_list(host, matrix, given, rows, _written)
    payload, written = host.memory.contents(matrix.name)
    name = "D" if matrix.name == "d" else matrix.name
    if len(matrix.shape) == 3:  # a batch: the rows of all its matrices
        stored = (matrix.shape[0], -1, payload.shape[-1])
        payload, written = payload.reshape(stored), written.reshape(stored)
    if rows is not None and len(matrix.shape) == 1:  # a vector with an element for each row of D
        payload, written, given = (x.reshape(-1, 1) for x in (payload, written, given))
    others = np.zeros_like(written)  # elements that are not written
    if rows is not None:
        others |= ~np.expand_dims(rows, -2 if matrix.is_column_major else -1)
    if (written & others).any():
        place = np.argwhere(written & others)[0].tolist()
        row = place[-1 if matrix.is_column_major else -2]
        raise InterpreterError(
            f"level {host.level}: {name}[{', '.join(map(str, place))}] was written, but row {row} is in no group "
            "of rows, or is not named by the index of rows of D [d-row-of-none]"
        )
    missing = ~written & ~others
    if missing.any():
        place = np.unravel_index(np.flatnonzero(missing)[0], missing.shape)
        raise InterpreterError(
            f"level {host.level}: {name}[{', '.join(map(str, place))}] was never written, nor "
            f"{int(missing.sum()) - 1} other elements; the work tiles and stores must cover {name} [d-unwritten]"
        )
    found = host.domain.matrix_of(payload, matrix.element.name)
    if rows is not None:
        found[others] = given[others]
    return found


def _of_list(host: Host, matrix: Any, given: Array, rows: Array | None, read: Callable[..., Array]) -> Array:
    """A list of matrices, each read by `read`: `_written` or `_stored`. They may have fewer rows and columns than
    `given`, whose other elements are kept."""
    found = None
    for number, name in enumerate(matrix.names_of_parts()):
        buffer = host.memory.buffer(name)
        part = replace(matrix, name=name, shape=(buffer.rows, buffer.columns), is_list=False)
        inside = number, slice(buffer.rows), slice(buffer.columns)
        own = read(host, part, given[inside], None if rows is None else rows[number, : buffer.rows])
        found = given.astype(own.dtype) if found is None else found
        found[inside] = own
    assert found is not None
    return found
