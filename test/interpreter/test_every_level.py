"""Every level of the default kernel computes the same D, whoever is first and however many SMs there are."""

import re

import numpy as np
import pytest
from compiled import inputs_of, spec

import lowtide as lt
from lowtide.errors import InterpreterError, IRError
from lowtide.interpreter import interpret

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
SMALL = "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]"


def add_row(acc, row: lt.PerRow, c: lt.Full):
    return lt.relu(acc + c) - 2.0 * row


SPEC = spec(epilogue=add_row)


@pytest.fixture(scope="module")
def default_kernel():
    """Extents at run time, the schedule chosen."""
    return lt.compile_gemm(SPEC, "sm_80")


@pytest.fixture(scope="module")
def persistent_kernel():
    return lt.compile_gemm(SPEC, "sm_80", schedule=f"{SMALL}, scheduler = persistent")


HOPPER = {
    "the default": (spec(), None, (150, 131, 100)),
    "a full operand": (SPEC, None, (150, 131, 100)),
    # What is chosen for 8192³: parts of 64, 64 and 56 columns, two blocks of rows.
    "a narrow last part": (spec(d="f32"), "grid.tile = [256, 184], k = 64, epilogue.path = tma", (270, 196, 72)),
}


@pytest.fixture(scope="module", params=list(HOPPER))
def hopper_kernel(request):
    """On sm_90a a producer and its consumers are the default."""
    kernel_spec, schedule, shape = HOPPER[request.param]
    kernel = lt.compile_gemm(kernel_spec, target="sm_90a", schedule=schedule)
    consumer = kernel.schedule.agents.consumer
    assert consumer.warps * consumer.turns == 8
    return kernel_spec, kernel, shape


def integers(kernel_spec, m, n, k):
    """Inputs of integers as `CompiledKernel.interpret` takes them, and the D that they give, exactly."""
    inputs = inputs_of(kernel_spec, m, n, k)
    del inputs["d"]
    return inputs, lt.reference(kernel_spec, **inputs)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_the_default_kernel_gives_the_same_d(default_kernel, level):
    inputs, d = integers(SPEC, 150, 131, 100)
    np.testing.assert_array_equal(default_kernel.interpret(**inputs, level=level, domain="exact", seed=3), d)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_the_default_on_sm_90a_gives_the_same_d(hopper_kernel, level):
    kernel_spec, kernel, shape = hopper_kernel
    inputs, d = integers(kernel_spec, *shape)
    np.testing.assert_array_equal(kernel.interpret(**inputs, level=level, domain="exact", sms=1, seed=3), d)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_computes_in_floating_point_within_the_derived_bound(persistent_kernel, level):
    inputs = lt.random_inputs(SPEC, 45, 37, 100, np.random.default_rng(1), row_padding=8)
    reference, bound = lt.reference_with_bound(SPEC, **inputs)
    outcome = lt.compare(SPEC, persistent_kernel.interpret(**inputs, level=level), reference, bound)
    assert outcome.ok, outcome.message


def test_256_by_256_by_128_at_level_nvvm():
    """About 2 s on one core of a server, compilation apart: 16 CTAs of 128 threads, 8 k-slices each."""
    square = spec(m=256, n=256, k=128)
    inputs, d = integers(square, 256, 256, 128)
    kernel = lt.compile_gemm(square, "sm_80")
    np.testing.assert_array_equal(kernel.interpret(**inputs, level="nvvm", domain="exact"), d)


@pytest.mark.parametrize("sms", [1, 2, 5])
@pytest.mark.parametrize("level", ["cta", "atoms", "nvvm"])
def test_the_number_of_sms_changes_who_computes_but_not_what(persistent_kernel, level, sms):
    inputs, d = integers(SPEC, 100, 70, 40)
    np.testing.assert_array_equal(persistent_kernel.interpret(**inputs, level=level, sms=sms, domain="exact"), d)


def test_a_persistent_grid_is_as_large_as_the_sms_hold(persistent_kernel):
    """Seen by a kernel that writes only what its first work tile covers: more SMs, fewer holes."""
    text = persistent_kernel.levels["cta"]
    once = re.sub(r"(tile\.work_tiles .*)\bpersistent\b", r"\1one_shot", text)
    assert once != text
    inputs = inputs_of(SPEC, 32, 32 * 40, 8)
    holes = []
    for sms in (1, 2, 4):
        with pytest.raises(InterpreterError, match=r"was never written.*\[d-unwritten\]") as caught:
            interpret(once, order_of(inputs), sms=sms, domain="exact")
        column, others = map(int, re.search(r"D\[0, (\d+)\] .*nor (\d+) other", str(caught.value)).groups())
        assert others + 1 == 32 * (32 * 40 - column)
        holes.append(column // 32)
    assert holes[0] > 0 and holes[1:] == [2 * holes[0], 4 * holes[0]]
    np.testing.assert_array_equal(interpret(once, order_of(inputs), sms=40, domain="exact"), reference_of(inputs))


def order_of(inputs):
    """In the order of the host function's arguments."""
    return {name: inputs[name] for name in ("a", "b", "d", "row", "c")}


def reference_of(inputs):
    return lt.reference(SPEC, **{name: value for name, value in inputs.items() if name != "d"})


@pytest.mark.parametrize("level", ["epilogue", "nvvm"])
def test_the_seed_gives_the_order_and_no_order_changes_d(persistent_kernel, level):
    inputs, d = integers(SPEC, 60, 60, 40)
    for seed in range(6):
        found = persistent_kernel.interpret(**inputs, level=level, seed=seed, domain="exact")
        np.testing.assert_array_equal(found, d)


def test_a_seed_repeats_and_another_seed_is_another_order(persistent_kernel):
    """Shown by a race, which whoever comes second reports."""
    text = persistent_kernel.levels["epilogue"]
    racy = text.replace("      sm.barrier\n", "", 1)
    assert racy != text
    inputs = order_of(inputs_of(SPEC, 60, 60, 40))

    def report(seed):
        with pytest.raises(InterpreterError, match=r"(race \(|in flight).*\[shared-race\]") as caught:
            interpret(racy, inputs, seed=seed, domain="exact")
        return str(caught.value)

    reports = [report(seed) for seed in range(8)]
    assert reports == [report(seed) for seed in range(8)]
    assert len(set(reports)) > 1


def test_what_is_not_interpreted_is_refused_with_the_levels_that_are(default_kernel):
    inputs, _ = integers(SPEC, 8, 8, 8)
    with pytest.raises(InterpreterError, match=r"this kernel has problem, cta, smem.*\[level-at-hand\]"):
        default_kernel.interpret(**inputs, level="asm")
    with pytest.raises(InterpreterError, match=r"= 0.*\[sms-least\]"):
        default_kernel.interpret(**inputs, sms=0)
    for level in ("cta", "nvvm", "ptx"):
        with pytest.raises(
            InterpreterError, match=r"has run 8 ops and has not ended: a loop may have no end.*\[out-of-steps\]"
        ):
            default_kernel.interpret(**inputs, level=level, domain="exact", max_steps=8)
    with pytest.raises(
        InterpreterError,
        match=r"unknown number domain 'reals'; known are float, hopper, exact, field.*\[unknown-domain\]",
    ):
        default_kernel.interpret(**inputs, domain="reals")
    with pytest.raises(IRError, match=r"not a legal module: -:1:\d+: .*\[module-legal\]"):
        interpret("module {", inputs)
