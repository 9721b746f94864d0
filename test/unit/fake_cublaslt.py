"""A stand-in for libcublasLt that writes down how it is called and keeps algorithms in a layout of its own."""

import ctypes
from types import SimpleNamespace
from typing import Any

from lowtide.measurement.bench import cublaslt_library
from lowtide.measurement.bench.cublaslt_library import AlgorithmStruct, Capability, Setting

INVALID_VALUE, NOT_SUPPORTED = 7, 15


class FakeLibrary:
    """Stands for libcublasLt: every function succeeds and is written down, handles are 1, 2, 3, …

    Algorithms keep setting i, a number, in bytes 4·i of their struct. As cuBLASLt, the functions for settings refuse
    values of another size.
    """

    def __init__(self, refused: tuple[str, ...] = (), answers: int = 3) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.refused = refused
        self.answers = answers
        self.handles = 0

    def __getattr__(self, name: str) -> Any:
        if name == "cublasLtGetStatusName":
            return _function(lambda status: b"CUBLAS_STATUS_NOT_SUPPORTED")
        acts = {
            "cublasLtMatmulAlgoGetHeuristic": self._answer,
            "cublasLtMatmulAlgoConfigGetAttribute": self._read,
            "cublasLtMatmulAlgoConfigSetAttribute": self._write,
        }

        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            if name in self.refused:
                return NOT_SUPPORTED
            if name.endswith("Create"):
                self.handles += 1
                arguments[0]._obj.value = self.handles
            return int(acts[name](*arguments)) if name in acts else cublaslt_library.SUCCESS

        return _function(call)

    def _answer(self, *arguments: Any) -> int:
        results, returned = arguments[-2:]
        returned._obj.value = self.answers
        for number in range(self.answers):
            put(results[number].algo, Setting.ID, number)
            results[number].workspace_size = 1024 * number
        return cublaslt_library.SUCCESS

    def _read(self, struct: Any, setting: Any, value: Any, size: Any, written: Any) -> int:
        if size.value != width(setting.value):
            return INVALID_VALUE
        value._obj.value = get(struct._obj, setting.value)
        return cublaslt_library.SUCCESS

    def _write(self, struct: Any, setting: Any, value: Any, size: Any) -> int:
        if size.value != width(setting.value):
            return INVALID_VALUE
        put(struct._obj, setting.value, value._obj.value)
        return cublaslt_library.SUCCESS

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def width(setting: int) -> int:
    """Bytes: inner shape and cluster are uint16, the others int32 or uint32."""
    return 2 if setting in (7, 8) else 4


def get(struct: AlgorithmStruct, setting: int) -> int:
    return (ctypes.c_uint32 * 16).from_buffer(struct)[setting]


def put(struct: AlgorithmStruct, setting: int, number: int) -> None:
    (ctypes.c_uint32 * 16).from_buffer(struct)[setting] = number


def _function(call: Any) -> Any:
    return SimpleCallable(call)


class SimpleCallable(SimpleNamespace):
    """Takes a `restype`, as functions of ctypes do."""

    def __init__(self, call: Any) -> None:
        super().__init__(call=call)

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class FindingLibrary(FakeLibrary):
    """Has algorithms of several ids, told apart by their settings.

    `kinds`: id to what may be set, in the order in which cublasLtMatmulAlgoGetIds says them; `best`: the settings that
    the heuristic answers with, whatever the workspace; `within` the same by id. Id and tile must be of what there is,
    and `unfit` configurations, a test of settings, do not check out.
    """

    def __init__(
        self,
        kinds: dict[int, dict[Capability, tuple[int, ...]]],
        best: list[dict[Setting, int]],
        within: dict[int, list[dict[Setting, int]]] | None = None,
        unfit: Any = lambda settings: False,
    ) -> None:
        super().__init__()
        self.kinds, self.best, self.within, self.unfit = kinds, best, within or {}, unfit

    def __getattr__(self, name: str) -> Any:
        acts = {
            "cublasLtMatmulAlgoGetIds": self._ids,
            "cublasLtMatmulAlgoInit": self._init,
            "cublasLtMatmulAlgoCapGetAttribute": self._capability,
            "cublasLtMatmulAlgoCheck": self._check,
        }
        inner = super().__getattr__(name)
        if name not in acts:
            return inner

        def call(*arguments: Any) -> int:
            status = int(inner(*arguments))
            return status or int(acts[name](*arguments))

        return _function(call)

    def _ids(self, *arguments: Any) -> int:
        for place, number in enumerate(self.kinds):
            arguments[-2][place] = number
        arguments[-1]._obj.value = len(self.kinds)
        return cublaslt_library.SUCCESS

    def _init(self, *arguments: Any) -> int:
        struct = arguments[-1]._obj
        ctypes.memset(ctypes.byref(struct), 0, ctypes.sizeof(struct))
        put(struct, Setting.ID, arguments[-2].value)
        put(struct, Setting.SPLIT_K, 1)
        return cublaslt_library.SUCCESS

    def _capability(self, struct: Any, attribute: Any, values: Any, size: Any, written: Any) -> int:
        found = self.kinds[get(struct._obj, Setting.ID)].get(Capability(attribute.value))
        if found is None:
            return INVALID_VALUE
        written._obj.value = 4 * len(found)
        if not size.value:
            return cublaslt_library.SUCCESS
        assert size.value == 4 * len(found)
        values._obj[:] = found
        return cublaslt_library.SUCCESS

    def _answer(self, *arguments: Any) -> int:
        results, returned = arguments[-2:]
        number = get(results[0].algo, Setting.ID)
        answers = self.within.get(number, []) if any(bytes(results[0].algo)) else self.best
        returned._obj.value = len(answers)
        for place, settings in enumerate(answers):
            ctypes.memset(ctypes.byref(results[place].algo), 0, 64)
            for setting, value in {Setting.SPLIT_K: 1, **settings}.items():
                put(results[place].algo, setting, value)
        return cublaslt_library.SUCCESS

    def _check(self, *arguments: Any) -> int:
        settings = {setting: get(arguments[-2]._obj, setting) for setting in Setting}
        arguments[-1]._obj.workspace_size = 0
        return NOT_SUPPORTED if self.unfit(settings) else cublaslt_library.SUCCESS
