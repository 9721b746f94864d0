"""The nine levels of the IR, and which ops live on which of them.

One table for the host's functions and one for device code: an op's first and last level. `check_level` checks
a module; the driver calls it after each step, so that no op stays past its last level.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from mlir import ir

from lowtide.dialects._lowtide import op_names, ops_named
from lowtide.dialects.locations import where
from lowtide.dialects.sm import FragmentType
from lowtide.dialects.tile import ViewType
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import IRError
from lowtide.targets import Target, get

LEVEL_ATTRIBUTE = "tile.level"
TARGET_ATTRIBUTE = "tile.target"


class Level(IntEnum):
    """A kind of IR, from the problem down to PTX text. `str(level)` is what `tile.level` holds."""

    PROBLEM = 1
    CTA = 2
    SMEM = 3
    PIPELINED = 4
    ATOMS = 5
    EPILOGUE = 6
    NVVM = 7
    LLVM = 8
    PTX = 9

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def named(cls, name: str) -> "Level":
        """The level of that name. Raises IRError that lists the levels."""
        for level in cls:
            if str(level) == name:
                return level
        raise IRError(f"unknown level {name!r}; the levels are {', '.join(map(str, cls))} [unknown-level]")


PROBLEM, CTA, SMEM, PIPELINED, ATOMS, EPILOGUE, NVVM, LLVM, PTX = Level


class Life(NamedTuple):
    """The levels on which an op may stand, both ends included."""

    first: Level
    last: Level


def _lives(*rows: tuple[Level, Level, str]) -> Mapping[str, Life]:
    return MappingProxyType({op: Life(first, last) for first, last, ops in rows for op in ops.split()})


# A name ending in `*` stands for every op with that prefix; the longest match counts.
HOST_OPS = _lives(
    (PROBLEM, LLVM, "func.func func.return arith.*"),
    (PROBLEM, PROBLEM, "tile.gemm tile.pack tile.unpack tile.yield math.*"),
    (CTA, LLVM, "memref.dim cf.assert tile.sm_count tile.cluster_count tile.workspace tile.launch"),
    (CTA, LLVM, "memref.cast memref.reinterpret_cast"),
    (ATOMS, LLVM, "sm.tensor_map"),
    (CTA, LLVM, "memref.extract_aligned_pointer_as_index memref.extract_strided_metadata"),
)

DEVICE_OPS = _lives(
    (CTA, EPILOGUE, "tile.kernel tile.return tile.work_tiles tile.view tile.yield memref.dim"),
    (CTA, EPILOGUE, "tile.await_wave tile.await_arrival tile.is_late tile.send_shard"),
    (CTA, EPILOGUE, "memref.load memref.subview tile.take_rows tile.matrix_extent tile.prepare tile.finish"),
    (CTA, NVVM, "arith.* scf.for scf.if scf.yield vector.*"),
    (CTA, EPILOGUE, "math.*"),
    (CTA, PIPELINED, "tile.splat tile.mma tile.promote"),
    (CTA, ATOMS, "tile.store"),
    (CTA, EPILOGUE, "tile.store_partial tile.add_partials tile.sum_shares"),
    (CTA, EPILOGUE, "tile.semaphore_arrive tile.semaphore_wait tile.semaphore_leave"),
    (SMEM, EPILOGUE, "sm.alloc sm.barrier"),
    (SMEM, SMEM, "sm.copy"),
    (PIPELINED, EPILOGUE, "sm.ring sm.ring_advance"),
    (PIPELINED, PIPELINED, "sm.copy_async sm.producer_acquire sm.producer_commit"),
    (PIPELINED, PIPELINED, "sm.consumer_wait sm.consumer_release sm.producer_tail"),
    (PIPELINED, EPILOGUE, "sm.prefix"),
    (ATOMS, EPILOGUE, "sm.ring_slot sm.ring_reuse"),
    (ATOMS, EPILOGUE, "sm.cp_async sm.cp_async_commit sm.cp_async_wait sm.cp_async_arrive"),
    (ATOMS, EPILOGUE, "sm.ldmatrix sm.mma_sync sm.splat"),
    (PIPELINED, EPILOGUE, "sm.roles"),
    (PIPELINED, EPILOGUE, "tile.next_work_tile"),
    (PIPELINED, EPILOGUE, "sm.role_instance sm.mbarriers sm.mbarrier_wait sm.mbarrier_arrive"),
    (ATOMS, EPILOGUE, "sm.tma_load sm.make_maps sm.listed_map sm.zero_rows sm.wgmma sm.wgmma_promote sm.mma_wait"),
    (EPILOGUE, EPILOGUE, "sm.mma_wait_rows"),
    (ATOMS, EPILOGUE, "sm.cluster_barrier"),
    (EPILOGUE, EPILOGUE, "sm.tma_store sm.tma_store_wait"),
    (ATOMS, EPILOGUE, "sm.fence_proxy_async"),
    (EPILOGUE, EPILOGUE, "tile.grid_dependency_wait tile.launch_dependents"),
    (ATOMS, EPILOGUE, "sm.load_shared sm.load_global sm.load_scales sm.store_shared"),
    (ATOMS, ATOMS, "sm.sum_over_k"),
    (EPILOGUE, EPILOGUE, "sm.stack"),
    (EPILOGUE, EPILOGUE, "sm.extract sm.store_global sm.max_abs sm.raise_max sm.reduce sm.store_reduced"),
    (ATOMS, EPILOGUE, "sm.map sm.unpack_weights"),
    (NVVM, LLVM, "gpu.module nvvm.* llvm.* sm.ptx_*"),
    (NVVM, NVVM, "gpu.func gpu.return scf.while scf.condition"),
    # What one PTX instruction computes; expand-math has replaced the others.
    (CTA, NVVM, "math.absf math.copysign math.exp2 math.fma math.log2 math.roundeven math.rsqrt math.sqrt"),
)

DIALECTS: tuple[str, ...] = tuple(sorted({op.partition(".")[0] for op in (*HOST_OPS, *DEVICE_OPS)}))
"""The dialects of the levels' ops."""


class Rule(NamedTuple):
    """A condition on the form of an op on some of its levels."""

    op: str
    first: Level
    last: Level
    holds: Callable[[ir.OpView], bool]
    message: str


def _reads_buffers(op: ir.OpView) -> bool:
    return not any(ViewType.isinstance(value.type) for value in list(op.operands)[:2])


def _reads_what_is_scheduled(op: ir.OpView) -> bool:
    """Buffers; windows of global memory where the kernel's schedule has no shared memory."""
    return _reads_buffers(op) != _is_direct(op.operation)


def _is_direct(op: ir.Operation) -> bool:
    parent = op.parent
    while parent is not None and parent.name != "tile.kernel":
        parent = parent.parent
    attributes = parent.attributes if parent is not None else {}
    return "schedule" in attributes and Schedule.of(attributes["schedule"]).is_direct


RULES: tuple[Rule, ...] = (
    Rule("tile.mma", CTA, CTA, lambda op: not _reads_buffers(op), "multiplies windows of global memory"),
    Rule(
        "tile.mma",
        SMEM,
        PIPELINED,
        _reads_what_is_scheduled,
        "multiplies buffers in shared memory, or windows of global memory if the schedule loads from there",
    ),
    Rule("tile.store", SMEM, ATOMS, lambda op: op.part is None, "stores whole sums, not parts"),
    Rule("tile.store", ATOMS, ATOMS, lambda op: FragmentType.isinstance(op.operands[0].type), "stores an !sm.fragment"),
    Rule("sm.alloc", EPILOGUE, EPILOGUE, lambda op: "at" in op.attributes, "has its place, `at`, in shared memory"),
    Rule("sm.ring", EPILOGUE, EPILOGUE, lambda op: "at" in op.attributes, "has its place, `at`, in shared memory"),
    Rule(
        "tile.launch",
        EPILOGUE,
        LLVM,
        lambda op: "shared_memory" in op.attributes,
        "says its shared_memory",
    ),
)

_RULES_OF = {name: tuple(rule for rule in RULES if rule.op == name) for name in {rule.op for rule in RULES}}


def level_of(module: ir.Module) -> Level:
    """The level that the module's `tile.level` names. Raises IRError where it is missing or unknown."""
    return Level.named(_string_attribute(module, LEVEL_ATTRIBUTE, 'the level of the IR, e.g. tile.level = "cta"'))


def target_of(module: ir.Module) -> Target:
    """The target that the module's `tile.target` names. Raises IRError where missing, TargetError where unknown."""
    return get(_string_attribute(module, TARGET_ATTRIBUTE, 'the target, e.g. tile.target = "sm_80"'))


def set_level(module: ir.Module, level: Level) -> None:
    """Set the level of the module."""
    module.operation.attributes[LEVEL_ATTRIBUTE] = ir.StringAttr.get(str(level), module.context)


def set_target(module: ir.Module, target: Target) -> None:
    """Set the target of the module."""
    module.operation.attributes[TARGET_ATTRIBUTE] = ir.StringAttr.get(target.name, module.context)


def _string_attribute(module: ir.Module, name: str, meaning: str) -> str:
    attributes = module.operation.attributes
    if name not in attributes:
        raise IRError(f"{where(module.operation)}: the module lacks {name}; it names {meaning} [module-lacks]")
    attribute = attributes[name]
    if not isinstance(attribute, ir.StringAttr):
        raise IRError(
            f"{where(module.operation)}: {name} is {attribute}, not a string; it names {meaning} [module-attribute]"
        )
    return attribute.value


def check_level(module: ir.Module, level: Level) -> None:
    """Raise IRError for the first op that does not belong to the level: op, location, level, where it belongs."""
    if level is Level.PTX:
        raise IRError("level ptx is text, not IR; the last level that is IR is llvm [level-is-text]")
    for top in module.body.operations:
        host = top.operation.name.startswith("func.")
        complaint = _first_complaint(top.operation, level, host)
        if complaint is not None:
            raise IRError(complaint)


def _first_complaint(top: ir.Operation, level: Level, host: bool) -> str | None:
    # Judge each name once: levels nvvm and llvm have thousands of ops, but few names.
    suspects = {name for name in op_names(top) if name in _RULES_OF or _misplaced(name, level, host)}
    for op in ops_named(top, "*") if suspects else ():
        if op.name in suspects:
            misplaced = _misplaced(op.name, level, host)
            complaint = _broken_rule(op, op.name, level) if misplaced is None else misplaced
            if complaint is not None:
                return f"{where(op)}: {complaint}"
    return None


def _misplaced(name: str, level: Level, host: bool) -> str | None:
    """Why no op of that name belongs to the level; None where they do."""
    life = life_of(name, host)
    side = "host" if host else "device"
    if life is None:
        home = "the other side's code" if life_of(name, not host) else "no level of ours"
        return f"{name} does not belong in {side} code at level {level}; it belongs to {home} [not-at-any-level]"
    if level > life.last:
        successor = Level(life.last + 1)
        return (
            f"{name} does not belong in {side} code at level {level}; it lives from {life.first} to {life.last}: "
            f"the step to {successor} should have replaced it [past-its-levels]"
        )
    if level < life.first:
        return (
            f"{name} does not belong in {side} code at level {level}; it lives from {life.first} to {life.last}"
            " [before-its-levels]"
        )
    return None


def _broken_rule(op: ir.Operation, name: str, level: Level) -> str | None:
    """The message for an op that belongs to the level but does not have the form required there."""
    for rule in _RULES_OF.get(name, ()):
        if rule.first <= level <= rule.last and not rule.holds(op.opview):
            return f"at level {level} {name} {rule.message}; this one does not [form-at-level]"
    return None


@lru_cache(maxsize=1024)
def life_of(name: str, host: bool) -> Life | None:
    """The levels of an op in host functions, or in device code: its own row, or the row of its family. None if no level
    has it there."""
    table = HOST_OPS if host else DEVICE_OPS
    if name in table:
        return table[name]
    families = [family for family in table if family.endswith("*") and name.startswith(family[:-1])]
    return table[max(families, key=len)] if families else None
