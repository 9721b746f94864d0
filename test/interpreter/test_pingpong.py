"""Ping-pong consumers: right for every number of tiles per CTA, and the faults that are caught.

Two instances of the consumer role take the tiles of a CTA in turn. Faults are planted by one edit of the compiler's own
text.
"""

import re

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import Fault

from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError
from lowtide.interpreter import Report, interpret

SPEC = spec(d="f32")
PINGPONG = "roles = pingpong(2), grid.tile = [64, 16], k = 64, stages = 2, order = row"
PATHS = {
    "direct": "epilogue.path = direct",
    "smem": "epilogue.path = smem, epilogue.tile = [64, 8]",
    "tma": "epilogue.path = tma, epilogue.tile = [64, 8], buffers = 2, epilogue.swizzle = <1,2,3>",
}
SEEDS = (0, 1, 2)


def lowered(schedule: str) -> dict[str, str]:
    """The last text of each level."""
    found = levels_of(SPEC, schedule, "sm_90a")
    return {level: found[level] for level in ("pipelined", "atoms", "epilogue", "nvvm")}


@pytest.fixture(scope="module")
def levels() -> dict[str, dict[str, str]]:
    return {path: lowered(f"{PINGPONG}, {fields}") for path, fields in PATHS.items()}


# Tiles per CTA on two SMs: 1, 1, 3 and 2, 4, 4. K steps: fewer than the stages, as many, more, and twice a round of the
# parities.
SHAPES = [(64, 16, 60), (60, 30, 128), (64, 80, 130), (124, 60, 4 * 64 + 4), (128, 64, 8 * 64)]


@pytest.mark.parametrize(
    ("path", "level"),
    [
        ("tma", "pipelined"),
        ("tma", "atoms"),
        ("tma", "epilogue"),
        ("tma", "nvvm"),
        ("smem", "nvvm"),
        ("direct", "nvvm"),
    ],
)
def test_every_number_of_tiles_and_k_steps_is_right(levels: dict[str, dict[str, str]], path: str, level: str) -> None:
    for number, shape in enumerate(SHAPES if path == "tma" else SHAPES[1:3]):
        m, n, k = shape
        inputs = inputs_of(SPEC, m, -(-n // 4) * 4, k)
        d = interpret(levels[path][level], inputs, sms=2, seed=number, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, inputs))


@pytest.mark.parametrize("scheduler", ["persistent", "even_split"])
def test_three_consumers_take_turns_too(scheduler: str) -> None:
    texts = lowered(f"{PINGPONG.replace('pingpong(2)', 'pingpong(3)')}, {PATHS['tma']}, scheduler = {scheduler}")
    inputs = inputs_of(SPEC, 124, 80, 3 * 64)
    for level, text in texts.items():
        d = interpret(text, inputs, sms=1, seed=len(level), domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, inputs))


# Where two instances read the ring at once: reads of slots that are being filled, a second arrival, or a deadlock.
MIXED = r"race|once more|in flight|deadlock"

FAULTS = [
    # Eight K steps are a whole number of rounds of the parities, so that a fill for the other instance looks like one's
    # own.
    Fault("no wait for the turn", "pipelined", r"^ *sm\.mbarrier_wait %turn.*\n", "", "in ring order is slot"),
    Fault("no wait for the turn, atoms", "atoms", r"^ *sm\.mbarrier_wait %turn.*\n", "", MIXED),
    Fault("the turn passed to oneself", "atoms", r"(sm\.mbarrier_arrive %turn\[)%\w+\]", r"\1%instance]", "deadlock"),
    Fault("the turn is not passed", "atoms", r"^ *sm\.mbarrier_arrive %turn.*\n", "", "deadlock"),
    Fault(
        "the turn passed before the ring is read",
        "pipelined",
        r"^( *sm\.mbarrier_wait %turn.*\n)((?:.*\n)*?)( *sm\.mbarrier_arrive %turn.*\n)",
        r"\1\3\2",
        "in ring order is slot",
    ),
    Fault(
        "nobody begins",
        "atoms",
        r"arith\.select (%\w+), %c1, %c0 : index",
        r"arith.select \1, %c0, %c0 : index",
        r"(?s)deadlock.*consumer instance 0 warpgroup 0 waits at `sm\.mbarrier_wait %turn",
    ),
    Fault(
        "the slots of the other's tile are not skipped",
        "pipelined",
        r"(%index\w*), (%phase\w*) = sm\.ring_advance %ring\[(%\w+#1), (%\w+#2)\] by %\w+ : !ring",
        r"\1, \2 = sm.ring_advance %ring[\3, \4] by %c1 : !ring",
        "in ring order is slot",
    ),
    Fault(
        "the skip a slot too short, atoms",
        "atoms",
        r"(%index\w*), (%phase\w*) = sm\.ring_advance %ring\[(%\w+#\d), (%\w+#\d)\] by %\w+ : !ring",
        r"\1, \2 = sm.ring_advance %ring[\3, \4] by %c1 : !ring",
        MIXED,
    ),
    Fault("an arrival for each consumer", "epilogue", r"arrivals\(1\)", "arrivals(2)", "deadlock", 2),
    Fault("two arrivals a turn", "epilogue", r"(%turn = sm\.mbarriers) arrivals\(1\)", r"\1 arrivals(2)", "deadlock"),
    Fault("all tiles for both", "atoms", r" in_turn ", " ", MIXED),
]  # fmt: skip


# Three K steps are no whole number of rounds: the instances begin with other slots.
ODD = Fault(
    "the second instance begins with the first's slots",
    "pipelined",
    r"(sm\.ring_advance %ring\[%c0, %c0\] by )%\w+",
    r"\1%c0",
    "in ring order is slot",
)


@pytest.mark.parametrize("fault", [*FAULTS, ODD], ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, dict[str, str]], fault: Fault) -> None:
    inputs = inputs_of(SPEC, 64, 64, 3 * 64 if fault is ODD else 8 * 64)  # four tiles of one CTA
    text = fault.plant(levels["tma"][fault.level])
    found = ""
    for seed in SEEDS:
        try:
            interpret(text, inputs, sms=1, seed=seed, domain="exact")
        except InterpreterError as error:
            found = str(error)
    assert found, f"{fault.name} is not found under any order of the agents"
    assert re.search(fault.found, found), found


def test_a_turn_is_not_passed_back_before_every_warp_has_taken_it(levels: dict[str, dict[str, str]]) -> None:
    """Without the barrier after the wait, the turn may come and go before a warp looks, which then waits for ever."""
    text, inputs = levels["direct"]["nvvm"], inputs_of(SPEC, 64, 64, 64)
    barriers = re.findall(r"^ *nvvm\.barrier id.*\n", text, re.MULTILINE)
    assert len(barriers) == 1
    for seed in range(3):
        report = Report()
        d = interpret(text, inputs, sms=1, seed=seed, domain="exact", report=report)
        np.testing.assert_array_equal(d, expected(SPEC, inputs))
        assert report.holds, str(report)
        report = Report()
        try:  # most orders run to the end all the same
            interpret(text.replace(barriers[0], ""), inputs, sms=1, seed=seed, domain="exact", report=report)
        except InterpreterError as error:
            assert "deadlock" in str(error)
        else:
            assert re.search("phase . of the mbarrier at .* may end before agent .* has seen phase . end", str(report))


def test_a_scratch_buffer_that_both_instances_use_is_found(levels: dict[str, dict[str, str]]) -> None:
    """Buffers exist once per instance: here the second one begins in the middle of the first one's two."""
    text = levels["tma"]["epilogue"]
    first, second = (int(place) for place in re.findall(r"sm\.alloc at (\d+)", text))
    shared = text.replace(f"sm.alloc at {second}", f"sm.alloc at {(first + second) // 2}")
    with pytest.raises(InterpreterError, match=r"overlaps.*\[buffers-overlap\]"):
        interpret(shared, inputs_of(SPEC, 64, 64, 8 * 64), sms=1, domain="exact")


def test_level_atoms_reads_as_two_instances_of_one_role(levels: dict[str, dict[str, str]]) -> None:
    text = levels["tma"][str(Level.ATOMS)]
    assert text.count("consumer warps(4) instances(2)") == 1
    assert text.count("sm.wgmma ") == 2  # the first K step, and the loop's
