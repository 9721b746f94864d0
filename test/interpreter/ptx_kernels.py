"""Small kernels of PTX on the machine, without a host function: what tests of level ptx share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import LaunchRequest, Machine
from lowtide.interpreter.machine.exploration import Explorer, pause
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.interleavings import Order, Report
from lowtide.interpreter.machine.options import Observers, Options
from lowtide.interpreter.machine.scheduling import ctas_together, run_all, start_cluster
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.program.dependence import dependences
from lowtide.interpreter.ptx.decoding import decode
from lowtide.interpreter.ptx.parsing import parse
from lowtide.interpreter.ptx.uses import use_of

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def run(
    text: str,
    buffers: Mapping[str, tuple[str, NDArray[Any] | int]],
    *,
    domain: str = "float",
    threads: int = 32,
    grid: int = 1,
    cluster: int = 1,
    shared_memory: int = 4096,
    scalars: Sequence[Any] = (),
    seed: int = 0,
    resident: int = 2,
    max_steps: int = 100_000,
    report: Report | None = None,
    explorer: Explorer | None = None,
) -> dict[str, NDArray[Any]]:
    """The contents of the buffers after the one kernel of a text has run on their addresses, then `scalars`.

    A buffer is (element type, values), or (element type, how many elements are not written yet).
    """
    numbers = domains.domain(domain)
    memory = GlobalMemory(numbers.payload)
    addresses = []
    for name, (dtype, values) in buffers.items():
        count = values if isinstance(values, int) else len(values)
        payload = None if isinstance(values, int) else np.asarray(values).astype(numbers.payload)[None, :]
        addresses.append(memory.allocate(name, 1, count, count, dtype, payload))
    module = parse(text, "test.ptx")
    (name,) = module.entries
    program = decode(module, name, numbers)
    memory.begin_launch(notes_reads=True)
    options, observers = Options(max_steps=max_steps), Observers(explorer=explorer)
    machine = Machine("ptx", numbers, memory, options, observers, grid, threads, collective=False)
    machine.cluster = cluster, 1
    machine.ctas_together = ctas_together(program, machine.cluster)
    if report is not None:
        report.kernels[name] = dependences(program, use_of)
        machine.order = Order(report)
    if explorer is not None:
        pause(program, use_of)
        explorer.launch()
    request = LaunchRequest(name, grid, threads, shared_memory, (*addresses, *scalars), cluster=(cluster, 1))
    with np.errstate(all="ignore"):
        clusters = (start_cluster(machine, program, index, request) for index in range(grid // cluster))
        resident = max(resident, machine.ctas_together if machine.joins else 1)
        run_all(clusters, resident, seed, choose=None if explorer is None else explorer.choose)
    return {name: memory.contents(name)[0][0] for name in buffers}


def kernel(body: str, parameters: Sequence[str], variables: str = "") -> str:
    """A kernel whose parameters are addresses, in %rd1, %rd2, …; %r1 is the thread, %rd9 its number times 4."""
    declared = ", ".join(f".param .u64 {name}" for name in parameters)
    loads = "".join(f"ld.param.b64 %rd{at}, [{name}];\n" for at, name in enumerate(parameters, start=1))
    return f"""{HEADER}{variables}
.visible .entry test({declared})
{{
.reg .pred %p<9>;
.reg .b16 %rs<9>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
{loads}mov.u32 %r1, %tid.x;
mul.wide.u32 %rd9, %r1, 4;
{body}
ret;
}}
"""
