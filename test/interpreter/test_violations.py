"""Each broken rule is found and named: the op, who ran it, and the rule."""

import numpy as np
import pytest
from gemm_programs import edited
from support import integer_matrix

from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret


def inputs(m=40, n=40, k=136, padding=8):
    rng = np.random.default_rng(0)
    return {
        "a": integer_matrix(rng, m, k, padding),
        "b": integer_matrix(rng, n, k, padding),
        "d": integer_matrix(rng, m, n, padding),
        "bias": rng.integers(-5, 6, n),
    }


def found(text, message, seeds=(0, 1), **shape):
    for seed in seeds:
        with pytest.raises(InterpreterError, match=message):
            interpret(text, inputs(**shape), seed=seed, domain="exact")


def wrong(text, **shape):
    """The fault shows as wrong numbers."""
    given = inputs(**shape)
    assert (interpret(text, given, domain="exact") != given["a"] @ given["b"].T + given["bias"]).any()


def right(text, **shape):
    """No fault."""
    given = inputs(**shape)
    np.testing.assert_array_equal(interpret(text, given, domain="exact"), given["a"] @ given["b"].T + given["bias"])


# Level smem -----------------------------------------------------------------------------------------------------------


def test_reading_a_buffer_before_the_barrier_is_a_race():
    found(edited("smem", ("sm.barrier // full", "")), r"tile\.mma .*CTA \d.*race \(read after write\)")


def test_refilling_a_buffer_before_the_barrier_is_a_race():
    found(edited("smem", ("sm.barrier // empty", "")), r"sm\.copy .*race \(write after read\)")


def test_reading_a_buffer_that_nobody_wrote_is_found():
    found(edited("smem", ("sm.copy %bt to %bs : !window, !buffer", "")), r"tile\.mma .*uninitialised.*byte 0 of %1")


def test_a_wrong_trip_count_shows_as_wrong_numbers():
    wrong(edited("smem", ("scf.for %k = %c0 to %K", "scf.for %k = %c32 to %K")))


def test_buffers_that_overlap_are_refused():
    text = edited(
        "smem", ("%as = sm.alloc :", "%as = sm.alloc at 0 :"), ("%bs = sm.alloc :", "%bs = sm.alloc at 1024 :")
    )
    found(text, r"sm\.alloc at 1024 .*bytes \[1024, 3072\) overlaps %\d at \[0, 2048\).*\[buffers-overlap\]")


def test_a_buffer_past_the_launchs_shared_memory_is_refused():
    text = edited("smem", ("threads(128)", "threads(128) shared_memory(4000)"))
    found(text, r"4096.*4000.*\[smem-outside\]")


# Level cta ------------------------------------------------------------------------------------------------------------


def test_work_tiles_that_do_not_cover_d_are_found():
    found(edited("cta", ("persistent", "one_shot")), r"0, 32.*\[d-unwritten\]", m=40, n=100)


def test_a_work_item_without_a_step_of_k_is_refused():
    clause = "by [32, 32] k(%k0 to %k1 of %c0 by 32) split 2 (%p of %q at %s) order"
    found(edited("cta", ("by [32, 32] order", clause)), r"\[work-k-empty\]")


def test_two_ctas_that_write_the_same_tile_race():
    text = edited("cta", ("tile.store %sum into %d[%m, %n]", "tile.store %sum into %d[%c0, %c0]"))
    found(text, r"tile\.store .*race \(write after write\).*nothing orders")


def test_a_launch_of_no_ctas_computes_nothing():
    found(edited("cta", ("grid(%ctas)", "grid(%c0)")), r"0, 0.*\[d-unwritten\]")


@pytest.mark.parametrize("threads", [0, 48, 2048])
def test_a_cta_of_impossible_size_is_refused(threads):
    found(edited("cta", ("threads(128)", f"threads({threads})")), f"{threads} threads per CTA")


# Level pipelined: the ring --------------------------------------------------------------------------------------------

WAIT = "%read, %ar, %br = sm.consumer_wait %ring[%r, %rp]"
RELEASE = "sm.consumer_release %ring, %read : !ring, !sm.slot<read>"
COMMIT = "sm.producer_commit %ring, %write0 : !ring, !sm.slot<write>"


def test_a_wait_without_a_commit_is_a_deadlock():
    text = edited("pipelined", ("scf.for %k = %c0 to %c64", "scf.for %k = %c0 to %c0"))
    found(text, r"deadlock.*\n.*CTA \d waits at .*sm\.consumer_wait.*slot 0 phase 0 that nobody commits")


def test_an_acquire_of_a_slot_that_is_not_released_is_a_deadlock():
    text = edited("pipelined", (RELEASE, ""))
    found(text, r"deadlock.*\n.*sm\.producer_acquire.*slot 0 phase 1 that nobody releases")


def test_a_stage_index_out_of_ring_order_is_found():
    text = edited("pipelined", (WAIT, WAIT.replace("%r,", "%c1,")))
    found(text, r"waits for slot 1 phase 0.*slot 0 phase 0.*\[ring-order\]")


def test_a_wrong_phase_is_found():
    text = edited("pipelined", (WAIT, WAIT.replace("%rp]", "%c0]")))
    found(text, r"waits for slot 0 phase 0.*slot 0 phase 1.*\[ring-order\]")


def test_a_slot_read_after_its_release_is_found():
    text = edited("pipelined", (RELEASE, ""), ("%c2 = tile.mma", f"{RELEASE}\n        %c2 = tile.mma"))
    found(text, r"tile\.mma .*reads slot 0, which is empty; read between its wait and release.*\[slot-use\]")


def test_a_slot_released_twice_is_found():
    found(edited("pipelined", (RELEASE, f"{RELEASE}\n        {RELEASE}")), r"reads slot 0.*empty.*\[slot-use\]")


def test_a_slot_written_after_its_commit_is_found():
    copy = "sm.copy_async %bt0 to %bs0 : !window, !buffer"
    text = edited("pipelined", (copy, ""), (COMMIT, f"{COMMIT}\n        {copy}"))
    found(text, r"sm\.copy_async .*writes slot 0, which is committed.*\[slot-use\]")


def test_a_slot_read_while_it_belongs_to_its_producer_is_found():
    text = edited("pipelined", ("tile.mma tn %ar, %br, %c", "tile.mma tn %as1, %br, %c"))
    found(text, r"reads slot 2.*committed.*\[slot-use\]")


def test_a_copy_left_out_is_an_uninitialised_read():
    text = edited("pipelined", ("sm.copy_async %bt1 to %bs1 : !window, !buffer", ""))
    found(text, r"tile\.mma .*uninitialised.*%ring buffer 1")


def test_a_copy_left_out_does_not_show_what_an_earlier_round_left():
    """Later rounds leave B out: the slot still holds the bytes of the first round, which must not be read."""
    guarded = """%late = arith.cmpi uge, %k, %c64 : index
        scf.if %late {
        } else {
          sm.copy_async %bt1 to %bs1 : !window, !buffer
        }"""
    text = edited("pipelined", ("sm.copy_async %bt1 to %bs1 : !window, !buffer", guarded))
    found(text, r"tile\.mma .*uninitialised", m=8, n=8, k=256)


def test_a_ring_not_drained_at_the_kernels_end_is_found():
    text = edited("pipelined", ("sm.producer_tail %ring : !ring", ""))
    found(text, r"kernel ends while slot \d of the ring is committed.*\[ring-drained-before\]", m=8, n=8)


def test_draining_while_a_slot_is_written_is_found():
    text = edited("pipelined", (COMMIT, ""), ("%c0 to %K step %c32\n", "%c0 to %c0 step %c32\n"))
    found(text, r"slot 0 .*; commit it .*\[ring-undrained\]")


def test_a_ring_begins_with_its_first_slot():
    step = "%w_, %wp_ = sm.ring_advance %ring[%c0, %c0] : !ring\n      %zero = tile.splat"
    text = edited("pipelined", ("%zero = tile.splat", step), ("(%w = %c0, %wp = %c0)", "(%w = %w_, %wp = %wp_)"))
    found(text, r"acquires slot 1 phase 0.*slot 0 phase 0.*\[ring-order\]")


@pytest.mark.parametrize("start, ok", [("%c0, %c0", True), ("%w_, %wp_", True), ("%c1, %c1", False)])
def test_a_drained_ring_begins_anew_or_goes_on_where_it_stopped(start, ok):
    once = """%slot, %spare_a, %spare_b = sm.producer_acquire %ring[%c0, %c0] : !ring
      sm.producer_commit %ring, %slot : !ring, !sm.slot<write>
      %w_, %wp_ = sm.ring_advance %ring[%c0, %c0] : !ring
      sm.producer_tail %ring : !ring
      %zero = tile.splat"""
    index, phase = start.split(", ")
    text = edited(
        "pipelined",
        ("%zero = tile.splat", once),
        ("(%w = %c0, %wp = %c0)", f"(%w = {index}, %wp = {phase})"),
        ("%r = %c0, %rp = %c0", f"%r = {index}, %rp = {phase}"),
    )
    if ok:
        right(text, m=8, n=8)
    else:
        found(text, r"acquires slot 1 phase 1.*\[ring-order\]", m=8, n=8)


# Levels atoms and epilogue --------------------------------------------------------------------------------------------


def test_reading_what_cp_async_has_in_flight_is_found():
    found(edited("atoms", ("sm.cp_async_wait 1", "sm.cp_async_wait 2")), r"sm\.ldmatrix .*warp \d.*in flight")


def test_a_wait_alone_does_not_show_other_threads_copies():
    found(edited("atoms", ("sm.barrier // full", "")), r"race \(|in flight|uninitialised")


def test_a_dropped_commit_lets_a_wait_cover_too_few_groups():
    found(edited("atoms", ("sm.cp_async_commit", "")), "in flight|uninitialised")


def test_a_wrong_stage_index_is_found():
    text = edited("atoms", ("%ar, %br = sm.ring_slot %ring[%r]", "%ar, %br = sm.ring_slot %ring[%w]"))
    found(text, r"in flight|race \(|uninitialised")


def test_a_slot_past_the_ring_is_found():
    found(
        edited("atoms", ("sm.ring_slot %ring[%r]", "sm.ring_slot %ring[%c32]")),
        r"slot 32 of a ring of 3.*\[slot-index\]",
    )


def test_a_wrong_tv_layout_shows_as_wrong_numbers():
    wrong(
        edited(
            "atoms", ("#tv_b = #tile.tv<threads (4,8,2,2):(64,1,0,8)", "#tv_b = #tile.tv<threads (4,8,2,2):(64,1,8,0)")
        )
    )


def test_a_wrong_tv_layout_of_the_accumulator_shows_as_wrong_numbers():
    wrong(edited("epilogue", ("values ((2,2),1,2):((32,8),32,512)", "values ((2,2),1,2):((8,32),32,512)")))


def test_values_out_of_the_instructions_order_show_as_wrong_numbers():
    wrong(edited("atoms", ("((2,2,2),1,1):((32,8,256),32,512)", "((2,2,2),1,1):((32,256,8),32,512)")))


def test_a_swizzle_on_one_side_only_shows_as_wrong_numbers():
    text = edited(
        "epilogue",
        (
            "!rows = ",
            "!plain = memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, #gpu.address_space<workgroup>>\n!rows = ",
        ),
        (
            "%row = sm.load_shared %scratch",
            "%unswizzled = sm.ring_reuse %ring : !ring to !plain\n%row = sm.load_shared %unswizzled",
        ),
        ('"ld.shared.16" : !buffer', '"ld.shared.16" : !plain'),
    )
    wrong(text)


def test_a_copy_whose_rows_are_misaligned_is_found():
    found(edited("atoms"), r"sm\.cp_async .*misaligned: 16 bytes", padding=4)


def test_an_epilogue_that_overtakes_the_stores_to_its_scratch_races():
    found(edited("epilogue", ("sm.barrier // staged", "")), r"(load|store)_shared .*race \(")


def test_a_refill_that_overtakes_the_reads_of_the_scratch_races():
    """Where a thread copies other bytes than it reads: with the same ones its own order would do."""
    threads = "#tile.tv<threads (4,8,4):(256,4,1), values (8,1,1):(32,32,1024)>"
    text = edited("epilogue", ("sm.barrier // stored", ""), ("<cp.async.16, #tv_rows>", f"<cp.async.16, {threads}>"))
    found(text, r"race \(|in flight", m=100, n=104, k=40)


def test_reuse_of_a_ring_with_copies_in_flight_is_found():
    found(edited("epilogue", ("sm.cp_async_wait 0\n", "\n")), r"\[copy-in-flight\]", k=8)


def test_stores_of_vectors_to_misaligned_rows_are_found():
    given = inputs()
    given["d"] = integer_matrix(np.random.default_rng(0), 40, 40, padding=4)
    with pytest.raises(
        InterpreterError,
        match=r"sm\.store_global .*88 bytes apart: misaligned for stores of 16 bytes.*\[access-misaligned\]",
    ):
        interpret(edited("epilogue"), given, domain="exact")


def test_a_part_that_its_thread_does_not_hold_is_refused():
    tv = "#tile.tv<threads (4,16,2):(128,1,0), values (8):(16)>"
    part = f"%p = sm.extract %sum[0, 0] : !c to !sm.fragment<16x32xf32, {tv}>\n      %y = sm.map"
    found(
        edited("epilogue", ("%y = sm.map", part)), r"sm\.extract .*thread \d+ does not hold element.*\[extract-held\]"
    )


def test_a_copy_whose_runs_are_not_contiguous_is_refused():
    tv = "#tile.tv<threads (4,32):(8,32), values (8,1,1):(1,1,1)>"
    text = edited("atoms", ("<cp.async.16, #tv_rows>", f"<cp.async.16, {tv}>"))
    found(text, r"sm\.cp_async .*global memory.*\[copy-contiguous\]")


def test_an_mma_whose_fragments_do_not_fit_its_warps_is_refused():
    found(
        edited("atoms", ("atoms [2, 2, 1]", "atoms [1, 2, 1]")),
        r"sm\.mma_sync .*a thread holds 8 values.*\[mma-values-held\]",
    )


def test_a_barrier_in_divergent_code_is_found():
    guarded = """
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %c1_i32 = arith.constant 1 : i32
    %first = arith.cmpi ult, %tid, %c1_i32 : i32
    scf.if %first {
      sm.barrier
    }
    tile.work_tiles"""
    found(edited("atoms", ("    tile.work_tiles", guarded)), r"\[1, 2,.*\[barrier-divergent\]")


@pytest.mark.parametrize("op", ["sm.ldmatrix", "sm.mma_sync"])
def test_a_warps_instruction_in_divergent_code_is_found(op):
    tid = "%tid = nvvm.read.ptx.sreg.tid.x : i32\n    %one = arith.constant 1 : i32\n"
    first = f"{tid}    %first = arith.cmpi ult, %tid, %one : i32\n    tile.work_tiles"
    loads = {
        "sm.ldmatrix": '%s = sm.ldmatrix %ar[0, 0] by "ldmatrix.x4" : !buffer to !a',
        "sm.mma_sync": "%s = sm.mma_sync %a0, %b0, %c by #mma : !a, !b, !c",
    }
    branch = f"scf.if %first {{\n {loads[op]}\n }}\n %half = sm.mma_sync"
    text = edited("atoms", ("    tile.work_tiles", first), ("%half = sm.mma_sync", branch))
    found(text, rf"{op} .*all threads must execute it together; lanes \[1, 2, ")


def test_a_launch_with_more_shared_memory_than_the_target_has_is_refused():
    text = edited("smem", ("threads(128)", "threads(128) shared_memory(300000)"))
    found(text, r"300000 bytes of shared memory; a CTA has 166912 on sm_80.*\[smem-of-launch\]")
