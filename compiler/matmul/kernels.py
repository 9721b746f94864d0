"""The kernel of a class of shapes: in memory, else on disk, else compiled. Threads that need one at once wait for one
compilation."""

import importlib
import threading
from collections.abc import Callable
from typing import Any

from lowtide.compiler.cache.keys import key_of
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.cache.versions import versions
from lowtide.compiler.matmul.shape_class import ShapeClass
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.runtime import Kernel
from lowtide.runtime.call_keys import Recent

_COMPILATION = "lowtide.compiler.matmul.compilation"  # imports MLIR, which takes half a second
_MOST_KERNELS = 4096

Epilogue = Callable[..., Any]


class Kernels:
    """Threads may share it."""

    def __init__(self) -> None:
        self._found = Recent(_MOST_KERNELS)
        self._locks: dict[Any, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, of: ShapeClass, epilogue: Epilogue | None) -> Kernel:
        """Raises SpecError, ScheduleError, CompileError."""
        asked = (of, epilogue)
        kernel: Kernel | None = self._found[asked]
        if kernel is not None:
            return kernel
        with self._lock:
            own = self._locks.setdefault(asked, threading.Lock())
        try:
            with own:
                kernel = self._found[asked]
                if kernel is None:
                    kernel = self._found[asked] = self._made(of, epilogue)
                return kernel
        finally:
            with self._lock:
                self._locks.pop(asked, None)

    def where(self, of: ShapeClass, epilogue: Epilogue | None) -> tuple[str, Kernel | None]:
        """ "memory" or "disk", and the kernel; "nowhere" where it must be compiled."""
        kernel = self._found[of, epilogue]
        if kernel is not None:
            return "memory", kernel
        kernel = self._from_disk(of, epilogue)
        return ("nowhere" if kernel is None else "disk"), kernel

    def _made(self, of: ShapeClass, epilogue: Epilogue | None) -> Kernel:
        kernel = self._from_disk(of, epilogue)
        if kernel is not None:
            return kernel
        compile_class = importlib.import_module(_COMPILATION).compile_class
        made = compile_class(of, epilogue)
        store = open_store()
        if store is not None:
            store.keep(_key(of, epilogue), made.manifest, made.ptx, made.cubin)
        return Kernel(made.manifest, made.ptx, made.cubin)

    def _from_disk(self, of: ShapeClass, epilogue: Epilogue | None) -> Kernel | None:
        store = open_store()
        stored = None if store is None else store.load(_key(of, epilogue))
        if stored is None or (stored.cubin is None and find_ptxas() is not None):
            return None
        return Kernel(stored.manifest, stored.ptx, stored.cubin)


def _key(of: ShapeClass, epilogue: Epilogue | None) -> str:
    """In the place of a schedule stands what it is chosen for; no schedule is written so."""
    return key_of(of.spec(epilogue), of.target, f"for {of}", versions())
