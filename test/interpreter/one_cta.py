"""Runs one kernel of level nvvm or llvm in one CTA, without a host side: for tests of single ops."""

from collections.abc import Sequence
from typing import Any

from mlir import ir

from lowtide.interpreter.machine.agents import LaunchRequest, Machine
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.scheduling import run_all, start_cluster
from lowtide.interpreter.numbers.domains import domain
from lowtide.interpreter.ops.table import HANDLERS
from lowtide.interpreter.program.decoding import decode

LEVELS = {"gpu.func": "nvvm", "llvm.func": "llvm"}

# name, rows, columns, element type, payload (None: not written)
MatrixInMemory = tuple[str, int, int, str, Any]


def run_kernel(
    text: str, matrices: Sequence[MatrixInMemory], threads: int = 32, number_domain: str = "float", seed: int = 0
) -> GlobalMemory:
    """Run the one gpu.func, or llvm.func, of the one gpu.module in `text` on pointers to the matrices; global memory.

    A gpu.func is of level nvvm, an llvm.func of level llvm.
    """
    numbers = domain(number_domain)
    memory = GlobalMemory(numbers.payload)
    pointers = tuple(
        memory.allocate(name, rows, columns, columns, dtype, payload)
        for name, rows, columns, dtype, payload in matrices
    )
    with ir.Context(load_on_create_dialects=[]), ir.Location.unknown():  # the parser loads those that it needs
        module = ir.Module.parse(text)
        body = module.body.operations[0].regions[0].blocks[0].operations
        function = next(op.operation for op in body if op.operation.name in LEVELS)
        program = decode(function, LEVELS[function.name], numbers, HANDLERS)
        machine = Machine(program.level, numbers, memory, grid=1, threads=threads, collective=False)
        memory.begin_launch()
        request = LaunchRequest(program.name, 1, threads, 4096, pointers)
        run_all(iter([start_cluster(machine, program, 0, request)]), 1, seed)
    return memory
