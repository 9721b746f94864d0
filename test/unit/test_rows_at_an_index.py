"""Rows of A, and of D, at an index: what a spec refuses, and the schedules that take them."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, SpecError
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.schedules.rules.placed_rows import WITH_PLACED_ROWS
from lowtide.passes.schedules.rules.taken_rows import WITH_TAKEN_ROWS
from lowtide.targets import get

TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}


def named(acc, a_rows: lt.PerRow):
    return acc + a_rows


def named_places(acc, d_rows: lt.PerRow):
    return acc + d_rows


def residual(acc, c: lt.Full):
    return acc + c


def column_sums(acc):
    return {"d": acc, "sums": lt.sum(acc, dim=0)}


def sums_alone(acc):
    return {"sums": lt.sum(acc, dim=1)}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"a_rows": 3}, "rows-word"),
        ({"batch": 2}, "a-rows-beside"),
        ({"layout": "nn"}, "a-rows-beside"),
        ({"d_order": "column"}, "a-rows-beside"),
        ({"groups": lt.Groups(2, "k"), "layout": "nt"}, "a-rows-beside"),
        ({"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, "a-rows-beside"),
        ({"epilogue": named}, "a-rows-operand-name"),
    ],
)
def test_a_spec_that_is_not_supported_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=rf"\[{code}\]"):
        lt.GemmSpec(**(TYPES | {"a_rows": True} | fields))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"d_rows": None}, "rows-word"),
        ({"batch": 2}, "d-rows-beside"),
        ({"d_order": "column"}, "d-rows-beside"),
        ({"groups": lt.Groups(2, "k"), "layout": "nt"}, "d-rows-beside"),
        ({"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3"}, "d-rows-beside"),
        ({"amax": True}, "d-rows-beside"),
        ({"epilogue": column_sums}, "result sums are not supported.*d-rows-beside"),
        ({"epilogue": sums_alone}, "reductions alone|the result .*d-rows-beside"),
        ({"epilogue": named_places}, "d-rows-operand-name"),
    ],
)
def test_a_spec_that_does_not_support_rows_of_d_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=rf"{code}\]"):
        lt.GemmSpec(**(TYPES | {"d_rows": True} | fields))


def test_d_has_any_number_of_rows_and_the_index_m_elements() -> None:
    spec = lt.GemmSpec(m=90, n=24, k=40, **TYPES, a_rows=True, d_rows=True, epilogue=residual)
    assert (spec.a_shape, spec.d_shape) == ((None, 40), (None, 24))
    kernel = lt.compile_gemm(spec, "sm_80")
    shapes = {x["name"]: x["shape"] for x in kernel.manifest["arguments"]}
    own = {"a": [None, 40], "b": [24, 40], "d": [None, 24], "c": [90, 24], "a_rows": [90], "d_rows": [90]}
    assert shapes == own
    assert (kernel.manifest["spec"]["m"], kernel.manifest["spec"]["d_rows"]) == (90, True)
    again = lt.compile_ir(kernel.levels["cta"])
    assert again.ptx == kernel.ptx and again.manifest["spec"] == kernel.manifest["spec"]


def test_a_has_any_number_of_rows() -> None:
    spec = lt.GemmSpec(m=90, k=40, **TYPES, a_rows=True)
    assert (spec.a_shape, spec.d_shape) == ((None, 40), (90, None))
    given = lt.random_inputs(spec, None, 24, None, np.random.default_rng(0))
    assert given["a"].shape == (46, 40) and given["a_rows"].shape == (90,)
    exists = (given["a_rows"] >= 0) & (given["a_rows"] < 46)
    assert not exists.all() and exists.any()
    assert ((lt.reference(spec, **given) != 0).all(axis=1) == exists).all()


@pytest.mark.parametrize("groups", [lt.UNGROUPED, 8])
def test_threads_copy_the_rows_beside_tma_for_b(groups: Any) -> None:
    spec = lt.GemmSpec(m=8192, n=4096, k=2048, groups=groups, **TYPES, a_rows=True)
    found = choose(seen_by_passes(spec, get("sm_90a")), get("sm_90a"), Schedule()).schedule
    assert (found.mainloop.a.copy, found.mainloop.b.copy) == ("cp.async.16", "tma")
    assert found.multiply.atom is not None and found.multiply.atom.startswith("wgmma")
    assert str(found.epilogue.path) == "tma"


@pytest.mark.parametrize(("n", "store"), [(4096, None), (4100, 8), (4097, 2)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_threads_store_rows_of_d_as_wide_as_a_contiguous_d_allows(target: str, n: int, store: int | None) -> None:
    spec = lt.GemmSpec(m=8192, n=n, k=2048, groups=8, **TYPES, d_rows=True)
    found = choose(seen_by_passes(spec, get(target)), get(target), Schedule()).schedule
    assert (str(found.epilogue.path), found.epilogue.store, found.epilogue.pack) == ("smem", store, None)


REFUSED = {
    "grid.operands": "swapped",
    "grid.cluster": "[2, 1]",
    "grid.tail": "halves",
    "grid.k_division": "split(2)",
    "mainloop.prologue": "once",
    "mainloop.a.load": "once",
    "mainloop.a.copy": "tma",
}


REFUSED_FOR_D = {
    "grid.operands": "swapped",
    "grid.k_division": "split(2)",
    "epilogue.path": "tma",
    "epilogue.start": "first_rows",
    "epilogue.pack": "rows",
}


@pytest.mark.parametrize("path", WITH_PLACED_ROWS)
def test_a_field_that_does_not_support_rows_of_d_is_refused(path: str) -> None:
    spec, given = lt.GemmSpec(**TYPES, d_rows=True), Schedule.parse(f"{path} = {REFUSED_FOR_D[path]}")
    with pytest.raises(ScheduleError, match=rf"{path.rpartition('.')[2]}.*take .*\[placed-rows-field\]"):
        choose(seen_by_passes(spec, get("sm_90a")), get("sm_90a"), given)


@pytest.mark.parametrize("path", WITH_TAKEN_ROWS)
def test_a_field_that_is_not_supported_is_refused(path: str) -> None:
    spec, given = lt.GemmSpec(**TYPES, a_rows=True), Schedule.parse(f"{path} = {REFUSED[path]}")
    with pytest.raises(ScheduleError, match=rf"{path.rpartition('.')[2]}.*\[taken-rows-field\]"):
        choose(seen_by_passes(spec, get("sm_90a")), get("sm_90a"), given)


def test_tuning_is_refused() -> None:
    for fields in ({"a_rows": True}, {"d_rows": True}, {"groups": 2}, {"batch": 2, "counts": True}):
        with pytest.raises(SpecError, match=r"\[rows-tuned\]"):
            lt.tune(lt.GemmSpec(m=64, n=64, k=64, **TYPES, **fields))
