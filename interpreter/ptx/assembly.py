"""Inline assembly: a few instructions of PTX within a program of another language, on values of that.

In the text `$0`, `$1`, … are registers. Values go in and come out as machine/execution.py has them: floats as payloads,
two floats of 16 bits as packed, integers raw.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.domains import FLOAT_DTYPES, Domain
from lowtide.interpreter.numbers.registers import Number, number
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.ptx.binding import Op, Slots
from lowtide.interpreter.ptx.decoding import graph_of
from lowtide.interpreter.ptx.parsing import parse_body
from lowtide.interpreter.ptx.syntax import Instruction

_OPERAND = re.compile(r"\$(\d+)")


def assembled(
    text: str,
    types: Sequence[str],
    inputs: Sequence[tuple[int, int]],
    outputs: Sequence[tuple[int, int]],
    domain: Domain,
    allocate: Callable[[], int],
    where: str = "<inline assembly>",
) -> Graph:
    """The graph of a text, decoded once, for machine/branches.py to run.

    `types` are those of $0, $1, … by MLIR's names: "f32", "i64". `inputs` are (slot, n): before the text runs, $n
    becomes the value of a slot; `outputs` the same for afterwards. `allocate` gives slots for what the text has of its
    own; `where` stands in messages. Raises InterpreterError for instructions that are not interpreted.
    """
    names = {f"%asm{at}": _register_type(type) for at, type in enumerate(types)}
    entry = parse_body(_OPERAND.sub(r"%asm\1", text), names, where)
    first = allocate()
    for _ in entry.registers[1:]:
        allocate()
    graph = graph_of(entry.body, Slots(domain, allocate, first), [_moved_in(types, inputs, first, text, where)])
    out = _moved_out(types, outputs, first, text, where, domain)
    last = graph.blocks[-1]
    last.ops = (*last.ops, out)
    return graph


def _register_type(type: str) -> str:
    return "pred" if type == "i1" else f"b{re.sub('[^0-9]', '', type)}"


def _moved_in(types: Sequence[str], inputs: Sequence[tuple[int, int]], first: int, text: str, where: str) -> Op:
    def move(state: AgentState, op: Op) -> None:
        for slot, at in inputs:
            value = state.values[slot]
            is_payload = types[at] in FLOAT_DTYPES and isinstance(value, np.ndarray | np.generic | float | int)
            state.values[first + at] = Number(value, types[at]) if is_payload else value

    return Op(
        Instruction(text, (), None, where, 1, text),
        move,
        operands=tuple(slot for slot, _ in inputs),
        results=tuple(first + at for _, at in inputs),
    )


def _moved_out(
    types: Sequence[str], outputs: Sequence[tuple[int, int]], first: int, text: str, where: str, domain: Domain
) -> Op:
    def move(state: AgentState, op: Op) -> None:
        for slot, at in outputs:
            value: Any = state.values[first + at]
            state.values[slot] = number(value, types[at], domain) if types[at] in FLOAT_DTYPES else value

    return Op(
        Instruction(text, (), None, where, 1, text),
        move,
        operands=tuple(first + at for _, at in outputs),
        results=tuple(slot for slot, _ in outputs),
    )
