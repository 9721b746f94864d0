"""Memory's rules, one planted fault each: bounds, alignment, initialisation, types, races."""

import numpy as np
import pytest
from memories import LANES, NamedOp, by, matrix_of_rows, shared, together, written

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.numbers.domains import FloatDomain
from lowtide.interpreter.numbers.integers import INTEGERS
from lowtide.interpreter.numbers.registers import number


@pytest.fixture
def matrix() -> tuple[GlobalMemory, int]:
    return matrix_of_rows()


# Bounds, alignment, contents ------------------------------------------------------------------------------------------


def test_what_is_stored_is_loaded() -> None:
    memory = written()
    assert np.array_equal(memory.load(by(), LANES * 16, "bf16", 8), np.arange(256.0).reshape(32, 8))


def test_global_memory_holds_the_matrix_given(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    assert base % 256 == 0
    rows = memory.load(by(), base + (LANES % 16) * 64 + (LANES // 16) * 32, "bf16", 8)
    assert rows[17].tolist() == list(range(24 + 16, 24 + 24))
    payload, initialised = memory.contents("a")
    assert payload[3, 5] == 3 * 24 + 5
    assert initialised.all()


def test_contents_say_which_elements_were_written() -> None:
    memory = GlobalMemory()
    base = memory.allocate("d", 2, 3, 8, "f32")
    memory.store(by(lanes=[4]), np.array([base + 4 * 8 + 4]), np.array([[7.0]]), "f32")
    payload, initialised = memory.contents("d")
    assert payload[1, 1] == 7.0
    assert initialised.tolist() == [[False] * 3, [False, True, False]]


def test_row_padding_is_out_of_bounds(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    with pytest.raises(
        InterpreterError,
        match=r"the op, CTA 0 warp 1 lane 2: out of bounds.*byte 112 of a: row 1, byte 48 of 48.*\[outside-matrices\]",
    ):
        memory.load(by(1, [0, 2]), np.array([base, base + 64 + 48]), "bf16", 8)


def test_past_the_last_row_is_out_of_bounds(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    with pytest.raises(InterpreterError, match=r"out of bounds.*16 bytes past the end of a.*\[outside-matrices\]"):
        memory.store(by(lanes=[0]), np.array([base + 16 * 64]), np.zeros((1, 1)), "bf16")


def test_a_null_pointer_is_out_of_bounds(matrix: tuple[GlobalMemory, int]) -> None:
    with pytest.raises(InterpreterError, match=r"\[out-of-bounds\]"):
        matrix[0].load(by(lanes=[0]), np.array([0]), "bf16")


def test_shared_memory_ends_where_the_launch_says() -> None:
    with pytest.raises(InterpreterError, match=r"bounds: 16.*shared memory.*\[out-of-bounds\]"):
        shared().store(by(lanes=[3]), np.array([4088 + 8]), np.zeros((1, 8)), "bf16", 8)
    with pytest.raises(
        InterpreterError, match=r"ends at byte 5000 of shared memory, the launch has 4096.*\[smem-outside\]"
    ):
        shared().place("more", 4000, 1000)


def test_accesses_need_the_alignment_of_their_size() -> None:
    with pytest.raises(
        InterpreterError, match=r"lane 1: misaligned: 16 bytes need .* multiple of 16.*\[misaligned-access\]"
    ):
        shared().store(by(lanes=[0, 1]), np.array([0, 24]), np.zeros((2, 8)), "bf16", 8)
    shared().store(by(lanes=[0, 1]), np.array([0, 24]), np.zeros((2, 8)), "bf16", 8, align=8)


def test_an_op_that_promises_more_alignment_than_there_is_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"misaligned: 2.*of 16.*\[misaligned-access\]"):
        written().load(by(lanes=[0]), np.array([2]), "bf16", align=16)


def test_unwritten_bytes_are_uninitialised() -> None:
    memory = written()
    memory.store(by(lanes=[0]), np.array([512]), np.zeros((1, 4)), "bf16", 4)
    with pytest.raises(InterpreterError, match=r"uninitialised: bf16 read.*byte 520 of tile.*\[uninitialised-read\]"):
        memory.load(by(lanes=[0]), np.array([512]), "bf16", 8)


def test_an_element_read_by_halves_is_torn() -> None:
    memory = written()
    with pytest.raises(InterpreterError, match=r"torn read: f32.*\[torn-read\]"):
        memory.load(by(), LANES * 16, "f32")


def test_an_element_of_which_a_part_was_overwritten_is_torn() -> None:
    memory = shared()
    memory.store(by(lanes=[0]), np.array([0]), np.ones((1, 1)), "f32")
    memory.store(by(lanes=[0]), np.array([2]), np.ones((1, 1)), "bf16")
    with pytest.raises(InterpreterError, match=r"torn read: f32.*\[torn-read\]"):
        memory.load(by(lanes=[0]), np.array([0]), "f32")


@pytest.mark.parametrize(("written", "read"), [("i32", "i8"), ("i8", "i32"), ("i16", "i8")])
def test_integers_may_be_read_as_integers_of_another_width(written: str, read: str) -> None:
    memory, numbers = shared(), np.arange(-8, 8, dtype=np.int8) * 7
    bits = numbers.view(INTEGERS[written])
    memory.store(by(lanes=[0]), np.array([16]), bits[None].astype(float), written, bits.size)
    found = numbers.view(INTEGERS[read])
    np.testing.assert_array_equal(memory.load(by(lanes=[0]), np.array([16]), read, found.size), found[None])
    payload, dtype = memory.load_any(by(lanes=[0]), np.array([16]), 1, 16)
    assert dtype == "i8" and (payload == numbers).all()


def test_the_bytes_left_of_an_overwritten_integer_may_be_read() -> None:
    memory = shared()
    memory.store(by(lanes=[0]), np.array([0]), np.full((1, 1), 0x04030201), "i32")
    memory.store(by(lanes=[0]), np.array([2]), np.full((1, 1), 9), "i8")
    assert memory.load(by(lanes=[0]), np.array([0]), "i8", 4).tolist() == [[1, 2, 9, 4]]


def test_reading_another_type_of_the_same_width_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"wrong type: f16 read where bf16 was written.*\[wrong-type\]"):
        written().load(by(), LANES * 16, "f16", 8)


def test_integers_are_numbers_only_where_registers_have_no_types() -> None:
    """Half of the elements are written as bits, by a thread that knows a constant."""
    memory, at = shared(), np.array([16])
    memory.store(by(lanes=[0]), at, np.full((1, 4), 2.0), "bf16", 4)
    memory.store(by(lanes=[0]), at + 8, np.full((1, 4), 0x3FC0), "i16", 4)
    with pytest.raises(InterpreterError, match=r"wrong type: bf16 read where i16 was written.*\[wrong-type\]"):
        memory.load(by(lanes=[0]), at, "bf16", 8)
    memory.numbers_of_bits = lambda bits, dtype: number(bits, dtype, FloatDomain())
    assert memory.load(by(lanes=[0]), at, "bf16", 8).tolist() == [[2.0] * 4 + [1.5] * 4]
    memory.store(by(lanes=[0]), at, np.full((1, 4), 0x3FC0), "i16", 4)
    memory.store(by(lanes=[0]), at + 8, np.full((1, 4), 2.0), "bf16", 4)
    payload, dtype = memory.load_any(by(lanes=[0]), at, 2, 8)
    assert dtype == "bf16" and payload.tolist() == [[1.5] * 4 + [2.0] * 4]
    with pytest.raises(InterpreterError, match=r"wrong type: f16 read where bf16 was written.*\[wrong-type\]"):
        memory.load(by(lanes=[0]), at, "f16", 8)


def test_load_any_says_which_type_lies_there() -> None:
    memory = written()
    payload, dtype = memory.load_any(by(), LANES * 16, 2, 8)
    assert dtype == "bf16"
    assert payload[1, 0] == 8.0
    memory.store(by(lanes=[1]), np.array([16]), np.ones((1, 1)), "f16")
    with pytest.raises(InterpreterError, match=r"wrong type: bf16 read where f16.*\[wrong-type\]"):
        memory.load_any(by(), LANES * 16, 2, 8)


def test_an_access_by_no_lane_touches_nothing() -> None:
    shared().store(by(lanes=[]), np.zeros(0, np.int64), np.zeros((0, 8)), "bf16", 8)
    assert shared().load(by(lanes=[]), np.zeros(0, np.int64), "bf16", 8).shape == (0, 8)


# Races in shared memory -----------------------------------------------------------------------------------------------


def test_another_warp_reads_after_a_barrier_and_not_before() -> None:
    memory = written()
    with pytest.raises(
        InterpreterError, match=r"warp 1 lane 0: race \(read after write\).*warp 0 lane 0 wrote.*\[shared-race\]"
    ):
        memory.load(by(1), LANES * 16, "bf16", 8)
    memory.barrier()
    memory.load(by(1), LANES * 16, "bf16", 8)


def test_a_barrier_of_other_warps_orders_nothing() -> None:
    memory = written()
    memory.barrier([1, 2])
    with pytest.raises(InterpreterError, match=r"\[shared-race\]"):
        memory.load(by(1), LANES * 16, "bf16", 8)
    memory.barrier([0, 2])
    with pytest.raises(InterpreterError, match=r"\[shared-race\]"):
        memory.load(by(1), LANES * 16, "bf16", 8)
    memory.barrier([1, 2])  # warp 1 hears of warp 0's writes from warp 2
    memory.load(by(1), LANES * 16, "bf16", 8)


def test_lanes_of_one_warp_are_not_ordered_without_a_warp_sync() -> None:
    memory = written()
    with pytest.raises(
        InterpreterError, match=r"warp 0 lane 0:.*read after write\): reads.*warp 0 lane 31.*\[shared-race\]"
    ):
        memory.load(by(), LANES[::-1] * 16, "bf16", 8)
    memory.warp_sync(0)
    memory.load(by(), LANES[::-1] * 16, "bf16", 8)


def test_a_warp_sync_of_one_warp_tells_others_nothing() -> None:
    memory = written()
    memory.warp_sync(0)
    with pytest.raises(InterpreterError, match=r"\[shared-race\]"):
        memory.load(by(1), LANES * 16, "bf16", 8)


def test_a_warp_wide_read_sees_its_own_lanes_writes_only_after_a_sync() -> None:
    memory = written()
    with pytest.raises(InterpreterError, match=r"warp 0:.*\[shared-race\]"):
        memory.load(together(), LANES * 16, "bf16", 8)
    memory.warp_sync(0)
    memory.load(together(), LANES * 16, "bf16", 8)


def test_a_write_over_what_another_thread_wrote_is_a_race() -> None:
    memory = written()
    memory.store(by(), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    with pytest.raises(InterpreterError, match=r"write after write.*\[shared-race\]"):
        memory.store(by(3), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_a_write_over_what_another_warp_read_is_a_race() -> None:
    memory = written()
    memory.barrier()
    memory.load(by(1), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after read\).*warp 1 lane 0 read.*\[race-with-read\]"):
        memory.store(by(2), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.barrier()
    memory.store(by(2), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_a_write_over_what_another_lane_read_is_a_race_even_if_this_lane_read_it_too() -> None:
    memory = written()
    memory.barrier()
    memory.load(by(1), np.zeros(32, np.int64), "bf16", 8)  # all lanes read lane 0's bytes
    with pytest.raises(InterpreterError, match=r"\[race-with-read\]"):
        memory.store(by(1, [31]), np.array([0]), np.zeros((1, 8)), "bf16", 8)


def test_a_thread_may_overwrite_what_it_alone_read() -> None:
    memory = written()
    memory.barrier()
    memory.load(by(1), LANES * 16, "bf16", 8)
    memory.store(by(1), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.barrier()
    memory.load(together(1), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"\[race-with-read\]"):
        memory.store(by(1), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_two_lanes_that_write_one_byte_in_one_instruction_race() -> None:
    with pytest.raises(InterpreterError, match=r"two lanes write the same bytes.*\[shared-lanes-race\]"):
        shared().store(by(), LANES % 31 * 16, np.zeros((32, 8)), "bf16", 8)


def test_an_agent_that_is_a_whole_cta_needs_a_barrier_after_its_own_accesses() -> None:
    memory = shared(1)
    memory.store(together(), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    with pytest.raises(InterpreterError, match=r"read after write.*\[shared-race\]"):
        memory.load(together(), LANES * 16, "bf16", 8)
    memory.barrier()
    memory.load(together(), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"\[race-with-read\]"):
        memory.store(together(), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_a_race_names_both_accesses_and_what_would_order_them() -> None:
    class Second(NamedOp):
        def describe(self) -> str:
            return "the other op"

    access = by(1)
    access.op = Second()
    memory = written()
    with pytest.raises(
        InterpreterError,
        match=r"^the other op.*wrote, with no barrier.* by the op; put a barrier that.*\[shared-race\]",
    ):
        memory.store(access, LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.barrier()
    memory.load(by(), LANES * 16, "bf16", 8)
    with pytest.raises(
        InterpreterError,
        match=r"^the other op.*read, with no barrier.* by the op; put a barrier that.*\[race-with-read\]",
    ):
        memory.store(access, LANES * 16, np.zeros((32, 8)), "bf16", 8)


# Races in global memory -----------------------------------------------------------------------------------------------


def launched(*ctas: int) -> tuple[GlobalMemory, int, dict[int, SharedMemory]]:
    memory = GlobalMemory()
    base = memory.allocate("d", 32, 8, 8, "f32")
    blocks = {cta: shared() for cta in ctas}
    memory.begin_launch()
    for cta, block in blocks.items():
        memory.enter(cta, block.clocks)
    memory.store(by(), base + LANES * 32, np.ones((32, 4)), "f32", 4)
    return memory, base, blocks


def test_ctas_of_one_launch_may_not_touch_what_another_wrote() -> None:
    memory, base, blocks = launched(0, 1)
    blocks[0].barrier()
    blocks[1].barrier()
    with pytest.raises(
        InterpreterError, match=r"CTA 1.*race \(write after write\).*CTA 0 warp 0 lane 0 wrote.*\[global-race\]"
    ):
        memory.store(by(cta=1), base + LANES * 32, np.ones((32, 4)), "f32", 4)
    with pytest.raises(InterpreterError, match=r"CTA 1 warp 0 lane 0:.*\(read after write\).*\[global-race\]"):
        memory.load(by(cta=1), base + LANES * 32, "f32", 4)
    memory.begin_launch()
    memory.load(by(cta=1), base + LANES * 32, "f32", 4)


def test_threads_of_one_cta_need_a_barrier_in_global_memory_too() -> None:
    memory, base, blocks = launched(0)
    memory.load(by(), base + LANES * 32, "f32", 4)
    with pytest.raises(InterpreterError, match=r"warp 1 lane 0:.*\[global-race\]"):
        memory.load(by(1), base + LANES * 32, "f32", 4)
    blocks[0].barrier()
    memory.load(by(1), base + LANES * 32, "f32", 4)


def test_a_read_of_global_memory_is_ordered_before_the_next_write(matrix: tuple[GlobalMemory, int]) -> None:
    """Of what the launch itself wrote: here of one warp, read by two others, then written by a fourth."""
    memory, base = matrix
    clocks = Clocks(4)
    memory.begin_launch()
    memory.enter(0, clocks)
    rows, values = base + np.arange(16) * 64, np.zeros((16, 8))
    lanes = range(16)
    memory.store(by(0, lanes), rows, values, "bf16", 8)
    clocks.barrier()
    memory.load(by(1, lanes), rows, "bf16", 8)
    memory.load(by(2, lanes), rows, "bf16", 8)
    for ordered in ([2, 3], [1, 3]):
        with pytest.raises(
            InterpreterError,
            match=r"race \(write after read\): writes what CTA 0 warp [12] lane 0 read.*\[global-race\]",
        ):
            memory.store(by(3, lanes), rows, values, "bf16", 8)
        clocks.barrier(ordered)
    memory.store(by(3, lanes), rows, values, "bf16", 8)
