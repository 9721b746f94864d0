"""Scales of blocks of 8-bit floats: every level, every kind of scales, and faults that must show."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from compiled import spec
from planting import IN_FLIGHT, WRONG_NUMBERS, Fault, assert_found, within_bound

import lowtide as lt
from lowtide.interpreter import interpret

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
ROWS_AND_BLOCKS = lt.BlockScales()
ROWS_AND_COLUMNS = lt.BlockScales(b=(1, 128))
BLOCKS_AND_COLUMNS = lt.BlockScales(a=(128, 128), b=(1, 128))
BLOCKS = lt.BlockScales(a=(128, 128))


def scaled(acc, bias: lt.PerColumn["f32"]):  # noqa: F821
    return acc + bias


OVERLAPPED = "promote = overlapped"
# By name: the problem, the schedule, a shape that no tile divides, and levels.
CASES = {
    "a scale for each row and for 128 columns": (
        spec(dtype="e4m3", b="e5m2", d="bf16", block_scales=ROWS_AND_BLOCKS, epilogue=scaled),
        "grid.tile = [64, 32], k = 128, stages = 2, scales = direct",
        (70, 145, 272),
        LEVELS,
    ),
    "a scale for each column, two K steps for one of K": (
        spec(dtype="e4m3", d="f32", block_scales=ROWS_AND_COLUMNS),
        "grid.tile = [64, 16], k = 64, stages = 3, scales = direct",
        (66, 17, 400),
        ("problem", "cta", "atoms", "nvvm", "ptx"),
    ),
    "tiles that reach into three blocks, and D by columns": (
        spec(dtype="e5m2", d="bf16", block_scales=ROWS_AND_BLOCKS, d_order="column"),
        "grid.tile = [64, 176], k = 128, stages = 2",
        (400, 66, 144),
        ("problem", "cta", "nvvm"),
    ),
    "scales through the ring": (
        spec(dtype="e4m3", b="e5m2", d="bf16", block_scales=ROWS_AND_BLOCKS, epilogue=scaled),
        "grid.tile = [64, 48], atom = wgmma.m64n24k32, k = 128, stages = 2, scales = staged",
        (66, 145, 272),
        LEVELS[2:],
    ),
    "the next K step's slot read while this one is multiplied": (
        spec(dtype="e4m3", d="f32", block_scales=ROWS_AND_BLOCKS),
        f"grid.tile = [64, 48], k = 64, stages = 3, scales = staged, {OVERLAPPED}",
        (66, 145, 400),
        ("epilogue", "nvvm", "ptx"),
    ),
    "one scale for all sums of a step, read while they are multiplied": (
        spec(dtype="e4m3", d="bf16", block_scales=BLOCKS),
        "grid.tile = [64, 16], k = 128, stages = 2",
        (66, 33, 272),
        ("nvvm", "ptx"),
    ),
    "scales through the ring of a cluster, two K steps for one of K": (
        spec(dtype="e4m3", d="f32", block_scales=ROWS_AND_COLUMNS),
        "grid.tile = [64, 16], cluster = [2, 1], k = 64, stages = 3, scales = staged",
        (130, 17, 400),
        ("smem", "atoms", "nvvm"),
    ),
    "scales of rows by blocks through the ring, in turn": (
        spec(dtype="e4m3", d="bf16", block_scales=BLOCKS_AND_COLUMNS),
        "grid.tile = [64, 16], roles = pingpong(2), k = 128, stages = 2, scales = staged",
        (140, 33, 528),
        ("nvvm",),
    ),
    "a batch, through the ring": (
        spec(dtype="e4m3", d="bf16", batch=2, block_scales=ROWS_AND_BLOCKS),
        "grid.tile = [64, 48], k = 128, stages = 2, scales = staged",
        (66, 145, 272),
        ("problem", "cta", "atoms", "ptx"),
    ),
    "products with numbers of rows of their own": (
        spec(dtype="e4m3", d="f32", batch=3, counts=True, block_scales=BLOCKS_AND_COLUMNS),
        "grid.tile = [64, 16], k = 128, stages = 2, scales = direct",
        (140, 24, 272),
        ("problem", "cta", "ptx"),
    ),
    "products with numbers of rows of their own, through the ring": (
        spec(dtype="e4m3", d="bf16", batch=3, counts=True, layout="nt", block_scales=ROWS_AND_BLOCKS),
        "grid.tile = [64, 48], k = 128, stages = 2, scales = staged",
        (66, 144, 272),
        ("cta", "ptx"),
    ),
    "a scale for 128 rows, and K in parts": (
        spec(dtype="e4m3", d="bf16", block_scales=BLOCKS_AND_COLUMNS),
        "grid.tile = [64, 16], k = 128, stages = 2, k_division = stream_k",
        (140, 17, 528),
        ("problem", "cta", "nvvm"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_level_is_within_the_bound(name):
    problem, schedule, shape, levels = CASES[name]
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule=schedule)
    inputs = lt.random_inputs(problem, *shape, np.random.default_rng(1), row_padding=16)
    expected = lt.reference_with_bound(problem, **inputs)
    for level in levels:
        found = lt.compare(problem, kernel.interpret(**inputs, level=level, sms=2), *expected)
        assert found.ok, (level, found.message)


@pytest.fixture(scope="module")
def kernel():
    problem, schedule, *_ = CASES["a scale for each row and for 128 columns"]
    return problem, lt.compile_gemm(problem, target="sm_90a", schedule=schedule)


def integers(problem, m, n, k, seed=0):
    inputs = lt.random_inputs(problem, m, n, k, np.random.default_rng(seed), row_padding=16)
    return {name: np.round(4 * value.astype(np.float64)).astype(np.int64) for name, value in inputs.items()}


@pytest.mark.parametrize("k", [0, 16, 128, 272, 640])  # steps: none, one, one, stages + 1, 2 stages + 1
def test_levels_agree_exactly(kernel, k):
    problem, compiled = kernel
    inputs = integers(problem, 129, 161, k, seed=k)
    found = [compiled.interpret(**inputs, level=level, domain="exact", sms=2, seed=k) for level in LEVELS[1::3]]
    expected = compiled.interpret(**inputs, level="problem", domain="exact")
    assert all(np.array_equal(each, expected) for each in found)


def test_scales_of_one_are_no_scales(kernel):
    problem, compiled = kernel
    plain = replace(problem, block_scales=None)
    inputs = lt.random_inputs(problem, 64, 32, 256, np.random.default_rng(3))
    inputs |= {name: np.ones_like(inputs[name]) for name in ("scale_a", "scale_b")}
    d = compiled.interpret(**inputs, level="nvvm")
    given = {name: value for name, value in inputs.items() if not name.startswith("scale")}
    assert np.array_equal(d, lt.compile_gemm(plain, target="sm_90a").interpret(**given, level="problem"))


FAULTS = (
    Fault("the scales of the first block", "cta", r"row_scale (%\S+)\[(%\S+), %\S+\]", r"row_scale \1[\2, %c0]", ""),
    Fault(
        "rows and columns exchanged",
        "pipelined",
        r"scaled\((%\S+) : (.+?), (%\S+) :",
        r"scaled(\3 : \2, \3 :",
        "",
    ),
    Fault("the scales of the step before", "atoms", r"row_scale (%\S+)\[(%\S+), %\S+\]", r"row_scale \1[\2, %c0]", ""),
    Fault("a sum without scales", "nvvm", r"math\.fma (%\S+), %\S+, (%\S+)", r"arith.addf \1, \2", WRONG_NUMBERS),
    Fault("another block", "nvvm", r"arith\.mulf (%\S+), (%\S+) : f32", r"arith.mulf \1, \1 : f32", WRONG_NUMBERS),
)


@pytest.fixture(scope="module")
def staged():
    problem, schedule, *_ = CASES["scales through the ring"]
    return problem, lt.compile_gemm(problem, target="sm_90a", schedule=schedule)


@pytest.mark.parametrize("k", [0, 1008])  # of eight blocks: rows of 16 bytes
def test_levels_agree_exactly_with_scales_in_the_ring(staged, k):
    problem, compiled = staged
    inputs = integers(problem, 132, 161, k, seed=k)
    found = [compiled.interpret(**inputs, level=level, domain="exact", sms=2, seed=k) for level in LEVELS[2::3]]
    expected = compiled.interpret(**inputs, level="problem", domain="exact")
    assert all(np.array_equal(each, expected) for each in found)


# Of the scales in the ring: read before they have come, or overwritten before all warps have read them.
STAGED_FAULTS = (
    Fault(
        "read before the barrier",
        "smem",
        r"(?s)( *sm\.barrier\n)( *%\S+ = tile\.mma .*?)( *%\S+ = tile\.promote [^\n]*\n)",
        r"\2\3\1",
        "race",
    ),
    Fault("scales that no slot waits for", "atoms", r"expects (\d+)", "expects 20480", "bytes"),
    Fault("one arrival for each warpgroup", "atoms", r" each_warp", "", "deadlock"),
    Fault(
        "the first block for all columns",
        "atoms",
        r"(column_block_scale %\S+)\[%\S+, (%\S+)\]",
        r"\1[%c0, \2]",
        WRONG_NUMBERS,
    ),
    Fault(
        "a box that begins at the block of K",
        "atoms",
        r"(\[(%\S+), \S+ to %row_scales .*\n(?:.*\n){1,8}.*tma_load %\S+\[%\S+), %\S+ to %column_scales",
        r"\1, \2] to %column_scales",
        "bytes into a row of scale_b; TMA needs multiples of 16",
    ),
)


@pytest.mark.parametrize("fault", STAGED_FAULTS, ids=[fault.name for fault in STAGED_FAULTS])
def test_a_planted_fault_of_scales_in_the_ring_shows(staged, fault):
    problem, compiled = staged
    inputs = lt.random_inputs(problem, 70, 145, 640, np.random.default_rng(4))
    assert_found(fault, fault.plant(compiled.levels[fault.level]), within_bound(problem, inputs, sms=2))


@pytest.fixture(scope="module")
def overlapped():
    problem, schedule, *_ = CASES["the next K step's slot read while this one is multiplied"]
    return problem, lt.compile_gemm(problem, target="sm_90a", schedule=schedule)


@pytest.mark.parametrize("k", [16, 64, 400])
def test_overlapped_sums_have_the_bits_of_those_per_step(overlapped, k):
    problem, compiled = overlapped
    _, schedule, (m, n, _), _ = CASES["the next K step's slot read while this one is multiplied"]
    plain = lt.compile_gemm(problem, target="sm_90a", schedule=schedule.replace(OVERLAPPED, "promote = per_step"))
    assert str(plain.schedule) == str(compiled.schedule).replace("overlapped", "per_step")
    inputs = lt.random_inputs(problem, m, n, k, np.random.default_rng(5))
    for level in ("nvvm", "ptx"):
        found = [kernel.interpret(**inputs, level=level, sms=2) for kernel in (plain, compiled)]
        assert np.array_equal(*(each.view(np.uint32) for each in found))


# Of the head of the next step, in the branch before the wait for this step's products.
OVERLAPPED_FAULTS = (
    Fault(
        "the next slot is not awaited",
        "nvvm",
        r"(scf\.for .*\n(?:.*\n)*?.*wgmma\.commit.*\n(?:.*\n)*?) *nvvm\.mbarrier\.try_wait.*\n",
        r"\1",
        f"{IN_FLIGHT}|no wait for the mbarrier",
    ),
    Fault(
        "a step after the last one is awaited",
        "nvvm",
        r"(= arith\.addi .*\n *(%\S+) = arith\.cmpi) slt(.*\n *%\S+ = scf\.if \2)",
        r"\1 sle\3",
        "deadlock",
    ),
)


@pytest.mark.parametrize("fault", OVERLAPPED_FAULTS, ids=[fault.name for fault in OVERLAPPED_FAULTS])
def test_a_planted_fault_of_overlapped_sums_shows(overlapped, fault):
    problem, compiled = overlapped
    inputs = lt.random_inputs(problem, 66, 145, 640, np.random.default_rng(4))
    assert_found(fault, fault.plant(compiled.levels[fault.level]), within_bound(problem, inputs, sms=2))


@pytest.mark.parametrize(
    ("problem", "fields", "message"),
    [
        (
            spec(dtype="e4m3", d="f32"),
            "roles = single",
            r"goes with a producer and wgmma; take promote = per_step.*\[promote-roles\]",
        ),
        (
            spec(dtype="bf16", b="s4", group=64),
            "roles = cooperative(1)",
            r"packed weights are converted between K steps; take promote = per_step.*\[promote-weights\]",
        ),
    ],
)
def test_sums_that_cannot_overlap_are_refused(problem, fields, message):
    with pytest.raises(lt.ScheduleError, match=message):
        lt.compile_gemm(problem, target="sm_90a", schedule=f"{OVERLAPPED}, {fields}")


def test_scales_whose_rows_are_not_multiples_of_16_bytes_are_packed(staged):
    problem, compiled = staged
    inputs = lt.random_inputs(problem, 70, 145, 272, np.random.default_rng(8), row_padding=16)
    inputs["scale_a"] = np.ascontiguousarray(inputs["scale_a"])
    unaligned = np.empty(inputs["scale_b"].size + 1, np.float32)[1:].reshape(inputs["scale_b"].shape)
    unaligned[:] = inputs["scale_b"]
    inputs["scale_b"] = unaligned
    for level in ("problem", "cta", "nvvm"):
        d = compiled.interpret(**inputs, level=level)
        assert lt.compare(problem, d, *lt.reference_with_bound(problem, **inputs)).ok
    unpacked = re.sub(r"(tile.pack %\S+ align\()16(\) : memref<\?x\?xf32)", r"\g<1>4\2", compiled.levels["problem"])
    with pytest.raises(
        lt.InterpreterError, match=r"rows 280 bytes apart: TMA needs multiples of 16.*\[map-address-of-ir\]"
    ):
        interpret(lt.compile_ir(unpacked).levels["nvvm"], inputs)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_gives_wrong_numbers(kernel, fault):
    problem, compiled = kernel
    inputs = lt.random_inputs(problem, 70, 145, 272, np.random.default_rng(4))
    assert_found(fault, fault.plant(compiled.levels[fault.level]), within_bound(problem, inputs))


def test_zeros_and_nan_among_scales_are_numbers_like_others(kernel):
    problem, compiled = kernel
    inputs = lt.random_inputs(problem, 70, 145, 272, np.random.default_rng(5))
    inputs["scale_a"][1, 3], inputs["scale_a"][0, 5] = np.nan, 0.0
    d = compiled.interpret(**inputs, level="nvvm").astype(np.float64)
    assert np.isnan(d[3]).all() and not np.isnan(np.delete(d, 3, axis=0)).any()
    assert lt.compare(problem, d.astype(ml_dtypes.bfloat16), *lt.reference_with_bound(problem, **inputs)).ok


def test_products_of_scales_that_f32_does_not_hold_have_no_bound_or_a_wider_one():
    problem = spec(dtype="e4m3", d="f32", block_scales=ROWS_AND_BLOCKS)
    inputs = lt.random_inputs(problem, 2, 8, 128, np.random.default_rng(6))
    inputs["scale_a"][0, :], inputs["scale_b"][0, 0] = (1e-30, 1e30), 1e-12
    assert np.isfinite(lt.error_bound(problem, **inputs)).all()
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule="grid.tile = [64, 8], k = 128, stages = 2")
    assert lt.compare(problem, kernel.interpret(**inputs), *lt.reference_with_bound(problem, **inputs)).ok
    inputs["scale_b"][0, 0] = 1e12  # times 1e30
    assert (
        np.isinf(lt.error_bound(problem, **inputs)[1]).all() and np.isfinite(lt.error_bound(problem, **inputs)[0]).all()
    )


REFUSED = {
    "scales of whole rows": (
        lambda: lt.BlockScales(a=(1, 64)),
        r"blocks \(1, 64\).*\[block-extents\]",
    ),
    "types that are not 8-bit floats": (
        lambda: spec(dtype="bf16", block_scales=ROWS_AND_BLOCKS),
        r"inputs of bf16.*\[scales-type\]",
    ),
    "fast sums": (
        lambda: spec(dtype="e4m3", d="f32", acc="fast", block_scales=ROWS_AND_BLOCKS),
        r"use acc='f32'.*\[scales-fast\]",
    ),
    "not an object of lt.BlockScales": (
        lambda: spec(dtype="e4m3", d="f32", block_scales=(1, 128)),
        r"it must be lt.BlockScales.*\[scales-kind\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_scales_are_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(lt.SpecError, match=message):
        make()


def test_an_operand_of_the_epilogue_with_the_name_of_a_scale_is_refused():
    def epilogue(acc, scale_a: lt.Scalar):
        return acc * scale_a

    with pytest.raises(lt.SpecError, match=r"'scale_a'.*\[scales-operand-name\]"):
        spec(dtype="e4m3", d="f32", block_scales=ROWS_AND_BLOCKS, epilogue=epilogue)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("scale_a", lambda x: x[:-1], r"has 2 blocks of 128 along K, but k = 272 has 3.*\[scale-blocks-differ\]"),
        ("scale_b", lambda x: x.T, r"scale_b.*\(3, 2\) has 3.*128 along N, but n = 145 has 2.*\[scale-blocks-differ\]"),
        (
            "scale_a",
            lambda x: x.astype(np.float64),
            r"scale_a: dtype is f64, the kernel was compiled for f32.*\[array-dtype\]",
        ),
        ("scale_a", lambda x: np.asfortranarray(x), r"scale_a: the last dimension has stride.*\[columns-strided\]"),
    ],
)
def test_scales_of_another_shape_dtype_or_order_are_refused(kernel, name, change, message):
    problem, compiled = kernel
    inputs = lt.random_inputs(problem, 70, 145, 272, np.random.default_rng(7))
    with pytest.raises(lt.InterpreterError, match=message):
        compiled.interpret(**(inputs | {name: change(inputs[name])}))
