"""verify-registers: check the registers that roles request by setmaxregister against those that the CTA enters with.

Changes nothing. convert-sm-to-nvvm writes the number of threads and the registers at entry on the kernel; an edited
level may have lost them, and ptxas then ignores every setmaxnreg, with only an advisory (C7508). A request for more
registers than are free waits forever (PTX ISA, "setmaxnreg").

Needs    level nvvm: gpu.func, and the branches that convert-sm-to-nvvm marks with their roles. For a kernel without
         nvvm.setmaxregister only the launch's size is checked.
Refuses  a launch whose size is not known_block_size, from which LLVM derives which branches are taken; setmaxregister
         in a kernel without known_block_size; more registers at entry than an SM has; an increase to fewer, or a
         decrease to more, registers per thread than at entry; a sum over all warps that exceeds the registers at
         entry; a setmaxregister that not all four warps of a warpgroup execute, because the role has only some of
         them or because it is in a branch that belongs to no role.
Test     test/lit/passes/nvvm/verify-registers.mlir, verify-registers-invalid.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, gpu, nvvm, scf

from lowtide.dialects import tile
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.facts.resources import registers_at_entry
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.problem.kernels import launches_of
from lowtide.targets import Target

_WARP, _WARPGROUP = 32, 128


@dataclass(frozen=True)
class VerifyRegisters(Pass):
    """Checks the number of threads and the register requests of every gpu.func."""

    name: ClassVar[str] = "verify-registers"

    def run(self, module: ir.Module, target: Target) -> bool:
        for function in walk(module, gpu.GPUFuncOp):
            changes, launches = walk(function, nvvm.SetMaxRegisterOp), launches_of(module, function)
            for refusal in _launches(function, launches):
                raise refusal
            if changes:
                for refusal in _refusals(function, changes, launches, target):
                    raise refusal
        return False


def _launches(function: gpu.GPUFuncOp, launches: list[tile.LaunchOp]) -> Iterator[Refusal]:
    threads = _threads(function)
    for launch in launches if threads else ():
        size = launch.threads.value
        if size != threads:
            yield Refusal(
                launch,
                f"launches {size} threads per CTA, but its kernel's known_block_size has {threads}; take {threads}"
                " [known-block-size]",
            )


def _threads(function: gpu.GPUFuncOp) -> int:
    """Threads per CTA, from known_block_size; 0 if there is none."""
    attributes = function.operation.attributes
    return prod(ir.DenseI32ArrayAttr(attributes["known_block_size"])) if "known_block_size" in attributes else 0


def _refusals(
    function: gpu.GPUFuncOp, changes: list[nvvm.SetMaxRegisterOp], launches: list[tile.LaunchOp], target: Target
) -> Iterator[Refusal]:
    attributes = function.operation.attributes
    threads = _threads(function)
    if not threads:
        launched = next((launch.threads.value for launch in launches), "threads")
        yield Refusal(
            function,
            "changes its registers by nvvm.setmaxregister but does not say how many threads it has, so that ptxas "
            f"would ignore it (C7508); give it known_block_size = array<i32: {launched}, 1, 1> [block-size-unknown]",
        )
        return
    entry = most = registers_at_entry(threads, target)
    if "nvvm.maxnreg" in attributes:  # allocated in units of 8: 255 take 256, of which a thread can address 255
        entry = -(-int(ir.IntegerAttr(attributes["nvvm.maxnreg"]).value) // 8) * 8
    if entry > most:
        yield Refusal(
            function,
            f"enters with {entry} registers per thread (nvvm.maxnreg), but {threads} threads share the "
            f"{target.registers_per_sm} of an SM; take at most {most} [registers-at-entry]",
        )
    yield from _changes(function, changes, threads, entry)


def _changes(
    function: gpu.GPUFuncOp, changes: list[nvvm.SetMaxRegisterOp], threads: int, entry: int
) -> Iterator[Refusal]:
    """The direction of each change, and the sum over the warps that make them."""
    roles: dict[tuple[int, int], int] = {}
    for change in changes:
        count = change.regCount.value
        action = "increase" if "increase" in str(change.action) else "decrease"
        if (count < entry) if action == "increase" else (count > entry):
            limit = "at least" if action == "increase" else "at most"
            yield Refusal(
                change,
                f"asks for {count} registers per thread, which enters with {entry}: that is no {action}; take {limit} "
                f"{entry} [register-change]",
            )
        range_ = _threads_at(change, threads)
        roles[range_] = max(count, roles.get(range_, 0))
    wanted = sum((last - first) * count for (first, last), count in roles.items())
    wanted += (threads - sum(last - first for first, last in roles)) * entry
    if wanted > threads * entry:
        parts = " + ".join(f"{last - first} threads × {count}" for (first, last), count in sorted(roles.items()))
        (first, last), count = max(roles.items(), key=lambda role: role[1])
        over = wanted - threads * entry
        yield Refusal(
            function,
            f"asks for {wanted} registers by nvvm.setmaxregister ({parts}), but enters with {threads * entry} "
            f"({threads} × {entry}), so that the last to ask would wait forever; take at most "
            f"{(count - -(-over // (last - first))) // 8 * 8} in place of {count} [register-sum]",
        )


def _threads_at(op: ir.OpView, threads: int) -> tuple[int, int]:
    """The range of threads (first, one past the last) of the role that contains the op: whole warpgroups.

    Raises Refusal if not all threads of a warpgroup reach the op (PTX ISA, "setmaxnreg": .aligned).
    """
    first, last = 0, threads
    inner, at = op.operation, op.operation.parent
    while at is not None and not isinstance(at.opview, gpu.GPUFuncOp):
        branch = at.opview
        if isinstance(branch, scf.IfOp) and "roles" in branch.attributes:
            bound = _bound(branch)
            if inner.block == branch.then_block:
                last = min(last, bound)
            else:
                first = max(first, bound)
        elif isinstance(branch, scf.IfOp):
            raise Refusal(
                op,
                "is in a branch that belongs to no role, but all four warps of a warpgroup must execute it together "
                "(.aligned); move it to the beginning of its role [aligned-branch]",
            )
        inner, at = at, at.parent
    if first % _WARPGROUP or last % _WARPGROUP:
        raise Refusal(
            op,
            f"is executed by the threads {first} to {last - 1}, but all {_WARPGROUP} threads of a warpgroup must "
            "execute it together (.aligned); split the roles between warpgroups [aligned-warpgroup]",
        )
    return first, last


def _bound(branch: scf.IfOp) -> int:
    """How many threads, from the first on, take the branch of a role."""
    condition = branch.condition.owner
    compare = None if isinstance(condition, ir.Block) else condition.opview
    bound = constant_of(compare.rhs) if isinstance(compare, arith.CmpIOp) else None
    if bound is None or bound % _WARP:
        raise Refusal(
            branch, "must compare the thread's index with a constant number of whole warps to split roles [role-bound]"
        )
    return bound
