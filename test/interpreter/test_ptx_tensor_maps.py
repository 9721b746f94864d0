"""Tensor maps that a kernel changes: their fields, and the fences before a bulk copy may use them."""

import numpy as np
import pytest
from tensor_map_kernels import (
    ACQUIRE,
    BY_LANES,
    CHANGED,
    COPIED,
    COPY,
    EXPECTED,
    FENCE,
    FIELDS,
    GROUPED,
    LOAD,
    OF_GLOBAL,
    ONE,
    STORED,
    ZEROS,
    X,
    created,
    loading,
    replaced,
    run,
)  # fmt: skip

from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.ptx.parsing import parse
from lowtide.interpreter.ptx.targets import check_targets
from lowtide.launches import Array


@pytest.mark.parametrize("domain", ["float", "exact"])
def test_a_changed_copy_of_a_parameter_is_used(domain):
    np.testing.assert_array_equal(run(GROUPED, domain=domain), EXPECTED)
    np.testing.assert_array_equal(run(BY_LANES + ONE.format(CHANGED) + COPY, domain=domain), EXPECTED)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (GROUPED, "map-acquire"),
        (f"{ACQUIRE}\n{GROUPED}", "map-acquire"),
    ],
)
def test_a_map_that_is_not_acquired_after_its_change_is_found(make, code):
    with pytest.raises(InterpreterError, match=rf"`cp\.async\.bulk\.tensor.*tensormap proxy.*\[{code}\]"):
        run(make, acquire="")


def test_the_address_of_a_parameters_map_is_a_number():
    """Triton 3.9 computes it in 32 bits."""
    found = run("cvt.u32.u64 %r9, %rd11; add.u32 %r9, %r9, 64; cvt.u64.u32 %rd3, %r9; sub.u64 %rd3, %rd3, 64;", "")
    np.testing.assert_array_equal(found, X.reshape(-1))


def test_a_copy_by_ordinary_stores_needs_a_release_and_an_acquire():
    made = ONE.format(f"{COPIED}\n{CHANGED}") + STORED
    np.testing.assert_array_equal(run(f"{made}{FENCE}bar.warp.sync -1;"), EXPECTED)
    # a fence by one thread that knows the stores of the others
    by_one = f"bar.warp.sync -1; setp.eq.u32 %p3, %r1, 5; @%p3 {FENCE}bar.warp.sync -1;"
    np.testing.assert_array_equal(run(made + by_one), EXPECTED)
    for lacks in ("bar.warp.sync -1;", f"{FENCE}", f"{by_one.replace('bar.warp.sync -1; setp', 'setp')}"):
        with pytest.raises(InterpreterError, match=r"`cp\.async\.bulk\.tensor.*\[map-release\]"):
            run(made + lacks)
    with pytest.raises(InterpreterError, match=r"\[map-acquire\]"):
        run(f"{made}{FENCE}bar.warp.sync -1;", acquire="")


def test_a_map_in_global_memory_is_changed_there():
    np.testing.assert_array_equal(run(ONE.format(OF_GLOBAL + FENCE) + "bar.warp.sync -1;"), EXPECTED)
    with pytest.raises(InterpreterError, match=r"\[map-release\]"):
        run(ONE.format(FENCE + OF_GLOBAL) + "bar.warp.sync -1;")
    with pytest.raises(InterpreterError, match=r"`tensormap\.replace.*parameter.*\[map-parameter\]"):
        run(ONE.format(OF_GLOBAL.replace("b64 [%rd3], %rd2", "b64 [%rd11], %rd2")))


def test_copies_by_other_threads_of_the_cta_need_a_barrier_after_the_acquire():
    of_warp_1 = LOAD.replace("@%p1 bra LOADED;", "setp.ne.u32 %p1, %r1, 32; @%p1 bra LOADED;")
    np.testing.assert_array_equal(run(GROUPED, load=of_warp_1), EXPECTED)
    # the acquire after the barrier, in warp 0 alone: warp 1 may be earlier
    behind = f"@%p2 bra BEHIND;\n{ACQUIRE}\nBEHIND:\n"
    with pytest.raises(InterpreterError, match=r"\[map-acquire\]"):
        run(GROUPED, acquire="", load=behind + of_warp_1)
    np.testing.assert_array_equal(run(GROUPED, load=behind + of_warp_1), EXPECTED)  # another acquire came before
    np.testing.assert_array_equal(run(GROUPED, acquire="", load=f"{behind}bar.sync 0;\n{of_warp_1}"), EXPECTED)


def test_an_array_of_integers_of_any_width_holds_a_map():
    for dtype, count in (("i8", 128), ("i16", 64), ("i64", 16)):
        np.testing.assert_array_equal(run(GROUPED, scratch=Array(dtype, (count,), (), None)), EXPECTED)
    with pytest.raises(NotInterpreted, match=r"\[map-array\]"):
        run(GROUPED, scratch=Array("f32", (32,), (), None))


# Maps that are made of zeros -----------------------------------------------------------------------------------------

WAIT = "\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;"


def test_a_map_of_zeros_whose_fields_are_all_set_is_used():
    np.testing.assert_array_equal(run(created(), ACQUIRE + WAIT), EXPECTED)


@pytest.mark.parametrize(
    ("change", "to", "code"),
    [
        *((f"{name}.", "", "map-unset") for name in ("global_address", "rank", "elemtype", "global_stride")),
        *((f"{name}.shared::cta.b1024.b32 [held], 1", "", "map-unset") for name in ("box_dim", "element_stride")),
        ("global_dim.shared::cta.b1024.b32 [held], 0", "", "map-unset"),
        ("box_dim.shared::cta.b1024.b32 [held], 0", replaced("box_dim", "512", 0), "map-made"),
        ("global_stride", replaced("global_stride", "136", 0), "map-made"),
        ("global_stride", replaced("global_stride", "130", 0), "map-byte-strides"),
        ("swizzle_mode", replaced("swizzle_mode", "1"), "map-made"),
        ("elemtype", replaced("elemtype", "4"), "outside-matrices"),
        ("rank", replaced("rank", "5"), "map-rank-value"),
        ("rank", replaced("rank", "2"), "map-unset"),
        ("rank", "mov.u32 %r9, 0;" + replaced("rank", "%r9"), "map-coordinates"),
        ("fill_mode", "st.shared.b32 [held+4], 7;", "map-contents"),
        ("fill_mode", "ld.global.u32 %r9, [%rd4];", "uninitialised-read"),
    ],
)
def test_fields_that_no_map_may_have_are_found(change, to, code):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]") as found:
        run(created(change, to))
    assert not isinstance(found.value, NotInterpreted)


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("fill_mode", replaced("fill_mode", "1")),
        ("interleave", replaced("interleave_layout", "1")),
        ("element_stride.shared::cta.b1024.b32 [held], 1", replaced("element_stride", "2", 1)),
        ("elemtype", replaced("elemtype", "8")),
    ],
)
def test_modes_that_are_not_interpreted_are_refused(change, to):
    with pytest.raises(NotInterpreted, match=r"\[map-modes\]"):
        run(created(change, to))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("tensormap.replace.tile.global_address.shared::cta.b1024.b32 [held], %r1;", "modifier-unknown"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b64 [held], 1;", "modifier-unknown"),
        ("tensormap.replace.tile.rank.shared::cta.b32 [held], 1;", "map-form"),
        ("tensormap.replace.tile.rank.shared::cta.b1024 [held], 1;", "map-form"),
        ("tensormap.replace.tile.depth.shared::cta.b1024.b32 [held], 1;", "instruction-unknown"),
        ("tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [held], 1;", "no-map-atomicity"),
        *((replaced("global_stride", "128", at), "map-dimension") for at in ("4", "%r1")),
        *((replaced("box_dim", "8", at), "map-dimension") for at in ("5", "-1")),
        *((replaced("swizzle_mode", value), "map-value") for value in ("4", "%r1")),
        (replaced("elemtype", "13"), "map-value"),
        (replaced("box_dim", "8"), "map-dimension"),
        (replaced("box_dim", "0, 8, 8"), "form-known"),
        (COPY.replace("128", "64"), "map-size"),
        (COPY.replace(".sync.aligned", ""), "map-copy-form"),
        (ACQUIRE.replace("128", "%r1"), "map-size"),
        (ACQUIRE.replace(".gpu", ""), "map-fence-scope"),
    ],
)
def test_malformed_instructions_are_refused(line, code):
    with pytest.raises(NotInterpreted, match=rf"at <ptx>:\d+: .*\[{code}\]"):
        run(line)


def test_only_some_targets_have_them():
    module = parse(loading(GROUPED))
    check_targets(module, module.entries["k"])
    for line, target in (("tensormap.replace", "sm_90"), ("fence.mbarrier_init", "sm_80")):
        with pytest.raises(InterpreterError, match=rf"`{line}.*{target} lacks it.*\[instruction-target\]"):
            module.target = target
            check_targets(module, module.entries["k"])


@pytest.mark.parametrize(
    ("make", "acquire", "code"),
    [
        (GROUPED.replace(".aligned [%rd3]", ".aligned [%rd3+32]"), ACQUIRE, "map-alignment"),
        (GROUPED.replace(COPY, f"@!%p1 {COPY}"), ACQUIRE, "map-copy-aligned"),
        (GROUPED, "mov.u32 %r9, held; cvt.u64.u32 %rd9, %r9; cvta.shared.u64 %rd3, %rd9;" + ACQUIRE, "map-fence-space"),
        (GROUPED, "@%p1 bra TO;\nTO: mov.u64 %rd9, held; cvta.shared.u64 %rd3, %rd9;", "map-space"),
        (GROUPED, "mov.u64 %rd3, %rd1;", "map-contents"),
        # two threads of a warp replace a field
        (ZEROS + "setp.gt.u32 %p3, %r1, 1; @%p3 bra DONE;\n" + FIELDS[0] + "\nDONE:\n", "", "shared-race"),
    ],
)
def test_misplaced_maps_are_found(make, acquire, code):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        run(make, acquire)
