"""The epilogue of a kernel as text, and as a program that `lowtide.runtime verify` evaluates."""

from itertools import islice
from typing import Any

from mlir import ir

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.manifest.entries import region_attributes, unused_names
from lowtide.compiler.spec_of_ir import epilogue_ops
from lowtide.dialects import tile
from lowtide.dialects.enums import result_kinds
from lowtide.dialects.tile import ResultKind
from lowtide.errors import SpecError
from lowtide.passes.base import walk
from lowtide.runtime.epilogue import check_program


def epilogue_of(origin_text: str, operands: list[str]) -> tuple[str | None, dict[str, Any] | None]:
    """The epilogue region as text (None for a plain conversion of the accumulator), and as a program.

    `operands`: the names of the operands that it takes. Both are None if no op has the region any more, or if it reads
    other values. Only the program is None if the runtime cannot check an op of the region.
    """
    with make_context() as context:
        module = parse_text(origin_text, context, "<origin>")  # owns the ops: must outlive them
        found = [*walk(module, tile.GemmOp), *walk(module, tile.StoreOp)]
        if len(found) != 1:
            return None, None
        block = found[0].epilogue.blocks[0]
        try:
            region = epilogue_ops(block)
        except SpecError:
            return None, None
        conversions = ("arith.truncf", "tile.yield", "arith.extf", "arith.sitofp")
        is_plain = not operands and all(op.operation.name in conversions for op in region)
        text = None if is_plain else "\n".join(map(str, region))
        unused = (name for name in ("x", *islice(unused_names("x", operands), 2)) if name not in operands)
        sums = list(islice(unused, len(block.arguments) - len(operands)))
        values: dict[ir.Value, str] = dict(zip(block.arguments, [*sums, *operands], strict=True))
        kinds = [kind for kind in result_kinds(found[0]) if kind is not ResultKind.absent]
        full = [place for place, kind in enumerate(kinds) if kind is ResultKind.full]
        if not full:
            return text, None
        program = _program(region, values, full, sums)
    try:
        check_program(program, operands)
    except ValueError:  # written by hand, with an op that `verify` has no bound for
        return text, None
    return text, program


def _program(region: list[ir.OpView], values: dict[ir.Value, str], full: list[int], sums: list[str]) -> dict[str, Any]:
    """The ops of a region as entries, for `lowtide.runtime verify`. `values`: the names of its arguments; the first
    `sums` are accumulators. `full`: the indices of the yielded values of full results, D first."""
    *body, terminator = region
    unused = unused_names("e", tuple(values.values()))
    ops: list[dict[str, Any]] = []
    for op in body:
        inputs = [values[operand] for operand in op.operands]
        values[op.results[0]] = next(unused)
        ops.append(
            {
                "op": op.operation.name,
                "results": [values[op.results[0]]],
                "operands": inputs,
                "attributes": region_attributes(op),
            }
        )
    result, *others = (values[terminator.operands[place]] for place in full)
    program = {"accumulator": sums[0], "ops": ops, "result": result} | ({"others": others} if others else {})
    return program | ({"second": sums[1]} if len(sums) > 1 else {})
