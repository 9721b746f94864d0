"""PTX text as a module of kernels that run on numpy arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lowtide.errors import InterpreterError, LaunchError
from lowtide.interpreter.launching import parsed
from lowtide.interpreter.ptx.syntax import Entry
from lowtide.launches import Extents, Launch, LaunchRecord
from lowtide.ptx.arguments import Given, given
from lowtide.ptx.judging import Expected, check_record, run_record
from lowtide.ptx.recording import write_launch
from lowtide.ptx.reports import Report
from lowtide.ptx.settings import Settings


class Module(Mapping[str, "Kernel"]):
    """The kernels of a text of PTX, by name."""

    def __init__(self, text: str, file: str = "<ptx>") -> None:
        self.text = text
        self.parsed = parsed(text, file)

    def __getitem__(self, name: str) -> Kernel:
        entries = self.parsed.module.entries
        if name not in entries:
            raise InterpreterError(
                f"{self.parsed.module.file} has no kernel {name}; it has {', '.join(entries) or 'none'} [ptx-kernel]"
            )
        return Kernel(self, entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.parsed.module.entries)

    def __len__(self) -> int:
        return len(self.parsed.module.entries)


def load(text: str, file: str = "<ptx>") -> Module:
    """The kernels of a text of PTX. `file` is its name in messages.

    Raises InterpreterError, with the line, for text that is no PTX, or that the parser does not know.
    """
    if not isinstance(text, str):
        raise LaunchError(f"text: the PTX itself is expected, a str, not {type(text).__name__} [ptx-text]")
    if "\n" not in text and text.strip().endswith(".ptx"):
        raise LaunchError(f"text: {text:.60} is the name of a file; pass what the file has, the PTX itself [ptx-path]")
    return Module(text, file)


class Kernel:
    """A kernel (`.entry`) of a module."""

    def __init__(self, module: Module, entry: Entry) -> None:
        self.module = module
        self.source = module.parsed
        self.entry = entry

    @property
    def name(self) -> str:
        return self.entry.name

    def run(
        self,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        cluster: int | Sequence[int] = 1,
        shared: int = 0,
        cooperative: bool = False,
        names: Sequence[str] | None = None,
        settings: Settings = Settings(),  # noqa: B008 - it cannot be changed
    ) -> tuple[NDArray[Any], ...]:
        """Run the kernel; returns the arrays after it, one for each argument that is an array, in their order.

        The arrays that are passed do not change. `grid` and `cluster` are in CTAs, `block` in threads, one number or up
        to three, `shared` the bytes of dynamic shared memory. `args` has for each parameter a numpy array (a pointer to
        its first element; its strides are kept, and what lies between its elements is out of bounds), a number,
        `TensorMap`, `Unwritten`, `Scratch`, `Bytes`, or None for a null pointer. `names` are the names of the arguments
        in messages and in files, by default those of the parameters.

        Raises LaunchError for arguments that do not fit, and InterpreterError for a broken rule or an instruction
        that is not interpreted.
        """
        found, launch = self._given(grid, block, cluster, shared, cooperative, (args, names))
        arrays = run_record(self.source, LaunchRecord(found.arrays, (launch,)), settings)
        return _results(found, arrays)

    def check(
        self,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        cluster: int | Sequence[int] = 1,
        shared: int = 0,
        cooperative: bool = False,
        names: Sequence[str] | None = None,
        expect: Sequence[Any] | None = None,
        rtol: float = 0.0,
        atol: float = 0.0,
        settings: Settings = Settings(),  # noqa: B008 - it cannot be changed
    ) -> Report:
        """Run the kernel as `run` does, and report the verdict, with whether it holds for every order of warps.

        `expect`, if given, has for each argument that is an array its contents after the run, or None; they are
        compared with the tolerances. Raises LaunchError for arguments that do not fit.
        """
        found, launch = self._given(grid, block, cluster, shared, cooperative, (args, names))
        expected = Expected.of(found.names, found.arrays, expect, rtol, atol)
        return check_record(self.source, LaunchRecord(found.arrays, (launch,)), expected, settings)

    def record(
        self,
        folder: str | Path,
        *,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        cluster: int | Sequence[int] = 1,
        shared: int = 0,
        cooperative: bool = False,
        names: Sequence[str] | None = None,
        expect: Sequence[Any] | None = None,
        rtol: float = 0.0,
        atol: float = 0.0,
    ) -> None:
        """Write the kernel and a launch into a folder, for `lowtide ptx check FOLDER`. Nothing is run.

        The arguments are those of `check`. `expect` may be what a GPU computed.
        """
        found, launch = self._given(grid, block, cluster, shared, cooperative, (args, names))
        expected = Expected.of(found.names, found.arrays, expect, rtol, atol)
        record = LaunchRecord(found.arrays, (launch,))
        write_launch(Path(folder), self.module.text, self.entry.parameters, record, expected)

    def _given(
        self, grid: Any, block: Any, cluster: Any, shared: int, cooperative: bool, named: tuple[Sequence[Any], Any]
    ) -> tuple[Given, Launch]:
        found = given(self.entry, *named)
        sides = _extents("grid", grid), _extents("block", block), _extents("cluster", cluster)
        (shared,) = _whole("shared", [shared])
        launch = Launch(self.name, sides[0], sides[1], found.parameters, sides[2], shared, cooperative=cooperative)
        return found, launch


def _extents(name: str, given: int | Sequence[int]) -> Extents:
    """One to three numbers as three."""
    sides = _whole(name, given if isinstance(given, Sequence) and not isinstance(given, str) else [given])
    if not 1 <= len(sides) <= 3:
        raise LaunchError(f"{name} = {given!r}: it has one to three sides [ptx-sides]")
    x, y, z = (*sides, 1, 1)[:3]
    return x, y, z


def _whole(name: str, given: Sequence[Any]) -> list[int]:
    """Whole numbers, also those of numpy."""
    try:
        return [operator.index(each) for each in given]
    except TypeError:
        raise LaunchError(f"{name} = {[*given]!r:.60}: whole numbers are expected [ptx-whole-numbers]") from None


def _results(found: Given, arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """The arrays after a launch, in the types in which they were passed."""
    return tuple(arrays[name].view(found.dtypes[name]) for name in found.names)
