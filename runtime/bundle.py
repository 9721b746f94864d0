"""A folder of saved kernels with a dispatcher: for several targets, and for several problems.

    bundle.json        {"bundle": 1, "lowtide": version, "kernels": [{"folder": "0", "target", "spec", "arguments",
                        "sha256"}, …], "sha256": of the other entries}
    0/, 1/, …          saved kernels

`spec`, `arguments` and `sha256` are those of the kernel's manifest. A kernel is found by them, and loaded when it is
first called. Each call takes the first kernel that accepts its operands, in this order: newer targets that run on the
operands' GPU before older ones, kernels with more fixed extents before others, then the order in which they were given.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.errors import LaunchError, LoadError, without_codes
from lowtide.keywords import check_keywords
from lowtide.runtime import driver, storage
from lowtide.runtime.checks import address_error, check_layout, check_scalar
from lowtide.runtime.files import read_json
from lowtide.runtime.folders import write_folder
from lowtide.runtime.kernel import Kernel
from lowtide.runtime.kinds import ABSENT
from lowtide.runtime.limits import capability_of
from lowtide.runtime.manifest import problem_text
from lowtide.runtime.module import choose_code
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import Launch
from lowtide.runtime.results import D, returned_results

FORMAT = 1
INDEX = "bundle.json"
_EXTENTS = ("m", "n", "k", "batch")
_COPIED = ("target", "spec", "arguments")  # from a manifest
_MOST_CALLS = 1024  # kinds of calls whose kernel is remembered


@dataclass(frozen=True)
class Entry:
    """A kernel of a bundle: its folder, its problem and target, and the sha256 of its manifest."""

    folder: str
    target: str
    spec: Mapping[str, Any]
    arguments: tuple[Mapping[str, Any], ...]
    sha256: str

    @property
    def fixed(self) -> int:
        """The number of fixed extents."""
        return sum(self.spec.get(name) is not None for name in _EXTENTS)

    def __str__(self) -> str:
        return problem_text(self.spec, self.target)


class Bundle:
    """The kernels of a folder as one callable, with the operands of `lowtide.runtime.Kernel`."""

    def __init__(self, path: Path, entries: Iterable[Entry]) -> None:
        self.path = path
        self.entries = tuple(entries)
        self._kernels: dict[str, Kernel] = {}
        self._known: dict[Any, Entry] = {}  # by kind of call
        self._lock = threading.Lock()
        alignments = [x.get("base_alignment", 1) for entry in self.entries for x in entry.arguments]
        self._mask = max(alignments, default=1) - 1
        self._scalars = {x["name"] for entry in self.entries for x in entry.arguments if x["kind"] == "scalar"}

    def __repr__(self) -> str:
        return f"<lowtide bundle {self.path} of {len(self.entries)} kernels>"

    def __call__(
        self, *matrices: Any, stream: Any = None, out: Any = None, workspace: Any = None, **operands: Any
    ) -> Any:
        """Launch the kernel that accepts the operands; returns D. Raises LaunchError if there is none, LoadError if the
        kernel is damaged, and the errors of `lowtide.runtime.Kernel`."""
        kernel = self.kernel_for(*matrices, out=out, **operands)
        return kernel(*matrices, stream=stream, out=out, workspace=workspace, **operands)

    def bind(
        self, *matrices: Any, stream: Any = None, out: Any = None, workspace: Any = None, **operands: Any
    ) -> Launch:
        """As `lowtide.runtime.Kernel.bind`, for the kernel that accepts the operands."""
        kernel = self.kernel_for(*matrices, out=out, **operands)
        return kernel.bind(*matrices, stream=stream, out=out, workspace=workspace, **operands)

    def kernel_for(self, *matrices: Any, out: Any = None, **operands: Any) -> Kernel:
        """The kernel that a call with these operands launches, loaded if needed. Raises LaunchError if there is none,
        with the reason for each kernel; DeviceError without GPU or driver; LoadError."""
        given = [view(value, f"number {number}") for number, value in enumerate(matrices)]
        named = {name: view(value, name) for name, value in operands.items() if name not in self._scalars}
        outputs = {name: view(array, "out") for name, array in _outputs(out).items()}
        records = [*given, *named.values(), *outputs.values()]
        key = (
            len(given),
            tuple(operands),
            tuple(outputs),
            tuple((record.signature, record.address & self._mask) for record in records),
        )
        entry = self._known.get(key)
        if entry is None:
            entry = self._fitting(given, {**operands, **named}, outputs)
            if len(self._known) >= _MOST_CALLS:
                self._known.clear()
            self._known[key] = entry
        return self.load(entry)

    def load(self, entry: Entry) -> Kernel:
        """The kernel of an entry. Raises LoadError if it is missing, damaged, or not of this bundle."""
        with self._lock:
            kernel = self._kernels.get(entry.folder)
            if kernel is None:
                manifest, ptx, cubin = storage.read(self.path / entry.folder)
                if storage.digest(manifest) != entry.sha256:
                    raise LoadError(
                        f"{self.path / entry.folder}: it is the kernel of another bundle; bundle it again"
                        " [other-bundle]"
                    )
                kernel = self._kernels[entry.folder] = Kernel(manifest, ptx, cubin)
            return kernel

    def _fitting(self, given: list[Operand], operands: Mapping[str, Any], outputs: Mapping[str, Operand]) -> Entry:
        """The first entry that accepts the operands and runs on their GPU."""
        ordinal = next((record.device for record in given if record.device is not None), None)
        device = driver.current_device() if ordinal is None else driver.device(ordinal)
        refusals = []
        for entry in sorted(self.entries, key=lambda entry: (_age(entry), -entry.fixed)):
            if choose_code(entry.target, device.capability, has_cubin=False) is None:
                refusals.append(f"{entry}: does not run on {device.name}")
                continue
            try:
                _check(entry, given, operands, outputs)
            except LaunchError as error:
                refusals.append(f"{entry}: {without_codes(str(error))}")
            else:
                return entry
        raise LaunchError(f"no kernel of {self.path} takes these operands; {'; '.join(refusals)} [no-kernel-fits]")


def _age(entry: Entry) -> tuple[int, int, bool]:
    """Smaller for newer targets, and for targets of exactly one architecture."""
    major, minor, suffix = capability_of(entry.target)
    return -major, -minor, not suffix


def _outputs(out: Any) -> dict[str, Any]:
    """The outputs that a call passes, by name."""
    if isinstance(out, Mapping):
        return {name: array for name, array in out.items() if array is not None}
    return {} if out is None else {D: out}


def _check(entry: Entry, given: list[Operand], operands: Mapping[str, Any], outputs: Mapping[str, Operand]) -> None:
    """Raises LaunchError if the kernel does not accept the operands."""
    full = returned_results(entry.arguments)
    if not {*outputs} <= {*full}:
        raise LaunchError(f"its results are {', '.join(full)} [bundle-outputs]")
    inputs = [x for x in entry.arguments if x["name"] not in full and x["kind"] != ABSENT]
    if len(given) > len(inputs) or {x["name"] for x in inputs[len(given) :]} != set(operands):
        raise LaunchError(f"it takes {', '.join(x['name'] for x in inputs)} [bundle-inputs]")
    values: list[Any] = [*given, *(operands[x["name"]] for x in inputs[len(given) :])]
    pairs = list(zip(inputs, values, strict=True))
    pairs += [(x, outputs[x["name"]]) for x in entry.arguments if x["name"] in outputs]
    for argument, value in pairs:
        if argument["kind"] == "scalar":
            check_scalar(argument, value)
            continue
        record = view(value, argument["name"])
        check_layout(argument, record)
        if record.address & (argument.get("base_alignment", 1) - 1):
            raise address_error(argument, record.address)


@check_keywords
def load_bundle(path: str | os.PathLike[str]) -> Bundle:
    """The bundle in a directory. Each kernel is read at its first call; nothing touches a driver before.

    Raises LoadError if it is missing, damaged, or from another version of the format.
    """
    source = storage.as_path(path, "load")
    where = source / INDEX
    try:
        held = read_json(where)
    except OSError as error:
        raise LoadError(
            f"{where}: {error.strerror or error}; pass the directory that `lt.bundle` wrote [bundle-read]"
        ) from None
    except ValueError as error:
        raise LoadError(f"{where}: not JSON ({error}), perhaps truncated; bundle it again [bundle-json]") from None
    if not isinstance(held, dict) or (held.get("bundle"), held.get("format")) != (FORMAT, storage.MANIFEST_FORMAT):
        version = held.get("lowtide", "unknown") if isinstance(held, dict) else "unknown"
        raise LoadError(
            f"{where}: it was written by another version of lowtide ({version!s:.80}); this one reads bundles of format"
            f" {FORMAT} with kernels of format {storage.MANIFEST_FORMAT}: bundle it again [bundle-version]"
        )
    if held.pop(storage.DIGEST, None) != storage.digest(held):
        raise LoadError(
            f"{where}: its sha256 does not match its entries: damaged or edited; bundle it again [bundle-digest]"
        )
    try:
        entries = [_entry(each) for each in held["kernels"]]
    except (KeyError, TypeError, ValueError) as error:
        raise LoadError(
            f"{where}: an entry is missing or is not a kernel's ({error}); bundle it again [bundle-entry]"
        ) from None
    return Bundle(source, entries)


def _entry(held: Mapping[str, Any]) -> Entry:
    if not held["folder"].isdecimal():
        raise ValueError(f"folder {held['folder']!r:.80}")
    return Entry(held["folder"], held["target"], held["spec"], tuple(held["arguments"]), held["sha256"])


def save_bundle(path: str | os.PathLike[str], kernels: Iterable[tuple[Mapping[str, Any], str, bytes | None]]) -> Path:
    """Write a bundle of kernels (manifest, PTX, cubin), completely or not at all; it replaces an older bundle.

    Raises LoadError if the path holds something else, or cannot be written.
    """
    target, version = storage.as_path(path, "bundle into"), ""
    files: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    for number, (manifest, ptx, cubin) in enumerate(kernels):
        saved, own = storage.files_of(manifest, ptx, cubin, f"bundling into {target}")
        files |= {f"{number}/{name}": data for name, data in saved.items()}
        entries.append({"folder": str(number), "sha256": own, **{name: manifest[name] for name in _COPIED}})
        version = manifest["lowtide"]
    held = {"bundle": FORMAT, "format": storage.MANIFEST_FORMAT, "lowtide": version, "kernels": entries}
    files[INDEX] = (json.dumps({**held, storage.DIGEST: storage.digest(held)}, indent=1) + "\n").encode()
    try:
        written = write_folder(Path(os.path.realpath(target)), files, _is_replaceable)
    except OSError as error:
        raise LoadError(
            f"cannot write {target}: {error.strerror or error}; choose a path that can be written [bundle-write]"
        ) from None
    if not written:
        raise LoadError(
            f"cannot write {target}: it is not a bundle; choose another path, or remove it first [bundle-replaces]"
        )
    return target


def _is_replaceable(target: Path) -> bool:
    try:
        names = set(os.listdir(target))
    except OSError:  # a file, or gone meanwhile
        return False
    return not names or (INDEX in names and all(name == INDEX or name.isdecimal() for name in names))
