"""Roles, mbarriers, TMA and wgmma on the CPU: a GEMM by roles at each level, and the faults that are caught in it."""

import ml_dtypes
import numpy as np
import pytest
from compiled import aligned
from hopper_programs import LEVELS, edited, program
from support import cast

from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

# Work tiles are 128x64, a k-block 64 deep: (M, N, K) of one tile, and of 2 x 2 tiles with ragged edges.
ONE_TILE, RAGGED = (128, 64), (200, 100)


def inputs(m=128, n=64, k=64):
    rng = np.random.default_rng(0)
    return {
        "a": aligned(rng, m, k),
        "b": aligned(rng, n, k),
        "d": aligned(rng, m, n),
        "bias": rng.integers(-5, 6, n),
    }


def run(text, shape, seed=0, sms=1):
    given = inputs(*shape)
    found = interpret(text, given, sms=sms, seed=seed, domain="exact")
    return found, given["a"] @ given["b"].T + given["bias"]


def caught(text, message, shape=(*ONE_TILE, 320), seeds=(0, 1, 2)):
    """The fault is found under every order of agents."""
    for seed in seeds:
        with pytest.raises(InterpreterError, match=message):
            run(text, shape, seed)


def wrong(text, shape=(*ONE_TILE, 320)):
    """The fault shows as wrong numbers."""
    found, expected = run(text, shape)
    assert (found != expected).any()


# Right programs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("level", LEVELS)
def test_each_level_computes_the_gemm_at_any_trip_count(level, trips):
    for seed in range(3):
        np.testing.assert_array_equal(*run(program(level), (*ONE_TILE, 64 * trips), seed))


@pytest.mark.parametrize("sms", [1, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_the_ring_outlives_a_work_tile_and_edges_are_clipped(level, sms):
    for seed in range(3):
        np.testing.assert_array_equal(*run(program(level), (*RAGGED, 200), seed, sms))


def test_floats_are_multiplied_as_exactly_as_integers_are():
    given = inputs(*RAGGED, 136)
    expected = given["a"] @ given["b"].T + given["bias"]
    np.testing.assert_array_equal(
        interpret(program("atoms"), cast(given, ml_dtypes.bfloat16)).astype(np.float64), expected
    )


def test_a_consumer_role_that_is_one_agent_arrives_once_for_each_warpgroup():
    text = edited(
        "atoms",
        ("%zero = sm.splat 0.0 : !c", "%zero = tile.splat 0.0 : !acc"),
        (
            "%p0 = sm.wgmma tn %a0, %b0, %zero by #mma : !buffer_a, !buffer_b, !c -> !pending",
            MMA.format("%p0", "0", "%zero"),
        ),
        (
            "%p1 = sm.wgmma tn %ar, %br, %p by #mma : !buffer_a, !buffer_b, !pending -> !pending",
            MMA.format("%p1", "r", "%p"),
        ),
        ("%p2, %retired = sm.mma_wait 1, %p1 : !pending -> !pending", ""),
        ("%sum, %done = sm.mma_wait 0, %last : !pending -> !c", ""),
        # the reads of tile.mma are those of threads
        ("sm.mbarrier_arrive %empty[%previous] after %retired", f"{FENCE}\nsm.mbarrier_arrive %empty[%previous]"),
        ("sm.mbarrier_arrive %empty[%before_last] after %done", f"{FENCE}\nsm.mbarrier_arrive %empty[%before_last]"),
        ("(!pending, index", "(!acc, index"),
        ("scf.yield %p2, %r3, %rp3, %r : !pending", "scf.yield %p1, %r3, %rp3, %r : !acc"),
        ("tile.store %sum", "tile.store %last"),
        ("} : !c, !matrix", "} : !acc, !matrix"),
    )
    np.testing.assert_array_equal(*run(text, (*RAGGED, 200)))


FENCE = "sm.fence_proxy_async"
MMA = "{0} = tile.mma tn %a{1}, %b{1}, {2} : !buffer_a, !buffer_b, !acc"


def shifted(by):
    begin = f"%by = arith.constant {by} : index\n%shifted = arith.addi %k, %by : index\n"
    return edited(
        "atoms",
        ("sm.tma_load %map_a[%m, %k]", begin + "sm.tma_load %map_a[%m, %shifted]"),
        ("sm.tma_load %map_b[%n, %k]", "sm.tma_load %map_b[%n, %shifted]"),
    )


def test_a_box_begins_at_any_multiple_of_16_bytes():
    given = inputs(128, 64, 136)
    expected = given["a"][:, 8:] @ given["b"][:, 8:].T + given["bias"]
    np.testing.assert_array_equal(interpret(shifted(8), given, domain="exact"), expected)


def test_a_box_that_begins_elsewhere_is_refused():
    caught(shifted(1), r"a box that begins 2 bytes into a row of \w+; TMA needs multiples of 16.*\[box-corner\]")


# Faults: the ring's verbs ---------------------------------------------------------------------------------------------

RELEASE = "sm.consumer_release %ring, %read : !ring, !sm.slot<read>"
RELEASE_AFTER = "sm.consumer_release %ring, %read after %retired : !ring, !sm.slot<read>"
MMA_WAIT = "%c2, %retired = sm.mma_wait 0, %p : !pending -> !c"


def test_a_release_left_out_is_a_deadlock_that_says_who_waits_for_which_slot():
    text = edited("pipelined", (RELEASE, ""))
    caught(
        text,
        r"(?s)deadlock, level pipelined.*CTA 0 producer waits at `.*sm\.producer_acquire.*: for slot 0 phase 1 that "
        r"nobody releases: not consumer.*CTA 0 consumer waits at `.*sm\.consumer_wait.*slot 0 phase 1 that nobody "
        r"commits",
    )


def test_a_role_that_ends_early_is_named_in_the_deadlock():
    text = edited(
        "pipelined", ("scf.for %k = %c0 to %K", "scf.for %k = %c64 to %K"), ("sm.producer_tail %ring : !ring", "")
    )
    caught(text, r"sm\.consumer_wait.*for slot 0 phase 0 that nobody commits: not producer \(ended\)")


def test_a_consumer_that_reads_the_slots_out_of_order_is_found():
    text = edited("pipelined", ("sm.consumer_wait %ring[%r, %rp]", "sm.consumer_wait %ring[%c0, %rp]"))
    caught(text, r"waits for slot 0 phase 0, but the next in ring order is slot 1 phase 0.*\[ring-order\]")


def test_a_slot_that_is_never_released_by_the_last_reader_is_found_at_the_end():
    text = edited("pipelined", (RELEASE, ""), ("sm.producer_tail %ring : !ring", ""))
    caught(
        text, r"the kernel ends while slot 0 of the ring is being read.*\[ring-drained-before\]", shape=(*ONE_TILE, 64)
    )


def test_a_ring_drained_by_its_consumer_is_refused():
    text = edited("pipelined", (RELEASE, f"{RELEASE}\n            sm.producer_tail %ring : !ring"))
    caught(text, r"sm\.producer_tail.*is drained by its producer.*\[drained-by-producer\]")


def test_a_slot_released_while_wgmma_reads_it_is_found():
    text = edited("wgmma", (RELEASE_AFTER, ""), (MMA_WAIT, f"{RELEASE}\n            {MMA_WAIT}"))
    caught(
        text,
        r"consumer_release .*consumer warpgroup \d: releases slot 0, which `.*sm\.wgmma .* may still read"
        r".*\[slot-retired\]",
    )


# Faults: mbarriers and TMA --------------------------------------------------------------------------------------------

EXPECT = "sm.mbarrier_arrive %full[%w] expects 24576 : !sm.mbarriers<2>"
ARRIVE_EMPTY = "sm.mbarrier_arrive %empty[%previous] after %retired : !sm.mbarriers<2> // next"
WAIT_FULL = "sm.mbarrier_wait %full[%r, %rp] : !sm.mbarriers<2> // next"
WAIT_EMPTY = "sm.mbarrier_wait %empty[%w, %before] : !sm.mbarriers<2>"
RETIRE = "%p2, %retired = sm.mma_wait 1, %p1 : !pending -> !pending"
LOAD_B = "sm.tma_load %map_b[%n, %k] to %bs signals %full[%w] : !map_b, !buffer_b, !sm.mbarriers<2>"


def test_an_arrival_left_out_is_a_deadlock_that_says_which_phase_lacks_what():
    caught(
        edited("atoms", (ARRIVE_EMPTY, "")),
        r"(?s)deadlock, level atoms.*CTA 0 producer waits at `sm\.mbarrier_wait.*: for phase parity 0: phase 0 "
        r"\(parity 0\) of %\w+\[0\] lacks 2 of 2 arrivals.*CTA 0 consumer warpgroup 1 waits at `sm\.mbarrier_wait.*: "
        r"for phase parity 1: phase 1 \(parity 1\) of %\w+\[0\] lacks 1 of 1 arrivals",
    )


def test_the_wrong_phase_of_a_full_slot_reads_what_has_not_landed():
    text = edited("atoms", (WAIT_FULL, "%other = arith.subi %c1, %rp : index\n" + WAIT_FULL.replace("%rp]", "%other]")))
    caught(text, r"sm\.(wgmma|tma_load) .*(consumer warpgroup \d|producer): (in flight|race)|deadlock")


def test_the_wrong_phase_of_an_empty_slot_is_a_deadlock():
    text = edited("atoms", (WAIT_EMPTY, WAIT_EMPTY.replace("%before", "%wp")))
    caught(text, r"(?s)deadlock.*CTA 0 producer .*for phase parity 0: phase 0 \(parity 0\)")


def test_too_few_expected_bytes_are_found():
    text = edited("atoms", ("expects 24576", "expects 16384"))
    caught(
        text, r"sm\.tma_load .*TMA load by producer: (its \d+ bytes land on|phase 0 of %\w+\[0\] has all its arrivals)"
    )


def test_too_many_expected_bytes_are_a_deadlock_that_counts_them():
    text = edited("atoms", ("expects 24576", "expects 24592"))
    caught(text, r"(?s)deadlock.*consumer warpgroup 0 waits .*lacks 16 bytes")


def test_a_box_left_out_is_a_deadlock_that_counts_its_bytes():
    caught(edited("atoms", (LOAD_B, "")), r"(?s)deadlock.*lacks 8192 bytes")


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_count_of_arrivals_is_found(count):
    text = edited("atoms", ("%empty = sm.mbarriers arrivals(2)", f"%empty = sm.mbarriers arrivals({count})"))
    caught(
        text,
        {1: r"sm\.tma_load .*race \(write after read\)|deadlock", 3: r"(?s)deadlock.*lacks 1 of 3 arrivals"}[count],
    )


def test_more_arrivals_than_a_phase_has_are_found():
    text = edited("atoms", (EXPECT, f"{EXPECT}\nsm.mbarrier_arrive %full[%w] : !sm.mbarriers<2>"))
    caught(
        text,
        r"sm\.mbarrier_arrive .*producer: arrives once more at %\w+\[0\], whose phase 0 has 1 of its 1 arrivals"
        r".*\[too-many-arrivals\]",
    )


def test_a_wait_on_a_full_slot_left_out_is_found():
    text = edited("atoms", (WAIT_FULL, ""))
    caught(text, r"sm\.(wgmma|tma_load) .*(consumer warpgroup \d|producer): (in flight|race)|deadlock")


def test_a_wait_on_an_empty_slot_left_out_is_found():
    text = edited("atoms", (WAIT_EMPTY, ""))
    caught(text, r"sm\.tma_load .*producer: (race|in flight)|arrives once more at %\w+\[0\]")


def test_a_slot_released_before_the_wait_for_its_products_is_found_with_both_ops():
    text = edited(
        "atoms", (RETIRE, ""), (ARRIVE_EMPTY, f"{ARRIVE_EMPTY}\n            {RETIRE}".replace(" after %retired", ""))
    )
    caught(
        text, r"sm\.tma_load .*race \(write after read\): writes what consumer warpgroup \d (read|may still read by `)"
    )


def test_a_wait_that_leaves_one_group_too_many_in_flight_is_found():
    text = edited("atoms", ("sm.mma_wait 1, %p1", "sm.mma_wait 2, %p1"))
    caught(
        text,
        r"sm\.tma_load .*writes what consumer warpgroup \d may still read by `.*sm\.wgmma.*\[race-with-open-read\]",
    )


def test_a_release_of_the_slot_that_is_being_read_is_found():
    text = edited("atoms", (ARRIVE_EMPTY, ARRIVE_EMPTY.replace("%previous", "%r")))
    caught(text, r"sm\.tma_load .*(race|in flight)|deadlock")


def test_a_slot_off_by_one_is_found():
    text = edited("atoms", ("%ar, %br = sm.ring_slot %ring[%r]", "%ar, %br = sm.ring_slot %ring[%previous]"))
    caught(text, r"race|in flight|uninitialised")


def test_a_box_from_the_wrong_place_shows_as_wrong_numbers():
    wrong(edited("atoms", ("%map_b[%n, %k]", "%map_b[%n, %c0]")))


def test_another_swizzle_in_the_buffer_than_in_the_map_shows_as_wrong_numbers():
    wrong(edited("atoms", ("(64,64):(64,1), swizzle<3,3,3>", "(64,64):(64,1), swizzle<3,3,4>")))


def test_a_buffer_that_does_not_begin_where_the_swizzle_does_shows_as_wrong_numbers():
    wrong(edited("epilogue", ("sm.ring at [0, 32768]", "sm.ring at [0, 32896]"), ("alloc at 49152", "alloc at 49280"),
                 ("65536", "65664"), ("65552", "65680"), ("65568", "65696")))  # fmt: skip


def test_a_box_that_nobody_waits_for_is_found_when_the_kernel_ends():
    extra = (
        "%ax, %bx = sm.ring_slot %ring[%c1] : !ring\n        sm.tma_load %map_a[%c0, %c0] to %ax signals %extra[%c0]"
    )
    text = edited(
        "atoms",
        ("%empty = ", "%extra = sm.mbarriers arrivals(1) : !sm.mbarriers<1>\n    %empty = "),
        ("%w0, %wp0 = ", f"{extra} : !map_a, !buffer_a, !sm.mbarriers<1>\n        %w0, %wp0 = "),
    )
    caught(
        text,
        r"sm\.tma_load .*the kernel ends and nobody has waited for phase 0.*\[phase-unwaited\]",
        shape=(*ONE_TILE, 64),
    )


# Faults: rules of single ops ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "threads(384)",
            "threads(256)",
            r"4 of role producer . 8 of role consumer warps are 384 threads.*\[roles-threads\]",
        ),
        ("%full[%w] expects", "%full[%c64] expects", r"mbarrier 64 of 2; take 0 … 1.*\[mbarrier-index\]"),
        ("%empty[%w, %before]", "%empty[%w, %c64]", r"known by its parity, 0 or 1, not 64.*\[parity-waited\]"),
        ("expects 24576", "expects 2000000", r"an mbarrier counts to 1048575.*\[pending-bytes\]"),
        ("atoms [2, 1, 1]", "atoms [1, 1, 1]", r"a thread holds 32 values .* takes 64.*\[wgmma-values-held\]"),
        ("wgmma.m64n64k16", "mma.m16n8k16", r"unknown atom.*\[wgmma-atom-known\]"),
    ],
)
def test_a_broken_rule_is_named(old, new, message):
    caught(edited("atoms", (old, new)), message, seeds=(0,))


def test_a_matrix_whose_rows_are_not_16_bytes_apart_cannot_be_mapped():
    given = inputs(*ONE_TILE, 64)
    given["a"] = np.zeros((128, 67), np.int64)[:, :64]
    with pytest.raises(
        InterpreterError,
        match=r"sm\.tensor_map .*rows 134 bytes apart: TMA needs multiples of 16.*\[map-address-of-ir\]",
    ):
        interpret(program("atoms"), given, domain="exact")


def test_a_barrier_inside_a_role_is_of_that_role():
    np.testing.assert_array_equal(*run(program("epilogue"), (*RAGGED, 200)))
    caught(
        edited("epilogue", ("sm.barrier // staged", "")),
        r"sm\.load_shared .*consumer warpgroup \d lane \d+: race.*\[shared-race\]",
    )
    caught(
        edited("epilogue", ("sm.barrier // stored", "")),
        r"sm\.store_shared .*consumer warpgroup \d lane \d+: race \(write after read\).*\[race-with-read\]",
        shape=(*RAGGED, 64),
    )


def test_a_barrier_that_one_role_leaves_out_is_a_deadlock_only_within_its_role():
    once = "%first = arith.cmpi eq, %m, %c0 : index\n scf.if %first {\n sm.barrier\n }\n sm.barrier // staged"
    np.testing.assert_array_equal(*run(edited("epilogue", ("sm.barrier // staged", once)), (*RAGGED, 64)))


def test_mbarriers_made_inside_a_role_are_refused():
    text = edited("atoms", ("%before = arith", "%late = sm.mbarriers arrivals(1) : !sm.mbarriers<2>\n%before = arith"))
    caught(text, r"sm\.mbarriers .*before sm\.roles.*\[mbarriers-made\]", seeds=(0,))


MADE = "%empty = sm.mbarriers arrivals(2) : !sm.mbarriers<2>"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            "sm.mbarrier_arrive %empty[%c0] : !sm.mbarriers<2>",
            r"sm\.mbarrier_arrive .*inside sm\.roles \[arrive-in-role\]",
        ),
        (
            "%ax, %bx = sm.ring_slot %ring[%c0] : !ring\n"
            "sm.tma_load %map_a[%c0, %c0] to %ax signals %full[%c0] : !map_a, !buffer_a, !sm.mbarriers<2>",
            r"sm\.tma_load .*one thread starts a copy by TMA.*\[load-by-producer\]",
        ),
    ],
)
def test_what_agents_of_roles_do_is_refused_outside_of_them(op, message):
    caught(edited("atoms", (MADE, f"{MADE}\n{op}")), message, seeds=(0,))


def test_a_kernel_has_one_sm_roles():
    again = "sm.roles {\n producer warps(4) {\n }\n }\n    tile.return"
    caught(
        edited("atoms", ("tile.return", again)),
        r"a kernel has one sm\.roles, outermost in it.*\[one-roles\]",
        seeds=(0,),
    )


def test_copies_by_cp_async_are_refused_in_a_role_of_one_thread():
    copy = "sm.cp_async %at to %bs by <cp.async.16, #tile.tv<threads (8,16):(512,1), values (8,4):(64,16)>>"
    text = edited(
        "atoms",
        (LOAD_B, f"%at = tile.view %b[%n, %k] : !matrix to !window_b\n            {copy} : !window_b, !buffer_b"),
    )
    caught(text, r"sm\.cp_async .*this role is one thread: copy by TMA.*\[copy-by-warpgroup\]", seeds=(0,))


def test_work_that_follows_the_roles_waits_for_them_all():
    text = edited("pipelined", ("tile.return", "sm.barrier\n    tile.return"))
    np.testing.assert_array_equal(*run(text, (*ONE_TILE, 128)))
