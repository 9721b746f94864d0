"""Epilogues by TMA stores: what the instructions do, and the faults that are caught.

Faults are planted by one edit of the compiler's own text at levels epilogue and nvvm.
"""

import re

import numpy as np
import pytest
from compiled import expected, inputs_of, last_texts, spec, steps_of

import lowtide as lt
from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.interpreter.machine import hardware
from lowtide.targets import TiledMma, mma_atom
from lowtide.targets.ldmatrix import row_addresses
from lowtide.targets.tv import coordinates, indices

SM_90A = targets.get("sm_90a")

TWO = "roles = cooperative(2), grid.tile = [128, 64], k = 64, stages = 2, epilogue.path = tma"


def add_bias(acc, bias: lt.PerColumn):
    return acc + bias


# What the instructions do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("columns", [16, 64])
def test_the_rows_that_lanes_address_are_those_that_stmatrix_writes(columns: int, trans: bool) -> None:
    """The passes' table of row addresses against the PTX ISA's formula: every element reaches its place."""
    shape = (64, columns)
    fragment = TiledMma(mma_atom(f"wgmma.m64n{columns}k16.f32.bf16")).tv("c", shape)
    steps = np.array([1, 64]) if trans else np.array([columns, 1])  # from row to row, from column to column
    values = coordinates(fragment, shape) @ steps  # each element is the number of its place
    rows = indices(row_addresses(fragment, 4, trans))
    written = np.full(64 * columns, -1)
    for warp in range(4):
        lanes = slice(32 * warp, 32 * (warp + 1))
        registers = values[lanes].reshape(32, -1, 4, 2)
        for instruction in range(registers.shape[1]):
            found = hardware.stmatrix(registers[:, instruction], 4, trans)
            starts = np.stack([rows[lanes, instruction] % 64, rows[lanes, instruction] // 64], -1) @ steps
            written[starts[:, None] + np.arange(8)] = found
    assert np.array_equal(written, np.arange(64 * columns))


def test_stmatrix_is_ldmatrix_the_other_way_round() -> None:
    rows = np.arange(256).reshape(32, 8)
    for trans in (False, True):
        assert np.array_equal(hardware.stmatrix(hardware.ldmatrix(rows, 4, trans), 4, trans), rows)


# Faults ---------------------------------------------------------------------------------------------------------------

FAULTY = spec(dtype="f16", epilogue=add_bias)
# Nothing is packed: D itself must be what TMA takes.
UNPACKED = "a.pack = none, b.pack = none, epilogue.pack = none"
SCHEDULE = f"{TWO}, epilogue.tile = [128, 32], epilogue.buffers = 2, {UNPACKED}"
# Several tiles for the one CTA, so that buffers are used again.
SHAPE = (256, 64, 64)


@pytest.fixture(scope="module")
def texts() -> dict[Level, str]:
    return last_texts(steps_of(FAULTY, SCHEDULE, SM_90A))


def faulty(text: str, pattern: str, replacement: str, at: int = 0) -> str:
    """The text with occurrence `at` of a pattern, which must stand there, replaced."""
    places = list(re.finditer(pattern, text, re.MULTILINE))
    assert places, f"{pattern!r} is nowhere"
    place = places[at]
    return text[: place.start()] + place.expand(replacement) + text[place.end() :]


def caught(text: str, message: str) -> None:
    """The fault is found under every order of agents."""
    for seed in (0, 1, 2):
        with pytest.raises(InterpreterError, match=message):
            interpret(text, inputs_of(FAULTY, *SHAPE), seed=seed, sms=1, domain="exact")


HIDDEN = r"(sm\.tma_store|cp\.async\.bulk\.tensor).*not visible to the async proxy: reads what .* wrote, with "
EPILOGUE_WAIT, NVVM_WAIT = r"^ *sm\.tma_store_wait read 1\n", r"^ *nvvm\.cp\.async\.bulk\.wait_group 1 \{read\}\n"
EPILOGUE_BARRIER, NVVM_BARRIER = r"^ *sm\.barrier warpgroup\n", r"^ *nvvm\.barrier id = .* number_of_threads = .*\n"
EPILOGUE_FENCE, NVVM_FENCE = r"^ *sm\.fence_proxy_async\n", r"^ *nvvm\.fence\.proxy .*\n"


def test_what_is_not_faulty_runs(texts: dict[Level, str]) -> None:
    inputs = inputs_of(FAULTY, *SHAPE)
    for level in (Level.EPILOGUE, Level.NVVM):
        for seed in (0, 1, 2):
            found = interpret(texts[level], inputs, seed=seed, sms=1, domain="exact")
            assert np.array_equal(found, expected(FAULTY, inputs))


@pytest.mark.parametrize(("level", "fence"), [(Level.EPILOGUE, EPILOGUE_FENCE), (Level.NVVM, NVVM_FENCE)])
def test_a_fence_left_out_is_found(texts: dict[Level, str], level: Level, fence: str) -> None:
    """The last one; at level nvvm, there is one more for the zeros of the ring."""
    caught(faulty(texts[level], fence, "", -1), HIDDEN + "no proxy fence in between")


def test_a_fence_of_another_memory_is_found(texts: dict[Level, str]) -> None:
    text = faulty(texts[Level.NVVM], r"<async\.shared>, space = #nvvm\.shared_space<cta>", "<async.global>", -1)
    caught(text, r"not visible to the async proxy.*let the writer execute fence\.proxy\.async")


@pytest.mark.parametrize("alignment", [16, 512])
def test_scratch_at_less_than_the_swizzles_period_is_found(texts: dict[Level, str], alignment: int) -> None:
    """Whatever wgmma and the loads make of it: without them, only the stores would show it, by wrong numbers."""
    text = faulty(texts[Level.NVVM], "alignment = 1024", f"alignment = {alignment}")
    caught(text, r"TMA needs a multiple of 128|inside a swizzle's pattern")


@pytest.mark.parametrize(
    ("level", "fence", "barrier"),
    [(Level.EPILOGUE, EPILOGUE_FENCE, EPILOGUE_BARRIER), (Level.NVVM, NVVM_FENCE, NVVM_BARRIER)],
)
def test_a_fence_after_the_barrier_is_right(texts: dict[Level, str], level: Level, fence: str, barrier: str) -> None:
    """The agent that stores executes it, too."""
    text, inputs = faulty(texts[level], f"({fence[1:]})( *{barrier[3:]})", r"\2\1"), inputs_of(FAULTY, *SHAPE)
    for seed in (0, 1, 2):
        found = interpret(text, inputs, seed=seed, sms=1, domain="exact")
        assert np.array_equal(found, expected(FAULTY, inputs))


@pytest.mark.parametrize(
    ("level", "fence", "barrier"),
    [(Level.EPILOGUE, EPILOGUE_FENCE, EPILOGUE_BARRIER), (Level.NVVM, NVVM_FENCE, NVVM_BARRIER)],
)
def test_a_barrier_before_the_store_left_out_is_found(
    texts: dict[Level, str], level: Level, fence: str, barrier: str
) -> None:
    text = faulty(texts[level], f"({fence[1:]}) *{barrier[3:]}", r"\1")
    caught(text, r"race \(read after write\): reads what .* wrote, with no barrier between")


@pytest.mark.parametrize(("level", "wait"), [(Level.EPILOGUE, EPILOGUE_WAIT), (Level.NVVM, NVVM_WAIT)])
def test_a_wait_before_a_buffer_is_used_again_left_out_is_found(
    texts: dict[Level, str], level: Level, wait: str
) -> None:
    # The second of two waits: in the first tile nothing is in flight in its buffer, in the next one there is.
    found = r"race \(write after read\): writes what .* may still read by `"
    caught(faulty(texts[level], wait, "", at=1), found)


@pytest.mark.parametrize(
    ("level", "old", "new"),
    [
        (Level.EPILOGUE, r"tma_store_wait read 1", "tma_store_wait read 2"),
        (Level.NVVM, r"wait_group 1 \{read\}", "wait_group 2 {read}"),
    ],
)
def test_a_wait_that_leaves_one_group_too_many_in_flight_is_found(
    texts: dict[Level, str], level: Level, old: str, new: str
) -> None:
    caught(faulty(texts[level], old, new, at=1), r"race \(write after read\): writes what .* may still read by `")


# The last part of a row is narrower than the others: 64 + 24, 2 · 64 + 8.
NARROW = {
    "narrow last part": (spec(epilogue=add_bias), TWO.replace("128, 64", "128, 88")),
    "narrow after two": (spec(), TWO.replace("128, 64", "128, 136")),
}


@pytest.mark.parametrize(
    ("level", "wait"),
    [(Level.EPILOGUE, r"(sm\.tma_store_wait read) {}\n"), (Level.NVVM, r"(nvvm\..*wait_group) {}( \{{read\}})\n")],
)
@pytest.mark.parametrize(("name", "in_flight"), [("narrow last part", 1), ("narrow after two", 2)])
def test_a_wait_of_one_too_many_before_the_narrow_buffer_is_used_again_is_found(
    level: Level, wait: str, name: str, in_flight: int
) -> None:
    problem, schedule = NARROW[name]
    text = last_texts(steps_of(problem, schedule, SM_90A))[level]
    # The last of a tile's waits is the narrow part's; the next tile's is one group short.
    pattern = wait.format(in_flight)
    text = faulty(text, pattern, rf"\1 {in_flight + 1}" + (r"\2" if level is Level.NVVM else "") + "\n", at=-1)
    for seed in (0, 1, 2):
        with pytest.raises(
            InterpreterError,
            match=r"race \(write after read\): writes what .* may still read by `.*\[race-with-open-read\]",
        ):
            interpret(text, inputs_of(problem, 256, 128, 64), seed=seed, sms=1, domain="exact")


@pytest.mark.parametrize(
    ("level", "wait", "barrier"),
    [(Level.EPILOGUE, EPILOGUE_WAIT, EPILOGUE_BARRIER), (Level.NVVM, NVVM_WAIT, NVVM_BARRIER)],
)
def test_a_barrier_after_the_wait_left_out_is_found(
    texts: dict[Level, str], level: Level, wait: str, barrier: str
) -> None:
    text = faulty(texts[level], f"({wait[1:]}) *{barrier[3:]}", r"\1", at=-1)
    caught(text, r"race \(write after read\): writes what .* (read, with no barrier between|may still read by `)")


@pytest.mark.parametrize(
    ("level", "wait"),
    [(Level.EPILOGUE, r"^ *sm\.tma_store_wait read 0\n"), (Level.NVVM, r"^ *nvvm\..*wait_group 0 \{read\}\n")],
)
def test_a_wait_at_the_end_left_out_is_found(texts: dict[Level, str], level: Level, wait: str) -> None:
    caught(
        faulty(texts[level], wait, ""),
        r"the CTA ends and nobody has waited until this store has read shared.*\[store-unread\]",
    )


def test_a_commit_left_out_is_found(texts: dict[Level, str]) -> None:
    text = faulty(texts[Level.NVVM], r"^ *nvvm\.cp\.async\.bulk\.commit\.group\n", "")
    caught(text, r"race \(write after read\)|nobody has waited")


@pytest.mark.parametrize("number", ["%tid", "2"])
def test_a_wrong_barrier_is_found(texts: dict[Level, str], number: str) -> None:
    """The role's barrier in place of a warpgroup's, where both warpgroups mix up; a barrier of every warp's own."""
    text = texts[Level.NVVM]
    (name,) = set(re.findall(r"nvvm\.barrier id = (%\w+) number_of_threads", text))
    wrong = f"nvvm.barrier id = {name} number_of_threads"
    definition = re.search(rf"^( *){name} = (.*)$", text, re.MULTILINE)
    assert definition is not None
    if number == "2":  # one barrier for all: the warpgroups meet on it in any mixture of four warps
        role = f"{definition[1]}%one_barrier = arith.constant 2 : i32\n"
    else:  # one for each warp, where 128 threads never arrive
        role = f"{definition[1]}%c5_warp = arith.constant 5 : i32\n"
        role += f"{definition[1]}%one_barrier = arith.shrui {_thread(text)}, %c5_warp : i32\n"
    text = text.replace(definition[0], definition[0] + "\n" + role.rstrip("\n"), 1)
    text = text.replace(wrong, wrong.replace(name, "%one_barrier"))
    caught(text, r"race|uninitialised|not visible|deadlock")


def _thread(text: str) -> str:
    found = re.search(r"(%\w+) = nvvm\.read\.ptx\.sreg\.tid\.x", text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("swizzle", ["<2,3,4>", "<2,4,3>"])
def test_another_swizzle_in_the_buffer_than_in_the_map_shows_as_wrong_numbers(
    texts: dict[Level, str], swizzle: str
) -> None:
    text = faulty(texts[Level.EPILOGUE], r"(\(128,32\):\(32,1\), swizzle)<2,3,3>", rf"\1{swizzle}")
    inputs = inputs_of(FAULTY, *SHAPE)
    assert (interpret(text, inputs, sms=1, domain="exact") != expected(FAULTY, inputs)).any()


@pytest.mark.parametrize(
    ("level", "old", "new"),
    [
        (Level.EPILOGUE, r"(to %\w+)\[(%\w+), (%\w+)\] : memref", r"\1[\3, \2] : memref"),
        (Level.NVVM, r"box\[(%\w+), (%\w+)\] : !llvm.ptr, <3>", r"box[\2, \1] : !llvm.ptr, <3>"),
    ],
)
def test_coordinates_in_the_wrong_order_leave_a_part_of_d_unwritten(
    texts: dict[Level, str], level: Level, old: str, new: str
) -> None:
    caught(faulty(texts[level], old, new), r"D\[\d+, 0\] was never written.*\[d-unwritten\]")


def test_a_store_by_every_lane_is_found(texts: dict[Level, str]) -> None:
    text = faulty(
        texts[Level.NVVM],
        r"scf\.if %\w+ \{\n( *nvvm\.cp\.async\.bulk\.tensor\.global)",
        r"%everyone = arith.constant true\n scf.if %everyone {\n\1",
    )
    caught(text, r"32 lanes start a store by TMA; one thread does: elect it.*\[one-thread\]")


def test_a_matrix_whose_rows_are_not_16_bytes_apart_cannot_be_stored_to(texts: dict[Level, str]) -> None:
    given = inputs_of(FAULTY, 128, 64, 64)
    given["d"] = np.zeros((128, 67), np.int64)[:, :64]
    with pytest.raises(
        InterpreterError,
        match=r"sm\.tensor_map .*rows 134 bytes apart: TMA needs multiples of 16.*\[map-address-of-ir\]",
    ):
        interpret(texts[Level.EPILOGUE], given, domain="exact")


def test_rows_that_are_not_whole_16_bytes_are_refused_before_the_launch(texts: dict[Level, str]) -> None:
    for level in (Level.EPILOGUE, Level.NVVM):
        with pytest.raises(
            InterpreterError,
            match=r"N must be a multiple of 8, .* or compile with epilogue\.path = smem.*\[assertion-failed\]",
        ):
            interpret(texts[level], inputs_of(FAULTY, 128, 60, 64), domain="exact")


@pytest.mark.parametrize("level", [Level.EPILOGUE, Level.NVVM])
def test_without_that_check_a_store_behind_a_row_is_found(texts: dict[Level, str], level: Level) -> None:
    text = faulty(texts[level], r'^ *cf\.assert .*"epilogue\.path = tma: N must be.*\n', "")
    with pytest.raises(InterpreterError, match=r"rows of 120 bytes, .*\[store-granule\]"):
        interpret(text, inputs_of(FAULTY, 128, 60, 64), domain="exact")
