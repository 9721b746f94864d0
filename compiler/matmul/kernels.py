"""The kernels of `lt.matmul`, from memory, from disk, or compiled; and the plans that choose the kernel of a call.

Kernels are kept by schedule: all shapes and families with the same problem and schedule share one. If several threads
need the same plan or kernel, one makes it and the others wait.
"""

import importlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from lowtide.compiler.ahead import AHEAD
from lowtide.compiler.cache.keys import key_of
from lowtide.compiler.cache.plans import keep_plan, keep_refusal, load_plan, load_refusal
from lowtide.compiler.cache.settings import cache_folder, open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.cache.tuned import (
    has_records,
    ignore_record,
    key_of_record,
    load_record,
    may_be_used,
    words_of_records,
)
from lowtide.compiler.cache.versions import versions
from lowtide.compiler.matmul.family import Family
from lowtide.compiler.matmul.schedule_plan import SchedulePlan
from lowtide.compiler.numerics_words import ANY
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.errors import CompileError, IRError, ScheduleError, before_code
from lowtide.runtime import Kernel
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.serialized import serialized

# These import MLIR, which takes half a second.
_COMPILATION, _PLANNING = "lowtide.compiler.matmul.compilation", "lowtide.compiler.matmul.planning"
_MOST_KERNELS = 4096
_PLAN_ENTRIES = tuple(entry.name for entry in fields(SchedulePlan))

Epilogue = Callable[..., Any]


class Wanted(NamedTuple):
    """What a call needs. `device`: the model of GPU whose tuned schedules may be used; None allows none. `alone`:
    whether the call takes the kernel that `compile_gemm` makes for this shape alone. Otherwise its kernel has run-time
    extents, and a schedule of the family's plan."""

    of: Family
    m: int
    epilogue: Epilogue | None
    device: str | None = None
    alone: bool = False


@dataclass(frozen=True)
class Record:
    """The tuned schedule of a shape. `key`: of its record. `keeps_bits`: whether it must have the planned order of
    sums."""

    key: str
    schedule: str
    keeps_bits: bool


class Refused(NamedTuple):
    """Why there is no kernel for a schedule."""

    why: str


Made: TypeAlias = Kernel | Refused


@dataclass
class Planned:
    """The plan of a family, and what was made of its schedules, by index. `waiting`: the same kernels, with launches
    that wait for the kernels before them in the stream."""

    plan: SchedulePlan
    made: dict[int, Made] = field(default_factory=dict)
    waiting: dict[int, Kernel] = field(default_factory=dict)

    def launched(self, kernel: Kernel, index: int, m: int) -> Kernel:
        """The kernel of the schedule `index`, with the launch that the plan says for an M."""
        if not self.plan.waits(m):
            return kernel
        return self.waiting.get(index) or self.waiting.setdefault(index, serialized(kernel))


@dataclass(frozen=True)
class Found:
    """Where a kernel is. `where`: "memory" or "disk", or "nowhere" if it must be compiled. `plan`: None for a kernel of
    a shape alone. `index`: of the schedule in the plan, if it is not a tuned one. `refused`: why the schedules before
    it are not taken. `is_tuned`: whether there is a record."""

    where: str
    kernel: Kernel | None
    plan: SchedulePlan | None
    index: int
    refused: tuple[str, ...]
    is_tuned: bool


def chosen_alone(wanted: Wanted, plan: SchedulePlan) -> tuple[str, str]:
    """The fields in which the schedule for this shape alone differs from the planned one, and the rule that forbids it
    for run-time extents. Each is text, or "" if there is none."""
    schedule = plan.schedule(plan.in_turn(wanted.m)[0], wanted.m)
    compilation = importlib.import_module(_COMPILATION)
    found: tuple[str, str] = compilation.chosen_alone(wanted.of, wanted.m, wanted.epilogue, schedule)
    return found


class _Once:
    """Values by key, each made once."""

    def __init__(self) -> None:
        self.found = Recent(_MOST_KERNELS)
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        value = self.found[key]
        if value is not None:
            return value
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        try:
            with own:
                value = self.found[key]
                if value is None:
                    value = self.found[key] = make()
                return value
        finally:
            with self._lock:
                self._locks.pop(key, None)


class Kernels:
    """Kernels and plans, shared by threads. A kernel that a call has taken stays, even if its shape is tuned later."""

    def __init__(self) -> None:
        self._taken = Recent(_MOST_KERNELS)  # by what was wanted
        self._plans = _Once()  # by family and epilogue
        self._kernels = _Once()  # by their keys on disk

    def get(self, wanted: Wanted) -> Kernel:
        """Raises SpecError, ScheduleError, CompileError."""
        kernel: Kernel | None = self._taken[wanted]
        if kernel is None:
            AHEAD.result(wanted)  # if there is such a job, the plan and the kernel are on disk afterwards
            kernel = self._taken[wanted] = self._alone(wanted) if wanted.alone else self._of_plan(wanted)
        return kernel

    def begin(self, wanted: Wanted) -> None:
        """Have another process make the plan and the kernel, if `AHEAD` was started, and pickle takes the epilogue."""
        if self._taken[wanted] is None:
            AHEAD.begin(wanted, keep_kernel, wanted)

    def where(self, wanted: Wanted) -> Found:
        """The place of a kernel, without compiling it. If there is no plan yet, it is made."""
        store = open_store()
        record, kernel = _record(store, wanted), self._taken[wanted]
        if wanted.alone:
            key, where = _key_alone(wanted), "memory"
            kernel = kernel or self._kernels.found[key, wanted.device]
            if kernel is None and record is None:
                kernel, where = kernel_from_disk(store, key), "disk"
            return Found(where if kernel else "nowhere", kernel, None, 0, (), record is not None)
        planned = self._plan(store, wanted)
        plan = planned.plan
        refused: list[str] = []
        for index in plan.in_turn(wanted.m):
            schedule = plan.schedules[index]
            key = _key(wanted, schedule if record is None else _tuned_text(record, schedule))
            made = kernel or planned.made.get(index) or self._kernels.found[key]
            where = "memory"
            if made is None:
                made, where = _from_disk(store, key, plan), "disk"
            if isinstance(made, Kernel) or made is None or record is not None:
                found = made if isinstance(made, Kernel) else None
                if found is not None and record is None:
                    found = kernel or planned.launched(found, index, wanted.m)
                return Found(where if found else "nowhere", found, plan, index, tuple(refused), record is not None)
            refused.append(made.why)
        return Found("nowhere", None, plan, plan.in_turn(wanted.m)[0], tuple(refused), False)

    def _of_plan(self, wanted: Wanted) -> Kernel:
        store = open_store()
        planned = self._plan(store, wanted)
        return self._tuned(store, wanted, planned.plan) or self._first(store, wanted, planned)

    def _alone(self, wanted: Wanted) -> Kernel:
        """The kernel that `compile_gemm` makes for the shape, with the numerics and the fixed fields of the family."""
        key = _key_alone(wanted)

        def make() -> Kernel:
            store = open_store()
            found = None if _record(store, wanted) else kernel_from_disk(store, key)
            if found is not None:
                return found
            compile_alone = importlib.import_module(_COMPILATION).compile_alone
            made = compile_alone(wanted.of, wanted.m, wanted.epilogue, wanted.device)
            return Kernel(made.manifest, made.ptx, made.cubin)

        found: Kernel = self._kernels.get((key, wanted.device), make)
        return found

    def _plan(self, store: KernelStore | None, wanted: Wanted) -> Planned:
        of = wanted.of.planned

        def make() -> Planned:
            key = _key_of_plan(of, wanted.epilogue)
            entries = None if store is None else load_plan(store, key, _PLAN_ENTRIES)
            if entries is not None:
                return Planned(SchedulePlan.of(entries))
            plan = importlib.import_module(_PLANNING).make_plan(of, wanted.epilogue)
            if store is not None:
                keep_plan(store, key, plan.entries())
            return Planned(plan)

        found: Planned = self._plans.get((of, wanted.epilogue), make)
        return found

    def _first(self, store: KernelStore | None, wanted: Wanted, planned: Planned) -> Kernel:
        """The kernel of the first schedule that has one."""
        refused = []
        for index in planned.plan.in_turn(wanted.m):
            made = planned.made.get(index)
            if made is None:
                schedule = planned.plan.schedules[index]
                key = _key(wanted, schedule)
                made = self._kernels.get(key, partial(_made, store, wanted, schedule, key))
                made = planned.made[index] = _checked(made, planned.plan)
            if isinstance(made, Kernel):
                return planned.launched(made, index, wanted.m)
            refused.append(made.why)
        tried = f"; the other schedules do no better ({len(refused) - 1} tried)"
        raise ScheduleError(before_code(f"{wanted.of}: {refused[0]}", tried))

    def _tuned(self, store: KernelStore | None, wanted: Wanted, plan: SchedulePlan) -> Kernel | None:
        """The kernel of the tuned schedule; None if there is none, or with a CacheWarning if it cannot be used."""
        record = _record(store, wanted)
        if record is None:
            return None
        assert store is not None
        planned = plan.schedules[plan.in_turn(wanted.m)[0]]
        key = _key(wanted, _tuned_text(record, planned))

        def make() -> Made:
            kernel = _from_disk(store, key, None)
            if kernel is not None:
                return kernel
            compilation = importlib.import_module(_COMPILATION)
            held = planned if record.keeps_bits else None
            try:
                made = compilation.compile_tuned(wanted.of, wanted.epilogue, record.schedule, held)
            except (IRError, ScheduleError, CompileError) as error:
                ignore_record(store, record.key, str(error))
                return Refused(str(error))
            store.keep(key, made.manifest, made.ptx, made.cubin)
            return Kernel(made.manifest, made.ptx, made.cubin)

        found = self._kernels.get(key, make)
        return found if isinstance(found, Kernel) else None


def keep_kernel(wanted: Wanted) -> None:
    """Make a kernel that is not on disk, and keep it there. Raises as `Kernels.get` does."""
    Kernels().get(wanted)


def _made(store: KernelStore | None, wanted: Wanted, schedule: str, key: str) -> Made:
    """The kernel of a planned schedule, whatever its order of sums."""
    found = _from_disk(store, key, None)
    if found is not None:
        return found
    compilation = importlib.import_module(_COMPILATION)
    try:
        made = compilation.compile_planned(wanted.of.spec(wanted.epilogue), wanted.of.target, schedule)
    except compilation.REFUSALS as error:
        if store is not None:
            keep_refusal(store, key, str(error))
        return Refused(str(error))
    if store is not None:
        store.keep(key, made.manifest, made.ptx, made.cubin)
    return Kernel(made.manifest, made.ptx, made.cubin)


def _checked(made: Made, plan: SchedulePlan) -> Made:
    """The kernel, or a refusal if it does not sum in the order of the plan."""
    if plan.order is None or isinstance(made, Refused) or made.manifest.get("summation") == plan.order:
        return made
    order = made.manifest.get("summation")
    return Refused(
        f"it sums in the order {order}, but all kernels of the plan sum in {plan.order}; pass aligned operands, or "
        "numerics='repeatable' [planned-order]"
    )


def _from_disk(store: KernelStore | None, key: str, plan: SchedulePlan | None) -> Made | None:
    """The kernel of a key, or its refusal; None if the disk has neither. `plan`: refuse another order of sums, too."""
    kernel = kernel_from_disk(store, key)
    if kernel is None:
        why = None if store is None else load_refusal(store, key)
        return None if why is None else Refused(why)
    return kernel if plan is None else _checked(kernel, plan)


def kernel_from_disk(store: KernelStore | None, key: str) -> Kernel | None:
    """The kernel of a key. None if the disk has none, or if it lacks machine code and ptxas is installed."""
    stored = None if store is None else store.load(key)
    if stored is None or (stored.cubin is None and find_ptxas() is not None):
        return None
    return Kernel(stored.manifest, stored.ptx, stored.cubin)


def _record(store: KernelStore | None, wanted: Wanted) -> Record | None:
    """The tuning record of the shape. None for matrices that are packed, because tuning does not pack."""
    of = wanted.of
    is_aligned = of.inputs_aligned and of.d_aligned
    if store is None or wanted.device is None or not is_aligned or not may_be_used() or not has_records(store):
        return None
    example = of.example(wanted.epilogue, wanted.m)
    for numerics in words_of_records(of.numerics):
        key = key_of_record(example, of.target, wanted.device, numerics)
        record = load_record(store, key)
        if record is not None:
            return Record(key, record["schedule"], numerics != ANY)
    return None


def _tuned_text(record: Record, planned: str) -> str:
    """The text of a tuned schedule in a key. It has the planned schedule if the order of sums must be the same."""
    return f"tuned: {record.schedule}, for {planned if record.keeps_bits else 'any'}"


def _key(wanted: Wanted, schedule: str) -> str:
    """The key of a kernel, by problem, target and the text of the schedule."""
    of = wanted.of
    return key_of(of.spec(wanted.epilogue), of.target, f"lt.matmul: {schedule}", versions(cache_folder()))


def _key_alone(wanted: Wanted) -> str:
    """The key with which `compile_gemm` keeps the kernel of the shape, if its schedule is not tuned."""
    of = wanted.of
    spec = of.example(wanted.epilogue, wanted.m)
    return key_of(spec, of.target, of.given or None, versions(cache_folder()), of.numerics)


def _key_of_plan(of: Family, epilogue: Epilogue | None) -> str:
    spec = of.example(epilogue, None)
    return key_of(spec, of.target, f"plan: {of.given}", versions(cache_folder()), of.numerics)
