"""What a schedule must satisfy of its epilogue: words that go together, parts of the tile, the scratch's swizzle."""

from collections.abc import Iterator

from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.facts import consumer_warpgroups, multiplying_threads, scratch_buffers, swizzle_base
from lowtide.passes.schedules.role_rules import has_wgmma
from lowtide.passes.support.atoms import epilogue_rows
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS

# Hints for D by epilogue: what TMA's stores take, and what st.global does.
TMA_HINTS = ("normal", "evict_first", "evict_last")
_STORE_HINTS = ("normal", "streaming", "write_through")
_BOX_SIDE = 256  # elements, at most (PTX ISA, "Tensor maps")


def epilogue_fields(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Words and numbers, as far as they are given."""
    for name, allowed in (("epilogue", ("smem", "direct", "tma")), ("epilogue_math", ("registers", "rows"))):
        value = getattr(schedule, name)
        if value is not None and value not in allowed:
            yield f"{name} = {value} is not one of {', '.join(allowed)}"
    if schedule.epilogue in ("direct", "tma") and schedule.epilogue_math == "rows":
        yield f"epilogue_math = rows needs epilogue = smem; with {schedule.epilogue} stores take registers"
    buffers = schedule.epilogue_buffers
    if buffers is not None and buffers < 1:
        yield f"epilogue_buffers = {buffers}: at least 1 buffer; nearest is 1"
    elif buffers is not None and buffers > 1 and schedule.epilogue in ("direct", "smem"):
        yield f"epilogue_buffers = {buffers} are those of epilogue = tma, not {schedule.epilogue}; take 1"
    hint = schedule.cache_hints[2] if schedule.cache_hints is not None else "normal"
    if hint not in (*TMA_HINTS, *_STORE_HINTS):
        yield f"cache_hints: D = {hint} is not one of {', '.join(dict.fromkeys((*TMA_HINTS, *_STORE_HINTS)))}"
    elif schedule.epilogue is not None:
        taken = TMA_HINTS if schedule.epilogue == "tma" else _STORE_HINTS
        if hint not in taken:
            yield f"cache_hints: D = {hint} with epilogue = {schedule.epilogue}, whose stores take {', '.join(taken)}"


def epilogue_parts(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Parts of the tile that the atoms hold and the stores can take."""
    if schedule.epilogue == "direct":
        return
    assert schedule.cta is not None and schedule.epilogue_tile is not None
    if schedule.epilogue == "tma" and not consumer_warpgroups(schedule):
        way_out = "roles = cooperative(2), or epilogue = smem" if has_wgmma(target) else "epilogue = smem"
        yield f"epilogue = tma stores by warpgroups of a role; take {way_out}"
        return
    step_m, step_n, _ = schedule.tiled_mma_tile
    # The columns of a wgmma lie in runs of 8, which a part of the tile may take any number of.
    steps = (step_m, 8 if consumer_warpgroups(schedule) else step_n)
    for letter, extent, part, step in zip("MN", schedule.cta, schedule.epilogue_tile, steps, strict=False):
        may_be_narrow = letter == "N" and schedule.epilogue == "tma" and part <= extent  # its last part
        if part % step or (extent % part and not may_be_narrow):
            yield (
                f"epilogue_tile {letter} = {part} must be a multiple of {step}, one step of the tiled mma, and divide "
                f"the CTA tile's {extent}; nearest is {_nearest_part(part, step, extent)}"
            )
            return
    if schedule.epilogue == "tma":
        yield from _tma_stores(schedule, problem)
        return
    try:
        epilogue_rows(schedule, problem, multiplying_threads(schedule))
    except ScheduleError as error:
        yield f"epilogue_tile: {error}"


def _nearest_part(part: int, step: int, extent: int) -> int:
    """The extent of a part, a multiple of the step that divides the CTA tile's, nearest to the one given."""
    parts = [size for size in range(step, extent + 1, step) if extent % size == 0]
    return min(parts, key=lambda size: (abs(size - part), -size), default=extent)


def stores_whole_rows(problem: Problem) -> bool:
    """Whether D's rows are known to be whole 16 bytes: TMA writes no less, not even at the edge (seen on an H200)."""
    return problem.n is not None and problem.n * element_type(problem.d).bits % 128 == 0


def _tma_stores(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Each warpgroup stores 64 rows of a part, in boxes as wide as the swizzle's span."""
    assert schedule.cta is not None and schedule.epilogue_tile is not None and schedule.swizzle_d is not None
    rows, columns = schedule.epilogue_tile
    if "full" in problem.kinds:
        yield "epilogue = tma has no room for a full operand, which is read in rows; take epilogue = smem"
    if problem.n is not None and not stores_whole_rows(problem):
        whole = 128 // element_type(problem.d).bits
        yield (
            f"epilogue = tma stores whole 16 bytes and would overwrite what lies behind D's rows of {problem.n} "
            f"elements; take epilogue = smem, or N = {-(-problem.n // whole) * whole}"
        )
    wanted = WGMMA_ROWS * consumer_warpgroups(schedule)
    if rows != wanted:
        yield f"epilogue_tile M = {rows}: TMA stores take 64 rows of each warpgroup; take {wanted}"
    bits, base, shift = schedule.swizzle_d
    unit = swizzle_base(problem.d)
    if bits and (bits > 3 or (base, shift) != (unit, 3)):
        yield f"swizzle_d = <{bits},{base},{shift}>: TMA swizzles units of 16 bytes; take <{min(bits, 3)},{unit},3>"
        return
    width = 1 << (bits + unit) if bits else columns
    if columns % width:
        narrower = max(b for b in range(bits) if b == 0 or columns % (1 << (b + unit)) == 0)
        yield (
            f"epilogue_tile N = {columns}: swizzle_d = <{bits},{base},{shift}> takes boxes of {width} columns; take a "
            f"multiple of {width}, or swizzle_d = <{narrower},{unit},3>"
        )
    if width > _BOX_SIDE or columns * element_type(problem.d).bits % 128:
        yield f"epilogue_tile N = {columns}: a box's row is a multiple of 16 bytes and at most {_BOX_SIDE} elements"
    parts, buffers = schedule.cta[0] // rows * (schedule.cta[1] // columns), scratch_buffers(schedule)
    if parts % buffers:
        nearest = max(count for count in range(1, buffers) if parts % count == 0)
        yield f"epilogue_buffers = {buffers} take turns with {parts} parts of the tile, evenly; nearest is {nearest}"
