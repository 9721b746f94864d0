"""Level nvvm for sm_90a: mbarriers, TMA and wgmma by warps, and the faults that are caught in them."""

import ml_dtypes
import numpy as np
import pytest
from compiled import aligned
from hopper_nvvm_program import edited
from one_cta import run_kernel
from support import cast

from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret


def inputs(trips, tiles=1, k_rest=0):
    rng = np.random.default_rng(0)
    m, k = 64 * tiles, 64 * trips - k_rest
    return {"a": aligned(rng, m, k), "b": aligned(rng, 16, k), "d": np.zeros((m, 16))}


def run(text, trips, seed=0, **shape):
    given = inputs(trips, **shape)
    return interpret(text, given, sms=2, seed=seed, domain="exact"), given["a"] @ given["b"].T


def caught(message, *replacements, trips=5, seeds=(0, 1, 2)):
    """The fault is found under every order of agents."""
    for seed in seeds:
        with pytest.raises(InterpreterError, match=message):
            run(edited(*replacements), trips, seed)


def wrong(*replacements):
    """The fault shows as wrong numbers."""
    found, expected = run(edited(*replacements), 2)
    assert (found != expected).any()


@pytest.mark.parametrize("trips", [1, 2, 5])
def test_the_program_computes_the_product_under_every_order(trips):
    for seed in range(5):
        np.testing.assert_array_equal(*run(edited(), trips, seed, tiles=3, k_rest=24))


def test_floats_are_multiplied_as_exactly_as_integers_are():
    given = inputs(3)
    np.testing.assert_array_equal(interpret(edited(), cast(given, ml_dtypes.bfloat16)), given["a"] @ given["b"].T)


# mbarriers ------------------------------------------------------------------------------------------------------------

WAIT_EMPTY = "nvvm.mbarrier.try_wait.parity %mine_empty, %before, %ticks : !llvm.ptr<3>, i32, i32"
WAIT_FULL = "nvvm.mbarrier.try_wait.parity %mine_full, %phase, %ticks : !llvm.ptr<3>, i32, i32"
ARRIVE = "%state = nvvm.mbarrier.arrive %mine_empty : !llvm.ptr<3> -> i64"
SPEAKS = "%speaks = arith.cmpi eq, %lane_in_group, %c0 : i32"


def test_an_arrival_left_out_is_a_deadlock_that_names_warps_roles_and_phases():
    caught(
        r"(?s)deadlock, level nvvm.*warp 0 \(producer\) waits at `nvvm\.mbarrier\.try_wait.*for phase parity 0: phase "
        r"0 \(parity 0\) of the mbarrier at 0x5010 lacks 1 of 1 arrivals.*warp 5 \(consumer\) waits .*for phase parity "
        r"1: phase 1 \(parity 1\) of the mbarrier at 0x5000 lacks 1 of 1 arrivals",
        (ARRIVE, ""),
    )


def test_an_arrival_of_every_lane_is_found():
    caught(
        r"mbarrier\.arrive .*arrives 32 times more at the mbarrier at 0x50\d0.*\[too-many-arrivals\]",
        (SPEAKS, SPEAKS.replace("eq", "uge")),
    )


def test_a_wait_for_a_full_slot_left_out_is_found():
    caught(r"(wgmma\.mma_async|bulk\.tensor).*warp \d \(\w+\): (in flight|race)", (WAIT_FULL, ""))


def test_a_wait_for_an_empty_slot_left_out_is_found():
    caught(r"bulk\.tensor.*(race|in flight)|arrives once more", (WAIT_EMPTY, ""))


def test_a_wait_for_the_wrong_phase_is_found():
    caught(
        r"wgmma\.mma_async .*(in flight|race|uninitialised)|deadlock", (WAIT_FULL, WAIT_FULL.replace("%phase", "%c1"))
    )


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (8192, r"land on the mbarrier|bytes more than were expected|in flight: reads"),
        (10256, r"(?s)deadlock.*lacks 16 bytes"),
    ],
)
def test_wrong_expected_bytes_are_found(expected, message):
    caught(message, ("arith.constant 10240", f"arith.constant {expected}"))


def test_a_wrong_count_of_arrivals_is_found():
    init = "nvvm.mbarrier.init %empty, %c1"
    caught(r"(?s)deadlock.*lacks 1 of 2 arrivals", (init, init.replace("%c1", "%c2")))


def test_an_mbarrier_that_nobody_initialised_is_found():
    caught(
        r"no mbarrier has been initialised at shared memory address 0x5018.*\[mbarrier-uninitialised\]",
        ("nvvm.mbarrier.init %empty1, %c1 :", "//"),
    )


def test_an_mbarrier_used_without_a_barrier_after_its_initialisation_is_found():
    caught(r"race: uses the mbarrier at 0x5000, which warp 0 initialised|no mbarrier has been", ("nvvm.barrier0", ""))


def test_an_mbarrier_that_tma_may_not_see_is_found():
    caught(r"put nvvm\.fence\.mbarrier\.init after.*\[mbarrier-init-fence\]", ("nvvm.fence.mbarrier.init", ""))


def test_an_mbarrier_initialised_by_every_lane_is_found():
    caught(r"32 lanes initialise an mbarrier.*\[one-thread\]", ("%first = arith.cmpi eq", "%first = arith.cmpi uge"))


def test_a_buffer_over_an_mbarrier_is_found():
    caught(
        r"bulk\.tensor.*writes the bytes of the mbarrier at 0x50\d\d.*\[mbarrier-bytes\]",
        ("shared_memory(20512)", "shared_memory(24576)"),
        ("%smem_b = llvm.getelementptr %smem[16384]", "%smem_b = llvm.getelementptr %smem[18432]"),
    )


# TMA ------------------------------------------------------------------------------------------------------------------


def test_a_box_started_by_every_lane_is_found():
    one = "scf.if %first {\n          %w"
    caught(r"(32 lanes start a copy by TMA|arrives 32 times)", (one, "scf.if %is_producer {\n          %w"))


def test_a_box_at_a_misaligned_address_is_found():
    caught(
        r"TMA needs a multiple of 128.*\[box-address\]",
        ("%smem_b = llvm.getelementptr %smem[16384]", "%smem_b = llvm.getelementptr %smem[16400]"),
    )


def test_coordinates_in_the_wrong_order_show_as_wrong_numbers():
    wrong(("%map_b, %mine_full, box[%column, %c0]", "%map_b, %mine_full, box[%c0, %column]"))


def test_a_box_in_another_slot_is_found():
    caught(
        r"race|in flight|uninitialised",
        ("%to_b = llvm.getelementptr %smem_b[%slot, 0]", "%to_b = llvm.getelementptr %smem_b[%before, 0]"),
    )


# wgmma ----------------------------------------------------------------------------------------------------------------

COMMIT = "nvvm.wgmma.commit.group.sync.aligned"
WAIT_GROUP = "nvvm.wgmma.wait.group.sync.aligned 0"


def test_a_slot_released_before_the_wait_is_found_with_both_ops():
    caught(
        r"bulk\.tensor.*race \(write after read\): writes what wgmma of warpgroup 1 may still read by `.*wgmma"
        r".*\[race-with-open-read\]",
        (WAIT_GROUP, ""),
    )


def test_a_commit_left_out_is_found():
    caught(r"may still read|group 0 .*\[accumulator-in-flight\]", (COMMIT, ""))
    caught(r"group 0.*\[accumulator-in-flight\]", (COMMIT, ""), trips=1)


def test_a_fence_left_out_is_found():
    caught(r"\[ptx-wgmma-fence\]", ("nvvm.wgmma.fence.aligned", ""))


def test_accumulators_read_while_pending_are_found():
    caught(
        r"wgmma group \d .*\[accumulator-pending\]",
        ("%sum = sm.ptx_wgmma_wait 0, %all : !acc", ""),
        ("%all,", "%sum,"),
    )


def test_a_wait_that_leaves_the_group_in_flight_hands_nothing_on():
    caught(
        r"sm\.ptx_wgmma_wait 1.*group 0 .*\[accumulator-in-flight\]",
        (WAIT_GROUP, ""),
        ("sm.ptx_wgmma_wait 0", "sm.ptx_wgmma_wait 1"),
        trips=1,
    )


def test_groups_in_flight_at_the_end_are_found():
    wgmma = "%tail = nvvm.wgmma.mma_async %fields, %fields, %sum, <m = 64, n = 16, k = 16>, D[<f32>, <one>], "
    again = f"nvvm.wgmma.fence.aligned\n{wgmma}A[<bf16>, <one>, <row>], B[<bf16>, <one>, <col>] : !acc -> !acc"
    caught(r"ends with 1 groups of wgmma in flight.*\[wgmma-unwaited\]", ("} {roles", f"{again}\n}} {{roles"), trips=1)


@pytest.mark.parametrize(
    "fields", ["0x4000002000010000", "0x0000004000010000"], ids=["stride of 512 bytes", "no swizzle"]
)
def test_a_wrong_descriptor_shows_as_wrong_numbers(fields):
    wrong(("0x4000004000010000", fields))


def test_an_operand_that_starts_inside_a_swizzles_pattern_is_found():
    """With a swizzle of 64 bytes the third k-slice does."""
    caught(
        r"address 0x\d*40, inside a swizzle's pattern.*\[descriptor-start\]",
        ("0x4000004000010000", "0x8000004000010000"),
    )


def test_a_k_slice_that_starts_elsewhere_shows_as_wrong_numbers():
    wrong(("%by2 = arith.constant 4", "%by2 = arith.constant 2"))


def test_warps_with_different_descriptors_are_found():
    mine = """
          %thirty_two = arith.andi %own, %c32 : i32
          %two = arith.shrui %thirty_two, %c4 : i32
          %by0 = arith.extui %two : i32 to i64"""
    caught(
        r"operands 0x\w+, 0x\w+, where (warp \d(, )?)+ of its warpgroup has 0x.* give them the same operands"
        r".*\[warpgroup-operands\]",
        ("%c64 = arith.constant 64 : i32", "%c64 = arith.constant 64 : i32\n      %c32 = arith.constant 32 : i32"),
        ("%by0 = arith.constant 0 : i64", mine),
    )


def test_wgmma_in_divergent_code_is_refused():
    inside = """
          %in_warp = arith.andi %own, %c31 : i32
          %half = arith.cmpi ult, %in_warp, %c16 : i32
          scf.if %half {
            nvvm.wgmma.fence.aligned
          }"""
    caught(r"\[warp-aligned\]", ("nvvm.wgmma.fence.aligned", inside))


# Registers ------------------------------------------------------------------------------------------------------------


REGISTERS = """
gpu.module @kernels {
  gpu.func @kernel() kernel {
    %c128 = arith.constant 128 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %is_producer = arith.cmpi ult, %tid, %c128 : i32
    scf.if %is_producer {
      nvvm.setmaxregister decrease PRODUCER
    } else {
      nvvm.setmaxregister increase CONSUMER
    }
    gpu.return
  }
}
"""


def set_registers(producer, consumer):
    """Of 384 threads, which enter with 168 each."""
    for seed in range(3):
        text = REGISTERS.replace("PRODUCER", str(producer)).replace("CONSUMER", str(consumer))
        run_kernel(text, [], threads=384, seed=seed)


def test_registers_that_one_role_gives_back_are_there_for_the_others():
    set_registers(40, 232)
    set_registers(24, 240)


def test_more_registers_than_the_cta_has_are_a_deadlock():
    with pytest.raises(InterpreterError, match=r"(?s)deadlock.*for 2304 registers of the CTA, which has"):
        set_registers(40, 240)


@pytest.mark.parametrize(("producer", "consumer"), [(176, 232), (40, 160)])
def test_a_change_of_registers_in_the_wrong_direction_is_refused(producer, consumer):
    with pytest.raises(
        InterpreterError,
        match=r"registers per thread, but each has 168: that is no (in|de)crease.*\[setmaxnreg-action\]",
    ):
        set_registers(producer, consumer)
