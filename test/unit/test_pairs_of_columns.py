"""Pairs of columns: the spec, its reference, the IR and the manifest, schedules by default, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import PassError, ScheduleError, SpecError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.rules.rules import broken_field
from lowtide.runtime.expected import expected
from lowtide.runtime.verify import random_operands
from lowtide.targets import get
from lowtide.verification.checking.interpretation import extents_of


def biased(gate: Any, up: Any, gate_bias: lt.PerColumn, up_bias: lt.PerColumn) -> Any:
    gate, up = gate + gate_bias, up + up_bias
    return {"gate": gate, "up": up, "d": lt.silu(gate) * up}


def _spec(epilogue: Any = lt.swiglu, **fields: Any) -> lt.GemmSpec:
    return lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "pairs": "stacked", "epilogue": epilogue} | fields))


def test_b_has_two_columns_for_each_of_d() -> None:
    spec = _spec(m=64, n=48, k=32)
    assert (spec.b_shape, spec.d_shape, spec.columns) == ((96, 32), (64, 48), 96)
    assert _spec(k=32).b_shape == (None, 32) and _spec(pairs="apart", n=48).b_shape == (2, 48, None)
    assert [operand.name for operand in _spec(biased).operands] == ["gate_bias", "up_bias"]
    problem = seen_by_passes(spec, get("sm_90a"))
    assert (problem.n, problem.columns_of_d, problem.sums, problem.tile_of_d((128, 256))) == (96, 48, 2, (128, 128))


@pytest.mark.parametrize("pairs", ["stacked", "interleaved", "apart"])
@pytest.mark.parametrize("epilogue", [lt.swiglu, biased])
def test_the_reference_takes_both_columns_and_the_bound_holds_f32_arithmetic(pairs: str, epilogue: Any) -> None:
    spec, rng = _spec(epilogue, pairs=pairs, m=20, n=24, k=40), np.random.default_rng(0)
    inputs = lt.random_inputs(spec, m=None, n=None, k=None, rng=rng)
    product = inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32).reshape(48, 40).T
    gate, up = (product[:, ::2], product[:, 1::2]) if pairs == "interleaved" else (product[:, :24], product[:, 24:])
    if epilogue is biased:
        gate, up = (x + inputs[name].astype(np.float32) for x, name in ((gate, "gate_bias"), (up, "up_bias")))
    d = gate / (1 + np.exp(-gate)) * up
    values, bounds = lt.reference(spec, **inputs), lt.error_bound(spec, **inputs)
    results = {"d": d} if epilogue is lt.swiglu else {"gate": gate, "up": up, "d": d}
    for name, found in results.items():
        value, bound = (x if epilogue is lt.swiglu else x[name] for x in (values, bounds))
        assert value.shape == (20, 24)
        assert (np.abs(found - value) <= bound).all()
        assert (np.abs(np.roll(found, 1, axis=1) - value) > bound).any()  # other columns are outside
    swapped = lt.reference(_spec(lambda gate, up: lt.swiglu(up, gate), pairs=pairs), inputs["a"], inputs["b"])
    assert epilogue is biased or (np.abs(swapped - values) > bounds).any()


def test_the_spec_is_read_from_the_ir_of_each_order() -> None:
    for pairs in ("stacked", "interleaved", "apart"):
        text = problem_text(_spec(biased, pairs=pairs, m=8, n=16, k=8), get("sm_80"))
        with make_context() as context:
            found = spec_of(parse_text(text, context, "<text>")).spec
        assert (found.pairs, found.m, found.n, found.k) == (pairs, 8, 16, 8)
        assert problem_text(found, get("sm_80")) == text
        level = lt.compile_gemm(found, target="sm_80").levels["epilogue"]
        with make_context() as context:
            late = spec_of(parse_text(level, context, "<level>"))
        assert (late.spec.pairs, late.spec.n, late.whole) == (pairs, 16, False)


@pytest.mark.parametrize("pairs", ["stacked", "interleaved", "apart"])
def test_a_saved_kernel_knows_pairs_and_is_judged_by_them(pairs: str) -> None:
    kernel = lt.compile_gemm(_spec(biased, pairs=pairs), target="sm_80", schedule="grid.tile = [64, 64]")
    manifest = kernel.manifest
    assert manifest["spec"]["pairs"] == pairs
    manifest["example"] = {"m": 9, "n": 24, "k": 40}
    operands, exact = random_operands(manifest, np.random.default_rng(0))
    inputs = {name: value.values().astype(numpy_dtype("bf16")) for name, value in operands.items()}
    aligned = lt.random_inputs(_spec(biased, pairs=pairs), m=9, n=24, k=40, rng=np.random.default_rng(0))
    for name, value in inputs.items():
        aligned[name][...] = value
    found = kernel.interpret(**aligned, level="problem")
    for number, name in enumerate(("gate", "up", "d")):
        (value, *_), bound = expected(manifest, operands, exact, np.arange(9), number=number)
        assert (np.abs(np.asarray(found[name], np.float64) - value) <= bound).all()


def test_with_few_rows_the_default_tile_is_that_of_the_product_without_pairs() -> None:
    for m, k in ((128, 4096), (128, 2048)):
        pair = choose(seen_by_passes(_spec(m=m, n=14336, k=k), get("sm_90a")), get("sm_90a"), Schedule())
        plain = lt.GemmSpec(a="bf16", b="bf16", d="bf16", m=m, n=28672, k=k)
        product = choose(seen_by_passes(plain, get("sm_90a")), get("sm_90a"), Schedule())
        (high, wide), of_product = pair.schedule.grid.tile, product.schedule.grid.tile
        assert high == of_product[0] and wide == of_product[1] // 16 * 16  # of pairs, N is a multiple of 16
        assert pair.schedule.grid.cluster in (None, (1, 1)) or pair.schedule.grid.cluster[0] == 1
        assert str(pair.schedule.epilogue.path) == "tma"


@pytest.mark.parametrize(("n", "store"), [(136, None), (132, 8), (133, 2)])
def test_stores_of_groups_of_pairs_are_as_wide_as_rows_of_d(n: int, store: int | None) -> None:
    given = seen_by_passes(_spec(m=None, n=n, k=64, groups=3), get("sm_90a"))
    assert choose(given, get("sm_90a"), Schedule()).schedule.epilogue.store == store


def test_tiles_of_groups_of_pairs_are_as_high_as_without_pairs() -> None:
    """Tiles have few rows if groups have few rows."""
    for m, groups, high in ((8192, 8, 128), (1024, 64, 64)):
        pair = choose(
            seen_by_passes(_spec(m=m, n=14336, k=4096, groups=groups), get("sm_90a")), get("sm_90a"), Schedule()
        )
        plain = lt.GemmSpec(a="bf16", b="bf16", d="bf16", m=m, n=28672, k=4096, groups=groups)
        product = choose(seen_by_passes(plain, get("sm_90a")), get("sm_90a"), Schedule())
        assert pair.schedule.grid.tile[0] == product.schedule.grid.tile[0] == high
        assert str(pair.schedule.epilogue.path) == "tma"


def test_defaults_are_found_for_any_extents() -> None:
    for target in ("sm_80", "sm_90a"):
        for n, k in ((8, 16), (100, 64), (7, 3)):
            for m in (1, None):
                spec = _spec(biased, m=m, n=n, k=k)
                choice = choose(seen_by_passes(spec, get(target)), get(target), Schedule())
                assert choice.schedule.grid.tile is not None and choice.schedule.grid.tile[1] % 16 == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"epilogue": None}, "pairs-epilogue"),
        ({"epilogue": lambda gate: gate}, "pairs-accumulators"),
        ({"epilogue": lambda gate, *, up: gate}, "pairs-accumulators"),
        ({"pairs": "halves"}, "unknown-word"),
        ({"batch": 2}, "pairs-beside"),
        ({"groups": lt.Groups(2, "k"), "layout": "nt"}, "pairs-beside"),
        ({"d_order": "column"}, "pairs-beside"),
        ({"b": "s4", "group": 128}, "pairs-beside"),
        ({"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, "pairs-beside"),
        ({"d": "e4m3"}, "pairs-result"),
        ({"layout": "tt"}, "pairs-layout"),
        ({"n": 2**30}, "pairs-n"),
    ],
)
def test_a_spec_that_is_not_supported_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=rf"\[{code}\]"):
        _spec(**fields)


def test_the_second_parameter_has_no_kind() -> None:
    def with_kind(gate: Any, up: lt.Full) -> Any:
        return gate + up

    with pytest.raises(SpecError, match=r"the epilogue's second parameter, 'up', is the accumulator.*accumulator-kind"):
        _spec(with_kind)


def test_a_second_accumulator_needs_pairs() -> None:
    with pytest.raises(SpecError, match=r"'up' has no kind; .*second accumulator, use .*\[operand-kind\]"):
        _spec(pairs=None)
    with pytest.raises(SpecError, match=r"\[operand-kind\]"):
        lt.matmul(np.zeros((8, 8), np.float32), np.zeros((8, 16), np.float32), epilogue=lt.swiglu)


def test_pairs_are_not_tuned() -> None:
    with pytest.raises(SpecError, match=r"\[pairs-tuned\]"):
        lt.tune(_spec(m=64, n=64, k=64))


def test_an_odd_number_of_rows_has_no_reference() -> None:
    with pytest.raises(SpecError, match=r"b has 7 rows; pairs of columns need an even number \[reference-pairs\]"):
        lt.reference(_spec(), np.zeros((4, 8)), np.zeros((7, 8)))


@pytest.mark.parametrize(
    ("schedule", "code"),
    [
        ("grid.operands = swapped", "pairs-field"),
        ("epilogue.math = rows", "pairs-field"),
        ("epilogue.start = first_rows", "pairs-field"),
        ("grid.tile = [64, 72]", "pairs-tile"),
        ("grid.cluster = [2, 1]", "pairs-cluster"),
        ("k_division = scatter(2)", "pairs-share"),
        ("b.copy = tma.3d", "pairs-copy"),
        ("multiply.atoms = [1, 2, 2]", "pairs-warps"),
        ("grid.tile = [64, 32], multiply.atom = mma.m16n8k16, multiply.permutation = [32, 32, 16]", "pairs-step"),
    ],
)
def test_a_field_that_would_cut_pairs_is_refused(schedule: str, code: str) -> None:
    problem, target = seen_by_passes(_spec(), get("sm_90a")), get("sm_90a")
    message = broken_field(Schedule.parse(schedule), problem, target)
    assert message is not None and message.endswith(f"[{code}]")
    with pytest.raises(ScheduleError, match=rf"\[{code}\]"):
        lt.compile_gemm(_spec(), target="sm_90a", schedule=schedule)


def test_pairs_of_a_turned_problem_are_refused() -> None:
    problem = replace(seen_by_passes(_spec(), get("sm_90a")), d_is_column_major=True)
    assert "[pairs-of-columns]" in str(broken_field(Schedule(), problem, get("sm_90a")))


def test_edited_ir_that_cuts_halves_is_refused() -> None:
    kernel = lt.compile_gemm(
        _spec(), target="sm_90a", schedule="grid.tile = [64, 96], roles = cooperative(1), k = 16, stages = 2"
    )
    text = kernel.levels["pipelined"].replace("b = <copy = tma,", "b = <copy = tma.3d,")
    with pytest.raises((PassError, ScheduleError), match=r"\[(pairs-copy|halves-shared)\]"):
        lt.compile_ir(text)


def test_a_run_has_a_d_of_half_the_rows_of_b() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", pairs="stacked", epilogue=lt.swiglu)
    inputs = lt.random_inputs(spec, 24, 40, 16, np.random.default_rng(0))
    assert inputs["b"].shape == (80, 16) and extents_of(spec, inputs) == (24, 40)
