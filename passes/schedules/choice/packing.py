"""Which matrices are packed: those that may be misaligned, and those that wgmma needs with K contiguous.

By default a matrix has its rows one behind the other. It is packed unless the length of its rows is known to be a
multiple of the bytes that the schedule moves at once. The host decides at each launch whether to copy it, and launches
nothing more for an aligned matrix. A matrix with aligned rows is packed only if the schedule asks for it.

An operand that is known to have one column is the same memory as its transpose, which has one row. So it is packed
`transposed`; the host decides at each launch whether a copy is needed. An operand of 16 bits whose K is not contiguous
is packed `transposed`, too, if it is known to have few columns and its rows are unaligned: TMA then loads long rows
along K in place of short ones.

wgmma transposes 16-bit operands only. Other operands whose K is not contiguous are transposed by a launch of their own,
which moves each element once. That pays if the kernel reads each element often enough. An A of tf32 is not packed if B
is packed, if D has few rows or columns, if K is long, or if the operands are swapped: wgmma takes it from registers.
Swapped operands are then compared with the product as given. FMAs take f32 in any layout, but an operand whose K is
contiguous passes through registers. If it is read very often, it is transposed, so that its K is no longer contiguous.
"""

from collections.abc import Callable
from math import gcd
from typing import Any

from lowtide.dialects.tile import PackKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.schedules.choice.asked_for import asks_for_roles
from lowtide.passes.schedules.choice.multiply import multiplies_by_fma
from lowtide.passes.schedules.facts.alignment import (
    MATRICES,
    PACK_FIELDS,
    WIDEST,
    moved_alignment,
)
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk, k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target, has_wgmma, issuer_of, types_of_atom

# If mma.sync takes an operand as it lies, the operand is transposed only if D has at least so many rows or columns. On
# an H200, s8 nn takes 5.0 µs and by mma.sync 4.6 at 512³, 10.9 and 11.1 at 1024³, 22.8 and 57.2 at 2048³.
_LEAST_READERS = 768
# The same if A comes from registers, so that only B is packed. 512×512×16384 in nt takes 49 µs so, and 67 by mma.sync
# (tf32, H200).
_LEAST_READERS_BESIDE_HELD = 512
# The fewest elements of such an A for which the launch that packs B pays, if D has few rows or columns. In nt
# 100×1000×1000 takes 8.0 µs by mma.sync, and 10.9 with the launch; 512×2048×2048 takes 33 and 26 (H200).
_LEAST_HELD = 1 << 21
# From this K on, A comes from registers even if D has many rows and columns and B is not packed. 18 such products in
# nn take 0.77 to 1.06 of the time with a packed A, 0.92 on average; eight with a shorter K take 1.00 to 1.10 (tf32,
# H200).
_LONG_HELD = 2048
#: If an operand of 16 bits is packed, and its K is not contiguous, it is packed `transposed` up to so many columns. In
#: nt and nn, 33 products with an unaligned M of 3 to 490 take 0.59 to 1.10 of the time with `rows`, mean 0.89. With an
#: M of 529 to 2051, eight take 0.97 to 1.31, mean 1.05 (bf16, H200).
FEW_COLUMNS = 512
_WIDEST = 16  # bytes of a store of one thread
# For FMAs, A (or B) is transposed only if D has at least so many columns (or rows), and all extents are multiples of
# the second number, the side of the tiles that are then chosen.
_LEAST_READERS_BY_FMA, _OF_WHOLE_TILES = 4096, 128
_FROM_CAPABILITY = (9, 0)  # older GPUs, whose memory is slower, were not measured


def of_one_column(given: Schedule, problem: Problem) -> Schedule:
    """The given fields with the operands to read as one row, unless a field says how the operand is moved: an A (K, M)
    if M is known to be 1, and a B (K, N) if N is. If K is known to be 1, an operand is a row as it is."""
    if problem.k_is_grouped or problem.decomposition is not None or problem.compiled.k == 1:
        return given
    return _turning(given, problem, lambda name, columns: columns == 1)


def _of_few_columns(given: Schedule, problem: Problem) -> Schedule:
    """The given fields with the operands to transpose: those with few columns and unaligned rows, unless a field says
    how the operand is moved."""
    is_alone = not (problem.is_grouped or problem.k_is_grouped or problem.has_arrivals or problem.takes_rows)
    if not is_alone or problem.decomposition is not None or not takes_any_layout(problem):
        return given

    def is_short(name: str, columns: int) -> bool:
        bits = element_type(problem.stream(name).element).bits
        return columns <= FEW_COLUMNS and columns * bits % (8 * WIDEST) != 0

    return _turning(given, problem, is_short)


def _turning(given: Schedule, problem: Problem, of_columns: Callable[[str, int], bool]) -> Schedule:
    """The given fields with the operands to transpose: those whose K is not contiguous, whose number of columns is
    known, and for which `of_columns` holds, unless a field says how the operand is moved."""
    lies, fields = dict(zip("ab", k_is_last(problem.layout), strict=True)), given.decided()
    columns = {"a": problem.compiled.m, "b": problem.compiled.n}
    turned = [
        name
        for name, count in columns.items()
        if count is not None and not lies[name] and name not in problem.lists and of_columns(name, count)
        if not any(path.startswith(f"mainloop.{name}.") for path in fields)
    ]
    return given.filled({PACK_FIELDS[name]: PackKind.transposed for name in turned})


def takes_any_layout(problem: Problem) -> bool:
    """Whether wgmma takes operands of these types even if their K is not contiguous."""
    return has_wgmma(problem.a, problem.b, problem.acc, (False, False))


def transposing(given: Schedule, problem: Problem, target: Target) -> Schedule:
    """The given fields with the operands to transpose for a kernel with roles, unless they say what is packed."""
    given = _of_few_columns(of_one_column(given, problem), problem)
    types = problem.a, problem.b, problem.acc
    if (problem.k_is_grouped and not problem.is_scaled) or not has_wgmma(*types) or takes_any_layout(problem):
        return given
    suffix = f".{types_of_atom(problem.acc, problem.a, problem.b)}"
    by_warps = any(issuer_of(name) == "warp" and name.endswith(suffix) for name in target.mma_atoms)
    has_other = by_warps and not problem.is_scaled  # scales of blocks need roles, and so wgmma
    readers = {"a": problem.n, "b": problem.m}
    lies = dict(zip("ab", k_is_last(problem.layout), strict=True))
    may_be = [name for name, is_last in lies.items() if not is_last and name not in problem.lists]
    is_held = not problem.promotes and has_wgmma(*types, (False, True))  # A comes from registers
    is_narrow = min(count or _LEAST_READERS for count in readers.values()) < _LEAST_READERS
    is_long = problem.k is not None and problem.k >= _LONG_HELD
    is_held &= problem.swapped or is_narrow or is_long or not lies["b"]
    turned = [name for name in may_be if not given.get(PACK_FIELDS[name]) and not (name == "a" and is_held)]
    is_open = not given.agents.has_producer and not asks_for_roles(given)
    least = _LEAST_READERS_BESIDE_HELD if is_held and not lies["a"] else _LEAST_READERS
    is_small = is_held and is_narrow and (problem.m or _LEAST_READERS) * (problem.k or _LEAST_HELD) < _LEAST_HELD
    is_low = any((readers[name] or least) < least for name in turned)
    if is_open and has_other and turned and (is_low or is_small):
        return given
    return given.filled({PACK_FIELDS[name]: PackKind.transposed for name in turned})


def for_threads(given: Schedule, problem: Problem, target: Target) -> Schedule:
    """The given fields. If none is given, also the operands to transpose for FMAs: those whose K is contiguous, which
    would pass through registers, if each element is read often enough and all tiles are whole."""
    extents = (problem.m, problem.n, problem.k)
    is_whole = all(extent is not None and extent % _OF_WHOLE_TILES == 0 for extent in extents)
    is_open = not given.decided() and problem.is_plain and problem.transposed == "" and not problem.is_batched
    is_measured = target.compute_capability >= _FROM_CAPABILITY
    if not (is_open and is_whole and is_measured and multiplies_by_fma(given, problem, target)):
        return given
    readers = {"a": problem.n or 0, "b": problem.m or 0}
    lies = dict(zip("ab", k_is_last(problem.layout), strict=True))
    turned = [name for name, is_last in lies.items() if is_last and readers[name] >= _LEAST_READERS_BY_FMA]
    return given.filled({PACK_FIELDS[name]: PackKind.transposed for name in turned})


def follow(schedule: Schedule, problem: Problem) -> Schedule:
    """Decides what is packed."""
    packed = [name for name in MATRICES if _is_packed(name, schedule, problem)]
    return schedule.filled({PACK_FIELDS[name]: PackKind.rows for name in packed})


def unpacked_stores(given: Schedule, problem: Problem) -> dict[str, Any]:
    """By path, the values for stores to a D that is not packed: at most as wide as the rows of a contiguous D allow. If
    D lies by columns, threads store its elements one by one."""
    if problem.d_is_column_major:
        single = {"epilogue.path": StorePath.direct, "epilogue.store": element_type(problem.widest).bytes}
        return {path: value for path, value in single.items() if given.get(path) is None}
    columns = problem.columns_of_d
    store = gcd(*((columns or 0) * element_type(each).bytes for each in problem.stored), _WIDEST)
    is_narrow = store < _WIDEST and columns is not None and given.epilogue.store is None
    return {"epilogue.store": store} if is_narrow else {}


def _is_packed(name: str, schedule: Schedule, problem: Problem) -> bool:
    """Whether rows that lie one behind the other may be misaligned for the accesses of the schedule."""
    if name != "d" and problem.decomposition is not None:  # pieces lie in aligned rows
        return False
    if name in problem.lists:
        return False
    if name == "d" and (problem.d_is_column_major or problem.is_grouped or problem.places_rows):
        return False
    # A launch that copies A would not wait for shards. One that copies D would store late elements.
    if name in "ad" and problem.has_arrivals:
        return False
    element = element_type(problem.d if name == "d" else problem.stream(name).element).bytes
    columns = row_of(name, problem)
    if columns is not None and columns * element % WIDEST == 0:
        return False
    try:
        align = moved_alignment(name, schedule, problem)
    except (ScheduleError, TargetError):  # of a schedule that the rules refuse
        return False
    return align > element and (columns is None or columns * element % align != 0)


def row_of(name: str, problem: Problem) -> int | None:
    """The length of a row; None where it is known at the launch."""
    if name == "d":
        return problem.row_of_d
    if name == "a":
        return problem.k if a_is_mk(problem.layout) else problem.m
    return problem.k if b_is_nk(problem.layout) else problem.n
