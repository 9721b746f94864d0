"""wgmma's operands by TMA in every form: four layouts, three swizzles, panels, several blocks of 64 rows, 2-D to 5-D.

Each level gives float64's D, bit for bit on small integers. At level nvvm the interpreter finds operands by the bits of
their matrix descriptors (PTX ISA, "Matrix Descriptor Format"), and boxes by their coordinates; above it by the layouts
of the buffers: what the passes write must make the two agree.
"""

import numpy as np
import pytest
from compiled import expected, inputs_of, last_texts, spec, steps_of

import lowtide as lt
from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

SM_90A = targets.get("sm_90a")
LAYOUTS = ("tn", "nn", "nt", "tt")
LEVELS = (Level.SMEM, Level.PIPELINED, Level.ATOMS, Level.EPILOGUE, Level.NVVM)

TWO = "stages = 2, roles = cooperative(2), epilogue.path = direct"
SCHEDULES = {
    # Blocks of 64 rows: two a warpgroup of two, two of one, one each of three.
    "two by two": f"{TWO}, grid.tile = [256, 16], k = 32",
    # Its parts are one block of rows of each warpgroup, half as wide as the tile.
    "parts": "grid.tile = [256, 32], k = 16, stages = 2, roles = cooperative(2), epilogue.tile = [128, 16]",
    "one by two": "grid.tile = [128, 32], k = 16, stages = 2, roles = cooperative(1)",
    "three": "grid.tile = [192, 32], k = 16, stages = 2, roles = cooperative(3)",
    # Panels: K = 128 is two of 64 elements, K = 96 three of 32, K = 48 three of 16; N = 96 three of 32.
    "deep": f"{TWO}, grid.tile = [128, 32], k = 128",
    "panels of 32": f"{TWO}, grid.tile = [128, 96], k = 96",
    "panels of 16": f"{TWO}, grid.tile = [128, 16], k = 48",
    # A narrower swizzle than the rows allow.
    "narrow": f"{TWO}, grid.tile = [128, 64], k = 64, a.swizzle = <2,3,3>, b.swizzle = <1,3,3>",
}
CASES = [(layout, schedule) for layout in LAYOUTS for schedule in ("two by two", "deep", "panels of 32", "narrow")]
CASES += [("tn", "parts"), ("nt", "one by two")]
CASES += [("tt", "three"), ("nn", "three"), ("tn", "panels of 16"), ("nn", "panels of 16")]


@pytest.mark.parametrize(("layout", "schedule"), CASES)
def test_every_level_gives_the_same_d(layout: str, schedule: str) -> None:
    problem = spec(layout, "f16" if schedule == "deep" else "bf16", d="f32")
    levels = last_texts(steps_of(problem, SCHEDULES[schedule], SM_90A))
    # M, N and K are ragged. One CTA computes four work tiles, and the ring of two stages wraps around.
    rows, columns, depth = lt.Schedule.parse(SCHEDULES[schedule]).tile_mnk
    inputs = inputs_of(problem, rows + 34, 2 * columns - 3, 2 * depth + 11)
    for level in LEVELS:
        found = interpret(levels[level], inputs, sms=1, seed=len(level.name), domain="exact")
        assert np.array_equal(found, expected(problem, inputs)), level


@pytest.mark.parametrize("layout", ["tn", "nt"])
@pytest.mark.parametrize("copy", ["tma.3d", "tma.4d", "tma.5d"])
def test_maps_of_more_dimensions_move_all_panels_at_once(copy: str, layout: str) -> None:
    problem = spec(layout, d="f32")
    hints = "a.cache = evict_first, b.cache = evict_last"
    schedule = f"{TWO}, grid.tile = [128, 96], k = 64, a.copy = {copy}, b.copy = {copy}, a.swizzle = <2,3,3>, {hints}"
    levels = last_texts(steps_of(problem, schedule, SM_90A))
    # In the step that is written out, in the loop over the first tile's other steps, and in that of other tiles.
    assert levels[Level.NVVM].count("nvvm.cp.async.bulk.tensor.shared.cluster.global") == 3 * 2
    inputs = inputs_of(problem, 160, 96, 192)
    for level in (Level.ATOMS, Level.EPILOGUE, Level.NVVM):
        found = interpret(levels[level], inputs, sms=1, domain="exact")
        assert np.array_equal(found, expected(problem, inputs)), level


def test_panels_that_do_not_divide_the_matrix_are_refused_on_the_host() -> None:
    problem = spec("tn", d="f32")
    schedule = f"{TWO}, grid.tile = [128, 32], k = 64, a.copy = tma.3d, b.copy = tma.3d"
    levels = last_texts(steps_of(problem, schedule, SM_90A))
    with pytest.raises(lt.Error, match=r"tma.3d: the contiguous extent .* multiple of 64.*\[assertion-failed\]"):
        interpret(levels[Level.ATOMS], inputs_of(problem, 128, 32, 72), domain="exact")


@pytest.mark.parametrize(
    ("layout", "old", "new"),
    [
        # In units of 16 bytes. nt: leading offset of 4096 bytes, from panel to panel; stride offset of 1024, 8 rows.
        ("nt", 256 << 16, 320 << 16),
        ("nt", 64 << 32, 128 << 32),
        ("tn", 64 << 32, 32 << 32),
    ],
)
def test_a_planted_fault_in_a_descriptor_is_caught(layout: str, old: int, new: int) -> None:
    problem = spec(layout, d="f32")
    schedule = f"{TWO}, grid.tile = [128, 128], k = {64 if layout == 'tn' else 32}"
    text = last_texts(steps_of(problem, schedule, SM_90A))[Level.NVVM]
    base = (1 << 62) | (64 << 32) | ((256 if layout == "nt" else 1) << 16)
    inputs = inputs_of(problem, 128, 128, 64)
    assert np.array_equal(interpret(text, inputs, domain="exact"), expected(problem, inputs))
    assert f"arith.constant {base} : i64" in text
    faulty = text.replace(f"arith.constant {base} : i64", f"arith.constant {base - old + new} : i64")
    try:
        assert not np.array_equal(interpret(faulty, inputs, domain="exact"), expected(problem, inputs))
    except InterpreterError as error:
        assert any(word in str(error) for word in ("race", "uninitialised", "outside", "in flight")), error
