"""The computations and inputs of a backward pass, by the epilogue and the tensors that require a gradient."""

import functools
from dataclasses import dataclass

from lowtide.compiler.epilogue.derivative import pullback
from lowtide.torch.calls import read

ITSELF = ""  # the gradient of D itself, without an epilogue


@dataclass(frozen=True)
class Plan:
    """`of_sums` and `of_operands` are texts of epilogues, None if D does not depend on the input or no gradient is
    needed. `kept`: the tensors that these and the products read, A and B first."""

    of_sums: str | None
    of_operands: tuple[str | None, ...]
    kept: tuple[bool, ...]


@functools.lru_cache(maxsize=4096)
def plan(epilogue: str, d: str, needs: tuple[bool, ...]) -> Plan:
    """The plan for gradients of type `d`. `needs`: whether A, B and each operand need one. Raises SpecError if there is
    no derivative."""
    needs_a, needs_b, *needs_operands = needs
    asked = read(epilogue)
    if asked is None:
        return Plan(ITSELF if needs_a or needs_b else None, (), (needs_b, needs_a))
    operands = asked.tensors()
    of_sums = pullback(asked.graph, None, d) if needs_a or needs_b else None
    of_operands = tuple(
        pullback(asked.graph, operand.name, d) if need else None
        for operand, need in zip(operands, needs_operands, strict=True)
    )
    texts = [found for found in map(read, filter(None, (of_sums, *of_operands))) if found is not None]
    names = {name for text in texts for name in text.names}
    reads_sums = any(text.reads_sums for text in texts)
    of_products = of_sums is not None
    kept = (reads_sums or (of_products and needs_b), reads_sums or (of_products and needs_a))
    return Plan(of_sums, of_operands, (*kept, *(operand.name in names for operand in operands)))
