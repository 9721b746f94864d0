"""Packed weights by wgmma, as A in registers: every level, every pass that sees them, and faults that must show."""

import re

import numpy as np
import pytest
from compiled import steps_of
from test_weights import biased, domain_of, small_integers, spec_for

import lowtide as lt
from lowtide import targets
from lowtide.inspection.explain.explanation import explain_spec
from lowtide.interpreter.host import LEVELS
from lowtide.verification.checking.reference import reference

ROLES = "operands = swapped, epilogue.path = direct, roles = "
ONE = ROLES + "cooperative(1), grid.tile = [64, 16], k = 64, stages = 2"
TWO_BLOCKS = ROLES + "cooperative(1), grid.tile = [128, 8], k = 32, stages = 3"
PARTS = ROLES + "cooperative(1), grid.tile = [64, 16], k = 64, stages = 2, k_division = split(2)"
# Types of A and B, the layout, the group, the schedule, the epilogue, and whether there are zero points.
CASES = {
    "s4": ("bf16", "s4", "tn", 64, ROLES + "cooperative(2), grid.tile = [128, 8], k = 64, stages = 3", biased, False),
    "u4": ("f16", "u4", "nn", 128, TWO_BLOCKS.replace(", 8]", ", 16]"), None, True),
    "no groups": ("bf16", "s8", "tn", None, PARTS, None, False),
    "e4m3": ("f16", "e4m3", "tn", 64, ONE, None, False),
}


@pytest.mark.parametrize("case", CASES)
def test_every_level_computes_what_the_weights_say(case):
    a, b, layout, group, schedule, epilogue, zero_points = CASES[case]
    spec = spec_for(a, b, group, epilogue, zero_points=zero_points, layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
    inputs = small_integers(spec, 20, 272, 256)
    expected = reference(spec, **inputs)
    for level in LEVELS:
        d = kernel.interpret(**inputs, level=level, domain=domain_of(b), sms=2)
        np.testing.assert_array_equal(d, expected, level)


PASSES = (
    "swap-operands",
    "tile-to-ctas",
    "pipeline-mainloop",
    "bind-wgmma",
    "convert-sm-to-nvvm",
    "convert-ptx-ops-to-asm",
)


def test_each_pass_that_sees_weights_keeps_the_numbers():
    """At every trip count of the ring, and with several work tiles for each CTA."""
    spec = spec_for("bf16", "s4", 64, None, zero_points=True)
    steps = {step.name: step for step in steps_of(spec, ONE, target=targets.get("sm_90a"))}
    for steps_of_k in (1, 2, 5):
        n = 336 if steps_of_k == 2 else 64
        inputs = small_integers(spec, 12, n, 64 * steps_of_k)
        given = {"a": inputs["a"], "b": inputs["b"], "d": np.zeros((12, n), np.float32)}
        given |= {name: inputs[name] for name in ("scales", "zeros")}
        expected = reference(spec, **inputs)
        for name in PASSES:
            assert steps[name].before != steps[name].after
            for text, seed in ((steps[name].before, 0), (steps[name].after, 0), (steps[name].after, 1)):
                d = lt.interpreter.interpret(text, given, sms=2, seed=seed, domain="exact")
                np.testing.assert_array_equal(d, expected, name)


@pytest.mark.parametrize(
    ("level", "old", "new", "message"),
    [
        ("atoms", "at 0 of si4", "at 0 of ui4", "wrong"),
        ("nvvm", r"nvvm\.wgmma\.fence\.aligned", "", "put wgmma.fence before"),
        ("nvvm", r"nvvm\.fence\.proxy .*", "", "[async-proxy-reads]"),
        ("ptx", r"wgmma\.fence\.sync\.aligned;", "", "put wgmma.fence before"),
        ("ptx", r"fence\.proxy\.async\S*;", "", "[async-proxy-reads]"),
        ("ptx", r"wgmma\.wait_group\.sync\.aligned 0;", "", "touched before a wait"),
    ],
)
def test_a_planted_fault_shows(level, old, new, message):
    spec = spec_for("bf16", "s4", 64, None)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=ONE)
    text = kernel.levels[level]
    assert re.search(old, text)
    inputs = small_integers(spec, 16, 64, 256)
    given = {"a": inputs["a"], "b": inputs["b"], "d": np.zeros((16, 64), np.float32), "scales": inputs["scales"]}
    edited = re.sub(old, new, text)
    loaded = lt.interpreter.Loaded(kernel.levels["llvm"], edited) if level == "ptx" else edited
    try:
        d = lt.interpreter.interpret(loaded, given, domain="exact")
    except lt.InterpreterError as error:
        found = str(error)
    else:
        found = "wrong" if not np.array_equal(d, reference(spec, **inputs)) else "right"
    assert message in found


def test_explain_shows_the_loads_of_packed_bytes():
    found = explain_spec(spec_for("bf16", "s4", 64, None), "sm_90a", lt.Schedule.parse(ONE)).to_json()[
        "shared_accesses"
    ]
    reads = {(one["what"], one["atom"]) for one in found if one["direction"] == "read"}
    assert {("a", "ld.shared.8"), ("b", "wgmma.m64n16k16")} <= reads
