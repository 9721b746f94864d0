"""Reductions as results: their specs, what is refused, references and bounds, verdicts, and the order of their sums."""

from typing import Any

import numpy as np
import pytest
from tensor_layouts import Layout

import lowtide as lt
from lowtide import runtime
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.epilogue.results import ResultKind
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.tile import ResultKind as KindInIr
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import LoadError
from lowtide.interpreter import interpret
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.support.agents.reductions import lines_of
from lowtide.reductions import REDUCTIONS
from lowtide.runtime.verify import verify_kernel
from lowtide.targets import get
from lowtide.verification.checking.verdicts import against_exact, against_float64

_INDEX, _FLOATS = lt.PerRow["s32"], lt.PerRow["f32"]


def _sums(acc: Any) -> Any:
    return {"d": acc, "of_rows": lt.sum(acc, dim=1), "of_columns": lt.sum(acc, dim=-2), "total": lt.sum(acc)}


def _loss(acc: Any, target: _INDEX) -> Any:
    return {"d": acc, "lse": lt.logsumexp(acc, dim=-1), "wanted": lt.gather(acc, target)}


def _logarithms(acc: Any, target: _INDEX) -> Any:
    return {"lse": lt.logsumexp(acc, dim=-1), "wanted": lt.gather(acc, target)}


def _spec(epilogue: Any = _sums, **fields: Any) -> lt.GemmSpec:
    return lt.GemmSpec(**{"a": "bf16", "b": "bf16", "d": "bf16", "epilogue": epilogue} | fields)


def _squares(acc: Any, x: lt.Full) -> Any:
    return {"d": acc + x, "squares": lt.sum((acc + x) * (acc + x), dim=1)}


def _logarithms_and_sums(acc: Any, target: _INDEX) -> Any:
    return {**_logarithms(acc, target), "of_columns": lt.sum(acc, dim=0)}


def _twice(acc: Any, i: _INDEX, j: _INDEX) -> Any:
    return {"d": acc, "x": lt.gather(acc, i), "y": lt.gather(acc, j)}


def _read(acc: Any, i: _INDEX) -> Any:
    return {"d": acc + i, "x": lt.gather(acc, i)}


def _of_floats(acc: Any, i: _FLOATS) -> Any:
    return {"d": acc, "x": lt.gather(acc, i)}


def test_kinds_have_the_same_words_everywhere() -> None:
    words = {"full", "amax", "absent", *REDUCTIONS}
    assert {kind.value for kind in ResultKind} == {str(kind) for kind in KindInIr} == words


def test_a_spec_has_reductions_beside_full_results() -> None:
    spec = _spec()
    kinds = [(x.name, x.kind.value, x.dtype) for x in spec.reductions]
    assert kinds == [("of_rows", "row_sum", "f32"), ("of_columns", "column_sum", "f32"), ("total", "all_sum", "f32")]
    assert [x.kind.value for x in _spec(_loss).operands] == ["target"]


def test_arrays_are_reduced_by_numpy() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(lt.sum(x, dim=1), [3, 12]) and lt.amin(x) == 0 and np.array_equal(lt.amax(x, 0), [3, 4, 5])
    assert np.allclose(lt.logsumexp(x, dim=-1), np.log(np.exp(x).sum(1))) and np.isclose(lt.logsumexp(x), 5.456193)
    assert np.array_equal(lt.gather(x, np.array([2, 0])), [2, 3])


@pytest.mark.parametrize(
    ("epilogue", "fields", "fault"),
    [
        (lambda acc: {"d": acc, "s": lt.sum(acc, dim=2)}, {}, r"dim=2; the dimensions .*\[epilogue-traced\]"),
        (lambda acc: {"d": acc + lt.sum(acc)}, {}, r"Reduced beside a traced value.*\[epilogue-traced\]"),
        (lambda acc: {"d": acc, "s": lt.gather(acc, acc)}, {}, r"with a computed index.*\[epilogue-traced\]"),
        (_twice, {}, r"\[gather-index\]"),
        (_read, {}, r"\[gather-index\]"),
        (_of_floats, {}, r"takes its columns from 'i', per_row of f32; pass one operand .*\[gather-index\]"),
        (_sums, {"a": "f64", "b": "f64", "d": "f64"}, r"'of_rows' is a reduction in f64, .*\[reduction-type\]"),
        (_sums, {"groups": 2}, r"'of_columns' is a reduction; groups of rows support.*\[reduction-groups\]"),
        (lambda x, y: {"d": x * y, "s": lt.sum(x)}, {"pairs": "stacked"}, r"'s' is a reduction.*\[reduction-pairs\]"),
        (_sums, {"result_types": {"of_rows": "bf16"}}, r"a reduction, which is always f32.*\[reduction-result-type\]"),
        (lambda acc: {"s": lt.sum(acc)}, {"amax": True}, r"amax=True needs a full result.*\[reduction-amax\]"),
    ],
)
def test_what_is_refused(epilogue: Any, fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(lt.SpecError, match=fault):
        _spec(epilogue, **fields)


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ("roles = cooperative(1), k_division = scatter(2)", r"divides the columns of a tile.*\[reduction-scattered\]"),
        (
            "grid.tail = halves, epilogue.path = smem, epilogue.tile = [256, 64]",
            r"for each 256 rows.*\[reduction-tail\]",
        ),
        ("roles = cooperative(1), epilogue.start = first_rows", r"a reduction is of all of them.*\[reduction-start\]"),
    ],
)
def test_schedules_that_cut_tiles_are_refused(schedule: str, fault: str) -> None:
    spec = _spec(m=4096, n=4096, k=4096)
    tile = "[128, 128]" if "start" in schedule else "[256, 128]" if "tail" in schedule else "[64, 64]"
    with pytest.raises(lt.ScheduleError, match=fault):
        lt.compile_gemm(spec, target="sm_90a", schedule=f"grid.tile = {tile}, {schedule}")


def test_reductions_alone_take_no_shared_memory_and_are_returned_alone() -> None:
    spec = _spec(_logarithms)
    assert spec.full_results == () and [x.name for x in spec.returned_results] == ["lse", "wanted"]
    with pytest.raises(lt.ScheduleError, match=r"epilogue.path = smem without a full result.*\[reduction-path\]"):
        lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], epilogue.path = smem")
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64]")
    assert [x["kind"] for x in kernel.manifest["arguments"]][2] == "absent"
    loaded = runtime.Kernel(kernel.manifest, kernel.ptx)
    given = {x: runtime.Operand(4096, (64, 32), (32, 1), "bf16", 0) for x in "ab"}
    target = runtime.Operand(4096, (64,), (1,), "s32", 0)
    out = {name: runtime.Operand(4096, (64,), (1,), "f32", 0) for name in ("lse", "wanted")}
    values, returned = loaded._collect((), out, {**given, "target": target}, None)
    assert returned == out and values[2].shape == (64, 64) and values[2].strides == (64, 1)
    passed = {**given, "target": target, **out, "no_d": values[2]}
    assert all(values[i] is passed[x["name"]] for i, x in enumerate(kernel.manifest["arguments"]))


def test_a_default_holds_its_partial_results_in_registers() -> None:
    spec = _spec(_logarithms_and_sums, d_order="column")
    assert lt.compile_gemm(spec, target="sm_90a").schedule.grid.tile == (128, 128)


def test_a_tile_is_reduced_in_parts_that_divide_it() -> None:
    with pytest.raises(lt.ScheduleError, match=r"epilogue.tile N = 48 must be a multiple of .*\[part-extent\]"):
        schedule = "grid.tile = [64, 64], roles = cooperative(1), epilogue.path = direct, epilogue.tile = [64, 48]"
        lt.compile_gemm(_spec(_logarithms, m=512, n=512, k=512), target="sm_90a", schedule=schedule)


def test_lanes_that_share_a_part_of_a_line_are_refused() -> None:
    assert lines_of(Layout(((4, 8), 2), ((16, 1), 8)), (8, 8), "row").shuffles == (1, 2)
    with pytest.raises(lt.ScheduleError, match=r"either the same rows or no common row.*\[reduction-lanes\]"):
        lines_of(Layout(((24, 4), 1), ((4, 1), 0)), (4, 24), "row")
    # 48 threads hold a column of 192 rows, so two warps have some common rows.
    with pytest.raises(lt.ScheduleError, match=r"two warps, must hold .*\[reduction-lanes\]"):
        lines_of(Layout((384, (4, 4)), (4, (1, 1536))), (192, 32), "row")


@pytest.mark.parametrize(("tile", "is_legal"), [((192, 64), False), ((128, 64), True)], ids=str)
def test_a_swapped_product_reduces_the_columns_of_its_tiles(tile: tuple[int, int], is_legal: bool) -> None:
    """Some of the twelve warps of a tile of 192 rows would hold some common lines. The choice knows this rule."""
    own = seen_by_passes(_spec(_squares, m=1024, n=1024, k=512), get("sm_90a"))
    assert [each.axis for each in own.reductions] == ["row"]
    assert [each.axis for each in own.swap().reductions] == ["column"]
    given = Schedule.parse(f"grid.tile = {[*tile]}, grid.operands = swapped, roles = cooperative({tile[0] // 64})")
    if is_legal:
        assert choose(own, get("sm_90a"), given).schedule.grid.tile == tile
    else:
        with pytest.raises(lt.ScheduleError, match=r"reduction-lanes"):
            choose(own, get("sm_90a"), given)


def test_the_order_of_sums_names_reductions_and_refuses_those_over_rows() -> None:
    kernel = lt.compile_gemm(_spec(), target="sm_80", schedule="grid.tile = [64, 64]")
    order = "row_sum in tiles of 64: four chains of values 2:1 4:16, lanes 1 2 apart, 2 warps 8 apart, then one by one"
    assert order in kernel.summation
    with pytest.raises(lt.ScheduleError, match=r"column_sum is reduced over the rows of D.*\[reduction-over-rows\]"):
        lt.compile_gemm(_spec(), target="sm_80", numerics="batch_invariant")
    kernel = lt.compile_gemm(_spec(_loss, m=1), target="sm_80", numerics="batch_invariant")
    assert "row_logsumexp in tiles of" in kernel.summation


@pytest.mark.parametrize("fields", [{}, {"batch": 2, "d_order": "column"}, {"d": "e4m3"}, {"a": "s8", "b": "s8"}])
def test_a_spec_is_read_back_from_ir(fields: dict[str, Any]) -> None:
    for epilogue in (_sums, _loss, _logarithms):
        spec = _spec(epilogue, **fields)
        text = problem_text(spec, get("sm_90a"))
        with make_context() as context:
            found = spec_of(parse_text(text, context, "<problem>")).spec
        assert (found.results, found.operands) == (spec.results, spec.operands)
        assert problem_text(found, get("sm_90a")) == text


def _found(spec: lt.GemmSpec, domain: str = "float") -> tuple[dict[str, Any], dict[str, Any]]:
    inputs = lt.random_inputs(spec, 20, 24, 40, np.random.default_rng(0), batch=None)
    if domain == "exact":
        inputs = {name: np.round(np.asarray(value, "f4")).astype(int) for name, value in inputs.items()}
    return inputs, interpret(problem_text(spec, get("sm_80")), inputs, domain=domain)


@pytest.mark.parametrize(("epilogue", "fields"), [(_sums, {}), (_logarithms, {}), (_sums, {"batch": 3})])
def test_every_reduction_is_judged(epilogue: Any, fields: dict[str, Any]) -> None:
    spec = _spec(epilogue, **fields)
    inputs, found = _found(spec)
    assert against_float64(spec, inputs, found).ok
    _, bounds = lt.reference_with_bound(spec, **inputs)
    for result in spec.reductions:
        planted = {name: values.copy() for name, values in found.items()}
        planted[result.name].flat[-1] += np.float32(3 * bounds[result.name].max())
        verdict = against_float64(spec, inputs, planted)
        assert not verdict.ok and verdict.message.startswith(f"{result.name}: 1 of"), verdict


def test_reductions_are_judged_in_an_exact_domain() -> None:
    inputs, found = _found(_spec(), "exact")
    wanted = lt.reference(_spec(), **inputs)
    assert against_exact(_spec(), inputs, found, wanted).ok
    planted = found | {"of_rows": found["of_rows"] + (np.arange(20) == 7)}
    assert "of_rows: 1 of 20 elements differ" in against_exact(_spec(), inputs, planted, wanted).message


def test_bounds_hold_for_a_sum_in_the_worst_order() -> None:
    """Terms of one sign, added one by one in f32, come close to the bound of any order; the bound stays above."""
    rng = np.random.default_rng(0)
    a, b = rng.random((1, 1), np.float32), rng.random((4000, 1), np.float32)
    spec = _spec(lambda acc: {"d": acc, "s": lt.sum(acc, dim=1)}, a="f32", b="f32", d="f32")
    values, bounds = lt.reference_with_bound(spec, a, b)
    total = np.float32(0)
    for term in (a * b.T)[0]:
        total += term
    assert 0.0 < abs(total - values["s"][0]) < bounds["s"][0] < 4000 * 2.0**-24 * values["s"][0] * 1.1


def test_a_saved_kernel_takes_and_gives_reductions() -> None:
    kernel = lt.compile_gemm(_spec(_loss, m=16, n=24, k=40), target="sm_80")
    loaded = runtime.Kernel(kernel.manifest, kernel.ptx)
    kinds = {x["name"]: (x["role"], x["kind"], x["shape"]) for x in kernel.manifest["arguments"][2:]}
    assert kinds["lse"] == ("output", "row_logsumexp", [16]) and kinds["target"] == ("input", "target", [16])
    assert loaded.workspace_bytes is not None and [op["op"] for op in kernel.manifest["host"]].count("tile.launch") == 3
    with pytest.raises(LoadError, match=r"the result lse is a reduction.*\[verify-reduction\]"):
        verify_kernel(loaded)
