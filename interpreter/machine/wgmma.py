"""wgmma: products of a warpgroup, four warps at a time, each with its quarter of the rows.

PTX ISA, "wgmma.mma_async", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group". A group is complete once all four
warps have committed it and one waits for it. Until then its operands in shared memory stay open for reading, and its
accumulators may not be accessed (which decoders check: at level nvvm registers are values, in PTX places).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import element_of_ptx
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.accumulators import Block
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.machine.clusters import window
from lowtide.interpreter.machine.hardware import MatrixDescriptor
from lowtide.interpreter.machine.lanes import uniform, whole_warp
from lowtide.interpreter.machine.ordered_memory import OpenRead
from lowtide.interpreter.machine.teams import WARPGROUP
from lowtide.interpreter.machine.warpgroups import check_meetings, meet
from lowtide.interpreter.numbers.accesses import Access, Described, Span
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import PACKED_TYPES
from lowtide.interpreter.program.batches import NotTogether

Values = NDArray[Any]
Ints = NDArray[np.int64]

ROWS = 16  # of the accumulators that one warp holds
HELD_REGISTERS = 4  # of an A
_LIMITS = np.iinfo(np.int32)


@dataclass(frozen=True)
class _Kind:
    """Types that one kind of wgmma multiplies, any A by any B, by PTX name."""

    operands: tuple[str, ...]
    k: int
    accumulators: tuple[str, ...]
    transposes: bool
    """Whether A and B may have M or N contiguous; two more immediate operands then say so."""
    negates: bool = True
    """Whether A and B may be negated; two immediate operands before these then say so."""


# PTX ISA, "wgmma.mma_async": shapes, types, "transpose".
_KINDS = (
    _Kind(("f16",), 16, ("f16", "f32"), True),
    _Kind(("bf16",), 16, ("f32",), True),
    _Kind(("e4m3", "e5m2"), 32, ("f16", "f32"), False),
    _Kind(("tf32",), 8, ("f32",), False),
    _Kind(("s8", "u8"), 32, ("s32",), False, negates=False),
    _Kind(("b1",), 256, ("s32",), False, negates=False),
)
_BITS = "b1"
_BYTES = "u8"  # bits are multiplied as bytes that hold eight bits of a row
_FREE_COLUMNS = 32  # with integers and more columns than these, N is a multiple of 16 (PTX ISA, "Matrix Shape")
OPERAND_TYPES: tuple[str, ...] = tuple(name for kind in _KINDS for name in kind.operands)


def kind_of(a: str, b: str, accumulator: str, shape: tuple[int, int, int]) -> _Kind:
    """The kind of a product, by PTX's names of its types. Raises InterpreterError for a product that wgmma lacks."""
    m, _, k = shape
    for kind in _KINDS:
        if {a, b} <= set(kind.operands) and accumulator in kind.accumulators and (m, k) == (64, kind.k):
            if accumulator == "s32" and shape[1] > _FREE_COLUMNS and shape[1] % 16:
                raise InterpreterError(
                    f"wgmma of integers with {shape[1]} columns; take at most {_FREE_COLUMNS} columns, or a multiple "
                    "of 16 [wgmma-integer-columns]"
                )
            return kind
    known = "; ".join(f"m64nNk{kind.k} of {' or '.join(kind.operands)}" for kind in _KINDS)
    raise InterpreterError(
        f"wgmma m{m}n{shape[1]}k{k} of {a} and {b} into {accumulator} is not interpreted; known are {known}"
        " [wgmma-shapes]"
    )


@dataclass(eq=False)
class Warpgroup:
    """The state of four warps: the groups committed by each, and the open reads of each group.

    `reader` and `clock` are those of its asynchronous reads; an epoch is a group.
    """

    reader: int
    clock: int
    committed: list[int] = field(default_factory=lambda: [0] * WARPGROUP)
    reads: dict[int, list[OpenRead]] = field(default_factory=dict)
    shared: dict[int, Values] = field(default_factory=dict)  # B of a wgmma, by its number, for all warps
    started: list[int] = field(default_factory=lambda: [0] * WARPGROUP)  # wgmma, by each warp


@dataclass(frozen=True)
class Product:
    """An m64nNkK product of operands in shared memory, of types with these MLIR names, into accumulators of another.

    `k_major`: whether K is contiguous in A, and in B. `sign` is that of the products: -1 if one operand is negated.
    `saturates`: sums are clamped to 32 bits, and do not wrap. `is_bits`: A and B have single bits, and their
    product is the number of positions where both are 1 (`.and.popc`); `k` and `dtypes` are then those of the bytes that
    hold the bits.
    """

    n: int
    k: int
    dtypes: tuple[str, str]
    accumulator: str
    k_major: tuple[bool, bool]
    sign: int = 1
    saturates: bool = False
    is_bits: bool = False

    @classmethod
    def of(cls, shape: tuple[int, int, int], types: tuple[str, str, str], k_major: tuple[bool, bool]) -> "Product":
        """From PTX's names of the types of A, B and D. Raises InterpreterError for a product that wgmma lacks."""
        a, b, accumulator = types
        kind = kind_of(a, b, accumulator, shape)
        if not kind.transposes and k_major != (True, True):
            raise InterpreterError(
                f"wgmma of {a} and {b} transposes neither; K must be contiguous in both [wgmma-transposes]"
            )
        is_bits = a == _BITS
        rows = [element_of_ptx(_BYTES if name == _BITS else name) for name in (a, b, accumulator)]
        k = kind.k // 8 if is_bits else kind.k
        return cls(shape[1], k, (rows[0].ir, rows[1].ir), rows[2].ir, k_major, is_bits=is_bits)

    @property
    def packed(self) -> str:
        """The type of the accumulators, if registers hold two each."""
        return self.accumulator if self.accumulator in PACKED_TYPES else ""

    @cached_property
    def places(self) -> Ints:
        """row · N + column of each accumulator of each thread in the 16 rows of a warp: array (32, values)."""
        row, column = np.broadcast_arrays(*hardware.wgmma_accumulator(self.n))
        return (row * self.n + column)[:32]


def fence(state: AgentState, op: Described) -> None:
    """Orders the warp's register accesses before a wgmma that uses them."""
    meet(state, op)
    state.fenced = True


def multiply(
    state: AgentState,
    ops: Sequence[Described],
    product: Product,
    descriptors: Sequence[tuple[Any, Any]],
    acc: Values | None,
    held: Values | None = None,
) -> tuple[Block, int]:
    """The warp's accumulators after a product, or after a chain of products that the warp executes as one, each added
    to the result of the previous one; and the number of its group.

    `acc`: the accumulators before, (32, n / 2), None for zeros. `descriptors`: of both operands of each product; an A
    in registers, `held` (32, k / 2), has none. Everything is checked before anything changes, so if a chain breaks a
    rule, or raises NotTogether, it can be run again op by op.
    """
    whole_warp(state, ops[0])
    number, warp = divmod(state.warp, WARPGROUP)
    given = zip(ops, descriptors, strict=True)
    bits = [tuple(uniform(state, op, value) for value in each if value is not None) for op, each in given]
    if len(ops) > 1:
        check_meetings(state, ops, bits)
    else:
        meet(state, ops[0], *bits[0])
    warpgroup, access = warpgroup_of(state, number), state.access_of(ops)
    if held is None:
        rows = range(ROWS * warp, ROWS * (warp + 1))
        left, span_of_a = _operands(state, access, product, [each[0] for each in bits], rows, 0)
    else:
        left, span_of_a = [_in_registers(state, ops[0], product, held)], None
    right, span_of_b = _shared(state, access, product, warpgroup, [each[-1] for each in bits])
    matrix = state.machine.domain.full((ROWS, product.n), 0, product.accumulator)
    if acc is not None:
        matrix.reshape(-1)[product.places] = acc
    result = _summed(state.machine.domain, product, left, right, matrix)
    if len(ops) > 1:
        for op, operands in zip(ops, bits, strict=True):
            meet(state, op, *operands)
    group = warpgroup.committed[warp]
    reads = warpgroup.reads.setdefault(group, [])
    for span in (span_of_a, span_of_b):
        if span is not None:
            reads.append(state.cta.shared.opened(access, span, warpgroup.reader))
    warpgroup.shared.update(enumerate(right, warpgroup.started[warp]))
    _started(state, warpgroup, len(ops))
    if not state.mmas or state.mmas[-1] != group:
        state.mmas.append(group)
    return Block(result.reshape(1, -1), product.places), group


def multiply_together(
    states: Sequence[AgentState],
    op: Described,
    product: Product,
    descriptors: tuple[int | None, int],
    matrix: Values | None,
    held: Values | None = None,
) -> tuple[Block, int]:
    """As `multiply`, by the four warps of a warpgroup. `matrix`: the accumulators before, (4, 16 · n), None for zeros.
    `held`: A in registers, (4, 32, k / 2). If the warps cannot run it together, raises NotTogether and changes
    nothing."""
    warpgroup, first = check_whole(states), states[0]
    bits = tuple([each for each in descriptors if each is not None])
    for state in states:
        check_meetings(state, (op,), [bits])
    if len(set(warpgroup.started)) > 1:
        raise NotTogether
    domain, access, shared = first.machine.domain, first.access_of((op,)), first.cta.shared
    spans, numbers = [], []
    if held is not None:
        left = np.empty((WARPGROUP, ROWS, product.k), held.dtype)
        row, column = hardware.wgmma_operand(product.k)
        left[:, row, column] = held
        numbers.append(left.reshape(WARPGROUP * ROWS, product.k))
    for which, rows in ((0, range(WARPGROUP * ROWS)), (1, range(product.n))):
        if (given := descriptors[which]) is not None:
            places = _addresses(first, access, product, (given,), rows, which)
            span = shared.seen_by_all(access, [state.warp for state in states], places, 16)
            unwritten = domain.unwritten(product.dtypes[which])
            payload = shared.numbers(access, span, product.dtypes[which], unwritten)
            numbers += _matrices(product, payload, 1, len(rows), which)
            spans.append(span)
    if matrix is None:
        before = domain.full((WARPGROUP * ROWS, product.n), 0, product.accumulator)
    else:
        before = matrix.reshape(WARPGROUP * ROWS, product.n)
    result = _summed(domain, product, numbers[:1], numbers[1:], before)
    group = warpgroup.committed[0]
    reads = warpgroup.reads.setdefault(group, [])
    reads.extend(shared.opened(access, span, warpgroup.reader) for span in spans)
    warpgroup.started = [count + 1 for count in warpgroup.started]
    for state in states:
        meet(state, op, *bits)
        if not state.mmas or state.mmas[-1] != group:
            state.mmas.append(group)
    return Block(result.reshape(WARPGROUP, -1), product.places), group


def check_whole(states: Sequence[AgentState]) -> Warpgroup:
    """The warpgroup of these warps. Raises NotTogether if they are not its four warps in order, or if they have
    committed different numbers of groups."""
    first = states[0]
    if [state.warp - first.warp for state in states] != [*range(WARPGROUP)] or first.warp % WARPGROUP:
        raise NotTogether
    found = warpgroup_of(first, first.warp // WARPGROUP)
    if len(set(found.committed)) > 1:
        raise NotTogether
    return found


def _summed(
    domain: Domain, product: Product, left: Sequence[Values], right: Sequence[Values], matrix: Values
) -> Values:
    """The matrix after a chain of products."""
    if product.is_bits:
        left, right = ([np.unpackbits(each.astype(np.uint8), axis=1) for each in side] for side in (left, right))
    if product.sign < 0:
        left = [domain.negate(each) for each in left]
    if product.saturates:
        exact = domain.mmas(left, right, matrix.astype(np.int64), product.dtypes, "i64")
        return np.clip(exact, _LIMITS.min, _LIMITS.max).astype(matrix.dtype)
    return domain.mmas(left, right, matrix, product.dtypes, product.accumulator)


def _in_registers(state: AgentState, op: Described, product: Product, held: Values) -> Values:
    """The rows of A, (16, k), from registers (32, k / 2)."""
    if not state.fenced:
        raise state.violation(
            op, "A is in registers that other instructions wrote; put wgmma.fence before it [wgmma-a-fence]"
        )
    left = np.empty((ROWS, product.k), held.dtype)
    left[hardware.wgmma_operand(product.k)] = held
    return left


def _shared(
    state: AgentState, access: Access, product: Product, warpgroup: Warpgroup, descriptors: Sequence[int]
) -> tuple[Sequence[Values], Span | None]:
    """B of each product, which the four warps share. The first warp opens its bytes for reading, and returns them, so
    that they cannot change. The others must be able to see them."""
    first, columns = warpgroup.started[state.warp % WARPGROUP], range(product.n)
    numbers = range(first, first + len(descriptors))
    known = [warpgroup.shared[number] for number in numbers if number in warpgroup.shared]
    if not known:
        return _operands(state, access, product, descriptors, columns, 1)
    if len(known) < len(descriptors):
        raise NotTogether
    state.cta.shared.see(access, _addresses(state, access, product, descriptors, columns, 1), 16)
    return known, None


def _started(state: AgentState, warpgroup: Warpgroup, count: int) -> None:
    """The warp has started this many more wgmma; B is no longer kept for a wgmma that all four warps have started."""
    first = min(warpgroup.started)
    warpgroup.started[state.warp % WARPGROUP] += count
    for number in range(first, min(warpgroup.started)):
        del warpgroup.shared[number]


def _operands(
    state: AgentState, access: Access, product: Product, descriptors: Sequence[int], rows: range, which: int
) -> tuple[Sequence[Values], Span]:
    """Rows of A (`which` 0) or B of each product, (rows, k), from its descriptor; and their bytes."""
    dtype = product.dtypes[which]
    addresses = _addresses(state, access, product, descriptors, rows, which)
    run = 16 // ELEMENT_BYTES[dtype]
    payload, span = state.cta.shared.seen(access, addresses, dtype, run, state.machine.domain.unwritten(dtype))
    return _matrices(product, payload, len(descriptors), len(rows), which), span


def _matrices(product: Product, payload: Values, count: int, rows: int, which: int) -> list[Values]:
    """`count` matrices (rows, k) from their runs of 16 bytes."""
    run, k = payload.shape[1], product.k
    parts = payload.reshape(count, -1, run)
    if product.k_major[which]:
        return [part.reshape(rows, k) for part in parts]
    return [part.reshape(rows // run, k, run).swapaxes(1, 2).reshape(rows, k) for part in parts]


def _addresses(
    state: AgentState, access: Access, product: Product, descriptors: Sequence[int], rows: range, which: int
) -> Ints:
    """The addresses of the runs of 16 bytes in rows of A (`which` 0) or B, from the descriptors of products.

    Raises InterpreterError for a descriptor that the instruction does not take.
    """
    for bits in descriptors:
        if fault := _fault_of(bits):
            raise state.violation(access.op, fault)
    return _addresses_of(product, tuple(descriptors), rows, which, state.cta.rank)


@lru_cache(maxsize=1024)
def _fault_of(bits: int) -> str:
    """The reason why the instruction does not take a descriptor; empty if it does."""
    descriptor = MatrixDescriptor.decode(bits)
    if descriptor.base_offset:
        return (
            f"base offset {descriptor.base_offset}: let the operand begin where its swizzle does"
            " [descriptor-base-offset]"
        )
    if descriptor.span and descriptor.start % (8 * descriptor.span) >= descriptor.span:
        return (
            f"an operand that starts at shared memory address {descriptor.start:#x}, inside a swizzle's pattern, with "
            f"base offset 0; let its rows begin at a multiple of {8 * descriptor.span} [descriptor-start]"
        )
    return ""


@lru_cache(maxsize=1024)
def _addresses_of(product: Product, descriptors: tuple[int, ...], rows: range, which: int, rank: int) -> Ints:
    """The runs of 16 bytes of rows of A (`which` 0) or B, by legal descriptors, one after the other.

    A descriptor has no room for the CTA's rank in its cluster: it is relative to the CTA's own shared memory.
    """
    width, k_major, depth = ELEMENT_BYTES[product.dtypes[which]], product.k_major[which], np.arange(product.k)
    chunks = (np.array(rows), depth[:: 16 // width]) if k_major else (np.array(rows[:: 16 // width]), depth)
    found = [MatrixDescriptor.decode(bits).addresses(*chunks, width, k_major).reshape(-1) for bits in descriptors]
    return np.concatenate(found) + window(rank)


def commit(state: AgentState, op: Described) -> None:
    """The warp's wgmma since its last commit become a group."""
    warpgroup, warp = _warpgroup(state, op)
    warpgroup.committed[warp] += 1
    if state.machine.order is not None:
        state.machine.order.release(state.key, (warpgroup, warpgroup.committed[warp]))


def wait(state: AgentState, op: Described, pending: int) -> Steps:
    """All groups except the `pending` youngest complete; the others stay in `state.mmas`."""
    warpgroup, warp = _warpgroup(state, op)
    done = max(0, warpgroup.committed[warp] - pending)

    def why() -> str:
        first = state.warp - warp
        late = [f"warp {first + other}" for other in range(WARPGROUP) if warpgroup.committed[other] < done]
        return f"for wgmma group {done - 1}, which {', '.join(late)} has not committed"

    if min(warpgroup.committed) < done:
        yield Wait(lambda: min(warpgroup.committed) >= done, why)
    if state.machine.order is not None and done:
        state.machine.order.acquire(state.key, (warpgroup, done))
    shared = state.cta.shared
    for group in sorted(group for group in warpgroup.reads if group < done):
        shared.close_reads(warpgroup.reader, warpgroup.reads.pop(group), group)
    known = shared.clocks.known
    known[state.warp, warpgroup.clock] = max(known[state.warp, warpgroup.clock], done)
    state.mmas = [group for group in state.mmas if group >= done]
    state.fenced = False


def _warpgroup(state: AgentState, op: Described, *operands: Any) -> tuple[Warpgroup, int]:
    """The agent's warpgroup, which executes the op together, and the number of the warp in it."""
    number, warp = meet(state, op, *operands)
    return warpgroup_of(state, number), warp


def warpgroup_of(state: AgentState, number: int) -> Warpgroup:
    """A warpgroup of the agent's CTA, by its number."""
    found = state.cta.warpgroups
    if number not in found:
        found[number] = Warpgroup(*state.cta.shared.add_reader(f"wgmma of warpgroup {number}"))
    group: Warpgroup = found[number]
    return group
