"""A kernel of PTX as a program: blocks of bound instructions, their order, and the places of its variables."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.batches import batched, flat
from lowtide.interpreter.program.graphs import EXIT, Block, Branch, Edge, Graph
from lowtide.interpreter.program.program import DecodedBlock, Program
from lowtide.interpreter.ptx.binding import Slots, bind, bind_special
from lowtide.interpreter.ptx.formed_addresses import PointerLimits, limits
from lowtide.interpreter.ptx.function_addresses import addresses_of
from lowtide.interpreter.ptx.functions import with_functions
from lowtide.interpreter.ptx.gathering import alone, gathers
from lowtide.interpreter.ptx.parameter_parts import resolved
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.shared_variables import places
from lowtide.interpreter.ptx.syntax import Entry, Immediate, Instruction, Label, Module, Name, Register
from lowtide.interpreter.ptx.table import Table
from lowtide.interpreter.ptx.variables import by_space, globals_of, local_places

_MAP_BYTES, _MAP_ALIGNMENT = 128, 64  # of a tensor map parameter; CUDA 13 aligns it to 128
_JUMPS = ("bra", "bra.uni")
_INDIRECT = ("brx.idx", "brx.idx.uni")
_BETWEEN_CTAS = re.compile(
    r"(atom|red|multimem|griddepcontrol|barrier\.cluster|mapa|cp\.reduce|st\.async)\b|(ld|st)\.(?!param)\w*.*\b"
    r"(acquire|release|relaxed|volatile|mmio)\b"
)
"""Instructions by which a CTA may wait for another, or tell it something."""
_ENDS = ("ret", "exit", "ret.uni")


def decode(module: Module, name: str, domain: Domain) -> Program:
    """A kernel of the module.

    Raises InterpreterError for an unknown kernel, and for an instruction that is not interpreted.
    """
    if name not in module.entries:
        raise InterpreterError(
            f"{module.file} has no kernel {name}; it has {', '.join(module.entries) or 'none'} [entry-named]"
        )
    entry = module.entries[name]
    parameters = {parameter.name: at for at, parameter in enumerate(entry.parameters)}
    arguments = DecodedBlock(tuple(parameters.values()), (), (), (), "")
    program = Program(name, "ptx", domain, arguments, len(parameters), collective=False)
    body = with_functions(module, entry)
    spaces = by_space([*module.variables, *body.variables])
    shared = places(spaces.shared)
    program.shared_origin, program.static_bytes, program.gaps = shared.origin, shared.size, shared.gaps
    program.buffers += [
        (name, at.start, at.end - at.start) for name, at in shared.variables.items() if at.end <= shared.size
    ]
    local, program.local_bytes = local_places(spaces.local)
    program.globals = globals_of(module, spaces.globals)
    functions = addresses_of(module)
    slots = Slots(program, program.reserve_all(body.registers), parameters, shared.offsets, local, functions)
    slots.sizes = {at: each.size for at, each in enumerate(entry.parameters)}
    program.graph = graph_of([*alone(resolved(body.code, parameters))], slots, targets=body.targets)
    ops = [op for block in program.graph.blocks for op in flat(block.ops)]
    program.limits = limits(ops, shared.variables, slots.of)
    program.pointer_limits = PointerLimits(ops, slots.of)
    instructions = [each.name for each in body.code if isinstance(each, Instruction)]
    program.is_of_independent_ctas = not any(map(_BETWEEN_CTAS.match, instructions))
    program.reads_grid_workspace = any("%envreg" in each.text for each in body.code if isinstance(each, Instruction))
    program.attributes = _attributes(entry)
    return program


def _attributes(entry: Entry) -> dict[str, object]:
    """The directives of a kernel (PTX ISA, "Performance-Tuning Directives", "Cluster Dimension Directives"), by their
    attribute names at level nvvm."""
    names = {"reqntid": "nvvm.reqntid", "maxntid": "nvvm.maxntid", "reqnctapercluster": "nvvm.cluster_dim"}
    found: dict[str, object] = {
        name: entry.directives[directive] for directive, name in names.items() if directive in entry.directives
    }
    found["nvvm.maxnreg"] = entry.directives.get("maxnreg", (0,))[0]
    maps = (at for at, each in enumerate(entry.parameters) if each.size == _MAP_BYTES and each.align >= _MAP_ALIGNMENT)
    found["tensor_maps"] = tuple(maps)
    return found


def graph_of(
    body: Sequence[Label | Instruction],
    slots: Slots,
    table: Table = ROWS,
    targets: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Graph:
    """The blocks of a body of instructions of `table`, and the edges between them. `targets`: lists of labels."""
    pieces, starts = _pieces(body)
    starts = {name: EXIT if _returns(pieces[number]) else number for name, number in starts.items()}
    blocks = []
    for number, instructions in enumerate(pieces):
        after = number + 1 if number + 1 < len(pieces) and not _returns(pieces[number + 1]) else EXIT
        last = instructions[-1] if instructions and _is_end(instructions[-1]) else None
        plain = instructions[:-1] if last is not None else instructions
        if last is not None and last.name in _INDIRECT:
            plain = [*plain, _index_check(last, targets)]
        ops = _batched([bind_special(each, slots) or bind(each, table, slots) for each in plain])
        branch = Branch((Edge(after),)) if last is None else _branch(last, starts, after, slots, targets)
        acts = any(op.acts and not op.name.startswith("atom.") for op in ops)  # those say whether they change something
        blocks.append(Block(ops, branch, acts, len(plain) == 1 and gathers(plain[0])))
    graph = Graph.of(blocks, registers=True)
    if graph.unset:
        for op in (op for block in blocks for each in block.ops for op in {each, *flat([each])}):
            op.unset = tuple(slot for slot in op.results if slot in graph.unset)
    return graph


def _batched(ops: Sequence[Op]) -> tuple[Any, ...]:
    """The instructions of a block, grouped by kind between instructions that keep their places."""
    result: list[Any] = []
    for is_free, group in groupby(ops, lambda op: op.is_free):
        run = list(group)
        result += batched(run) if is_free else run
    return tuple(result)


def _pieces(body: Sequence[Label | Instruction]) -> tuple[list[list[Instruction]], dict[str, int]]:
    """Runs of consecutive instructions, and the number of the run at each label.

    The first run is empty, so that no branch leads to the entry.
    """
    pieces: list[list[Instruction]] = [[], []]
    starts: dict[str, int] = {}
    for each in body:
        if isinstance(each, Label):
            if pieces[-1]:
                pieces.append([])
            starts[each.name] = len(pieces) - 1
        else:
            pieces[-1].append(each)
            if _is_end(each):
                pieces.append([])
    return pieces, starts


def _returns(piece: Sequence[Instruction]) -> bool:
    """Whether a piece only returns: lanes that branch to it have ended, and do not wait for others there."""
    return not piece or (piece[0].name in _ENDS and piece[0].guard is None)


def _is_end(instruction: Instruction) -> bool:
    return instruction.name in (*_JUMPS, *_INDIRECT, *_ENDS)


def _branch(
    last: Instruction, starts: dict[str, int], after: int, slots: Slots, targets: Mapping[str, Sequence[str]]
) -> Branch:
    """The end of a block: a jump or a return, perhaps with a guard, or the next block."""
    if last.name in _INDIRECT:
        return _indirect(last, starts, slots, targets)
    target = last.operands[0] if last.operands else None
    goal = starts[target.name] if isinstance(target, Name) and last.name in _JUMPS else EXIT
    guard = last.guard
    if guard is None:
        return Branch((Edge(goal),), op=last)
    condition = slots.of(guard.register)
    return Branch((Edge(goal), Edge(after)), condition, {not guard.negated: 0}, op=last)


def _index_check(last: Instruction, targets: Mapping[str, Sequence[str]]) -> Instruction:
    """brx.idx before its jump, with the number of labels: its row checks the index."""
    index, name = last.operands if len(last.operands) == 2 else (None, None)
    if last.guard is not None or not isinstance(index, Register) or not isinstance(name, Name):
        raise last.error("brx.idx is interpreted without a guard, with a register and a list of labels [branch-index]")
    if not targets.get(name.name):
        raise last.error(f"there is no list of labels {name.name} (.branchtargets) [branch-targets]")
    return replace(last, operands=(index, Immediate(len(targets[name.name]))))


def _indirect(last: Instruction, starts: dict[str, int], slots: Slots, targets: Mapping[str, Sequence[str]]) -> Branch:
    """brx.idx: a jump to the label with the number in a register."""
    index, name = last.operands
    assert isinstance(index, Register)
    assert isinstance(name, Name)
    edges = tuple(Edge(starts[label]) for label in targets[name.name])
    return Branch(edges, slots.of(index), {number: number for number in range(len(edges))}, op=last)
