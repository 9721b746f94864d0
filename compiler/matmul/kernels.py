"""Kernels of classes of shapes: from memory, from disk, or compiled. If several threads need the same kernel, one
compiles it and the others wait."""

import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowtide.compiler.cache.keys import key_of
from lowtide.compiler.cache.settings import cache_folder, open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.cache.tuned import ignore_record, key_of_record, load_record, may_be_used, words_of_records
from lowtide.compiler.cache.versions import versions
from lowtide.compiler.matmul.shape_class import ShapeClass
from lowtide.compiler.numerics_words import ANY
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.errors import CompileError, IRError, ScheduleError
from lowtide.runtime import Kernel
from lowtide.runtime.call_keys import Recent

_COMPILATION = "lowtide.compiler.matmul.compilation"  # imports MLIR, which takes half a second
_MOST_KERNELS = 4096

Epilogue = Callable[..., Any]


class Wanted(NamedTuple):
    """A kernel that a call needs: for a class; with `device`, tuned schedules for that model of GPU may be used."""

    of: ShapeClass
    epilogue: Epilogue | None
    device: str | None = None


@dataclass(frozen=True)
class Record:
    """The result of tuning for a class: the key of its record, the schedule, and whether it must keep the bits."""

    key: str
    schedule: str
    keeps_bits: bool


@dataclass(frozen=True)
class Found:
    """`where`: "memory" or "disk", or "nowhere" if the kernel must be compiled. `is_tuned`: whether there is a
    record."""

    where: str
    kernel: Kernel | None
    is_tuned: bool


class Kernels:
    """Kernels, shared by threads. A kernel in memory stays, even if its class is tuned later."""

    def __init__(self) -> None:
        self._found = Recent(_MOST_KERNELS)
        self._locks: dict[Any, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, wanted: Wanted) -> Kernel:
        """Raises SpecError, ScheduleError, CompileError."""
        kernel: Kernel | None = self._found[wanted]
        if kernel is not None:
            return kernel
        with self._lock:
            own = self._locks.setdefault(wanted, threading.Lock())
        try:
            with own:
                kernel = self._found[wanted]
                if kernel is None:
                    kernel = self._found[wanted] = _made(wanted)
                return kernel
        finally:
            with self._lock:
                self._locks.pop(wanted, None)

    def where(self, wanted: Wanted) -> Found:
        """The place of a kernel, without compiling it."""
        store = open_store()
        record = _record(store, wanted)
        kernel = self._found[wanted]
        if kernel is not None:
            return Found("memory", kernel, record is not None)
        kernel = _from_disk(store, wanted, record)
        return Found("nowhere" if kernel is None else "disk", kernel, record is not None)


def _made(wanted: Wanted) -> Kernel:
    """The kernel with the tuned schedule, if there is a usable one; otherwise with the chosen one."""
    store = open_store()
    record = _record(store, wanted)
    if record is not None:
        assert store is not None
        try:
            return _kernel(store, wanted, record)
        except (IRError, ScheduleError, CompileError) as error:
            ignore_record(store, record.key, str(error))
    return _kernel(store, wanted, None)


def _kernel(store: KernelStore | None, wanted: Wanted, record: Record | None) -> Kernel:
    kernel = _from_disk(store, wanted, record)
    if kernel is not None:
        return kernel
    compilation = importlib.import_module(_COMPILATION)
    if record is None:
        made = compilation.compile_class(wanted.of, wanted.epilogue)
    else:
        made = compilation.compile_tuned(wanted.of, wanted.epilogue, record.schedule, record.keeps_bits)
    if store is not None:
        store.keep(_key(wanted, record), made.manifest, made.ptx, made.cubin)
    return Kernel(made.manifest, made.ptx, made.cubin)


def _from_disk(store: KernelStore | None, wanted: Wanted, record: Record | None) -> Kernel | None:
    stored = None if store is None else store.load(_key(wanted, record))
    if stored is None or (stored.cubin is None and find_ptxas() is not None):
        return None
    return Kernel(stored.manifest, stored.ptx, stored.cubin)


def _record(store: KernelStore | None, wanted: Wanted) -> Record | None:
    """The tuning record for the class's extents. None for a class that packs, because tuning does not pack."""
    of = wanted.of
    if store is None or wanted.device is None or not may_be_used() or not (of.inputs_aligned and of.d_aligned):
        return None
    example = of.example(wanted.epilogue)
    for numerics in words_of_records(of.numerics):
        key = key_of_record(example, of.target, wanted.device, numerics)
        record = load_record(store, key)
        if record is not None:
            return Record(key, record["schedule"], numerics != ANY)
    return None


def _key(wanted: Wanted, record: Record | None) -> str:
    """The key has the class in place of a schedule; no schedule is written like that."""
    tuned = "" if record is None else f", tuned: {record.schedule}"
    return key_of(
        wanted.of.spec(wanted.epilogue), wanted.of.target, f"for {wanted.of}{tuned}", versions(cache_folder())
    )
