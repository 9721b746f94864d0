"""launch-clears: set an amax to zero, by a launch before that of the kernel that raises it.

Before   tile.launch @gemm_kernel grid(%g) threads(384) args(%a, %b, %d, %amax)
After    host    tile.launch @gemm_clear grid(%c1) threads(32) args(%amax)
                 tile.launch @gemm_kernel …
         device  tile.kernel @gemm_clear(%target) { tile.clear %target }
         The launches are in the stream's order, so that every call starts anew, in a captured graph too. CTAs of the
         kernel raise it in any order. Where D has no elements nothing is launched: the runtime refuses the call.
Needs    level cta; kernels without an amax are left alone.
Refuses  an amax that is no argument of its kernel.
Test     test/lit/passes/cta/launch-clears.mlir, launch-clears-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.enums import operand_kinds
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import OperandKind
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.kernels import launches_of
from lowtide.passes.support.rewriting import before
from lowtide.targets import Target

_THREADS = 32


@dataclass(frozen=True)
class LaunchClears(Pass):
    """Puts a launch that clears before each launch of a kernel with an amax."""

    name: ClassVar[str] = "launch-clears"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            position = _amax_of(kernel)
            if position is None:
                continue
            for launch in launches_of(module, kernel):
                cleared = launch.args[position]
                with before(launch), launch.operation.location:
                    tile.LaunchOp(
                        _clear(module, launch, cleared.type), Builder.index().constant(1), _THREADS, [cleared]
                    )


def _amax_of(kernel: tile.KernelOp) -> int | None:
    """Which argument of the kernel its stores raise; None where they raise none."""
    found = None
    for store in walk(kernel, tile.StoreOp):
        for operand, kind in zip(store.epilogue_operands, operand_kinds(store), strict=True):
            if kind is OperandKind.amax:
                arguments = list(kernel.body.blocks[0].arguments)
                if operand not in arguments:
                    raise Refusal(
                        store, "has an amax that is no argument of its kernel; pass it at the launch [amax-argument]"
                    )
                found = arguments.index(operand)
    return found


def _clear(module: ir.Module, launch: tile.LaunchOp, type_: ir.Type) -> str:
    """The name of the kernel that clears; made where it is not there."""
    function = launch.operation.parent.opview
    name = f"{ir.StringAttr(function.attributes['sym_name']).value}_clear"
    if all(ir.StringAttr(kernel.sym_name).value != name for kernel in walk(module, tile.KernelOp)):
        with ir.InsertionPoint(module.body), launch.operation.location:
            kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get([type_], [])))
        with ir.InsertionPoint(kernel.body.blocks.append(type_)):
            tile.ClearOp(kernel.body.blocks[0].arguments[0])
            tile.ReturnOp()
    return name
