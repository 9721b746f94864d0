"""Memory's rules, one planted fault each: bounds, alignment, initialisation, types, races, asynchronous copies."""

from collections.abc import Iterable

import numpy as np
import pytest

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.copies import AsyncCopies
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.numbers.cells import Access

LANES = np.arange(32)


class NamedOp:
    def describe(self) -> str:
        return "the op"


def by(warp: int = 0, lanes: Iterable[int] = range(32), cta: int = 0) -> Access:
    return Access(cta, warp, np.array(list(lanes)), NamedOp())


def together(warp: int = 0, cta: int = 0) -> Access:
    return Access(cta, warp, None, NamedOp())


def shared(warps: int = 4) -> SharedMemory:
    memory = SharedMemory(warps, 4096)
    memory.place("tile", 0, 2048)
    return memory


def written(warp: int = 0) -> SharedMemory:
    """16 bytes by each lane of a warp: lane l holds 8 l … 8 l + 7."""
    memory = shared()
    memory.store(by(warp), LANES * 16, np.arange(256.0).reshape(32, 8), "bf16", 8)
    return memory


@pytest.fixture
def matrix() -> tuple[GlobalMemory, int]:
    """16 rows of 24 bf16, 32 from row to row."""
    memory = GlobalMemory()
    return memory, memory.allocate("a", 16, 24, 32, "bf16", np.arange(16.0 * 24).reshape(16, 24))


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
        InterpreterError, match=r"the op, CTA 0 warp 1 lane 2: out of bounds.*byte 112 of a: row 1, byte 48 of 48"
    ):
        memory.load(by(1, [0, 2]), np.array([base, base + 64 + 48]), "bf16", 8)


def test_past_the_last_row_is_out_of_bounds(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    with pytest.raises(InterpreterError, match=r"out of bounds.*16 bytes past the end of a"):
        memory.store(by(lanes=[0]), np.array([base + 16 * 64]), np.zeros((1, 1)), "bf16")


def test_a_null_pointer_is_out_of_bounds(matrix: tuple[GlobalMemory, int]) -> None:
    with pytest.raises(InterpreterError, match="out of bounds"):
        matrix[0].load(by(lanes=[0]), np.array([0]), "bf16")


def test_shared_memory_ends_where_the_launch_says() -> None:
    with pytest.raises(InterpreterError, match="out of bounds: 16 bytes outside shared memory"):
        shared().store(by(lanes=[3]), np.array([4088 + 8]), np.zeros((1, 8)), "bf16", 8)
    with pytest.raises(InterpreterError, match="ends at byte 5000 of shared memory, the launch has 4096"):
        shared().place("more", 4000, 1000)


def test_accesses_need_the_alignment_of_their_size() -> None:
    with pytest.raises(InterpreterError, match=r"lane 1: misaligned: 16 bytes need .* multiple of 16"):
        shared().store(by(lanes=[0, 1]), np.array([0, 24]), np.zeros((2, 8)), "bf16", 8)
    shared().store(by(lanes=[0, 1]), np.array([0, 24]), np.zeros((2, 8)), "bf16", 8, align=8)


def test_an_op_that_promises_more_alignment_than_there_is_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"misaligned: 2 bytes need .* multiple of 16"):
        written().load(by(lanes=[0]), np.array([2]), "bf16", align=16)


def test_unwritten_bytes_are_uninitialised() -> None:
    memory = written()
    memory.store(by(lanes=[0]), np.array([512]), np.zeros((1, 4)), "bf16", 4)
    with pytest.raises(InterpreterError, match=r"uninitialised: bf16 read.*byte 520 of tile"):
        memory.load(by(lanes=[0]), np.array([512]), "bf16", 8)


def test_an_element_read_by_halves_is_torn() -> None:
    memory = written()
    with pytest.raises(InterpreterError, match="torn read: f32"):
        memory.load(by(), LANES * 16, "f32")


def test_an_element_of_which_a_part_was_overwritten_is_torn() -> None:
    memory = shared()
    memory.store(by(lanes=[0]), np.array([0]), np.ones((1, 1)), "f32")
    memory.store(by(lanes=[0]), np.array([2]), np.ones((1, 1)), "bf16")
    with pytest.raises(InterpreterError, match="torn read: f32"):
        memory.load(by(lanes=[0]), np.array([0]), "f32")


def test_reading_another_type_of_the_same_width_is_an_error() -> None:
    with pytest.raises(InterpreterError, match="wrong type: f16 read where bf16 was written"):
        written().load(by(), LANES * 16, "f16", 8)


def test_load_any_says_which_type_lies_there() -> None:
    memory = written()
    payload, dtype = memory.load_any(by(), LANES * 16, 2, 8)
    assert dtype == "bf16"
    assert payload[1, 0] == 8.0
    memory.store(by(lanes=[1]), np.array([16]), np.ones((1, 1)), "f16")
    with pytest.raises(InterpreterError, match="wrong type: bf16 read where f16"):
        memory.load_any(by(), LANES * 16, 2, 8)


def test_an_access_by_no_lane_touches_nothing() -> None:
    shared().store(by(lanes=[]), np.zeros(0, np.int64), np.zeros((0, 8)), "bf16", 8)
    assert shared().load(by(lanes=[]), np.zeros(0, np.int64), "bf16", 8).shape == (0, 8)


# Races in shared memory -----------------------------------------------------------------------------------------------


def test_another_warp_reads_after_a_barrier_and_not_before() -> None:
    memory = written()
    with pytest.raises(InterpreterError, match=r"warp 1 lane 0: race \(read after write\).*warp 0 lane 0 wrote"):
        memory.load(by(1), LANES * 16, "bf16", 8)
    memory.barrier()
    memory.load(by(1), LANES * 16, "bf16", 8)


def test_a_barrier_of_other_warps_orders_nothing() -> None:
    memory = written()
    memory.barrier([1, 2])
    with pytest.raises(InterpreterError, match="race"):
        memory.load(by(1), LANES * 16, "bf16", 8)
    memory.barrier([0, 2])
    with pytest.raises(InterpreterError, match="race"):
        memory.load(by(1), LANES * 16, "bf16", 8)
    memory.barrier([1, 2])  # warp 1 hears of warp 0's writes from warp 2
    memory.load(by(1), LANES * 16, "bf16", 8)


def test_lanes_of_one_warp_are_not_ordered_without_a_warp_sync() -> None:
    memory = written()
    with pytest.raises(InterpreterError, match=r"warp 0 lane 0: race.*warp 0 lane 31 wrote"):
        memory.load(by(), LANES[::-1] * 16, "bf16", 8)
    memory.warp_sync(0)
    memory.load(by(), LANES[::-1] * 16, "bf16", 8)


def test_a_warp_sync_of_one_warp_tells_others_nothing() -> None:
    memory = written()
    memory.warp_sync(0)
    with pytest.raises(InterpreterError, match="race"):
        memory.load(by(1), LANES * 16, "bf16", 8)


def test_a_warp_wide_read_sees_its_own_lanes_writes_only_after_a_sync() -> None:
    memory = written()
    with pytest.raises(InterpreterError, match="warp 0: race"):
        memory.load(together(), LANES * 16, "bf16", 8)
    memory.warp_sync(0)
    memory.load(together(), LANES * 16, "bf16", 8)


def test_a_write_over_what_another_thread_wrote_is_a_race() -> None:
    memory = written()
    memory.store(by(), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after write\)"):
        memory.store(by(3), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_a_write_over_what_another_warp_read_is_a_race() -> None:
    memory = written()
    memory.barrier()
    memory.load(by(1), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after read\).*warp 1 lane 0 read"):
        memory.store(by(2), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.barrier()
    memory.store(by(2), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_a_write_over_what_another_lane_read_is_a_race_even_if_this_lane_read_it_too() -> None:
    memory = written()
    memory.barrier()
    memory.load(by(1), np.zeros(32, np.int64), "bf16", 8)  # all lanes read lane 0's bytes
    with pytest.raises(InterpreterError, match=r"race \(write after read\)"):
        memory.store(by(1, [31]), np.array([0]), np.zeros((1, 8)), "bf16", 8)


def test_a_thread_may_overwrite_what_it_alone_read() -> None:
    memory = written()
    memory.barrier()
    memory.load(by(1), LANES * 16, "bf16", 8)
    memory.store(by(1), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.barrier()
    memory.load(together(1), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after read\)"):
        memory.store(by(1), LANES * 16, np.zeros((32, 8)), "bf16", 8)


def test_two_lanes_that_write_one_byte_in_one_instruction_race() -> None:
    with pytest.raises(InterpreterError, match="two lanes write the same bytes"):
        shared().store(by(), LANES % 31 * 16, np.zeros((32, 8)), "bf16", 8)


def test_an_agent_that_is_a_whole_cta_needs_a_barrier_after_its_own_accesses() -> None:
    memory = shared(1)
    memory.store(together(), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(read after write\)"):
        memory.load(together(), LANES * 16, "bf16", 8)
    memory.barrier()
    memory.load(together(), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after read\)"):
        memory.store(together(), LANES * 16, np.zeros((32, 8)), "bf16", 8)


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
    with pytest.raises(InterpreterError, match=r"CTA 1.*race \(write after write\).*CTA 0 warp 0 lane 0 wrote"):
        memory.store(by(cta=1), base + LANES * 32, np.ones((32, 4)), "f32", 4)
    with pytest.raises(InterpreterError, match=r"CTA 1.*race \(read after write\)"):
        memory.load(by(cta=1), base + LANES * 32, "f32", 4)
    memory.begin_launch()
    memory.load(by(cta=1), base + LANES * 32, "f32", 4)


def test_threads_of_one_cta_need_a_barrier_in_global_memory_too() -> None:
    memory, base, blocks = launched(0)
    memory.load(by(), base + LANES * 32, "f32", 4)
    with pytest.raises(InterpreterError, match="warp 1 lane 0: race"):
        memory.load(by(1), base + LANES * 32, "f32", 4)
    blocks[0].barrier()
    memory.load(by(1), base + LANES * 32, "f32", 4)


# cp.async -------------------------------------------------------------------------------------------------------------


def copying(matrix: tuple[GlobalMemory, int], used: np.ndarray | None = None) -> tuple[SharedMemory, AsyncCopies]:
    """16 rows of 32 bytes by the lanes of warp 0, one group of one copy per lane."""
    memory, base = matrix
    block = shared()
    copies = AsyncCopies(block)
    copies.start(memory, by(), LANES * 16, base + LANES // 2 * 64 + LANES % 2 * 16, 16, used)
    copies.commit(0)
    return block, copies


def test_copied_bytes_land_when_their_group_is_waited_for(matrix: tuple[GlobalMemory, int]) -> None:
    block, copies = copying(matrix)
    assert copies.in_flight(0) == 32
    copies.wait(0, 0)
    assert copies.in_flight(0) == 0
    assert block.load(by(), LANES * 16, "bf16", 8)[3].tolist() == list(range(24 + 8, 24 + 16))


def test_copied_bytes_may_not_be_read_or_written_in_flight(matrix: tuple[GlobalMemory, int]) -> None:
    block, copies = copying(matrix)
    with pytest.raises(InterpreterError, match="in flight: reads what an asynchronous copy of warp 0 lane 5 fills"):
        block.load(by(lanes=[5]), np.array([80]), "bf16", 8)
    with pytest.raises(InterpreterError, match="in flight: writes"):
        block.store(by(lanes=[5]), np.array([80]), np.zeros((1, 8)), "bf16", 8)
    copies.wait(0, 1)  # one group may stay in flight, and it is this one
    with pytest.raises(InterpreterError, match="in flight"):
        block.load(by(lanes=[5]), np.array([80]), "bf16", 8)


def test_a_copy_that_was_not_committed_is_not_waited_for(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    block = shared()
    copies = AsyncCopies(block)
    copies.start(memory, by(), LANES * 16, base + LANES // 2 * 64, 16)
    copies.wait(0, 0)
    with pytest.raises(InterpreterError, match="in flight"):
        block.load(by(), LANES * 16, "bf16", 8)
    copies.wait_all(0)
    block.load(by(), LANES * 16, "bf16", 8)


def test_groups_land_in_order(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    block, copies = copying(matrix)
    copies.commit(0)  # empty
    copies.start(memory, by(), 512 + LANES * 16, base + LANES // 2 * 64, 16)
    copies.commit(0)
    copies.wait(0, 2)
    block.load(by(), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match="in flight"):
        block.load(by(), 512 + LANES * 16, "bf16", 8)
    copies.wait(0, 1)
    with pytest.raises(InterpreterError, match="in flight"):
        block.load(by(), 512 + LANES * 16, "bf16", 8)
    copies.wait(0, 0)
    block.load(by(), 512 + LANES * 16, "bf16", 8)


def test_a_wait_covers_the_waiting_threads_copies_only(matrix: tuple[GlobalMemory, int]) -> None:
    block, copies = copying(matrix)
    copies.commit(1)
    copies.wait(1, 0)
    block.barrier()
    with pytest.raises(InterpreterError, match="in flight"):
        block.load(by(1), LANES * 16, "bf16", 8)
    copies.wait(0, 0, LANES < 16)
    block.barrier()
    block.load(by(1, range(16)), LANES[:16] * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"in flight.*lane 16 fills"):
        block.load(by(1), LANES * 16, "bf16", 8)


def test_other_threads_see_a_copy_after_wait_and_barrier_in_this_order(matrix: tuple[GlobalMemory, int]) -> None:
    block, copies = copying(matrix)
    block.barrier()
    copies.wait(0, 0)
    with pytest.raises(InterpreterError, match=r"race \(read after write\)"):
        block.load(by(1), LANES * 16, "bf16", 8)
    block.barrier()
    block.load(by(1), LANES * 16, "bf16", 8)


def test_a_copy_into_bytes_that_are_still_read_is_a_race(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    block, copies = copying(matrix)
    copies.wait(0, 0)
    block.barrier()
    block.load(by(1), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after read\)"):
        copies.start(memory, by(), LANES * 16, base + LANES // 2 * 64, 16)


def test_bytes_past_src_size_are_zero_and_not_read(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    block = shared()
    copies = AsyncCopies(block)
    used = np.where(LANES < 16, 16, np.where(LANES == 16, 6, 0))
    copies.start(memory, by(), LANES * 16, base + np.minimum(LANES, 17) * 64, 16, used - (LANES == 16) * 6)
    copies.commit(0)
    copies.start(memory, by(lanes=[16]), np.array([2048]), np.array([base + 32]), 16, np.array([6]))
    copies.commit(0)
    copies.wait(0, 0)
    loaded = block.load(by(), LANES * 16, "bf16", 8)
    assert loaded[1].tolist() == list(range(24, 32))
    assert not loaded[16:].any()
    assert block.load(by(lanes=[16]), np.array([2048]), "bf16", 8).tolist() == [[16, 17, 18, 0, 0, 0, 0, 0]]
    assert block.load_any(by(lanes=[20]), np.array([320]), 2, 8)[1] == "zero"
    assert not block.load(by(lanes=[20]), np.array([320]), "f32", 4).any()


def test_src_size_past_the_edge_is_out_of_bounds(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    with pytest.raises(InterpreterError, match="lane 30: out of bounds"):
        AsyncCopies(shared()).start(memory, by(lanes=[4, 30]), np.array([0, 16]), np.array([base, base + 48]), 16)


def test_a_copy_of_what_was_never_written_is_an_error() -> None:
    memory = GlobalMemory()
    base = memory.allocate("c", 1, 8, 8, "bf16")
    for used in (None, np.array([4])):
        with pytest.raises(InterpreterError, match="uninitialised"):
            AsyncCopies(shared()).start(memory, by(lanes=[0]), np.array([0]), np.array([base]), 16, used)


@pytest.mark.parametrize("used", [None, np.array([16, 0])])
def test_both_addresses_of_a_copy_need_its_alignment(matrix: tuple[GlobalMemory, int], used: np.ndarray | None) -> None:
    memory, base = matrix
    for off_shared, off_global in ((8, 0), (0, 8)):
        with pytest.raises(InterpreterError, match="lane 1: misaligned"):
            shared_rows, global_rows = np.array([0, 16 + off_shared]), np.array([base, base + 16 + off_global])
            AsyncCopies(shared()).start(memory, by(lanes=[0, 1]), shared_rows, global_rows, 16, used)


# The async proxy ------------------------------------------------------------------------------------------------------


def read_by_tma(memory: SharedMemory, address: int = 0) -> None:
    memory.open_read(together(), np.array([address]), "bf16", 8)


@pytest.mark.parametrize("fenced_at", [None, "before the wait", "after the barrier"])
def test_what_cp_async_copied_is_hidden_without_a_fence_between_wait_and_barrier(
    matrix: tuple[GlobalMemory, int], fenced_at: str | None
) -> None:
    """cp.async writes as the threads do, not by the async proxy (PTX ISA, "cp.async", "Async proxy")."""
    memory, copies = copying(matrix)
    if fenced_at == "before the wait":
        memory.fence_proxy(by())
    copies.wait(0, 0)
    memory.barrier()
    if fenced_at == "after the barrier":
        memory.fence_proxy(by())
    with pytest.raises(InterpreterError, match=r"not visible to the async proxy: reads what warp 0 lane 0 wrote"):
        read_by_tma(memory)


def test_what_cp_async_copied_is_shown_by_a_fence_between_wait_and_barrier(matrix: tuple[GlobalMemory, int]) -> None:
    memory, copies = copying(matrix)
    copies.wait(0, 0)
    memory.fence_proxy(by())
    memory.barrier()
    read_by_tma(memory)


@pytest.mark.parametrize("is_fenced", [False, True])
def test_tma_overwrites_what_threads_wrote_only_behind_their_fence(is_fenced: bool) -> None:
    memory = written()
    clock = memory.clocks.add_source("TMA")
    if is_fenced:
        memory.fence_proxy(by())
    memory.barrier()
    codes, payload = np.zeros((1, 16), np.uint8), np.zeros((1, 16))
    if is_fenced:
        memory.start_copy(together(1), np.array([0]), codes, payload, clock)
        return
    with pytest.raises(InterpreterError, match=r"not visible to the async proxy: overwrites what warp 0 lane 0 wrote"):
        memory.start_copy(together(1), np.array([0]), codes, payload, clock)


def test_copies_land_where_they_began_wherever_shared_memory_begins(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = SharedMemory(1, 4096, origin=512), matrix[1]
    copies = AsyncCopies(memory)
    copies.start(matrix[0], by(lanes=[0]), np.array([512]), np.array([base]), 16)
    copies.wait_all(0)
    assert memory.load(by(lanes=[0]), np.array([512]), "bf16", 8).tolist() == [list(range(8))]
    with pytest.raises(InterpreterError, match=r"out of bounds.*address 0x0\b"):
        memory.load(by(lanes=[0]), np.array([0]), "bf16", 8)


def test_a_race_names_both_accesses_and_what_would_order_them() -> None:
    class Second(NamedOp):
        def describe(self) -> str:
            return "the other op"

    access = by(1)
    access.op = Second()
    memory = written()
    with pytest.raises(
        InterpreterError, match=r"^the other op.*wrote, with no barrier.* by the op; put a barrier that"
    ):
        memory.store(access, LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.barrier()
    memory.load(by(), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"^the other op.*read, with no barrier.* by the op; put a barrier that"):
        memory.store(access, LANES * 16, np.zeros((32, 8)), "bf16", 8)


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
            InterpreterError, match=r"race \(write after read\): writes what CTA 0 warp [12] lane 0 read"
        ):
            memory.store(by(3, lanes), rows, values, "bf16", 8)
        clocks.barrier(ordered)
    memory.store(by(3, lanes), rows, values, "bf16", 8)
