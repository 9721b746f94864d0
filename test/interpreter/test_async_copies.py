"""The rules of asynchronous copies in memory, one planted fault each: cp.async, and the async proxy."""

import numpy as np
import pytest
from memories import LANES, by, matrix_of_rows, shared, together, written

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.copies import AsyncCopies
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.numbers.accesses import Access


@pytest.fixture
def matrix() -> tuple[GlobalMemory, int]:
    return matrix_of_rows()


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
    with pytest.raises(
        InterpreterError, match=r"in flight: reads what an asynchronous copy of warp 0 lane 5 fills.*\[copy-in-flight\]"
    ):
        block.load(by(lanes=[5]), np.array([80]), "bf16", 8)
    with pytest.raises(InterpreterError, match=r"writes.*\[copy-in-flight\]"):
        block.store(by(lanes=[5]), np.array([80]), np.zeros((1, 8)), "bf16", 8)
    copies.wait(0, 1)  # one group may stay in flight, and it is this one
    with pytest.raises(InterpreterError, match=r"\[copy-in-flight\]"):
        block.load(by(lanes=[5]), np.array([80]), "bf16", 8)


def test_a_copy_that_was_not_committed_is_not_waited_for(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    block = shared()
    copies = AsyncCopies(block)
    copies.start(memory, by(), LANES * 16, base + LANES // 2 * 64, 16)
    copies.wait(0, 0)
    with pytest.raises(InterpreterError, match=r"\[copy-in-flight\]"):
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
    with pytest.raises(InterpreterError, match=r"\[copy-in-flight\]"):
        block.load(by(), 512 + LANES * 16, "bf16", 8)
    copies.wait(0, 1)
    with pytest.raises(InterpreterError, match=r"\[copy-in-flight\]"):
        block.load(by(), 512 + LANES * 16, "bf16", 8)
    copies.wait(0, 0)
    block.load(by(), 512 + LANES * 16, "bf16", 8)


def test_a_wait_covers_the_waiting_threads_copies_only(matrix: tuple[GlobalMemory, int]) -> None:
    block, copies = copying(matrix)
    copies.commit(1)
    copies.wait(1, 0)
    block.barrier()
    with pytest.raises(InterpreterError, match=r"\[copy-in-flight\]"):
        block.load(by(1), LANES * 16, "bf16", 8)
    copies.wait(0, 0, LANES < 16)
    block.barrier()
    block.load(by(1, range(16)), LANES[:16] * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"reads.*warp 0 lane 16.*\[copy-in-flight\]"):
        block.load(by(1), LANES * 16, "bf16", 8)


def test_other_threads_see_a_copy_after_wait_and_barrier_in_this_order(matrix: tuple[GlobalMemory, int]) -> None:
    block, copies = copying(matrix)
    block.barrier()
    copies.wait(0, 0)
    with pytest.raises(InterpreterError, match=r"race \(read after write\).*\[shared-race\]"):
        block.load(by(1), LANES * 16, "bf16", 8)
    block.barrier()
    block.load(by(1), LANES * 16, "bf16", 8)


def test_a_copy_into_bytes_that_are_still_read_is_a_race(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = matrix
    block, copies = copying(matrix)
    copies.wait(0, 0)
    block.barrier()
    block.load(by(1), LANES * 16, "bf16", 8)
    with pytest.raises(InterpreterError, match=r"race \(write after read\).*\[race-with-read\]"):
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
    with pytest.raises(InterpreterError, match=r"lane 30: out of bounds.*\[outside-matrices\]"):
        AsyncCopies(shared()).start(memory, by(lanes=[4, 30]), np.array([0, 16]), np.array([base, base + 48]), 16)


def test_a_copy_of_what_was_never_written_is_an_error() -> None:
    memory = GlobalMemory()
    base = memory.allocate("c", 1, 8, 8, "bf16")
    for used in (None, np.array([4])):
        with pytest.raises(InterpreterError, match=r"uninitialised.*\[global-uninitialised\]"):
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
def test_what_cp_async_copied_is_hidden_without_a_fence_between_wait_and_read(
    matrix: tuple[GlobalMemory, int], fenced_at: str | None
) -> None:
    """cp.async writes as the threads do, not by the async proxy (PTX ISA, "cp.async", "Async proxy")."""
    memory, copies = copying(matrix)
    if fenced_at == "before the wait":
        memory.fence_proxy(by())
    copies.wait(0, 0)
    memory.barrier()
    if fenced_at == "after the barrier":
        memory.fence_proxy(together(1))  # which warp 0 does not know
    with pytest.raises(
        InterpreterError, match=r"not visible to the async proxy: reads what warp 0 lane 0 wrote.*\[async-proxy\]"
    ):
        read_by_tma(memory)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_cp_async_copied_is_shown_by_a_fence_between_wait_and_read(
    matrix: tuple[GlobalMemory, int], is_late: bool
) -> None:
    memory, copies = copying(matrix)
    copies.wait(0, 0)
    if is_late:
        memory.barrier()
    memory.fence_proxy(together())
    if not is_late:
        memory.barrier()
    read_by_tma(memory)


@pytest.mark.parametrize(
    ("fence", "barrier", "reader", "is_shown"),
    [
        (together(1), False, together(1), True),
        (together(1), False, by(1, [3]), True),
        (by(1, [3]), False, by(1, [3]), True),
        (by(1, [3]), False, by(1, [4]), False),
        (by(1, [3]), False, together(1), False),
        (by(1, [3]), True, by(1, [4]), True),
        (by(1, [3]), True, together(2), True),
        (together(2), False, together(1), False),
    ],
)
def test_a_fence_after_the_barrier_counts_on_the_path_to_the_read(
    fence: Access, barrier: bool, reader: Access, is_shown: bool
) -> None:
    """PTX ISA, "Proxy-preserved base causality order": any thread on the path may execute it."""
    memory = written()
    memory.barrier()
    memory.fence_proxy(fence)
    if barrier:
        memory.barrier()
    if is_shown:
        memory.open_read(reader, np.array([0]), "bf16", 8)
        return
    with pytest.raises(InterpreterError, match=r"wrote, with no proxy fence in between.*\[async-proxy\]"):
        memory.open_read(reader, np.array([0]), "bf16", 8)


def test_a_fence_before_the_write_is_not_on_the_path() -> None:
    memory = shared()
    memory.fence_proxy(together(1))
    memory.store(by(), LANES * 16, np.zeros((32, 8)), "bf16", 8)
    memory.fence_proxy(together(1))  # before the barrier, so it does not know the writes of warp 0
    memory.barrier()
    with pytest.raises(InterpreterError, match=r"no proxy fence in between.*\[async-proxy\]"):
        memory.open_read(together(1), np.array([0]), "bf16", 8)


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
    with pytest.raises(
        InterpreterError, match=r"not visible to the async proxy: overwrites what warp 0 lane 0 wrote.*\[async-proxy\]"
    ):
        memory.start_copy(together(1), np.array([0]), codes, payload, clock)


def test_copies_land_where_they_began_wherever_shared_memory_begins(matrix: tuple[GlobalMemory, int]) -> None:
    memory, base = SharedMemory(1, 4096, origin=512), matrix[1]
    copies = AsyncCopies(memory)
    copies.start(matrix[0], by(lanes=[0]), np.array([512]), np.array([base]), 16)
    copies.wait_all(0)
    assert memory.load(by(lanes=[0]), np.array([512]), "bf16", 8).tolist() == [list(range(8))]
    with pytest.raises(InterpreterError, match=r"out of bounds.*address 0x0\b.*\[out-of-bounds\]"):
        memory.load(by(lanes=[0]), np.array([0]), "bf16", 8)


@pytest.mark.parametrize("writes", [1, 300])
def test_a_fence_shows_all_that_its_agent_has_written_and_nothing_of_others(writes: int) -> None:
    memory = shared()
    for row in range(writes):
        memory.store(by(0, [0]), np.array([4 * row]), np.array([[1.0]]), "f32")
    memory.store(by(1, [0]), np.array([1600]), np.array([[1.0]]), "f32")
    memory.fence_proxy(together(0))
    memory.barrier()
    memory.open_read(together(2), 4 * np.arange(writes), "f32", 1)
    with pytest.raises(InterpreterError, match=r"no proxy fence in between.*\[async-proxy\]"):
        memory.open_read(together(2), np.array([1600]), "f32", 1)
