"""Chains of wgmma: products of one shape, each added to the result of the previous one, which a warp executes as one.

The reads of each, and their rules, are the same as one after the other: the products are in one group without anything
between them. All is checked before anything changes, so that a chain that breaks a rule can be run again op by op.
"""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import uniform
from lowtide.interpreter.machine.teams import WARPGROUP
from lowtide.interpreter.machine.warpgroups import meet_together
from lowtide.interpreter.machine.wgmma import (
    ROWS,
    Product,
    Warpgroup,
    addresses_of,
    fault_of,
    matrix_of,
    started,
    warpgroup_of,
)
from lowtide.interpreter.numbers.cells import ELEMENT_BYTES, Access, Described, Span
from lowtide.interpreter.program.batches import NotTogether

Values = NDArray[Any]


def multiply(
    state: AgentState,
    ops: Sequence[Described],
    product: Product,
    descriptors: Sequence[tuple[Any, Any]],
    acc: Values | None,
) -> tuple[Values, int]:
    """As `wgmma.multiply`, for a chain: the accumulators (32, n / 2) after its last product, and the group.

    If the chain cannot run as one, raises NotTogether or InterpreterError, and nothing has changed.
    """
    number, warp = divmod(state.warp, WARPGROUP)
    if number not in state.cta.rendezvous or state.mask is not None:
        raise NotTogether
    warpgroup = warpgroup_of(state, number)
    bits = [(uniform(state, op, a), uniform(state, op, b)) for op, (a, b) in zip(ops, descriptors, strict=True)]
    access = state.access(ops[0])
    access.ops = tuple(ops)
    rows = range(ROWS * warp, ROWS * (warp + 1))
    left, left_span = _operands(state, access, product, tuple(a for a, _ in bits), rows, 0)
    right, right_span = _shared(state, access, product, warpgroup, tuple(b for _, b in bits))
    matrix = state.machine.domain.full((ROWS, product.n), 0, product.accumulator)
    if acc is not None:
        matrix.reshape(-1)[product.places] = acc
    result = state.machine.domain.mmas(left, right, matrix, product.dtypes, product.accumulator)
    meet_together(state, ops, bits)

    shared, group = state.cta.shared, warpgroup.committed[warp]
    reads = warpgroup.reads.setdefault(group, [])
    reads.append(shared.opened(access, left_span, warpgroup.reader))
    if right_span is not None:
        reads.append(shared.opened(access, right_span, warpgroup.reader))
        warpgroup.shared.update(enumerate(right, warpgroup.started[warp]))
    started(state, warpgroup, len(ops))
    if not state.mmas or state.mmas[-1] != group:
        state.mmas.append(group)
    return result.reshape(-1)[product.places], group


def _shared(
    state: AgentState, access: Access, product: Product, warpgroup: Warpgroup, bits: tuple[int, ...]
) -> tuple[Sequence[Values], Span | None]:
    """B of each product, which the four warps share, and the reads that the first of them opens."""
    first = warpgroup.started[state.warp % WARPGROUP]
    known = [warpgroup.shared[number] for number in range(first, first + len(bits)) if number in warpgroup.shared]
    if not known:
        return _operands(state, access, product, bits, range(product.n), 1)
    if len(known) < len(bits):
        raise NotTogether
    state.cta.shared.see(access, _addresses(state, product, bits, range(product.n), 1), 16)
    return known, None


def _operands(
    state: AgentState, access: Access, product: Product, bits: tuple[int, ...], rows: range, which: int
) -> tuple[Sequence[Values], Span]:
    """Rows of A (`which` 0) or B of each product, (rows, k), and their bytes."""
    dtype = product.dtypes[which]
    addresses = _addresses(state, product, bits, rows, which)
    payload, span = state.cta.shared.seen(access, addresses, dtype, 16 // ELEMENT_BYTES[dtype])
    parts = payload.reshape(len(bits), -1, payload.shape[1])
    return [matrix_of(product, part, len(rows), which) for part in parts], span


def _addresses(state: AgentState, product: Product, bits: tuple[int, ...], rows: range, which: int) -> Values:
    if any(fault_of(each) for each in bits):
        raise NotTogether
    return addresses_of(product, bits, rows, which, state.cta.rank)
