"""Small kernels of PTX on the machine, without a host function: what tests of level ptx share."""

import re
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
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.ptx.decoding import decode
from lowtide.interpreter.ptx.parsing import parse
from lowtide.interpreter.ptx.uses import use_of

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
# What needs another version of the PTX ISA, or another target ("PTX ISA Notes" and "Target ISA Notes" of each).
_NEEDS = tuple(
    (re.compile(pattern), version, target)
    for pattern, version, target in (
        (r"abi_preserve", "9.0", "sm_90a"),
        (r"\b(min|max)\.[\w.]*f32 (%r\d+, ){3}", "8.8", "sm_100a"),
        (r"\b(add|sub|mul|fma)\.[\w.]*(f32x2|f32\.b?f16)\b|redux\.sync\.[\w.]*f32|st\.bulk", "8.6", "sm_100a"),
        (r"cvt\.r[nz]\.[\w.]*satfinite\.tf32", "8.6", "sm_100a"),
        (r"cp\.async\.bulk\.shared::cta|mbarrier\.\w+\.relaxed", "8.6", "sm_90a"),
        (r"b128|::entry|::func", "8.3", "sm_90a"),
        (r"lop3\.(and|or)|mmio", "8.2", "sm_90a"),
        (r"(atom|red)\.\S*\.v\d|(st|red)\.async|satfinite\.(b?f16|tf32)", "8.1", "sm_90a"),
    )
)


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
    program = decoded(text, numbers)
    name = program.name
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


def decoded(text: str, numbers: domains.Domain) -> Program:
    """The one kernel of a text."""
    module = parse(text, "test.ptx")
    (name,) = module.entries
    return decode(module, name, numbers)


def header(body: str) -> str:
    """The lines before a kernel with this body, with the least version that it needs."""
    version, target = next((needs[1:] for needs in _NEEDS if needs[0].search(body)), ("8.0", "sm_90a"))
    return HEADER.replace("8.0", version).replace("sm_90a", target)


def kernel(body: str, parameters: Sequence[str], variables: str = "") -> str:
    """A kernel whose parameters are addresses, in %rd1, %rd2, …; %r1 is the thread, %rd9 its number times 4."""
    declared = ", ".join(f".param .u64 {name}" for name in parameters)
    loads = "".join(f"ld.param.b64 %rd{at}, [{name}];\n" for at, name in enumerate(parameters, start=1))
    return f"""{header(variables + body)}{variables}
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
