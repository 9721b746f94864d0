"""K turned around (`mainloop.k_order = serpentine`): each K step of a tile is added once, in either direction."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec, steps_of
from planting import Fault

from lowtide import targets
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, Report, interpret

SPEC = spec()
ONE = "grid.tile = [64, 16], order = row, k = 32, stages = 2, roles = cooperative(1), k_order = serpentine"
SCHEDULES = {
    "persistent": ONE,
    "even_split": f"{ONE}, scheduler = even_split",
    "halves": ONE.replace("[64, 16]", "[128, 16]") + ", tail = halves",
    "parts of K": f"{ONE}, k_division = tail(2)",
    "stream-K": f"{ONE}, k_division = stream_k",
    "clusters": f"{ONE}, cluster = [2, 1]",
    "turns": ONE.replace("cooperative(1)", "pingpong(2)"),
    "waves in step": f"{ONE}, waves = synchronized",
    "copies by threads": ONE.replace("[64, 16]", "[64, 32]") + ", a.copy = staged.16, b.copy = staged.16",
}
INPUTS = inputs_of(SPEC, 300, 40, 104)  # 15 tiles, or 9; four K steps, the last of which is ragged


@cache
def levels(name: str) -> dict[str, str]:
    return levels_of(SPEC, SCHEDULES[name], "sm_90a")


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("sms", [1, 2, 4])
def test_each_k_step_is_added_once(name: str, sms: int) -> None:
    texts = levels(name)
    for level in ("pipelined", "epilogue", "nvvm") if sms == 2 else ("pipelined", "epilogue"):
        d = interpret(texts[level], INPUTS, sms=sms, seed=sms, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


def test_sums_of_one_direction_differ_in_rounding_alone() -> None:
    """Of random reals the tiles that are turned around have other bits than those taken forward."""
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(INPUTS[name].shape).astype(ml_dtypes.bfloat16) for name in ("a", "b")}
    wide = spec(d="f32")
    found = {}
    for order in ("forward", "serpentine"):
        steps = steps_of(wide, ONE.replace("serpentine", order), targets.get("sm_90a"))
        text = {str(step.level): step.after for step in steps}["epilogue"]
        d = np.zeros((300, 40), np.float32)
        found[order] = interpret(text, dict(inputs, d=d), sms=1, domain="float")
    differ = found["forward"] != found["serpentine"]
    tiles = np.add.reduceat(np.add.reduceat(differ, range(0, 300, 64), 0), range(0, 40, 16), 1).ravel()
    assert not tiles[::2].any()
    assert tiles[1::2].all()
    np.testing.assert_allclose(found["forward"], found["serpentine"], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("step", "planted"),
    [
        (r"^( *%\w+ = arith\.subi %\w+), (%\w+) : index\n( *%\w+ = arith\.subi)", r"\1, %c0 : index\n\3"),
        (r"(arith\.select %\w+, %arg\w+), %\w+ : index", r"\1, %c0 : index"),
    ],
    ids=["one step past the last", "the first step again and again"],
)
def test_a_step_that_is_taken_twice_or_not_at_all_is_found(step: str, planted: str) -> None:
    text = Fault("", "pipelined", step, planted, "").plant(levels("persistent")["pipelined"])
    try:
        d = interpret(text, INPUTS, sms=1, domain="exact")
    except InterpreterError:
        return
    right = expected(SPEC, INPUTS)
    np.testing.assert_array_equal(d[:64, :16], right[:64, :16])  # the first tile goes forward
    assert np.any(d[:64, 16:32] != right[:64, 16:32])


def test_k_turned_around_holds_for_every_order_of_agents_down_to_ptx() -> None:
    texts = levels("halves")
    lowered = CompiledKernel(lower(texts["llvm"], target="sm_90a")).levels
    for loaded in (Loaded(texts["nvvm"]), Loaded(texts["llvm"]), Loaded(lowered["llvm"], lowered["ptx"])):
        report = Report()
        interpret(loaded, INPUTS, domain="exact", report=report)
        assert report.holds and report.kernels, str(report)
